"""Judge one metric name: can this stack at this version answer it, and if not, why and what can be asked instead.

Nothing is known here that the exporter does not know: the engine's catalogue says which release has a family, the
stack's tables say what becomes of it on the way.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from functools import cache

from obs_exporter.schema import BY_ID, SIGNALS, Kind, Signal, State
from obs_exporter.stacks import STACKS, Claims, Stack
from obs_exporter.stacks import engine as vllm
from obs_exporter.stacks.catalogue import Engine, Registration, catalogue
from obs_exporter.stacks.expectation import expect, on_paper, with_way_back
from obs_exporter.stacks.identity import identify
from obs_exporter.stacks.model import Answer, Row
from obs_exporter.stacks.versions import matches, span

ENGINE_PREFIXES = ("vllm:", "vllm_", "ray_vllm:", "ray_vllm_", "kserve_vllm:", "kserve_vllm_")
HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")
ANY_SIGNAL = "preemptions"
"""A signal that no stack treats in a way of its own: it stands for engine families that the schema does not have."""

OWN_NAMES = {
    "triton": {
        "prompt_tokens_total": "prompt_tokens",
        "generation_tokens_total": "generation_tokens",
        "time_to_first_token_seconds": "ttft",
        "time_per_output_token_seconds": "inter_token_latency",
        "e2e_request_latency_seconds": "request_duration",
        "request_prompt_tokens": "request_duration",
        "request_generation_tokens": "request_duration",
        "request_params_n": "request_duration",
    },
}
"""Families that a stack registers itself under the engine's prefix, whatever its engine calls them, each with a signal
of the same fate: those of Triton's vLLM backend (src/utils/metrics.py, r24.08 to r26.01; all but the first four from
24.09 on, as the request's duration)."""

WITHOUT_MODEL = {"ray-serve": ("ray_vllm_engine_stats_", "ray_rayllm_router_")}
"""Families of a layer that carry an engine's signal without its label for the model (ray wheels 2.44.1 to 2.48.0: they
are registered without tag keys)."""

