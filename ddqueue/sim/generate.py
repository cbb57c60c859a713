"""POST /generate, streamed and not."""

from __future__ import annotations

import time
from collections.abc import Mapping
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

_DEFAULT_NEW_TOKENS = 128
_SHORTEST_OWN_END, _LONGEST_OWN_END = 32, 256
"""Where an answer ends by itself, unless the request ignores the end of text."""
_GARBAGE_CHUNK = b'data: {"text": "\xff\x1b[31m, "output_ids": [\n\n'


class GenerateRoute:
    """SGLang's native generation."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/generate", self._generate)]

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await read_object(request)
        prompt_ids = _prompt(body)
        sampling = body.get("sampling_params") or {}
        new_tokens = positive_number(sampling.get("max_new_tokens", _DEFAULT_NEW_TOKENS), "max_new_tokens")
        check_temperature(sampling)
        check_length(len(prompt_ids), new_tokens, context_length(self._context.settings))
        seed = hash(tuple(prompt_ids))
        own_end = _SHORTEST_OWN_END + seed % (_LONGEST_OWN_END - _SHORTEST_OWN_END)
        stops = not sampling.get("ignore_eos") and own_end < new_tokens
        output_ids = words.answer_ids(seed, own_end if stops else new_tokens)
        live = self._context.serving.submit(prompt_ids, output_ids, stops, body.get("rid"))
        try:
            if body.get("stream"):
                return await self._stream(request, live)
            output_tokens = 0
            while not live.ended(output_tokens):
                output_tokens = await live.updates.get()
            return web.json_response(self._chunk(live, output_tokens, time.time()))
        finally:
            self._context.serving.abort(live)

    async def _stream(self, request: web.Request, live: LiveRequest) -> web.StreamResponse:
        response = await open_stream(request)
        first_sent_ts: float | None = None
        output_tokens = 0
        while not live.ended(output_tokens):
            output_tokens = await live.updates.get()
            if self._context.fails_midstream(FaultKind.ERROR_MIDSTREAM, live, output_tokens):
                await send_event(response, {"error": {"message": "Internal server error", "code": 500}})
                break
            if self._context.fails_midstream(FaultKind.GARBAGE, live, output_tokens):
                await response.write(_GARBAGE_CHUNK)
                break
            # Only the first and the last chunk say when the first one went out.
            is_first = first_sent_ts is None
            first_sent_ts = first_sent_ts or time.time()
            says_when = is_first or live.ended(output_tokens)
            await send_event(response, self._chunk(live, output_tokens, first_sent_ts if says_when else None))
        await send_done(response)
        return response

    def _chunk(self, live: LiveRequest, output_tokens: int, sent_ts: float | None) -> dict[str, Any]:
        ids = list(live.output_ids[:output_tokens])
        meta = replies.meta_info(live, output_tokens, self._context.tag, self._context.drafter)
        if sent_ts is not None:
            meta["response_sent_to_client_ts"] = sent_ts
        return {"text": words.detokenize(ids), "output_ids": ids, "meta_info": meta}


def _prompt(body: Mapping[str, Any]) -> list[int]:
    text, ids = body.get("text"), body.get("input_ids")
    if isinstance(text, str) == isinstance(ids, list):
        raise BadRequest("Either text or input_ids should be provided, as a string or a list of integers.")
    prompt = words.tokenize(text) if isinstance(text, str) else ids
    if not prompt or not all(isinstance(token, int) for token in prompt):
        raise BadRequest("input_ids must be a list of integers that is not empty.")
    return list(prompt)
