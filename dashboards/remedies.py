"""The remedies on the provenance board: beside each signal, and as a table of everything that the judges know."""

from __future__ import annotations

import re
from collections.abc import Iterator

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


ON = "on (stack, target, signal)"
_GENERAL = (
    ("hidden", ".*shows it only with.*", "start the engine with the flag that the reason names"),
    ("never", "vLLM .* has no such metric .*", "upgrade vLLM: the reason names the first release that has it"),
    ("lost", ".*dropped on the way.*", "read the engine's own port; look for a filter or a proxy in between"),
    ("lost", ".*the labels that hold it are no numbers.*", "read the engine's start-up log (--engine-log)"),
)
"""Reasons that are made from a page, not from a rule: state, pattern, remedy."""


def beside(selector: str) -> str:
    """Return the series of a selector of llm_signal_info, each with a label ``remedy`` where one is known.

    ``selector`` is what stands in its braces. The first remedy whose reason fits is taken; those that hold at every
    version come first, since a page does not always tell the version.
    """
    labels = "max by (stack, target, signal, state, reason)"
    parts = [
        f'label_replace({labels} (llm_signal_info{{{selector}, {more}}}), "remedy", "{_quoted(remedy)}", "", "")'
        for more, remedy in dict.fromkeys(_known())
    ]
    return f" or {ON} ".join([*parts, f"{labels} (llm_signal_info{{{selector}}})"])


def _known() -> Iterator[tuple[str, str]]:
    """Yield further matchers and the remedy of what they match."""
    for stack in STACKS.values():
        rules = [rule for rule in (*_BY_PAGE.get(stack.name, ()), *stack.rules) if rule.remedy]
        for rule in sorted(rules, key=lambda rule: bool(rule.stack_versions or rule.engine_versions)):
            fits = f'stack="{stack.name}", reason=~"{_quoted(re.escape(rule.reason))}.*"'
            yield (
                fits if rule.signals == engine.SIGNALS else f'{fits}, signal=~"{"|".join(sorted(rule.signals))}"',
                rule.remedy,
            )
    for state, reason, remedy in _GENERAL:
        yield f'state="{state}", reason=~"{reason}"', remedy


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


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
