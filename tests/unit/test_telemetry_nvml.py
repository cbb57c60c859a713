"""NVML's answers as telemetry: which question is asked, and what a GPU may leave open."""

from __future__ import annotations

import pynvml
import pytest
from fake_nvml import FakeGpu, FakeNvml, eight_gpus

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.telemetry import GpuSample, ThrottleReason
from ddqueue.gpu.nvml import NvmlInspector
from ddqueue.gpu.nvml_telemetry import NvmlTelemetryReader
from ddqueue.gpu.visible import VisibleGpus

INSTANT = (pynvml.NVML_FI_DEV_POWER_INSTANT, pynvml.NVML_POWER_SCOPE_GPU)


def one(**answers: object) -> GpuSample:
    nvml = FakeNvml([FakeGpu("GPU-1", "00000000:18:00.0", **answers)])  # type: ignore[arg-type]
    (sample,) = NvmlTelemetryReader(NvmlInspector(nvml), nvml).read()
    return sample


def test_units() -> None:
    sample = one(
        power_mw=512_345, energy_mj=7, sm_clock_mhz=1980, memory_clock_mhz=3201, temperature_c=66, used_mib=900
    )
    assert (sample.power_w, sample.energy_mj) == (512.345, 7)
    assert (sample.sm_clock_mhz, sample.memory_clock_mhz, sample.temperature_c) == (1980, 3201, 66)
    assert sample.memory_used_mib == 900, "without what the driver reserves"


@pytest.mark.parametrize(
    "lack",
    [
        {"lacks_fields": [INSTANT]},
        {"raises": {"nvmlDeviceGetFieldValues": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}},
    ],
    ids=["no such field", "no fields at all"],
)
def test_an_older_driver_is_asked_for_its_average_power(lack: dict[str, object]) -> None:
    nvml = FakeNvml([FakeGpu("GPU-1", "00000000:18:00.0", power_averaged_mw=400_000)])
    reader = NvmlTelemetryReader(NvmlInspector(nvml), nvml)
    assert reader.read()[0].power_w == 76.0
    for name, value in lack.items():
        setattr(nvml.gpus[0], name, value)
    assert reader.read()[0].power_w == 400.0


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetTotalEnergyConsumption", "energy_mj"),
        ("nvmlDeviceGetTemperature", "temperature_c"),
        ("nvmlDeviceGetClockInfo", "sm_clock_mhz"),
        ("nvmlDeviceGetClockInfo", "memory_clock_mhz"),
        ("nvmlDeviceGetMemoryInfo", "memory_used_mib"),
    ],
)
def test_what_a_gpu_cannot_say_is_null_and_the_rest_is_said(function: str, field: str) -> None:
    nvml = FakeNvml([FakeGpu("GPU-1", "00000000:18:00.0")])
    reader = NvmlTelemetryReader(NvmlInspector(nvml), nvml)
    assert getattr(reader.read()[0], field) is not None
    nvml.gpus[0].raises[function] = pynvml.NVML_ERROR_NOT_SUPPORTED
    (sample,) = reader.read()
    assert getattr(sample, field) is None
    assert sample.power_w == 76.0


def test_a_gpu_without_any_power_reading() -> None:
    lacks = {"nvmlDeviceGetPowerUsage": pynvml.NVML_ERROR_NOT_SUPPORTED}
    assert one(lacks_fields=[INSTANT], raises=lacks).power_w is None


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (pynvml.nvmlClocksEventReasonNone, ()),
        (pynvml.nvmlClocksEventReasonGpuIdle, (ThrottleReason.IDLE,)),
        (
            pynvml.nvmlClocksEventReasonHwSlowdown | pynvml.nvmlClocksEventReasonHwThermalSlowdown,
            (ThrottleReason.HARDWARE_SLOWDOWN, ThrottleReason.HARDWARE_THERMAL),
        ),
        (pynvml.nvmlClocksEventReasonSwPowerCap | 1 << 40, (ThrottleReason.POWER_CAP, ThrottleReason.OTHER)),
    ],
)
def test_reasons_are_read_from_the_bit_mask(bits: int, reasons: tuple[ThrottleReason, ...]) -> None:
    assert one(reasons=bits).throttle_reasons == reasons


def test_every_reason_that_nvml_names_has_a_word() -> None:
    reasons = one(reasons=pynvml.nvmlClocksEventReasonAll).throttle_reasons
    assert ThrottleReason.OTHER not in reasons
    assert len(set(reasons)) == pynvml.nvmlClocksEventReasonAll.bit_count()
    assert set(reasons) == set(ThrottleReason) - {ThrottleReason.OTHER}


def test_no_reason_is_given_where_the_driver_cannot_say() -> None:
    lacks = {"nvmlDeviceGetCurrentClocksEventReasons": pynvml.NVML_ERROR_NOT_SUPPORTED}
    assert one(raises=lacks).throttle_reasons == ()


def test_only_the_hosts_own_gpus_are_read_under_their_own_numbers() -> None:
    nvml = FakeNvml(eight_gpus())
    reader = NvmlTelemetryReader(VisibleGpus(NvmlInspector(nvml), "6,5"), nvml)
    assert [(sample.index, sample.uuid) for sample in reader.read()] == [(5, nvml.gpus[5].uuid), (6, nvml.gpus[6].uuid)]


def test_a_gpu_that_is_lost_is_missing_and_comes_back() -> None:
    nvml = FakeNvml(eight_gpus())
    reader = NvmlTelemetryReader(NvmlInspector(nvml), nvml)
    reader.read()
    nvml.gpus[4].raises["nvmlDeviceGetTemperature"] = pynvml.NVML_ERROR_GPU_IS_LOST
    assert [sample.index for sample in reader.read()] == [0, 1, 2, 3, 5, 6, 7]
    nvml.gpus[4].raises.clear()
    assert [sample.index for sample in reader.read()] == list(range(8))


def test_a_driver_that_went_away_is_opened_anew() -> None:
    nvml = FakeNvml([FakeGpu("GPU-1", "00000000:18:00.0")])
    inspector = NvmlInspector(nvml)
    reader = NvmlTelemetryReader(inspector, nvml)
    assert [len(reader.read()) for _ in range(3)] == [1, 1, 1]
    assert nvml.opened == 2, "one session of the inspector's, one of its own"
    nvml.gpus[0].raises["nvmlDeviceGetClockInfo"] = pynvml.NVML_ERROR_GPU_IS_LOST
    with pytest.raises(AttemptFailure, match="GPU 0 does not answer: GPU is lost") as lost:
        reader.read()
    assert lost.value.failure is Failure.GPU_LOST
    assert nvml.opened == 1
    nvml.gpus[0].raises.clear()
    assert len(reader.read()) == 1
    reader.close()
    reader.close()
    inspector.close()
    assert nvml.opened == 0


def test_a_gpu_that_cannot_be_found_again() -> None:
    nvml = FakeNvml([FakeGpu("GPU-1", "00000000:18:00.0")])
    nvml.gpus[0].raises["nvmlDeviceGetHandleByUUID"] = pynvml.NVML_ERROR_UNKNOWN
    reader = NvmlTelemetryReader(NvmlInspector(nvml), nvml)
    with pytest.raises(AttemptFailure, match="NVML finds no GPUs for telemetry: Unknown Error"):
        reader.read()
    assert nvml.opened == 1
