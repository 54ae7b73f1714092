"""Nothing measured is overwritten: a result that is in the way is moved aside together with its requests."""

from __future__ import annotations

import errno
import fcntl
import glob
import itertools
from pathlib import Path

from obs_exporter.probe.results import ResultError, load_result, read_records, requests_path, write_json


def make_room(output: Path) -> str:
    """Move an earlier result at ``output`` and its requests file aside; return what was done in words, or "".

    x.json and x.requests.jsonl become x.1.json and x.1.requests.jsonl, or the next number that is free for both, and
    the moved result names its moved requests file. Raises ResultError, and leaves everything as it is, where the file
    is no result of ours, or belongs to a run that has not ended.
    """
    requests = requests_path(output)
    if not check_place(output):
        return ""
    free = next(place for number in itertools.count(1) if not _taken(place := _numbered(output, number)))
    there = [(old, new) for old, new in ((output, free), (requests, requests_path(free))) if old.exists()]
    try:
        if len(there) == 2 and _names(output, requests):
            # The copy first: whatever ends this process in between, one of the two results finds its requests.
            write_json(free, load_result(output) | {"requests_file": requests_path(free).name})
            requests.rename(requests_path(free))
            output.unlink()
        else:
            for old, new in there:
                old.rename(new)
    except OSError as error:
        raise ResultError(f"{output}: cannot be moved aside: {error.strerror}") from None
    return "kept: " + ", ".join(f"{old} is now {new}" for old, new in there)


def check_place(output: Path) -> bool:
    """Return whether a result is in the way at ``output``. Raises ResultError where it may not be moved."""
    requests = requests_path(output)
    if output.exists():
        try:
            if not output.is_file():
                raise ResultError(f"{output}: not a file")
            load_result(output)
        except ResultError as error:
            raise ResultError(f"{error}: it is left as it is: give another --output") from None
    elif requests.exists():
        _check_orphan(output, requests)
    if requests.exists():
        _check_ended(requests)
    return output.exists() or requests.exists()


def refuse_results(output: Path) -> None:
    """Raise ResultError where ``output`` is a result or its requests: what is rendered may not replace it."""
    if not output.is_file():
        return
    try:
        load_result(output)
    except ResultError:
        if not (output.name.endswith(".jsonl") and _holds_requests(output)):
            return
    raise ResultError(f"{output}: holds measurements, and would be overwritten: give another --output")


def _numbered(output: Path, number: int) -> Path:
    return output.with_name(f"{output.stem}.{number}{output.suffix}")


def _taken(place: Path) -> bool:
    return place.exists() or requests_path(place).exists()


def _holds_requests(path: Path) -> bool:
    try:
        return next(read_records(path), None) is not None
    except ResultError:
        return False


def _check_orphan(output: Path, requests: Path) -> None:
    """Raise ResultError where a requests file without ``output`` is another result's, or holds something else."""
    for other in sorted(output.parent.glob(f"{glob.escape(output.stem)}.*")):
        if other.is_file() and other != requests and _names(other, requests):
            raise ResultError(f"{requests}: holds the requests of {other}: give another --output")
    if requests.stat().st_size and not _holds_requests(requests):
        raise ResultError(f"{requests}: in the way, and holds no requests of ours: give another --output")


def _names(path: Path, requests: Path) -> bool:
    try:
        return load_result(path).get("requests_file") == requests.name
    except ResultError:
        return False


def _check_ended(requests: Path) -> None:
    """Raise ResultError while another process writes the file."""
    try:
        with requests.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise ResultError(f"{requests}: another run writes it now: give another --output") from None
