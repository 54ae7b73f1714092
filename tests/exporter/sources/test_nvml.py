"""The GPU driver through a stand-in of the NVML binding: every way in which it can fail is a state with a reason."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from obs_exporter.derive.gpu import DeviceReading, answers
from obs_exporter.schema import Scalar, State
from obs_exporter.sources import nvml
from obs_exporter.sources.nvml import Gpus


class NVMLError(Exception):
    pass


ERRORS = {
    name: type(f"NVMLError_{name}", (NVMLError,), {})
    for name in (
        "LibraryNotFound",
        "DriverNotLoaded",
        "NotSupported",
        "GpuIsLost",
        "NoPermission",
        "Unknown",
        "Uninitialized",
    )
}


class Driver:
    """Two GPUs of 80 GB; ``broken`` maps a function's name to the error that it raises.

    ``only`` is the index of the one GPU that is broken; without it all are. ``missing`` are functions that the binding
    does not have. As with the real one, nothing is answered before it is started or after it is shut down.
    """

    NVMLError = NVMLError

    def __init__(self, **broken: str | Exception) -> None:
        self.broken = broken
        self.only: int | None = None
        self.missing: tuple[str, ...] = ()
        self.mig = 0
        self.started = 0
        self.running = False
        self.used: float = 30_000_000_000
        self.gpu: float = 35

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in self.missing:
            raise AttributeError(f"module 'pynvml' has no attribute {name!r}")

        def call(*arguments: Any) -> Any:
            if not self.running and name not in ("nvmlInit", "nvmlShutdown"):
                raise ERRORS["Uninitialized"]
            broken = self.broken.get(name)
            if name in self.broken and (self.only is None or arguments[:1] == (self.only,)):
                raise broken if isinstance(broken, Exception) else ERRORS[str(broken)]
            return self._answer(name, *arguments)

        return call

    def _answer(self, name: str, *arguments: Any) -> Any:
        if name == "nvmlInit":
            self.started += 1
        if name in ("nvmlInit", "nvmlShutdown"):
            self.running = name == "nvmlInit"
        return {
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetHandleByIndex": arguments[0] if arguments else None,
            "nvmlDeviceGetUUID": f"GPU-{arguments[0]}".encode() if arguments else b"",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=self.used, total=80_000_000_000, free=1),
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=self.gpu, memory=1),
            "nvmlDeviceGetMigMode": (self.mig, self.mig),
        }.get(name)


def states(reading: DeviceReading) -> dict[str, tuple[State, str]]:
    return {answer.signal.id: (answer.state, answer.reason) for answer in answers(reading)}


def test_every_gpu_has_its_values() -> None:
    found = {answer.signal.id: answer.series for answer in answers(Gpus(Driver(), wsl2=False).read())}
    assert found["gpu_memory_used"] == tuple(Scalar((("gpu", f"GPU-{n}"),), 30e9) for n in (0, 1))
    assert found["gpu_memory_total"] == tuple(Scalar((("gpu", f"GPU-{n}"),), 80e9) for n in (0, 1))
    assert found["gpu_utilization"] == tuple(Scalar((("gpu", f"GPU-{n}"),), 0.35) for n in (0, 1))


def test_without_the_package_a_remedy_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "imported", lambda: None)
    for answer in answers(Gpus().read()):
        assert answer.state is State.HIDDEN
        assert "pip install" in answer.remedy


@pytest.mark.parametrize("error", ["LibraryNotFound", "DriverNotLoaded"])
def test_no_driver_is_a_state(error: str) -> None:
    found = states(Gpus(Driver(nvmlInit=error), wsl2=False).read())
    assert {state for state, _ in found.values()} == {State.NOT_APPLICABLE}
    assert all(error in reason for _, reason in found.values())


def test_what_wsl2_does_not_tell_is_lost_and_the_rest_is_there() -> None:
    found = states(Gpus(Driver(nvmlDeviceGetUtilizationRates="NotSupported"), wsl2=True).read())
    assert found["gpu_utilization"] == (State.LOST, nvml.WSL2_FIELDS)
    assert found["gpu_memory_used"][0] is State.NATIVE


def test_a_gpu_in_mig_mode_has_memory_and_no_utilization() -> None:
    driver = Driver()
    driver.mig = 1
    found = states(Gpus(driver, wsl2=False).read())
    assert found["gpu_utilization"] == (State.LOST, nvml.MIG)
    assert found["gpu_memory_used"][0] is State.NATIVE


def test_a_gpu_without_mig_is_no_mig_gpu() -> None:
    found = states(Gpus(Driver(nvmlDeviceGetMigMode="NotSupported"), wsl2=False).read())
    assert found["gpu_utilization"][0] is State.NATIVE


def test_a_gpu_lost_at_run_time_is_unreachable_and_seen_again_when_it_is_back() -> None:
    driver = Driver()
    gpus = Gpus(driver, wsl2=False)
    assert states(gpus.read())["gpu_memory_used"][0] is State.NATIVE
    driver.broken["nvmlDeviceGetHandleByIndex"] = "GpuIsLost"
    assert {state for state, _ in states(gpus.read()).values()} == {State.UNREACHABLE}
    driver.broken.clear()
    assert states(gpus.read())["gpu_memory_used"][0] is State.NATIVE
    assert driver.started == 2, "the driver was started anew"
    gpus.close()


def test_a_refused_gpu_says_what_to_do() -> None:
    found = list(answers(Gpus(Driver(nvmlDeviceGetMemoryInfo="NoPermission"), wsl2=False).read()))
    assert found[0].state is State.HIDDEN
    assert found[0].remedy


def test_the_real_binding_is_understood_with_or_without_a_driver() -> None:
    """NVIDIA's package is among the test dependencies; whether a driver is here, the machine decides."""
    gpus = Gpus()
    reading = gpus.read()
    gpus.close()
    if reading.lack is not None:
        assert reading.lack.state is State.NOT_APPLICABLE
    assert [answer.signal.id for answer in answers(reading)] == [
        "gpu_memory_used",
        "gpu_memory_total",
        "gpu_utilization",
    ]


