"""The Celery application. Redis carries nudges: nothing in it is the truth, and losing all of it loses a nudge."""

from __future__ import annotations

from celery import Celery

TASK = "ddqueue.run_job"
"""The one task; its arguments are a job's id and the host's name."""

WAKE_EXPIRES_S = 60
"""A wake-up nobody took for so long is stale: the dispatcher sends another."""


def queue_of(host: str) -> str:
    """The host's own queue; the dispatcher keeps at most one message in it."""
    return f"gpu.{host}"


def make_app(broker_url: str) -> Celery:
    """An application whose settings each answer a fault that was seen (docs/decisions/0002)."""
    app = Celery("ddqueue", broker=broker_url)
    app.conf.update(
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
            "health_check_interval": 10,
        },
        task_serializer="json",
        event_serializer="json",
        accept_content=["json"],
        worker_send_task_events=True,
        task_send_sent_event=True,
        task_track_started=True,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
    )
    return app
