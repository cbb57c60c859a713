"""What a server says about itself: health, settings, model, metrics."""

from __future__ import annotations

import time

from aiohttp import web

from ddqueue.sim import metrics
from ddqueue.sim.context import ServerContext
from ddqueue.sim.resolution import context_length, most_running

VERSION = "0.5.15-sim"
_INPUT_RESERVE_TOKENS = 6


class InformationRoutes:
    """The routes that change nothing."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        routes = [
            web.get("/health", self._health),
            web.get("/health_generate", self._health),
            web.get("/server_info", self._server_info),
            web.get("/get_server_info", self._server_info),
            web.get("/model_info", self._model_info),
            web.get("/get_model_info", self._model_info),
            web.get("/v1/models", self._models),
        ]
        return [*routes, web.get("/metrics", self._metrics)] if self._context.settings["enable_metrics"] else routes

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self._context.ready and not self._context.serving.stalled else 503)

    async def _server_info(self, request: web.Request) -> web.Response:
        self._say_deprecated(request, "/get_server_info", "/server_info")
        context, drafter = self._context, self._context.drafter
        running = dict(context.settings)
        capacity = context.serving.scheduler.max_total_tokens
        internal_state = {
            **running,
            "speculative_ddtree_topk": context.options.topk if drafter and drafter.budget else None,
            "max_speculative_num_draft_tokens": drafter.verify_tokens if drafter else None,
            "last_gen_throughput": context.serving.throughput_tok_s,
            "memory_usage": {"weight": 0.0, "kvcache": 0.0, "token_capacity": capacity, "graph": 0.0},
            "effective_max_running_requests_per_dp": most_running(context.settings),
        }
        return web.json_response(
            {
                **running,
                "status": "ready" if context.ready else "starting",
                "max_total_num_tokens": capacity,
                "max_req_input_len": context_length(context.settings) - _INPUT_RESERVE_TOKENS,
                "internal_states": [internal_state],
                "version": VERSION,
                "kv_events": None,
                "simulated": True,
                "simulation": {
                    "box": context.options.box.describe(),
                    "trained_block_size": context.options.trained_block_size,
                    "out_of_distribution": drafter is not None and drafter.out_of_distribution,
                    "noise": context.options.noise,
                },
            }
        )

    async def _model_info(self, request: web.Request) -> web.Response:
        self._say_deprecated(request, "/get_model_info", "/model_info")
        return web.json_response(
            {
                "model_path": self._context.settings["model_path"],
                "tokenizer_path": self._context.settings["tokenizer_path"],
                "is_generation": True,
                "preferred_sampling_params": None,
                "weight_version": self._context.tag,
                "has_image_understanding": False,
                "has_audio_understanding": False,
                "model_type": "simulated",
                "architectures": ["SimulatedForCausalLM"],
            }
        )

    async def _models(self, request: web.Request) -> web.Response:
        name = self._context.settings["served_model_name"]
        model = {
            "id": name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "sglang",
            "root": name,
            "parent": None,
            "max_model_len": context_length(self._context.settings),
        }
        return web.json_response({"object": "list", "data": [model]})

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=metrics.render(self._context.serving, self._context.settings))

    def _say_deprecated(self, request: web.Request, old: str, new: str) -> None:
        if request.path == old:
            self._context.log.line(
                f"Endpoint '{old}' is deprecated and will be removed in a future version. Please use '{new}' instead."
            )
