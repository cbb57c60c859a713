"""The command line. Commands are imported only when they are called, so that `--help` is quick."""

from __future__ import annotations

import gc
import importlib
import sys

# What importing makes lives to the end: looking through it for garbage every 700 objects takes a tenth of a command.
gc.set_threshold(20_000)

import click  # noqa: E402

from ddqueue import __version__  # noqa: E402
from ddqueue.errors import DdqueueError  # noqa: E402

_COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("ddqueue.cli.demo:demo", "Run the main job on embedded servers and two simulated boxes."),
    "up": ("ddqueue.cli.servers:up", "Start embedded Postgres and Valkey in the background."),
    "down": ("ddqueue.cli.servers:down", "Stop them."),
    "init": ("ddqueue.cli.init:init", "Write a commented inventory and sweep to start from."),
    "doctor": ("ddqueue.cli.doctor:doctor", "Examine this machine as a host: is it fit to measure on?"),
    "plan": ("ddqueue.cli.plan:plan", "Show what a sweep file would do; changes nothing."),
    "submit": ("ddqueue.cli.submit:submit", "Queue a sweep."),
    "status": ("ddqueue.cli.status:status", "Hosts, what they work on, and the queue."),
    "hosts": ("ddqueue.cli.hosts:hosts", "Every host: who works on it, why it is shut, what failed there."),
    "show": ("ddqueue.cli.show:show", "Everything about one job."),
    "logs": ("ddqueue.cli.logs:logs", "The server's log of a job's latest attempt."),
    "diagnose": ("ddqueue.cli.diagnose:diagnose_command", "Say why an SGLang server died, from its log alone."),
    "measure": ("ddqueue.cli.measure:measure", "Measure one point against any running SGLang."),
    "extract": ("ddqueue.cli.extract:extract_command", "Print the code in a model's answer, as coding checks find it."),
    "results": ("ddqueue.cli.results:results", "The table of a sweep."),
    "compare": ("ddqueue.cli.compare:compare", "Is one configuration, host or sweep faster than another?"),
    "report": ("ddqueue.cli.report:report", "One page that says what came of a sweep, to be read or mailed."),
    "import": ("ddqueue.cli.import_:import_command", "Bring in results that were measured by hand."),
    "export": ("ddqueue.cli.export:export", "Write every measurement of a sweep to Parquet or JSON lines."),
    "rescore": ("ddqueue.cli.rescore:rescore", "Score a sweep's stored coding answers again."),
    "sql": ("ddqueue.cli.sql:sql", "Ask the database, read-only."),
    "cancel": ("ddqueue.cli.control:cancel", "End a sweep or a job."),
    "retry": ("ddqueue.cli.control:retry", "Put ended jobs back into the queue."),
    "pause": ("ddqueue.cli.control:pause", "Start no more jobs of a sweep."),
    "resume": ("ddqueue.cli.control:resume", "Go on with a paused sweep."),
    "hold": ("ddqueue.cli.holding:hold", "Give a host to a person, from the next job on or at once."),
    "drain": ("ddqueue.cli.holding:drain", "Let a host finish its job and take no more."),
    "release": ("ddqueue.cli.holding:release", "Let a quarantined or held host take work again."),
    "worker": ("ddqueue.cli.worker:worker", "Serve one host: run its jobs."),
    "dispatcher": ("ddqueue.cli.dispatcher:dispatcher", "Wake idle hosts that have jobs."),
    "flower": ("ddqueue.cli.flower:flower", "Show workers, tasks and phases in a browser, read-only."),
    "deploy": ("ddqueue.cli.deploy:deploy", "Put ddqueue on hosts over ssh: check, upgrade, roll back, remove."),
    "db": ("ddqueue.cli.db:db", "Create or upgrade the database's tables."),
}


class LazyGroup(click.Group):
    """Knows every command's name and summary, and imports a command when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[cmd_name][0].split(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}:{attribute} is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ddqueue")
def cli() -> None:
    """A queue for benchmarking LLM serving on several GPU hosts.

    Exit codes: 0 done, 1 failed, 2 usage, 3 a server cannot be reached.
    """


def main() -> None:
    """The console script: every error a person can make or meet is one message, no traceback."""
    try:
        # Without its standalone mode click returns the code of a command that asked to exit.
        code = cli(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except DdqueueError as error:
        click.echo(f"ddqueue: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        # Nor need the interpreter look through it three times more when it ends.
        gc.freeze()
