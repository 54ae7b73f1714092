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
    for name in ("LibraryNotFound", "DriverNotLoaded", "NotSupported", "GpuIsLost", "NoPermission", "Unknown")
}


class Driver:
    """Two GPUs of 80 GB; ``broken`` maps a function's name to the error that it raises."""

    NVMLError = NVMLError

    def __init__(self, **broken: str) -> None:
        self.broken = broken
        self.mig = 0
        self.started = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if name in self.broken:
                raise ERRORS[self.broken[name]]
            return self._answer(name, *arguments)

        return call

    def _answer(self, name: str, *arguments: Any) -> Any:
        if name == "nvmlInit":
            self.started += 1
        return {
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetHandleByIndex": arguments[0] if arguments else None,
            "nvmlDeviceGetUUID": f"GPU-{arguments[0]}".encode() if arguments else b"",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=30_000_000_000, total=80_000_000_000, free=1),
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=35, memory=1),
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
