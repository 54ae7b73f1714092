"""What Triton's model configurations (``GET /v2/models/MODEL/config``) say of the engine's signals. Pure.

The page alone cannot tell a vLLM backend whose switch is off from a server without any LLM engine; these documents can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from obs_exporter.exposition import Page
from obs_exporter.schema import State
from obs_exporter.stacks import Answer, Reading, Stack
from obs_exporter.stacks import engine as vllm
from obs_exporter.stacks.triton import SWITCH_TRUE, SWITCH_YES
from obs_exporter.stacks.versions import matches

LLM_BACKENDS = frozenset({"vllm", "tensorrtllm"})
"""Backends that run an LLM engine and print its signals."""

_STILL_HIDDEN = (
    "REPORT_CUSTOM_METRICS is set; disable_log_stats in model.json, a model not reloaded since, or "
    "'Metrics not supported' in the log remain"
)
_LOOK = (
    "leave disable_log_stats out of model.json, reload the model, and search tritonserver's output for "
    "'[vllm] Metrics not supported'"
)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One model: its backend ("" for an ensemble) and the text of REPORT_CUSTOM_METRICS ("" where it is not set)."""

    path: str
    name: str
    backend: str
    switch: str


def model_configs(documents: Mapping[str, object]) -> Iterator[ModelConfig]:
    """Yield the models of Triton's configuration documents, sorted by path."""
    for path, document in sorted(documents.items()):
        parts = path.split("/")
        if parts[:3] == ["", "v2", "models"] and parts[-1] == "config" and len(parts) > 4:
            switch = _field(document, "parameters", "REPORT_CUSTOM_METRICS", "string_value")
            yield ModelConfig(path, parts[3], _field(document, "backend"), switch)


def switch_problem(value: str, release: str) -> str:
    """Say what is wrong with a value at a release, or ""; an unknown release is given the benefit of the doubt.

    The values that the releases read: vllm_backend src/model.py, r24.08 to r26.01.
    """
    if not value:
        return "REPORT_CUSTOM_METRICS is not set, so the backend exports no vllm: family"
    old = value == "yes"
    modern = value.lower() == "true"
    if not (old or modern):
        return f"REPORT_CUSTOM_METRICS is {value!r}, which no release reads as on"
    if release and matches(SWITCH_TRUE, release) and not modern:
        return f"REPORT_CUSTOM_METRICS is {value!r}; {release} reads only true"
    if release and matches(SWITCH_YES, release) and not old:
        return f"REPORT_CUSTOM_METRICS is {value!r}; {release} reads only yes"
    return ""


def configured(stack: Stack, page: Page, reading: Reading, documents: Mapping[str, object]) -> Reading:
    """Return a reading with what the configurations say of the engine's signals that have no value.

    Without any LLM backend they do not apply; with the switch already as the release wants it, setting it is no remedy.
    Nothing is said while a model that the page counts has no configuration here: it may be the LLM.
    """
    models = list(model_configs(documents)) if stack.name == "triton" else []
    backends = sorted({model.backend for model in models if model.backend})
    if not backends or not reading.reachable:
        return reading
    if not LLM_BACKENDS & set(backends):
        if not _counted(stack, page) <= {model.name for model in models}:
            return reading
        what = f"the {backends[0]} backend" if len(backends) == 1 else f"the backends {', '.join(backends)}"
        reason = f"the models of this server run on {what}: no LLM engine"
        return _with(reading, lambda answer: replace(_bare(answer), state=State.NOT_APPLICABLE, reason=reason))
    release = reading.stack_version.best
    switches = [model.switch for model in models if model.backend == "vllm"]
    if not release or not switches or any(switch_problem(value, release) for value in switches):
        return reading
    return _with(
        reading,
        lambda answer: replace(answer, reason=_STILL_HIDDEN, remedy=_LOOK) if answer.state is State.HIDDEN else answer,
    )


def _with(reading: Reading, change: Callable[[Answer], Answer]) -> Reading:
    """Return the reading with the engine's signals changed that have no value."""
    answers = tuple(
        change(answer) if answer.signal.id in vllm.SIGNALS and not answer.state.publishes else answer
        for answer in reading.answers
    )
    return replace(reading, answers=answers)


def _bare(answer: Answer) -> Answer:
    return replace(answer, remedy="", cost="", alternative="")


def _counted(stack: Stack, page: Page) -> set[str]:
    """Return the models that the page counts requests of."""
    names = {
        sample.labels.get("model", "") for family in stack.evidence_families for sample in page.samples.get(family, [])
    }
    return names - {""}


def _field(document: object, *path: str) -> str:
    """Return the text at a path of a document, or ""."""
    value: Any = document
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""
