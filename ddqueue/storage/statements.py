"""The SQL on which concurrency hangs, one statement a file in sql/, each with a comment that says why it is so."""

from __future__ import annotations

from functools import cache

from sqlalchemy import TextClause, text

from ddqueue.storage.sql_files import sql


@cache
def statement(name: str) -> TextClause:
    """The statement in sql/NAME.sql; its parameters are written `:name`.

    Raises:
        FileNotFoundError: there is no such file.
    """
    return text(sql(name))


CURRENT_DEFINITIONS = (
    "triggers/job_moves_v1",
    "functions/intervals_v1",
    "views/points_v1",
    "views/coding_v1",
    "views/results_v1",
    "views/cell_points_v1",
    "views/break_even_v1",
    "views/pairs_v1",
    "views/pareto_v1",
    "views/noise_v1",
    "views/depths_v1",
    "views/failure_classes_v1",
    "views/failures_v1",
    "views/timeline_v1",
)
"""The triggers, functions and views that the newest migration leaves in the database, in order of creation."""


def definition(name: str) -> str:
    """The SQL of triggers, functions or a view, e.g. `views/points_v1`.

    A file that a migration has used never changes again, or old databases and new ones would differ; the next version
    is a new file.
    """
    folder, _, base = name.partition("/")
    return sql(base, folder)
