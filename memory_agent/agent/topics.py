"""The part of MemoryAgent that is about topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory_agent.agent.arguments import check_tags, checked_importance, checked_vote
from memory_agent.agent.thread import ThreadCalls
from memory_agent.checks import checked_id
from memory_agent.domain import ParkedTurn
from memory_agent.errors import NotFound, SettleTimeout, TurnsParked
from memory_agent.work.owed import Looks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.domain import Turn
    from memory_agent.topics.stats import TopicStats


class TopicCalls(ThreadCalls):
    """Calls about the topics of a thread."""

    async def turn_topic(self, turn_id: str, timeout: float | None = 30.0) -> TopicStats | None:
        """The topic of a turn of this thread, once it is known; None for a turn that belongs to none.

        An assistant's turn before the first user's belongs to none. Raises NotFound for an unknown turn,
        SettleTimeout after `timeout` seconds (None: never), TurnsParked if its topic can't be found out.
        """
        checked_id("turn_id", turn_id)
        looks = Looks(timeout)
        self._core.worker.wake()
        while True:
            moved = self._core.worker.moved
            turn = await self._turn(turn_id)
            if "topics" not in turn.pending:
                return None if turn.topic_id is None else await self.topic_stats(turn.topic_id)
            if turn.parked:
                raise TurnsParked([ParkedTurn.of(turn)])
            if looks.is_over:
                down = ", ".join(sorted(self._core.worker.down)) or "none known to this process"
                raise SettleTimeout(
                    f"after {looks.seconds:g} s turn {turn_id} has no topic; parts that are down: {down}"
                )
            await looks.pause(moved)

    async def _turn(self, turn_id: str) -> Turn:
        found = await self._core.store.list_turns(self.scope, ids=[turn_id])
        if not found:
            raise NotFound(
                f"turn_id is {turn_id!r:.80}, and thread {self.scope.thread_id!r} has no such turn"
            )
        return found[0]

    async def topics(self, include_archived: bool = False, *, tag: str | None = None) -> list[TopicStats]:
        """This thread's topics, highest priority first, archived ones last. Merged topics are one.

        `tag`: only those that carry it, compared as it is.
        """
        return await self._core.topic_reader.topics(self.scope, include_archived=include_archived, tag=tag)

    async def topic_stats(self, topic_id: str | None = None) -> TopicStats:
        """Statistics of a topic (default: the current one). Raises NotFound if there is no such topic."""
        return await self._core.topic_reader.stats(self.scope, topic_id)

    async def topic_context(self, topic_id: str | None = None) -> list[dict[str, str]]:
        """Messages for a model to go on with a topic (default: the current one).

        A system message with its title and summary, then its recent turns: `[{"role", "content"}, …]`.
        """
        return await self._core.topic_reader.context(self.scope, topic_id)

    async def topic_history(
        self, topic_id: str | None = None, include_compressed: bool = True
    ) -> list[dict[str, Any]]:
        """All of a topic's turns in order, word for word: `[{"role", "content", "timestamp"}, …]`."""
        return await self._core.topic_reader.history(
            self.scope, topic_id, include_compressed=include_compressed
        )

    async def merge_topics(self, topic_id: str, into: str) -> TopicStats:
        """Make `topic_id` a part of `into`, whose id stays; the phrases of both title it.

        `split_topic(topic_id)` undoes it, but for the tags that were taken over.
        """
        merged = await self._core.curator.merge(self.scope, topic_id, into)
        self._core.worker.wake()
        return await self.topic_stats(merged.id)

    async def split_topic(self, topic_id: str) -> TopicStats:
        """Take `topic_id` out of the topic it was merged into, with the turns that were its own."""
        split = await self._core.curator.split(self.scope, topic_id)
        self._core.worker.wake()
        return await self.topic_stats(split.id)

    async def tag_topic(
        self, topic_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> TopicStats:
        """Add and remove tags of a topic."""
        check_tags(add, remove)
        await self._core.curator.tag(self.scope, topic_id, add=add, remove=remove)
        return await self.topic_stats(topic_id)

    async def set_topic_importance(self, topic_id: str, importance: float | None) -> TopicStats:
        """Set a topic's importance, 0 to 1; None: as its turns say."""
        await self._core.curator.weigh(self.scope, topic_id, checked_importance(importance))
        return await self.topic_stats(topic_id)

    async def feedback(self, turn_or_topic: str, useful: bool) -> TopicStats:
        """Say that a topic, or a turn of it, was useful or not: one vote for the topic's importance.

        It stays within [0, 1], and the opposite vote undoes it.
        """
        topic = await self._core.curator.vote(self.scope, turn_or_topic, useful=checked_vote(useful))
        return await self.topic_stats(topic.id)

    async def restore_topic(self, topic_id: str) -> TopicStats:
        """Bring an archived topic back into matching, as if it had been accessed now."""
        await self._core.curator.restore(self.scope, topic_id)
        return await self.topic_stats(topic_id)

    async def archive_topic(self, topic_id: str) -> TopicStats:
        """Take a topic out of matching and compress it, as the sweep does with faded ones."""
        await self._core.curator.archive(self.scope, topic_id)
        return await self.topic_stats(topic_id)
