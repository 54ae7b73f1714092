"""Build every board into ``generated/``, or with ``--check`` say whether what lies there is current.

Run from the repository's root: ``python -m dashboards.build [--check]``. The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from pathlib import Path
from typing import Any

from dashboards.tidy import tidy
from grafanalib._gen import DashboardEncoder

from dashboards import operator_rules

HERE = Path(__file__).parent
ROOT = HERE.parent


def boards() -> dict[Path, str]:
    """Return the JSON text of every board by the path where it belongs."""
    return {
        HERE / "generated" / path.name.replace(".dashboard.py", ".json"): text_of(path)
        for path in sorted(HERE.glob("*.dashboard.py"))
    }


def text_of(path: Path) -> str:
    """Return the JSON text of the board that a file defines as ``dashboard``."""
    raw: Any = runpy.run_path(str(path))["dashboard"]
    data = json.loads(json.dumps(raw.to_json_data(), cls=DashboardEncoder))
    return json.dumps(tidy(data), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def generated() -> dict[Path, str]:
    """Return everything that is generated: the boards, and the alert rules as the Prometheus Operator's resource."""
    return {**boards(), **operator_rules.files(ROOT / "deploy")}


def stale() -> list[Path]:
    """Return the generated files that are missing, old, or left over."""
    wanted = generated()
    found = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    return sorted([*found, *(path for path in (HERE / "generated").glob("*.json") if path not in wanted)])


def main(arguments: list[str]) -> int:
    """Build or check. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Build the Grafana boards.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a file is not current")
    if parser.parse_args(arguments).check:
        old = stale()
        for path in old:
            sys.stderr.write(f"{path.relative_to(ROOT)} is not current: run python -m dashboards.build\n")
        return 1 if old else 0
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
