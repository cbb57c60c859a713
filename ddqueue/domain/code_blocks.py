"""Blocks of code in a text that a model wrote: fenced ones, and bare lines that are Python. Pure; nothing is run."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)")
_TAG = re.compile(r"\w[\w.+#-]*")
_PYTHON_TAG = re.compile(r"py|python|pyi|py[23][\d.]*|python[\d.]+|[\w.-]+\.py", re.IGNORECASE)
_BUDGET_CHARS = 2_000_000
"""How much one answer may make the parser read, attempts included: a second or two."""
_CALL_CHARS = 100
"""What a call costs of that, however short the text."""
_MOST_EXTENSIONS = 16
"""How many fences inside one docstring are looked past."""
_OPEN_STRING = "unterminated triple-quoted"
"""What CPython says when the text ends inside a docstring."""
_CONTINUES = re.compile(r"[)\]}]|(else|elif|except|finally)\b")


@dataclass(frozen=True)
class Reading:
    """What the parser made of a text: a tree, or why not. `open_string`: it ended inside a triple-quoted string."""

    tree: ast.Module | None
    open_string: bool = False


class PythonReader:
    """Parses the candidates of one answer, within one budget: past it nothing parses any more."""

    def __init__(self) -> None:
        self._left_chars = _BUDGET_CHARS

    def read(self, code: str) -> Reading:
        """Never raises, whatever the text is."""
        self._left_chars -= len(code) + _CALL_CHARS
        if self._left_chars < 0:
            return Reading(None)
        try:
            with warnings.catch_warnings():
                # An invalid escape in an answer is the model's affair, and no line on our stderr.
                warnings.simplefilter("ignore")
                return Reading(ast.parse(code))
        except SyntaxError as error:
            return Reading(None, _OPEN_STRING in str(error.msg))
        except (ValueError, RecursionError, MemoryError):
            # In this order: lone surrogates and NUL, a deep tree, nesting beyond the parser's stack.
            return Reading(None)


@dataclass(frozen=True)
class Block:
    """A fenced block: its code and tag, and the lines of the text that it takes, fences included.

    `tree` is None for what is no Python. `reaches_end`: its fence was never closed, so it goes to the end of the text.
    """

    code: str
    tag: str
    first_line: int
    end_line: int
    tree: ast.Module | None
    reaches_end: bool

    @property
    def may_be_python(self) -> bool:
        """Whether its tag is Python's, or it has none."""
        return not self.tag or _PYTHON_TAG.fullmatch(self.tag) is not None


def fenced_blocks(lines: Sequence[str], reader: PythonReader) -> list[Block]:
    """Every fenced block, in order; each line is in one block at most."""
    fences = [_Fence(number, match) for number, line in enumerate(lines) if (match := _FENCE.fullmatch(line))]
    blocks: list[Block] = []
    end_line = 0
    for place, fence in enumerate(fences):
        if fence.line >= end_line:
            blocks.append(_block(lines, fence, _ends(fences, place), reader))
            end_line = blocks[-1].end_line
    return blocks


def _ends(fences: Sequence[_Fence], place: int) -> Iterator[_Fence]:
    """The fences that may close the one at `place`: of the same kind, and at least as long."""
    return (
        fences[index] for index in range(place + 1, len(fences)) if fences[index].mark.startswith(fences[place].mark)
    )


class _Fence:
    """A line that is a fence; what follows its mark is a tag, or nothing."""

    def __init__(self, line: int, match: re.Match[str]) -> None:
        self.line = line
        self.mark = match["mark"]
        self.indent = len(match["indent"])
        tag = _TAG.search(match["info"])
        self.tag = tag.group().lower() if tag else ""
        self.is_bare = not match["info"].strip()


def _block(lines: Sequence[str], opening: _Fence, ends: Iterator[_Fence], reader: PythonReader) -> Block:
    """The block that `opening` begins; `ends` are the fences after it that may close it."""
    nearest, open_string = _block_to(lines, opening, next(ends, None), reader)
    for _ in range(_MOST_EXTENSIONS):
        # A docstring holds that fence, so it may not be the end. Only a string can hold one: what parses is therefore
        # one piece of code, and never two blocks joined.
        if not open_string:
            break
        end = next(ends, None)
        longer, open_string = _block_to(lines, opening, end, reader)
        if longer.tree is not None:
            return longer
        open_string = open_string and end is not None
    return nearest


