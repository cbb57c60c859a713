"""One ssh connection to a box, and commands on it as root, each with a limit."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import paramiko
from fabric import Config, Connection

from ddqueue.errors import NotReachable, UsageError
from deploy.channel import Done, converse
from deploy.errors import BoxRefused
from deploy.host_keys import changed_key, check_host_keys, unknown_key
from deploy.target import Target

LIMIT_S = 60.0
"""For a command that is to be done at once."""

_CONNECT_LIMIT_S = 10.0
_KEEPALIVE_S = 5
_UNANSWERED_MS = 15_000
_KILL_AFTER_S = 5


@dataclass(frozen=True)
class SshOptions:
    """What the command line says about every connection; None leaves it to ~/.ssh/config."""

    identity: Path | None = None
    known_hosts: Path | None = None
    connect_limit_s: float = _CONNECT_LIMIT_S


class BoxConnection:
    """A box as root, by its own root account or by sudo without a password. For one thread."""

    def __init__(self, target: Target, options: SshOptions) -> None:
        self.target = target
        self._options = options
        self._fabric: Connection | None = None
        self._as_root: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where it is, as ssh says it."""
        if self._fabric is None:
            return self.target.address
        return f"{self._fabric.user}@{self._fabric.host}:{self._fabric.port}"

    def open(self) -> None:
        """Connect, and find out how to be root.

        Raises:
            UsageError: the host key is not known or another one; the key or the user is not let in; no right to sudo.
            NotReachable: nobody answers.
        """
        connection = self._connect()
        self._fabric = connection
        transport = connection.transport
        transport.set_keepalive(_KEEPALIVE_S)
        if isinstance(transport.sock, socket.socket):
            # A cut is noticed within this time, also by a command that waits for its answer.
            transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNANSWERED_MS)
        self._as_root = self._find_root()

    def close(self) -> None:
        """Nothing when it was never open."""
        if self._fabric is not None:
            self._fabric.close()

    def ask(
        self,
        script: str,
        *arguments: str,
        stdin: bytes | Path = b"",
        limit_s: float = LIMIT_S,
        heard: Callable[[bytes], None] | None = None,
    ) -> Done:
        """Run a shell script as root, with `arguments` as $1, $2...; they are visible to everybody on the box, what is
        in `stdin` to nobody. `heard` gets its output as it comes, which then is not in the answer.

        Raises:
            NotReachable: the connection broke.
            BoxRefused: it took longer than `limit_s`; by then it has been ended on the box, too.
        """
        # `timeout` runs there, because closing a channel ends nothing on the other side.
        limited = ("timeout", f"--kill-after={_KILL_AFTER_S}", f"{limit_s:.0f}")
        return self._converse(self._command(script, arguments, limited), stdin, limit_s + 2 * _KILL_AFTER_S, heard)

    @contextlib.contextmanager
    def session(self, script: str, *arguments: str) -> Iterator[paramiko.Channel]:
        """A script of root's that runs, without a limit, until the caller leaves the block.

        Raises:
            NotReachable: the connection broke before it was started.
        """
        with self._channel() as channel:
            channel.exec_command(self._command(script, arguments))
            yield channel

    def run(self, script: str, *arguments: str, what: str, stdin: bytes | Path = b"", limit_s: float = LIMIT_S) -> str:
        """What the script wrote to standard output; `what` says in an error what it was to do.

        Raises:
            NotReachable: the connection broke.
            BoxRefused: the script failed, or took too long.
        """
        done = self.ask(script, *arguments, stdin=stdin, limit_s=limit_s)
        if done.code != 0:
            raise BoxRefused(f"{what}: {done.story}")
        return done.output

    def read(self, path: str) -> bytes | None:
        """A file's content; None when there is no such file."""
        done = self.ask('if [ -e "$1" ]; then cat "$1"; else exit 66; fi', path)
        if done.code == 66:
            return None
        if done.code != 0:
            raise BoxRefused(f"{path} cannot be read: {done.story}")
        return done.raw

    def write(self, path: str, content: bytes, mode: int) -> bool:
        """Give the file this content, owner (root) and mode, at once; False when it was so already."""
        if self.holds(path, content, mode):
            return False
        script = (
            'set -e; umask 077; mkdir -p -m 755 "$(dirname "$1")"; cat >"$1.new"; chown root:root "$1.new"; '
            'chmod "$2" "$1.new"; sync "$1.new"; mv -f "$1.new" "$1"'
        )
        self.run(script, path, f"{mode:o}", what=f"{path} cannot be written", stdin=content)
        return True

    def holds(self, path: str, content: bytes, mode: int) -> bool:
        """Whether the file has this content and mode."""
        return self.read(path) == content and self.ask('stat -c %a "$1"', path).output.strip() == f"{mode:o}"

    def _connect(self) -> Connection:
        target, options = self.target, self._options
        arguments = {} if options.identity is None else {"key_filename": str(options.identity)}
        # Without a file of its own fabric would read ./fabric.yaml, and whatever lies in the current folder.
        config = Config(lazy=True)
        config.load_ssh_config()
        connection = Connection(
            target.address,
            user=target.user,
            port=target.port,
            config=config,
            connect_timeout=round(options.connect_limit_s),
            connect_kwargs={**arguments, "banner_timeout": options.connect_limit_s},
        )
        files = check_host_keys(connection, options.known_hosts)
        place = f"{connection.user}@{connection.host}:{connection.port}"
        try:
            connection.open()
        except paramiko.BadHostKeyException as error:
            raise changed_key(connection, files, error) from error
        except paramiko.AuthenticationException as error:
            raise UsageError(
                f"{place} lets nobody in with the keys at hand ({error}); name one with --identity, or add yours: "
                f"ssh-copy-id -p {connection.port} {connection.user}@{connection.host}"
            ) from error
        except paramiko.SSHException as error:
            if "not found in known_hosts" in str(error):
                raise unknown_key(connection, files) from error
            raise NotReachable(f"{place} does not speak ssh as it should: {error}") from error
        except (OSError, EOFError) as error:
            raise NotReachable(f"{place} cannot be reached: {error}; is it on, and does sshd run there?") from error
        return connection

    def _find_root(self) -> tuple[str, ...]:
        if self._converse("id -u", b"", LIMIT_S, None).output.strip() == "0":
            return ()
        done = self._converse("sudo -n true", b"", LIMIT_S, None)
        if done.code != 0:
            raise UsageError(
                f"{self.place} may not become root without a password ({done.story}); connect as root, or allow it "
                f"there: echo '{self._user} ALL=(ALL) NOPASSWD: ALL' | sudo tee /etc/sudoers.d/{self._user}"
            )
        return ("sudo", "-n")

    @property
    def _user(self) -> str:
        return str(self._open_connection().user)

    def _open_connection(self) -> Connection:
        if self._fabric is None:
            raise NotReachable(f"{self.target.name}: not connected")
        return self._fabric

    def _command(self, script: str, arguments: Sequence[str], before: Sequence[str] = ()) -> str:
        # umask: root's may be closed, and other accounts run what a release holds.
        words = [*self._as_root, "env", "LC_ALL=C", *before, "sh", "-c", f"umask 022; {script}", "sh", *arguments]
        return shlex.join(words)

    @contextlib.contextmanager
    def _channel(self) -> Iterator[paramiko.Channel]:
        try:
            channel = self._open_connection().transport.open_session(timeout=LIMIT_S)
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise NotReachable(f"{self.place}: the connection broke: {error or type(error).__name__}") from error
        try:
            yield channel
        finally:
            channel.close()

    def _converse(
        self, command: str, stdin: bytes | Path, limit_s: float, heard: Callable[[bytes], None] | None
    ) -> Done:
        with self._channel() as channel:
            try:
                channel.exec_command(command)
                return converse(channel, stdin, limit_s, heard)
            except (paramiko.SSHException, OSError, EOFError) as error:
                raise NotReachable(f"{self.place}: the connection broke: {error or type(error).__name__}") from error


def this_side() -> str:
    """Who deploys, for whoever finds a trace of it on a box."""
    user = os.environ.get("SUDO_USER") or os.environ.get("USER") or f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
