"""Bandwidth: the probe's arithmetic on a PyTorch of known speed, and how a slow GPU stands out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddqueue.domain.health import Verdict, slow_parts
from ddqueue.gpu.bandwidth import PROBE, Bandwidth, bandwidth_of, judge, measured_now, read_probe

TORCH = '''
"""As much of PyTorch as the probe uses, on GPUs that copy at known speed: GPU 2's memory at 800 GB/s, others at 1000;
between GPUs at 50 GB/s, to and from GPU 2 at 40."""
__version__ = "2.0-test"
uint8 = "uint8"
clock_s = 0.0


class Block:
    def __init__(self, size, gpu):
        self.size, self.gpu = size, gpu

    def copy_(self, source, non_blocking=False):
        global clock_s
        slow = 2 in (self.gpu, source.gpu)
        if self.gpu == source.gpu:
            clock_s += 2 * self.size / (800e9 if slow else 1000e9)
        else:
            clock_s += self.size / (40e9 if slow else 50e9)


def empty(size, dtype, device):
    return Block(size, int(device.rpartition(":")[2]))


class cuda:
    @staticmethod
    def device_count():
        return 4

    @staticmethod
    def mem_get_info(gpu):
        return 80 << 30, 80 << 30

    @staticmethod
    def synchronize(gpu):
        pass

    @staticmethod
    def empty_cache():
        pass

    class device:
        def __init__(self, gpu):
            pass

        def __enter__(self):
            pass

        def __exit__(self, *error):
            pass

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at_s = clock_s

        def synchronize(self):
            pass

        def elapsed_time(self, end):
            return (end.at_s - self.at_s) * 1000
'''


def probe(folder: Path, limit_s: float) -> str:
    (folder / "torch.py").write_text(TORCH)
    done = subprocess.run(
        [sys.executable, "-c", PROBE.read_text(), str(limit_s)],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_probe_measures_a_source_of_known_speed(tmp_path: Path) -> None:
    measured = read_probe(probe(tmp_path, 60), range(4))
    assert measured is not None
    assert measured.memory == pytest.approx({0: 1000.0, 1: 1000.0, 2: 800.0, 3: 1000.0})
    assert len(measured.pairs) == 12
    assert measured.pairs[0, 1] == pytest.approx(50.0)
    assert [measured.pairs[1, 2], measured.pairs[2, 3]] == pytest.approx([40.0, 40.0])
    assert measured.to_json()["memory"] == {"0": 1000.0, "1": 1000.0, "2": 800.0, "3": 1000.0}
    assert measured.to_json()["pairs"]["1>2"] == 40.0


def test_what_does_not_fit_into_the_time_is_missing_not_zero(tmp_path: Path) -> None:
    measured = read_probe(probe(tmp_path, -1), range(4))
    assert measured == Bandwidth({}, {})
    (check,) = judge(measured, None)
    assert (check.verdict, check.finding) == (Verdict.WARN, "not measured within the time limit")


def test_numbers_are_mapped_to_the_gpus_that_were_visible(tmp_path: Path) -> None:
    measured = read_probe(probe(tmp_path, 60), [0, 1, 5, 7])
    assert measured is not None
    assert sorted(measured.memory) == [0, 1, 5, 7]
    assert measured.memory[5] == pytest.approx(800.0)
    assert measured.pairs[5, 7] == pytest.approx(40.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Traceback (most recent call last):\nModuleNotFoundError: No module named 'torch'",
        "[]",
        "{}",
        '{"memory": {"9": 1}, "pairs": {}}',
        '{"memory": {"x": 1}, "pairs": {}}',
        '{"memory": {"0": null}, "pairs": {}}',
    ],
)
def test_what_is_no_answer_is_none(text: str) -> None:
    assert read_probe(text, [0]) is None


def test_warnings_before_the_answer_do_no_harm() -> None:
    text = "UserWarning: something\n" + json.dumps({"memory": {"0": 4000}, "pairs": {}}) + "\n"
    assert read_probe(text, [0]) == Bandwidth({0: 4000.0}, {})


def judged(measured: Bandwidth, topology: Any) -> dict[str, tuple[Verdict, str]]:
    return {check.name: (check.verdict, check.finding) for check in judge(measured, topology)}


def test_a_gpu_slower_than_its_neighbours_stands_out() -> None:
    memory = {0: 1800.0, 1: 1790.0, 2: 1500.0, 3: 1810.0}
    assert judged(Bandwidth(memory, {}), None) == {
        "memory bandwidth": (Verdict.WARN, "median 1795 GB/s, 1500 to 1810: GPU 2 is 16% below")
    }


def test_ten_per_cent_are_allowed() -> None:
    assert slow_parts({0: 100.0, 1: 100.0, 2: 90.0}) == {}
    assert slow_parts({0: 100.0, 1: 100.0, 2: 89.9}) == {2: pytest.approx(0.101)}
    assert slow_parts({0: 5.0}) == {}
    assert slow_parts({}) == {}


def test_pairs_are_compared_with_pairs_that_are_joined_alike() -> None:
    """Across the sockets is slower than within one, on every healthy box."""
    names = [["X", "NODE", "SYS", "SYS"], ["NODE", "X", "SYS", "SYS"], ["SYS", "SYS", "X", "NODE"]]
    names.append(["SYS", "SYS", "NODE", "X"])
    topology = {"matrix": names, "nvlinks": [{"active": 0}] * 4}
    pairs = {(one, other): 50.0 if names[one][other] == "NODE" else 35.0 for one in range(4) for other in range(4)}
    pairs = {pair: rate for pair, rate in pairs.items() if pair[0] != pair[1]}
    verdicts = {name: verdict for name, (verdict, _) in judged(Bandwidth({}, pairs), topology).items()}
    assert verdicts["GPU to GPU, NODE"] is verdicts["GPU to GPU, SYS"] is Verdict.OK
    pairs[2, 3] = 20.0
    verdict, finding = judged(Bandwidth({}, pairs), topology)["GPU to GPU, NODE"]
    assert verdict is Verdict.WARN
    assert "GPU 2 to 3 is 60% below" in finding


def test_an_attempt_records_what_was_measured_on_its_own_gpus_only(tmp_path: Path) -> None:
    examination = tmp_path / "box.json"
    assert bandwidth_of(examination, ["GPU-a", "GPU-b"]) is None
    kept = measured_now(Bandwidth({0: 4000.0, 1: 4100.0}, {(0, 1): 370.04, (1, 0): 371.0}), ["GPU-a", "GPU-b"])
    examination.write_text(json.dumps({"host": "box", "bandwidth": kept}))
    found = bandwidth_of(examination, ["GPU-a", "GPU-b"])
    assert found is not None
    assert found["pairs"] == {"0>1": 370.0, "1>0": 371.0}
    assert found["measured_at"].endswith("+00:00")
    assert bandwidth_of(examination, ["GPU-a", "GPU-c"]) is None
    assert bandwidth_of(examination, ["GPU-b", "GPU-a"]) is None, "the pairs would be those of others"
    for text in ("", "[]", '{"bandwidth": null}', '{"bandwidth": [1]}', '{"checks": []}'):
        examination.write_text(text)
        assert bandwidth_of(examination, ["GPU-a", "GPU-b"]) is None
