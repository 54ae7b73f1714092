"""What every stack has: tables, and the few questions that only it can answer. Stack modules fill and override this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from obs_exporter.exposition import Page, Wanted
from obs_exporter.schema import BY_ID, Precision, State
from obs_exporter.stacks import engine as vllm
from obs_exporter.stacks.catalogue import Engine, catalogue
from obs_exporter.stacks.endpoints import Endpoint
from obs_exporter.stacks.mapping import LabelRule
from obs_exporter.stacks.model import Answer, Claims, Point, Regained, Row, Rule
from obs_exporter.stacks.versions import UNKNOWN, Known, key, matches

GPU_SIGNALS = frozenset({"gpu_memory_used", "gpu_memory_total", "gpu_utilization"})
LAYER_SIGNALS = frozenset(signal_id for signal_id, signal in BY_ID.items() if signal.layer)

GPU_RULE = Rule(
    GPU_SIGNALS, State.NEVER,
    "neither the engine nor the layer publishes device metrics",
    remedy="give --gpu to an exporter on the GPU's machine, or run NVIDIA's dcgm-exporter and join on the node (its "
    "profiling fields DCGM_FI_PROF_* do not exist under WSL2)",
    cost="one pod a node, and its page to scrape",
    source="metric modules of vLLM 0.4.3 to 0.33.0",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Renaming:
    """A spelling of the engine's prefix that something on the way made, and why. ``code`` is an oddity's."""

    prefix: str
    code: str
    reason: str
    remedy: str


NEGOTIATED = Renaming(
    "vllm_", "renamed_by_negotiation",
    "a scraper that asks for OpenMetrics without escaping=allow-utf-8 gets them so from prometheus_client 0.23 on",
    "scrape with Accept: text/plain;version=0.0.4 (scrape_protocols: [PrometheusText0.0.4])",
)  # fmt: skip

ELSEWHERE = "this is the engine's own page; the layer's signals are on the layer's page"


@dataclass(frozen=True, slots=True)
class Pin:
    """Which engine a release of a stack carries.

    ``floor``: at least this one. ``generation`` where it is forced. ``runtime`` where a release has several.
    """

    stack: str
    engine: str
    floor: bool = False
    generation: str = ""
    runtime: str = ""


@dataclass(frozen=True, slots=True)
class Cadence:
    """A page that may not be asked more often than every ``seconds``: at these versions a scrape takes values away."""

    stack_versions: str
    seconds: float
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class LayerWait:
    """The layer's own queue as a difference: the time at its edge less the time inside what stands behind it.

    ``outer`` and ``inner`` are the two histogram families, ``factor`` turns their unit into seconds. ``group`` is the
    label by which the two belong together; where it is empty, the request reached nothing behind the edge. ``status``
    is the edge's label of the answer, and of requests with one of the ``doubtful`` answers nobody knows whether they
    got inside. ``part`` is the label that names what is inside, where several things of one group are, and ``ingress``
    are beginnings of the names of those that the edge calls itself; ``route`` is a label inside that is empty for
    calls that did not come over the edge. ``cause`` says what else makes the two differ.
    """

    outer: str
    inner: str
    factor: float
    group: str
    status: str
    doubtful: frozenset[str]
    part: str = ""
    ingress: tuple[str, ...] = ()
    route: str = ""
    cause: str = ""


@dataclass(frozen=True, eq=False)
class Stack:
    """One serving stack as tables; a stack is equal to itself only, so that answers about it can be remembered.

    ``engine_prefixes`` are the spellings of the engine's prefix on this stack's pages, the one to trust first;
    ``native_prefix`` is the bare engine's. ``renamings`` are spellings that something else on the way makes.
    ``markers`` are beginnings of family names that only this stack prints, ``lookalikes`` beginnings of the layer's own
    families that would pass for the engine's. ``page`` is where its page is found. ``releases`` are those whose facts
    were read, oldest first. ``is_engine``: the stack is the engine alone. ``complete``: the page shows every registered
    family from the start, so that absence means something. ``pins_first``: a release carries exactly one engine, which
    is surer than what the families suggest. ``endpoints`` tell versions. ``log_place`` says where the engine's log is.
    ``cadences`` bound how often its page may be asked. ``layer_wait`` says of which two families the layer's queue is
    the difference. ``regained`` is how signals come back that its page lacks. ``admitted_by`` is the layer signal whose
    count is that of the requests handed to the engine.
    """

    name: str
    title: str
    page: str
    releases: tuple[str, ...]
    engine_prefixes: tuple[str, ...]
    markers: tuple[str, ...]
    rows: tuple[Row, ...] = ()
    rules: tuple[Rule, ...] = ()
    regained: tuple[Regained, ...] = ()
    pins: tuple[Pin, ...] = ()
    native_prefix: str = "vllm:"
    is_engine: bool = False
    complete: bool = True
    pins_first: bool = True
    renamings: tuple[Renaming, ...] = (NEGOTIATED,)
    lookalikes: tuple[str, ...] = ()
    label_rule: LabelRule = field(
        default_factory=lambda: LabelRule(vllm.LABELS["model"], vllm.LABELS["engine"], vllm.ROUTER_LABEL)
    )
    evidence_families: tuple[str, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    log_place: str = ""
    cadences: tuple[Cadence, ...] = ()
    layer_wait: LayerWait | None = None
    admitted_by: str = ""

    # -- what to read ---------------------------------------------------------------------------------------------

    def wanted(self) -> Wanted:
        """Return the names that this stack's mapping reads, built once by the caller."""
        engine = {name for row in vllm.ROWS for name in row.families()} | {vllm.GENERATED}
        spelled = {prefix + name for prefix in self.engine_prefixes for name in engine}
        own = {name for row in self.rows for name in row.families()}
        wait = {self.layer_wait.outer, self.layer_wait.inner} if self.layer_wait is not None else set()
        return Wanted(spelled | own | wait | set(self.evidence_families))

    def engine_families(self, page: Page) -> dict[str, str]:
        """Return the engine families on a page, by their name without prefix, with the spelling that was found.

        ``_created`` families and the gauge twins of counters are no families of their own. Of several spellings the
        stack's most trusted one is returned.
        """
        noted = page.notes.get(self.name)
        if noted is not None:
            return noted
        known = catalogue().types
        found: dict[str, str] = {}
        for prefix in self.engine_prefixes:
            for name in page.types:
                if not name.startswith(prefix) or name.endswith("_created") or name.startswith(self.lookalikes):
                    continue
                stem = name[len(prefix) :]
                if stem not in known and stem + "_total" in known:
                    stem += "_total"
                found.setdefault(stem, name)
        spelled = page.notes[self.name] = {stem: self._as_sampled(stem, name, page) for stem, name in found.items()}
        return spelled

    def _as_sampled(self, stem: str, declared: str, page: Page) -> str:
        """Return the spelling under which a declared family has samples, else the declared one."""
        for prefix in self.engine_prefixes:
            if page.has(prefix + stem):
                return prefix + stem
        return declared

    # -- who it is ------------------------------------------------------------------------------------------------

    def unrecognised(self, page: Page, claims: Claims) -> str:  # noqa: ARG002 - stacks that ask for more use them
        """Return why this page is not this stack's, or ""."""
        if any(name.startswith(self.markers) for name in page.types) or self.engine_families(page):
            return ""
        return f"no family of {self.title} is on this page"

    def layer_only(self, page: Page) -> bool:  # noqa: ARG002 - see KServe
        """Whether an unrecognised page still has the layer's own signals."""
        return False

    def made_up(self, page: Page) -> tuple[int, int]:
        """Count the engine families on a page that a router made up from its own view, and all with samples."""
        foreign = self.label_rule.foreign
        names = [name for name in self.engine_families(page).values() if page.samples.get(name)]
        fakes = [name for name in names if foreign and all(foreign in sample.labels for sample in page.samples[name])]
        return len(fakes), len(names)

    def stack_version(self, page: Page) -> Known:  # noqa: ARG002 - stacks whose pages tell override this
        """Return what the page tells of the stack's version."""
        return UNKNOWN

    def cadence_of(self, version: Known) -> Cadence | None:
        """Return the bound on asking at a version: that of any release that is possible."""
        possible = (cadence for cadence in self.cadences for release in version.candidates
                    if matches(cadence.stack_versions, release))  # fmt: skip
        return next(possible, None)

    def pinned(self, stack_release: str) -> tuple[Pin, ...]:
        """Return the engines that a stack release carries: its own pins or those of the newest older release."""
        older = [pin for pin in self.pins if stack_release and key(pin.stack) <= key(stack_release)]
        return tuple(pin for pin in older if pin.stack == older[-1].stack)

    def names_by_engine(self, page: Page) -> bool:  # noqa: ARG002 - see Triton
        """Whether the engine gave the families of this page their names, so that they tell its version."""
        return True

    # -- what it says of a signal ----------------------------------------------------------------------------------

    def rows_for(self, signal: str, point: Point) -> Sequence[Row]:
        """Return the stack's own rows of a signal that hold at a point, in order of preference."""
        return [
            row
            for row in self.rows
            if row.signal == signal and not row.optional and (not point.stack or matches(row.versions, point.stack))
        ]

    def adjusted(self, row: Row, name: str, point: Point, page: Page) -> Row | None:  # noqa: ARG002 - see Ray Serve
        """Return the row as it holds for a family on this page; None where the family cannot be trusted."""
        return row

    def precision(self, row: Row, name: str, point: Point, page: Page | None) -> Precision:  # noqa: ARG002 - Ray Serve
        """Return how exact the values of a row are, spelled ``name`` on this page."""
        return row.precision

    def rule_for(self, signal: str, point: Point) -> Rule | None:
        """Return the first rule that holds."""
        return next((rule for rule in self.rules if rule.holds(signal, point)), None)

    def way_back(self, signal: str, point: Point) -> Regained | None:
        """Return how a signal comes back that the page lacks, or None."""
        return next((way for way in self.regained if way.holds(signal, point)), None)

    def lacking(self, answer: Answer, point: Point, page: Page) -> Answer:
        """Turn what the tables say into an answer for a page that has no value of the signal.

        The default is that of an engine which prints every family from its start on, behind a layer whose families
        appear with the first request.
        """
        if not answer.state.publishes:
            return answer
        if self.rows_for(answer.signal.id, point):
            return without_value(answer, State.IDLE, "appears with the first request; none was seen yet")
        return missing_on_engine(answer, point, page, self.engine_families(page))


