"""The port of topics, the turns that carry them, and the packing of their texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memory_agent.domain import (
        PackedSize,
        Scope,
        Topic,
        TopicChanges,
        TopicDecayState,
        TopicHead,
        TopicMark,
        TopicTurns,
        Turn,
    )


class TopicStore(Protocol):
    """Topics, the turns that carry them, and the packing of their texts."""

    async def assign_topics(self, scope: Scope, topics: Mapping[str, str]) -> None:
        """Give these turns (turn id -> topic id) their topic, where they have none yet.

        So the first assignment stands. Unknown and forgotten turns are passed over. `scope` must name a thread.
        """

    async def list_topics(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        archived: bool | None = None,
        stale: bool | None = None,
    ) -> list[Topic]:
        """The scope's topics by rising id. `ids`: only these. `archived`, `stale`: only those that are, or aren't."""

    async def topic_heads(self, scope: Scope, *, ids: Sequence[str] | None = None) -> list[TopicHead]:
        """The scope's topics by rising id, without what matching reads.

        `ids`: only these and those that absorbed one of them. By an index: it costs what it finds, however many topics
        there are that absorbed none.
        """

    async def changed_topics(self, scope: Scope, *, after: TopicMark | None = None) -> TopicChanges:
        """The thread's topics that were saved or reset since `after`; all of them without one, or if some may be gone.

        Whoever read up to a mark never misses a change by asking from there, whichever process makes it. Costs what
        changed, however many topics there are.
        """

    async def turns_behind(self, scope: Scope, after: Mapping[str, int]) -> list[Turn]:
        """The thread's turns that carry one of these topic ids, with a `seq` above the one given for it, by rising `seq`."""

    async def save_topics(self, topics: Sequence[Topic]) -> set[str]:
        """Store each of these topics of one thread whose stored revision is its own (None: not stored yet); their ids.

        Each gets a fresh random revision. Not one write: after a crash some are stored.
        """

    async def delete_topic(self, scope: Scope, topic_id: str, *, expected: str) -> bool:
        """Delete the topic if its revision is `expected`; else (or if it is gone) False."""

    async def count_topic_turns(self, scope: Scope, topic_ids: Sequence[str]) -> dict[str, TopicTurns]:
        """For each of these topics (zeros where there is neither): turns that carry its id, bytes of its segments.

        Segments of absorbed topics' turns may be kept under either id: add up a topic's and those it absorbed.
        `scope` must name a thread.
        """

    async def compress_turns(self, scope: Scope, topic_id: str, turn_ids: Sequence[str]) -> PackedSize:
        """Pack the texts of these turns into one or more segments of the topic, in the order of `seq`.

        Turns that are compressed already, unknown or forgotten are passed over. At every moment, also after a
        crash at any point, each turn can be read with its text byte for byte; a repeat packs what is left.
        `scope` must name a thread.
        """

    async def topics_after(self, key: tuple[str, str, str] | None, *, limit: int) -> list[TopicDecayState]:
        """Everybody's first `limit` topics by (user_id, thread_id, id), above `key` (None: from the first)."""