@pytest.mark.parametrize("function", ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUUID"])
@pytest.mark.parametrize("error", ["GpuIsLost", "Unknown"])
@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_gpu_leaves_the_others_their_values(function: str, error: str, lost: int) -> None:
    driver = Driver(**{function: error})
    driver.only = lost
    gpus = Gpus(driver, wsl2=False)
    for started in (1, 2):
        reading = gpus.read()
        assert driver.started == started, "the driver is started anew at the next look, and not before"
        healthy, broken = reading.devices[1 - lost], reading.devices[lost]
        assert (healthy.used, healthy.total, healthy.utilization) == (30e9, 80e9, 0.35)
        assert getattr(broken.used, "state", None) is State.UNREACHABLE
        for answer in answers(reading):
            assert answer.state is State.NATIVE
            assert "1 of 2 GPUs" in answer.reason or answer.signal.id == "gpu_utilization"


def test_a_binding_without_a_function_lacks_that_answer_alone() -> None:
    driver = Driver()
    driver.missing = ("nvmlDeviceGetMigMode",)
    assert states(Gpus(driver, wsl2=False).read())["gpu_utilization"][0] is State.NATIVE
    driver.missing = ("nvmlDeviceGetUtilizationRates",)
    reading = Gpus(driver, wsl2=False).read()
    found = states(reading)
    assert found["gpu_utilization"][0] is State.LOST
    assert "nvidia-ml-py does not have" in found["gpu_utilization"][1]
    assert found["gpu_memory_used"][0] is State.NATIVE


@pytest.mark.parametrize("function", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"])
@pytest.mark.parametrize("error", [OSError("no such device"), RuntimeError("odd"), TypeError("binding")])
def test_no_error_of_any_kind_is_raised(function: str, error: Exception) -> None:
    gpus = Gpus(Driver(**{function: error}), wsl2=False)
    found = states(gpus.read())
    assert found["gpu_memory_used"][0] is State.UNREACHABLE
    assert type(error).__name__ in found["gpu_memory_used"][1]
    gpus.close()
    driver = Driver()
    gpus = Gpus(driver, wsl2=False)
    gpus.read()
    driver.broken["nvmlShutdown"] = error
    gpus.close()
    for missing in ("nvmlInit", "nvmlDeviceGetCount", "nvmlShutdown", function):
        driver = Driver()
        driver.missing = (missing,)
        gpus = Gpus(driver, wsl2=False)
        gpus.read()
        gpus.close()


@pytest.mark.parametrize("raw", [4294967295, float("nan"), float("inf"), -1, 101])
def test_a_utilization_that_cannot_be_is_no_number(raw: float) -> None:
    driver = Driver()
    driver.gpu = raw
    found = states(Gpus(driver, wsl2=False).read())
    assert found["gpu_utilization"][0] is State.UNREACHABLE
    assert "cannot be" in found["gpu_utilization"][1]


@pytest.mark.parametrize("raw", [2**64 - 1, float("nan"), -1])
def test_memory_that_cannot_be_is_no_number(raw: float) -> None:
    driver = Driver()
    driver.used = raw
    found = states(Gpus(driver, wsl2=False).read())
    assert found["gpu_memory_used"][0] is State.UNREACHABLE
    assert found["gpu_memory_total"][0] is State.NATIVE
