"""vLLM alone: every version finds its signals under whatever name they had, and says why the others are not there."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from obs_exporter.exposition import parse
from obs_exporter.schema import Histogram, Scalar, State
from obs_exporter.stacks import STACKS, Claims, Known, Reading, expectation, read_page
from obs_exporter.stacks.catalogue import Catalogue
from obs_exporter.stacks.model import Point

Read = Callable[..., Reading]
PREEMPTING = "vllm/0.32.0-real-preempting/after"


def _scalar(reading: Reading, signal: str) -> float:
    (series,) = reading.answer(signal).series
    assert isinstance(series, Scalar)
    return series.value


def _histogram(reading: Reading, signal: str) -> Histogram:
    (series,) = reading.answer(signal).series
    assert isinstance(series, Histogram)
    return series


def _values(reading: Reading) -> dict[str, object]:
    return {answer.signal.id: answer.series for answer in reading.answers}


def test_a_preempting_engine(read: Read) -> None:
    reading = read("vllm", PREEMPTING)
    assert _scalar(reading, "preemptions") == 19
    queue = _histogram(reading, "queue_wait")
    assert queue.count == 64
    assert queue.sum == pytest.approx(252.77, abs=0.01)
    assert _scalar(reading, "kv_cache_capacity") == 768
    assert reading.generation == "V1"
    assert "0.32.0" in reading.engine_version.candidates


def test_kv_cache_usage_while_it_is_full(read: Read, page: Callable[[str], bytes]) -> None:
    name = "vllm/0.32.0-real-preempting/during-3"
    match = re.search(rb"^vllm:kv_cache_usage_perc\{[^}]*\} (\S+)$", page(name), re.MULTILINE)
    assert match
    assert _scalar(read("vllm", name), "kv_cache_usage") == float(match.group(1)) > 0.9


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("0.5.5-rendered/v0-load", "gpu_cache_usage_perc"),
        ("0.7.2-rendered/v0-load", "gpu_cache_usage_perc"),
        ("0.7.2-rendered/v1-load", "gpu_cache_usage_perc"),
        ("0.8.5-rendered/v1-load", "gpu_cache_usage_perc"),
        ("0.11.2-rendered/v1-load", "kv_cache_usage_perc"),
        ("0.20.0-rendered/v1-load", "kv_cache_usage_perc"),
        ("0.33.0-rendered/v1-load", "kv_cache_usage_perc"),
    ],
)
def test_kv_cache_usage_under_the_name_of_its_version(read: Read, folder: str, name: str) -> None:
    answer = read("vllm", f"vllm/{folder}").answer("kv_cache_usage")
    assert (answer.state, answer.native_name) == (State.NATIVE, f"vllm:{name}")
    assert answer.series


@pytest.mark.parametrize("version", ["", "0.5.5"])
def test_what_a_version_never_had_is_never_not_lost(read: Read, version: str) -> None:
    answer = read("vllm", "vllm/0.5.5-rendered/v0-load", engine_version=version).answer("queue_wait")
    assert answer.state is State.NEVER
    assert "0.6.4" in answer.reason


def test_v0_that_has_finished_nothing_is_idle_not_lost(read: Read) -> None:
    reading = read("vllm", "vllm/0.7.2-rendered/v0-idle", engine_version="0.7.2")
    assert reading.generation == "V0"
    assert reading.answer("queue_wait").state is State.IDLE
    assert reading.answer("ttft").state is State.IDLE


def test_the_same_idle_page_without_a_version_names_the_versions_that_fit(read: Read) -> None:
    reading = read("vllm", "vllm/0.7.2-rendered/v0-idle")
    assert len(reading.engine_version.candidates) > 5
    assert " to " in str(reading.engine_version)


def test_per_gap_and_per_request_are_kept_apart(read: Read) -> None:
    old = read("vllm", "vllm/0.8.5-rendered/v1-load")
    assert old.answer("inter_token_latency").native_name == "vllm:time_per_output_token_seconds"
    assert old.answer("time_per_output_token").state is State.NEVER
    new = read("vllm", PREEMPTING)
    assert new.answer("inter_token_latency").native_name == "vllm:inter_token_latency_seconds"
    assert new.answer("time_per_output_token").native_name == "vllm:request_time_per_output_token_seconds"


def test_hidden_by_deprecation_names_the_exact_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    run = {"engine": "V1", "first": "0.12.0", "last": "0.12.0", "status": "hidden", "switch": "x", "note": ""}
    families = {"num_preemptions_total": {"type": "counter", "runs": [run]}}
    small = Catalogue({"releases": ["0.12.0"], "families": families})
    monkeypatch.setattr(expectation, "catalogue", lambda: small)
    answer = expectation.expect.__wrapped__(STACKS["vllm"], "preemptions", Point("", "0.12.0", "V1"))
    assert answer.state is State.HIDDEN
    assert "--show-hidden-metrics-for-version=0.11" in answer.remedy


def _lines(body: bytes) -> list[bytes]:
    return body.splitlines(keepends=True)


def test_prefix_cache_counts_carry_their_unit(read: Read) -> None:
    blocks = read("vllm", "vllm/0.8.5-rendered/v1-load", engine_version="0.8.5").answer("prefix_cache_queries")
    tokens = read("vllm", PREEMPTING).answer("prefix_cache_queries")
    assert dict(blocks.series[0].labels)["unit"] == "blocks"
    assert dict(tokens.series[0].labels)["unit"] == "tokens"


def test_stats_switched_off_are_hidden_by_the_flag(read: Read) -> None:
    reading = read("vllm", "vllm/0.32.0-real-no-log-stats/after")
    answer = reading.answer("preemptions")
    assert answer.state is State.HIDDEN
    assert "--disable-log-stats" in answer.remedy
    assert all(not answer.series for answer in reading.answers)


# -- the same page, spelled in other ways ------------------------------------------------------------------------------


def test_underscores_in_place_of_colons_change_no_value(read: Read, page: Callable[[str], bytes]) -> None:
    body = page(PREEMPTING)
    mangled = body.replace(b"vllm:", b"vllm_")
    only_samples = re.sub(rb"^vllm:", b"vllm_", body, flags=re.MULTILINE)
    for changed in (mangled, only_samples):
        reading = read("vllm", changed)
        assert _values(reading) == _values(read("vllm", body))
        assert reading.answer("preemptions").state is State.RENAMED
        assert reading.answer("preemptions").native_name == "vllm_num_preemptions_total"
        assert "renamed_by_negotiation" in {oddity.code for oddity in reading.oddities}


def test_twins_are_one_source_and_a_finding(read: Read, page: Callable[[str], bytes]) -> None:
    body = page(PREEMPTING)
    reading = read("kserve", body + body.replace(b"vllm:", b"kserve_vllm:"))
    assert _values(reading) == _values(read("kserve", body))
    answer = reading.answer("preemptions")
    assert (answer.native_name, answer.also) == ("vllm:num_preemptions_total", ("kserve_vllm:num_preemptions_total",))
    assert "doubled" in {oddity.code for oddity in reading.oddities}


def test_created_companions_change_nothing(read: Read, page: Callable[[str], bytes]) -> None:
    body = page(PREEMPTING)
    without = b"".join(line for line in _lines(body) if b"_created" not in line)
    assert len(without) < len(body)
    assert read("vllm", without).answers == read("vllm", body).answers


# -- what is wrong with a page -----------------------------------------------------------------------------------------


def test_a_counter_that_was_dropped_on_the_way_is_lost(read: Read, page: Callable[[str], bytes]) -> None:
    body = b"".join(line for line in _lines(page("vllm/0.20.0-rendered/v1-load")) if b"num_preemptions" not in line)
    answer = read("vllm", body).answer("preemptions")
    assert (answer.state, answer.series) == (State.LOST, ())
    assert "dropped on the way" in answer.reason


def test_an_old_name_on_a_new_engine_is_renamed_and_a_finding(read: Read, page: Callable[[str], bytes]) -> None:
    body = page("vllm/0.20.0-rendered/v1-load").replace(b"vllm:kv_cache_usage_perc", b"vllm:gpu_cache_usage_perc")
    reading = read("vllm", body)
    assert reading.answer("kv_cache_usage").state is State.RENAMED
    assert [oddity.code for oddity in reading.oddities] == ["foreign_version_name"]


def test_a_ratio_in_percent_is_not_published(read: Read) -> None:
    body = b'# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{engine="0",model_name="m"} 97\n'
    reading = read("vllm", body, engine_version="0.32.0")
    assert reading.answer("kv_cache_usage").state is State.LOST
    assert "97" in reading.answer("kv_cache_usage").reason
    assert "out_of_range" in {oddity.code for oddity in reading.oddities}


def test_a_counter_declared_as_a_gauge_family_of_another_kind_is_refused(read: Read) -> None:
    body = b'# TYPE vllm:num_requests_running counter\nvllm:num_requests_running{engine="0",model_name="m"} 7\n'
    reading = read("vllm", body, engine_version="0.32.0")
    assert reading.answer("requests_running").state is State.LOST
    assert "wrong_type" in {oddity.code for oddity in reading.oddities}


def test_a_retyped_counter_is_read_and_noted(read: Read, page: Callable[[str], bytes]) -> None:
    body = page(PREEMPTING).replace(
        b"# TYPE vllm:num_preemptions_total counter", b"# TYPE vllm:num_preemptions_total gauge"
    )
    reading = read("vllm", body)
    assert _scalar(reading, "preemptions") == 19
    assert "retyped" in {oddity.code for oddity in reading.oddities}


def test_a_histogram_without_its_sum_is_not_published(read: Read, page: Callable[[str], bytes]) -> None:
    lines = _lines(page(PREEMPTING))
    body = b"".join(line for line in lines if not line.startswith(b"vllm:request_queue_time_seconds_sum"))
    reading = read("vllm", body)
    assert reading.answer("queue_wait").state is State.LOST
    assert "incomplete_histogram" in {oddity.code for oddity in reading.oddities}


def test_a_version_that_contradicts_the_page_is_noted(read: Read) -> None:
    reading = read("vllm", "vllm/0.20.0-rendered/v1-load", engine_version="0.7.2")
    assert "version_mismatch" in {oddity.code for oddity in reading.oddities}
    assert read("vllm", "vllm/0.20.0-rendered/v1-load", engine_version="0.20.0").oddities == ()


def test_a_routers_own_view_is_not_the_engine(read: Read) -> None:
    body = b'# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{server="http://a:8000"} 3\n'
    assert "router" in read("vllm", body).problem


def test_engines_stay_apart_and_the_only_model_is_filled_in(read: Read) -> None:
    body = (
        b"# TYPE vllm:num_requests_running gauge\n"
        b'vllm:num_requests_running{engine="0",model_name="m"} 1\n'
        b'vllm:num_requests_running{engine="1",model_name="m"} 2\n'
        b"# TYPE vllm:cache_config_info gauge\n"
        b'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="200"} 1\n'
        b'vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="200"} 1\n'
    )
    reading = read("vllm", body, engine_version="0.20.0")
    assert [series.labels for series in reading.answer("requests_running").series] == [
        (("engine", "0"), ("model", "m")), (("engine", "1"), ("model", "m")),
    ]  # fmt: skip
    capacity = reading.answer("kv_cache_capacity")
    assert capacity.state is State.DERIVED
    assert [series.value for series in capacity.series if isinstance(series, Scalar)] == [1600.0, 1600.0]
    assert dict(capacity.series[0].labels)["model"] == "m"


# -- what a page can say wrongly ---------------------------------------------------------------------------------------


def test_the_help_text_is_surer_than_the_version(read: Read) -> None:
    reading = read("vllm", "vllm/0.8.5-rendered/v1-load")
    assert len(reading.engine_version.candidates) > 1
    assert dict(reading.answer("prefix_cache_queries").series[0].labels)["unit"] == "blocks"
    assert (
        dict(read("vllm", "vllm/0.9.2-rendered/v1-load").answer("prefix_cache_hits").series[0].labels)["unit"]
        == "tokens"
    )


@pytest.mark.parametrize("value", [b"-5", b"NaN", b"+Inf"])
def test_a_sum_that_cannot_be_is_refused(read: Read, page: Callable[[str], bytes], value: bytes) -> None:
    body = re.sub(rb"(vllm:request_queue_time_seconds_sum\{[^}]*\}) \S+", rb"\1 " + value, page(PREEMPTING))
    reading = read("vllm", body)
    assert reading.answer("queue_wait").state is State.LOST
    assert "out_of_range" in {oddity.code for oddity in reading.oddities}


_USAGE = rb"(vllm:kv_cache_usage_perc\{[^}]*\}) \S+"


@pytest.mark.parametrize("name", ["vllm/0.32.0-real/during", "vllm/0.32.0-real/after"])
def test_nan_on_an_engine_that_works_or_worked_is_no_idle_signal(
    name: str, read: Read, page: Callable[[str], bytes]
) -> None:
    reading = read("vllm", re.sub(_USAGE, rb"\1 NaN", page(name)))
    answer = reading.answer("kv_cache_usage")
    assert (answer.state, answer.series) == (State.LOST, ())
    assert "kv_cache_usage_perc shows NaN" in answer.reason
    assert [oddity.signal for oddity in reading.oddities if oddity.code == "out_of_range"] == ["kv_cache_usage"]


def test_nan_on_an_engine_that_never_worked_is_idle_and_says_nan(read: Read, page: Callable[[str], bytes]) -> None:
    reading = read("vllm", re.sub(_USAGE, rb"\1 NaN", page("vllm/0.32.0-real/idle")))
    answer = reading.answer("kv_cache_usage")
    assert answer.state is State.IDLE
    assert "shows NaN" in answer.reason
    assert not reading.oddities


def test_nan_of_one_engine_beside_a_value_of_another_is_said(read: Read) -> None:
    body = (
        b"# TYPE vllm:num_requests_running gauge\n"
        b'vllm:num_requests_running{engine="0",model_name="m"} 1\n'
        b'vllm:num_requests_running{engine="1",model_name="m"} NaN\n'
    )
    reading = read("vllm", body, engine_version="0.32.0")
    assert _scalar(reading, "requests_running") == 1
    assert ["NaN" in oddity.message for oddity in reading.oddities] == [True]


def test_a_count_that_contradicts_the_buckets_is_refused(read: Read, page: Callable[[str], bytes]) -> None:
    body = re.sub(rb"(vllm:request_queue_time_seconds_count\{[^}]*\}) \S+", rb"\1 99", page(PREEMPTING))
    reading = read("vllm", body)
    assert not reading.answer("queue_wait").series
    assert "out_of_range" in {oddity.code for oddity in reading.oddities}


def test_one_series_twice_with_different_values_is_noted(read: Read) -> None:
    line = b'vllm:num_requests_running{engine="0",model_name="m"} '
    body = b"# TYPE vllm:num_requests_running gauge\n" + line + b"1\n" + line + b"2\n"
    reading = read("vllm", body, engine_version="0.32.0")
    assert _scalar(reading, "requests_running") == 2
    assert "duplicate_series" in {oddity.code for oddity in reading.oddities}
    same = read("vllm", body.replace(b"} 2", b"} 1"), engine_version="0.32.0")
    assert "duplicate_series" not in {oddity.code for oddity in same.oddities}


def test_names_behind_a_relabelling_alone_are_a_finding(read: Read, page: Callable[[str], bytes]) -> None:
    reading = read("kserve", page(PREEMPTING).replace(b"vllm:", b"kserve_vllm:"))
    assert reading.answer("preemptions").state is State.RENAMED
    assert [oddity.code for oddity in reading.oddities] == ["renamed_by_relabelling"]


def test_twins_are_one_finding_with_a_remedy(read: Read, page: Callable[[str], bytes]) -> None:
    body = page(PREEMPTING)
    doubled = [
        o for o in read("kserve", body + body.replace(b"vllm:", b"kserve_vllm:")).oddities if o.code == "doubled"
    ]
    assert len(doubled) == 1
    assert doubled[0].remedy


@pytest.mark.parametrize(("version", "word"), [("99.0", "newer"), ("0.1.0", "older")])
def test_a_version_outside_the_tables_is_noted(read: Read, version: str, word: str) -> None:
    reading = read("vllm", PREEMPTING, engine_version=version)
    assert any(word in oddity.message for oddity in reading.oddities if oddity.code == "unknown_version")


def test_an_answer_to_version_tells_a_vllm_without_stats_from_another_program(page: Callable[[str], bytes]) -> None:
    stack = STACKS["vllm"]
    body = b"# TYPE python_info gauge\npython_info 1\n# TYPE process_open_fds gauge\nprocess_open_fds 1\n"
    parsed = parse(body, stack.wanted())
    assert not read_page(stack, parsed, Claims()).reachable
    told = read_page(stack, parsed, Claims(engine_version=Known(("0.32.0",), "/version")))
    assert told.answer("preemptions").state is State.HIDDEN


def test_the_rust_front_end_never_had_what_it_lacks(read: Read, page: Callable[[str], bytes]) -> None:
    dropped = (
        "cache_config_info",
        "engine_sleep_state",
        "mm_cache_",
        "admission_rejections",
        "python_",
        "process_",
        "_created",
    )
    lines = page("vllm/0.33.0-rendered/v1-load").decode().splitlines(keepends=True)
    body = "".join(line for line in lines if not any(word in line for word in dropped)).encode() + b"# EOF\n"
    reading = read("vllm", body)
    assert reading.generation == "rust"
    assert reading.answer("kv_cache_capacity").state is State.NEVER
