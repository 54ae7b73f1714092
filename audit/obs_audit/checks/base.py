"""What a check is: an id, how loud it is, its documentation with two examples that are really run, and the function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from obs_audit.case import Case, build
from obs_audit.evidence import Bundle, Exercise, Given, Piece, Role, interpret
from obs_audit.findings import Finding, Severity
from obs_audit.profiles import profile

_SOURCES = {Role.BASELINE_DOCUMENT: "http://bare/version"}


@dataclass(frozen=True, slots=True)
class Example:
    """A small target that a check is shown with: the page and whatever else the check looks at.

    ``page`` is None for a paper audit. ``pieces`` are further pieces by role; a document's key is its path.
    """

    page: str | None = None
    stack: str = "vllm"
    stack_version: str = ""
    engine_version: str = ""
    pieces: Mapping[Role, str] = field(default_factory=dict)
    documents: Mapping[str, str] = field(default_factory=dict)
    expected: Mapping[str, str] = field(default_factory=dict)
    exercise: Exercise | None = None
    profile: str = "all"

    def bundle(self) -> Bundle:
        """Return it as gathered evidence."""
        pieces = [] if self.page is None else [Piece(Role.PAGE, "page.txt", self.page.encode())]
        pieces += [Piece(role, _SOURCES.get(role, f"{role}.txt"), text.encode()) for role, text in self.pieces.items()]
        pieces += [Piece(Role.DOCUMENT, f"http://api{path}", text.encode()) for path, text in self.documents.items()]
        if self.exercise is not None:
            pieces.append(Piece(Role.EXERCISE, "exercise", self.exercise.to_json()))
        return Bundle(Given(self.stack, self.stack_version, self.engine_version), tuple(pieces))

    def case(self) -> Case:
        """Return it as a case."""
        return build(interpret(self.bundle()), self.expected, profile(self.profile))


@dataclass(frozen=True, slots=True)
class Check:
    """One check. ``text`` is its module's docstring: the title in the first line, then what it means and why.

    ``find`` yields its findings on a case; ``fails`` is an example on which it does, ``passes`` one on which it does
    not.
    """

    id: str
    severity: Severity
    text: str | None
    remedy: str
    find: Callable[[Case], Iterator[Finding]]
    fails: Example
    passes: Example

    @property
    def title(self) -> str:
        """The first line of its text."""
        return (self.text or "").strip().partition("\n")[0].rstrip(".")

    @property
    def body(self) -> str:
        """The text below the title."""
        return (self.text or "").strip().partition("\n")[2].strip()


def from_oddities(code: str, severity: Severity, remedy: str = "") -> Callable[[Case], Iterator[Finding]]:
    """Make a check's function that yields what the reading of each page noted under a code.

    ``remedy`` stands in where the note has none of its own.
    """

    def find(case: Case) -> Iterator[Finding]:
        exhibits = [(exhibit.reading, exhibit.source) for exhibit in case.evidence.exhibits]
        for reading, source in exhibits or [(case.reading, case.source)]:
            for oddity in reading.oddities:
                if oddity.code == code:
                    yield Finding(code, severity, oddity.signal, oddity.message, oddity.remedy or remedy, source)

    return find


def from_state(check: str, severity: Severity, state: str) -> Callable[[Case], Iterator[Finding]]:
    """Make a check's function that yields one finding for each signal in a state."""

    def find(case: Case) -> Iterator[Finding]:
        for answer in case.reading.answers:
            if answer.state == state:
                signal = answer.signal.id
                yield Finding(check, severity, signal, answer.reason, answer.remedies, case.places[signal])

    return find


def number(count: int, noun: str) -> str:
    """Write a number with its noun: ``1 signal``, ``3 signals``, ``2 families``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"


def listed(names: list[str], most: int = 6) -> str:
    """Write a list for people: all of a short one, the beginning of a long one."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"
