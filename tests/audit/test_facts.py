"""Verdicts and remedies on real pages and real versions are those of the facts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from obs_audit.evidence import Bundle, Given, interpret
from obs_audit.findings import Severity
from obs_audit.inventory import explained
from obs_audit.verdict import Asked, Report, judge
from obs_exporter.schema import Precision, State

PageOf = Callable[[str], bytes]
Judge = Callable[..., Report]
ANY = Asked(fail_on="any")


def states(report: Report) -> dict[str, State]:
    return {answer.signal.id: answer.state for answer in report.reading.answers}


def paper(stack: str, version: str, asked: Asked | None = None) -> Report:
    given = Given(stack, engine_version=version) if stack == "vllm" else Given(stack, version)
    return judge(interpret(Bundle(given)), asked)


def found(report: Report) -> set[tuple[str, str]]:
    return {(f.check, f.signal) for f in report.findings if f.severity >= Severity.WARNING}


# -- the five broken inputs that other tools call healthy -----------------------------------------------------------


def broken(page: bytes, page_of: PageOf) -> dict[str, bytes]:
    lines = page.splitlines(keepends=True)
    return {
        "no preemption counter": b"".join(line for line in lines if b"num_preemptions" not in line),
        "KV usage renamed": page.replace(b"kv_cache_usage_perc", b"gpu_cache_usage_perc"),
        "Ray's page": page_of("ray/2.44.1-serve/after.txt"),
        "Triton's page": page_of("triton/24.10-python-model/after.txt"),
        "an empty 200": b"",
    }


def test_five_broken_inputs_get_five_different_verdicts_and_all_fail(page_of: PageOf, verdict: Judge) -> None:
    page = page_of("vllm/0.20.0-rendered/v1-load.txt")
    whole = verdict("vllm", page, engine_version="0.20.0", asked=ANY)
    reports = {
        name: verdict("vllm", body, engine_version="0.20.0", asked=ANY) for name, body in broken(page, page_of).items()
    }
    assert all(report.exit_code != 0 for report in reports.values())
    new = {name: found(report) - found(whole) for name, report in reports.items()}
    assert new["no preemption counter"] == {("signal_lost", "preemptions")}
    assert new["KV usage renamed"] == {("foreign_version_name", "kv_cache_usage")}
    assert new["Ray's page"] == {("wrong_stack", "")}
    assert new["Triton's page"] == {("wrong_stack", "")}
    assert new["an empty 200"] == {("empty_page", "")}
    messages = {name: tuple(f.message for f in report.findings) for name, report in reports.items()}
    assert len(set(messages.values())) == 5
    assert "Ray Serve" in messages["Ray's page"][0]
    assert "Triton" in messages["Triton's page"][0]


def test_a_renamed_kv_usage_keeps_its_value_and_a_missing_counter_has_none(page_of: PageOf, verdict: Judge) -> None:
    page = page_of("vllm/0.20.0-rendered/v1-load.txt")
    renamed = verdict("vllm", broken(page, page_of)["KV usage renamed"], engine_version="0.20.0")
    assert renamed.reading.answer("kv_cache_usage").series
    missing = verdict("vllm", broken(page, page_of)["no preemption counter"], engine_version="0.20.0")
    assert missing.reading.answer("preemptions").state is State.LOST
    assert "num_preemptions" in missing.reading.answer("preemptions").reason


# -- counting ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "engine_families", "type_lines"),
    [
        ("vllm/0.5.5-rendered/v0-load.txt", 21, 21),
        ("vllm/0.7.2-rendered/v0-load.txt", 27, 27),
        ("vllm/0.20.0-rendered/v1-load.txt", 36, 66),
        ("ray/2.60.0-llm-direct-streaming-metrics-off/port8000.txt", 36, 66),
    ],
)
def test_families_are_counted_without_companions(
    page: str, engine_families: int, type_lines: int, page_of: PageOf, verdict: Judge
) -> None:
    counts = verdict("vllm", page_of(page)).counts
    assert counts is not None
    assert (counts.engine_families, counts.engine_type_lines) == (engine_families, type_lines)
    assert counts.engine_type_lines - counts.engine_families == counts.created


def test_the_report_says_why_others_count_66_and_15(page_of: PageOf, verdict: Judge) -> None:
    newer = verdict("vllm", page_of("vllm/0.20.0-rendered/v1-load.txt"))
    assert newer.counts is not None
    (why,) = explained(newer.counts, newer.reading)
    assert "66" in why
    assert "30 of them are _created" in why
    older = verdict("vllm", page_of("vllm/0.7.2-rendered/v0-load.txt"), engine_version="0.7.2")
    assert older.counts is not None
    reasons = explained(older.counts, older.reading)
    assert any("13 when idle and 15 while no request has finished" in reason for reason in reasons)
    assert any("registers 35" in reason for reason in reasons)


# -- Ray Serve --------------------------------------------------------------------------------------------------


def test_ray_2_44_publishes_what_ray_counts_itself_and_names_the_unit_trap(page_of: PageOf, verdict: Judge) -> None:
    report = verdict("ray-serve", page_of("ray/2.44.1-llm-standin-engine/after.txt"))
    assert states(report)["queue_wait"] is State.RENAMED
    assert states(report)["preemptions"] is State.LOST
    assert ("misleading_name", "queue_wait") in found(report)
    assert "_EngineBackgroundProcess" in report.reading.answer("kv_cache_usage").remedy
    assert "2.51" in report.reading.answer("preemptions").remedy


@pytest.mark.parametrize("version", ["2.49.2", "2.50.1"])
def test_the_darkest_ray_hides_every_engine_signal_behind_one_switch(version: str) -> None:
    report = paper("ray-serve", version)
    engine = [a for a in report.reading.answers if not a.signal.layer and not a.signal.id.startswith("gpu")]
    assert {a.state for a in engine} == {State.HIDDEN, State.NEVER}
    switch = "set log_engine_metrics: true in the LLMConfig and redeploy (needs the V1 engine)"
    assert {a.remedies for a in engine if a.state is State.HIDDEN} == {switch}
    assert all(a.cost for a in engine if a.state is State.HIDDEN)


@pytest.mark.parametrize(("version", "precision"), [("2.51.1", Precision.EXACT), ("2.52.1", Precision.BUCKET)])
def test_ray_2_51_renames_and_2_52_rebuilds_sums(version: str, precision: Precision) -> None:
    report = paper("ray-serve", version)
    assert states(report)["preemptions"] is State.RENAMED
    assert report.reading.answer("ttft").precision is precision
    assert (("bucket_sums", "") in found(report)) is (precision is Precision.BUCKET)


@pytest.mark.parametrize(("version", "loud"), [("2.51.1", False), ("2.55.1", True), ("2.60.0", False)])
def test_only_ray_2_52_to_2_56_is_blamed_for_clearing_gauges(version: str, loud: bool) -> None:
    assert (("vanishing_gauges", "") in found(paper("ray-serve", version))) is loud


def test_ray_2_60_with_metrics_off_names_the_switch_and_direct_streaming(page_of: PageOf, verdict: Judge) -> None:
    report = verdict("ray-serve", page_of("ray/2.60.0-llm-vllm0.29.0-metrics-off/after.txt"))
    answer = report.reading.answer("preemptions")
    assert answer.state is State.HIDDEN
    assert "log_engine_metrics: true" in answer.remedy
    assert "RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING=1" in answer.remedy


def test_direct_streaming_read_on_both_ports_publishes_the_native_families(page_of: PageOf, verdict: Judge) -> None:
    folder = "ray/2.60.0-llm-direct-streaming-metrics-off"
    report = verdict("ray-serve", page_of(f"{folder}/after.txt"), page_of(f"{folder}/port8000.txt"))
    assert report.reading.answer("ttft").precision is Precision.EXACT
    assert report.reading.answer("ttft").native_name == "vllm:time_to_first_token_seconds"
    assert states(report)["layer_request_duration"] is State.NATIVE
    assert report.case.places["ttft"] == "page-1.txt"
    assert str(report.reading.stack_version) == "2.60.0", "only the agent's page tells it"
    assert str(report.reading.engine_version) == "0.29.0"
    assert report.reading.generation == "V1"


# -- Triton -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "state", "remedy"),
    [
        ("24.07", State.LOST, "upgrade Triton to 24.08 or newer"),
        ("24.10", State.HIDDEN, 'string_value: "yes"'),
        ("24.12", State.HIDDEN, 'string_value: "true"'),
        ("25.10", State.HIDDEN, 'string_value: "true"'),
    ],
)
def test_tritons_switch_has_the_value_of_its_release(version: str, state: State, remedy: str) -> None:
    answer = paper("triton", version).reading.answer("ttft")
    assert answer.state is state
    assert remedy in answer.remedy


@pytest.mark.parametrize(("version", "way"), [("24.10", State.LOST), ("24.12", State.LOST), ("25.10", State.LOST)])
def test_triton_never_passes_kv_usage_and_preemptions_on(version: str, way: State) -> None:
    report = paper("triton", version)
    for signal in ("kv_cache_usage", "preemptions"):
        answer = report.reading.answer(signal)
        assert answer.state is way
        assert "vllm.general_plugins" in answer.remedies
        assert "never exports it" in answer.reason


@pytest.mark.parametrize(("version", "loud"), [("25.03", False), ("25.06", True), ("25.10", False)])
def test_the_fallback_to_v0_is_named_where_it_happens(version: str, loud: bool) -> None:
    assert (("v0_fallback", "") in found(paper("triton", version))) is loud


def test_the_layers_queue_is_never_sold_as_the_engines(page_of: PageOf, verdict: Judge) -> None:
    report = verdict("triton", page_of("triton/24.10-vllm0.32.0-side-port/port8002-during.txt"))
    assert states(report)["queue_wait"] is not State.NATIVE
    assert states(report)["layer_queue_wait"] is State.NATIVE
    both = verdict(
        "triton",
        page_of("triton/24.10-vllm0.32.0-side-port/port8002-during.txt"),
        page_of("triton/24.10-vllm0.32.0-side-port/side-port-during.txt"),
    )
    assert states(both)["queue_wait"] is State.NATIVE
    assert both.case.places["queue_wait"] == "page-1.txt"


# -- KServe -----------------------------------------------------------------------------------------------------


def test_kserve_standard_passes_the_engine_through(page_of: PageOf, verdict: Judge) -> None:
    report = verdict("kserve", page_of("vllm/0.32.0-real/after.txt"))
    assert states(report)["preemptions"] is State.NATIVE
    assert states(report)["layer_queue_wait"] is State.NOT_APPLICABLE


def test_behind_qpext_the_aggregator_is_blamed_and_the_own_port_named(page_of: PageOf, verdict: Judge) -> None:
    extra = b',service_name="s",configuration_name="c",revision_name="r"} '
    kept = [
        line.replace(b"vllm:", b"vllm_").replace(b"} ", extra)
        for line in page_of("vllm/0.32.0-real/after.txt").splitlines(keepends=True)
        if line.startswith(b"vllm:") and b"_total{" in line
    ]
    names = sorted({line.partition(b"{")[0] for line in kept})
    page = b"".join(b"# TYPE " + name + b" gauge\n" for name in names) + b"".join(kept)
    report = verdict("kserve", page)
    assert states(report)["kv_cache_usage"] is State.LOST
    assert "qpext" in report.reading.answer("kv_cache_usage").reason
    assert "port 8080" in report.reading.answer("kv_cache_usage").remedy
    assert ("retyped", "preemptions") in found(report)


# -- the bare engine --------------------------------------------------------------------------------------------


def test_disabled_log_stats_is_one_finding_with_its_flag(page_of: PageOf, verdict: Judge) -> None:
    report = verdict("vllm", page_of("vllm/0.32.0-real-no-log-stats/after.txt"))
    assert ("log_stats_off", "") in found(report)
    assert states(report)["preemptions"] is State.HIDDEN


def test_several_api_servers_are_seen_on_the_page_alone(page_of: PageOf, verdict: Judge) -> None:
    several = verdict("vllm", page_of("vllm/0.32.0-real-two-api-servers/idle.txt"))
    assert ("several_api_servers", "") in found(several)
    one = verdict("vllm", page_of("vllm/0.32.0-real/idle.txt"))
    assert ("several_api_servers", "") not in found(one)


def test_a_healthy_engine_has_no_loud_finding(page_of: PageOf, verdict: Judge) -> None:
    report = verdict("vllm", page_of("vllm/0.32.0-real-preempting/after.txt"), asked=ANY)
    assert found(report) == set()
    assert report.exit_code == 0
