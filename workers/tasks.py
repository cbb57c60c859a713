"""The one task, thin: it starts an attempt process and waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery

from ddqueue.queue.app import TASK
from ddqueue.queue.events import EventSender
from workers.borrowed import BorrowedBox


class NotDone(Exception):
    """The attempt did not end in a success. Raised so that Flower shows FAILURE; Postgres already knows more."""


def register(app: Celery, box: BorrowedBox, events: EventSender, give_up: Callable[[str], None]) -> None:
    """Add the task to the application. `give_up` is told why no attempt of this worker can work any more."""

    @app.task(bind=True, name=TASK, throws=(NotDone,))  # type: ignore[untyped-decorator]
    def run_job(self: Any, job_id: int, host: str) -> str:
        task_id = self.request.id
        try:
            report = box.run(host, job_id, lambda phase, text: events.tell(task_id, phase, f"{phase} {text}"))
        finally:
            events.forget()
        if report.refused:
            give_up(report.text)
        if not report.worked or report.text != "succeeded":
            raise NotDone(report.text)
        return report.text
