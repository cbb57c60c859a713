"""Starting one SGLang: own session, fresh port, log to a file, the host's lock passed on."""

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
from ddqueue.engine.command import build
from ddqueue.engine.server import SglangServer, StartLimits
from ddqueue.ports import LaunchRequest

_PORTS = range(20000, 32000)
"""Below 32768, where outgoing connections take theirs: a retrying client was seen to connect to itself there."""

_PRIVATE = "DDQUEUE_"
"""Our own variables, passwords in URLs among them, are not the server's business."""


@dataclass(frozen=True)
class SglangEngine:
    """Starts servers by their engine profile. `host_environment` adds what a kind of host needs (simulated GPUs);
    `mark` names the variable that marks the server's processes with the lock's path."""

    mark: str
    limits: StartLimits
    host_environment: Callable[[Host], Mapping[str, str]]

    def launch(self, request: LaunchRequest) -> SglangServer:
        port = free_port()
        command = build(request, port)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_PRIVATE)}
        environment |= self.host_environment(request.host)
        environment |= command.environment
        # SGLang's processes rename themselves, which wipes /proc/PID/environ and our mark with it, unless told not to.
        environment |= {self.mark: request.lock_path, "SPT_NOENV": "1", "PYTHONUNBUFFERED": "1"}
        log_path = Path(request.log_path)
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("ab") as log:
            try:
                process = subprocess.Popen(
                    command.argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                    pass_fds=(request.lock_fd,),
                )
            except OSError as error:
                raise AttemptFailure(
                    Failure.BAD_ARGS, f"cannot start {command.argv[0]}: {error.strerror or error}"
                ) from error
        return SglangServer(process, f"http://127.0.0.1:{port}", request.tag, command, log_path, self.limits)


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
