"""Answers: turns and contexts, facts, topics, users and threads, and how a memory stands."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final, Self

from pydantic import ConfigDict, Field, JsonValue, computed_field

from memory_agent import domain as values
from memory_agent.checks import checked_id, is_whole
from memory_agent.domain import MAX_SEQ, HistoryPage, Role, Scope, prompt_messages, prompt_text, split_user_id
from memory_agent.topics import stats, sweep
from memory_agent.wire.base import Answer, Instant, JsonObject, Wire
from memory_agent.wire.pages import Places

# --- turns, and what search brings back of them --------------------------------------------------------------
TURN_EXAMPLE: Final[dict[str, Any]] = {
    "id": "0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e10",
    "user_id": "user_123",
    "thread_id": "thread_abc",
    "seq": 7,
    "role": "user",
    "content": "I moved to Lisbon in May.",
    "speaker": None,
    "timestamp": "2026-06-02T08:15:30.125Z",
    "tokens": 8,
    "importance": None,
    "metadata": {"channel": "app"},
    "session_id": "0198f3a2-7a02-7f10-8c4d-1b2e3f405162",
    "entities": [],
    "given_entities": None,
    "utc_offset_minutes": 60,
    "topic_id": "0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e10",
    "compressed": False,
    "pending": [],
    "due_at": None,
    "attempts": 0,
    "last_error": None,
    "parked": False,
}


UpdateReceipt = Answer[values.UpdateReceipt]
Session = Answer[values.Session]


class Turn(Answer[values.Turn]):
    """One stored message."""

    model_config = ConfigDict(json_schema_extra={"examples": [TURN_EXAMPLE]})


class Recollection(Answer[values.Recollection]):
    """A turn that search brought back."""

    turn: Turn


class ChatMessage(Wire):
    """A message as chat models take it."""

    role: str
    content: str


HISTORY: Final[Places[HistoryPage, int]] = Places(
    of="turns",
    value=HistoryPage,
    items="turns",
    model=Turn,
    is_place=lambda place: is_whole(place, 0, MAX_SEQ),
)
"""Pages of `MemoryAgent.history`; a place is a turn's `seq`."""


# --- contexts ------------------------------------------------------------------------------------------------
SummaryItem = Answer[values.SummaryItem]
LedgerEntry = Answer[values.LedgerEntry]
KeyMoment = Answer[values.KeyMoment]
KeyTopic = Answer[values.KeyTopic]
Compression = Answer[values.Compression]
ContextBlock = Answer[values.ContextBlock]


class _Rendered(Wire):
    blocks: tuple[ContextBlock, ...]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def text(self) -> str:
        """The prompt text."""
        return prompt_text(block.domain() for block in self.blocks)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The same as chat messages, to be followed by the user's new one."""
        blocks = [block.domain() for block in self.blocks]
        return tuple(ChatMessage.model_validate(message) for message in prompt_messages(blocks))


_ALWAYS: Final = frozenset({"text", "tokens", "budget", "counts", "degraded", "preset"})


