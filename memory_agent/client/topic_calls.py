"""The part of MemoryClient that is about topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory_agent.agent.agent import MemoryAgent
from memory_agent.agent.arguments import check_tags, checked_cosine, checked_importance, checked_vote
from memory_agent.checks import checked_id, checked_tag
from memory_agent.client.documented import documented_as
from memory_agent.client.thread_requests import Asking, given, in_slices
from memory_agent.errors import InvalidInput
from memory_agent.topics.merged import no_such_topic
from memory_agent.wire import topics as wire
from memory_agent.wire.requests import Feedback, Merge, SetImportance, Tags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.domain import MergeSuggestion
    from memory_agent.topics.stats import TopicStats
    from memory_agent.wire.base import Request

_CURRENT: Final = "current"
_NO_IDS: Final = frozenset({_CURRENT, "suggestions"})
"""Words that stand for something else where an id would."""


@documented_as(MemoryAgent)
class TopicCalls(Asking):
    """MemoryClient's calls about its thread's topics."""

    async def turn_topic(self, turn_id: str, timeout: float | None = 30.0) -> TopicStats | None:
        """Asks in requests of at most 20 seconds."""
        checked_id("turn_id", turn_id)

        async def ask(seconds: float, deadline: float | None) -> TopicStats | None:
            params = {"timeout": seconds}
            return await self._get_or_none(
                wire.TopicStats, "turns", turn_id, "topic", params=params, waits=seconds, until=deadline
            )

        return await in_slices(ask, timeout)

    async def topics(self, include_archived: bool = False, *, tag: str | None = None) -> list[TopicStats]:
        carried = None if tag is None else checked_tag(tag)
        return await self._all(wire.TopicStats, "topics", archived=bool(include_archived), tag=carried)

    async def topic_stats(self, topic_id: str | None = None) -> TopicStats:
        return await self._get(wire.TopicStats, "topics", self._topic(topic_id))

    async def topic_context(self, topic_id: str | None = None) -> list[dict[str, str]]:
        return await self._get(wire.TopicContext, "topics", self._topic(topic_id), "context")

    async def topic_history(
        self, topic_id: str | None = None, include_compressed: bool = True
    ) -> list[dict[str, Any]]:
        whole = bool(include_compressed)
        return await self._all(
            wire.TopicTurn, "topics", self._topic(topic_id), "history", include_compressed=whole
        )

    async def merge_topics(self, topic_id: str, into: str) -> TopicStats:
        return await self._put_in_order(topic_id, "merge", Merge.of(into=checked_id("into", into)))

    async def split_topic(self, topic_id: str) -> TopicStats:
        return await self._put_in_order(topic_id, "split")

    async def suggest_merges(self, least: float | None = None) -> list[MergeSuggestion]:
        wanted = None if least is None else checked_cosine(least)
        return await self._list(wire.MergeSuggestion, "topics", "suggestions", least=wanted)

    async def tag_topic(
        self, topic_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> TopicStats:
        check_tags(add, remove)
        body = Tags.of(**given(add=tuple(add) or None, remove=tuple(remove) or None))
        return await self._put_in_order(topic_id, "tags", body)

    async def set_topic_importance(self, topic_id: str, importance: float | None) -> TopicStats:
        body = SetImportance.of(importance=checked_importance(importance))
        return await self._put_in_order(topic_id, "importance", body)

    async def feedback(self, turn_or_topic: str, useful: bool) -> TopicStats:
        checked_vote(useful)
        body = Feedback.of(turn_or_topic=checked_id("turn_or_topic", turn_or_topic), useful=useful)
        return await self._post(wire.TopicStats, "feedback", body=body)

    async def restore_topic(self, topic_id: str) -> TopicStats:
        return await self._put_in_order(topic_id, "restore")

    async def archive_topic(self, topic_id: str) -> TopicStats:
        return await self._put_in_order(topic_id, "archive")

    async def _put_in_order(self, topic_id: str, what: str, body: Request | None = None) -> TopicStats:
        checked_id("topic_id", topic_id)
        return await self._post(wire.TopicStats, "topics", self._topic(topic_id), what, body=body)

    def _topic(self, topic_id: str | None) -> str:
        """The segment that names the topic (None: the current one)."""
        if topic_id is None:
            return _CURRENT
        if not may_be_topic(topic_id) or topic_id in _NO_IDS:
            raise no_such_topic(self.scope, topic_id)
        return topic_id


def may_be_topic(topic_id: object) -> bool:
    """True if the id may be a topic's; there is no topic of any other id."""
    try:
        checked_id("topic_id", topic_id)
    except InvalidInput:
        return False
    return True
