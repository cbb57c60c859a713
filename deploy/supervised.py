"""supervisord as the keeper, for a box without systemd: a rented container, say. It comes with the release."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from deploy import layout
from deploy.connection import BoxConnection
from deploy.installation import Installation, PlacedFile
from deploy.keeper import START_LIMIT_S, ServiceState
from deploy.services import Service

_SOCKET = "/run/ddqueue-supervisor.sock"
_PID = "/run/ddqueue-supervisord.pid"
_DAEMON = f"{layout.CURRENT}/bin/ddqueue-supervisord"
_CONTROL = f"{layout.CURRENT}/bin/ddqueue-supervisorctl"
_RUNNING = re.compile(r"pid (\d+),")

_HEAD = f"""; Written by `ddqueue deploy`, which overwrites it.
; Let the container's start command run: {_DAEMON} --configuration {layout.SUPERVISOR}
[supervisord]
pidfile={_PID}
logfile={layout.LOGS}/supervisord.log
user=root

[unix_http_server]
file={_SOCKET}
chmod=0600

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[supervisorctl]
serverurl=unix://{_SOCKET}
"""

# The worker alone is told to stop, and ends what it started; what is left of the group after the limit is killed.
_PROGRAM = """
[program:{name}]
command=/bin/sh -c {command}
autostart=true
autorestart=true
startsecs=3
startretries=1000000
stopsignal=TERM
stopasgroup=false
killasgroup=true
stopwaitsecs={stop_limit_s:.0f}
redirect_stderr=true
stdout_logfile={log}
stdout_logfile_maxbytes=50MB
stdout_logfile_backups=3
"""


class Supervised:
    """Implements Keeper."""

    name = "supervisord"

    def __init__(self, box: BoxConnection, flower_address: str) -> None:
        self._box = box
        self._flower_address = flower_address

    def files(self, services: Sequence[Service], host: str | None, stop_limit_s: float) -> list[PlacedFile]:
        programs = [program(service, host, stop_limit_s, self._flower_address) for service in services]
        return [PlacedFile(layout.SUPERVISOR, "".join([_HEAD, *programs]).encode())]

    def states(self, services: Sequence[Service]) -> list[ServiceState]:
        return [self._state(service) for service in services]

    def start(self, installation: Installation) -> None:
        # supervisord belongs to a release, too, so that it is started anew with its services.
        self._shut_down(installation)
        script = 'set -e; mkdir -p "$1"; exec "$2" --configuration "$3"'
        self._box.run(
            script,
            *(layout.LOGS, _DAEMON, layout.SUPERVISOR),
            what="supervisord does not start",
            limit_s=START_LIMIT_S,
        )

    def stop(self, installation: Installation) -> None:
        self._shut_down(installation)

    def forget(self, installation: Installation) -> None:
        self._box.run('rm -rf -- "$@"', layout.LOGS, _PID, _SOCKET, what="its files cannot be removed")

    def log_script(self, service: Service, lines: int, follow: bool) -> str:
        more = " -F" if follow else ""
        return f"exec tail -n {lines}{more} {shlex.quote(log_path(service))}"

    def _shut_down(self, installation: Installation) -> None:
        """Stop supervisord, which stops its services first; nothing when it does not run."""
        script = (
            'pid=$(cat "$1" 2>/dev/null) && grep -qs supervisord "/proc/$pid/cmdline" || exit 0; '
            'kill -TERM "$pid"; while kill -0 "$pid" 2>/dev/null; do sleep 0.2; done'
        )
        limit_s = START_LIMIT_S + installation.stop_limit_s
        self._box.run(script, _PID, what="supervisord does not stop", limit_s=limit_s)

    def _state(self, service: Service) -> ServiceState:
        done = self._box.ask('exec "$1" --configuration "$2" status "$3"', _CONTROL, layout.SUPERVISOR, service.unit)
        text = " ".join((done.output or done.error_text).split()).removeprefix(service.unit).strip()
        found = _RUNNING.search(text)
        return ServiceState(service, text.startswith("RUNNING"), int(found[1]) if found else None, 0, text or "unknown")


def log_path(service: Service) -> str:
    """Where the service's output goes."""
    return f"{layout.LOGS}/{service.unit}.log"


def program(service: Service, host: str | None, stop_limit_s: float, flower_address: str) -> str:
    """The service's section of supervisord's configuration."""
    arguments = {
        Service.WORKER: ["worker", "--host", host or ""],
        Service.DISPATCHER: ["dispatcher"],
        Service.FLOWER: ["flower", "--address", flower_address],
    }[service]
    own = f". {layout.FLOWER_ENVIRONMENT}; " if service is Service.FLOWER else ""
    shell = (
        # As far as the container lets it.
        f"ulimit -c 0; ulimit -n $(ulimit -H -n); ulimit -l unlimited 2>/dev/null; "
        f"set -a; . {layout.ENVIRONMENT}; {own}set +a; umask 022; mkdir -p $DDQUEUE_HOME; PYTHONUNBUFFERED=1; "
        f"export PYTHONUNBUFFERED; exec {shlex.join([f'{layout.CURRENT}/bin/ddqueue', *arguments])}"
    )
    # supervisord expands %, and reads the rest as a shell would.
    command = shlex.quote(shell).replace("%", "%%")
    return _PROGRAM.format(name=service.unit, command=command, stop_limit_s=stop_limit_s, log=log_path(service))
