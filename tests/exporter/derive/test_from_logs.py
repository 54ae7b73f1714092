"""What log lines add up to, on real logs and on lines of every version."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.derive import Evidence
from obs_exporter.derive.from_logs import LogView, capacity, read, without
from obs_exporter.derive.model import AGE, Settings
from obs_exporter.schema import Histogram, Precision, Scalar
from obs_exporter.schema import State as Known
from obs_exporter.sources.logs import LogTail

DATA = Path(__file__).parents[2] / "data"
PREEMPTING = DATA / "vllm/0.32.0-real-preempting"
_WARNING = (
    "WARNING 11-29 10:00:0{} scheduler.py:1559] Sequence group 7 is preempted by PreemptionMode.RECOMPUTE mode because "
    "there is not enough KV cache space. total_num_cumulative_preemption={}"
)
_V0 = (
    "INFO 11-29 10:00:0{} metrics.py:455] Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s,"
    " Running: {} reqs, Swapped: 0 reqs, Pending: {} reqs, GPU KV cache usage: {}%, CPU KV cache usage: 0.0%."
)


def view_of(*lines: str, file: str = "engine.log", time: float = 0.0, view: LogView | None = None) -> LogView:
    view = view or LogView()
    for line in lines:
        view = read(view, file, line, time)
    return view


def tailed(pattern: str, now: float = 0.0) -> LogView:
    view, tail = LogView(), LogTail([pattern])
    for line in tail.poll(now, None)[0]:
        view = read(view, line.file, line.text, line.time)
    tail.close()
    return view


def values(answer: Any) -> dict[str, float]:
    assert all(isinstance(one, Scalar) for one in answer.series)
    return {dict(one.labels)["engine"]: one.value for one in answer.series}


@pytest.fixture
def ray(data: Callable[[str], bytes]) -> bytes:
    return data("ray/2.44.1-llm-standin-engine/after.txt")


def test_the_preempting_engines_log_says_what_its_pages_say() -> None:
    """The periodic lines round the page's ratio to a tenth of a percent."""
    on_pages: set[float] = set()
    for page in ("during-1", "during-3", "during-5"):
        text = (PREEMPTING / f"{page}.txt").read_text()
        on_pages |= {round(float(found), 3) for found in re.findall(r"^vllm:kv_cache_usage_perc\S* (\S+)", text, re.M)}
    lines = (PREEMPTING / "server.log").read_text().splitlines()
    in_log = {
        round(engine.gauges["kv_cache_usage"][0], 3)
        for line in lines
        for engine in read(LogView(), "log", line, 0.0).engines.values()
        if engine.gauges
    }
    assert in_log == {0.870, 0.913}
    assert in_log <= on_pages


def test_the_start_up_line_gives_capacity_and_concurrency() -> None:
    view = tailed(str(PREEMPTING / "server.log"))
    starts = [engine.start for engine in view.engines.values() if engine.start]
    assert [(capacity(start), start["kv_cache_max_concurrency"]) for start in starts] == [(768, 1.5)]


def test_blocks_become_tokens_with_the_size_that_fits_the_concurrency() -> None:
    lines = [
        "INFO x] # CUDA blocks: 15326, # CPU blocks: 9362",
        "INFO x] Maximum concurrency for 4096 tokens per request: 59.87x",
    ]
    (engine,) = view_of(*lines).engines.values()
    assert capacity(engine.start) == 245_216
    (alone,) = view_of(lines[0]).engines.values()
    assert capacity(alone.start) is None
    assert capacity(alone.start, 16) == 245_216


def test_a_lost_kv_usage_comes_back_with_its_age(ray: bytes, watch: Callable[..., Any]) -> None:
    view = view_of(_V0.format(1, 4, 12, 87.5), time=95.0)
    outcome = watch("ray-serve").see(ray, 100.0, Evidence(view))
    answer = outcome.reading.answer("kv_cache_usage")
    assert (answer.state, answer.precision) == (Known.LOG, Precision.EXACT)
    assert values(answer) == {"": 0.875}
    assert {(extra.signal, extra.kind): extra.value for extra in outcome.extras}["kv_cache_usage", AGE] == 5.0


