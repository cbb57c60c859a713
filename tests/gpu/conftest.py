"""One installation for all tests on the GPU: a real server takes a minute to start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from installation import Installation
from moe_models import write_moe_models
from real import HOST, Machine, corpus

from ddqueue.local.servers import LocalServers
from ddqueue.storage.migrate import upgrade


@pytest.fixture(scope="session")
def machine() -> Machine:
    found = Machine.from_environment()
    if found is None:
        pytest.skip("no GPU machine: see tests/gpu/README.md")
    return found


@pytest.fixture(scope="session")
def mixtures(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the mixtures of experts."""
    folder = tmp_path_factory.mktemp("mixtures")
    write_moe_models(machine.models, folder)
    return folder


@pytest.fixture(scope="session")
def box(
    machine: Machine, mixtures: Path, servers: LocalServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """The box, examined by the doctor, with its dispatcher and worker; their logs and every row are kept as evidence at
    the end."""
    upgrade(servers.database_url)
    home = tmp_path_factory.mktemp("box")
    made = Installation(home, servers.database_url, servers.redis_url, machine.inventory(mixtures))
    made.patience_s = 600
    corpus(home)
    if machine.caches is not None:
        machine.caches.mkdir(parents=True, exist_ok=True)
        (home / "caches").symlink_to(machine.caches)
    (home / "doctor.txt").write_text(made.run("doctor", "--host", HOST, code=None).stdout)
    made.start_all(HOST)
    yield made
    if machine.evidence is not None:
        _keep(made, machine.evidence)
    made.stop()


@pytest.fixture(scope="session")
def prompts(box: Installation) -> str:
    return str(box.home / "python-source.txt")


def _keep(box: Installation, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sweeps = box.json("status")["sweeps"]
    for sweep in sweeps:
        reference = f"{sweep['name']}@{sweep['revision']}"
        jobs = [box.show(job["job_id"]) for job in box.jobs(reference)]
        (folder / f"{sweep['name']}.json").write_text(json.dumps(jobs, indent=1, default=str) + "\n")
        (folder / f"{sweep['name']}.txt").write_text(box.run("results", reference).stdout)
    telemetry = "SELECT * FROM telemetry ORDER BY measurement_id, gpu_index"
    (folder / "telemetry.json").write_text(box.run("sql", telemetry, "--json").stdout)
    for text in sorted(box.home.glob("compare*.txt")):
        (folder / text.name).write_text(text.read_text())
    (folder / "processes.log").write_text(box.logs())
    (folder / "doctor.txt").write_text((box.home / "doctor.txt").read_text())
    for log in sorted((box.home / "logs" / HOST).glob("*.log")):
        (folder / f"{HOST}-{log.name}").write_bytes(log.read_bytes())
