"""Which versions a page can come from: what was claimed, what the page says, what a release carries, what fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from obs_exporter.exposition import Page
from obs_exporter.stacks import engine as vllm
from obs_exporter.stacks.base import Pin, Stack
from obs_exporter.stacks.catalogue import Engine, catalogue
from obs_exporter.stacks.model import Claims, Oddity, Point
from obs_exporter.stacks.versions import UNKNOWN, Known, key


@dataclass(frozen=True, slots=True)
class Identity:
    """The versions of a target as far as they are known.

    ``points`` are the pairs of stack and engine release that are possible, oldest first, never empty.
    """

    stack: Known
    engine: Known
    generation: str
    points: tuple[Point, ...]
    oddities: tuple[Oddity, ...] = ()

    def registers(self, family: str) -> bool:
        """Whether any possible engine has this family, however it treats it."""
        return bool(self._statuses(family))

    def shows(self, family: str) -> bool:
        """Whether any possible engine prints this family without a switch."""
        return "registered" in self._statuses(family)

    def _statuses(self, family: str) -> set[str]:
        engines = {Engine(point.engine, point.generation) for point in self.points}
        if self.engine.floor:  # the true engine may be any newer one
            oldest = min((key(engine.release) for engine in engines if engine.release), default=None)
            engines |= {
                engine for engine in catalogue().engines if oldest is not None and key(engine.release) >= oldest
            }
        entries = (catalogue().registration(family, engine) for engine in engines)
        return {entry.status for entry in entries if entry is not None}


def identify(stack: Stack, page: Page | None, claims: Claims) -> Identity:
    """Find the versions of a target; without a page and without claims, the newest release whose facts are known."""
    told = claims.stack_version
    seen = stack.stack_version(page) if page is not None else UNKNOWN
    stack_known = _agreed(told, seen)
    if page is None and not stack_known.candidates and stack.releases:
        stack_known = Known((stack.releases[-1],), "the newest known release")
    fit = _fit(stack, page) if page is not None else []
    claimed = stack_known if told.candidates else told
    oddities = _mismatch(stack, claimed, seen, claims.engine_version, fit)
    points, engine_known = _points(stack, stack_known, claims, fit)
    oddities += _outside(stack, told, claims.engine_version)
    generations = {point.generation for point in points} - {""}
    generation = generations.pop() if len(generations) == 1 and engine_known.candidates else ""
    if stack.is_engine:
        stack_known = engine_known
    return Identity(stack_known, engine_known, generation, points, tuple(oddities))


def _agreed(told: Known, seen: Known) -> Known:
    """Return what was told, unless the page narrows it: the version on a page beats a range from an endpoint."""
    if not told.candidates or not seen.candidates:
        return told if told.candidates else seen
    first, last = told.candidates[0], told.candidates[-1]
    inside = all(key(first) <= key(release) <= key(last) for release in seen.candidates)
    return seen if inside and len(seen.candidates) < len(told.candidates) else told


def _fit(stack: Stack, page: Page) -> list[Engine]:
    """Return the engines whose families agree best with the page."""
    families = stack.engine_families(page) if stack.names_by_engine(page) else {}
    possible = [engine for engine in catalogue().engines if _generation_fits(stack, engine, page, families)]
    finished = families.get("request_success_total", "") in page.samples
    return catalogue().fit(families, possible, complete=stack.complete and finished)


def _generation_fits(stack: Stack, engine: Engine, page: Page, families: dict[str, str]) -> bool:
    """Whether the page's labels allow a generation: V1 labels with ``engine`` from 0.8.3 on, V0 never does."""
    names = [name for family, name in families.items() if family in vllm.LABELLED]
    samples = [page.samples[name][0] for name in names if page.samples.get(name)]
    if not samples or not stack.complete:
        return engine.generation != "rust"
    labelled = any("engine" in sample.labels for sample in samples)
    modern = engine.generation != "V0" and key(engine.release) >= key(vllm.FIRST_ENGINE_LABEL)
    return labelled is modern