def test_an_old_line_is_stale_and_no_number(ray: bytes, watch: Callable[..., Any]) -> None:
    view = view_of(_V0.format(1, 4, 12, 87.5), time=0.0)
    answer = (
        watch("ray-serve", settings=Settings(stale_after=30))
        .see(ray, 31.0, Evidence(view))
        .reading.answer("kv_cache_usage")
    )
    assert answer.state is Known.STALE
    assert not answer.series


def test_a_log_that_is_gone_is_stale_at_once(ray: bytes, watch: Callable[..., Any]) -> None:
    view = without(view_of(_V0.format(1, 4, 12, 87.5), time=0.0), ["engine.log"])
    evidence = Evidence(view, gone=("engine.log",))
    answer = watch("ray-serve").see(ray, 1.0, evidence).reading.answer("kv_cache_usage")
    assert answer.state is Known.STALE
    assert "gone" in answer.reason


def test_the_pages_own_value_wins_over_the_log(data: Callable[[str], bytes], watch: Callable[..., Any]) -> None:
    page = data("vllm/0.32.0-real-preempting/during-1.txt")
    answer = (
        watch("vllm").see(page, 0.0, Evidence(tailed(str(PREEMPTING / "server.log")))).reading.answer("kv_cache_usage")
    )
    assert answer.state is Known.NATIVE
    assert values(answer) == {"0": pytest.approx(0.826, abs=1e-3)}


def test_several_engines_in_several_files_add_up(ray: bytes, watch: Callable[..., Any]) -> None:
    view = view_of(_V0.format(1, 4, 12, 40.0), file="a")
    view = view_of(_V0.format(1, 3, 5, 90.0), file="b", view=view)
    reading = (
        watch("triton", stack_version="24.12")
        .see(b"# TYPE nv_inference_request_success counter\nnv_inference_request_success 1\n", 1.0, Evidence(view))
        .reading
    )
    assert values(reading.answer("requests_waiting")) == {"": 17}
    assert values(reading.answer("kv_cache_usage")) == {"": 0.9}, "the fullest one hurts"


def test_v0_preemptions_are_the_number_not_the_lines(ray: bytes, watch: Callable[..., Any]) -> None:
    view = view_of(*(_WARNING.format(second, number) for second, number in enumerate((1, 51, 101))))
    answer = watch("ray-serve").see(ray, 0.0, Evidence(view)).reading.answer("preemptions")
    assert (answer.state, answer.precision) == (Known.LOG, Precision.LOWER_BOUND)
    assert values(answer) == {"": 101}


def test_v0_preemptions_go_on_over_a_restart_of_the_engine() -> None:
    view = view_of(
        _WARNING.format(0, 101),
        "INFO x] Initializing an LLM engine (v0.7.2) with config: x",
        _WARNING.format(1, 1),
    )
    assert view.preemptions == 102


def test_no_warning_is_no_zero_unless_the_engines_start_was_seen(ray: bytes, watch: Callable[..., Any]) -> None:
    tail_only = view_of(_V0.format(1, 1, 0, 1.0))
    assert watch("ray-serve").see(ray, 0.0, Evidence(tail_only)).reading.answer("preemptions").state is Known.LOST
    whole = view_of("INFO x] # CUDA blocks: 100, # CPU blocks: 0", _V0.format(1, 1, 0, 1.0))
    answer = watch("ray-serve").see(ray, 0.0, Evidence(whole)).reading.answer("preemptions")
    assert (values(answer), answer.precision) == ({"": 0.0}, Precision.LOWER_BOUND)


def test_v1_preemptions_stay_lost(watch: Callable[..., Any]) -> None:
    page = b"# TYPE nv_inference_request_success counter\nnv_inference_request_success 1\n"
    evidence = Evidence(tailed(str(PREEMPTING / "server.log")))
    answer = watch("triton", stack_version="26.01").see(page, 0.0, evidence).reading.answer("preemptions")
    assert answer.state is Known.LOST


