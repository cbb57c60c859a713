"""`ddqueue flower`."""

from __future__ import annotations

import ipaddress
import logging
import sys

import click

from ddqueue import settings
from ddqueue.errors import NotReachable

_CHECK_LIMIT_S = 5.0
_LINE = "%(asctime)s flower[%(process)d] %(levelname)s %(message)s"


@click.command()
@click.option("--address", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=5555, show_default=True, help="0 takes any free one.")
@click.option("--check", is_flag=True, help="Start nothing; say whether the one that listens there answers.")
def flower(address: str, port: int, check: bool) -> None:
    """Show the workers and their tasks in a browser, with each attempt's phase while it runs.

    It watches and decides nothing: whatever would change something is refused. DDQUEUE_FLOWER_USER and
    DDQUEUE_FLOWER_PASSWORD, or files named by DDQUEUE_FLOWER_USER_FILE and DDQUEUE_FLOWER_PASSWORD_FILE, say who may
    look; there is no start without them. /metrics wants them too, /healthcheck does not. With --check exit code 3 says
    that nothing answers.
    """
    if check:
        _check(address, port)
        return
    from ddqueue import bootstrap
    from ddqueue.queue.flower import FlowerSettings, run_flower

    user, password = settings.flower_login()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=_LINE)
    if not _is_loopback(address):
        click.echo(f"the password crosses the network in clear to {address}: put TLS or a tunnel before it", err=True)
    wanted = FlowerSettings(user, password, settings.flower_folder(), address, port)
    run_flower(bootstrap.celery_app(), wanted, lambda at: click.echo(f"Flower is at http://{_shown(address)}:{at}/"))


def _check(address: str, port: int) -> None:
    import urllib.request

    # Where it listens everywhere, here is one of the places.
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104 -- asked, not listened on
    url = f"http://{_shown(here)}:{port}/healthcheck"
    try:
        with urllib.request.urlopen(url, timeout=_CHECK_LIMIT_S):
            click.echo(f"Flower answers at {url}")
    except OSError as error:
        raise NotReachable(f"Flower does not answer at {url}: {error}") from error


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _shown(address: str) -> str:
    return f"[{address}]" if ":" in address else address
