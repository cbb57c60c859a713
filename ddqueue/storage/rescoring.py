"""Stored answers of a sweep, to be scored again."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Engine, RowMapping, select

from ddqueue.domain.coding import Answer, Outcome, Score
from ddqueue.ports import StoredAnswer
from ddqueue.storage import tables
from ddqueue.storage.coding import score_row
from ddqueue.storage.engine import transaction
from ddqueue.storage.statements import statement
from ddqueue.storage.storable import Cleaner


class PostgresScoreStore:
    """Implements ports.ScoreStore."""

    def __init__(self, sql_engine: Engine) -> None:
        self._sql_engine = sql_engine

    def answers(self, sweep_id: int) -> list[StoredAnswer]:
        """Those of running attempts are left out: these judge their answers themselves."""
        with transaction(self._sql_engine) as connection:
            rows = connection.execute(statement("read_answers"), {"sweep_id": sweep_id}).mappings().all()
        return [_stored(row) for row in rows]

    def add_scores(self, scorer: str, scores: Mapping[int, Score]) -> None:
        """What cannot be stored as it is in a score is replaced, as everywhere."""
        cleaner = Cleaner()
        rows = [
            {"answer_id": answer_id, "scorer": scorer, **score_row(score, cleaner)}
            for answer_id, score in sorted(scores.items())
        ]
        if rows:
            with transaction(self._sql_engine) as connection:
                # Locked in one order and before the next revisions are counted, so that of two rescores at once one
                # waits, and then adds its own revision.
                answers = tables.answers
                held = select(answers.c.id).where(answers.c.id.in_(scores)).order_by(answers.c.id).with_for_update()
                connection.execute(held).all()
                connection.execute(statement("add_score"), rows)


def _stored(row: RowMapping) -> StoredAnswer:
    answer = Answer(
        problem=row["problem"],
        concurrency=row["concurrency"],
        sample=row["sample"],
        asked_at=row["asked_at"],
        duration_s=row["duration_s"],
        content=row["content"],
        reasoning=row["reasoning"],
        finish_reason=row["finish_reason"],
        prompt_tokens=row["prompt_tokens"],
        output_tokens=row["output_tokens"],
        tag=row["tag"],
        error=row["error"],
    )
    return StoredAnswer(
        answer_id=row["id"],
        job_id=row["job_id"],
        attempt=row["attempt"],
        host=row["host"],
        parallel=row["parallel"],
        label=row["label"],
        suite=row["suite"],
        suite_digest=row["suite_digest"],
        answer=answer,
        score=None if row["outcome"] is None else Outcome(row["outcome"]),
    )