def test_a_restart_forgets_the_gauges_of_the_engine_before() -> None:
    view = view_of(_V0.format(1, 4, 12, 87.5), "INFO x] Initializing an LLM engine (v0.7.2) with config: x")
    assert not any(engine.gauges for engine in view.engines.values())


def test_rays_request_lines_give_the_queue_wait(watch: Callable[..., Any], data: Callable[[str], bytes]) -> None:
    """The file holds 37 whole lines of finished requests and half of one more."""
    view = tailed(str(DATA / "ray/2.44.1-llm-standin-engine/logs/serve/replica_*LLMDeployment*.log"))
    page = b"\n".join(
        line for line in data("ray/2.44.1-llm-standin-engine/after.txt").split(b"\n") if b"time_in_queue" not in line
    )
    answer = (
        watch("ray-serve", stack_version="2.48.0", engine_version="0.6.3")
        .see(page, 0.0, Evidence(view))
        .reading.answer("queue_wait")
    )
    (histogram,) = answer.series
    assert isinstance(histogram, Histogram)
    assert (answer.state, answer.precision, histogram.count) == (Known.LOG, Precision.EXACT, 37)
    assert histogram.sum == pytest.approx(57.11, abs=0.01)


def test_rays_own_histogram_holds_seconds(ray: bytes, watch: Callable[..., Any]) -> None:
    """ray_vllm_engine_stats_time_in_queue_ms of the stand-in engine: 1.9 s a request, despite its name."""
    answer = watch("ray-serve").see(ray, 0.0).reading.answer("queue_wait")
    (histogram,) = answer.series
    assert isinstance(histogram, Histogram)
    assert histogram.sum / histogram.count == pytest.approx(1.9, abs=0.01)


def test_the_newest_start_counts_where_logs_of_dead_workers_remain(watch: Callable[..., Any], ray: bytes) -> None:
    view = view_of("INFO x] GPU KV cache size: 999,999 tokens", file="worker-b.out", time=-500.0)
    view = view_of("INFO x] GPU KV cache size: 247,024 tokens", file="worker-a.out", time=-5.0, view=view)
    answer = watch("ray-serve").see(ray, 0.0, Evidence(view)).reading.answer("kv_cache_capacity")
    assert values(answer) == {"": 247_024}


def test_an_idle_engine_beside_a_dead_one_is_idle_not_gone(watch: Callable[..., Any], ray: bytes) -> None:
    view = view_of(_V0.format(1, 4, 12, 87.5), file="alive.log", time=-100.0)
    evidence = Evidence(view, gone=("dead.log",))
    answer = watch("ray-serve").see(ray, 0.0, evidence).reading.answer("kv_cache_usage")
    assert answer.state is Known.STALE
    assert "idle" in answer.reason


# -- several engines in one log, or in several -------------------------------------------------------------------

TRITON = b"# TYPE nv_inference_request_success counter\nnv_inference_request_success 1\n"
_STARTS = "INFO x] Initializing an LLM engine (v0.6.3) with config: model='{}'"
_V1 = (
    "(APIServer pid={}) INFO 11-29 10:00:00 [loggers.py:1] Engine 00{}: Avg prompt throughput: 1.0 tokens/s, Avg "
    "generation throughput: 1.0 tokens/s, Running: {} reqs, Waiting: 0 reqs, GPU KV cache usage: 10.0%"
)


@pytest.fixture
def answered(watch: Callable[..., Any]) -> Callable[..., Any]:
    def answer(view: LogView, signal: str, now: float = 0.0) -> Any:
        outcome = watch("triton", stack_version="24.12").see(TRITON, now, Evidence(view))
        return outcome.reading.answer(signal)

    return answer


def warned(*numbers: int) -> LogView:
    texts = (_WARNING.format(0, number).replace("group 7", f"group {at}") for at, number in enumerate(numbers))
    return view_of(*texts)


