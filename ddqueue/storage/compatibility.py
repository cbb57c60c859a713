"""Whether this version may work with the database, asked on a connection that is there already."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, text

from ddqueue.domain.compatibility import SchemaState, refusal
from ddqueue.errors import SchemaRefused
from ddqueue.storage.engine import transaction

KNOWN = "0001"
"""The newest migration that this version knows. Written down because to ask Alembic would cost every attempt the time
that its import takes, while the GPUs stand idle; a test compares the two."""

_TABLES = text("SELECT to_regclass('alembic_version') IS NOT NULL AND to_regclass('schema_compatibility') IS NOT NULL")
_STATE = text("SELECT version_num, oldest_supported FROM schema_compatibility LEFT JOIN alembic_version ON true")


def check_schema(sql_engine: Engine) -> None:
    """Raises SchemaRefused when this version must not work with the database, NotReachable when it does not answer."""
    with transaction(sql_engine) as connection:
        require_schema(connection)


def schema_state(sql_engine: Engine) -> SchemaState:
    """Raises NotReachable."""
    with transaction(sql_engine) as connection:
        return _state(connection)


def require_schema(connection: Connection) -> None:
    """`check_schema` within a transaction, for what must not happen in a database that is not ours to write to."""
    why_not = refusal(KNOWN, _state(connection))
    if why_not is not None:
        raise SchemaRefused(why_not)


def _state(connection: Connection) -> SchemaState:
    if not connection.execute(_TABLES).scalar_one():
        return SchemaState(None, None)
    row = connection.execute(_STATE).one_or_none()
    return SchemaState(None, None) if row is None else SchemaState(row.version_num, row.oldest_supported)
