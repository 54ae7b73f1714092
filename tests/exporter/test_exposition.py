"""The page parser: equal to prometheus_client's on real pages, exact on escapes, calm on rubbish."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from obs_exporter.exposition import Wanted, parse

EVERYTHING = Wanted((), ("vllm", "nv_", "ray_", "http_", "process_", "python_"))


def _reference(body: bytes, prefixes: tuple[str, ...]) -> Counter[tuple[str, tuple[tuple[str, str], ...], str]]:
    """What prometheus_client reads, in a form that can be compared; it appends _total to counters that have none."""
    found: Counter[tuple[str, tuple[tuple[str, str], ...], str]] = Counter()
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            name = sample.name
            if f"\n{name}{{".encode() not in body and f"\n{name} ".encode() not in body:
                name = name.removesuffix("_total")
            if name.startswith(prefixes):
                found[name, tuple(sorted(sample.labels.items())), repr(float(sample.value))] += 1
    return found


def _ours(body: bytes, wanted: Wanted) -> Counter[tuple[str, tuple[tuple[str, str], ...], str]]:
    page = parse(body, wanted)
    assert page.damaged == 0
    return Counter(
        (name, tuple(sorted(sample.labels.items())), repr(sample.value))
        for name, samples in page.samples.items()
        for sample in samples
    )


def test_every_real_page_reads_as_the_reference_reads_it(page_name: str, page: Callable[[str], bytes]) -> None:
    body = page(page_name)
    prefixes = ("vllm", "nv_", "ray_", "http_", "process_", "python_")
    if b"# TYPE " not in body:
        assert parse(body, EVERYTHING).problem
        return
    assert _ours(body, EVERYTHING) == _reference(body, prefixes)


def test_only_wanted_families_are_read() -> None:
    body = (
        b"# TYPE vllm:a counter\nvllm:a_total 1\nvllm:ab_total 2\n# TYPE vllm:h histogram\n"
        b'vllm:h_bucket{le="+Inf"} 3\nvllm:h_count 3\nvllm:h_sum 4\nvllm:h_created 5\n'
    )
    page = parse(body, Wanted(["vllm:a_total", "vllm:h"]))
    assert sorted(page.samples) == ["vllm:a_total", "vllm:h_bucket", "vllm:h_count", "vllm:h_sum"]
    assert page.kind("vllm:a_total") == "counter"


class _Fixed(Collector):
    def __init__(self, *families: Metric) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(labels=st.dictionaries(st.from_regex(r"[a-z]\w{0,6}", fullmatch=True).filter(str.isascii), _text, max_size=4),
       value=st.floats())  # fmt: skip
def test_any_label_text_and_any_value_survive(labels: dict[str, str], value: float) -> None:
    registry = CollectorRegistry()
    gauge = Gauge("vllm:g", "help", list(labels), registry=registry)
    (gauge.labels(**labels) if labels else gauge).set(value)
    (sample,) = parse(generate_latest(registry), Wanted(["vllm:g"])).samples["vllm:g"]
    assert dict(sample.labels) == labels
    assert sample.value == value or (math.isnan(sample.value) and math.isnan(value))


def test_openmetrics_with_exemplars_and_its_end() -> None:
    histogram = HistogramMetricFamily("vllm_h", "help", labels=["model_name"])
    histogram.add_metric(["m # {x"], [("1.0", 2), ("+Inf", 3)], 4.5)
    counter = CounterMetricFamily("vllm_c", "help", labels=["model_name"])
    counter.add_metric(["m"], 7)
    info = InfoMetricFamily("vllm_i", "help", {"block_size": "16"})
    encode, _ = choose_encoder("application/openmetrics-text;version=1.0.0")
    body = encode(_registry(histogram, counter, info))
    body = body.replace(b"} 3.0\n", b'} 3.0 # {trace_id="ab # c"} 0.67 1.5\n')
    wanted = Wanted(["vllm_h", "vllm_c_total", "vllm_i_info"])
    page = parse(body, wanted, openmetrics=True)
    assert page.problem == ""
    assert page.damaged == 0
    assert [sample.value for sample in page.samples["vllm_h_bucket"]] == [2.0, 3.0]
    assert page.samples["vllm_h_bucket"][0].labels["model_name"] == "m # {x"
    assert page.samples["vllm_c_total"][0].value == 7.0
    assert page.samples["vllm_i_info"][0].labels["block_size"] == "16"
    assert parse(body.replace(b"# EOF\n", b""), wanted, openmetrics=True).problem


def _registry(*families: Metric) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Fixed(*families))
    return registry


@pytest.mark.parametrize(
    ("tail", "value"),
    [("1", 1.0), ("1.5e3 1700000000000", 1500.0), ("+Inf", math.inf), ("-Inf", -math.inf), ("  2  ", 2.0)],
)
def test_values_as_they_may_be_written(tail: str, value: float) -> None:
    page = parse(b"# TYPE vllm:g gauge\nvllm:g " + tail.encode() + b'\nvllm:g{ a = "b" , } ' + tail.encode() + b"\n",
                 Wanted(["vllm:g"]))  # fmt: skip
    assert [sample.value for sample in page.samples["vllm:g"]] == [value, value]
    assert page.samples["vllm:g"][1].labels == {"a": "b"}


@pytest.mark.parametrize(
    "line", ["vllm:g", "vllm:g one", "vllm:g 1 2 3", 'vllm:g{a="b} 1', "vllm:g{a=b} 1", 'vllm:g{a="b"', "vllm:g 1_000"]
)
def test_damaged_lines_are_counted_and_shown_never_guessed(line: str) -> None:
    page = parse(f"# TYPE vllm:g gauge\n{line}\nvllm:g 5\n".encode(), Wanted(["vllm:g"]))
    assert page.damaged == 1
    assert page.damage[0].line == 2
    assert [sample.value for sample in page.samples["vllm:g"]] == [5.0]


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_rubbish_is_a_problem_never_an_exception(body: bytes) -> None:
    page = parse(body, EVERYTHING)
    assert page.problem or page.types


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_page_cut_anywhere_keeps_only_whole_lines(data: st.DataObject) -> None:
    body = (Path(__file__).parents[1] / "data/triton/24.10-vllm0.32.0-custom-metrics/after.txt").read_bytes()
    whole = _ours(body, EVERYTHING)
    cut = body[: data.draw(st.integers(0, len(body) - 1))]
    page = parse(cut, EVERYTHING)
    seen = Counter(
        (name, tuple(sorted(sample.labels.items())), repr(sample.value))
        for name, samples in page.samples.items()
        for sample in samples
    )
    assert not seen - whole
    if not cut.endswith(b"\n"):
        assert page.problem


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"<html></html>\n", "HTML"),
        (b'{"detail":"Not Found"}', "JSON"),
        (b"x\n", "TYPE"),
    ],
)
def test_what_is_no_metrics_page_is_named(body: bytes, word: str) -> None:
    assert word in parse(body, EVERYTHING).problem


def test_a_page_that_ends_inside_a_histogram_is_cut() -> None:
    body = b'# TYPE vllm:h histogram\nvllm:h_bucket{le="1.0"} 3\nvllm:h_bucket{le="2.0"} 3\n'
    assert "middle of a family" in parse(body, Wanted(["vllm:h"])).problem
    assert parse(body + b'vllm:h_bucket{le="+Inf"} 3\n', Wanted(["vllm:h"])).problem == ""
