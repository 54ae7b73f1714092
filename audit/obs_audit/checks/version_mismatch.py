"""The page and the version that was given do not agree.

A verdict is only as good as the version it was made for. Where the page's own families or labels say another version,
one of the two is wrong: a rollout half done, a second replica, or an old flag in a script.
"""

from __future__ import annotations

from obs_audit.checks.base import Check, Example, from_oddities
from obs_audit.findings import Severity

_REMEDY = "leave the version out and let the page tell it, or correct it"

CHECK = Check(
    "version_mismatch", Severity.WARNING, __doc__, _REMEDY,
    from_oddities("version_mismatch", Severity.WARNING, _REMEDY),
    fails=Example(
        '# TYPE ray_serve_num_ongoing_http_requests gauge\n'
        'ray_serve_num_ongoing_http_requests{SessionName="s",Version="2.60.0"} 0\n',
        stack="ray-serve", stack_version="2.44.1",
    ),
    passes=Example(
        '# TYPE ray_serve_num_ongoing_http_requests gauge\n'
        'ray_serve_num_ongoing_http_requests{SessionName="s",Version="2.60.0"} 0\n',
        stack="ray-serve", stack_version="2.60.0",
    ),
)  # fmt: skip
