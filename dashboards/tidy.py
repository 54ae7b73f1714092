"""From what grafanalib writes to what a current Grafana reads: no nulls, no fields of old panels, typed data sources.

grafanalib 0.7 still writes fields of Grafana 5 to 8 beside the current ones. They would be ignored, but they would also
keep a check against Grafana's own types from seeing a misspelt field.
"""

from __future__ import annotations

from typing import Any

SCHEMA_VERSION = 39
"""Dashboard JSON of Grafana 10.1 to 11."""

_OLD_BOARD = ("__inputs", "gnetId", "hideControls", "rows", "sharedCrosshair", "style", "id")
_OLD_PANEL = (
    "cacheTimeout", "editable", "error", "height", "hideTimeOverride", "minSpan", "span", "columns", "fontSize",
    "color", "mappings", "maxDataPoints",
)  # fmt: skip
_OLD_TARGET = ("query", "target", "intervalFactor", "metric", "step", "interval")
_OLD_VARIABLE = ("useTags", "tagsQuery", "tagValuesQuery", "auto", "auto_min", "auto_count")
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def tidy(board: dict[str, Any]) -> dict[str, Any]:
    """Return the board's JSON in the current form."""
    clean: dict[str, Any] = _without_null({key: value for key, value in board.items() if key not in _OLD_BOARD})
    clean["schemaVersion"] = SCHEMA_VERSION
    clean["graphTooltip"] = 1
    clean["timepicker"] = {}
    clean["panels"] = [_panel(panel) for panel in clean["panels"]]
    clean["templating"] = {"list": [_variable(entry) for entry in clean["templating"]["list"]]}
    return clean


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_null(item) for item in value]
    return value


def _panel(panel: dict[str, Any]) -> dict[str, Any]:
    clean = {key: value for key, value in panel.items() if key not in _OLD_PANEL}
    if clean["type"] == "row":
        return {key: clean[key] for key in ("type", "id", "title", "gridPos", "collapsed", "panels")}
    if clean["type"] == "text":
        # It has no values; the unit says so, as on every other panel.
        kept = {key: clean[key] for key in ("type", "id", "title", "description", "gridPos", "options")}
        return {**kept, "fieldConfig": {"defaults": {"unit": "none"}, "overrides": []}}
    clean["datasource"] = _SOURCE
    clean["targets"] = [_target(target) for target in clean["targets"]]
    defaults = clean["fieldConfig"]["defaults"]
    defaults["thresholds"] = {"mode": "absolute", "steps": [{"value": None, "color": "green"}]}
    if clean["type"] == "bargauge":
        defaults.update({"min": 0, "unit": clean["options"]["fieldOptions"]["defaults"]["unit"]})
        clean["options"] = {
            "displayMode": "gradient", "orientation": "horizontal", "valueMode": "color", "showUnfilled": True,
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        }  # fmt: skip
    if clean["type"] == "timeseries":
        clean["options"]["legend"]["showLegend"] = True
        defaults["custom"]["stacking"] = {"mode": "none", "group": "A"}
        defaults["custom"]["scaleDistribution"] = {"type": "linear"}
    if clean["type"] == "table":
        defaults["custom"] = {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False, "filterable": True}
    for empty in ("links", "transformations"):
        if not clean.get(empty):
            clean.pop(empty, None)
    return clean


def _target(target: dict[str, Any]) -> dict[str, Any]:
    clean = {key: value for key, value in target.items() if key not in _OLD_TARGET}
    clean["datasource"] = _SOURCE
    clean["range"] = not clean["instant"]
    return clean


def _variable(entry: dict[str, Any]) -> dict[str, Any]:
    clean = {key: value for key, value in entry.items() if key not in _OLD_VARIABLE}
    if clean["type"] == "datasource":
        return {key: clean[key] for key in ("type", "name", "label", "query", "hide", "multi", "includeAll", "options")}
    clean["datasource"] = _SOURCE
    clean["query"] = {"query": clean["query"], "refId": clean["name"]}
    several = clean["multi"]
    clean["current"] = {"selected": True, "text": ["All"], "value": ["$__all"]} if several else {}
    return clean
