"""Prompts of an exact token length, no two of which begin alike.

Prompts are sent as token ids, so their length is exact by construction. A few random ids come first, so that a prefix
cache finds nothing; the rest is text, cut by the server's own tokenizer, which is asked once. A server without one gets
random ids throughout. Prompts from a file of the person's own begin at random places of it instead.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from random import Random
from time import monotonic

from ddqueue.measure.errors import HttpError, MalformedAnswer
from ddqueue.measure.http1 import Address, ResponseReader
from ddqueue.measure.messages import RunRequest
from ddqueue.measure.phrases import phrases

TOKENIZE = "/tokenize"
TOKENIZE_LIMIT_S = 60.0
TOKENIZE_LIMIT_BYTES = 16 * 2**20
"""Far more than the ids of all phrases, or of one excerpt, take."""

_LARGEST_ID = 2**31 - 1

OWN_TEXT_LIMIT_BYTES = 64 * 2**20
CHARACTERS_PER_TOKEN = 6
"""More than text usually has, so that one excerpt is nearly always enough."""

OPENING_TOKENS = 8
"""Random ids in front: of thousands for each place, so that two prompts seldom share even the first."""

TEXT = "text"
OWN_TEXT = "own text"
RANDOM_IDS = "random ids"


class PromptSource:
    """Makes the bodies of runs against one server; remembers what its tokenizer said."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._phrases: list[list[int]] | None = None
        self._own_text: tuple[str, str] = ("", "")

    def bodies(self, request: RunRequest) -> tuple[list[bytes], str]:
        """One body a request, as JSON for `POST /generate`, and where the prompts came from: TEXT, OWN_TEXT or
        RANDOM_IDS.

        Raises:
            ValueError: the person's own text is too short, or the server cannot tokenize it.
        """
        if request.prompts is not None:
            cut = [self._excerpt(request, request.prompts, index) for index in range(request.requests)]
            return [_body(prompt, request.output) for prompt in cut], OWN_TEXT
        if self._phrases is None:
            self._phrases = self._tokenized()
        bodies = [
            _body(self._prompt(request, self._phrases, index), request.output) for index in range(request.requests)
        ]
        return bodies, TEXT if self._phrases else RANDOM_IDS

    def _excerpt(self, request: RunRequest, path: str, index: int) -> list[int]:
        """`context` tokens of the file, from a place of its own."""
        if self._own_text[0] != path:
            with open(path, "rb") as file:
                self._own_text = (path, file.read(OWN_TEXT_LIMIT_BYTES).decode("utf-8", "replace"))
        text, random = self._own_text[1], _random(request, index)
        length = request.context * CHARACTERS_PER_TOKEN
        if len(text) <= length:
            raise ValueError(f"{path} has {len(text)} characters; {request.context} tokens need more than {length}")
        prompt: list[int] = []
        while len(prompt) < request.context:
            start = random.randrange(len(text) - length)
            excerpt = json.dumps({"prompt": [text[start : start + length]], "add_special_tokens": False}).encode()
            prompt += self._excerpt_tokens(excerpt)
        return prompt[: request.context]

    @staticmethod
    def _prompt(request: RunRequest, pool: Sequence[list[int]], index: int) -> list[int]:
        random = _random(request, index)
        ids = _ordinary_ids(request.vocabulary, pool)
        prompt = random.choices(ids, k=OPENING_TOKENS if pool else request.context)
        while len(prompt) < request.context:
            prompt.extend(random.choice(pool))
        return prompt[: request.context]

    def _tokenized(self) -> list[list[int]]:
        """The token ids of every phrase; an empty list when the server has no tokenizer to ask."""
        body = json.dumps({"prompt": list(phrases()), "add_special_tokens": False}).encode()
        try:
            return [ids for ids in self._tokens(body) if ids]
        except (OSError, ValueError, HttpError, MalformedAnswer):
            return []

    def _excerpt_tokens(self, body: bytes) -> list[int]:
        try:
            (ids,) = self._tokens(body)
        except (OSError, ValueError, HttpError, MalformedAnswer) as error:
            # SGLang 0.5.15 answers 500 when the model's tokenizer_config.json has no model_max_length.
            said = f"POST {TOKENIZE}: {type(error).__name__}: {error}"
            raise ValueError(f"the server cannot tokenize, so prompts cannot be cut from a file ({said})") from error
        if not ids:
            raise ValueError("the server made no tokens of an excerpt")
        return ids

    def _tokens(self, body: bytes) -> list[list[int]]:
        """The reply's token lists. Raises ValueError when it holds none, and what `_post` raises."""
        try:
            answer = json.loads(_post(self._address, TOKENIZE, body))
        except RecursionError:
            answer = None
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(tokens, list) or not all(isinstance(ids, list) for ids in tokens):
            raise ValueError("the reply has no token lists")
        if not all(type(token) is int and 0 <= token <= _LARGEST_ID for ids in tokens for token in ids):
            raise ValueError("the reply holds what is no token")
        return tokens


def _random(request: RunRequest, index: int) -> Random:
    """A seed of text gives the same prompt on every host and with every Python."""
    return Random(
        f"{request.salt}/{request.repeat}/{request.warm_up}/{request.concurrency}/{request.context}"
        f"/{request.output}/{index}"
    )


def _ordinary_ids(vocabulary: tuple[int, int], pool: Sequence[list[int]]) -> Sequence[int]:
    """Ids that are no special tokens: those of `vocabulary`, as far as text reaches; the text's own in a tiny one."""
    low, high = vocabulary
    if not pool:
        return range(low, high)
    seen = sorted({token for phrase in pool for token in phrase})
    return range(low, min(high, seen[-1] + 1)) or seen


def _body(prompt: Sequence[int], output: int) -> bytes:
    sampling = {"max_new_tokens": output, "temperature": 0, "ignore_eos": True}
    body = {"input_ids": prompt, "sampling_params": sampling, "stream": True}
    return json.dumps(body, separators=(",", ":")).encode()


def _post(address: Address, path: str, body: bytes) -> bytes:
    """The body of a 200 answer; raises HttpError for another status, OSError when the server does not answer."""
    deadline = monotonic() + TOKENIZE_LIMIT_S
    with socket.create_connection((address.host, address.port), TOKENIZE_LIMIT_S) as connection:
        connection.sendall(address.post(path, body))
        response, answer = ResponseReader(), bytearray()
        while not response.complete:
            # All of it together: a socket's own limit begins anew with every byte.
            connection.settimeout(max(0.001, deadline - monotonic()))
            data = connection.recv(256 * 1024)
            if not data:
                response.close()
                break
            answer += response.feed(data)
            if len(answer) > TOKENIZE_LIMIT_BYTES:
                raise MalformedAnswer(f"an answer of more than {TOKENIZE_LIMIT_BYTES // 2**20} MiB")
    if response.status != 200 or not response.complete:
        raise HttpError(f"{response.status} {answer[:200].decode('utf-8', 'replace')}")
    return bytes(answer)
