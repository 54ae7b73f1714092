"""One signal stands twice, on one page or on two.

The same observations under two names: Open Data Hub adds ``kserve_vllm:*`` twins, Ray adds a gauge twin to each
counter, and vLLM itself had old and new names side by side. A rule that matches both counts everything twice. So does a
sum over two pages of one target that have the same numbers under two prefixes (the engine's own port beside the
layer's); that is only worth knowing, since each page by itself is right.
"""

from __future__ import annotations

from collections.abc import Iterator

from obs_audit.case import Case
from obs_audit.checks.base import Check, Example, from_oddities, listed, number
from obs_audit.evidence import Exhibit
from obs_audit.findings import Finding, Severity
from obs_exporter.schema import Provenance

_PAGE = '# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0",model_name="m"} 1\n'
_REMEDY = "choose one of the names in every rule; drop the other where it is added"
_ONE_PAGE = "scrape one of the two, or keep the engine's families of one of them only"
_on_one_page = from_oddities("doubled", Severity.WARNING, _REMEDY)


def find(case: Case) -> Iterator[Finding]:
    """Yield what each page has twice, and one finding for each page that repeats an earlier one."""
    yield from _on_one_page(case)
    pages = case.evidence.readable
    for index, page in enumerate(pages):
        for earlier in pages[:index]:
            message = _repeated(earlier, page)
            if message:
                yield Finding("doubled", Severity.INFO, "", message, _ONE_PAGE, page.source)
                break


def _repeated(earlier: Exhibit, page: Exhibit) -> str:
    """Say what a page repeats of an earlier one, or ""."""
    if page.body == earlier.body:
        return f"this page is the same as {earlier.source}, byte for byte: it is one page given twice"
    pairs = zip(earlier.reading.answers, page.reading.answers, strict=True)
    twice = [
        (one, other)
        for one, other in pairs
        if one.series and other.series and one.provenance is other.provenance is Provenance.ENGINE
        and one.native_name != other.native_name
    ]  # fmt: skip
    if not twice:
        return ""
    names = listed([f"{other.native_name} beside {one.native_name}" for one, other in twice], 2)
    return f"{number(len(twice), 'signal')} of this page stand on {earlier.source} as well, under other names: {names}"


CHECK = Check(
    "doubled", Severity.WARNING, __doc__, _REMEDY, find,
    fails=Example(_PAGE + _PAGE.replace("vllm:", "kserve_vllm:"), stack="kserve"),
    passes=Example(_PAGE, stack="kserve"),
)  # fmt: skip
