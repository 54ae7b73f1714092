"""Read the wanted families of a Prometheus text page, quickly, and say what was damaged. Pure: bytes in, values out.

A serving layer's page can hold thousands of series of which we want a few hundred, every few seconds. So the page is
split into lines once, a line whose prefix nobody wants is never looked at again, and label blocks that repeat
(they do: one per family and bucket edge) are parsed once. OpenMetrics pages are read too: ``# EOF``, exemplars and
timestamps are recognised and dropped. A line that cannot be read is counted and kept as evidence, never guessed.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

_TYPE = b"# TYPE "
_HELP = b"# HELP "
MAX_SAMPLES = 200_000
"""Wanted samples of one page: a page of 2,300 series has some hundred."""
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"]*)"')
_PAIR_STRICT = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"\\": "\\", '"': '"', "n": "\n"}
_NAME_END = re.compile(rb"[{\s]")
_KEEP_DAMAGED = 3

SUFFIXES = ("_bucket", "_sum", "_count")


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample line. ``labels`` is shared between samples and must not be changed."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that could not be read: its number from 1 and its beginning."""

    line: int
    text: str


@dataclass(slots=True)
class Page:
    """The wanted part of one page; ``problem`` says why it is no whole metrics page, or is "".

    ``samples`` maps a sample name as printed to its samples in page order; only wanted names are there. ``types`` maps
    every family that the page declares, wanted or not, to its type: a page without any is no metrics page. ``helps``
    has their HELP texts, as escaped on the page. ``notes`` is for readers that ask the same of a page again and again.
    """

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    helps: dict[str, str] = field(default_factory=dict)
    damaged: int = 0
    damage: list[Damage] = field(default_factory=list)
    problem: str = ""
    notes: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)

    def has(self, family: str) -> bool:
        """Whether the page has samples of a family, of whatever kind."""
        return any(family + suffix in self.samples for suffix in ("", *SUFFIXES))

    def help(self, name: str) -> str:
        """Return the HELP text of a family, or ""."""
        return self.helps.get(name) or self.helps.get(name.removesuffix("_total"), "")

    def kind(self, name: str) -> str:
        """Return the declared type of a family, or "" where the page declares none.

        OpenMetrics declares counters without ``_total``, and a negotiation can leave ``:`` in the declaration while the
        samples have ``_`` (prometheus_client from 0.23): both are followed.
        """
        stem = name.removesuffix("_total")
        found = self.types.get(name) or self.types.get(stem)
        if found:
            return found
        mangled = name.replace(":", "_", 1)
        for declared, kind in self.types.items():
            if ":" in declared and declared.replace(":", "_", 1) in (mangled, mangled.removesuffix("_total")):
                return kind
        return ""


