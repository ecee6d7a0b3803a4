"""How a memory stands: owed work, what was forgotten, what happened, what it mentions and what it cost."""

from pydantic import BaseModel, ConfigDict

from memory_agent import domain as values
from memory_agent.domain import EventKind, Stage
from memory_agent.wire.base import Answer, Instant, PublicText, UserId
from memory_agent.wire.turns import Entity


class ExtractionCost(Answer[values.ExtractionCost]):
    """What a language model was asked and used to extract facts from so many turns."""

    turns: int
    requests: int
    prompt_tokens: int
    completion_tokens: int


class Usage(Answer[values.Usage]):
    """What a language model was asked and used, in tokens as its server counts them."""

    requests: int
    prompt_tokens: int
    completion_tokens: int


class WorkerStatus(Answer[values.WorkerStatus]):
    """What the worker of the process that answered does; others beside it are not in it."""

    runs: bool
    """There is one in that process."""
    paused: bool
    """It was told to leave everything owed."""
    at_work: dict[Stage, int]
    """How many threads each stage works on just now."""
    down: tuple[str, ...]
    """Parts that were down when last needed."""
    extractor: str
    """What finds facts: a language model with its prompt, or the patterns."""
    usage: Usage | None
    """What language models were asked since the process started; only for a key for all tenants."""


class TurnCount(BaseModel):
    """How many turns it concerned."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    turns: int


class Proof(BaseModel):
    """That who answers knows a key."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    proof: str


class LiveStats(Answer[values.LiveStats]):
    """How the live threads of a process stand."""

    live_threads: int
    max_live_threads: int
    turns: int
    """Analyses of turns that are kept."""
    hits: int
    misses: int
    evictions: int
    """Threads that left because there were too many."""


class ParkedTurn(Answer[values.ParkedTurn]):
    """A turn whose work keeps failing, with the last error."""

    turn_id: str
    user_id: UserId
    thread_id: str
    pending: tuple[Stage, ...]
    attempts: int
    last_error: PublicText


class Outage(Answer[values.Outage]):
    """A part that a stage waits for. It goes on by itself as soon as the part is there again."""

    stage: Stage
    part: str
    since: Instant
    error: PublicText
    """Of the last try."""


class MemoryStatus(Answer[values.MemoryStatus]):
    """How a thread, all of a user's, or everybody's stand."""

    turns: int
    pending: dict[Stage, int]
    """How many turns owe each stage."""
    owed_count: int
    """How many owe any, parked ones included."""
    parked_count: int
    parked: tuple[ParkedTurn, ...]
    """At most 100 of them."""
    lag_seconds: float
    """The age of the oldest owed turn that is not parked; 0 if there is none."""
    erasures: int
    """Calls of forget whose last pass is still to come."""
    extraction: ExtractionCost
    """What facts have cost so far."""
    outages: tuple[Outage, ...]
    """Parts that owed stages wait for."""


class ForgetReceipt(Answer[values.ForgetReceipt]):
    """What was erased where."""

    turns: int
    search_rows: int
    fact_changes: int
    packed_texts: int
    topics: int
    """Topics whose title, summary and embedding were dropped, to be made anew from what is left."""
    vectors: int
    compressions: int
    """Summaries of the conversation that were dropped, to be made anew from what is left."""
    sessions: int
    owed: tuple[str, ...]
    """Parts that were down; they are erased from as soon as they are back."""


class EntityCount(Answer[values.EntityCount]):
    """How often turns mention an entity, and from when to when."""

    entity: Entity
    count: int
    """Turns that mention it, each once."""
    first_turn_id: str
    last_turn_id: str
    first_at: Instant
    last_at: Instant


class MemoryEvent(Answer[values.MemoryEvent]):
    """Something that happened to a thread. It names what it happened to and holds none of its contents."""

    id: str
    """Where it stands in the order of events; pass it as `after` to get what happened since."""
    kind: EventKind
    user_id: UserId
    thread_id: str
    at: Instant
    turn_id: str | None
    """Null for a person's edit of a fact, and for a compression."""
    seq: int | None
    """Of the turn; for `compressed` the last one that is summed up."""
    topic_id: str | None
    """For `topic_assigned`."""
    change_id: str | None
    """Of the change of facts, or of the compression."""
