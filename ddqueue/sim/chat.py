"""POST /v1/chat/completions, streamed and not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from ddqueue.sim import replies, words
from ddqueue.sim.answering import REASONING_BEGIN, REASONING_END, SimulatedAnswer, answer_to, no_answer
from ddqueue.sim.context import ServerContext
from ddqueue.sim.faults import FaultKind
from ddqueue.sim.requests import (
    BadRequest,
    check_length,
    check_temperature,
    open_stream,
    positive_number,
    read_object,
    send_done,
    send_event,
)
from ddqueue.sim.resolution import context_length
from ddqueue.sim.serving import LiveRequest

_DEFAULT_NEW_TOKENS = 512
_ROLE_MARKS = ("<|im_start|>", "<|im_end|>")
_TAGS = (REASONING_BEGIN, REASONING_END)
_CONCURRENCY_UNDER_LOAD = 2


class ChatRoute:
    """OpenAI's chat, on the same scheduler as /generate."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/v1/chat/completions", self._chat)]

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await read_object(request)
        prompt = _prompt(body.get("messages"))
        asked = body.get("max_completion_tokens") or body.get("max_tokens") or _DEFAULT_NEW_TOKENS
        new_tokens = positive_number(asked, "max_tokens")
        check_temperature(body)
        prompt_ids = words.tokenize(prompt)
        check_length(len(prompt_ids), new_tokens, context_length(self._context.settings))
        seed = hash(tuple(prompt_ids))
        fault = self._context.options.faults.find(FaultKind.NO_ANSWER)
        answer = no_answer(prompt, seed, fault) if fault else answer_to(prompt, seed)
        limit = min(len(answer.right), new_tokens)
        filler: list[str] = []
        if body.get("ignore_eos"):
            filler = [words.detokenize([number]) for number in words.answer_ids(seed, new_tokens - limit)]
            limit = new_tokens
        stops = answer.stops_by_itself and not filler and len(answer.right) < new_tokens
        live = self._context.serving.submit(prompt_ids, range(limit), stops)
        parser = self._context.settings["reasoning_parser"]
        writer = _Writer(self._context, answer, filler, bool(parser) and body.get("separate_reasoning") is not False)
        try:
            if body.get("stream"):
                return await self._stream(request, live, writer, body)
            output_tokens, parts = 0, []
            while not live.ended(output_tokens):
                output_tokens = await live.updates.get()
                parts.append(writer.write(output_tokens))
            reasoning, content = ("".join(texts) for texts in zip(*parts, strict=True))
            model = self._context.settings["served_model_name"]
            return web.json_response(
                replies.chat_answer(live, model, content, self._context.tag, reasoning, writer.reasoning_tokens)
            )
        finally:
            self._context.serving.abort(live)

    async def _stream(
        self, request: web.Request, live: LiveRequest, writer: _Writer, body: Mapping[str, Any]
    ) -> web.StreamResponse:
        response = await open_stream(request)
        head = (live.generation.rid, int(live.received_ts), self._context.settings["served_model_name"])
        await send_event(response, replies.chat_chunk(*head, {"role": "assistant", "content": ""}))
        output_tokens = 0
        while not live.ended(output_tokens):
            output_tokens = await live.updates.get()
            if self._context.fails_midstream(FaultKind.ERROR_MIDSTREAM, live, output_tokens):
                await send_event(response, {"error": {"message": "Internal server error", "code": 500}})
                await send_done(response)
                return response
            reasoning, content = writer.write(output_tokens)
            if reasoning:
                await send_event(response, replies.chat_chunk(*head, {"reasoning_content": reasoning}))
            if content:
                await send_event(response, replies.chat_chunk(*head, {"content": content}))
        await send_event(response, replies.chat_chunk(*head, {}, replies.finish_reason(live)))
        if (body.get("stream_options") or {}).get("include_usage"):
            usage = replies.usage(live, writer.reasoning_tokens)
            await send_event(response, {**replies.chat_chunk(*head, None), "usage": usage})
        await send_done(response)
        return response


class _Writer:
    """Turns one answer's tokens into text as they come, right or wrong; with `parses`, reasoning apart from content."""

    def __init__(self, context: ServerContext, answer: SimulatedAnswer, filler: list[str], parses: bool) -> None:
        self._context = context
        self._answer = answer
        self._filler = filler
        self._parses = parses
        self._written = 0
        self._parting = answer.parting
        self._tokens = [*answer.right, *filler]
        self._most_running = 0

    @property
    def reasoning_tokens(self) -> int:
        """How many of the tokens written were told apart as reasoning."""
        return min(self._written, self._answer.reasoning_tokens) if self._parses else 0

    def write(self, output_tokens: int) -> tuple[str, str]:
        """The reasoning and the content that are new, now that there are `output_tokens`."""
        self._most_running = max(self._most_running, len(self._context.serving.scheduler.running))
        first, self._written = self._written, max(output_tokens, self._written)
        if first <= self._parting < self._written and self._is_corrupt():
            self._tokens = [*self._answer.wrong, *self._filler]
        if not self._parses:
            return "", "".join(self._tokens[first : self._written])
        border = self._answer.reasoning_tokens
        reasoning = [one for one in self._tokens[first : min(border, self._written)] if one not in _TAGS]
        return "".join(reasoning), "".join(self._tokens[max(first, border) : self._written])

    def _is_corrupt(self) -> bool:
        """Whether the drafts that the decoder accepted just now are wrong."""
        if self._context.drafter is None:
            return False
        faults = self._context.options.faults
        under_load = faults.find(FaultKind.CORRUPT_UNDER_LOAD)
        if under_load is not None and self._most_running >= under_load.number(_CONCURRENCY_UNDER_LOAD):
            return True
        return faults.find(FaultKind.CORRUPT_SPECULATION) is not None


def _prompt(messages: Any) -> str:
    """The messages as one text, with a template's marks around each."""
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise BadRequest("messages must be a list of objects that is not empty.")
    begin, end = _ROLE_MARKS
    turns = [f"{begin}{one.get('role')}\n{one.get('content')}{end}\n" for one in messages]
    return "".join(turns) + f"{begin}assistant\n"
