"""Which settings took effect, from everything that tells: ``/v1/models``, ``cache_config_info``, the engine's log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from obs_audit.evidence import Evidence

_CONFIG = "cache_config_info"
_CARDS = ("rayllm_metadata", "metadata")
"""Ray's names of its own metadata in a model card, up to 2.48 and after."""


def known(evidence: Evidence) -> dict[str, dict[str, str]]:
    """Return, for each setting that something tells of, its value by the place that tells it."""
    found: dict[str, dict[str, str]] = {}
    for name, source, value in (*_models(evidence), *_labels(evidence), *_logs(evidence)):
        found.setdefault(name, {})[source] = value
    return found


def same(one: str, other: str) -> bool:
    """Whether two values are equal: numbers as numbers, words without regard to case."""
    try:
        return float(one.replace(",", "")) == float(other.replace(",", ""))
    except ValueError:
        return one.strip().lower() == other.strip().lower()


def _models(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    document: Any = evidence.documents.get("/v1/models")
    data = document.get("data") if isinstance(document, dict) else None
    for card in data if isinstance(data, list) else []:
        if not isinstance(card, dict):
            continue
        if card.get("max_model_len") is not None:
            yield "max_model_len", "/v1/models", str(card["max_model_len"])
        for field in _CARDS:
            extra = card.get(field)
            if isinstance(extra, dict) and extra.get("max_request_context_length") is not None:
                yield "max_model_len", f"/v1/models ({field})", str(extra["max_request_context_length"])


def _labels(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """Yield the labels of the info family: the engine's whole cache configuration."""
    for exhibit in evidence.readable:
        for name, samples in exhibit.page.samples.items():
            if name.endswith(_CONFIG):
                for label, value in sorted(samples[0].labels.items()):
                    if value not in ("", "None"):
                        yield label, name, value


def _logs(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    for log in evidence.logs:
        for name, value in log.settings.items():
            yield name, log.source, value
