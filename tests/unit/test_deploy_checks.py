"""What a box is refused for, and what is said then."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from deploy_reading import GOOD

from ddqueue.domain.borrowing import Borrow
from ddqueue.domain.health import Check, Verdict
from ddqueue.domain.inventory import Drafter, EngineProfile, Host, Inventory, Model
from deploy import layout, probe
from deploy.checks import Needs, certificates_of, judge, places_of, question
from deploy.reading import Reading, reading_from

PLACES = (("Postgres", "10.0.0.1", 5432), ("Redis", "10.0.0.1", 6379))
HOST = Host("rtx6000", 8, "RTX PRO 6000 Blackwell")
SIMULATED = Host("sim", 8, "simulated", simulated_box="pcie")
INVENTORY = Inventory(
    hosts={"rtx6000": HOST, "sim": SIMULATED},
    models={
        "kimi": Model("kimi", {"rtx6000": "/models/kimi", "b300": "/data/kimi"}, Drafter({"*": "/models/kimi-dflash"}))
    },
    engines={
        "ddtree": EngineProfile("ddtree", {"*": ("/opt/sglang/bin/python", "-m", "sglang.launch_server")}),
        "sim": EngineProfile("sim", {"*": ("{python}", "-m", "ddqueue.sim.server")}, simulated=True),
    },
    file="inventory.yaml",
)
NEEDS = Needs(HOST, INVENTORY, PLACES)


def found(reading: Reading, needs: Needs = NEEDS, verdict: Verdict = Verdict.FAIL) -> list[Check]:
    return [check for check in judge(reading, needs) if check.verdict is verdict]


def test_a_good_box_passes_every_check() -> None:
    assert found(GOOD) == []
    assert found(GOOD, verdict=Verdict.WARN) == []


@pytest.mark.parametrize(
    ("changes", "name", "finding", "remedy"),
    [
        ({"python": (3, 10, 12)}, "Python", "3.11 or later is needed", "--python"),
        ({"venv": False}, "Python", "cannot make environments", "apt-get install python3-venv"),
        ({"free_mib": GOOD.free_mib | {layout.ROOT: 500}}, "disk", "500 MiB free for /opt/ddqueue", "make room"),
        ({"free_mib": GOOD.free_mib | {"/dev/shm": 10}}, "/dev/shm", "10 MiB free", "--shm-size"),
        ({"gpus": {"problem": "libnvidia-ml.so.1: cannot open"}}, "driver", "libnvidia-ml", "install the driver"),
        ({"gpus": {"driver": "595.45", "names": ["NVIDIA H200"] * 8}}, "GPUs", "NVIDIA H200; the inventory", "`gpu:`"),
        ({"gpus": GOOD.gpus | {"names": GOOD.gpus["names"][:7]}}, "GPUs", "7 answer, the inventory says 8", "`gpus:`"),
        ({"missing_programs": ("/opt/sglang/bin/python",)}, "engines", "/opt/sglang/bin/python", "inventory.yaml"),
        ({"missing_files": ("/models/kimi",)}, "models", "not there: /models/kimi", "inventory.yaml"),
        ({"ahead_s": -40.0}, "clock", "40.0 s behind", "NTP"),
        ({"unreached": {"Redis": "timed out"}}, "Redis", "10.0.0.1:6379 is not reached from the box", "firewalls"),
    ],
)  # fmt: skip
def test_each_fault_is_named_with_its_remedy(changes: dict[str, object], name: str, finding: str, remedy: str) -> None:
    (check,) = found(replace(GOOD, **changes))  # type: ignore[arg-type]
    assert check.name == name
    assert finding in check.finding
    assert remedy in check.remedy


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"ahead_s": 5.0}, "clock"),
        ({"free_mib": GOOD.free_mib | {"/dev/shm": 512}}, "/dev/shm"),
        ({"gpus": GOOD.gpus | {"names": GOOD.gpus["names"] * 2}}, "GPUs"),
    ],
)
def test_what_only_deserves_a_warning(changes: dict[str, object], name: str) -> None:
    reading = replace(GOOD, **changes)  # type: ignore[arg-type]
    assert found(reading) == []
    assert [check.name for check in found(reading, verdict=Verdict.WARN)] == [name]


def test_a_loopback_address_is_explained() -> None:
    needs = replace(NEEDS, places=(("Postgres", "127.0.0.1", 5432),))
    (check,) = found(replace(GOOD, unreached={"Postgres": "refused"}), needs)
    assert "the box takes 127.0.0.1 for itself" in check.remedy


def test_what_is_asked_of_a_real_host_and_of_a_simulated_one() -> None:
    borrowed = replace(HOST, borrow=Borrow(("systemctl", "stop", "x"), ("/opt/start",)))
    asked = question(replace(NEEDS, host=borrowed))
    assert asked.files == ("/models/kimi", "/models/kimi-dflash")
    assert asked.programs == ("/opt/sglang/bin/python", "/opt/start", "systemctl")
    assert asked.gpus
    simulated = question(replace(NEEDS, host=SIMULATED))
    assert (simulated.files, simulated.programs, simulated.gpus) == ((), (), False)
    control = replace(NEEDS, host=None)
    assert not question(control).gpus
    assert [check.name for check in judge(GOOD, control)] == [
        "Python", "disk", "disk", "clock", "Postgres", "Redis", "services",
    ]  # fmt: skip


def test_places_hold_no_password() -> None:
    places = places_of("postgresql://me:secret@db.example/ddqueue", "rediss://:secret@[fd00::1]:7000/0")
    assert places == (("Postgres", "db.example", 5432), ("Redis", "fd00::1", 7000))


def test_certificates_must_be_there_too() -> None:
    files = certificates_of(
        "postgresql://db/x?sslmode=verify-full&sslrootcert=/etc/tls/ca.pem", "rediss://r/0?ssl_ca_certs=/etc/tls/r.pem"
    )
    assert files == ("/etc/tls/ca.pem", "/etc/tls/r.pem")
    assert certificates_of("postgresql://db/x?sslrootcert=system") == ()
    needs = replace(NEEDS, certificates=files)
    assert set(files) < set(question(needs).files)
    (check,) = found(replace(GOOD, missing_files=("/etc/tls/r.pem",)), needs)
    assert (check.name, check.finding) == ("certificates", "not there: /etc/tls/r.pem")


def test_the_probe_runs_alone_and_tells_what_there_is(tmp_path: Path) -> None:
    asked = {
        "folders": [str(tmp_path / "not" / "yet"), "/dev/shm"],
        "files": ["/etc/passwd", "/no/such/file"],
        "programs": ["sh", "/no/such/program", "/etc/passwd"],
        "places": [["nobody", "127.0.0.1", 1]],
        "gpus": False,
    }
    done = subprocess.run(
        [sys.executable, "-I", "-", json.dumps(asked)],
        input=Path(probe.__file__).read_bytes(), capture_output=True, check=True,
    )  # fmt: skip
    said = json.loads(done.stdout)
    reading = reading_from(said, said["time_s"] - 1, said["time_s"] + 1)
    assert reading.python == sys.version_info[:3]
    assert reading.missing_files == ("/no/such/file",)
    assert reading.missing_programs == ("/no/such/program", "/etc/passwd")
    assert list(reading.unreached) == ["nobody"]
    assert all(free > 0 for free in reading.free_mib.values())
    assert reading.ahead_s == 0


def test_a_clock_is_wrong_only_by_what_the_round_trip_does_not_explain() -> None:
    said = {
        "time_s": 100.0, "python": [3, 11, 2], "executable": "/usr/bin/python3", "venv": True, "machine": "x86_64",
        "libc": ["glibc", "2.36"], "systemd": True, "free_mib": {}, "missing_files": [], "missing_programs": [],
        "unreached": {}, "gpus": None,
    }  # fmt: skip
    assert reading_from(said, 99.0, 101.0).ahead_s == 0
    assert reading_from(said, 90.0, 95.0).ahead_s == 5
    assert reading_from(said, 103.0, 104.0).ahead_s == -3