def without_value(
    answer: Answer, state: State, reason: str, *, name: str = "", remedy: str = "", cost: str = ""
) -> Answer:
    """Return the answer with a state that publishes nothing."""
    return Answer(answer.signal, state, reason, native_name=name, remedy=remedy, cost=cost)


def by_rule(answer: Answer, rule: Rule) -> Answer:
    """Return the answer as a rule gives it."""
    return without_value(answer, rule.state, rule.reason, remedy=rule.remedy, cost=rule.cost)


def missing_on_engine(answer: Answer, point: Point, page: Page, families: Mapping[str, str]) -> Answer:
    """Say why a signal that the engine registers has no value: nothing observed yet, or dropped on the way."""
    having = vllm.rows_at(answer.signal.id, Engine(point.engine, point.generation), catalogue())
    declared = [families[row.family] for row, _ in having if row.family in families]
    if declared and having[0][0].product:
        reason = f"{declared[0]} is there, but the labels that hold it are no numbers"
        return without_value(answer, State.LOST, reason, name=declared[0], remedy="read the engine's start-up log")
    if declared:
        return without_value(answer, State.IDLE, "registered, nothing observed yet", name=declared[0])
    if point.generation == "V0" and not has_finished(page, families):
        return without_value(answer, State.IDLE, "a family appears with its first observation (V0, several processes)")
    name = having[0][0].family if having else answer.signal.id
    return without_value(
        answer, State.LOST, f"vLLM {point.engine} registers {name}, and this page does not have it: dropped on the way",
        remedy="read the engine's own port; look for metric_relabel_configs, a filter or a proxy in between",
    )  # fmt: skip


def has_finished(page: Page, families: Mapping[str, str]) -> bool:
    """Whether the page shows a finished request."""
    name = families.get("request_success_total", "")
    return any(sample.value > 0 for sample in page.samples.get(name, []))
