"""Tokens and words without a model: a deterministic tokenisation, and synthetic answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import product
from zlib import crc32

END_OF_TEXT = 2
"""The token id that ends an answer by itself."""

_FIRST_WORD_ID = 1000
_FIRST_PIECE_ID = 10_000
_PIECE_IDS = 140_000
_PIECES = re.compile(r" ?\w+|[^\w\s]|\s+(?=\s)|\s")
_FUNCTION = re.compile(r"def\s+([A-Za-z_]\w*)\s*(\([^()]*\))")
_MULTIPLIER, _INCREMENT = 6364136223846793005, 1442695040888963407


def pieces(text: str) -> list[str]:
    """The text cut into tokens: a word with the space before it, other white space as one, or one other character.

    Joined they give the text.
    """
    return _PIECES.findall(text)


def tokenize(text: str) -> list[int]:
    """Token ids of the text; the same piece always has the same id."""
    vocabulary = _word_ids()
    return [
        vocabulary.get(piece, _FIRST_PIECE_ID + crc32(piece.encode("utf-8", "replace")) % _PIECE_IDS)
        for piece in pieces(text)
    ]


def detokenize(ids: Sequence[int]) -> str:
    """The text of synthetic answers' ids; of any other id, its number in angle brackets."""
    words = _words()
    return "".join(
        words[number - _FIRST_WORD_ID] if 0 <= number - _FIRST_WORD_ID < len(words) else f"<{number}>" for number in ids
    )


def answer_ids(seed: int, count: int) -> list[int]:
    """`count` ids of synthetic words, the same for the same seed; a longer answer begins with the shorter one."""
    words = len(_words())
    state, ids = seed & (2**64 - 1), []
    for _ in range(count):
        state = (state * _MULTIPLIER + _INCREMENT) & (2**64 - 1)
        ids.append(_FIRST_WORD_ID + (state >> 33) % words)
    return ids


def answer_text(question: str, seed: int) -> str:
    """What the simulated model says in a chat: for a question with a function's signature, that function, unsolved."""
    function = _FUNCTION.search(question)
    if function is None:
        return f"This is a simulated answer:{detokenize(answer_ids(seed, 24))}."
    name, parameters = function.groups()
    return f"This is a simulated answer, unsolved.\n\n```python\ndef {name}{parameters}:\n    return None\n```"


@cache
def _words() -> tuple[str, ...]:
    syllables = ["".join(pair) for pair in product("bdfgklmnprstvz", "aeiou")]
    return tuple(f" {first}{second}" for first, second in product(syllables, repeat=2))


@cache
def _word_ids() -> dict[str, int]:
    return {word: _FIRST_WORD_ID + index for index, word in enumerate(_words())}
