"""Subjects of a thread, and the turns in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memory_agent.domain.base import Counts, OfThread

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray


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
