"""What all tables share: the metadata with its naming rules, and short forms of recurring columns."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, Column, DateTime, Double, Identity, MetaData, Text, func

metadata = MetaData(
    naming_convention={
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "pk": "%(table_name)s_pkey",
    }
)


def identity() -> Column[Any]:
    """The primary key that Postgres counts."""
    return Column("id", BigInteger, Identity(always=True), primary_key=True)


def text(name: str, comment: str | None = None, *, null: bool = False) -> Column[Any]:
    return Column(name, Text, nullable=null, comment=comment)


def moment(name: str, comment: str | None = None, *, null: bool = True, now: bool = False) -> Column[Any]:
    """A point in time; `now` = the statement's own time unless given."""
    default = func.clock_timestamp() if now else None
    return Column(name, DateTime(timezone=True), nullable=null, server_default=default, comment=comment)


def number(name: str, comment: str, *, null: bool = True) -> Column[Any]:
    """A measured quantity; null = could not be measured, never zero."""
    return Column(name, Double, nullable=null, comment=comment)


def one_of(column: str, values: Iterable[StrEnum]) -> str:
    """The text of a CHECK that keeps `column` within an enumeration."""
    return f"{column} IN ({', '.join(repr(value.value) for value in values)})"
