"""Programs of the machine, run to their end."""

from __future__ import annotations

import subprocess

PATIENCE_S = 120.0
"""For a program that would hang; nothing here takes nearly as long, but for making the base system."""


class CommandFailed(Exception):
    """A program ended with another code than 0, or did not end."""


def output(*argv: object, stdin: str = "", limit_s: float = PATIENCE_S) -> str:
    """What the program wrote to standard output. Raises CommandFailed, which quotes what it wrote to standard error."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"{' '.join(words)}: did not end within {limit_s:.0f} s") from None
    if done.returncode != 0:
        raise CommandFailed(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}{done.stdout}")
    return done.stdout


def succeeds(*argv: object, limit_s: float = PATIENCE_S) -> bool:
    """Whether the program ends with 0."""
    try:
        output(*argv, limit_s=limit_s)
    except CommandFailed:
        return False
    return True
