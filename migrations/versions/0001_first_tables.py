"""The first tables: sweeps, the queue, attempts, measurements, coding checks, with the trigger and views on them."""

from importlib.resources import files

from alembic import op

from ddqueue.storage.statements import definition

revision = "0001"
down_revision = None

DEFINITIONS = (
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
"""Functions before the views that use them, and views before those that read them."""


def upgrade() -> None:
    for name in ("compatibility", "sweeps", "queue", "attempts", "measurements", "coding", "webhooks"):
        _run(files("migrations").joinpath("sql", f"0001_{name}.sql").read_text(encoding="utf-8"))
    for name in DEFINITIONS:
        _run(definition(name))


def _run(script: str) -> None:
    """Several statements in one text; a `%` in them is no placeholder."""
    op.get_bind().execution_options(no_parameters=True).exec_driver_sql(script)
