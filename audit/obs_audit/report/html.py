"""Fill the HTML templates of the package: everything that comes from a page or a file is escaped."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("obs_audit", "data"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def rendered(template: str, **values: object) -> str:
    """Return a template of ``obs_audit/data`` filled with values."""
    return _environment().get_template(template).render(**values)
