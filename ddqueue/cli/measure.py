"""`ddqueue measure URL`: one point against any running SGLang, without a database."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddqueue.cli.output import print_json
from ddqueue.errors import DdqueueError, NotReachable

if TYPE_CHECKING:
    from ddqueue.cli.measured import MeasuredOnce
    from ddqueue.domain.latency_limits import LatencyLimits
    from ddqueue.domain.sweep import Point

_FLUSH_S = 60.0
_FLUSH_POLL_S = 0.2
_FLUSHED, _BUSY = 200, 400
"""SGLang's answers to a flush; busy is one with requests that run or wait."""

_INTERRUPTED = 130

_MILLISECONDS = click.FloatRange(min=0, min_open=True)


@click.command()
@click.argument("url")
@click.option("--concurrency", type=click.IntRange(1, 4096), default=1, show_default=True, help="Requests in flight.")
@click.option("--context", type=click.IntRange(1), default=60, show_default=True, help="Prompt tokens of each.")
@click.option("--output", type=click.IntRange(1), default=256, show_default=True, help="Output tokens of each, forced.")
@click.option("--repeats", type=click.IntRange(1, 100), default=3, show_default=True, help="After one warm-up.")
@click.option(
    "--prompts", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Cut prompts from a text."
)
@click.option("--goodput-ttft-ms", type=_MILLISECONDS, help="Goodput: count requests whose TTFT is within this.")
@click.option("--goodput-tpot-ms", type=_MILLISECONDS, help="... and whose TPOT is.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def measure(
    url: str,
    concurrency: int,
    context: int,
    output: int,
    repeats: int,
    prompts: Path | None,
    goodput_ttft_ms: float | None,
    goodput_tpot_ms: float | None,
    as_json: bool,
) -> None:
    """Measure one point against the SGLang at URL, such as http://127.0.0.1:30000.

    Warms the shape up, and before each repeat empties the server's prefix cache: other users of the server notice both.
    Exits with 1 when no repeat is valid.
    """
    from ddqueue.cli.measured import document, print_measured
    from ddqueue.domain.latency_limits import LatencyLimits
    from ddqueue.domain.sweep import Point

    asked = goodput_ttft_ms is not None or goodput_tpot_ms is not None
    limits = LatencyLimits(goodput_ttft_ms, goodput_tpot_ms) if asked else None
    try:
        info = _server_info(url)
        measured = _measured(url, info, Point(concurrency, context, output), repeats, prompts, limits)
    except KeyboardInterrupt:
        click.echo("ddqueue: interrupted; the load client is gone, and the server ends what it had begun", err=True)
        raise click.exceptions.Exit(_INTERRUPTED) from None
    simulated = bool(info.get("simulated"))
    if as_json:
        within = None if limits is None else limits.to_json()
        found = [document(one) for one in measured]
        print_json({"url": url, "simulated": simulated, "goodput_limits": within, "measurements": found})
    else:
        print_measured(f"{url}{' (simulated)' if simulated else ''}", measured, limits)
    if not any(one.valid for one in measured):
        raise click.exceptions.Exit(1)


def _measured(
    url: str, info: dict[str, Any], point: Point, repeats: int, prompts: Path | None, limits: LatencyLimits | None
) -> list[MeasuredOnce]:
    """One result a repeat; a repeat that cannot be ranked is among them."""
    from ddqueue.cli.measured import MeasuredOnce
    from ddqueue.domain.metrics.summary import measure as summarise
    from ddqueue.measure.process import ClientProcess

    speculates = info.get("speculative_algorithm") is not None
    salt, text = uuid.uuid4().hex, str(prompts.absolute()) if prompts else None
    measured = []
    with ClientProcess() as client:
        client.run(url, point, 0, salt, _go_on, True, text)
        for repeat in range(1, repeats + 1):
            _flush(url)
            run = client.run(url, point, repeat, salt, _go_on, False, text)
            found = summarise(run, info.get("weight_version"), baseline=not speculates, limits=limits)
            measured.append(MeasuredOnce.of(run, found))
    return measured


def _server_info(url: str) -> dict[str, Any]:
    from ddqueue.engine.http import ask, server_info
    from ddqueue.measure.http1 import Address

    Address.of(url)
    try:
        ask(url, "GET", "/health")
    except OSError as error:
        raise NotReachable(f"{url} does not answer: {_in_one_line(error)}") from error
    info = server_info(lambda path: ask(url, "GET", path))
    if info is None:
        raise DdqueueError(f"{url} is no SGLang, or not ready: GET /server_info gave no configuration")
    return info


def _flush(url: str) -> None:
    """Wait until the server is idle and has emptied its prefix cache."""
    from ddqueue.engine.http import ask

    deadline = time.monotonic() + _FLUSH_S
    while True:
        try:
            status = ask(url, "POST", "/flush_cache").status
        except OSError as error:
            raise NotReachable(f"{url} does not answer any more: {_in_one_line(error)}") from error
        if status == _FLUSHED:
            return
        if status != _BUSY:
            raise DdqueueError(f"the cache of {url} could not be emptied: POST /flush_cache gave {status}")
        if time.monotonic() > deadline:
            raise DdqueueError(f"the cache of {url} could not be emptied: the server was busy for {_FLUSH_S:g} s")
        time.sleep(_FLUSH_POLL_S)


def _in_one_line(error: OSError) -> str:
    """What a stranger on that port said may be part of it."""
    return " ".join(str(error).split())


def _go_on() -> None:
    """A person stops this by ^C, which ends the client too."""
