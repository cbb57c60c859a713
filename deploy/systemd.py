"""systemd as the keeper: units, the journal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib.resources import files as resources

from deploy import layout
from deploy.connection import BoxConnection
from deploy.installation import Installation, PlacedFile
from deploy.keeper import START_LIMIT_S, ServiceState
from deploy.services import Service

_PROPERTIES = ("ActiveState", "SubState", "MainPID", "NRestarts", "Result")


class Systemd:
    """Implements Keeper."""

    name = "systemd"

    def __init__(self, box: BoxConnection, flower_address: str) -> None:
        self._box = box
        self._flower_address = flower_address

    def files(self, services: Sequence[Service], host: str | None, stop_limit_s: float) -> list[PlacedFile]:
        return [
            PlacedFile(
                f"{layout.UNITS}/{service.unit}.service",
                unit(service, host, stop_limit_s, self._flower_address).encode(),
            )
            for service in services
        ]

    def states(self, services: Sequence[Service]) -> list[ServiceState]:
        return [self._state(service) for service in services]

    def start(self, installation: Installation) -> None:
        self._box.run("systemctl daemon-reload", what="systemd cannot read the units")
        for service in installation.services:
            script = (
                'set -e; systemctl --quiet enable "$1"; systemctl reset-failed "$1" 2>/dev/null || :; '
                'exec systemctl restart "$1"'
            )
            limit_s = START_LIMIT_S + installation.stop_limit_s
            self._box.run(script, service.unit, what=f"{service.unit} does not start", limit_s=limit_s)

    def stop(self, installation: Installation) -> None:
        for service in installation.services:
            script = 'systemctl --quiet disable "$1" 2>/dev/null; exec systemctl stop "$1"'
            limit_s = START_LIMIT_S + installation.stop_limit_s
            self._box.run(script, service.unit, what=f"{service.unit} does not stop", limit_s=limit_s)

    def forget(self, installation: Installation) -> None:
        script = 'systemctl daemon-reload; for unit in "$@"; do systemctl reset-failed "$unit" 2>/dev/null || :; done'
        units = [service.unit for service in installation.services]
        self._box.run(script, *units, what="systemd cannot forget the units")

    def log_script(self, service: Service, lines: int, follow: bool) -> str:
        more = " --follow" if follow else ""
        return f"exec journalctl --no-pager --output=short-iso --unit={service.unit} --lines={lines}{more}"

    def _state(self, service: Service) -> ServiceState:
        asked = shlex.join(["systemctl", "show", service.unit, f"--property={','.join(_PROPERTIES)}"])
        said = self._box.run(asked, what=f"{service.unit} cannot be asked for")
        found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
        active, pid = found.get("ActiveState", ""), int(found.get("MainPID", "0"))
        text = f"{active} ({found.get('SubState', '')})"
        if found.get("Result", "success") != "success":
            text += f", {found['Result']}"
        return ServiceState(service, active == "active", pid or None, int(found.get("NRestarts", "0")), text)


def unit(service: Service, host: str | None, stop_limit_s: float, flower_address: str) -> str:
    """The text of the service's unit."""
    text = resources("deploy").joinpath("units", f"{service.unit}.service").read_text(encoding="utf-8")
    values = {"@HOST@": host or "", "@STOP_LIMIT_S@": f"{stop_limit_s:.0f}", "@FLOWER_ADDRESS@": flower_address}
    for name, value in values.items():
        text = text.replace(name, value)
    return text
