"""Progress for Flower. Events never hold up or fail a job: one sender thread, a small queue, drop when full."""

from __future__ import annotations

import logging
import queue
import threading
from dataclasses import dataclass

from celery import Celery

log = logging.getLogger(__name__)

_QUEUED_AT_MOST = 50
_TEXT_LIMIT = 200


@dataclass(frozen=True)
class _Event:
    task_id: str
    state: str
    text: str


class EventSender:
    """Sends custom task states (`task-measure` shows as MEASURE), the text in the result column."""

    def __init__(self, app: Celery, worker_name: str) -> None:
        self._app = app
        self._worker_name = worker_name
        self._waiting: queue.Queue[_Event] = queue.Queue(_QUEUED_AT_MOST)
        self._thread: threading.Thread | None = None

    def tell(self, task_id: str, state: str, text: str) -> None:
        """Never blocks and never raises."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="events", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(_Event(task_id, state.replace(" ", "-"), text[:_TEXT_LIMIT]))
        except queue.Full:
            log.debug("an event was dropped: the broker is slow")

    def forget(self) -> None:
        """Drop what still waits: its task has ended."""
        try:
            while True:
                self._waiting.get_nowait()
        except queue.Empty:
            return

    def _run(self) -> None:
        event = self._waiting.get()
        while True:
            try:
                with (
                    self._app.connection_for_write() as connection,
                    self._app.events.Dispatcher(
                        connection, hostname=self._worker_name, buffer_while_offline=False
                    ) as dispatcher,
                ):
                    while True:
                        dispatcher.send(f"task-{event.state}", uuid=event.task_id, result=event.text, retry=False)
                        event = self._waiting.get()
            except Exception as error:  # whatever the broker does, the job goes on
                log.debug("an event was dropped: %s", type(error).__name__)
                event = self._waiting.get()
