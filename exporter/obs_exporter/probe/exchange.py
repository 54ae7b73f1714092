"""One request on its way: what the client notes of it until it has ended."""

from __future__ import annotations

from obs_exporter.probe.answer import Answer
from obs_exporter.probe.http1 import ResponseParser
from obs_exporter.probe.outcome import Ending
from obs_exporter.probe.transport import Transport


class Exchange:
    """One request on its way. Times are perf_counter nanoseconds; ``tag`` is the caller's own.

    ``may_redo``: it went out on a connection that was used before, and no byte of its answer has come. ``redone``: it
    was sent again on a new connection; its times are those of the second send.
    """

    __slots__ = (
        "answer", "begun_ns", "connected_ns", "deadline_ns", "end_ns", "ending", "held", "http", "lag_ns", "may_redo",
        "payload", "pieces", "queued", "redone", "sent_ns", "started_at", "tag", "transport",
    )  # fmt: skip

    def __init__(self, payload: bytes, tag: object, now_ns: int, timeout_ns: int) -> None:
        self.payload = payload
        self.tag = tag
        self.begun_ns = now_ns
        self.deadline_ns = now_ns + timeout_ns
        self.connected_ns: int | None = None
        self.sent_ns: int | None = None
        self.started_at = 0.0
        self.end_ns = 0
        self.http = ResponseParser()
        self.answer: Answer | None = None
        self.ending: Ending | None = None
        self.pieces: list[tuple[int, bytes]] = []
        self.held = 0
        self.queued = False
        self.lag_ns = 0
        self.transport: Transport | None = None
        self.may_redo = False
        self.redone = False

    def start_again(self, now_ns: int) -> None:
        """Forget the first send; the deadline stays."""
        self.begun_ns, self.sent_ns, self.end_ns, self.lag_ns = now_ns, None, 0, 0
        self.transport = None
        self.may_redo, self.redone = False, True
