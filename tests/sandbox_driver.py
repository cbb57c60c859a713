"""Runs programs in the sandbox for a test, as whichever user starts it: one JSON request a line in, one result out.

Standard library and ddqueue.coding only, because the user may not be able to read the tests' own environment.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import asdict
from typing import Any

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from ddqueue.coding.limits import Limits
from ddqueue.coding.sandbox import Sandbox
from ddqueue.coding.sandbox_walls import walls_to_try


def processes_with(mark: str) -> list[int]:
    """Pids of this machine's processes that have `mark` as an argument, and still run."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if name.isdigit() and mark.encode() in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            pass
    return found


class Witness:
    """Answers a program that says a mark with the number of processes that carry it."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def hear(self, line: str) -> str:
        self.counts.append(len(processes_with(line)))
        print(json.dumps({"heard": line}), flush=True)
        return str(self.counts[-1])


def main(walls: str) -> None:
    tried = [one for one in walls_to_try(shutil.which("bwrap")) if one.name == walls]
    sandbox = Sandbox(tried)
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        witness = Witness()
        result = sandbox.run(request["code"], Limits(**request["limits"]), witness)
        reply = {**asdict(result), "timed_out": result.timed_out, "witnessed": witness.counts, "walls": sandbox.walls}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
