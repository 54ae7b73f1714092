"""From what the GPU driver tells to answers: memory and utilization per GPU, or why there is none. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from obs_exporter.schema import BY_ID, Precision, Provenance, Scalar, State
from obs_exporter.stacks.model import Answer


@dataclass(frozen=True, slots=True)
class Lack:
    """Why something has no value: a state that publishes none, the reason, and what to do."""

    state: State
    reason: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU: bytes of memory, and utilization 0 to 1; in place of a value the lack of it."""

    uuid: str
    used: float | Lack
    total: float | Lack
    utilization: float | Lack


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """What one look at the driver yields; ``lack`` where there is no device to speak of."""

    devices: tuple[Device, ...] = ()
    lack: Lack | None = None


NATIVE = {"gpu_memory_used": "used", "gpu_memory_total": "total", "gpu_utilization": "utilization"}
"""The field of a device for each signal."""


def answers(reading: DeviceReading) -> Iterator[Answer]:
    """Yield an answer for each GPU signal: a value where any GPU has one, else the first lack."""
    for signal_id, field in NATIVE.items():
        signal = BY_ID[signal_id]
        found = [(device.uuid, getattr(device, field)) for device in reading.devices]
        lacks = [value for _, value in found if isinstance(value, Lack)]
        series = tuple(Scalar((("gpu", uuid),), value) for uuid, value in sorted(found) if isinstance(value, float))
        if series:
            note = f"; {len(lacks)} of {len(found)} GPUs do not tell: {lacks[0].reason}" if lacks else ""
            yield Answer(
                signal, State.NATIVE, f"from the GPU driver{note}", Provenance.DEVICE, Precision.EXACT, "NVML",
                series=series,
            )  # fmt: skip
        else:
            lack = reading.lack or (lacks[0] if lacks else Lack(State.NOT_APPLICABLE, "the driver shows no GPU here"))
            yield Answer(signal, lack.state, lack.reason, remedy=lack.remedy)
