"""Coding checks: every answer as it came, and each judgement of it."""

from __future__ import annotations

from sqlalchemy import Boolean, CheckConstraint, Column, ForeignKey, Integer, Table, UniqueConstraint

from ddqueue.domain.coding import Outcome
from ddqueue.storage.tables.base import identity, metadata, moment, number, one_of, text

answers = Table(
    "answers",
    metadata,
    identity(),
    Column("attempt_id", ForeignKey("attempts.id", ondelete="CASCADE"), nullable=False),
    text("suite"),
    text("suite_digest", "equal for equal problems: only then may two scores be compared"),
    text("problem"),
    Column("concurrency", Integer, nullable=False, comment="requests in flight"),
    Column("sample", Integer, nullable=False, comment="counts how often the problem was asked at it, from 0"),
    moment("asked_at", null=False),
    number("duration_s", "seconds from the request to its end", null=False),
    text("content", "the answer as it came; null when the server sent none", null=True),
    text("reasoning", "what it thought, where the server tells it apart; null when it sent none", null=True),
    text("finish_reason", null=True),
    Column("prompt_tokens", Integer, comment="as the server counted them"),
    Column("output_tokens", Integer, comment="as the server counted them, reasoning and answer together"),
    text("tag", "the weight version in the answer itself; null where a build gives none", null=True),
    text("error", "exception type and text, or the server's own error", null=True),
    Column("simulated", Boolean, nullable=False, comment="ran on software GPUs: no model answered"),
    UniqueConstraint("attempt_id", "problem", "concurrency", "sample", name="answers_once"),
    CheckConstraint("concurrency > 0 AND sample >= 0", name="counts_positive"),
    CheckConstraint("duration_s >= 0 AND duration_s < 'Infinity'", name="duration_finite"),
    CheckConstraint("least(prompt_tokens, output_tokens) >= 0", name="tokens_positive"),
    comment="One answer to one coding problem, raw, so that it can be scored again without a server.",
)

scores = Table(
    "scores",
    metadata,
    Column("answer_id", ForeignKey("answers.id", ondelete="CASCADE"), primary_key=True),
    Column("revision", Integer, primary_key=True, autoincrement=False, comment="counts the judgements of it from 1"),
    moment("scored_at", null=False, now=True),
    text("scorer", "the versions of ddqueue and of its extractor"),
    text("outcome", "passed, failed, no_code, no_answer, not_asked or not_graded"),
    text("rule", "how the code was found in the answer"),
    text("detail", "what decided"),
    text("code", "what was run; null when there was nothing to run", null=True),
    CheckConstraint("revision > 0", name="revision_positive"),
    CheckConstraint(one_of("outcome", Outcome), name="outcome_known"),
    CheckConstraint("outcome NOT IN ('passed', 'failed') OR code IS NOT NULL", name="judged_by_running"),
    comment="One judgement of one answer. A rescore adds a revision and changes none; the newest one counts.",
)
