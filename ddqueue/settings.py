"""The only reader of the environment: where things are, and how patient ddqueue is."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import quote

from ddqueue.errors import NotReachable, UsageError

DATABASE = "DDQUEUE_DATABASE_URL"
REDIS = "DDQUEUE_REDIS_URL"
WEBHOOK = "DDQUEUE_WEBHOOK_URL"
HOME = "DDQUEUE_HOME"
INVENTORY = "DDQUEUE_INVENTORY"
DATABASE_PASSWORD = "DDQUEUE_DATABASE_PASSWORD"  # noqa: S105 -- the variable's name
REDIS_PASSWORD = "DDQUEUE_REDIS_PASSWORD"  # noqa: S105 -- the variable's name
FLOWER_USER = "DDQUEUE_FLOWER_USER"
FLOWER_PASSWORD = "DDQUEUE_FLOWER_PASSWORD"  # noqa: S105 -- the variable's name


@dataclass(frozen=True)
class Patience:
    """How long ddqueue waits, in seconds. Each can be set by a variable: DDQUEUE_LEASE_TTL_S and so on."""

    lease_ttl_s: float = 15.0
    """A running job whose attempt has not been heard of for so long is looked after by its host's next attempt."""
    wake_again_after_s: float = 5.0
    """A host that was woken and did not claim is woken again."""
    attempt_limit_s: float = 6 * 3600.0
    """The longest an attempt may take in all."""
    database_away_s: float = 900.0
    """How long an attempt keeps trying to store what it has measured."""
    server_start_s: float = 3600.0
    """The longest a server's start may take in all."""
    server_silent_s: float = 900.0
    """How long a starting server may make no progress."""
    compiler_silent_s: float = 1800.0
    """The same while it compiles."""
    gpu_idle_wait_s: float = 60.0
    """How long the GPUs may take to come back to idle, before a start and after a stop."""
    past_hours_s: float = 300.0
    """How long an attempt may take to end once the hours of its borrowed host are over; then it is killed."""


def patience() -> Patience:
    """The waits, as the environment sets them.

    Raises:
        UsageError: a variable holds no positive number of seconds.
    """
    return Patience(
        **{wait.name: _seconds(wait.name) for wait in fields(Patience) if _variable(wait.name) in os.environ}
    )


def patience_variables() -> dict[str, str]:
    """The variables of the waits that the environment sets, for another machine that is to wait alike.

    Raises:
        UsageError: as `patience`.
    """
    patience()
    names = (_variable(wait.name) for wait in fields(Patience))
    return {name: os.environ[name] for name in names if name in os.environ}


def home() -> Path:
    """ddqueue's folder of state: DDQUEUE_HOME, else /var/lib/ddqueue as root, else the user's data folder."""
    named = os.environ.get(HOME)
    if named:
        return Path(named).expanduser().absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/ddqueue")
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "ddqueue"


def locks_folder() -> Path:
    """Where the kernel locks of this machine's hosts lie."""
    return home() / "locks"


def logs_folder() -> Path:
    """Where the servers' logs lie, a folder a host."""
    return home() / "logs"


def journal_folder(host: str) -> Path:
    """Where a host's attempts keep what they have measured until it is stored."""
    return home() / "journal" / host


def examination_path(host: str) -> Path:
    """What `ddqueue doctor` found on the host when it last looked."""
    return home() / "doctor" / f"{host}.json"


def loan_path(host: str) -> Path:
    """The record of a host that was taken from production; there is none where nothing has to be given back."""
    return home() / "borrowed" / f"{host}.json"


def simulated_gpus_folder(host: str) -> Path:
    """Where the memory of a simulated host's GPUs is kept."""
    return home() / "sim" / host


