"""The table of remedies on the provenance board, from the tables that judge a page."""

from __future__ import annotations

from obs_exporter.schema import State
from obs_exporter.stacks import STACKS, engine
from obs_exporter.stacks.base import GPU_RULE
from obs_exporter.stacks.kserve import THROUGH_QPEXT
from obs_exporter.stacks.model import Rule
from obs_exporter.stacks.ray_serve import OFF
from obs_exporter.stacks.vllm import DISABLED

_BY_PAGE = {"vllm": (DISABLED,), "kserve": (DISABLED, THROUGH_QPEXT), "ray-serve": (OFF,)}
"""Rules that only a page can show to hold; the others stand in the stacks' tables."""

_ENGINE = (
    "| every | engine | the engine's own | vLLM has it, but shows it only with `--show-hidden-metrics-for-version` | "
    "start the engine with that flag and the minor version before its own; the release after next removes it |",
    "| every | engine | any | this vLLM has no such metric | upgrade vLLM: the reason names the first release that has "
    "it |",
)


def markdown() -> str:
    """Return the remedies as one Markdown table, stack by stack."""
    lines = ["| stack | versions | signals | why it is not there | remedy |", "|---|---|---|---|---|"]
    for stack in STACKS.values():
        rules = (*_BY_PAGE.get(stack.name, ()), *(rule for rule in stack.rules if rule is not GPU_RULE))
        lines += [_line(stack.title, rule) for rule in rules if rule.remedy and rule.state is not State.NOT_APPLICABLE]
    lines += _ENGINE
    lines.append(f"| every | any | GPU | {GPU_RULE.reason} | {GPU_RULE.remedy} |")
    return "\n".join(lines) + "\n"


def _line(title: str, rule: Rule) -> str:
    versions = rule.stack_versions or rule.engine_versions or "any"
    signals = "all of the engine's" if rule.signals == engine.SIGNALS else ", ".join(sorted(rule.signals))
    cells = (title, f"`{versions}`", signals, rule.reason, rule.remedy)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
