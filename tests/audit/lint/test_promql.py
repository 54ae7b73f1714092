"""The tokenizer finds the metric names that a full PromQL parser finds, and never fails on anything."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from obs_audit.lint import sources
from obs_audit.lint.promql import fault, label_uses, metric_uses, replaced

ROOT = Path(__file__).parents[3]


def names(text: str) -> list[str]:
    return [use.name for use in metric_uses(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("up", ["up"]),
        ("vllm:num_requests_running", ["vllm:num_requests_running"]),
        ("rate(a_total[5m])", ["a_total"]),
        ("sum by (job, instance) (a) / on (job) group_left (x) b", ["a", "b"]),
        ("sum(a) by (job)", ["a"]),
        ("SUM WITHOUT (job) (a)", ["a"]),
        ('a{b="c", d=~"e|f"} > bool 0.5', ["a"]),
        ('{__name__="a", b="c"}', ["a"]),
        ('{__name__=~"a|b_total|c.*"}', ["a", "b_total"]),
        ('{__name__!="a"}', []),
        ('{"a", b="c"}', ["a"]),
        ("a offset 5m @ end()", ["a"]),
        ("max_over_time(rate(a[5m])[1h:30s])", ["a"]),
        ("quantile_over_time(0.9, a[1d]) or vector(0)", ["a"]),
        ("a # b c\n + d", ["a", "d"]),
        ("1e3 * 0x1F + Inf - NaN + 5m", []),
        ('label_replace(a, "x", "$1 b", \'y\', `c d`)', ["a"]),
        ('topk($n, a{job=~"$job"}) and ${metric}_total', ["a"]),
        ("prefix_$name + [[other]] + a", ["a"]),
        ("by", []),
        ("count(count)", ["count"]),
        ('count_values("v", a)', ["a"]),
        ("", []),
        ("a{", ["a"]),
        ("rate(a[5m", ["a"]),
        ("sum by (job", []),
    ],
)
def test_names(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_labels_are_found_where_they_stand() -> None:
    text = 'sum by (model_name) (a{model_name=~"x", b!="c"}) / on (pod) d'
    assert [use.name for use in label_uses(text)] == ["model_name", "model_name", "b", "pod"]
    assert all(text[use.start : use.end] == use.name for use in label_uses(text))


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    for use in metric_uses(text):
        assert text[use.start : use.end] == use.name


@given(
    st.lists(
        st.sampled_from(["sum", "by", "(", ")", "{", "}", "[", "]", '"', "a:b", "=", "~", ",", "$x", "5m", "#", "\n"])
    )
)
def test_any_sequence_of_tokens_is_taken(tokens: list[str]) -> None:
    metric_uses(" ".join(tokens))


# -- against a full parser --------------------------------------------------------------------------------------------

METRIC = st.from_regex(r"[a-z][a-z_]{0,8}(:[a-z_]{1,6})?(_total)?", fullmatch=True).map(lambda name: "m_" + name)
LABEL = st.sampled_from(["job", "le", "model_name", "by", "offset"])
MATCHERS = st.lists(
    st.tuples(
        LABEL, st.sampled_from(["=", "!=", "=~", "!~"]), st.sampled_from(['"a"', "'b{c}'", '"d|e(f)"', '"\\"g"'])
    ),
    max_size=3,
).map(lambda items: "{" + ", ".join(f"{name}{operator}{value}" for name, operator, value in items) + "}")
SELECTOR = st.one_of(METRIC, st.tuples(METRIC, MATCHERS).map("".join))
LABELS = st.lists(st.sampled_from(["job", "model_name", "le"]), max_size=2, unique=True).map(", ".join)


def _wider(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(st.sampled_from(["rate", "increase", "max_over_time"]), SELECTOR).map(
            lambda t: f"{t[0]}({t[1]}[5m])"
        ),
        st.tuples(st.sampled_from(["sum", "max", "group"]), st.sampled_from(["by", "without"]), LABELS, inner).map(
            lambda t: f"{t[0]} {t[1]} ({t[2]}) ({t[3]})"
        ),
        st.tuples(st.sampled_from(["avg", "count"]), LABELS, inner).map(lambda t: f"{t[0]}({t[2]}) by ({t[1]})"),
        st.tuples(
            inner, st.sampled_from([" + ", " / on (job) ", " and ", " unless ignoring (le) ", " > bool "]), inner
        ).map("".join),
        st.tuples(SELECTOR, st.sampled_from([" offset 5m", " @ 1700000000"])).map("".join),
        inner.map(lambda text: f"({text}) # sum by (x) (y)\n * 2"),
        inner.map(lambda text: f"histogram_quantile(0.95, {text})"),
    )


def parsed_names(text: str) -> list[str]:
    """The metric names that promql-parser, a port of Prometheus' own grammar, finds."""
    found: list[str] = []

    def walk(node: object) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.extend([node.name] if node.name else [])
            return
        for field in ("expr", "lhs", "rhs", "param", "vector_selector"):
            child = getattr(node, field, None)
            if child is not None and not isinstance(child, str):
                walk(child)
        for child in getattr(node, "args", None) or ():
            walk(child)

    walk(promql_parser.parse(text))
    return found


@given(st.recursive(SELECTOR, _wider, max_leaves=6))
def test_the_tokenizer_agrees_with_a_parser(text: str) -> None:
    assert Counter(names(text)) == Counter(parsed_names(text))


def test_the_tokenizer_agrees_with_a_parser_on_our_own_files() -> None:
    files = [
        *(ROOT / "dashboards" / "generated").glob("*.json"),
        *(ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"),
    ]
    seen = 0
    for path in files:
        for expression in sources.read(path).expressions:
            text = expression.text
            if "__name__" in text:
                continue  # the parser does not give the names inside a matcher
            for variable, value in (("$__rate_interval", "5m"), ("$__range", "1h")):
                text = text.replace(variable, value)
            assert Counter(names(text)) == Counter(parsed_names(text)), expression
            assert fault(expression.text) == "", expression
            seen += len(names(text))
    assert seen > 150


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rate((", "( at character 6 is never closed"),
        ("rate(a[5m]", "( at character 5 is never closed"),
        ("rate(a[5m)", ") at character 10 closes nothing"),
        ("sum(a))", ") at character 7 closes nothing"),
        ('a{b="c}', "a string that begins at character 5 has no end"),
        ("a /", "nothing stands behind /"),
        ("sum(a +) + b", "nothing stands behind +"),
        ("a and", "nothing stands behind and"),
        ("a{", "{ at character 2 is never closed"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, said: str) -> None:
    assert fault(text) == said
    with pytest.raises(ValueError):
        promql_parser.parse(text)


@given(st.recursive(SELECTOR, _wider, max_leaves=6))
def test_what_a_parser_takes_has_no_fault(text: str) -> None:
    promql_parser.parse(text)
    assert fault(text) == ""


@given(st.text())
def test_any_text_can_be_asked_for_a_fault(text: str) -> None:
    assert isinstance(fault(text), str)


def test_replacing_touches_nothing_else() -> None:
    text = 'rate(a[5m]) / rate(b{a="a"}[5m])'
    first, second = metric_uses(text)
    assert replaced(text, {(first.start, first.end): "long_name", (second.start, second.end): "c"}) == (
        'rate(long_name[5m]) / rate(c{a="a"}[5m])'
    )
