"""`python -m tests.growth --jobs 200 --idle-s 900`: exit code 0 when nothing grew, 1 when something did."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from .room import own_shared_memory
from .run import Options, run
from .table import lines
from .verdict import grown


@click.command()
@click.option("--jobs", type=click.IntRange(2), default=200, show_default=True)
@click.option("--idle-s", type=click.FloatRange(0), default=900.0, show_default=True, help="After the last job.")
@click.option("--warm-up", type=click.IntRange(1), default=10, show_default=True, help="Jobs before the first look.")
@click.option("--every", type=click.IntRange(1, 60), default=20, show_default=True, help="Jobs from look to look.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Also write every look to this file.")
def main(jobs: int, idle_s: float, warm_up: int, every: int, json_path: Path | None) -> None:
    """Run jobs on one simulated box and let it idle; say what the worker and the dispatcher hold more than before."""
    options = Options(jobs, idle_s, warm_up, every)
    # A run that is told to end takes down what it has set up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    private = own_shared_memory()
    folder = Path(tempfile.mkdtemp(prefix="ddqueue-growth-"))
    folder.chmod(0o755)  # root's Postgres runs as `nobody`, who must be able to enter
    try:
        finished = run(options, folder, private, lambda line: click.echo(f"  {line}", err=True))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if json_path is not None:
        json_path.write_text(json.dumps(dataclasses.asdict(finished), indent=1))
    for line in lines(finished):
        click.echo(line)
    grew = grown(finished)
    click.echo(f"grew: {len(grew)}")
    for line in grew:
        click.echo(f"  {line}")
    sys.exit(1 if grew else 0)


main()
