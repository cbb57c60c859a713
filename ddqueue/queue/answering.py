"""Whether a worker answers over the broker, which its main loop does also while an attempt runs."""

from __future__ import annotations

from celery import Celery

from ddqueue.errors import NotReachable


def answers(app: Celery, host: str, limit_s: float) -> bool:
    """Ask the host's worker, and wait for at most `limit_s`. Raises NotReachable when the broker does not answer."""
    name = f"gpu@{host}"
    with app.connection_for_write() as connection:
        try:
            connection.ensure_connection(max_retries=1)
            replies = app.control.ping([name], timeout=limit_s, connection=connection)
        except (OSError, *connection.connection_errors) as error:
            raise NotReachable(f"the broker did not answer: {error}") from error
    return any(name in reply for reply in replies or ())
