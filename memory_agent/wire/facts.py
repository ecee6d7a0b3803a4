"""Facts: what is known, its history, and what extraction would change."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, JsonValue, model_validator

from memory_agent import domain as values
from memory_agent.domain import DEFAULT_TENANT, ChangeKind, FactOp
from memory_agent.facts import compare, replay
from memory_agent.wire.base import Answer, Instant, JsonObject, Many, PublicText, UserId
from memory_agent.wire.work import ExtractionCost

Keys = Many[str]


class Facts(BaseModel):
    """What is known, as one document."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    facts: JsonObject

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Facts":
        """The answer with this document."""
        return cls.model_validate({"facts": document})

    def domain(self) -> dict[str, Any]:
        """The document."""
        return dict(self.facts)


class FactSource(Answer[values.FactSource]):
    """Where a fact comes from: the turn with the span that says so, or a person's edit."""

    turn_id: str | None
    """Null for a person's edit."""
    thread_id: str
    quote: str | None
    """The span of the turn that says so, word for word."""
    extractor: str
    said_at: Instant


class FactRecord(Answer[values.FactRecord]):
    """A change of a fact as the history shows it."""

    id: str
    """Names it within its thread, for `revert`; in the history of all threads: thread, slash, id."""
    thread_id: str
    op: FactOp
    path: Keys
    """The keys from the document's root; [] is the whole document."""
    value: JsonValue
    old: JsonValue
    """What it replaced or removed; null: nothing."""
    sources: Many[FactSource]
    """All that said the same, the first first."""
    confidence: float
    valid_from: str | None
    """Since when it holds, if the text says so: a year, a month or a day."""
    said_at: Instant
    recorded_at: Instant
    last_seen: Instant
    stands: bool
    superseded_by: str | None
    """The id of the change that ended it."""
    refused: str | None
    """Why it was not believed; then it changed nothing."""


class FactEvent(Answer[values.FactEvent]):
    """One change of one fact, as it is stored."""

    op: FactOp
    path: Keys
    value: JsonValue
    quote: str | None
    confidence: float
    valid_from: str | None
    to: tuple[str, int, int] | None
    """For `revert`: the place in the history that the path goes back to."""


class RefusedFact(Answer[values.RefusedFact]):
    """What an extractor stated and was not believed."""

    path: str
    said: str
    quote: str | None
    reason: str
    op: FactOp


class FactChange(Answer[values.FactChange]):
    """What one turn or one edit brought about."""

    key: str
    kind: ChangeKind
    at: str
    turn_id: str | None
    turns: Many[str]
    said_at: Instant
    recorded_at: Instant
    extractor: str
    events: Many[FactEvent]
    refused: Many[RefusedFact]
    generation: str
    thread_id: str
    seq: int
    idempotency_key: str | None


class FactDifference(Answer[compare.FactDifference]):
    """A value that stands only before, only after, or has another value after."""

    kind: Literal["added", "removed", "changed"]
    path: Keys
    before: JsonValue
    after: JsonValue
    sources_before: Many[FactSource]
    sources_after: Many[FactSource]


class Scope(Answer[values.Scope]):
    """Whose memory: one thread of a user."""

    user_id: UserId
    thread_id: str | None


class UnreadTurn(Answer[tuple[str, str]]):
    """A turn about which the model's answer could not be read."""

    turn_id: str
    problem: PublicText

    @model_validator(mode="before")
    @classmethod
    def _from_pair(cls, value: object) -> object:
        return {"turn_id": value[0], "problem": value[1]} if isinstance(value, tuple) else value

    def domain(self) -> tuple[str, str]:
        """The turn's id and what was wrong."""
        return self.turn_id, self.problem


class FactProposal(Answer[replay.FactProposal]):
    """What the facts of a thread would become. Posted back as it is, it is applied."""

    id: str
    scope: Scope
    extractor: str
    before: JsonObject
    after: JsonObject
    differences: Many[FactDifference]
    """What changes, by path."""
    refused: Many[FactRecord]
    """Stated facts that were not believed, with the reason."""
    failed: Many[UnreadTurn]
    """What is known from these turns stays."""
    turns: int
    """How many turns were looked at."""
    cost: ExtractionCost
    changes: Many[FactChange]
    """What applying it stores."""
    preview: bool
    """It shows what extraction would do, and cannot be applied."""

    def domain(self, *, tenant: str = DEFAULT_TENANT) -> replay.FactProposal:
        """The proposal for the user of that tenant. Raises InvalidInput for impossible ids."""
        return replay.FactProposal(
            id=self.id,
            scope=values.Scope.of(self.scope.user_id, self.scope.thread_id, tenant=tenant),
            extractor=self.extractor,
            before=dict(self.before),
            after=dict(self.after),
            differences=tuple(difference.domain() for difference in self.differences),
            refused=tuple(record.domain() for record in self.refused),
            failed=tuple(unread.domain() for unread in self.failed),
            turns=self.turns,
            cost=self.cost.domain(),
            changes=tuple(change.domain() for change in self.changes),
            preview=self.preview,
        )


class ExtractedTurns(BaseModel):
    """From how many turns facts are to be extracted; settle waits for it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    turns: int


class ReplayId(BaseModel):
    """The replay that was applied or undone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    replay_id: str
