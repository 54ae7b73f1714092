"""What other Accept headers make of a page: names, types and whole families, as prometheus_client and qpext do it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from obs_audit.checks import CHECKS
from obs_audit.evidence import Piece, Role
from obs_audit.verdict import Report

FAMILIES = (("num_requests_running", "gauge"), ("num_preemptions_total", "counter"), ("request_params_n", "histogram"))
LABEL = 'engine="0",model_name="m"'


def page(prefix: str = "vllm:", types: str = "vllm:", kinds: tuple[tuple[str, str], ...] = FAMILIES) -> bytes:
    lines = []
    for (name, kind), (_, real) in zip(kinds, FAMILIES, strict=False):
        lines.append(f"# TYPE {types}{name} {kind}")
        if real == "histogram":
            lines += [f'{prefix}{name}_bucket{{{LABEL},le="+Inf"}} 3']
            lines += [f"{prefix}{name}_{part}{{{LABEL}}} 3" for part in ("sum", "count", "created")]
        else:
            lines.append(f"{prefix}{name}{{{LABEL}}} 3")
    return ("\n".join(lines) + "\n").encode()


def messages(verdict: Callable[..., Report], variant: bytes, stack: str = "kserve") -> list[str]:
    report = verdict(stack, page(), pieces=(Piece(Role.OPENMETRICS, "u", variant),))
    return [finding.message for finding in report.findings if finding.check == "negotiation_renames"]


def test_names_without_their_types_are_counted(verdict: Callable[..., Report]) -> None:
    (message,) = messages(verdict, page("vllm_"), "vllm")
    assert message == (
        "Prometheus 2 gets 3 names with underscores, such as vllm_num_preemptions_total for vllm:num_preemptions_total,"
        " 3 families without a type from this server"
    )


def test_behind_kserves_aggregator_gauges_and_histograms_would_vanish(verdict: Callable[..., Report]) -> None:
    (message,) = messages(verdict, page("vllm_"))
    assert message.endswith("behind KServe's aggregator the 2 gauges and histograms of these would vanish")


def test_an_aggregator_that_loses_and_retypes_families_is_seen(verdict: Callable[..., Report]) -> None:
    body = f"# TYPE vllm:num_preemptions_total gauge\nvllm:num_preemptions_total{{{LABEL}}} 3\n".encode()
    (message,) = messages(verdict, body)
    assert "1 family of another type, such as vllm:num_preemptions_total (counter as gauge)" in message
    assert "2 families not at all, such as vllm:num_requests_running" in message


@pytest.mark.parametrize("variant", [page(), page().replace(b"_total counter", b" counter") + b"# EOF\n"])
def test_openmetrics_own_way_to_declare_a_counter_changes_nothing(
    variant: bytes, verdict: Callable[..., Report]
) -> None:
    assert messages(verdict, variant) == []


def test_every_finding_of_the_examples_says_what_to_do() -> None:
    for check in CHECKS:
        assert all(finding.remedy for finding in check.find(check.fails.case())), check.id
