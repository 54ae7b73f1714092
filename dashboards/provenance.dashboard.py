"""Signal provenance: which signal is native, renamed, derived, hidden or lost on which target, and the remedy."""

from __future__ import annotations

from dashboards.panels import Query, board, graph, note, row, stat, table
from dashboards.remedies import beside, markdown

from dashboards import expressions as e
from obs_exporter.schema import State

INFO = f"llm_signal_info{{{e.IDENTITY}}}"
COLOURS = {
    State.NATIVE: "green", State.RENAMED: "light-green", State.DERIVED: "blue", State.LOG: "blue",
    State.ESTIMATED: "light-blue", State.IDLE: "text", State.HIDDEN: "orange", State.LOST: "red",
    State.NEVER: "dark-red", State.NOT_APPLICABLE: "text", State.STALE: "orange", State.UNREACHABLE: "dark-red",
}  # fmt: skip
PAINT = [(str(state), colour) for state, colour in COLOURS.items()]
EVERY = e.together(
    f'llm_signal_info{{{e.IDENTITY}, state!="unreachable"}}', f'llm_signal_info{{{e.IDENTITY}, state="unreachable"}}',
    "all", ", provenance, precision, source",
)  # fmt: skip
MEANINGS = "; ".join(f"{state}: {state.meaning}" for state in State)

PANELS = [
    row("How much is known"),
    stat("Signals, by state", [Query(f"count by (state) ({INFO})", "{{state}}")], "none",
         f"Series of llm_signal_info by state, over the chosen targets. {MEANINGS}.", width=24),
    graph("Signals with a value, over time",
          [Query(f'count by (stack, target) (llm_signal_info{{{e.IDENTITY}, state=~"{e.PUBLISHED}"}})', "{{target}}")],
          "none", "How many signals a target publishes. A step down after an upgrade is a signal that was lost or "
          "renamed away: the alert LLMSignalGone names it.", width=13),
    table("Versions", "max by (stack, target, stack_version, engine_version, generation) "
          f"(obs_exporter_target_info{{{e.IDENTITY}}})",
          "obs_exporter_target_info: the versions that the verdicts below were made for, as far as they are known.",
          columns=("target", "stack", "stack_version", "engine_version", "generation"), width=11, height=8),
    row("Every signal of every target"),
    table("Where each value comes from", EVERY,
          "llm_signal_info: state, who observed it (provenance), how exact it is (precision), the family (source), "
          f"the reason. {MEANINGS}.",
          columns=("target", "stack", "signal", "state", "provenance", "precision", "source", "reason"),
          colours=PAINT, height=18),
    table("Hidden or lost: what a switch or an upgrade would bring back",
          beside(f'{e.IDENTITY}, state=~"hidden|lost|never|stale"'),
          "llm_signal_info in a state that a person can change, with the remedy that belongs to the reason, from the "
          "tables that the exporter and obs-audit judge with. obs-audit --stack STACK --url URL knows the target's "
          "version, too, and says exactly one.",
          columns=("target", "stack", "signal", "state", "reason", "remedy"), colours=PAINT, height=12),
    row("How to get it back"),
    note("Remedies, by stack and version", markdown(),
         "Made from the tables that the exporter and obs-audit judge with; each row has its reason as it stands above.",
         height=22),
]  # fmt: skip

dashboard = board(
    "llm-signal-provenance", "LLM serving: signal provenance",
    "Built on llm_signal_info alone. Nothing here is empty because it is missing.", PANELS,
)  # fmt: skip