_OURS = ("obs_exporter_", "llm_probe_", "llm_signal_")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of one metric name.

    ``word``: ``fine``, ``not_judged`` (another program's), or why there is no answer: ``never`` (this version has no
    such family), ``renamed``, ``hidden``, ``lost``. ``native`` and ``common`` are names to ask for instead, "" where
    there is none.
    """

    name: str
    word: str
    reason: str = ""
    remedy: str = ""
    native: str = ""
    common: str = ""
    native_note: str = ""
    common_note: str = ""
    no_model: bool = False

    @property
    def answerable(self) -> bool:
        """Whether an expression with this name can have data, as far as is known."""
        return self.word in ("fine", "not_judged")


class Judge:
    """Judges names for one stack at one version (the newest known without one)."""

    def __init__(self, stack: Stack, claims: Claims) -> None:
        """Find out which engine the stack carries at that version."""
        self.stack = stack
        self.identity = identify(stack, None, claims)
        self.point = self.identity.points[-1]
        self.engine = Engine(self.point.engine, self.point.generation)
        self._own = _own_rows(stack)

    @property
    def described(self) -> str:
        """Who is judged: ``Ray Serve 2.60.0 with vLLM 0.29.0 V1``."""
        engine = f"vLLM {self.point.engine} {self.point.generation}".strip()
        return engine if self.stack.is_engine else f"{self.stack.title} {self.point.stack} with {engine}"

    def judge(self, name: str) -> Verdict:
        """Judge a name as it stands in an expression."""
        verdict = self._judged(name)
        native = self._own_family(verdict.native)
        asked = next((row for row in map(_all_own().get, _stems(name)) if row), None)
        return replace(
            verdict,
            native_note=_unit(verdict.native, native) if native and native.family not in _stems(name) else "",
            common_note=_unit(name, asked) if asked and verdict.common else "",
            no_model=verdict.native.startswith(WITHOUT_MODEL.get(self.stack.name, ())),
        )

    def _own_family(self, name: str) -> Row | None:
        return next((row for row in map(self._own.get, _stems(name)) if row), None)

    def _judged(self, name: str) -> Verdict:
        if name.startswith(_OURS):
            return Verdict(name, "fine")
        if (signal := _schema_signal(name)) is not None:
            return self._common(name, signal)
        prefix = _engine_prefix(name)
        if prefix and not name.startswith(_own_lookalikes()):
            return self._engine_name(name, prefix, name[len(prefix) :])
        return self._stack_name(name)

    # -- our own names ---------------------------------------------------------------------------------------------

    def _common(self, name: str, signal: Signal) -> Verdict:
        answer = on_paper(self.stack, signal.id, self.point)
        if answer.state.publishes:
            return Verdict(name, "fine")
        return Verdict(name, _word(answer.state), answer.reason, answer.remedies)

    # -- the engine's ----------------------------------------------------------------------------------------------

    def _engine_name(self, name: str, prefix: str, rest: str) -> Verdict:
        family, part = _family(rest)
        if family not in catalogue().types:
            return self._unheard_of(name, rest)
        registration = catalogue().registration(family, self.engine)
        signal = next((row.signal for row in vllm.ROWS if row.family == family and not row.product), "")
        common = _common_name(signal, part)
        own = OWN_NAMES.get(self.stack.name, {})
        if family in own:
            return self._own_spelling(name, own[family], common)
        answer = expect(self.stack, signal or ANY_SIGNAL, self.point)
        if other := next((family for family, like in own.items() if like == signal), ""):
            reason = f"{self.stack.title} names it {self.stack.native_prefix}{other}"
            native = self.stack.native_prefix + other + part
            if answer.state.publishes:
                return Verdict(name, "renamed", reason, "", native, common)
            reason = f"{reason}; {answer.reason}"
            return Verdict(name, _word(answer.state), reason, answer.remedies, native, common)
        native = self._native(family, part, signal, answer)
        if registration is None:
            return Verdict(name, "never", self._lifetime(family), answer.remedy if signal else "", native, common)
        if registration.status in ("hidden", "conditional") and (
            answer.state.publishes or answer.state is State.HIDDEN
        ):
            reason, remedy = self._switch(family, registration)
            return Verdict(name, "hidden", reason, remedy, native if native != name else "", common)
        if not answer.state.publishes:
            remedy = with_way_back(answer, self.stack, self.point).remedies if signal else answer.remedy
            return Verdict(name, _word(answer.state), answer.reason, remedy, "", common)
        if native and native != name:
            said = f"{self.stack.title} publishes it as {native}"
            if prefix not in self.stack.engine_prefixes[:1]:
                said += f"; {prefix} is not how its page spells the engine's names"
            return Verdict(name, "renamed", said, "", native, common)
        return Verdict(name, "fine", common=common)

    def _own_spelling(self, name: str, signal: str, common: str) -> Verdict:
        """Judge a family that the layer registers itself, and shares the fate of a signal."""
        answer = expect(self.stack, signal, self.point)
        if answer.state.publishes:
            return Verdict(name, "fine", common=common)
        return Verdict(name, _word(answer.state), answer.reason, answer.remedies, "", common)

    def _native(self, family: str, part: str, signal: str, answer: Answer) -> str:
        """Return the name to ask for on the stack's page: this family's or, where it is gone, its signal's."""
        if not answer.state.publishes:
            return ""
        if not signal:
            has = catalogue().registration(family, self.engine)
            return self.stack.engine_prefixes[0] + family + part if has else ""
        if answer.signal.id != signal or not answer.native_name:
            return ""
        return answer.native_name + part if answer.native_name != self._cache_info() else ""

    def _cache_info(self) -> str:
        return self.stack.engine_prefixes[0] + "cache_config_info"

    def _unheard_of(self, name: str, rest: str) -> Verdict:
        """Judge a name with the engine's prefix that no release has: often a counter without ``_total``."""
        near = rest + "_total" if rest + "_total" in catalogue().types else ""
        if not near:
            stem, part = _family(rest)
            close = difflib.get_close_matches(stem, catalogue().types, 1, cutoff=0.8)
            near = close[0] + part if close else ""
        reason = "no vLLM release from 0.2.7 to 0.33.0 exposes a family of this name"
        if not near:
            return Verdict(name, "never", reason)
        meant = self._engine_name(self.stack.engine_prefixes[0] + near, self.stack.engine_prefixes[0], near)
        native = meant.native or (meant.name if meant.answerable else "")
        if near.removesuffix("_total") == rest:
            reason = f"a counter's samples end in _total: {near}"
        return Verdict(name, "never", f"{reason}; near to it is {near}", meant.remedy, native, meant.common)

    def _lifetime(self, family: str) -> str:
        spans = []
        for generation in ("V0", "V1"):
            having = catalogue().having(family, generation)
            spans += (
                [f"{generation} {span((having[0], having[-1])) if len(having) > 1 else having[0]}"] if having else []
            )
        return f"vLLM {self.engine.release} {self.engine.generation} has no {family} (it is in {', '.join(spans)})"

    def _switch(self, family: str, registration: Registration) -> tuple[str, str]:
        switch = vllm.hidden_switch(self.engine.release) if registration.status == "hidden" else registration.switch
        return (
            f"vLLM {self.engine.release} shows {family} only with {switch or registration.note}",
            f"start the engine with {switch}" if switch else "",
        )

    # -- the layer's -----------------------------------------------------------------------------------------------

    def _stack_name(self, name: str) -> Verdict:
        """Judge a family of a serving layer: this one's at its version, another one's, or nobody's that is known."""
        family, part = name, ""
        if name not in self._own and name.endswith(HISTOGRAM_PARTS):
            family, _, tail = name.rpartition("_")
            part = "_" + tail
        row = self._own.get(family)
        if row is not None:
            return self._own_name(name, part, row)
        for other in STACKS.values():
            if other is not self.stack and family in _own_rows(other):
                return Verdict(name, "never", f"{other.title} publishes it, {self.stack.title} does not",
                               common=_common_of(_own_rows(other)[family], part, family))  # fmt: skip
        return Verdict(name, "not_judged")

    def _own_name(self, name: str, part: str, row: Row) -> Verdict:
        common = _common_of(row, part, name)
        if row.versions and self.point.stack and not matches(row.versions, self.point.stack):
            answer = expect(self.stack, row.signal, self.point)
            reason = f"{self.stack.title} has it in {row.versions} only"
            native = answer.native_name + part if answer.state.publishes else ""
            return Verdict(name, "never", reason, answer.remedy, native, common)
        return Verdict(name, "fine", common=common)