def test_warnings_of_two_engines_in_one_log_are_no_restarts() -> None:
    """A wrote 1, 51, 101, 151 and B 1, 51, 101: 252 preemptions at least, and not more."""
    assert warned(1, 51, 1, 101, 51, 151, 101).preemptions == 252


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=60),
    st.integers(1, 4),
)
def test_whatever_is_mixed_lost_or_restarted_the_bound_is_below_the_truth(
    steps: list[tuple[int, bool, bool]], engines: int
) -> None:
    """Each step is a warning of one engine, which may restart before it; some lines are not seen."""
    now, past, seen = [0] * engines, 0, []
    for one, restarts, shown in steps:
        engine = one % engines
        if restarts and shown:
            past, now[engine] = past + now[engine], 0
        now[engine] = now[engine] + 50 if now[engine] else 1
        seen += [now[engine]] if shown or one else []
    bound = warned(*seen).preemptions
    assert max(seen, default=0) <= bound <= past + sum(now)
    if len(seen) == len(steps) and engines == 1:
        assert bound == past + sum(now), "one engine whose lines are all seen is counted in full"


def test_a_line_shown_twice_counts_once() -> None:
    assert view_of(*[_WARNING.format(1, 51)] * 3).preemptions == 51


def test_periodic_lines_of_two_v0_engines_in_one_log_are_a_lower_bound(answered: Callable[..., Any]) -> None:
    """One engine writes every 5 s at most; here lines are 1 s apart."""
    one = view_of(_V0.format(1, 4, 12, 87.5), _V0.format(6, 4, 12, 87.5))
    two = view_of(_V0.format(1, 4, 12, 87.5), _V0.format(2, 1, 0, 1.0), _V0.format(6, 4, 12, 87.5))
    for signal in ("requests_running", "requests_waiting", "kv_cache_usage"):
        assert answered(one, signal).precision is Precision.EXACT
        answer = answered(two, signal)
        assert answer.precision is Precision.LOWER_BOUND
        assert "two engines" in answer.reason
    begun = view_of(_STARTS.format("a"), view=two)
    assert answered(view_of(_V0.format(1, 4, 1, 1.0), view=begun), "requests_running").precision is Precision.EXACT


def test_engines_of_two_models_in_one_log_are_a_lower_bound(answered: Callable[..., Any]) -> None:
    again = view_of(_STARTS.format("a"), _STARTS.format("a"), _V0.format(1, 4, 12, 87.5))
    assert answered(again, "requests_running").precision is Precision.EXACT
    blocks = "INFO x] # GPU blocks: {}, # CPU blocks: 0"
    concurrency = "INFO x] Maximum concurrency for 16 tokens per request: {}.00x"
    lines = (_STARTS.format("a"), blocks.format(900), concurrency.format(900), _STARTS.format("b"),
             blocks.format(10), concurrency.format(10), _V0.format(1, 4, 12, 87.5))  # fmt: skip
    for signal in ("requests_running", "kv_cache_capacity", "kv_cache_max_concurrency"):
        answer = answered(view_of(*lines), signal)
        assert answer.precision is Precision.LOWER_BOUND
        assert "2 models" in answer.reason
    assert values(answered(view_of(*lines), "kv_cache_capacity")) == {"": 160.0}


def test_processes_with_names_are_told_apart(answered: Callable[..., Any]) -> None:
    view = view_of(_V1.format(1, 0, 3), _V1.format(2, 0, 4), _V1.format(1, 1, 5))
    answer = answered(view, "requests_running")
    assert (values(answer), answer.precision) == ({"0": 7.0, "1": 5.0}, Precision.EXACT)


def test_data_parallel_start_up_lines_are_those_of_each_engine(answered: Callable[..., Any]) -> None:
    line = "(EngineCore_DP{0} pid={0}) INFO 11-29 10:00:00 [kv_cache_utils.py:1] GPU KV cache size: {1} tokens"
    start = "(EngineCore_DP{0} pid={0}) INFO 11-29 10:00:00 [core.py:1] Initializing a V1 LLM engine (v0.11.0) with"
    view = view_of(start.format(0), line.format(0, "100,000"), start.format(1), line.format(1, "90,000"))
    answer = answered(view, "kv_cache_capacity")
    assert (values(answer), answer.precision) == ({"0": 100_000.0, "1": 90_000.0}, Precision.EXACT)
    view = view_of(start.format(1), line.format(1, "80,000"), view=view)
    assert values(answered(view, "kv_cache_capacity")) == {"0": 100_000.0, "1": 80_000.0}


