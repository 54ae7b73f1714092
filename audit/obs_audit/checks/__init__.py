"""The checks: each looks at a case and yields findings. One file each, one line here, in the order of the report."""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks import (
    api_port_page,
    baseline_version,
    bucket_sums,
    config_switch,
    counter_falls,
    damaged_lines,
    dead_signal,
    doubled,
    duplicate_series,
    empty_page,
    exercise_failed,
    foreign_version_name,
    gateway_names,
    idle_signals,
    impossible_sum,
    incomplete_histogram,
    kserve_annotation,
    lazy_families,
    log_lines,
    log_stats_off,
    lost_by_layer,
    misleading_name,
    moved_wrong,
    negotiation_renames,
    out_of_range,
    ray_targets,
    renamed_by_negotiation,
    renamed_by_relabelling,
    renamed_by_stack,
    retyped,
    router_series,
    setting_differs,
    several_api_servers,
    shared_label_child,
    signal_hidden,
    signal_lost,
    signal_stale,
    unknown_family,
    unknown_version,
    unreadable,
    unreadable_beside,
    v0_fallback,
    vanishing_gauges,
    version_mismatch,
    wrong_stack,
    wrong_type,
)
from obs_audit.checks.base import Check, Example
from obs_audit.findings import Finding

CHECKS: tuple[Check, ...] = (
    empty_page.CHECK,
    wrong_stack.CHECK,
    unreadable.CHECK,
    unreadable_beside.CHECK,
    damaged_lines.CHECK,
    version_mismatch.CHECK,
    unknown_version.CHECK,
    signal_lost.CHECK,
    signal_hidden.CHECK,
    signal_stale.CHECK,
    log_stats_off.CHECK,
    config_switch.CHECK,
    v0_fallback.CHECK,
    lost_by_layer.CHECK,
    baseline_version.CHECK,
    renamed_by_stack.CHECK,
    renamed_by_negotiation.CHECK,
    renamed_by_relabelling.CHECK,
    negotiation_renames.CHECK,
    gateway_names.CHECK,
    foreign_version_name.CHECK,
    unknown_family.CHECK,
    misleading_name.CHECK,
    wrong_type.CHECK,
    retyped.CHECK,
    out_of_range.CHECK,
    incomplete_histogram.CHECK,
    impossible_sum.CHECK,
    doubled.CHECK,
    duplicate_series.CHECK,
    router_series.CHECK,
    counter_falls.CHECK,
    dead_signal.CHECK,
    idle_signals.CHECK,
    lazy_families.CHECK,
    vanishing_gauges.CHECK,
    bucket_sums.CHECK,
    shared_label_child.CHECK,
    several_api_servers.CHECK,
    api_port_page.CHECK,
    ray_targets.CHECK,
    kserve_annotation.CHECK,
    setting_differs.CHECK,
    log_lines.CHECK,
    exercise_failed.CHECK,
    moved_wrong.CHECK,
)
"""Every check, what is worst for a reader first."""

OTHER_IDS = ("required", "waiver_expired", "waiver_unused")
"""Ids of findings that come from what the user asked, not from a check."""

IDS = (*(check.id for check in CHECKS), *OTHER_IDS)


def run(case: Case) -> Iterator[Finding]:
    """Yield the findings of every check, in the order of the checks."""
    for check in CHECKS:
        yield from check.find(case)


__all__ = ["CHECKS", "IDS", "OTHER_IDS", "Check", "Example", "run"]
