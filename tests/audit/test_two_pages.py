"""Several pages of one target: the same page twice, one signal under two prefixes, and names of the stack."""

from __future__ import annotations

from collections.abc import Callable

from obs_audit.findings import Severity
from obs_audit.verdict import Report

PAGE = b'# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0",model_name="m"} 1\n'


def doubled(report: Report) -> list[tuple[Severity, str, str]]:
    return [(f.severity, f.source, f.message) for f in report.findings if f.check == "doubled"]


def test_the_same_page_twice_is_said(verdict: Callable[..., Report]) -> None:
    ((severity, source, message),) = doubled(verdict("vllm", PAGE, PAGE))
    assert (severity, source) == (Severity.INFO, "page-1.txt")
    assert "the same as page-0.txt" in message


def test_a_second_page_with_another_prefix_is_said(verdict: Callable[..., Report]) -> None:
    ray = PAGE.replace(b"vllm:", b"ray_vllm_")
    ((severity, _, message),) = doubled(verdict("ray-serve", ray, ray.replace(b"ray_vllm_", b"ray_vllm:")))
    assert severity is Severity.INFO
    assert "ray_vllm:num_requests_running beside ray_vllm_num_requests_running" in message


def test_two_nodes_of_one_cluster_are_no_twins(verdict: Callable[..., Report]) -> None:
    ray = PAGE.replace(b"vllm:", b"ray_vllm_")
    assert doubled(verdict("ray-serve", ray, ray.replace(b'"m"} 1', b'"m"} 2'))) == []


def test_all_renamed_signals_are_counted(verdict: Callable[..., Report], page_of: Callable[[str], bytes]) -> None:
    report = verdict("ray-serve", page_of("ray/2.44.1-llm-standin-engine/after.txt"))
    renamed = sum(answer.state == "renamed" for answer in report.answers)
    (finding,) = [finding for finding in report.findings if finding.check == "renamed_by_stack"]
    assert renamed == 8
    assert f"{renamed} signals" in finding.message
