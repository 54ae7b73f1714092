"""From raw pieces to what checks look at: readings, documents, lines of a log. Pure: one bundle, one result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from obs_audit import loglines
from obs_audit.evidence.deriving import derived, log_view, seconds_between
from obs_audit.evidence.exercise import Exercise
from obs_audit.evidence.model_configs import configured
from obs_audit.evidence.pieces import ACCEPTS, Bundle, Given, Piece, Role
from obs_audit.inventory import Counts, count
from obs_exporter.errors import InputError
from obs_exporter.exposition import Page, Wanted, parse
from obs_exporter.stacks import (
    STACKS,
    UNKNOWN,
    Claims,
    Known,
    Reading,
    Stack,
    as_version,
    read_nothing,
    read_page,
    read_paper,
)
from obs_exporter.stacks.endpoints import combine


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One page with its reading. No counts if unreadable; ``later`` is the same page some seconds after.

    ``negotiated`` are the engine's names that the server answers other Accept headers with: header -> page.
    """

    source: str
    reading: Reading
    page: Page
    body: bytes = b""
    counts: Counts | None = None
    later: Exhibit | None = None
    negotiated: Mapping[Role, Page] | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was gathered of one target, understood.

    ``exhibits`` are its pages in the order given, none for a paper audit. ``documents`` maps a path of the API to its
    JSON. ``discovery`` are the addresses that Ray's service discovery names, None where it was not asked
    or told nothing (``discovery_problem`` is then its source and why).
    ``annotations`` is the text of Kubernetes manifests. ``api_problem`` is (source, why) of an API that was named and
    answered nothing. ``moved`` is (page before, page after) of an exercise.
    """

    stack: Stack
    exhibits: tuple[Exhibit, ...]
    paper: Reading
    documents: Mapping[str, object]
    logs: tuple[loglines.Found, ...] = ()
    discovery: tuple[str, ...] | None = None
    discovery_problem: tuple[str, str] | None = None
    annotations: tuple[tuple[str, str], ...] = ()
    api_page: Exhibit | None = None
    api_problem: tuple[str, str] | None = None
    baseline: Exhibit | None = None
    exercise: Exercise | None = None
    moved: tuple[Exhibit, Exhibit] | None = None

    @property
    def readable(self) -> tuple[Exhibit, ...]:
        """The pages that could be read."""
        return tuple(exhibit for exhibit in self.exhibits if exhibit.reading.reachable)

    @property
    def unreadable(self) -> tuple[Exhibit, ...]:
        """The pages that yielded nothing at all; one that has the layer's signals alone is read as far as it goes."""
        return tuple(
            exhibit for exhibit in self.exhibits
            if not exhibit.reading.reachable and not any(answer.series for answer in exhibit.reading.answers)
        )  # fmt: skip

    @property
    def failed_beside(self) -> tuple[tuple[str, str], ...]:
        """What was asked for beside the pages and tells nothing: (source, why)."""
        found = [problem for problem in (self.discovery_problem, self.api_problem) if problem is not None]
        if self.baseline is not None and not self.baseline.reading.reachable:
            problem = _less(self.baseline.source, self.baseline.reading.problem)
            found.append((self.baseline.source, f"the baseline cannot be read: {problem}"))
        return tuple(found)


def interpret(bundle: Bundle) -> Evidence:
    """Understand a bundle.

    Raises ``InputError`` for a stack that is not known and for versions that are none (in a manifest; flags were
    checked before).
    """
    stack = _stack(bundle.given)
    told = _claims(bundle.given)
    documents = _documents(bundle, Role.DOCUMENT)
    claims = combine(told, _asked(stack, documents))
    exhibits = tuple(_exhibit(stack, piece, claims, bundle, documents) for piece in bundle.of(Role.PAGE))
    discovery, discovery_problem = _discovery(bundle)
    before, after = bundle.one(Role.BEFORE), bundle.one(Role.AFTER)
    api = bundle.one(Role.API_PAGE)
    return Evidence(
        stack,
        exhibits,
        read_paper(stack, claims, regained=False),
        documents,
        logs=tuple(loglines.read(piece.source, _text(piece)) for piece in bundle.of(Role.ENGINE_LOG)),
        discovery=discovery,
        discovery_problem=discovery_problem,
        annotations=tuple((piece.source, _text(piece)) for piece in bundle.of(Role.ANNOTATIONS)),
        api_page=_single(STACKS["vllm"], api, Claims()) if api is not None and not api.error else None,
        api_problem=_api_problem(api, documents),
        baseline=_baseline(bundle),
        exercise=_exercise(bundle),
        moved=(_single(stack, before, claims), _single(stack, after, claims)) if before and after else None,
    )


def _stack(given: Given) -> Stack:
    if given.stack not in STACKS:
        raise InputError(f"no such stack: {given.stack!r}; known are {', '.join(STACKS)}")
    return STACKS[given.stack]


