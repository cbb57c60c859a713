"""`ddqueue measure URL`: one point against any running SGLang, without a database."""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddqueue.errors import DdqueueError, NotReachable

if TYPE_CHECKING:
    from ddqueue.domain.measurement import Measurement

_FLUSH_S = 60.0


@click.command()
@click.argument("url")
@click.option("--concurrency", type=click.IntRange(1, 4096), default=1, show_default=True, help="Requests in flight.")
@click.option("--context", type=click.IntRange(1), default=60, show_default=True, help="Prompt tokens of each.")
@click.option("--output", type=click.IntRange(1), default=256, show_default=True, help="Output tokens of each, forced.")
@click.option("--repeats", type=click.IntRange(1, 100), default=3, show_default=True, help="After one warm-up.")
@click.option(
    "--prompts", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Cut prompts from a text."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def measure(
    url: str, concurrency: int, context: int, output: int, repeats: int, prompts: Path | None, as_json: bool
) -> None:
    """Measure one point against the SGLang at URL, such as http://127.0.0.1:30000.

    Warms the shape up, and before each repeat empties the server's prefix cache: other users of the server notice both.
    Exits with 1 when no repeat is valid.
    """
    from ddqueue.domain.metrics.summary import measure as summarise
    from ddqueue.domain.sweep import Point
    from ddqueue.measure.process import ClientProcess

    point = Point(concurrency, context, output)
    info = _server_info(url)
    speculates = info.get("speculative_algorithm") is not None
    salt, text = uuid.uuid4().hex, str(prompts.absolute()) if prompts else None
    measured = []
    with ClientProcess() as client:
        client.run(url, point, 0, salt, _go_on, True, text)
        for repeat in range(1, repeats + 1):
            _flush(url)
            run = client.run(url, point, repeat, salt, _go_on, False, text)
            measured.append(summarise(run, info.get("weight_version"), baseline=not speculates))
    _print(url, info, measured, as_json)
    if not any(one.valid for one in measured):
        raise click.exceptions.Exit(1)


def _print(url: str, info: dict[str, Any], measured: list[Measurement], as_json: bool) -> None:
    from ddqueue.cli.output import print_json, print_table
    from ddqueue.domain.statistics import mean_interval

    valid = [one.output_throughput_tok_s for one in measured if one.valid and one.output_throughput_tok_s is not None]
    if as_json:
        rows = [{**asdict(one), "requests": len(one.requests), "valid": one.valid} for one in measured]
        print_json({"url": url, "simulated": bool(info.get("simulated")), "measurements": rows})
        return
    simulated = " (simulated)" if info.get("simulated") else ""
    print_table(
        f"{measured[0].point.label}, {measured[0].point.output} tokens each, on {url}{simulated}",
        ["repeat", "tok/s", "TTFT p50 ms", "per token ms", "e2e p50 ms", "acceptance", "step ms", "verdict"],
        [_row(one) for one in measured],
    )
    interval = mean_interval(valid) if len(valid) > 1 else None
    if interval is not None:
        click.echo(
            f"output throughput {interval.mean:.1f} tok/s, 95% interval {interval.low:.1f} to {interval.high:.1f}"
        )


def _row(one: Measurement) -> list[str]:
    numbers = [
        (one.output_throughput_tok_s, 1),
        (one.ttft_ms.p50 if one.ttft_ms else None, 1),
        (one.itl_ms.mean if one.itl_ms else None, 3),
        (one.e2e_ms.p50 if one.e2e_ms else None, 1),
        (one.acceptance_length, 2),
        (one.step_time_ms, 2),
    ]
    verdict = "valid" if one.valid else ", ".join(one.reasons)
    return [
        str(one.repeat),
        *("-" if value is None else f"{value:.{digits}f}" for value, digits in numbers),
        verdict,
    ]


def _server_info(url: str) -> dict[str, Any]:
    from ddqueue.engine.http import ask, server_info
    from ddqueue.measure.http1 import Address

    Address.of(url)
    try:
        ask(url, "GET", "/health")
    except OSError as error:
        raise NotReachable(f"{url} does not answer: {error}") from error
    info = server_info(lambda path: ask(url, "GET", path))
    if info is None:
        raise DdqueueError(f"{url} is no SGLang, or not ready: GET /server_info gave no configuration")
    return info


def _flush(url: str) -> None:
    from ddqueue.engine.http import ask

    deadline = time.monotonic() + _FLUSH_S
    while ask(url, "POST", "/flush_cache").status != 200:
        if time.monotonic() > deadline:
            raise DdqueueError(f"the cache of {url} could not be emptied: the server was busy for {_FLUSH_S:g} s")
        time.sleep(0.2)


def _go_on() -> None:
    """A person stops this by ^C, which ends the client too."""
