"""Asks a running server the problems of a coding suite, through its chat endpoint.

No measurement of speed, so asyncio will do. aiohttp is imported when something is asked: it is slow to import.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from ddqueue.domain.coding import Answer, Problem, Suite
from ddqueue.measure.chat_answer import ChatAnswerReader
from ddqueue.measure.errors import FirstTokenTimeout, HttpError, IdleTimeout, TotalTimeout, described
from ddqueue.measure.http1 import Address
from ddqueue.measure.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from aiohttp import ClientResponse, ClientSession

Value = TypeVar("Value")

SEED = 20_240_601
"""Pinned; greedy decoding draws nothing, but a build may round or break ties by it."""

MAX_TOKENS = 16_384
"""Reasoning and answer together. Without a limit a model that never stops would fill its context."""

_ANSWER_LIMIT_BYTES = 32 * 2**20
"""A chunk of one token is about 250 bytes, so this is far more than MAX_TOKENS need."""

_TEMPLATE_TOKENS = 512
"""Room for what the chat template puts around a prompt."""

_BYTES_PER_TOKEN = 2
"""Fewer than any tokenizer needs for English and code, so that a prompt is never taken for shorter than it is."""

_ERROR_BODY_BYTES = 4096
_MODELS_BYTES = 2**20
_LONGEST_NAME = 4096
_STOP_POLL_S = 0.1


@dataclass(frozen=True)
class _Turn:
    problem: Problem
    sample: int


@dataclass(frozen=True)
class _Model:
    """What the server says it serves: its name, and the most tokens of a prompt and its answer together."""

    name: str = "default"
    context_tokens: int | None = None

    def max_tokens(self, prompt: str, most: int) -> int:
        """As many as may be asked for: a server refuses a request that could outgrow the context."""
        if self.context_tokens is None:
            return most
        room = self.context_tokens - _TEMPLATE_TOKENS - len(prompt.encode()) // _BYTES_PER_TOKEN
        return max(1, min(most, room))


class ChatClient:
    """Implements ports.ChatClient."""

    def __init__(
        self,
        limits: Limits | None = None,
        max_tokens: int = MAX_TOKENS,
        answer_limit_bytes: int = _ANSWER_LIMIT_BYTES,
    ) -> None:
        self._limits = limits or Limits()
        self._max_tokens = max_tokens
        self._answer_limit_bytes = answer_limit_bytes

    def ask(self, url: str, suite: Suite, concurrency: int, should_stop: Callable[[], None]) -> list[Answer]:
        """Every answer, in the order asked: all problems once, then all once more, and so on.

        `concurrency` requests are in flight until fewer are left. Each problem is asked equally often, as many times as
        it takes to have that many at all. A request that failed is an answer with an `error`, and never sent again.

        Whatever `should_stop` raises is passed on within about 0.2 s; every connection is closed by then.

        Raises:
            UsageError: `url` is no server's address.
        """
        Address.of(url)
        return asyncio.run(self._ask(url.rstrip("/"), suite, concurrency, should_stop))

    async def _ask(self, url: str, suite: Suite, concurrency: int, should_stop: Callable[[], None]) -> list[Answer]:
        from aiohttp import ClientSession, ClientTimeout, TCPConnector

        # A connection of its own for each request: a kept one that the server closes meanwhile would fail the next.
        connector = TCPConnector(limit=0, force_close=True)
        timeout = ClientTimeout(total=None, sock_connect=self._limits.connect_s)
        # Nothing is unpacked: a small answer could fill all memory. Servers send plain text unless asked otherwise.
        plain = {"Accept-Encoding": "identity"}
        async with ClientSession(connector=connector, timeout=timeout, headers=plain, auto_decompress=False) as session:
            work = asyncio.create_task(self._loop(session, url, suite, concurrency))
            while not work.done():
                await asyncio.wait({work}, timeout=_STOP_POLL_S)
                try:
                    should_stop()
                except BaseException:
                    work.cancel()
                    with suppress(asyncio.CancelledError):
                        await work
                    raise
            return work.result()

    async def _loop(self, session: ClientSession, url: str, suite: Suite, concurrency: int) -> list[Answer]:
        model = await self._model(session, url)
        samples = -(-concurrency // len(suite.problems))
        turns = [_Turn(problem, sample) for sample in range(samples) for problem in suite.problems]
        answers: dict[_Turn, Answer] = {}

        async def keep_asking(left: Iterator[_Turn]) -> None:
            for turn in left:
                answers[turn] = await self._answer(session, url, model, turn, concurrency)

        left = iter(turns)
        await asyncio.gather(*(keep_asking(left) for _ in range(concurrency)))
        return [answers[turn] for turn in turns]

    async def _answer(self, session: ClientSession, url: str, model: _Model, turn: _Turn, concurrency: int) -> Answer:
        reader = ChatAnswerReader(self._answer_limit_bytes)
        asked_at, began_s = datetime.now(UTC), monotonic()
        error: str | None = None
        try:
            stream = self._stream(session, url, self._body(model, turn.problem.prompt), reader)
            total_s = self._limits.total_s
            await _within(stream, total_s, TotalTimeout(f"not finished after {total_s:g} s"))
        except Exception as fault:
            error = described(fault)
        return Answer(
            problem=turn.problem.name,
            concurrency=concurrency,
            sample=turn.sample,
            asked_at=asked_at,
            duration_s=monotonic() - began_s,
            content=reader.content,
            reasoning=reader.reasoning,
            finish_reason=reader.finish_reason,
            prompt_tokens=reader.prompt_tokens,
            output_tokens=reader.output_tokens,
            tag=reader.tag,
            error=error,
        )

    async def _stream(self, session: ClientSession, url: str, body: Any, reader: ChatAnswerReader) -> None:
        limits = self._limits
        late = FirstTokenTimeout(f"nothing came within {limits.first_token_s:g} s")
        silent = IdleTimeout(f"silent for {limits.idle_s:g} s after the answer had begun")
        # Some builds send the head only with the first token, others at once: both waits are for that token.
        began_s = monotonic()
        response = await _within(session.post(f"{url}/v1/chat/completions", json=body), limits.first_token_s, late)
        async with response:
            if response.status != 200:
                text = await _within(response.content.read(_ERROR_BODY_BYTES), limits.idle_s, silent)
                raise HttpError(f"{response.status} {text.decode('utf-8', 'replace')}")
            left_s = limits.first_token_s - (monotonic() - began_s)
            data = await _within(response.content.readany(), left_s, late)
            while data:
                reader.feed(data)
                data = await _within(response.content.readany(), limits.idle_s, silent)
        reader.ended()

    def _body(self, model: _Model, prompt: str) -> dict[str, Any]:
        """Greedy, reasoning on under both names that chat templates have for it, and the end of text left on: an answer
        that is forced on beyond its end would not be the model's."""
        return {
            "model": model.name,
            "messages": [{"role": "user", "content": prompt}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            "seed": SEED,
            "max_tokens": model.max_tokens(prompt, self._max_tokens),
            "separate_reasoning": True,
            "stream_reasoning": True,
            "chat_template_kwargs": {"thinking": True, "enable_thinking": True},
        }

    async def _model(self, session: ClientSession, url: str) -> _Model:
        """What the server serves; one that does not say is asked all the same, and its refusals are answers."""
        from aiohttp import ClientError

        try:
            async with asyncio.timeout(self._limits.connect_s), session.get(f"{url}/v1/models") as response:
                response.raise_for_status()
                served = json.loads(await _read_at_most(response, _MODELS_BYTES))["data"][0]
                name, longest = served["id"], served.get("max_model_len")
                if not isinstance(name, str) or len(name) > _LONGEST_NAME:
                    return _Model()
                return _Model(name, longest if isinstance(longest, int) else None)
        except (ClientError, OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            return _Model()


async def _read_at_most(response: ClientResponse, limit: int) -> bytes:
    """The body. Raises ValueError when there is more of it."""
    body = bytearray()
    while data := await response.content.readany():
        body += data
        if len(body) > limit:
            raise ValueError(f"more than {limit} bytes")
    return bytes(body)


async def _within(step: Awaitable[Value], seconds: float, error: Exception) -> Value:
    """The step's value, or `error` once it takes longer."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await step
    except TimeoutError:
        if limit.expired():
            raise error from None
        raise
