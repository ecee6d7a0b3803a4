"""The domain's values: frozen, keyword-only, free of any driver.

Times are timezone-aware UTC with millisecond precision (what every store keeps); `seq` counts from 1 within a
thread; similarities are cosines in [-1, 1]; tokens are counted by the configured token counter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np
import uuid_utils

from memory_agent.checks import checked_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

Role = Literal["user", "assistant", "system", "tool"]
Stage = Literal["index", "topics", "facts", "compact"]
"""What can be owed to a stored turn, in the order the worker runs it."""

ROLES: Final[tuple[Role, ...]] = get_args(Role)
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)


def _no_embedding() -> NDArray[np.float16]:
    return np.empty(0, dtype=np.float16)


def new_id() -> str:
    """A UUIDv7 as text: unique everywhere, and ids made later sort later."""
    return str(uuid_utils.uuid7())


def stored_at(turn_id: str) -> datetime:
    """When the turn was admitted, in UTC to the millisecond, as its UUIDv7 says (RFC 9562, section 5.7)."""
    return datetime.fromtimestamp(uuid_utils.UUID(turn_id).timestamp / 1000, tz=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """Whose memory: one thread of a user, or (`thread_id=None`) all threads of one user.

    There is no scope for "everybody": an empty or missing user id is refused, never read as "all".
    """

    user_id: str
    thread_id: str | None = None

    def __post_init__(self) -> None:
        checked_id("user_id", self.user_id)
        if self.thread_id is not None:
            checked_id("thread_id", self.thread_id)

    @property
    def user(self) -> Scope:
        """All threads of the same user."""
        return Scope(user_id=self.user_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnInput:
    """One message as a caller hands it to `add_turns`; checked when it is admitted."""

    role: str
    content: str
    speaker: str | None = None
    timestamp: datetime | None = None
    metadata: Mapping[str, Any] | None = None
    importance: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnDraft:
    """An admitted turn, complete but for the `seq` that the store assigns.

    `call_index` and `call_size` place it within the call that brought it, so that a repeat of the call (same
    `idempotency_key`) can be recognised even if a crash cut the first one short.
    """

    id: str
    role: Role
    content: str
    speaker: str | None
    timestamp: datetime
    tokens: int
    importance: float | None
    metadata: Mapping[str, Any]
    pending: tuple[Stage, ...]
    due_at: datetime
    """From when on its stages may run."""
    idempotency_key: str | None
    call_index: int
    call_size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One stored message. `pending` are the stages still owed to it; `parked` if they keep failing."""

    id: str
    user_id: str
    thread_id: str
    seq: int
    role: Role
    content: str
    speaker: str | None
    timestamp: datetime
    tokens: int
    importance: float | None
    metadata: Mapping[str, Any]
    topic_id: str | None = None
    """The topic it was assigned to; topics that were merged since are looked up by `Topic.absorbed`."""
    compressed: bool = False
    """Its text is kept packed in a segment; reading it makes no difference."""
    pending: tuple[Stage, ...] = ()
    due_at: datetime | None = None
    """When its next owed stage may run; None if nothing is owed or it is parked."""
    attempts: int = 0
    last_error: str | None = None
    parked: bool = False

    @property
    def scope(self) -> Scope:
        return Scope(user_id=self.user_id, thread_id=self.thread_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tombstone:
    """What is left of a forgotten turn that had an idempotency key: enough to answer a late repeat, no content."""

    turn_id: str
    seq: int
    call_index: int
    call_size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateReceipt:
    """Proof of a durable `update_memory`: the ids of the turns it stored and the `seq` of the last of them."""

    turn_ids: tuple[str, ...]
    seq: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SearchRow:
    """What search needs of one turn, kept apart from its text.

    `vectors`: float16, shape (passages, dimension), unit length; long turns have several passages.
    `terms`: normalised term -> how often it occurs; `length`: their sum.
    `embedder`: the fingerprint of what made the vectors, `language`: the stemmer's; rows made otherwise than the
    current settings say are searched by what still fits, until they are made anew.
    `index_seq`: rises with every change of the user's rows; 0 until stored.
    `erased`: a stub that tells other processes to drop the turn from memory; it has no vectors and no terms.
    """

    turn_id: str
    user_id: str
    thread_id: str
    seq: int
    role: Role
    timestamp: datetime
    vectors: NDArray[np.float16]
    terms: Mapping[str, int]
    length: int
    embedder: str
    language: str
    index_seq: int = 0
    erased: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class TermCandidates:
    """Rows that hold some of the asked terms, for users too large to keep resident.

    `rows` and `mean_length` (terms per row, over a recent sample) describe the user's whole collection;
    `frequency` says in how many of the user's rows each term occurs; `turn_ids` are the candidates in scope.
    """

    rows: int
    mean_length: float
    frequency: Mapping[str, int]
    turn_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PassageVector:
    """One passage of a turn for the vector index. `vector`: float32, shape (dimension,), unit length."""

    turn_id: str
    passage: int
    thread_id: str
    timestamp: datetime
    vector: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Similar:
    """A turn found by meaning: the cosine of its nearest passage with the query."""

    turn_id: str
    similarity: float


@dataclass(frozen=True, kw_only=True, slots=True)
class FactEvent:
    """One change of one fact: `path` names it from the document's root, `value` is what was stated.

    Operations: `set` (a scalar, replacing any older one), `add` (one element of a list).
    """

    op: Literal["set", "add"]
    path: tuple[str, ...]
    value: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class FactChange:
    """The events that one turn brought about, stored as one append so that they are all there or none.

    `key` is unique within the thread (one extraction of one turn), so a repeat adds nothing. `seq` rises in the
    order of appends within the thread; 0 until stored.
    """

    key: str
    turn_id: str
    extractor: str
    recorded_at: datetime
    events: tuple[FactEvent, ...]
    seq: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class FactsDocument:
    """A thread's merged facts: the fold of its changes up to and including `seq == through`.

    `revision` is a random token that every save replaces; None means that nothing is stored yet.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    through: int = 0
    revision: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicSummary:
    """What was said in a topic up to and including `seq == through`, in short.

    `made_by` tells a language model's words ("llm:…") from sentences taken out of the turns ("extractive:…").
    """

    text: str
    made_by: str
    through: int
    turns: int
    """How many turns it covers."""
    made_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Topic:
    """A subject of a thread: derived from the turns that carry its id, but for what people set.

    `id` is that of the turn that opened it. `through` is the highest `seq` of its turns that is in the derived
    fields. `stale`: the derived fields were emptied (a turn was forgotten, topics were merged) and must be made
    anew from the turns. `revision` is a random token that every save replaces; None: not stored yet.
    """

    id: str
    user_id: str
    thread_id: str
    title: str = ""
    """The first 80 characters of the message that opened it."""
    created_at: datetime
    last_access: datetime
    access_count: int = 0
    """How often users' turns came back to it, the opening one not counted."""
    given_importance: float = 0.5
    """In [0, 1]: the highest that came with its turns."""
    embedding: NDArray[np.float16] = field(default_factory=_no_embedding)
    """Shape (dimension,), of norm <= 1; (0,) without one."""
    embedded: int = 0
    """How many vectors are in `embedding`."""
    embedder: str = ""
    """The fingerprint of what made them."""
    summary: TopicSummary | None = None
    through: int = 0
    stale: bool = False
    # What people set
    set_importance: float | None = None
    votes: int = 0
    """Useful minus not useful, from feedback."""
    tags: tuple[str, ...] = ()
    absorbed: tuple[str, ...] = ()
    """Topics that were merged into this one; their turns are its own until they are split off again."""
    archived: bool = False
    revision: str | None = None

    @property
    def scope(self) -> Scope:
        return Scope(user_id=self.user_id, thread_id=self.thread_id)

    @property
    def turns_of(self) -> tuple[str, ...]:
        """The topic ids that its turns carry."""
        return (self.id, *self.absorbed)


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeSuggestion:
    """Two topics that have grown together: the cosine of their embeddings. Which goes into which is the caller's."""

    topic_id: str
    into: str
    topic_title: str
    into_title: str
    similarity: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicStanding:
    """What the sweep needs to know of a topic; the fields are those of `Topic`."""

    user_id: str
    thread_id: str
    id: str
    last_access: datetime
    access_count: int
    given_importance: float
    set_importance: float | None
    votes: int
    through: int
    absorbed: tuple[str, ...]
    archived: bool

    @property
    def scope(self) -> Scope:
        return Scope(user_id=self.user_id, thread_id=self.thread_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicTurns:
    """How many turns carry a topic's id, and how many of them are compressed.

    `raw_bytes`: UTF-8 bytes of the texts in its segments; `packed_bytes`: what the segments take.
    """

    turns: int = 0
    compressed: int = 0
    raw_bytes: int = 0
    packed_bytes: int = 0

    def __add__(self, other: TopicTurns) -> TopicTurns:
        return TopicTurns(
            turns=self.turns + other.turns,
            compressed=self.compressed + other.compressed,
            raw_bytes=self.raw_bytes + other.raw_bytes,
            packed_bytes=self.packed_bytes + other.packed_bytes,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Compressed:
    """What one compressing step packed: turns, UTF-8 bytes of their texts before, bytes of the segments after."""

    turns: int = 0
    raw_bytes: int = 0
    packed_bytes: int = 0

    def __add__(self, other: Compressed) -> Compressed:
        return Compressed(
            turns=self.turns + other.turns,
            raw_bytes=self.raw_bytes + other.raw_bytes,
            packed_bytes=self.packed_bytes + other.packed_bytes,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class OldTurn:
    """Where a turn of some age is: enough to forget it, nothing of what it says."""

    user_id: str
    thread_id: str
    id: str
    timestamp: datetime
    topic_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """Who may work on something until when, and since when they have been at it.

    `note` is the holder's own: how far it has come, for whoever goes on.
    """

    name: str
    holder: str
    since: datetime
    until: datetime
    note: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Recollection:
    """A turn that search brought back. `score` in [0, 1] orders one answer's results, and only those.

    `why` holds the signals behind the score: `similarity` (cosine, absent without a vector), `words` (BM25),
    and both after normalisation.
    """

    turn: Turn
    score: float
    why: Mapping[str, float]

    @property
    def text(self) -> str:
        return self.turn.content

    @property
    def topic_id(self) -> str | None:
        """The topic of the turn; None until it is known."""
        return self.turn.topic_id


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerEntry:
    """One item considered for a context: `kept`, or left out for `reason`."""

    section: Literal["facts", "short_term", "long_term"]
    item: str
    tokens: int
    kept: bool
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryContext:
    """What a model needs to know before it answers. `str(context)` is the prompt text.

    `tokens` is the size of that text, never above `budget`. `degraded` names the parts that were down while it
    was put together (`embedder`, `vector_index`, `llm`, `short_term`, `long_term`, `facts`); `ledger` accounts
    for every item considered.
    """

    short_term: tuple[Turn, ...]
    long_term: tuple[Recollection, ...]
    facts: Mapping[str, Any]
    degraded: tuple[str, ...]
    ledger: tuple[LedgerEntry, ...]
    tokens: int
    budget: int
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class ParkedTurn:
    """A turn whose stages kept failing, with the last error."""

    turn_id: str
    thread_id: str
    pending: tuple[Stage, ...]
    attempts: int
    last_error: str

    @classmethod
    def of(cls, turn: Turn) -> ParkedTurn:
        return cls(
            turn_id=turn.id,
            thread_id=turn.thread_id,
            pending=turn.pending,
            attempts=turn.attempts,
            last_error=turn.last_error or "",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryStatus:
    """How a thread (or all threads of a user, or of everybody) stands.

    `pending` counts the turns that owe each stage and `owed_count` those that owe any, parked ones included;
    `lag_seconds` is the age of the oldest
    owed turn that is not parked (0 if none); `parked` lists at most 100 of `parked_count`; `erasures` counts
    forget calls whose last pass is still to come.
    """

    turns: int
    pending: Mapping[Stage, int]
    owed_count: int
    parked_count: int
    parked: tuple[ParkedTurn, ...]
    lag_seconds: float
    erasures: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Erasure:
    """A forget call as owed work. `turn_ids=None`: every turn of `scope` whose id sorts before `before_id`."""

    id: str
    scope: Scope
    turn_ids: tuple[str, ...] | None
    before_id: str
    due_at: datetime
    swept: bool = False
    """True once everything was erased; the last pass, when no old lease can be live any more, is still to come."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasedCounts:
    """What one erasing step removed from the document store."""

    turns: int = 0
    search_rows: int = 0
    fact_changes: int = 0
    packed_texts: int = 0
    """Texts taken out of segments."""
    topics: int = 0
    """Topics that were reset."""

    def __add__(self, other: ErasedCounts) -> ErasedCounts:
        return ErasedCounts(
            turns=self.turns + other.turns,
            search_rows=self.search_rows + other.search_rows,
            fact_changes=self.fact_changes + other.fact_changes,
            packed_texts=self.packed_texts + other.packed_texts,
            topics=self.topics + other.topics,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgetReceipt:
    """What was erased where. `owed` names parts that were down; the worker erases there as soon as they are back."""

    turns: int
    search_rows: int
    fact_changes: int
    packed_texts: int
    topics: int
    """Topics whose title, summary and embedding were dropped, to be made anew from what is left."""
    vectors: int
    owed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message to a language model."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """A language model's reply with what it cost. `truncated`: cut off at the model's length limit."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    truncated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What a language model was asked and used, in tokens as its server counts them."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            requests=self.requests + other.requests,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
        )
