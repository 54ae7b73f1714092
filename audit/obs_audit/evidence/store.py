"""Keep a bundle in a folder and read it back: bodies as files, and ``manifest.json`` with their hashes and times."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from obs_audit.evidence.pieces import Bundle, Given, Piece, Role
from obs_exporter.errors import InputError

MANIFEST = "manifest.json"
FORMAT = 1
_ENDINGS = {Role.DOCUMENT: "json", Role.BASELINE_DOCUMENT: "json", Role.EXERCISE: "json", Role.DISCOVERY: "json",
            Role.ANNOTATIONS: "yaml", Role.ENGINE_LOG: "log"}  # fmt: skip


def write(bundle: Bundle, folder: Path) -> None:
    """Write a bundle into an empty or new folder.

    Raises ``InputError`` where that cannot be done; nothing that is there is overwritten.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"{folder}: is not empty; give a new folder, so that no evidence is mixed")
        entries = []
        for index, piece in enumerate(bundle.pieces):
            name = "" if piece.error else f"{index:02d}-{piece.role}.{_ENDINGS.get(piece.role, 'txt')}"
            if name:
                (folder / name).write_bytes(piece.body)
            entries.append(_entry(piece, name))
        given = bundle.given
        manifest = {
            "format": FORMAT,
            "stack": given.stack,
            "given": {"stack_version": given.stack_version, "engine_version": given.engine_version},
            "pieces": entries,
        }
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        (folder / MANIFEST).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror or error}") from None


def _entry(piece: Piece, name: str) -> dict[str, object]:
    return {
        "role": str(piece.role),
        "source": piece.source,
        "number": piece.number,
        "file": name,
        "content_type": piece.content_type,
        "taken": piece.taken,
        "taken_utc": datetime.fromtimestamp(piece.taken, UTC).isoformat(timespec="seconds") if piece.taken else "",
        "bytes": len(piece.body),
        "sha256": hashlib.sha256(piece.body).hexdigest() if name else "",
        "error": piece.error,
    }


def read(folder: Path) -> Bundle:
    """Read a folder that ``write`` made.

    Raises ``InputError`` for a folder without a manifest, a manifest of another format, and a file that is missing or
    no longer has its hash.
    """
    path = folder / MANIFEST
    try:
        manifest: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; obs-audit gather makes such a folder") from None
    except ValueError:
        raise InputError(f"{path}: this is no JSON") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{path}: this is no manifest of format {FORMAT}; gather the evidence again")
    try:
        given = Given(manifest["stack"], **manifest["given"])
        pieces = tuple(_piece(folder, entry) for entry in manifest["pieces"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: this manifest is damaged ({type(error).__name__}: {error})") from None
    return Bundle(given, pieces)


def _piece(folder: Path, entry: dict[str, Any]) -> Piece:
    body = b""
    if entry["file"]:
        path = folder / Path(entry["file"]).name
        try:
            body = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None
        if hashlib.sha256(body).hexdigest() != entry["sha256"]:
            raise InputError(f"{path}: its content is not what was gathered (sha256 differs)")
    return Piece(
        Role(entry["role"]), entry["source"], body, entry["number"], entry["content_type"], entry["taken"],
        entry["error"],
    )  # fmt: skip
