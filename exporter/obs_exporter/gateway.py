"""The metric names that an endpoint picker (EPP) of the Gateway API inference extension needs, for any stack.

The picker reads three gauges from every model server: queued requests, running requests and KV cache usage. Their names
are configuration; six projects broke when vLLM renamed one of them. Here they come from the tables that the exporter
reads pages with. Fields read in llm-d-router v0.10.0 (core-metrics-extractor) and gateway-api-inference-extension 1.4
(model-server-protocol-metrics, which KServe's scheduler uses too); an empty name says that the engine has none.
"""

from __future__ import annotations

from dataclasses import dataclass

from obs_exporter.schema import BY_ID
from obs_exporter.stacks import Claims, Stack
from obs_exporter.stacks.catalogue import Engine, catalogue
from obs_exporter.stacks.expectation import expect, on_paper
from obs_exporter.stacks.identity import identify

FIELDS = {
    "queuedRequestsSpec": "requests_waiting",
    "runningRequestsSpec": "requests_running",
    "kvUsageSpec": "kv_cache_usage",
}
"""The picker's field of each signal. All three must be gauges: a counter in their place is wrong for ever."""

CACHE_INFO, LORA_INFO = "cache_config_info", "lora_requests_info"


@dataclass(frozen=True, slots=True)
class Spec:
    """One field of an engine's configuration: the name to read, or "" with why there is none and what would help."""

    field: str
    name: str
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """An engine's entry: what it was made for, where its page is, and the fields in the picker's order."""

    name: str
    described: str
    page: str
    specs: tuple[Spec, ...]

    @property
    def complete(self) -> bool:
        """Whether all three gauges have a name."""
        return all(spec.name for spec in self.specs if spec.field in FIELDS)


def engine_config(stack: Stack, claims: Claims, *, common: bool = False, lora: bool = False) -> EngineConfig:
    """Return the entry for a stack at a version (the newest known without one).

    ``common`` asks for the names of the common schema, on the exporter's page, in place of the stack's own. ``lora``
    says that the engine runs with adapters.
    """
    point = identify(stack, None, claims).points[-1]
    specs = []
    for field, signal in FIELDS.items():
        answer = (on_paper if common else expect)(stack, signal, point)
        if answer.state.publishes:
            specs.append(Spec(field, BY_ID[signal].metric if common else answer.native_name))
        else:
            specs.append(Spec(field, "", f"{answer.state}: {answer.reason}", answer.remedies))
    infos = {"loraSpec": LORA_INFO if lora else "", "cacheInfoSpec": CACHE_INFO}
    capacity = expect(stack, "kv_cache_capacity", point)
    for field, family in infos.items():
        has = bool(family) and catalogue().registration(family, Engine(point.engine, point.generation)) is not None
        passes = has and capacity.state.publishes and not common
        specs.append(Spec(field, stack.engine_prefixes[0] + family if passes else ""))
    engine = f"vLLM {point.engine} {point.generation}".strip()
    described = engine if stack.is_engine else f"{stack.title} {point.stack} with {engine}"
    return EngineConfig(stack.name, described, "http://POD:9750/metrics" if common else stack.page, tuple(specs))


def rendered(config: EngineConfig, extractor: str) -> str:
    """Return the plugins of an ``EndpointPickerConfig`` as YAML, with comments where a name is missing."""
    label = (
        "llm-d.ai/engine-type" if extractor == "core-metrics-extractor" else "inference.networking.k8s.io/engine-type"
    )
    lines = [
        f"# For {config.described}; the page is {config.page}.",
        f"# Label the pods {label}: {config.name}, or leave it to defaultEngine.",
        "plugins:",
        "  - type: metrics-data-source",
        f"  - type: {extractor}",
        "    parameters:",
        f"      engineLabelKey: {label}",
        f"      defaultEngine: {config.name}",
        "      engineConfigs:",
        f"        - name: {config.name}",
    ]
    for spec in config.specs:
        if spec.reason:
            lines.append(f"          # {spec.field}: {spec.reason}")
            lines += [f"          #   remedy: {spec.remedy}"] if spec.remedy else []
        lines.append(f'          {spec.field}: "{spec.name}"')
    return "\n".join(lines) + "\n"