def _claims(given: Given) -> Claims:
    try:
        return Claims(claimed(given.stack_version), claimed(given.engine_version))
    except ValueError as error:
        raise InputError(str(error)) from None


def claimed(text: str) -> Known:
    """Return a version that the user gives. Raises ``ValueError`` for text that is none."""
    return Known((as_version(text),), "given") if text else UNKNOWN


def _asked(stack: Stack, documents: Mapping[str, object]) -> Claims:
    """Return what the API's documents tell of versions."""
    claims = Claims()
    for endpoint in stack.endpoints:
        if endpoint.path in documents:
            claims = combine(claims, endpoint.read(documents[endpoint.path]))
    return claims


def _documents(bundle: Bundle, role: Role) -> dict[str, object]:
    """Return the JSON documents by path; what is no JSON is left out."""
    found: dict[str, object] = {}
    for piece in bundle.of(role):
        if piece.error:
            continue
        path = "/" + piece.source.partition("://")[2].partition("/")[2]
        try:
            found[path] = json.loads(piece.body)
        except ValueError:
            continue
    return found


def _exhibit(stack: Stack, piece: Piece, claims: Claims, bundle: Bundle, documents: Mapping[str, object]) -> Exhibit:
    later = bundle.one(Role.LATER, piece.number)
    wanted = engine_names(stack)
    negotiated = {}
    for role in ACCEPTS:
        variant = bundle.one(role, piece.number)
        if variant is not None and not variant.error:
            negotiated[role] = parse(variant.body, wanted, openmetrics=variant.openmetrics)
    exhibit = _single(stack, piece, claims, _single(stack, later, claims) if later else None, negotiated)
    looks = [(one.page, one.reading, seconds_between(bundle, piece.number)) for one in (exhibit, exhibit.later) if one]
    reading = derived(stack, looks, log_view(bundle.of(Role.ENGINE_LOG), piece.taken), piece.taken)
    return replace(exhibit, reading=configured(stack, exhibit.page, reading, documents))


def engine_names(stack: Stack) -> Wanted:
    """Return every name of the engine's, whether it carries a signal or not."""
    return Wanted((), stack.engine_prefixes)


def _single(
    stack: Stack, piece: Piece, claims: Claims, later: Exhibit | None = None, negotiated: dict[Role, Page] | None = None
) -> Exhibit:
    """Read one page."""
    if piece.error:
        return Exhibit(piece.source, read_nothing(stack, claims, piece.error), Page(problem=piece.error))
    page = parse(piece.body, stack.wanted(), openmetrics=piece.openmetrics)
    reading = read_page(stack, page, claims)
    counts = count(stack, page, piece.body) if reading.reachable else None
    return Exhibit(piece.source, reading, page, piece.body, counts, later, negotiated or None)


def _discovery(bundle: Bundle) -> tuple[tuple[str, ...] | None, tuple[str, str] | None]:
    """Return the addresses that Ray's service discovery names, sorted, or where it was asked and why it told none."""
    piece = bundle.one(Role.DISCOVERY)
    if piece is None:
        return None, None
    problem = _less(piece.source, piece.error)
    if not problem:
        try:
            groups = json.loads(piece.body)
            targets = tuple(sorted({str(target) for group in groups for target in group["targets"]}))
        except (ValueError, KeyError, TypeError):
            what = "is empty" if not piece.body.strip() else "is no JSON list of targets as Ray's dashboard gives it"
            problem = f"the answer {what}"
        else:
            if targets:
                return targets, None
            problem = "it names no address"
    return None, (piece.source, f"service discovery tells nothing: {problem}")


def _less(source: str, problem: str) -> str:
    """Return a problem without the source that an error of fetching begins with."""
    return problem.removeprefix(source).strip()


def _api_problem(page: Piece | None, documents: Mapping[str, object]) -> tuple[str, str] | None:
    """Say that nothing of an API answered: its ``/metrics`` may be missing, its documents too, but not all of them."""
    if page is None or not page.error or documents:
        return None
    return page.source, f"the API tells nothing: {_less(page.source, page.error)}"


def _baseline(bundle: Bundle) -> Exhibit | None:
    """Read the bare engine's page with the version that its own API tells."""
    piece = bundle.one(Role.BASELINE)
    if piece is None:
        return None
    bare = STACKS["vllm"]
    return _single(bare, piece, _asked(bare, _documents(bundle, Role.BASELINE_DOCUMENT)))


def _exercise(bundle: Bundle) -> Exercise | None:
    piece = bundle.one(Role.EXERCISE)
    if piece is None:
        return None
    try:
        return Exercise.from_json(piece.body)
    except ValueError as error:
        raise InputError(f"{piece.source}: this is no record of an exercise: {error}") from None


def _text(piece: Piece) -> str:
    return piece.body.decode("utf-8", "replace")
