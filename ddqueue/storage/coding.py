"""Answers to coding problems and their scores, as rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert as upsert

from ddqueue.domain.coding import Answer, Score
from ddqueue.storage import tables
from ddqueue.storage.storable import Cleaner

FIRST_REVISION = 1
"""The judgement that the attempt itself makes."""


def answer_key(answer: Answer) -> dict[str, Any]:
    """The columns that name one answer of an attempt."""
    return {"problem": answer.problem, "concurrency": answer.concurrency, "sample": answer.sample}


def answer_row(answer: Answer, cleaner: Cleaner) -> dict[str, Any]:
    """The columns of `answers`, but for the attempt's and the suite's."""
    where = f"answers[{answer.problem}, C={answer.concurrency}, {answer.sample}]"
    return {
        **answer_key(answer),
        "asked_at": answer.asked_at,
        "duration_s": answer.duration_s,
        "content": cleaner.optional_text(answer.content, f"{where}.content"),
        "reasoning": cleaner.optional_text(answer.reasoning, f"{where}.reasoning"),
        "finish_reason": cleaner.optional_text(answer.finish_reason, f"{where}.finish_reason"),
        "prompt_tokens": answer.prompt_tokens,
        "output_tokens": answer.output_tokens,
        "tag": cleaner.optional_text(answer.tag, f"{where}.tag"),
        "error": cleaner.optional_text(answer.error, f"{where}.error"),
    }


def score_row(score: Score, cleaner: Cleaner) -> dict[str, Any]:
    """The columns of `scores`, but for which answer, which revision and by whom."""
    return {
        "outcome": score.outcome.value,
        "rule": cleaner.text(score.rule, "score.rule"),
        "detail": cleaner.text(score.detail, "score.detail"),
        "code": cleaner.optional_text(score.code, "score.code"),
    }


def write_answers(connection: Connection, attempt_id: int, values: Mapping[str, Any]) -> None:
    """Store what `entries.answers_entry` holds; an answer stored before stands."""
    attempts = tables.attempts
    simulated = connection.execute(select(attempts.c.simulated).where(attempts.c.id == attempt_id)).scalar_one()
    of_all = {
        "attempt_id": attempt_id,
        "simulated": simulated,
        "suite": values["suite"],
        "suite_digest": values["suite_digest"],
    }
    rows = [{**of_all, **row, "asked_at": datetime.fromisoformat(row["asked_at"])} for row in values["answers"]]
    if rows:
        connection.execute(upsert(tables.answers).on_conflict_do_nothing(constraint="answers_once"), rows)


def write_scores(connection: Connection, attempt_id: int, values: Mapping[str, Any]) -> None:
    """Store what `entries.scores_entry` holds, as the first judgement of each answer; one stored before stands."""
    answers = tables.answers
    found = connection.execute(
        select(answers.c.id, answers.c.problem, answers.c.concurrency, answers.c.sample).where(
            answers.c.attempt_id == attempt_id
        )
    )
    ids = {(row.problem, row.concurrency, row.sample): row.id for row in found}
    rows = [
        {
            "answer_id": ids[row["problem"], row["concurrency"], row["sample"]],
            "revision": FIRST_REVISION,
            "scorer": values["scorer"],
            **{name: row[name] for name in ("outcome", "rule", "detail", "code")},
        }
        for row in values["scores"]
    ]
    if rows:
        connection.execute(upsert(tables.scores).on_conflict_do_nothing(index_elements=["answer_id", "revision"]), rows)
