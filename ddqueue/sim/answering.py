"""What the simulated model says in a chat, token by token, and where a wrong decoder makes it say something else.

A coding problem that it knows it answers as a reasoning model does: reasoning, the tag that ends it, prose, code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddqueue.sim import words
from ddqueue.sim.faults import Fault
from ddqueue.sim.solutions import Solution, solution_for

REASONING_BEGIN, REASONING_END = "<think>", "</think>"
_DRAFTS_FIRST_ONE_IN = 3
"""So many questions get one whose answer shows a wrong draft in a fence of its own before the right code."""
_TEMPLATE_BEGINS_ONE_IN = 2
"""So many get one whose reasoning has no opening tag: a chat template that ends with it leaves none in the answer."""
_STOPPED_AFTER_TOKENS, _CUT_OFF_AFTER_TOKENS = 19, 256


@dataclass(frozen=True)
class SimulatedAnswer:
    """An answer's tokens as text, and as many that a wrong decoder would give; both are the same up to `parting`.

    `reasoning_tokens` counts the leading ones that are reasoning, tags included. `stops_by_itself` is False for an
    answer that goes on as long as it is let.
    """

    right: Sequence[str]
    wrong: Sequence[str]
    reasoning_tokens: int = 0
    stops_by_itself: bool = True

    @property
    def parting(self) -> int:
        """The first token that differs; the number of tokens if none does."""
        pairs = enumerate(zip(self.right, self.wrong, strict=True))
        return next((place for place, (right, wrong) in pairs if right != wrong), len(self.right))


def answer_to(question: str, seed: int) -> SimulatedAnswer:
    """The whole answer, the same for the same seed."""
    solution = solution_for(question)
    if solution is None:
        tokens = words.pieces(words.answer_text(question, seed))
        return SimulatedAnswer(tokens, tokens)
    reasoning = [*_opening(seed), *words.pieces(solution.thought), REASONING_END]
    right, wrong = (words.pieces(_shown(solution, code, seed)) for code in (solution.code, solution.slipped))
    return SimulatedAnswer([*reasoning, *right], [*reasoning, *wrong], len(reasoning))


def no_answer(question: str, seed: int, fault: Fault) -> SimulatedAnswer:
    """Reasoning that does not end: cut off as if by a limit, or (at `stop`) ended by the end of text."""
    stops = fault.where == "stop"
    count = max(int(fault.number(_STOPPED_AFTER_TOKENS if stops else _CUT_OFF_AFTER_TOKENS)), 1)
    solution = solution_for(question)
    thought = words.pieces(solution.thought) if solution else []
    rambling = [words.detokenize([number]) for number in words.answer_ids(seed, count)]
    tokens = [*_opening(seed), *thought, *rambling][:count]
    return SimulatedAnswer(tokens, tokens, len(tokens), stops)


def _opening(seed: int) -> list[str]:
    return [] if seed % _TEMPLATE_BEGINS_ONE_IN else [REASONING_BEGIN]


def _shown(solution: Solution, code: str, seed: int) -> str:
    draft = ""
    if seed % _DRAFTS_FIRST_ONE_IN == 0:
        draft = f"A first draft:\n\n```python\n{solution.slipped}\n```\n\nThat is wrong at the edges. Corrected:\n\n"
    return f"\n\n{draft}```python\n{code}\n```\n\nIt takes O(n) time or little more."
