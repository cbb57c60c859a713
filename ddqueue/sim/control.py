"""Routes that act on the engine or on text: flush, abort, tokenise."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiohttp import web

from ddqueue.sim import words
from ddqueue.sim.context import ServerContext
from ddqueue.sim.requests import BadRequest, read_object
from ddqueue.sim.resolution import context_length

_FLUSH_POLL_S = 0.05
_FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, the"
    " operation will not be performed.)\n"
)


class ControlRoutes:
    """SGLang answers some of them on GET too, and the text ones under /v1 as well."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/flush_cache", self._flush_cache),
            web.post("/flush_cache", self._flush_cache),
            web.post("/abort_request", self._abort_request),
            web.post("/tokenize", self._tokenize),
            web.post("/v1/tokenize", self._tokenize),
            web.post("/detokenize", self._detokenize),
            web.post("/v1/detokenize", self._detokenize),
        ]

    async def _flush_cache(self, request: web.Request) -> web.Response:
        try:
            timeout_s = float(request.query.get("timeout", "0"))
        except ValueError:
            raise BadRequest("timeout must be a number") from None
        deadline_s = time.monotonic() + timeout_s
        while not self._context.serving.idle and time.monotonic() < deadline_s:
            await asyncio.sleep(_FLUSH_POLL_S)
        if not self._context.serving.idle:
            scheduler = self._context.serving.scheduler
            self._context.log.rank_line(
                "Cache not flushed because there are pending requests. #queue-req:"
                f" {len(scheduler.waiting)}, #running-req: {len(scheduler.running)}"
            )
            return web.Response(text="Flush cache failed.\n", status=400)
        self._context.serving.cache.clear()
        self._context.log.rank_line("Cache flushed successfully!")
        return web.Response(text=_FLUSHED)

    async def _abort_request(self, request: web.Request) -> web.Response:
        body = await read_object(request)
        everything = bool(body.get("abort_all"))
        if everything or body.get("rid"):
            self._context.serving.abort_by_id(str(body.get("rid", "")), everything)
        return web.Response()

    async def _tokenize(self, request: web.Request) -> web.Response:
        prompt = (await read_object(request)).get("prompt")
        if isinstance(prompt, str):
            tokens: Any = words.tokenize(prompt)
            count: Any = len(tokens)
        elif isinstance(prompt, list) and all(isinstance(text, str) for text in prompt):
            tokens = [words.tokenize(text) for text in prompt]
            count = [len(ids) for ids in tokens]
        else:
            raise BadRequest("prompt must be a string or a list of strings")
        return web.json_response(
            {"tokens": tokens, "count": count, "max_model_len": context_length(self._context.settings)}
        )

    async def _detokenize(self, request: web.Request) -> web.Response:
        tokens = (await read_object(request)).get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise BadRequest("tokens must be a list of integers")
        return web.json_response({"text": words.detokenize(tokens)})
