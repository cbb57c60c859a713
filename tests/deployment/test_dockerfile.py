"""The Dockerfile copies what is there and no secret, builds a whole wheel, and runs as nobody in particular."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from compose_file import ROOT, read

from ddqueue import __version__

PYTHON = "/opt/ddqueue/bin/python"


@dataclass(frozen=True)
class Instruction:
    name: str
    rest: str


@pytest.fixture(scope="module")
def instructions() -> list[Instruction]:
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [Instruction(*line.split(" ", 1)) for line in lines if line.strip()]


def rest_of(instructions: list[Instruction], name: str) -> list[str]:
    return [one.rest for one in instructions if one.name == name]


def is_ignored(path: str) -> bool:
    """As .dockerignore has it: the last pattern that matches the path, or a folder above it, decides."""
    parts = path.split("/")
    above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    ignored = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!")
        names = [name.rpartition("/")[2] for name in above] if pattern.startswith("**/") else above
        if any(fnmatch.fnmatchcase(name, pattern.removeprefix("**/")) for name in names):
            ignored = not line.startswith("!")
    return ignored


def copied(instructions: list[Instruction]) -> list[tuple[list[str], str]]:
    """From the context: sources and target of each COPY."""
    words = [shlex.split(rest) for rest in rest_of(instructions, "COPY") if not rest.startswith("--from=")]
    return [(sources, target) for *sources, target in words]


def test_what_is_copied_is_there_and_not_ignored(instructions: list[Instruction]) -> None:
    sources = [source for sources, _ in copied(instructions) for source in sources]
    assert [source for source in sources if not (ROOT / source).exists() or is_ignored(source)] == []
    package = re.search(r"^packages = (\[.*\])$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert package is not None
    assert set(json.loads(package[1])) <= set(sources)


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".git/config",
        "inventory.yaml",
        "tests/conftest.py",
        ".venv/bin/python",
        "ddqueue/cli/__pycache__/x.pyc",
        "x.pem",
    ],
)
def test_what_stays_out_of_the_context(path: str) -> None:
    assert is_ignored(path)


def test_what_it_starts_from_and_as_whom_it_runs(instructions: list[Instruction]) -> None:
    (base,) = rest_of(instructions, "ARG")
    assert re.fullmatch(r"PYTHON=3\.11\.\d+-slim-bookworm", base)
    assert [rest.split()[0] for rest in rest_of(instructions, "FROM")] == ["python:${PYTHON}"] * 2
    (user,) = rest_of(instructions, "USER")
    secrets = [secret for service in read().services.values() for secret in service["secrets"]]
    uids = {secret["uid"] for secret in secrets if isinstance(secret, dict)}
    assert user == "10001:10001"
    assert uids == {"10001", "999"}
    names = [one.name for one in instructions]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert json.loads(rest_of(instructions, "ENTRYPOINT")[0]) == ["ddqueue"]
    assert isinstance(json.loads(rest_of(instructions, "CMD")[0]), list)
    assert f'version="{__version__}"' in rest_of(instructions, "LABEL")[0]
    assert not [rest for name in ("ENV", "ARG") for rest in rest_of(instructions, name) if "PASSWORD" in rest]


def test_every_package_is_locked_by_hashes(instructions: list[Instruction]) -> None:
    (install,) = [rest for rest in rest_of(instructions, "RUN") if "--require-hashes" in rest]
    lock = ROOT / shlex.split(install)[-1]
    entries = re.split(r"^(?=\S)", re.sub(r"^\s+#.*\n", "", lock.read_text(), flags=re.MULTILINE), flags=re.MULTILINE)
    assert len(entries) > 50
    assert [entry for entry in entries if entry and not ("==" in entry and "--hash=sha256:" in entry)] == []


def test_the_wheel_is_built_and_works_by_itself(instructions: list[Instruction], tmp_path: Path) -> None:
    """The very words of the build, in a folder that holds what they may see, with this environment's packages."""
    context, site = tmp_path / "build", tmp_path / "site"
    for sources, target in copied(instructions):
        for source in sources:
            place = context / target if len(sources) == 1 else context / target / source
            place.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place, ignore=_ignore)
            else:
                shutil.copy(ROOT / source, place)
    (build,) = [rest for rest in rest_of(instructions, "RUN") if "pip wheel" in rest]
    wheel, install = build.replace(PYTHON, sys.executable).split(" && ")
    subprocess.run(wheel, shell=True, cwd=context, check=True, capture_output=True)
    subprocess.run(f"{install} --target {site}", shell=True, cwd=context, check=True, capture_output=True)
    code = "import ddqueue; from ddqueue.storage import migrate; print(ddqueue.__file__, migrate.head())"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    from ddqueue.storage import migrate

    assert done.stdout.split() == [str(site / "ddqueue" / "__init__.py"), migrate.head()]
    shipped = {str(path.relative_to(site)) for path in site.rglob("*")}
    beside_code = {
        str(path.relative_to(ROOT))
        for folder in ("ddqueue", "migrations", "deploy")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".sql", ".yaml", ".mako", ".service", ".jsonl", ".conf")
    }
    assert beside_code
    assert beside_code - shipped == set()


def _ignore(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if is_ignored(str(Path(folder, name).relative_to(ROOT)))}
