"""Which code in a model's answer is the answer. Pure; nothing is run. docs/decisions/0010 says why these rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ddqueue.domain.code_blocks import Block, PythonReader, bare_code, defined_names, fenced_blocks
from ddqueue.domain.coding import Outcome

_LARGEST_CHARS = 400_000
"""Of a longer answer only the end is read, since the last block counts: some 100,000 tokens after the reasoning."""
_FEWEST_WORDS = 20
"""An answer that stops by itself in fewer words and holds no code has ended before it began."""
_REASONING_END = re.compile(r"</think>|◁/think▷")
_REASONING_BEGIN = re.compile(r"(?<!`)(?:<think>|◁think▷)")
_CUT_OFF = frozenset({"length", "abort"})
"""Finish reasons of an answer that did not end by itself."""
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class ExtractionRule(StrEnum):
    """How the code was found, or why there is none."""

    WHOLE = "whole text"
    """All of the text is Python."""
    FENCE = "fence"
    """The last block between fences that defines the function, tagged as Python or not at all."""
    OPEN_FENCE = "open fence"
    """The same, of a fence that is never closed: everything to the end of the text."""
    OTHER_FENCE = "fence with another tag"
    """A block whose tag names something else than Python, as no other block defines the function."""
    CLOSING_FENCE = "closing fence only"
    """Code without an opening fence, ended by a closing one."""
    BARE = "bare code"
    """Code among prose, without any fence."""

    NOTHING = "nothing"
    """The answer is empty, and there is no reasoning."""
    ONLY_REASONING = "only reasoning"
    """Nothing comes after the reasoning."""
    UNCLOSED_REASONING = "unclosed reasoning"
    """The reasoning never ends."""
    CUT_OFF = "cut off"
    """The answer was cut off before the function was complete."""
    STOPPED_SHORT = "stopped short"
    """The answer ended by itself after a few words."""
    NO_DEFINITION = "no definition"
    """An answer, and no code in it that parses and defines the function."""


@dataclass(frozen=True)
class Extraction:
    """The code of one answer, or None with the outcome that this means.

    `truncated`: the answer ended before its writer did; its code, if any, parses and defines the function all the same.
    """

    code: str | None
    rule: ExtractionRule
    truncated: bool = False
    outcome_if_none: Outcome | None = None


def extract(content: str | None, reasoning: str | None, finish_reason: str | None, entry_point: str) -> Extraction:
    """Find the code that answers a problem whose function is `entry_point`.

    `content` and `reasoning` are the reply's, as they came: a server without a reasoning parser leaves the reasoning in
    the content. Code in the reasoning is never the answer. Never raises, whatever the text; the time is bounded.
    """
    cut_off = finish_reason in _CUT_OFF
    text = _answer_text(content or "")
    if not text.strip():
        reasoned = bool((content or "").strip() or (reasoning or "").strip())
        return _none(ExtractionRule.ONLY_REASONING if reasoned else ExtractionRule.NOTHING, cut_off)
    reader = PythonReader()
    whole = text.strip("\n")
    tree = reader.read(whole).tree
    if tree is not None and entry_point in defined_names(tree):
        return Extraction(whole, ExtractionRule.WHOLE, cut_off)
    return _among_prose(text.split("\n"), entry_point, cut_off, reader)


def _answer_text(content: str) -> str:
    """What follows the reasoning, with plain line ends and without what the store replaces."""
    text = content.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    text = _UNSTORABLE.sub(_REPLACEMENT, text)
    *_, start = (0, *(match.end() for match in _REASONING_END.finditer(text)))
    text = text[start:]
    if len(text) > _LARGEST_CHARS:
        text = text[-_LARGEST_CHARS:]
        text = text[text.find("\n") + 1 :]
    return text


def _among_prose(lines: Sequence[str], entry_point: str, cut_off: bool, reader: PythonReader) -> Extraction:
    blocks = fenced_blocks(lines, reader)
    inside = {number for block in blocks for number in range(block.first_line, block.end_line)}
    reasons_from = next(
        (number for number, line in enumerate(lines) if number not in inside and _REASONING_BEGIN.search(line)),
        None,
    )
    if reasons_from is not None:
        # What comes before is an answer that was thought over again: it counts, the new reasoning does not.
        lines = [*lines[:reasons_from], _REASONING_BEGIN.split(lines[reasons_from], maxsplit=1)[0]]
        blocks = [block for block in blocks if block.end_line <= reasons_from]
        cut_off = True
    found = _in_fences(blocks, entry_point, cut_off) or _bare(lines, blocks, entry_point, cut_off, reader)
    if found is not None:
        return found
    if reasons_from is not None:
        return _none(ExtractionRule.UNCLOSED_REASONING, True)
    if cut_off:
        return _none(ExtractionRule.CUT_OFF, True)
    words = sum(len(line.split()) for line in lines)
    if not blocks and words < _FEWEST_WORDS and not any(line.lstrip().startswith("def ") for line in lines):
        return _none(ExtractionRule.STOPPED_SHORT, False)
    open_end = any(block.reaches_end for block in blocks)
    return Extraction(None, ExtractionRule.NO_DEFINITION, open_end, Outcome.NO_CODE)


def _in_fences(blocks: Sequence[Block], entry_point: str, cut_off: bool) -> Extraction | None:
    defining = [one for one in blocks if one.tree is not None and entry_point in defined_names(one.tree)]
    for block in reversed(defining):
        if block.may_be_python:
            rule = ExtractionRule.OPEN_FENCE if block.reaches_end else ExtractionRule.FENCE
            return Extraction(block.code, rule, cut_off or block.reaches_end)
    if defining:
        return Extraction(defining[-1].code, ExtractionRule.OTHER_FENCE, cut_off or defining[-1].reaches_end)
    return None


def _bare(
    lines: Sequence[str], blocks: Sequence[Block], entry_point: str, cut_off: bool, reader: PythonReader
) -> Extraction | None:
    inside = {number for block in blocks for number in range(block.first_line, block.end_line)}
    fence_lines = {block.first_line for block in blocks if not block.tag}
    for run in reversed(bare_code(lines, inside, reader)):
        if entry_point in defined_names(run.tree):
            rule = ExtractionRule.CLOSING_FENCE if run.end_line in fence_lines else ExtractionRule.BARE
            return Extraction(run.code, rule, cut_off)
    return None


def _none(rule: ExtractionRule, cut_off: bool) -> Extraction:
    return Extraction(None, rule, cut_off, Outcome.NO_ANSWER)
