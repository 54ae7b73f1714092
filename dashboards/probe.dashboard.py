"""Load probe: what a client measured, by level, and the engine's own view beside it."""

from __future__ import annotations

from dashboards.panels import Query, bars, board, graph, row, stat, variable

from dashboards import expressions as e

LEVEL = "target, scenario, concurrency, rate"
NAMED = "{{target}} {{scenario}} c={{concurrency}}{{rate}}"
PROBE = 'target=~"$probed"'
BASE = 'target=~"$baseline"'


def quantile(level: float, metric: str, window: str, select: str = PROBE, by: str = LEVEL) -> str:
    """Return a quantile of one of the probe's histograms."""
    return f"histogram_quantile({level}, sum by (le, {by}) (rate({metric}_bucket{{{select}}}{window})))"


def share(window: str) -> str:
    """Return measured goodput over a window."""
    good, sent = (f"sum by ({LEVEL}) (rate(llm_probe_{name}_total{{{PROBE}}}{window}))"
                  for name in ("good_requests", "requests"))  # fmt: skip
    return f"{good} / {sent}"


TTFT, E2E, TPOT = (
    f"llm_probe_{name}_seconds" for name in ("time_to_first_token", "request_duration", "time_per_output_token")
)
OVER = "[$__range]"
WITHOUT = "scenario, concurrency, rate"

PANELS = [
    row("By level, over the time shown"),
    bars("TTFT p95 by level", [Query(quantile(0.95, TTFT, OVER), NAMED)], "s",
         "95th percentile of llm_probe_time_to_first_token_seconds over the whole time shown, one bar a level. Failed "
         "requests have no TTFT; they count against goodput."),
    bars("Goodput by level", [Query(share(OVER), NAMED)], "percentunit",
         "Good requests over all requests sent, over the whole time shown: TTFT and E2E within their SLOs, errors and "
         "timeouts as misses."),
    row("Over time"),
    graph("TTFT p95, client and engine", [
        Query(quantile(0.95, TTFT, e.WINDOW), "client: " + NAMED),
        Query(e.quantile(0.95, "ttft"), "engine: {{target}} {{model}}"),
    ], "s", "What the probe measured against what the engine counted. The client's is larger by the network, the layer "
        "and the client itself; where the engine's is larger, look at other clients of the same engine, or at its "
        "buckets: both are interpolated, and the engine's buckets are wider.",
        signals=("ttft",), width=12),
    graph("E2E p95, client and engine", [
        Query(quantile(0.95, E2E, e.WINDOW), "client: " + NAMED),
        Query(e.quantile(0.95, "request_duration"), "engine: {{target}} {{model}}"),
    ], "s", "As beside it, for whole requests.", signals=("request_duration",), width=12),
    graph("Goodput", [Query(share(e.WINDOW), NAMED)], "percentunit",
          "rate(llm_probe_good_requests_total) over rate(llm_probe_requests_total).", width=8, top=1),
    graph("Requests a second, by outcome",
          [Query(f"sum by (target, outcome) (rate(llm_probe_requests_total{{{PROBE}}}{e.WINDOW}))",
                 "{{target}} {{outcome}}")],
          "reqps", "rate(llm_probe_requests_total) by outcome; every outcome is in goodput's denominator.", width=8),
    graph("Output tokens a second",
          [Query(f"sum by (target) (rate(llm_probe_output_tokens_total{{{PROBE}}}{e.WINDOW}))", "{{target}}")],
          "suffix: tok/s", "rate(llm_probe_output_tokens_total): tokens that reached the client, successful requests.",
          width=8),
    row("What the layer costs"),
    graph("TTFT p95 above the baseline", [
        Query(f"{quantile(0.95, TTFT, e.WINDOW)} - on ({WITHOUT}) group_left () "
              f"{quantile(0.95, TTFT, e.WINDOW, BASE, WITHOUT)}", NAMED),
    ], "s", "The same level on the chosen target less the one on the baseline target (variable Baseline: a bare engine "
        "of the same version). Both must have run the same scenario and concurrency at the time. For a verdict with "
        "its uncertainty use obs-probe compare.", width=12, floor=None),
    graph("TPOT p95 above the baseline", [
        Query(f"{quantile(0.95, TPOT, e.WINDOW)} - on ({WITHOUT}) group_left () "
              f"{quantile(0.95, TPOT, e.WINDOW, BASE, WITHOUT)}", NAMED),
    ], "s", "As beside it, for the mean time per output token of a request.", width=12, floor=None),
    row("Can the numbers be trusted?"),
    stat("Levels limited by the client", [Query(
        f"sum by (target) (max by ({LEVEL}) (llm_probe_client_limited{{{PROBE}}}))", "{{target}}")],
        "none", "Levels whose numbers the probe itself limits (llm_probe_client_limited): more probe processes, or "
        "another machine, before anything is concluded.", width=8, height=8),
    graph("Client lag, p99",
          [Query(quantile(0.99, "llm_probe_client_lag_seconds", e.WINDOW, PROBE, "target"), "{{target}}")],
          "s", "From the arrival of a piece in the kernel to its read by the probe: the client's own share of every "
          "latency.", width=8),
    graph("Requests in flight", [Query(f"sum by ({LEVEL}) (llm_probe_requests_in_flight{{{PROBE}}})", NAMED)],
          "none", "llm_probe_requests_in_flight: requests begun and not ended.", width=8),
]  # fmt: skip

dashboard = board(
    "llm-load-probe", "LLM serving: load probe",
    "Measured from outside by obs-probe: what a user feels. Empty without a running probe (obs-probe run --listen, or "
    "obs-probe serve).", PANELS,
    extra=(
        variable("probed", "Probed target", "label_values(llm_probe_requests_total, target)"),
        variable("baseline", "Baseline", "label_values(llm_probe_requests_total, target)", several=False),
    ),
)  # fmt: skip
