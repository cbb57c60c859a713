"""Publishing wake-ups: at most one message a host."""

from __future__ import annotations

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from ddqueue.domain.queueing import NextJob
from ddqueue.errors import NotReachable
from ddqueue.queue.app import TASK, WAKE_EXPIRES_S, queue_of


class CeleryWakeups:
    """Sends through the application's broker."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def wake(self, job: NextJob) -> None:
        queue = queue_of(job.host)
        try:
            with self._app.connection_for_write() as connection:
                # A worker that was stopped for a while would else meet every wake-up sent meanwhile.
                connection.default_channel.client.delete(queue)
                self._app.send_task(
                    TASK,
                    args=(job.job_id, job.host),
                    queue=queue,
                    connection=connection,
                    retry=False,
                    expires=WAKE_EXPIRES_S,
                    # What Flower shows: few-valued names (they become metric labels), the cell in the arguments.
                    shadow=f"{job.sweep} {job.model}",
                    argsrepr=f"job {job.job_id} on {job.host}: {job.parallel} {job.cell_label}",
                    kwargsrepr="",
                )
        except (OperationalError, RedisError, OSError) as error:
            raise NotReachable(f"the broker did not take a wake-up: {type(error).__name__}") from error
