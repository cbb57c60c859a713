"""The first tables: sweeps, the queue, attempts, measurements, coding checks, with the trigger and views on them."""

from importlib.resources import files

from alembic import op

from ddqueue.storage.statements import definition

revision = "0001"
down_revision = None


def upgrade() -> None:
    for name in ("sweeps", "queue", "attempts", "measurements", "coding"):
        _run(files("migrations").joinpath("sql", f"0001_{name}.sql").read_text(encoding="utf-8"))
    for name in ("triggers/job_moves_v1", "views/points_v1", "views/coding_v1", "views/results_v1"):
        _run(definition(name))


def _run(script: str) -> None:
    """Several statements in one text; a `%` in them is no placeholder."""
    op.get_bind().execution_options(no_parameters=True).exec_driver_sql(script)
