"""The bare engine's page beside the stack's: what the layer loses, with counts. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from obs_audit.evidence import Evidence, Exhibit
from obs_exporter.exposition import Wanted, parse
from obs_exporter.schema import BY_ID, State
from obs_exporter.stacks import STACKS, Reading
from obs_exporter.stacks import engine as vllm


@dataclass(frozen=True, slots=True)
class Comparison:
    """What of the bare engine's page the stack's page has.

    ``bare`` and ``kept`` count engine families, ``lost`` names them as the bare engine does, ``signals`` are those of
    the schema that they carried and that the stack does not publish either. ``undecided`` are families that this stack
    prints only once they have a value, and that had none: they may come through. ``doubt`` says what is wrong or unsure
    about the versions; ``refused`` that nothing was compared for it.
    """

    source: str
    bare: int = 0
    kept: int = 0
    lost: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
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
    missing = sorted(families.keys() - kept)
    lazy = set() if evidence.stack.complete else _without_value(baseline, missing) | _idle(missing, reading)
    lost = [stem for stem in missing if stem not in lazy]
    return Comparison(
        baseline.source,
        len(families),
        len(families) - len(missing),
        tuple(families[stem] for stem in lost),
        tuple(families[stem] for stem in missing if stem in lazy),
        tuple(_signals(lost, reading)),
        doubt,
    )


def _without_value(baseline: Exhibit, stems: list[str]) -> set[str]:
    """Return the counters and histograms that were still at zero on the bare engine's page, too."""
    prefix = STACKS["vllm"].native_prefix
    page = parse(baseline.body, Wanted((), (prefix,)))
    zero = set()
    for stem in stems:
        kind = page.kind(prefix + stem)
        names = [prefix + stem + suffix for suffix in ("", "_count")]
        values = [sample.value for name in names for sample in page.samples.get(name, [])]
        if kind in ("counter", "histogram") and not any(values):
            zero.add(stem)
    return zero


def _idle(stems: list[str], reading: Reading) -> set[str]:
    """Return the families whose signals wait for their first observation on the stack's page."""
    return {row.family for row in vllm.ROWS if row.family in stems and reading.answer(row.signal).state is State.IDLE}


def _families(baseline: Exhibit, evidence: Evidence) -> dict[str, str]:
    """Return the bare engine's families by name without prefix, as the bare engine spells them."""
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