def visible_devices() -> str | None:
    """The GPUs of this machine that a worker may use, as CUDA_VISIBLE_DEVICES spells them; None = every one."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def caches_folder(host: str) -> Path:
    """Where compile caches that outlast an attempt lie."""
    return home() / "caches" / host


def database_url() -> str:
    """The database: DDQUEUE_DATABASE_URL, else the embedded one that `ddqueue up` runs.

    A URL without a password gets that of DDQUEUE_DATABASE_PASSWORD, or of the file that DDQUEUE_DATABASE_PASSWORD_FILE
    names, so that the server may read the same file.

    Raises:
        NotReachable: neither is there.
        UsageError: a password is given twice, or its file cannot be used.
    """
    return _url(DATABASE, DATABASE_PASSWORD, "database_url", "database")


def redis_url() -> str:
    """The broker: DDQUEUE_REDIS_URL, else the embedded one that `ddqueue up` runs; its password as for the database.

    Raises:
        NotReachable: neither is there.
        UsageError: a password is given twice, or its file cannot be used.
    """
    return _url(REDIS, REDIS_PASSWORD, "redis_url", "broker")


def flower_login() -> tuple[str, str]:
    """Who may look at Flower: user and password, from the variables or from the files that *_FILE name.

    Raises:
        UsageError: one of them is missing, or cannot be sent by every browser.
    """
    found = {name: os.environ.get(name) or _from_file(name) for name in (FLOWER_USER, FLOWER_PASSWORD)}
    user, password = found[FLOWER_USER], found[FLOWER_PASSWORD]
    if not user or not password:
        missing = " and ".join(f"{name} (or {name}_FILE)" for name, value in found.items() if not value)
        raise UsageError(f"Flower would be open to everybody who reaches it: set {missing}")
    for name, value in found.items():
        if not (value or "").isascii() or not (value or "").isprintable():
            raise UsageError(f"{name}: write it in printable ASCII, which every browser sends alike")
    if ":" in user:
        raise UsageError(f"{FLOWER_USER} holds a colon, which ends the user in HTTP's basic authentication")
    return user, password


def webhook_url() -> str | None:
    """Whom a submitted sweep tells of its end when the command does not say: DDQUEUE_WEBHOOK_URL. Other users of a
    machine can read a command's arguments, and such a URL often holds the receiver's secret."""
    return os.environ.get(WEBHOOK) or _from_file(WEBHOOK)


def flower_folder() -> Path:
    """Where Flower keeps the tasks it has seen."""
    return home() / "flower"


def inventory_path(explicit: Path | None = None) -> Path:
    """The inventory: `explicit`, else DDQUEUE_INVENTORY, else ./inventory.yaml, else the one in ddqueue's folder.

    Raises:
        UsageError: there is none.
    """
    if explicit is not None:
        return explicit
    named = os.environ.get(INVENTORY)
    if named:
        return Path(named).expanduser()
    for candidate in (Path("inventory.yaml"), home() / "inventory.yaml"):
        if candidate.is_file():
            return candidate
    raise UsageError(
        "no inventory: write one with `ddqueue init`, or name it with --inventory FILE or DDQUEUE_INVENTORY"
    )


def _variable(name: str) -> str:
    return f"DDQUEUE_{name.upper()}"


def _seconds(name: str) -> float:
    text = os.environ[_variable(name)]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise UsageError(f"{_variable(name)} is {text!r}; write a number of seconds above 0, such as 60")
    return value


def _url(variable: str, password_variable: str, attribute: str, what: str) -> str:
    named = os.environ.get(variable) or _from_file(variable)
    if named:
        password = os.environ.get(password_variable) or _from_file(password_variable)
        return named if password is None else _with_password(named, password, variable, password_variable)
    from ddqueue.local.running import running

    servers = running(home())
    if servers is None:
        raise NotReachable(f"no {what}: run `ddqueue up` for an embedded one, or set {variable}")
    return str(getattr(servers, attribute))


def _with_password(url: str, password: str, variable: str, password_variable: str) -> str:
    scheme, _, rest = url.partition("://")
    authority = rest[: next((at for at, sign in enumerate(rest) if sign in "/?#"), len(rest))]
    login, _, place = authority.rpartition("@")
    if ":" in login:
        raise UsageError(f"{variable} holds a password, and {password_variable} another; keep one of them")
    return f"{scheme}://{login}:{quote(password, safe='')}@{place}{rest[len(authority) :]}"


def _from_file(variable: str) -> str | None:
    """`VARIABLE_FILE` names a file that only its owner can read, so that no secret lies in the environment."""
    name = os.environ.get(f"{variable}_FILE")
    if not name:
        return None
    path = Path(name).expanduser()
    try:
        if path.stat().st_mode & 0o077:
            raise UsageError(f"{variable}_FILE: others can read {path}; run: chmod 600 {path}")
        return path.read_text().strip() or None
    except OSError as error:
        raise UsageError(f"{variable}_FILE: cannot read {path}: {error.strerror}") from error
