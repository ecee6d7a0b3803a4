"""Sessions, and the role that the assistant plays in one."""

from memory_agent import domain as values
from memory_agent.wire.base import Answer, Instant, JsonObject, UserId


class Character(Answer[values.Character]):
    """The role that the assistant plays. Plain text; all but `name` may be empty."""

    name: str
    personality: str
    profile: str
    traits: tuple[str, ...]


class Session(Answer[values.Session]):
    """One sitting of a thread: every turn belongs to the one that was open when it was said."""

    id: str
    user_id: UserId
    thread_id: str
    number: int
    """Counts from 1 within the thread; the newest is the one that may be open."""
    started_at: Instant
    after_seq: int
    """The last `seq` given in the thread before it began."""
    participants: tuple[str, ...]
    character: Character | None
    metadata: JsonObject
    explicit: bool
    """Somebody started it; others open with the first turn that needs one."""
    idempotency_key: str | None
    last_activity: Instant | None
    """When its last turn was said, or when it began."""
    total_turns: int
    compression_count: int
