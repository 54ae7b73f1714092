"""The bare engine's page beside the stack's: what the layer loses, with counts. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from obs_audit.evidence import Evidence, Exhibit
from obs_exporter.schema import BY_ID
from obs_exporter.stacks import Reading
from obs_exporter.stacks import engine as vllm


@dataclass(frozen=True, slots=True)
class Comparison:
    """What of the bare engine's page the stack's page has.

    ``bare`` and ``kept`` count engine families, ``lost`` names them as the bare engine does, ``signals`` are those of
    the schema that they carried and that the stack does not publish either. ``doubt`` says what is wrong or unsure
    about the versions; ``refused`` that nothing was compared for it.
    """

    source: str
    bare: int = 0
    kept: int = 0
    lost: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    doubt: str = ""
    refused: bool = False


def compare(evidence: Evidence, reading: Reading) -> Comparison | None:
    """Compare, or say why not; None where there is no baseline or nothing to hold it against."""
    baseline = evidence.baseline
    if baseline is None or not evidence.readable:
        return None
    if not baseline.reading.reachable:
        doubt = f"the baseline cannot be read: {baseline.reading.problem}"
        return Comparison(baseline.source, doubt=doubt, refused=True)
    bare, here = baseline.reading.engine_version, reading.engine_version
    common = set(bare.candidates) & set(here.candidates)
    doubt = ""
    if bare.candidates and here.candidates and not common and not here.floor:
        doubt = f"the baseline is vLLM {bare}, the stack runs {here}: nothing is compared"
        return Comparison(baseline.source, doubt=doubt, refused=True)
    if len(bare.candidates) != 1 or len(here.candidates) != 1 or here.floor:
        doubt = f"the baseline is vLLM {bare}, the stack runs {here}: they may differ, and so may what is compared"
    families = _families(baseline, evidence)
    kept = {stem for exhibit in evidence.readable for stem in _visible(exhibit, evidence)}
    lost = sorted(families.keys() - kept)
    signals = tuple(_signals(lost, reading))
    names = tuple(families[stem] for stem in lost)
    return Comparison(baseline.source, len(families), len(families) - len(lost), names, signals, doubt)


def _families(baseline: Exhibit, evidence: Evidence) -> dict[str, str]:
    """Return the bare engine's families by name without prefix, as the bare engine spells them."""
    from obs_exporter.stacks import STACKS

    return {stem: evidence.stack.native_prefix + stem for stem in STACKS["vllm"].engine_families(baseline.page)}


def _visible(exhibit: Exhibit, evidence: Evidence) -> Iterator[str]:
    yield from evidence.stack.engine_families(exhibit.page)
    if exhibit.later is not None:
        yield from evidence.stack.engine_families(exhibit.later.page)


def _signals(lost: list[str], reading: Reading) -> Iterator[str]:
    """Yield the signals that lost families carried and that nothing else publishes, in the schema's order."""
    carried = {row.signal for row in vllm.ROWS if row.family in lost}
    for signal in BY_ID:
        if signal in carried and not reading.answer(signal).state.publishes:
            yield signal
