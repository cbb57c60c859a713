"""Reading the commands of a page, and typing them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from ddqueue.cli.main import cli

ROOT = Path(__file__).parents[2]
NOT_TESTED = "not tested"
IN_THE_BACKGROUND = "in the background"


@dataclass(frozen=True)
class Line:
    command: str
    comment: str


def lines_of(document: Path) -> list[Line]:
    """The commands of every `sh` block, each with its comment."""
    blocks = re.findall(r"^```sh\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)
    found = []
    for line in "".join(blocks).splitlines():
        command, _, comment = line.partition("#")
        if command.strip():
            found.append(Line(command.strip(), comment.strip()))
    return found


def follow(document: Path, environment: Mapping[str, str], folder: Path) -> None:
    """Type every command of the page in order, in one folder; what is not tested must say why."""
    background: list[subprocess.Popen[bytes]] = []
    try:
        for line in lines_of(document):
            words = shlex.split(line.command)
            if line.comment.startswith(NOT_TESTED):
                assert ":" in line.comment, f"{line.command}: say why it is not tested"
            elif line.comment.startswith(IN_THE_BACKGROUND):
                background.append(subprocess.Popen(words, env=environment, cwd=folder, stderr=subprocess.DEVNULL))
            else:
                done = subprocess.run(
                    words, env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False
                )
                assert done.returncode == 0, f"{line.command}\n{done.stdout}{done.stderr}"
                assert all(process.poll() is None for process in background), f"{line.command}: a process ended"
    finally:
        for process in background:
            process.terminate()
        for process in background:
            process.wait(60)


def misspelt(line: Line) -> str | None:
    """What is wrong with the command or its options, without running it; None if nothing, or if it is not ours."""
    words = [os.path.expandvars(word) for word in shlex.split(line.command.partition("|")[0].partition(">")[0])]
    if not words or words[0] != "ddqueue":
        return None
    context, command = click.Context(cli), cli
    arguments = words[1:]
    while isinstance(command, click.Group):
        if arguments and arguments[0] in ("--help", "--version"):
            return None
        found = command.get_command(context, arguments[0]) if arguments else None
        if found is None:
            return f"{line.command}: no such command"
        context, command, arguments = click.Context(found, info_name=arguments[0], parent=context), found, arguments[1:]
    try:
        command.make_parser(context).parse_args(list(arguments))
    except click.UsageError as error:
        return f"{line.command}: {error.format_message()}"
    return None
