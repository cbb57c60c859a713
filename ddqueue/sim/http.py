"""The HTTP application: every route, SGLang's error bodies, uvicorn's access log."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from ddqueue.sim.chat import ChatRoute
from ddqueue.sim.context import ServerContext
from ddqueue.sim.control import ControlRoutes
from ddqueue.sim.generate import GenerateRoute
from ddqueue.sim.information import InformationRoutes
from ddqueue.sim.log import ServerLog
from ddqueue.sim.requests import BadRequest

_LARGEST_BODY = 64 * 2**20


def application(context: ServerContext) -> web.Application:
    """All routes of one server."""
    app = web.Application(client_max_size=_LARGEST_BODY, middlewares=[_answering(context.log)])
    for group in (InformationRoutes, GenerateRoute, ChatRoute, ControlRoutes):
        app.add_routes(group(context).routes())
    return app


def _answering(log: ServerLog) -> Middleware:
    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        peer = request.transport.get_extra_info("peername") if request.transport else None
        response: web.StreamResponse
        try:
            response = await handler(request)
        except BadRequest as error:
            log.line(f"[http_server] Error: {error}")
            response = web.json_response({"error": {"message": str(error)}}, status=400)
        except web.HTTPException as error:
            response = web.json_response({"detail": error.reason}, status=error.status)
        caller = f"{peer[0]}:{peer[1]}" if peer else "-"
        log.access(caller, f"{request.method} {request.path_qs} HTTP/1.1", response.status)
        return response

    return answer
