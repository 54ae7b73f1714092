"""Ask the GPU driver through NVML (package ``pynvml``, extra ``gpu``). What it cannot tell is a value with a reason.

The package is imported when a GPU is first asked for, since most exporters run where there is none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from obs_exporter.derive.gpu import Device, DeviceReading, Lack
from obs_exporter.schema import State

log = logging.getLogger(__name__)

NO_PACKAGE = Lack(
    State.HIDDEN, "the Python package pynvml is not installed",
    remedy="pip install 'llm-serving-observability[gpu]'",
)  # fmt: skip
WSL2_FIELDS = "WSL2's driver does not tell it (DCGM's profiling fields do not exist there either)"
MIG = "the GPU is in MIG mode, which has no utilization for the whole GPU"
_NO_DRIVER = ("LibraryNotFound", "DriverNotLoaded", "LibRmVersionMismatch")
_LOST = ("GpuIsLost", "ResetRequired", "Uninitialized", "Unknown", "Timeout")


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

    def read(self) -> DeviceReading:
        """Read all GPUs. Nothing is raised: no package, no driver, a lost GPU are in the result.

        After a failure of the driver as a whole the next read starts it anew, so that a GPU that comes back is seen.
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
        except self._nvml.NVMLError as error:
            self._stop()
            return DeviceReading(lack=self._explained(error, "the GPU driver"))
        return DeviceReading(tuple(self._device(index) for index in range(count)))

    def _device(self, index: int) -> Device:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = nvml.nvmlDeviceGetUUID(handle)
        except nvml.NVMLError as error:
            self._stop()
            lack = self._explained(error, f"GPU {index}")
            return Device(str(index), lack, lack, lack)
        name = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
        memory = self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle), name)
        used, total = (memory, memory) if isinstance(memory, Lack) else (float(memory.used), float(memory.total))
        return Device(name, used, total, self._utilization(handle, name))

    def _utilization(self, handle: Any, name: str) -> float | Lack:
        nvml = self._nvml
        mig = self._ask(lambda: nvml.nvmlDeviceGetMigMode(handle)[0], name)
        if not isinstance(mig, Lack) and mig:
            return Lack(State.LOST, MIG, remedy="use dcgm-exporter, whose profiling fields know MIG instances")
        rates = self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle), name)
        return rates if isinstance(rates, Lack) else float(rates.gpu) / 100

    def _ask(self, question: Callable[[], Any], name: str) -> Any:
        try:
            return question()
        except self._nvml.NVMLError as error:
            return self._explained(error, f"GPU {name}")

    def _explained(self, error: Exception, who: str) -> Lack:
        """Turn the driver's error into a state; errors are told by the names of their classes."""
        kind = type(error).__name__.removeprefix("NVMLError_")
        if kind in _NO_DRIVER:
            remedy = "run the exporter where the GPU is, with NVIDIA's driver libraries in its container"
            return Lack(State.NOT_APPLICABLE, f"no NVIDIA driver is here ({kind})", remedy)
        if kind == "NotSupported":
            return Lack(State.LOST, WSL2_FIELDS if self._wsl2 else f"{who} does not support the question")
        if kind == "NoPermission":
            return Lack(State.HIDDEN, f"the driver refuses {who}", "give the exporter's container access to the GPU")
        if kind in _LOST:
            self._stop()
        return Lack(State.UNREACHABLE, f"{who} does not answer ({kind}): it fell off the bus, or the driver restarts")

    def _stop(self) -> None:
        """Let go of the driver, so that the next read starts it anew."""
        if self._started:
            self._started = False
            try:
                self._nvml.nvmlShutdown()
            except self._nvml.NVMLError as error:
                log.debug("NVML did not shut down: %s", error)

    def close(self) -> None:
        """Let go of the driver."""
        if self._nvml is not None:
            self._stop()
