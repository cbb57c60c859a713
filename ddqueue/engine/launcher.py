"""Starting one SGLang: own session, fresh port, bounded log, persistent compile caches, the host's lock passed on."""

from __future__ import annotations

import os
import random
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.inventory import Host
from ddqueue.engine.caches import compile_caches
from ddqueue.engine.command import Command, build
from ddqueue.engine.effective import tree_settings
from ddqueue.engine.family import Family
from ddqueue.engine.limits import StartLimits
from ddqueue.engine.output import BoundedLog
from ddqueue.engine.server import SglangServer
from ddqueue.ports import LaunchRequest

_PORTS = range(20000, 32000)
"""Below 32768, where outgoing connections take theirs: a retrying client was seen to connect to itself there."""

_PRIVATE = "DDQUEUE_"
"""Our own variables, passwords in URLs among them, are not the server's business."""


@dataclass(frozen=True)
class SglangEngine:
    """Starts servers by their engine profile. `host_environment` adds what a kind of host needs (simulated GPUs);
    `mark` names the variable that marks the server's processes with the lock's path; `caches` says where a host keeps
    its compile caches, a folder a build."""

    mark: str
    limits: StartLimits
    host_environment: Callable[[Host], Mapping[str, str]]
    caches: Callable[[str], Path]

    def launch(self, request: LaunchRequest) -> SglangServer:
        port = free_port()
        command = build(request, port)
        output = BoundedLog(Path(request.log_path))
        try:
            process = subprocess.Popen(
                command.argv,
                stdin=subprocess.DEVNULL,
                stdout=output.fd,
                stderr=subprocess.STDOUT,
                env=self._environment(request, command),
                start_new_session=True,
                pass_fds=(request.lock_fd,),
            )
        except OSError as error:
            output.close()
            raise AttemptFailure(
                Failure.BAD_ARGS, f"cannot start {command.argv[0]}: {error.strerror or error}"
            ) from error
        family = Family(process, self.mark, request.lock_path)
        requested = {**tree_settings(request.cell), **command.requested}
        return SglangServer(process, port, request.tag, command, requested, output, family, self.limits)

    def _environment(self, request: LaunchRequest, command: Command) -> dict[str, str]:
        """Our own environment, less our secrets; then what the host and the build need; then what a person wrote, whose
        word is the last, but for what makes the processes ours."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_PRIVATE)}
        if not request.profile.simulated:
            environment |= compile_caches(self.caches(request.host.name) / request.profile.name)
        environment |= self.host_environment(request.host)
        environment |= command.environment
        # SGLang's processes rename themselves, which wipes /proc/PID/environ and our mark with it, unless told not to.
        return environment | {self.mark: request.lock_path, "SPT_NOENV": "1", "PYTHONUNBUFFERED": "1"}


def free_port() -> int:
    """A port nobody listens on now; whoever loses the race for it fails with PORT_BUSY and is tried again."""
    for port in random.sample(_PORTS, 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AttemptFailure(Failure.PORT_BUSY, f"no free port among 200 tried from {_PORTS.start} to {_PORTS.stop}")
