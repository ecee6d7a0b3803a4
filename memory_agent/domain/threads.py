"""Users and their threads, sessions, topics, events; and copies of what a store holds of a thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from memory_agent.domain.base import Counts, OfThread
from memory_agent.domain.facts import ExtractionCost

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.domain.context import Compression
    from memory_agent.domain.facts import FactChange
    from memory_agent.domain.turns import Turn
    from memory_agent.domain.work import KeyedKind


EventKind = Literal["turn_stored", "indexed", "topic_assigned", "facts_changed", "compressed", "parked"]
EVENT_KINDS: Final[tuple[EventKind, ...]] = get_args(EventKind)


@dataclass(frozen=True, kw_only=True, slots=True)
class UserSummary:
    """A user of whom something is remembered. `user_id` is the id that the tenant knows the user by."""

    user_id: str
    threads: int
    turns: int
    """Forgotten ones don't count, here and below."""
    last_activity: datetime | None
    """The timestamp of the newest of the threads' last turns; None without turns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadSummary:
    """A thread of which something is remembered: turns, or without any a session or a fact that somebody set."""

    thread_id: str
    turns: int
    last_activity: datetime | None
    """The timestamp of its last turn; None without turns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UsersPage:
    """Some users by rising id, and what to pass as `after` for those that follow (None: there are none)."""

    users: tuple[UserSummary, ...]
    next: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadsPage:
    """Some threads of a user by rising id, and what to pass as `after` for those that follow (None: there are none)."""

    threads: tuple[ThreadSummary, ...]
    next: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Character:
    """The role that the assistant plays. Plain text; all but `name` may be empty."""

    name: str
    personality: str = ""
    profile: str = ""
    traits: tuple[str, ...] = ()


