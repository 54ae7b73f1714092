"""Every check is shown with an example that fails and one that passes; both are run, and the docs are made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from obs_audit.checks import CHECKS, IDS, Check, docs

DOCS = Path(__file__).parents[3] / "docs" / "checks"
EACH = pytest.mark.parametrize("check", CHECKS, ids=[check.id for check in CHECKS])


@EACH
def test_the_failing_example_fails_as_loudly_as_documented(check: Check) -> None:
    found = [finding for finding in check.find(check.fails.case()) if finding.check == check.id]
    assert found
    assert max(finding.severity for finding in found) is check.severity
    assert all(finding.message and finding.source for finding in found)


@EACH
def test_the_passing_example_passes(check: Check) -> None:
    assert list(check.find(check.passes.case())) == []


@EACH
def test_it_yields_findings_of_its_own_id_only(check: Check) -> None:
    assert {finding.check for finding in check.find(check.fails.case())} == {check.id}


@EACH
def test_its_page_is_what_the_code_says(check: Check) -> None:
    assert (DOCS / f"{check.id}.md").read_text(encoding="utf-8") == docs.page(check)


def test_ids_are_unique_and_no_page_is_orphaned() -> None:
    assert len(set(IDS)) == len(IDS)
    assert {path.stem for path in DOCS.glob("*.md")} == {check.id for check in CHECKS} | {"README"}
    assert (DOCS / "README.md").read_text(encoding="utf-8") == docs.index()


def test_each_check_has_a_file_of_its_name() -> None:
    folder = Path(docs.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "base", "docs"}
    assert files == {check.id for check in CHECKS}
