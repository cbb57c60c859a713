"""`ddqueue deploy` as tasks for fab, in a checkout: `fab --list`, `fab deploy rtx6000,b300 --options "--now"`."""

from __future__ import annotations

import shlex
import subprocess
import sys

from fabric import Connection, task

_HELP = {
    "hosts": "Names of the inventory, or user@host:port, separated by commas.",
    "options": "More words for `ddqueue deploy`; its --help says which.",
}


def _deploy(hosts: str, options: str, *action: str) -> None:
    words = [*action, *shlex.split(options), *hosts.split(",")]
    sys.exit(subprocess.run([sys.executable, "-m", "ddqueue", "deploy", *words], check=False).returncode)


@task(help=_HELP)
def deploy(_: Connection, hosts: str, options: str = "") -> None:
    """Put this checkout's ddqueue on the hosts, and start it."""
    _deploy(hosts, options)


@task(help=_HELP)
def check(_: Connection, hosts: str, options: str = "") -> None:
    """Are the hosts fit? Nothing is changed."""
    _deploy(hosts, options, "--check")


@task(help=_HELP)
def rollback(_: Connection, hosts: str, options: str = "") -> None:
    """Go back to the deployment before."""
    _deploy(hosts, options, "--rollback")


@task(help=_HELP)
def remove(_: Connection, hosts: str, options: str = "") -> None:
    """Take away what was deployed, and its state."""
    _deploy(hosts, options, "--remove")


@task(help=_HELP)
def status(_: Connection, hosts: str, options: str = "") -> None:
    """What runs on the hosts."""
    _deploy(hosts, options, "--status")


@task(help=_HELP)
def restart(_: Connection, hosts: str, options: str = "") -> None:
    """Start the services anew."""
    _deploy(hosts, options, "--restart")


@task(help=_HELP)
def logs(_: Connection, hosts: str, options: str = "") -> None:
    """Print the ends of the services' logs."""
    _deploy(hosts, options, "--logs")
