"""Text that prompts are put together from: prose and Python, because what a drafter can guess depends on the text."""

from __future__ import annotations

from itertools import product

_SUBJECTS = (
    "the scheduler", "a careful engineer", "the compiler", "an old river", "the librarian", "our small team",
    "the drafter", "every reader", "the night train", "a patient teacher", "the garbage collector", "the harbour",
)  # fmt: skip
_VERBS = (
    "measures", "remembers", "explains", "follows", "rebuilds", "questions", "describes", "counts",
    "carries", "admires",
)  # fmt: skip
_OBJECTS = (
    "the longest path through the graph", "what happened before the storm", "each batch of requests in turn",
    "the difference between two numbers", "a letter that arrived too late", "the memory that nobody released",
    "the colour of the morning light", "the tokens of the next block", "an argument about good names",
)  # fmt: skip
_NAMES = ("total", "queue", "window", "batch", "result", "index", "token", "record", "limit", "weight")
_LINES = (
    "\n    {a} = sum(item.{b} for item in {c})",
    "\n    if {a} is None or {a} > len({b}):\n        return {c}",
    "\n    for {a} in sorted({b}, key=len):\n        {c}.append({a})",
    "\n\ndef {a}_of_{b}({c}):\n    return [{a} for {a} in {c} if {a}.{b}]",
)


def phrases() -> tuple[str, ...]:
    """About two thousand phrases, always the same, each beginning with a space or a new line.

    A tokenizer splits text at such places, so the tokens of phrases in a row are those of each put together.
    """
    prose = [f" {subject} {verb} {what}." for subject, verb, what in product(_SUBJECTS, _VERBS, _OBJECTS)]
    code = [
        line.format(a=a, b=b, c=c)
        for line, (a, b, c) in product(_LINES, product(_NAMES, _NAMES, _NAMES))
        if len({a, b, c}) == 3 and (a < b) == (b < c)
    ]
    return tuple(prose + code)
