"""A box that serves production by day: it serves while a file is there, and real commands stop and start it."""

from __future__ import annotations

from pathlib import Path

_SCRIPT = """
cd "$1"
echo "begin $2" >> log
if [ -e "$2.fails" ]; then echo "cannot $2 now"; exit 3; fi
while [ -e "$2.hangs" ]; do sleep 0.05; done
if [ "$2" = take ]; then rm -f serving; else touch serving; fi
echo "end $2" >> log
"""


class Production:
    """Its commands can be made to fail or to hang while they are run from anywhere."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._script = folder / "hand-over.sh"
        self._script.write_text(_SCRIPT)
        (folder / "serving").touch()

    @property
    def take(self) -> tuple[str, ...]:
        return ("bash", str(self._script), str(self._folder), "take")

    @property
    def give_back(self) -> tuple[str, ...]:
        return ("bash", str(self._script), str(self._folder), "give_back")

    @property
    def serves(self) -> bool:
        return (self._folder / "serving").exists()

    @property
    def log(self) -> list[str]:
        """`begin take`, `end take` and so on, in order."""
        path = self._folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def breaks(self, command: str, how: str) -> None:
        """From now on `command` (`take`, `give_back`) `fails` or `hangs`."""
        (self._folder / f"{command}.{how}").touch()

    def mend(self) -> None:
        """Everything works again; what hangs goes on."""
        for path in (*self._folder.glob("*.fails"), *self._folder.glob("*.hangs")):
            path.unlink()

    def borrow(self, **keys: str) -> str:
        """The value of `borrow:` in an inventory."""
        words = {
            "take": f"[{', '.join(self.take)}]",
            "give_back": f"[{', '.join(self.give_back)}]",
            **{key: f'"{value}"' for key, value in keys.items()},
        }
        return "{" + ", ".join(f"{key}: {value}" for key, value in words.items()) + "}"