CHARACTER_ID: Final = "character_id"
"""Of a session's metadata: the application's own id of the character."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Session(OfThread):
    """One sitting of a thread: every turn belongs to the one that was open when it was said.

    `number` counts from 1 within the thread; the newest is the one that may be open. `after_seq`: the last
    `seq` given in the thread before it began. `explicit`: somebody called `start_session`. `last_activity`: of its last turn, or its start.
    `idempotency_key`: the caller's name for that call; no other session of the thread has it. What follows it is counted
    when it is read.
    """

    id: str
    user_id: str
    thread_id: str
    number: int
    started_at: datetime
    after_seq: int
    participants: tuple[str, ...] = ()
    character: Character | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    explicit: bool = False
    idempotency_key: str | None = None
    last_activity: datetime | None = None
    total_turns: int = 0
    compression_count: int = 0

    @property
    def character_id(self) -> int | str | None:
        """The application's own id of the character, if it started the session with one."""
        found: int | str | None = self.metadata.get(CHARACTER_ID)
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadHead:
    """The end of a thread: its newest session and its last turn (0 and None without any).

    `last_given`: the last `seq` that any of its turns got, also one that is forgotten; the next turn's is above it.
    """

    session: Session | None = None
    last_seq: int = 0
    last_given: int = 0
    last_at: datetime | None = None
    """The timestamp of the last turn."""
    last_session_id: str | None = None
    """The session of the last turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEvent(OfThread):
    """Something that happened to a thread. Names what it happened to and holds none of its contents.

    `id`: where it stands in the order of events, as text without a meaning of its own; whoever passes it as `after` gets
    what happened since. `turn_id` and `seq`: of the turn (for `facts_changed` the turn that brought it about, None
    for a person's edit; for `compressed` the last turn that it covers, by `seq` alone). `topic_id` is for
    `topic_assigned`, `change_id` for `facts_changed` (the change's `key`) and `compressed` (the compression's id).
    """

    id: str
    kind: EventKind
    user_id: str
    thread_id: str
    at: datetime
    """When it was seen to happen, in UTC to the millisecond."""
    turn_id: str | None = None
    seq: int | None = None
    topic_id: str | None = None
    change_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CopiedTurn:
    """A turn with its text, and its place in the call that brought it. `readable`: its text is there, also where it was not asked for."""

    turn: Turn
    idempotency_key: str | None = None
    call_index: int = 0
    call_size: int = 1
    readable: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgottenTurn:
    """The remains of a forgotten turn that had an idempotency key: enough to recognise a late repeat."""

    turn_id: str
    seq: int
    idempotency_key: str
    call_index: int
    call_size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SpentKey:
    """The remains of a forgotten edit or session that had an idempotency key. `id`: the change's key, or the session's id."""

    kind: KeyedKind
    key: str
    id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadRemains:
    """The numbers that a thread must not give again, and what is left of what was forgotten in it."""

    last_seq: int = 0
    """The highest `seq` ever given."""
    last_change: int = 0
    """The highest number of a change of its facts."""
    cost: ExtractionCost = field(default_factory=ExtractionCost)
    turns: tuple[ForgottenTurn, ...] = ()
    keys: tuple[SpentKey, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadCopy:
    """Some of what a thread holds."""

    turns: tuple[CopiedTurn, ...] = ()
    sessions: tuple[Session, ...] = ()
    compressions: tuple[Compression, ...] = ()
    changes: tuple[FactChange, ...] = ()
    remains: ThreadRemains = ThreadRemains()


@dataclass(frozen=True, kw_only=True, slots=True)
class DamagedRecord:
    """A stored record that cannot be read. `of`: the id of the turn, session, topic, change or compression that it holds."""

    table: str
    """SQLite's table, or MongoDB's collection."""
    key: Any
    """Its key within the thread, as the store has it."""
    of: str
    error: str
    turn_id: str | None = None
    """Of a search row, or a change of facts that was read in a turn: that turn."""

    @property
    def derived(self) -> bool:
        """True if turns give it again; otherwise it is a turn, or what people set."""
        return self.turn_id is not None or self.table in ("topics", "compressions", "facts")


def _no_embedding() -> NDArray[np.float16]:
    import numpy as np  # a tenth of a second, for names that most who import them need for types alone

    return np.empty(0, dtype=np.float16)


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicSummary:
    """Summary of what was said in a topic up to and including `seq == through`.

    `made_by` tells a language model's words ("llm:…") from sentences taken out of the turns ("extractive:…").
    """

    text: str
    made_by: str
    through: int
    turns: int
    """How many turns it covers."""
    made_at: datetime
    title: str = ""
    """What the topic is about in the words of a language model; empty where none said so."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TopicHead(OfThread):
    """Subject of a thread as it is shown: all of a `Topic` but for what matching reads.

    `id` is that of the turn that opened it. `through` is the highest `seq` of its turns that is in the derived
    fields. `stale`: the derived fields were emptied (a turn was forgotten, topics were merged) and must be made
    anew from the turns.
    """

    id: str
    user_id: str
    thread_id: str
    title: str = ""
    """Its telling phrases, as "rye bread, oven, Ines", or the opener where it has none."""
    opener: str = ""
    """The first 80 characters of the message that opened it."""
    created_at: datetime
    last_access: datetime
    access_count: int = 0
    """How often users' turns came back to it, the opening one not counted."""
    given_importance: float | None = None
    """In [0, 1]: the highest that came with its turns; None if none of them came with one."""
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

    @property
    def turns_of(self) -> tuple[str, ...]:
        """The topic ids that its turns carry."""
        return (self.id, *self.absorbed)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Topic(TopicHead):
    """A subject of a thread: derived from the turns that carry its id, but for what people set.

    `revision` is a random token that every save replaces; None: not stored yet.
    """

    embedding: NDArray[np.float16] = field(default_factory=_no_embedding)
    """Shape (dimension,), of norm <= 1; (0,) without one."""
    embedded: int = 0
    """How many vectors are in `embedding`."""
    embedder: str = ""
    """The fingerprint of what made them."""
    words: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """What its users' turns are about: word -> how many of them have it, and the noun phrase it stands in ("": none)."""
    parted: tuple[str, ...] = ()
    """Topics that were split off it, or it off them: no sweep merges them again."""
    revision: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicDecayState(OfThread):
    """The part of a topic that the sweep reads; the fields are those of `Topic`."""

    user_id: str
    thread_id: str
    id: str
    last_access: datetime
    access_count: int
    given_importance: float | None
    set_importance: float | None
    votes: int
    through: int
    absorbed: tuple[str, ...]
    archived: bool
    stale: bool


TopicMark = tuple[int, int]
"""How far a thread's topics were read: the highest number of a change, and how many changes have no number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicChanges:
    """The topics that changed since a mark, or (`whole`) all of the thread's; `mark`: for the next time."""

    topics: tuple[Topic, ...]
    mark: TopicMark
    whole: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicTurns(Counts):
    """Counts of the turns that carry a topic's id, and of those that are compressed.

    `raw_bytes`: UTF-8 bytes of the texts in its segments; `packed_bytes`: what the segments take.
    """

    turns: int = 0
    compressed: int = 0
    raw_bytes: int = 0
    packed_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedSize(Counts):
    """The size of what one step packed: turns, UTF-8 bytes of their texts before, bytes of the segments after."""

    turns: int = 0
    raw_bytes: int = 0
    packed_bytes: int = 0