def _own_rows(stack: Stack) -> dict[str, Row]:
    return {family: row for row in reversed(stack.rows) for family in row.families()}


@cache
def _all_own() -> dict[str, Row]:
    return {family: row for stack in STACKS.values() for family, row in _own_rows(stack).items()}


def _stems(name: str) -> tuple[str, ...]:
    """Return the families that a sample of this name can belong to."""
    return (name, *(name.removesuffix(part) for part in HISTOGRAM_PARTS if name.endswith(part)))


def _unit(name: str, row: Row) -> str:
    """Say in which unit a layer's family is, where it is not the base unit or its name lies; counts have no unit."""
    if name.endswith("_count") or name == row.count:
        return ""
    edges = ", and so are the edges (le)" if name.endswith("_bucket") else ""
    if row.factor != 1:
        words = {0.001: "milliseconds", 1e-6: "microseconds"}.get(row.factor, "another unit")
        return f"{name} is in {words}{edges}: times {row.factor:g} it is in seconds"
    return f"{name} is in seconds{edges}, despite its name" if row.family.endswith("_ms") else ""


def _own_lookalikes() -> tuple[str, ...]:
    return tuple(name for stack in STACKS.values() for name in stack.lookalikes)


def _engine_prefix(name: str) -> str:
    return max((prefix for prefix in ENGINE_PREFIXES if name.startswith(prefix)), key=len, default="")


def _family(rest: str) -> tuple[str, str]:
    """Split a sample name without prefix into the catalogue's family and the part of a histogram."""
    for part in HISTOGRAM_PARTS:
        if rest.endswith(part) and catalogue().types.get(rest.removesuffix(part)) == "histogram":
            return rest.removesuffix(part), part
    return rest, ""


def _schema_signal(name: str) -> Signal | None:
    for signal in SIGNALS:
        parts = HISTOGRAM_PARTS if signal.kind is Kind.HISTOGRAM else ("",)
        if name in {signal.metric + part for part in parts}:
            return signal
    return None


def has_model(name: str) -> bool:
    """Whether a name of the common schema has the label ``model``."""
    signal = _schema_signal(name)
    return signal is None or "model" in signal.label_names


def _common_name(signal: str, part: str) -> str:
    return BY_ID[signal].metric + part if signal else ""


def _common_of(row: Row, part: str, family: str) -> str:
    """Return the common name of a layer's family; a pair of counters becomes the sum and the count of a histogram."""
    if row.count:
        return BY_ID[row.signal].metric + ("_sum" if family == row.family else "_count")
    return _common_name(row.signal, part)


def _word(state: State) -> str:
    """Return the lint's word for a state without a value."""
    return {State.HIDDEN: "hidden", State.LOST: "lost"}.get(state, "never")


__all__ = ["Judge", "Verdict", "has_model"]