class Wanted:
    """The names to look for: built once per stack, used for every page."""

    def __init__(self, families: Iterable[str], prefixes: Iterable[str] = ()) -> None:
        """Name whole families (counters with their ``_total``), or prefixes under which every family is wanted."""
        names = {family.encode() for family in families}
        suffixed = {name + suffix.encode() for name in names for suffix in SUFFIXES}
        self._names = frozenset(names | suffixed)
        self._open = tuple(sorted(prefix.encode() for prefix in prefixes))
        self._prefixes = tuple(sorted({_stem(name) for name in self._names} | set(self._open)))

    def lines(self, lines: list[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield (index, line) of the lines that begin like a wanted sample."""
        prefixes = self._prefixes
        return ((index, line) for index, line in enumerate(lines) if line.startswith(prefixes))

    def sample(self, name: bytes) -> bool:
        """Whether a sample of this name is wanted."""
        return name in self._names or bool(self._open and name.startswith(self._open))


def _stem(name: bytes) -> bytes:
    """Return a prefix that names of one source share: up to the second separator."""
    match = re.match(rb"[a-z0-9]+[:_][a-z0-9]+[:_]?", name)
    return match.group() if match else name


def parse(body: bytes, wanted: Wanted, *, openmetrics: bool = False) -> Page:
    """Parse the wanted samples of a page; ``openmetrics`` says that the server declared that format.

    Never raises on bad input: damaged lines are counted in the result, a page that ends inside a line or without the
    ``# EOF`` that its OpenMetrics form demands has ``problem`` set to the reason.
    """
    page = Page(problem=_no_metrics(body))
    if page.problem:
        return page
    lines = body.split(b"\n")
    if lines and lines[-1].strip():
        page.problem = "the page ends in the middle of a line"
        lines.pop()
    elif openmetrics and not body.rstrip().endswith(b"# EOF"):
        page.problem = "the OpenMetrics page ends without its # EOF"
    elif _ends_inside_family(lines):
        page.problem = "the page ends in the middle of a family"
    _read_types(page, lines)
    memo: dict[bytes, Mapping[str, str] | None] = {b"": {}}
    samples: dict[bytes, list[Sample]] = {}
    count = 0
    for index, line in wanted.lines(lines):
        end = _NAME_END.search(line)
        name = line[: end.start()] if end else line
        if not wanted.sample(name):
            continue
        parsed = _read_sample(line, len(name), memo)
        if parsed is None:
            page.damaged += 1
            if len(page.damage) < _KEEP_DAMAGED:
                page.damage.append(Damage(index + 1, line[:120].decode("utf-8", "replace")))
        elif name in samples:
            samples[name].append(parsed)
        else:
            samples[name] = [parsed]
        count += 1
        if count > MAX_SAMPLES:
            page.problem = f"the page has more than {MAX_SAMPLES} series of the families that are wanted"
            break
    page.samples = {name.decode("utf-8", "replace"): found for name, found in samples.items()}
    return page


def _no_metrics(body: bytes) -> str:
    """Say what a body is that declares no family, or ""."""
    if body.startswith(_TYPE) or b"\n" + _TYPE in body:
        return ""
    start = body.lstrip()[:1]
    if not start:
        return "the page is empty (Triton's metrics port answers so on every path but /metrics)"
    nature = {b"<": "HTML", b"{": "JSON", b"[": "JSON"}.get(start, "no metrics page: it has no # TYPE line")
    return f"the page is {nature}"


def _ends_inside_family(lines: list[bytes]) -> bool:
    """Whether the last line cannot be a page's last: a HELP line, or a bucket below the last one of its histogram."""
    last = next((line for line in reversed(lines) if line.strip()), b"")
    below = b"_bucket{" in last and b'le="' in last and b'le="+Inf"' not in last
    return last.startswith(b"# HELP ") or (below and not last.startswith(b"#"))


def _read_types(page: Page, lines: list[bytes]) -> None:
    """Fill the page's declared types and HELP texts; of two declarations of one family the first holds."""
    for line in lines:
        if line.startswith(_HELP):
            name, _, text = line[len(_HELP) :].partition(b" ")
            page.helps.setdefault(name.decode("utf-8", "replace"), text.decode("utf-8", "replace"))
        elif line.startswith(_TYPE):
            parts = line.split()
            if len(parts) == 4:
                page.types.setdefault(parts[2].decode("utf-8", "replace"), parts[3].decode("utf-8", "replace"))


def _read_sample(line: bytes, start: int, memo: dict[bytes, Mapping[str, str] | None]) -> Sample | None:
    """Read labels and value of a line whose name ends at ``start``; None where it is damaged."""
    if line[start : start + 1] != b"{":
        block, rest = b"", line[start:]
    else:
        head, separator, rest = line.rpartition(b"} ")
        if separator and b" # " not in line:
            block = head[start + 1 :]
        else:
            close = _closing_brace(line, start)
            if close < 0:
                return None
            block, rest = line[start + 1 : close], line[close + 1 :]
    labels = memo.get(block)
    if labels is None:
        if block in memo:
            return None
        labels = memo[block] = _read_labels(block)
        if labels is None:
            return None
    value = _read_value(rest)
    return None if value is None else Sample(labels, value)


def _closing_brace(line: bytes, start: int) -> int:
    """Return the index of the brace that closes the label block, or -1: braces inside quotes do not count."""
    quoted = False
    index = start + 1
    while index < len(line):
        char = line[index]
        if quoted and char == 0x5C:  # a backslash hides the next character
            index += 1
        elif char == 0x22:
            quoted = not quoted
        elif char == 0x7D and not quoted:
            return index
        index += 1
    return -1


def _read_labels(block: bytes) -> Mapping[str, str] | None:
    """Read a label block; None where it is damaged."""
    text = block.decode("utf-8", "replace")
    if "\\" not in text:
        pairs = _PAIR.findall(text)
        # Each pair takes its own length plus `=""` and a comma: equal lengths mean that nothing was skipped.
        if sum(len(name) + len(value) + 4 for name, value in pairs) - 1 == len(text.rstrip(",")):
            return dict(pairs)
    labels: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _PAIR_STRICT.match(text, position)
        if match is None:
            return labels if not text[position:].strip() else None
        labels[match.group(1)] = _ESCAPE.sub(_unescape, match.group(2))
        position = match.end()
    return labels


def _unescape(match: re.Match[str]) -> str:
    r"""Return the character behind ``\\``, ``\"`` or ``\n``; other sequences stay as they are."""
    return _ESCAPED.get(match.group(1), match.group())


def _read_value(rest: bytes) -> float | None:
    """Read the value of a sample's tail: a number, perhaps a timestamp, perhaps an exemplar."""
    exemplar = rest.find(b" # ")
    if exemplar >= 0:
        rest = rest[:exemplar]
    parts = rest.split()
    if not 1 <= len(parts) <= 2:
        return None
    try:
        numbers = [float(part) for part in parts if b"_" not in part]
    except ValueError:
        return None
    return numbers[0] if len(numbers) == len(parts) else None
