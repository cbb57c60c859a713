"""The Celery application. Redis carries nudges: nothing in it is the truth, and losing all of it loses a nudge."""

from __future__ import annotations

import socket
from typing import Any

from celery import Celery
from celery.app.amqp import AMQP
from kombu.connection import Connection

from ddqueue.queue.admission import TASK
from ddqueue.queue.tls import broker_tls
from ddqueue.queue.transport import GPU_QUEUE, GuardedTransport

__all__ = ("TASK", "WAKE_EXPIRES_S", "make_app", "queue_of")

WAKE_EXPIRES_S = 60
"""A wake-up nobody took for so long is stale: the dispatcher sends another."""


_RECONNECT_EVERY_S = 1.0

# A cut cable must be noticed within seconds, as on Postgres's side. Kombu gives up a wait for a message after 16 s
# without an answer, but waits for none while a task runs; the kernel's own keepalive begins after two hours.
_KEEPALIVE = {
    socket.TCP_KEEPIDLE: 3,
    socket.TCP_KEEPINTVL: 1,
    socket.TCP_KEEPCNT: 3,
    socket.TCP_USER_TIMEOUT: 4000,
}


class _SteadyConnection(Connection):
    """Tries again every second. Celery's consumer would wait two seconds longer each time, up to thirty, and a worker
    would stay away for that long after its broker is back."""

    def _ensure_connection(self, *args: Any, **options: Any) -> Any:
        steady = {"interval_start": _RECONNECT_EVERY_S, "interval_step": 0, "interval_max": _RECONNECT_EVERY_S}
        return super()._ensure_connection(*args, **{**steady, **options})  # type: ignore[no-untyped-call]  # kombu has no types

    def get_transport_cls(self) -> type[GuardedTransport]:
        return GuardedTransport


class _Amqp(AMQP):  # type: ignore[misc]  # Celery has no types
    Connection = _SteadyConnection


def queue_of(host: str) -> str:
    """The host's own queue; the dispatcher keeps at most one message in it."""
    return f"{GPU_QUEUE}{host}"


def make_app(broker_url: str) -> Celery:
    """An application whose settings each answer a fault that was seen (docs/decisions/0002).

    Raises:
        UsageError: the URL is not one of Redis, or asks for TLS in a way that nobody knows.
    """
    bare_url, tls = broker_tls(broker_url)
    app = Celery("ddqueue", broker=bare_url, amqp=_Amqp)
    app.conf.update(
        broker_use_ssl=tls,
        # Early acknowledgement: a late one runs a second copy as soon as a connection is cut.
        task_acks_late=False,
        task_reject_on_worker_lost=False,
        result_backend=None,
        task_ignore_result=True,
        # A thread that waits for the attempt's process; a prefork child would die with its parent and leave SGLang.
        worker_pool="threads",
        worker_concurrency=1,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # The dispatcher tries again by itself; a publisher that tries hangs on a frozen broker.
        task_publish_retry=False,
        broker_transport_options={
            "visibility_timeout": 86400,
            "socket_timeout": 5,
            "socket_connect_timeout": 3,
            "socket_keepalive": True,
            "socket_keepalive_options": _KEEPALIVE,
            "health_check_interval": 10,
        },
        task_serializer="json",
        event_serializer="json",
        accept_content=["json"],
        worker_send_task_events=True,
        # A wake-up that nobody takes is sent again every few seconds: each would be a row of Flower that never changes.
        task_send_sent_event=False,
        task_track_started=True,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
    )
    return app
