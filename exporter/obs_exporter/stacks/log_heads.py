"""What stands before a logger's own message in a line of a log: levels, stamps, process names, containers. Pure.

Users' text stands in logs: V0 logs every prompt (``Received request x: prompt: %r``), access lines have URLs, errors
quote requests. So a message counts only from its first character on, right behind what a logger or a container runtime
puts before it, and a line without any logger's head is nobody's message: it is the rest of a text with line breaks.

vLLM escapes line breaks in prompts (``%r``). What this cannot tell apart: a text that somebody logs with its line
breaks as they are (Ray 2.44 does, of prompts), and of which a line is the faithful copy of a whole log line, head and
all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

_ZONED = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
_WRAPS = re.compile(
    rf"\s*(?:{_ZONED} +(?:(?:stdout|stderr) +)?(?:[FP] +)?"  # Kubernetes' files, docker logs -t
    r"|\[(?P<pod>pod/[\w./-]{1,300})\] +"  # kubectl logs --prefix
    r"|(?P<service>[\w.-]{1,100}) *\| +"  # docker compose
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,100} [\w.@/-]{1,100}(?:\[\d{1,10}\])?: +"  # syslog, journalctl
    r"|\((?P<process>[^()\s]{1,200} pid=\d{1,10}(?:, ip=[\w.:]{1,50})?)\) *"  # vLLM's processes, Ray's actors
    r"|[IWEF](?:\d{4} \d\d:\d\d:\d\d\.\d{1,9})? \d{1,10} [\w./-]{1,120}:\d{1,6}\] +(?=[A-Z]{4,8} )"  # Triton
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?\s+(?=[A-Z]{4,8} ))"  # Ray's own processes
)
"""What may stand before a logger's head, in any number and order."""

_HEAD = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) +"
    r"(?:(?:\d{4}-)?\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})? +)?"
    r"(?:\[?(?P<file>[\w./-]{1,120}?)(?::\d{1,6})?\] +)?"
    r"(?:\S{1,200}(?: \S{1,200}){0,2} -- +)?"
)
"""A logger's head: level, stamp, then ``metrics.py:345]`` (V0), ``[loggers.py:116]`` (V1) or ``APP REPLICA [ID] --``
(Ray Serve). Only the level is always there."""

_PROCESS = re.compile(r"\(((?:EngineCore|APIServer|Worker|DPCoordinator)\w{0,40}(?: pid=\d{1,10})?)\) +")
"""vLLM's own processes, where a logger's format names them behind the level."""

_QUOTING = re.compile(r"(?:.*/)?(?:logger|request_logger|async_llm(?:_engine)?|engine|api_server|serving\w*)\.py")
"""Files of vLLM that log users' text and no signal. vLLM repeats the head on each line of a message with line breaks,
so that the message alone does not tell."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_WRAPPED = 8
"""Layers of wrapping that are looked through."""
LONGEST = 4096
"""Characters of a line that are looked at: signal lines are far shorter, config dumps far longer."""
_LEVELS = {"WARN": "WARNING", "FATAL": "CRITICAL"}


@dataclass(frozen=True, slots=True)
class Message:
    """A logger's message: its level, the processes or containers that the line names ("" for none), and the text."""

    level: str
    origin: str
    text: str


def message(line: str) -> Message | None:
    """Return what a logger wrote in a line; None where no logger's head is there, or its file quotes users' text."""
    origins: list[str] = []
    level = ""
    text = line.rstrip().rpartition("\r")[2]  # as on a terminal: what a progress bar wrote before is overwritten
    for _ in range(_WRAPPED):
        if text.lstrip().startswith("{"):
            inner = _of_json(text)
            if inner is None:
                return None
            level, text = inner
        text = _COLOUR.sub("", text[:LONGEST])
        match = _WRAPS.match(text)
        if match is None:
            break
        origins += [found for found in match.groups() if found]
        text = text[match.end() :]
    for _ in range(2):  # some print vLLM's line as a message of their own logger
        head = _HEAD.match(text)
        if head is None:
            break
        if head["file"] and _QUOTING.fullmatch(head["file"]):
            return None
        level, text = head["level"], text[head.end() :]
    process = _PROCESS.match(text)
    if process is not None:
        origins.append(process[1])
        text = text[process.end() :]
    return Message(level, " ".join(origins), text) if level else None


def _of_json(text: str) -> tuple[str, str] | None:
    """Return level and text of a line that is a JSON object; the level is "" where the text has its own head.

    Docker's files have the line in ``log``; loggers that write JSON have ``message`` and a level beside it.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    inner = next(_texts(values, "log", "message", "msg"), None)
    if inner is None:
        return None
    level = next(_texts(values, "levelname", "level", "severity"), "").upper()
    return _LEVELS.get(level, level) if "log" not in values else "", inner.rstrip()


def _texts(values: dict[str, object], *names: str) -> Iterator[str]:
    for name in names:
        value = values.get(name)
        if isinstance(value, str):
            yield value
