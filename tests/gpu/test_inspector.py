"""The real driver answers what the conformance suite asks of every inspector; nothing on the machine is changed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.health import passed
from ddqueue.gpu.bandwidth import PROBE, judge, read_probe
from ddqueue.gpu.cleanroom import GpuCleanRoom
from ddqueue.gpu.doctor import check_gpus
from ddqueue.gpu.fitness import IDLE_MEMORY_MIB
from ddqueue.gpu.nvml import NvmlInspector
from ddqueue.gpu.shared_memory import SharedMemory
from ddqueue.gpu.visible import VisibleGpus, cuda_environment
from ddqueue.ports import GpuReading

pytestmark = pytest.mark.gpu

HELD_MIB = 2048
RELEASE_LIMIT_S = 60.0
HOLDER = f"""
import torch
held = torch.empty({HELD_MIB} << 20, dtype=torch.uint8, device="cuda:0")
torch.cuda.synchronize()
print("holding", flush=True)
input()
"""


@pytest.fixture
def inspector() -> Iterator[NvmlInspector]:
    made = NvmlInspector()
    yield made
    made.close()


def room(inspector: NvmlInspector, readings: list[GpuReading], folder: Path, wait_s: float) -> GpuCleanRoom:
    return GpuCleanRoom(inspector, len(readings), readings[0].name, wait_s, SharedMemory(folder), shm_free_mib=0)


def test_every_gpu_is_read_in_pci_order(inspector: NvmlInspector) -> None:
    readings = inspector.read()
    assert readings
    assert [reading.index for reading in readings] == list(range(len(readings)))
    assert [reading.pci_bus_id for reading in readings] == sorted(reading.pci_bus_id for reading in readings)
    assert len({reading.uuid for reading in readings}) == len(readings)
    for reading in readings:
        assert reading.uuid.startswith("GPU-")
        assert reading.memory_total_mib > 8000
        assert reading.troubles == ()


def test_an_idle_box_is_clean_and_healthy(inspector: NvmlInspector, tmp_path: Path) -> None:
    readings = inspector.read()
    clean = room(inspector, readings, tmp_path, RELEASE_LIMIT_S).prove_clean(lambda: None)
    assert all(reading.memory_used_mib <= IDLE_MEMORY_MIB for reading in clean)
    assert passed(check_gpus(inspector, len(readings), readings[0].name, at_work=False))


def test_a_description_names_what_a_real_gpu_has(inspector: NvmlInspector) -> None:
    description = json.loads(json.dumps(inspector.describe()))
    assert description["driver"]
    assert float(description["cuda_driver"]) >= 11
    for gpu in description["gpus"]:
        assert gpu["clocks_mhz"]["sm"]["max"] > 500
        assert 0 < gpu["temperature_c"] < 100
        assert gpu["power_limit_w"] > 50
        assert gpu["pci_link"]["width_max"] in (1, 2, 4, 8, 16)
    size = len(description["gpus"])
    assert [len(row) for row in description["topology"]["matrix"]] == [size] * size


def test_visible_devices_by_uuid(inspector: NvmlInspector) -> None:
    last = inspector.read()[-1]
    (chosen,) = VisibleGpus(inspector, last.uuid).read()
    assert chosen.uuid == last.uuid
    assert cuda_environment([chosen])["CUDA_VISIBLE_DEVICES"] == str(last.index)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch in this interpreter")
def test_memory_in_use_is_seen_and_its_release_is_waited_for(inspector: NvmlInspector, tmp_path: Path) -> None:
    readings = inspector.read()
    room(inspector, readings, tmp_path, RELEASE_LIMIT_S).prove_clean(lambda: None)
    environment = os.environ | cuda_environment(readings)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"holding\n"
        assert inspector.read()[0].memory_used_mib >= HELD_MIB
        with pytest.raises(AttemptFailure) as busy:
            room(inspector, readings, tmp_path, 0.0).prove_clean(lambda: None)
        assert busy.value.failure is Failure.GPU_BUSY
    finally:
        holder.kill()
        holder.wait()
    released_s = time.monotonic()
    released = room(inspector, readings, tmp_path, RELEASE_LIMIT_S).prove_released()
    print(f"released {time.monotonic() - released_s:.2f} s after the end of the process")
    assert released[0].memory_used_mib <= IDLE_MEMORY_MIB


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch in this interpreter")
def test_bandwidth_is_measured_on_every_gpu(inspector: NvmlInspector) -> None:
    readings = inspector.read()
    done = subprocess.run(
        [sys.executable, "-c", PROBE.read_text(), "60"],
        env=os.environ | cuda_environment(readings),
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    measured = read_probe(done.stdout, [reading.index for reading in readings])
    assert measured is not None
    assert sorted(measured.memory) == [reading.index for reading in readings]
    assert len(measured.pairs) == len(readings) * (len(readings) - 1)
    # Slower than any data-centre GPU's memory of the last ten years, and faster than any: the unit is GB/s.
    assert all(300 < rate < 20_000 for rate in measured.memory.values())
    print(measured.to_json(), judge(measured, inspector.describe()["topology"]))
