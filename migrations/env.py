"""Alembic's entry: runs inside the connection that `ddqueue db upgrade` hands over.

A migration waits briefly for locks and gives up rather than block the queue's writers behind it; one advisory lock
keeps two upgrades apart; each migration is one transaction of its own, so that those before a failing one stay done.
"""

from alembic import context
from sqlalchemy import Connection, text

from ddqueue.storage.tables import metadata

LOCK_WAIT = "4s"
UPGRADE_LOCK = 0x6464_7176
"""The key of the advisory lock: the dispatcher's, plus one."""


def run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=True)
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": UPGRADE_LOCK})
    connection.execute(text(f"SET lock_timeout = '{LOCK_WAIT}'"))
    connection.commit()
    try:
        with context.begin_transaction():
            context.run_migrations()
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": UPGRADE_LOCK})
        connection.commit()


run(context.config.attributes["connection"])
