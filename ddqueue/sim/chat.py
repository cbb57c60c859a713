"""POST /v1/chat/completions, streamed and not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from ddqueue.sim import replies, words
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
        answer = words.pieces(words.answer_text(prompt, seed))
        stops = not body.get("ignore_eos") and len(answer) < new_tokens
        if not stops and len(answer) < new_tokens:
            answer += [words.detokenize([number]) for number in words.answer_ids(seed, new_tokens - len(answer))]
        answer = answer[:new_tokens]
        live = self._context.serving.submit(prompt_ids, range(len(answer)), stops)
        try:
            if body.get("stream"):
                return await self._stream(request, live, answer, body)
            output_tokens = 0
            while not live.ended(output_tokens):
                output_tokens = await live.updates.get()
            content = "".join(answer[:output_tokens])
            return web.json_response(
                replies.chat_answer(live, self._context.settings["served_model_name"], content, self._context.tag)
            )
        finally:
            self._context.serving.abort(live)

    async def _stream(
        self, request: web.Request, live: LiveRequest, answer: Sequence[str], body: Mapping[str, Any]
    ) -> web.StreamResponse:
        response = await open_stream(request)
        head = (live.generation.rid, int(live.received_ts), self._context.settings["served_model_name"])
        await send_event(response, replies.chat_chunk(*head, {"role": "assistant", "content": ""}))
        output_tokens = 0
        while not live.ended(output_tokens):
            sent_tokens, output_tokens = output_tokens, await live.updates.get()
            if self._context.fails_midstream(FaultKind.ERROR_MIDSTREAM, live, output_tokens):
                await send_event(response, {"error": {"message": "Internal server error", "code": 500}})
                await send_done(response)
                return response
            if output_tokens > sent_tokens:
                delta = {"content": "".join(answer[sent_tokens:output_tokens])}
                await send_event(response, replies.chat_chunk(*head, delta))
        await send_event(response, replies.chat_chunk(*head, {}, replies.finish_reason(live)))
        if (body.get("stream_options") or {}).get("include_usage"):
            await send_event(response, {**replies.chat_chunk(*head, None), "usage": replies.usage(live)})
        await send_done(response)
        return response


def _prompt(messages: Any) -> str:
    """The messages as one text, with a template's marks around each."""
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise BadRequest("messages must be a list of objects that is not empty.")
    begin, end = _ROLE_MARKS
    turns = [f"{begin}{one.get('role')}\n{one.get('content')}{end}\n" for one in messages]
    return "".join(turns) + f"{begin}assistant\n"
