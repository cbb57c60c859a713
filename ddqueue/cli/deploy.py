"""`ddqueue deploy`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddqueue.errors import UsageError
from deploy.services import Service

if TYPE_CHECKING:
    from deploy.actions import Action, Reaching
    from deploy.narration import Story
    from deploy.subject import Wishes

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@click.option("--check", "action", flag_value="check", help="Look only: is the box fit? Nothing is changed.")
@click.option("--rollback", "action", flag_value="rollback", help="Go back to the deployment before.")
@click.option("--remove", "action", flag_value="remove", help="Take away what was deployed, and its state.")
@click.option("--status", "action", flag_value="status", help="What runs there.")
@click.option("--restart", "action", flag_value="restart", help="Start the services anew.")
@click.option("--logs", "action", flag_value="logs", help="Print the ends of the services' logs.")
@click.option("--lines", "-n", default=50, show_default=True, help="How many, with --logs.")
@click.option("--follow", "-f", is_flag=True, help="Go on printing, with --logs, until ^C.")
@click.option(
    "--service", "services", multiple=True, type=click.Choice([service.value for service in Service]), metavar="NAME",
    help="worker, dispatcher or flower; may be given again. Without it: what the box has; a new one gets the worker.",
)  # fmt: skip
@click.option("--now", is_flag=True, help="Stop the running attempt, whose job waits again; else its end is awaited.")
@click.option("--keep-state", is_flag=True, help="With --remove: leave journals, logs and caches.")
@click.option("--force", is_flag=True, help="With --remove: at once, and lose what is not yet stored.")
@click.option("--inventory", type=_PATH, metavar="FILE", help="The inventory; else the usual one.")
@click.option("--wheel", type=_PATH, metavar="FILE", help="The ddqueue to deploy; else it is built from this checkout.")
@click.option("--wheelhouse", type=_PATH, metavar="DIR", help="Wheels to send, for boxes that reach no registry.")
@click.option("--fill", is_flag=True, help="Download first, on this side, what the wheelhouse lacks.")
@click.option("--python", metavar="PATH", help="The box's Python; else the best it has, 3.11 or later.")
@click.option("--flower-address", default="127.0.0.1", show_default=True, help="Where Flower listens.")
@click.option("--user", help="Whom to log in as; else the inventory's address or ~/.ssh/config says.")
@click.option("--port", type=click.IntRange(1, 65535), help="sshd's port.")
@click.option("--identity", type=_PATH, metavar="FILE", help="The private key.")
@click.option("--known-hosts", type=_PATH, metavar="FILE", help="The host keys to trust; else ssh's own files.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON at the end; the steps go to standard error.")
def deploy(hosts: tuple[str, ...], action: str | None, as_json: bool, **options: Any) -> None:
    """Put this ddqueue on each HOST over ssh and start it, on all of them at once.

    HOST is a name of the inventory, reached at its `address`; a control machine is any user@host:port:

    \b
      ddqueue deploy rtx6000 b300
      ddqueue deploy ops@control --service dispatcher --service flower

    The box is checked first, and refused with reason and remedy. Then a release is made beside the one that runs, the
    worker ends its job and takes no more, the new one is started and watched, and if it does not work the box goes back
    to what it had. Every step says `changed` or `unchanged`.

    The URLs of Postgres and Redis, and the waits, are this machine's own: they must be such that the boxes reach them.
    Log in as root, or as somebody who may sudo without a password. Exit code 1 when a box failed; the others go on.
    """
    from deploy.actions import Action, Reaching
    from deploy.connection import SshOptions
    from deploy.subject import Wishes

    if options["fill"] and options["wheelhouse"] is None:
        raise UsageError("--fill fills a wheelhouse: name its folder with --wheelhouse")
    wishes = Wishes(
        services=tuple(Service(name) for name in options["services"]),
        flower_address=options["flower_address"],
        **{name: options[name] for name in ("python", "wheelhouse", "fill", "now", "keep_state", "force")},
    )
    ssh = SshOptions(identity=options["identity"], known_hosts=options["known_hosts"])
    reaching = Reaching(hosts, ssh, options["inventory"], options["user"], options["port"])
    if action == "logs":
        _print_logs(reaching, wishes, options["lines"], options["follow"])
        return
    stories = _operate(Action(action or "deploy"), reaching, wishes, options["wheel"], as_json)
    if not all(story.done for story in stories):
        sys.exit(1)


def _operate(action: Action, reaching: Reaching, wishes: Wishes, wheel: Path | None, as_json: bool) -> list[Story]:
    from ddqueue.cli.output import as_json_text, print_table
    from deploy.actions import operate
    from deploy.narration import OneLineAtATime
    from deploy.table import as_document, heads_and_rows

    say = OneLineAtATime(lambda line: click.echo(line, err=as_json), max(len(name) for name in reaching.names))
    stories = operate(action, reaching, wishes, say, wheel)
    if as_json:
        click.echo(as_json_text(as_document(stories)))
        return stories
    click.echo()
    print_table(f"{action.value}: {len(stories)} box{'es' if len(stories) > 1 else ''}", *heads_and_rows(stories))
    for story in stories:
        if story.problem is not None:
            click.echo(f"\n{story.name}: {story.problem}", err=True)
    return stories


def _print_logs(reaching: Reaching, wishes: Wishes, lines: int, follow: bool) -> None:
    from deploy.actions import print_logs

    if follow and len(reaching.names) > 1:
        raise UsageError("--follow prints one box's log: name one HOST")

    def write(data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    print_logs(reaching, wishes, lines, follow, write)
