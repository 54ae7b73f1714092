"""Ask the GPU driver through NVML (module ``pynvml``, extra ``gpu``). What it cannot tell is a value with a reason.

The module is that of NVIDIA's own package nvidia-ml-py; the package called pynvml only warns and loads it. It is
imported when a GPU is first asked for, since most exporters run where there is none.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from obs_exporter.derive.gpu import Device, DeviceReading, Lack
from obs_exporter.schema import State

log = logging.getLogger(__name__)

NO_PACKAGE = Lack(
    State.HIDDEN, "the Python package nvidia-ml-py is not installed",
    remedy="pip install 'llm-serving-observability[gpu]'",
)  # fmt: skip
_UPGRADE = "pip install --upgrade nvidia-ml-py"
WSL2_FIELDS = "WSL2's driver does not tell it (DCGM's profiling fields do not exist there either)"
MIG = "the GPU is in MIG mode, which has no utilization for the whole GPU"
_NO_DRIVER = ("LibraryNotFound", "DriverNotLoaded", "LibRmVersionMismatch")
_LOST = ("GpuIsLost", "ResetRequired", "Uninitialized", "Unknown", "Timeout")
_MOST_BYTES = 2.0**50
"""More memory than any GPU has; drivers say ~0 for what they do not know."""


def on_wsl2() -> bool:
    """Whether this is Linux under Windows (WSL2), by the kernel's own name."""
    try:
        return "microsoft" in Path("/proc/version").read_text(encoding="utf-8").lower()
    except (OSError, UnicodeDecodeError):
        return False


def imported() -> ModuleType | None:
    """Return the NVML binding, or None where it is not installed."""
    try:
        return import_module("pynvml")
    except ImportError:
        return None


class Gpus:
    """The GPUs of this machine. Not for use by several threads at once."""

    def __init__(self, nvml: Any = None, wsl2: bool | None = None) -> None:
        """Prepare; ``nvml`` is the binding and ``wsl2`` the platform, both found out when left out."""
        self._nvml = nvml
        self._wsl2 = wsl2
        self._started = False
        self._lost = False

    def read(self) -> DeviceReading:
        """Read all GPUs. Nothing is raised: no package, no driver, a lost GPU, an old binding are in the result.

        After a GPU or the driver was lost it is started anew, so that what comes back is seen; but only once all GPUs
        were asked, since the healthy ones still answer.
        """
        self._nvml = self._nvml or imported()
        if self._nvml is None:
            return DeviceReading(lack=NO_PACKAGE)
        if self._wsl2 is None:
            self._wsl2 = on_wsl2()
        try:
            if not self._started:
                self._nvml.nvmlInit()
                self._started = True
            count = int(self._nvml.nvmlDeviceGetCount())
        except Exception as error:  # noqa: BLE001 - bindings and drivers of other versions fail in any way
            self._stop()
            return DeviceReading(lack=self._explained(error, "the GPU driver"))
        self._lost = False
        devices = tuple(self._device(index) for index in range(count))
        if self._lost:
            self._stop()
        return DeviceReading(devices)

    def _device(self, index: int) -> Device:
        nvml = self._nvml
        handle = self._ask(lambda: nvml.nvmlDeviceGetHandleByIndex(index), str(index))
        uuid = (
            handle if isinstance(handle, Lack) else self._ask(lambda: _text(nvml.nvmlDeviceGetUUID(handle)), str(index))
        )
        if isinstance(uuid, Lack):
            return Device(str(index), uuid, uuid, uuid)
        memory = self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle), uuid)
        used = self._within(lambda: memory.used, _MOST_BYTES, uuid, memory, "memory used")
        total = self._within(lambda: memory.total, _MOST_BYTES, uuid, memory, "memory")
        return Device(uuid, used, total, self._utilization(handle, uuid))

    def _utilization(self, handle: Any, name: str) -> float | Lack:
        nvml = self._nvml
        mig = self._ask(lambda: nvml.nvmlDeviceGetMigMode(handle)[0], name)
        if not isinstance(mig, Lack) and mig:
            return Lack(State.LOST, MIG, remedy="use dcgm-exporter, whose profiling fields know MIG instances")
        rates = self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle), name)
        percent = self._within(lambda: rates.gpu, 100.0, name, rates, "percent of utilization")
        return percent if isinstance(percent, Lack) else percent / 100

    def _within(self, question: Callable[[], Any], most: float, name: str, whole: Any, what: str) -> float | Lack:
        """Return a number that can be, from 0 to ``most``; ``whole`` is what it is a part of, or the lack of that."""
        if isinstance(whole, Lack):
            return whole
        value = self._ask(lambda: float(question()), name)
        if isinstance(value, Lack):
            return value
        if not (math.isfinite(value) and 0 <= value <= most):
            return Lack(
                State.UNREACHABLE, f"GPU {name} says {value:g} {what}, which cannot be: the driver does not know"
            )
        return float(value)

    def _ask(self, question: Callable[[], Any], name: str) -> Any:
        try:
            return question()
        except Exception as error:  # noqa: BLE001 - as above: one question takes nothing else with it
            return self._explained(error, f"GPU {name}")

    def _explained(self, error: Exception, who: str) -> Lack:
        """Turn an error into a state; those of the driver are told by the names of their classes."""
        kind = type(error).__name__.removeprefix("NVMLError_")
        if isinstance(error, AttributeError):
            return Lack(State.LOST, f"the Python package nvidia-ml-py does not have the question ({error})", _UPGRADE)
        if not isinstance(error, getattr(self._nvml, "NVMLError", ())):
            return Lack(State.UNREACHABLE, f"{who} cannot be asked ({kind}: {error})")
        if kind in _NO_DRIVER:
            remedy = "run the exporter where the GPU is, with NVIDIA's driver libraries in its container"
            return Lack(State.NOT_APPLICABLE, f"no NVIDIA driver is here ({kind})", remedy)
        if kind == "NotSupported":
            return Lack(State.LOST, WSL2_FIELDS if self._wsl2 else f"{who} does not support the question")
        if kind == "NoPermission":
            return Lack(State.HIDDEN, f"the driver refuses {who}", "give the exporter's container access to the GPU")
        self._lost = self._lost or kind in _LOST
        return Lack(State.UNREACHABLE, f"{who} does not answer ({kind}): it fell off the bus, or the driver restarts")

    def _stop(self) -> None:
        """Let go of the driver, so that the next read starts it anew."""
        if self._started:
            self._started = False
            try:
                self._nvml.nvmlShutdown()
            except Exception as error:  # noqa: BLE001 - as above
                log.debug("NVML did not shut down: %s", error)

    def close(self) -> None:
        """Let go of the driver."""
        if self._nvml is not None:
            self._stop()


def _text(name: Any) -> str:
    """Return a GPU's name: older bindings give bytes."""
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