class MemoryContext(_Rendered, Answer[values.MemoryContext]):
    """Memory for answering a message: `text`, and of its parts those that were asked for with `include`."""

    model_config = ConfigDict(json_schema_extra=lambda schema: schema.update(required=[*sorted(_ALWAYS)]))

    blocks: tuple[ContextBlock, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    persona: str = ""
    summary: tuple[SummaryItem, ...] = ()
    preserved: tuple[Turn, ...] = ()
    facts: JsonObject = Field(default_factory=dict)
    entities: dict[str, list[str]] = Field(default_factory=dict)
    topic: str | None = None
    short_term: tuple[Turn, ...] = ()
    state: str = ""
    long_term: tuple[Recollection, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def counts(self) -> dict[values.Tier, int]:
        """How many items of each tier the text shows."""
        return self.domain().counts

    @classmethod
    def sent(cls, include: Collection[str]) -> frozenset[str]:
        """The names of the members of an answer in which these parts are included."""
        items = cls.model_fields.keys() - _ALWAYS - {"blocks", "ledger"}
        return _ALWAYS.union(items if "items" in include else (), include)


class CompressionMetadata(Answer[values.CompressionMetadata]):
    """The turns that a compressed context stands for, and the tokens it saves."""

    tokens_before: int
    tokens_after: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tokens_saved(self) -> int:
        """By having this context in their stead."""
        return self.tokens_before - self.tokens_after


class CompressedContext(_Rendered, Answer[values.CompressedContext]):
    """Compressed context of a whole conversation as of a turn."""

    preserved: tuple[Turn, ...]
    recent: tuple[Turn, ...]
    metadata: CompressionMetadata


class SessionSummary(Wire):
    """Summary of a conversation: a part of its `CompressedContext`, for reading alone."""

    text: str
    """All of it, in sections, as a model reads it."""
    items: tuple[SummaryItem, ...]
    moments: tuple[KeyMoment, ...]
    topics: tuple[KeyTopic, ...]
    journey: str
    """Empty where no language model told it."""
    decisions: str
    facts: JsonObject
    preserved: tuple[Turn, ...]
    made_by: str | None
    """"llm:…" or "extractive:…"; null where nothing is summed up."""
    through: int
    """The `seq` up to which turns are summed up; 0 if none are."""
    recorded: bool
    """Whether it is a compression's; before the first one it is taken out of the turns each time."""

    @classmethod
    def of(cls, context: values.CompressedContext) -> Self:
        """The summary within the context."""
        return cls(
            items=tuple(map(SummaryItem.of, context.summary)),
            moments=tuple(map(KeyMoment.of, context.moments)),
            topics=tuple(map(KeyTopic.of, context.topics)),
            text=str(context),
            journey=context.journey,
            decisions=context.decisions,
            facts=dict(context.facts),
            preserved=tuple(map(Turn.of, context.preserved)),
            made_by=context.metadata.made_by,
            through=context.metadata.summary_through,
            recorded=context.metadata.number > 0,
        )


# --- facts ---------------------------------------------------------------------------------------------------
FactRecord = Answer[values.FactRecord]


class Facts(Answer[values.KnownFacts]):
    """The facts, as one document; and how many messages facts are still to be taken from."""

    facts: JsonObject
    pending: int = 0

    @classmethod
    def of(cls, document: values.KnownFacts) -> "Facts":
        """The answer with this document."""
        return cls.model_validate({"facts": dict(document), "pending": document.pending})

    def domain(self) -> values.KnownFacts:
        """The document."""
        return values.KnownFacts.of(self.facts, self.pending)


# --- topics --------------------------------------------------------------------------------------------------
TopicStats = Answer[stats.TopicStats]


class TopicTurn(Answer[dict[str, Any]]):
    """A turn of a topic, word for word."""

    role: Role
    content: str
    timestamp: Instant

    def domain(self) -> dict[str, Any]:
        """The turn as `MemoryAgent.topic_history` lists it."""
        return self.model_dump()


class TopicContext(Answer[list[dict[str, str]]]):
    """Context for going on with a topic."""

    messages: tuple[ChatMessage, ...]
    """A system message with the topic's title, and where the turns behind it are not all, with a summary."""

    @classmethod
    def of(cls, messages: list[dict[str, str]]) -> "TopicContext":
        """The answer with these messages."""
        return cls.model_validate({"messages": messages})

    def domain(self) -> list[dict[str, str]]:
        """The messages as `MemoryAgent.topic_context` lists them."""
        return [message.model_dump() for message in self.messages]


# --- users and threads ---------------------------------------------------------------------------------------
UserSummary = Answer[values.UserSummary]
ThreadSummary = Answer[values.ThreadSummary]


def _is_id(place: JsonValue) -> bool:
    return isinstance(place, str) and checked_id("cursor", place) == place


USERS: Final[Places[values.UsersPage, str]] = Places(
    of="users or threads", value=values.UsersPage, items="users", model=UserSummary, is_place=_is_id
)
"""Pages of `MemoryService.users`; a place is an id."""
THREADS: Final[Places[values.ThreadsPage, str]] = Places(
    of="users or threads", value=values.ThreadsPage, items="threads", model=ThreadSummary, is_place=_is_id
)
"""Pages of `MemoryService.threads`."""


# --- pending work, erasures, events, entities and costs; the sweep, as it goes -------------------------------
WorkerStatus = Answer[values.WorkerStatus]
ParkedTurn = Answer[values.ParkedTurn]
MemoryStatus = Answer[values.MemoryStatus]
ForgetReceipt = Answer[values.ForgetReceipt]
ErasureReceipt = Answer[values.ErasureReceipt]
RebuildStep = Answer[values.RebuildStep]
EntityCount = Answer[values.EntityCount]
MemoryEvent = Answer[values.MemoryEvent]
SweepAction = Answer[sweep.SweepAction]
SweepProgress = Answer[sweep.SweepProgress]
SweepReport = Answer[sweep.SweepReport]


class TurnCount(Answer[int]):
    """The number of turns concerned."""

    turns: int

    def domain(self) -> int:
        """The count."""
        return self.turns


class CallCount(Answer[int]):
    """The number of forget calls that were made again."""

    calls: int

    def domain(self) -> int:
        """The count."""
        return self.calls


class Proof(Wire):
    """That who answers knows a key."""

    proof: str


class TenantAction(Wire):
    """A sweep's action with whose user it is, for a sweep goes over all tenants."""

    tenant: str
    action: SweepAction

    @classmethod
    def of(cls, value: sweep.SweepAction) -> Self:
        """The model of `value`."""
        return cls(tenant=split_user_id(value.user_id)[0], action=SweepAction.of(value))

    def domain(self) -> sweep.SweepAction:
        """The action, of the tenant's user. Raises InvalidInput for impossible ids."""
        action = self.action.domain()
        return replace(action, user_id=Scope.of(action.user_id, tenant=self.tenant).user_id)