def _block_to(lines: Sequence[str], opening: _Fence, end: _Fence | None, reader: PythonReader) -> tuple[Block, bool]:
    """The block up to `end`, or to the end of the text; and whether it ends inside a string."""
    behind = len(lines) if end is None else end.line
    code, reading = _read_inside(lines[opening.line + 1 : behind], opening.indent, reader)
    # A fence with a tag ends the block because it opens the next one.
    end_line = behind + 1 if end is not None and end.is_bare else behind
    return Block(code, opening.tag, opening.line, end_line, reading.tree, end is None), reading.open_string


def _read_inside(lines: Sequence[str], indent: int, reader: PythonReader) -> tuple[str, Reading]:
    """The lines without the indentation that their fence has; without their own as well, if only so they parse."""
    code = "\n".join(_without_indent(line, indent) for line in lines).strip("\n")
    reading = reader.read(code)
    if reading.tree is None and code[:1].isspace():
        dedented = textwrap.dedent(code).strip("\n")
        again = reader.read(dedented)
        if again.tree is not None:
            return dedented, again
    return code, reading


def _without_indent(line: str, indent: int) -> str:
    return line[min(indent, len(line) - len(line.lstrip(" \t"))) :]


@dataclass(frozen=True)
class BareCode:
    """Lines of Python that stand in a text without an opening fence; `end_line` is the first line behind them."""

    code: str
    tree: ast.Module
    end_line: int


def bare_code(lines: Sequence[str], taken: Collection[int], reader: PythonReader) -> list[BareCode]:
    """The runs of whole Python statements among the lines, in order; prose and the lines `taken` part them."""
    runs: list[BareCode] = []
    run_from: int | None = None
    for first, end in _statements(lines, taken):
        tree = None if first in taken else reader.read("\n".join(lines[first:end])).tree
        if tree is not None and not tree.body:
            # A comment, or a heading that looks like one: it goes with the code around it, if there is any.
            continue
        if tree is not None and _is_code(tree.body[0]):
            run_from = first if run_from is None else run_from
        elif run_from is not None:
            _add_run(runs, lines, run_from, first, reader)
            run_from = None
    if run_from is not None:
        _add_run(runs, lines, run_from, len(lines), reader)
    return runs


def _add_run(runs: list[BareCode], lines: Sequence[str], first: int, end: int, reader: PythonReader) -> None:
    code = "\n".join(lines[first:end]).strip("\n")
    tree = reader.read(code).tree
    if tree is not None:
        runs.append(BareCode(code, tree, end))


def _statements(lines: Sequence[str], taken: Collection[int]) -> list[tuple[int, int]]:
    """The text parted where a line without indentation begins something new, as [first, end)."""
    starts: list[int] = []
    is_decorated = False
    for number, line in enumerate(lines):
        if number in taken:
            # Of taken lines the first one parts; none of them is a statement.
            if number - 1 not in taken:
                starts.append(number)
            is_decorated = False
            continue
        begins = bool(line) and not line[0].isspace() and _CONTINUES.match(line) is None
        if (begins and not is_decorated) or number == 0 or number - 1 in taken:
            starts.append(number)
        if begins:
            is_decorated = line.startswith("@")
    return list(zip(starts, [*starts[1:], len(lines)], strict=True))


def _is_code(statement: ast.stmt) -> bool:
    """Whether a program would have this statement; `Sure`, `well-known` and `Note: this` are Python too."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, (ast.Call, ast.Constant))
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    return not isinstance(statement, (ast.Return, ast.Pass, ast.Break, ast.Continue))


def defined_names(tree: ast.Module) -> set[str]:
    """What a module's own statements define: functions, classes and assigned names; not methods, not imports."""
    names: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(statement.name)
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets = [statement.target]
        for target in targets:
            elements = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            names.update(one.id for one in elements if isinstance(one, ast.Name))
    return names