def _mismatch(stack: Stack, told: Known, seen: Known, engine: Known, fit: list[Engine]) -> list[Oddity]:
    """Note where the page contradicts what was claimed."""
    oddities = []
    if told.candidates and seen.candidates and not seen.admits(told.best):
        message = f"{stack.title} was given as {told}, the page says {seen} ({seen.source})"
        oddities.append(Oddity("version_mismatch", message))
    claimed = engine if engine.candidates else (told if stack.is_engine else Known((), ""))
    releases = [found.release for found in fit]
    if claimed.candidates and releases and catalogue().nearest(claimed.best) not in releases:
        known = Known(tuple(dict.fromkeys(releases)), "")
        message = f"the engine was given as vLLM {claimed}, the families of the page fit {known}"
        oddities.append(Oddity("version_mismatch", message))
    return oddities


def _outside(stack: Stack, told: Known, engine: Known) -> Iterator[Oddity]:
    """Note versions that were given and are outside those whose facts are known."""
    given = [(stack.title, told, stack.releases)]
    if engine.candidates and not stack.is_engine:
        given.append(("vLLM", engine, catalogue().releases))
    elif stack.is_engine and engine.candidates:
        given = [("vLLM", engine, catalogue().releases)]
    for title, known, releases in given:
        if not known.candidates or key(releases[0]) <= key(known.best) <= key(releases[-1]):
            continue
        newer = key(known.best) > key(releases[-1])
        edge = f"newer than the newest ({releases[-1]})" if newer else f"older than the oldest ({releases[0]})"
        yield Oddity(
            "unknown_version", f"{title} {known} is {edge} whose facts are known; what is said of it may be wrong"
        )


def _points(stack: Stack, stack_known: Known, claims: Claims, fit: list[Engine]) -> tuple[tuple[Point, ...], Known]:
    """Pair the possible stack releases with their possible engines.

    What was told is surest; then what a release carries or what fits the page, in the order that the stack says.
    """
    told = claims.engine_version
    if stack.is_engine and not told.candidates:
        told = stack_known
    if told.candidates:
        return _told(stack, stack_known, told, fit), told
    carried = _carried(stack, stack_known)
    fitted = _fitted(stack_known, fit)
    for points, known in (carried, fitted) if stack.pins_first else (fitted, carried):
        if known.candidates:
            return points, known
    newest = catalogue().releases[-1]
    names = stack_known.candidates or ("",)
    return tuple(Point(name, newest, vllm.generation_of(newest)) for name in names), UNKNOWN


def _told(stack: Stack, stack_known: Known, told: Known, fit: list[Engine]) -> tuple[Point, ...]:
    """Pair the stack releases with the engine that was told; its generation is what the page or the release shows."""
    release = catalogue().nearest(told.best)
    fitting = [engine.generation for engine in fit if engine.release == release]
    points = []
    for name in stack_known.candidates or ("",):
        forced = [pin.generation for pin in stack.pinned(name) if pin.generation]
        generation = (fitting or forced or [vllm.generation_of(release)])[-1]
        points.append(Point(name, release, generation))
    return tuple(points)


def _carried(stack: Stack, stack_known: Known) -> tuple[tuple[Point, ...], Known]:
    """Pair each stack release with the engines that it carries; one that carries none has an engine of no version."""
    points: list[Point] = []
    carried: list[Pin] = []
    for name in stack_known.candidates:
        pins = stack.pinned(name)
        carried += pins
        points += [] if pins else [Point(name, "", "")]
        for pin in pins:
            release = catalogue().nearest(pin.engine)
            points.append(Point(name, release, pin.generation or vllm.generation_of(release)))
    engines = tuple(dict.fromkeys(pin.engine for pin in carried))
    runtimes = [f"{pin.runtime} {pin.engine}" for pin in carried if pin.runtime]
    source = f"carried by {stack.title} {stack_known}" + (f": {', '.join(runtimes)}" if runtimes else "")
    return tuple(points), Known(engines, source, any(pin.floor for pin in carried))


def _fitted(stack_known: Known, fit: list[Engine]) -> tuple[tuple[Point, ...], Known]:
    """Pair the possible stack releases with every engine that fits the page."""
    releases = tuple(dict.fromkeys(engine.release for engine in fit))
    names = stack_known.candidates or ("",)
    points = tuple(Point(name, engine.release, engine.generation) for name in names for engine in fit)
    return points, Known(releases, "the families of the page")
