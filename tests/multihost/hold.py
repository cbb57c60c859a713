"""A fleet for a person to try things on: `cd tests && python -m multihost.hold` keeps it until ^C."""

from __future__ import annotations

import contextlib
import signal

from .fleet import Fleet, fleet

UP = "up; ^C takes everything down"


def main() -> None:
    with contextlib.suppress(KeyboardInterrupt), fleet(lambda text: print(text, flush=True)) as made:
        _describe(made)
        print(UP, flush=True)
        while True:
            signal.pause()


def _describe(made: Fleet) -> None:
    print(f"GPU boxes: {made.kind}")
    for box in (*made.boxes.values(), made.desk):
        print(f"{box.name}: {box.address}, {box.kind}")
    address = next(iter(made.boxes.values())).address
    print(f"ssh -i {made.keys.private} -o UserKnownHostsFile={made.keys.known_hosts} root@{address}")


if __name__ == "__main__":
    main()
