"""What ddqueue's programs say of themselves: their version, when they were last seen, and whose the box is."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, bindparam, update
from sqlalchemy.dialects.postgresql import JSONB

from ddqueue import __version__
from ddqueue.domain.borrowing import Borrow, Loan
from ddqueue.domain.inventory import Host
from ddqueue.storage import tables
from ddqueue.storage.compatibility import require_schema
from ddqueue.storage.engine import transaction
from ddqueue.storage.statements import statement


def introduce_worker(sql_engine: Engine, host: Host, loan: Loan | None) -> None:
    """Say that this version works on `host` now, on which terms the box is borrowed, and whether it is.

    Raises:
        SchemaRefused: this version must not work with the database; nothing was written.
        NotReachable: Postgres does not answer.
    """
    said = {
        "name": host.name,
        "gpus": host.gpus,
        "gpu_kind": host.gpu_kind,
        "interconnect": host.interconnect,
        "simulated": host.simulated,
        "worker_version": __version__,
        "borrow": _terms(host.borrow),
        **_loan(loan),
    }
    with transaction(sql_engine) as connection:
        require_schema(connection)
        connection.execute(statement("introduce_worker").bindparams(bindparam("borrow", type_=JSONB(True))), said)


def note_loan(sql_engine: Engine, host: str, loan: Loan | None) -> None:
    """Say that the box was taken or given back; None = production has it. Raises NotReachable."""
    with transaction(sql_engine) as connection:
        connection.execute(update(tables.hosts).where(tables.hosts.c.name == host).values(**_loan(loan)))


def _terms(borrow: Borrow | None) -> dict[str, Any] | None:
    if borrow is None:
        return None
    return {"hours": None if borrow.hours is None else str(borrow.hours), "idle_s": borrow.idle_s}


def _loan(loan: Loan | None) -> dict[str, Any]:
    return {
        "loan_state": None if loan is None else loan.state.value,
        "borrowed_since": None if loan is None else loan.since,
    }
