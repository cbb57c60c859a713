"""`ddqueue results`."""

from __future__ import annotations

import click

from ddqueue import bootstrap
from ddqueue.domain.sweep import Measure
from ddqueue.report.judgement import Judgement, judge_sweep
from ddqueue.report.results import Format, render
from ddqueue.storage.reading import PostgresReader


@click.command()
@click.argument("sweep")
@click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in Format]),
    default=Format.TABLE.value,
    show_default=True,
    help="table and markdown are for eyes; csv and json hold the numbers unrounded.",
)
@click.option("--by-visit", is_flag=True, help="One row a start of a server, in the order run, instead of their mean.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def results(sweep: str, form: str, by_visit: bool, as_json: bool) -> None:
    """Print the table of SWEEP: its name for the newest revision, or name@2 for the second.

    One table a host, one row a configuration over all its visits. Only measurements that are valid and belong to an
    accepted attempt count; what failed shows its class instead. Below stand the verdicts (which configurations are
    ranked, why others are not), the noise floor, the drift of the control cell, and the fastest configuration for each
    use with its runner-up. csv has one line a visit.
    """
    with bootstrap.reads("ddqueue results") as reads:
        print_results(PostgresReader(reads), sweep, Format.JSON if as_json else Format(form), by_visit)


def print_results(reader: PostgresReader, sweep: str, form: Format, by_visit: bool = False) -> None:
    """The results of the sweep that `name` or `name@2` stands for. Raises UsageError when there is none."""
    found = reader.sweep(sweep)
    click.echo(render(str(found), judged(reader, found.sweep_id), form, by_visit))


def judged(reader: PostgresReader, sweep_id: int) -> Judgement:
    """What is to be said of a stored sweep."""
    measure = Measure.from_json(reader.measure(sweep_id))
    return judge_sweep(reader.results(sweep_id), reader.repeats(sweep_id), measure)