def test_start_up_lines_that_differ_without_a_name_are_a_lower_bound(answered: Callable[..., Any]) -> None:
    """Before vLLM 0.10.2 no process is named: they may be of the ranks of one engine, which takes the least."""
    line = "INFO 11-29 10:00:00 [kv_cache_utils.py:1] GPU KV cache size: {} tokens"
    same = answered(view_of(line.format("90,000"), line.format("90,000")), "kv_cache_capacity")
    assert (values(same), same.precision) == ({"": 90_000.0}, Precision.EXACT)
    for order in (("100,000", "90,000"), ("90,000", "100,000")):
        answer = answered(view_of(*map(line.format, order)), "kv_cache_capacity")
        assert (values(answer), answer.precision) == ({"": 90_000.0}, Precision.LOWER_BOUND)
    mixed = view_of(line.format("90,000"), line.format("90,000"), _V1.format(1, 0, 3), _V1.format(1, 1, 3))
    assert answered(mixed, "kv_cache_capacity").precision is Precision.LOWER_BOUND


def test_the_capacity_of_several_logs_adds_up_as_running_does(answered: Callable[..., Any]) -> None:
    size = "INFO x] GPU KV cache size: {} tokens"
    view = view_of(size.format("1,000"), file="a", time=-50.0)
    view = view_of(size.format("2,000"), file="b", time=-40.0, view=view)
    unsure = answered(view, "kv_cache_capacity")
    assert (values(unsure), unsure.precision) == ({"": 2000.0}, Precision.LOWER_BOUND)
    for file in ("a", "b"):
        view = view_of(_V1.format(1, 0, 3).replace("Engine 000: ", ""), file=file, time=-5.0, view=view)
    assert values(answered(view, "requests_running")) == {"": 6.0}
    answer = answered(view, "kv_cache_capacity")
    assert (values(answer), answer.precision) == ({"": 3000.0}, Precision.EXACT)
    headless = view_of(_V1.format(1, 0, 3), file="c", time=-5.0, view=view)
    assert answered(headless, "kv_cache_capacity").precision is Precision.LOWER_BOUND


def test_data_parallel_engines_in_logs_of_their_own_are_exact(answered: Callable[..., Any]) -> None:
    size = "(EngineCore_DP{0} pid=1) INFO 11-29 10:00:00 [x.py:1] GPU KV cache size: {0},000 tokens"
    view = LogView()
    for index in (1, 2):
        view = view_of(size.format(index), _V1.format(1, index, 3), file=f"{index}.log", view=view)
    answer = answered(view, "kv_cache_capacity")
    assert (values(answer), answer.precision) == ({"1": 1000.0, "2": 2000.0}, Precision.EXACT)


# -- what users write --------------------------------------------------------------------------------------------


def test_a_prompt_changes_nothing(answered: Callable[..., Any]) -> None:
    """V0 logs every prompt; these are texts of a warning, of start-up lines, and of a start that would wipe all."""
    view = view_of(
        _STARTS.format("m"), "INFO x] # GPU blocks: 1000, # CPU blocks: 0",
        "INFO x] Maximum concurrency for 4096 tokens per request: 3.91x", _V0.format(1, 3, 7, 45.6),
    )  # fmt: skip
    prompts = (
        "total_num_cumulative_preemption=100001 and GPU KV cache size: 5 tokens?",
        "Initializing an LLM engine (v0.6.3)", "# GPU blocks: 5, # CPU blocks: 0", _V0.format(9, 900, 900, 99.0),
    )  # fmt: skip
    for prompt in prompts:
        line = f"INFO 09-12 14:03:11 engine.py:291] Received request c1: prompt: {prompt!r}, params: x"
        assert view_of(line, view=view) == view
    assert values(answered(view, "preemptions")) == {"": 0.0}
    assert values(answered(view, "kv_cache_capacity")) == {"": 16_000.0}
