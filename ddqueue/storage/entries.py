"""What an attempt stores, as plain JSON values: fit for a line of the journal today and for Postgres later."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from ddqueue.domain.coding import Answer, Scored, Suite
from ddqueue.domain.failures import Failure
from ddqueue.domain.measurement import Measurement
from ddqueue.domain.queueing import Claim, PhaseRecord
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.ports import ConfigurationCheck
from ddqueue.storage.coding import answer_key, answer_row, score_row
from ddqueue.storage.measured import measurement_row, sample_rows, telemetry_rows
from ddqueue.storage.storable import Cleaner


@dataclass(frozen=True)
class Term:
    """One attempt's hold on its job: what every write of it must name."""

    job_id: int
    fence: int
    attempt_id: int
    attempt_number: int
    host: str
    sweep_id: int

    @classmethod
    def of(cls, claim: Claim) -> Term:
        return cls(claim.job_id, claim.fence, claim.attempt_id, claim.attempt_number, claim.host, claim.sweep_id)


class EntryKind(StrEnum):
    """What can be stored."""

    PHASE = "phase"
    PROVENANCE = "provenance"
    CONFIGURATION = "configuration"
    MEASUREMENT = "measurement"
    ANSWERS = "answers"
    SCORES = "scores"
    FINISH = "finish"


@dataclass(frozen=True)
class Entry:
    """One thing to store. `values` holds plain JSON values only, times as ISO 8601; `notes` what was cleaned."""

    kind: EntryKind
    values: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """The entry in words, for the text of a refusal."""
        return f"{self.kind} {self.values['name']!r}" if self.kind is EntryKind.PHASE else str(self.kind)

    def to_line(self) -> str:
        return json.dumps({"kind": self.kind.value, "values": self.values, "notes": self.notes}, allow_nan=False)

    @classmethod
    def from_line(cls, line: str) -> Entry:
        """Raises ValueError, KeyError or TypeError for a line that is none."""
        found = json.loads(line)
        return cls(EntryKind(found["kind"]), found["values"], tuple(found["notes"]))


@dataclass
class _Draft:
    cleaner: Cleaner = field(default_factory=Cleaner)

    def entry(self, kind: EntryKind, values: Mapping[str, Any]) -> Entry:
        return Entry(kind, values, tuple(self.cleaner.notes))


def phase_entry(phase: PhaseRecord) -> Entry:
    draft = _Draft()
    values = {
        "name": phase.name,
        "started_at": phase.started_at.isoformat(),
        "duration_s": max(draft.cleaner.number(phase.duration_s, "duration_s") or 0.0, 0.0),
        "detail": draft.cleaner.text(phase.detail, f"{phase.name}.detail"),
    }
    return draft.entry(EntryKind.PHASE, values)


def provenance_entry(values: Mapping[str, Any]) -> Entry:
    draft = _Draft()
    return draft.entry(EntryKind.PROVENANCE, {"provenance": draft.cleaner.json(values, "provenance")})


def configuration_entry(check: ConfigurationCheck) -> Entry:
    draft = _Draft()
    values = {
        "requested": draft.cleaner.json(check.requested, "requested"),
        "effective": draft.cleaner.json(check.effective, "effective"),
        "difference": draft.cleaner.json(check.difference, "difference"),
        "effective_hash": check.effective_hash or None,
    }
    return draft.entry(EntryKind.CONFIGURATION, values)


def measurement_entry(measurement: Measurement) -> Entry:
    draft = _Draft()
    row = measurement_row(measurement, draft.cleaner)
    values = {
        "measurement": {**row, "started_at": row["started_at"].isoformat()},
        "samples": sample_rows(measurement, draft.cleaner),
        "telemetry": telemetry_rows(measurement, draft.cleaner),
    }
    return draft.entry(EntryKind.MEASUREMENT, values)


def answers_entry(suite: Suite, answers: Sequence[Answer]) -> Entry:
    draft = _Draft()
    rows = [answer_row(answer, draft.cleaner) for answer in answers]
    values = {
        "suite": draft.cleaner.text(suite.name, "suite"),
        "suite_digest": suite.digest,
        "answers": [{**row, "asked_at": row["asked_at"].isoformat()} for row in rows],
    }
    return draft.entry(EntryKind.ANSWERS, values)


def scores_entry(scorer: str, scored: Sequence[Scored]) -> Entry:
    draft = _Draft()
    rows = [{**answer_key(one.answer), **score_row(one.score, draft.cleaner)} for one in scored]
    return draft.entry(EntryKind.SCORES, {"scorer": scorer, "scores": rows})


def finish_entry(outcome: AttemptOutcome, decision: Decision, failure: Failure | None, evidence: str | None) -> Entry:
    draft = _Draft()
    values = {
        "outcome": outcome.value,
        "decision": {**asdict(decision), "state": decision.state.value},
        "failure": failure.value if failure else None,
        "evidence": draft.cleaner.optional_text(evidence, "evidence"),
    }
    return draft.entry(EntryKind.FINISH, values)


def finish_of(entry: Entry) -> tuple[AttemptOutcome, Decision, Failure | None, str | None]:
    """What `finish_entry` was made of."""
    values = entry.values
    decision = values["decision"]
    failure = values["failure"]
    return (
        AttemptOutcome(values["outcome"]),
        Decision(**{**decision, "state": JobState(decision["state"])}),
        Failure(failure) if failure else None,
        values["evidence"],
    )
