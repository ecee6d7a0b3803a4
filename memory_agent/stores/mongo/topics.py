"""Topics in MongoDB: one document each, replaced under its revision; which turns are a topic's, their documents say."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from pymongo import UpdateMany, UpdateOne
from pymongo.errors import DuplicateKeyError

from memory_agent.domain import TopicTurns
from memory_agent.stores.codec import thread_of
from memory_agent.stores.fields import HEAD, STANDING, TOPIC
from memory_agent.stores.mongo.connection import MongoConnection, bounded, read_all
from memory_agent.stores.mongo.documents import BLANK_TOPIC, scope_filter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import Scope, Topic, TopicDecayState, TopicHead
    from memory_agent.stores.mongo.connection import Document


class MongoTopics(MongoConnection):
    """The topics of a MongoStore."""

    @bounded
    async def assign_topics(self, scope: Scope, topics: Mapping[str, str]) -> None:
        thread_of(scope)
        turns_of: dict[str, list[str]] = {}
        for turn_id, topic_id in topics.items():
            turns_of.setdefault(topic_id, []).append(turn_id)
        free = {**scope_filter(scope), "gone_at": None, "topic_id": None}
        operations = [
            UpdateMany({**free, "_id": {"$in": turn_ids}}, {"$set": {"topic_id": topic_id}})
            for topic_id, turn_ids in turns_of.items()
        ]
        if operations:
            await self._turns.bulk_write(operations, ordered=False)

    @bounded
    async def list_topics(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        archived: bool | None = None,
        stale: bool | None = None,
    ) -> list[Topic]:
        query = scope_filter(scope)
        if ids is not None:
            query["topic_id"] = {"$in": list(ids)}
        flags = {"archived": archived, "stale": stale}
        query |= {name: wanted for name, wanted in flags.items() if wanted is not None}
        found = await read_all(self._topics.find(query).sort("topic_id", 1))
        return list(map(TOPIC.get, found))

    @bounded
    async def topic_heads(self, scope: Scope, *, ids: Sequence[str] | None = None) -> list[TopicHead]:
        query = scope_filter(scope)
        if ids is not None:
            named = {"$in": list(ids)}
            query = {"$or": [{**query, "topic_id": named}, {**query, "absorbed": named}]}
        found = await read_all(self._topics.find(query, {"words": 0, "embedding": 0}).sort("topic_id", 1))
        return list(map(HEAD.get, found))

    @bounded
    async def save_topic(self, topic: Topic, *, expected: str | None) -> bool:
        document = TOPIC.document(topic, revision=uuid4().hex)
        if expected is None:
            try:
                await self._topics.insert_one({"_id": str(uuid4()), **document})
            except DuplicateKeyError:
                return False
            return True
        stored = {**scope_filter(topic.scope), "topic_id": topic.id, "revision": expected}
        return bool((await self._topics.replace_one(stored, document)).matched_count)

    @bounded
    async def delete_topic(self, scope: Scope, topic_id: str, *, expected: str) -> bool:
        stored = {**scope_filter(scope), "topic_id": topic_id, "revision": expected}
        return bool((await self._topics.delete_one(stored)).deleted_count)

    @bounded
    async def count_topic_turns(self, scope: Scope, topic_ids: Sequence[str]) -> dict[str, TopicTurns]:
        thread_of(scope)
        ours = {**scope_filter(scope), "topic_id": {"$in": list(topic_ids)}}
        packed = {"$cond": [{"$eq": [{"$type": "$segment_id"}, "missing"]}, 0, 1]}
        turns = {"turns": {"$sum": 1}, "compressed": {"$sum": packed}}
        sizes = {name: {"$sum": f"${name}"} for name in ("raw_bytes", "packed_bytes")}
        counts = dict.fromkeys(topic_ids, TopicTurns())
        for holder, where, sums in (
            (self._turns, {**ours, "gone_at": None}, turns),
            (self._segments, ours, sizes),
        ):
            by_topic: list[Document] = [{"$match": where}, {"$group": {"_id": "$topic_id", **sums}}]
            for group in await read_all(holder.aggregate(by_topic)):
                counts[group.pop("_id")] += TopicTurns(**group)
        return counts

    @bounded
    async def topics_after(self, key: tuple[str, str, str] | None, *, limit: int) -> list[TopicDecayState]:
        if limit <= 0:
            return []
        order = [("user_id", 1), ("thread_id", 1), ("topic_id", 1)]
        heavy = {"title": 0, "opener": 0, "words": 0, "embedding": 0, "summary": 0}
        above = {} if key is None else _above(*key)
        found = await read_all(self._topics.find(above, heavy).sort(order).limit(limit))
        return list(map(STANDING.get, found))

    @bounded
    async def _reset_topics(self, user_id: str, thread_id: str, topic_ids: set[str], *, now: datetime) -> int:
        """Empty what is derived in these topics and those that absorbed them; how many.

        Call it after the turns were emptied: a fold of what was is then saved in vain, also where there was no
        topic yet, for one is made.
        """
        thread = {"user_id": user_id, "thread_id": thread_id}
        named = {"$in": sorted(topic_ids)}
        either = {"$or": [{**thread, "topic_id": named}, {**thread, "absorbed": named}]}
        found = await read_all(self._topics.find(either, {"topic_id": 1, "absorbed": 1}))
        known = {document["topic_id"] for document in found}
        blank = _reset()
        operations = [UpdateOne({**thread, "topic_id": topic_id}, blank) for topic_id in known]
        for topic_id in topic_ids.difference(*map(_turns_of, found)):
            made = {"_id": str(uuid4()), "created_at": now, "last_access": now, "votes": 0, "archived": False}
            operations.append(
                UpdateOne({**thread, "topic_id": topic_id}, {**blank, "$setOnInsert": made}, upsert=True)
            )
        if not operations:
            return 0
        result = await self._topics.bulk_write(operations, ordered=False)
        return int(result.matched_count + result.upserted_count)

    @bounded
    async def _reset_forsaken_topics(self, user_id: str) -> int:
        """Empty what is derived in the user's topics that no turn belongs to any more; how many.

        A worker may have made them of turns that were forgotten before they got their topic.
        """
        told = {"user_id": user_id, "$nor": [{**BLANK_TOPIC, "summary": None, "embedding": None}]}
        topics = await read_all(self._topics.find(told, {"thread_id": 1, "topic_id": 1, "absorbed": 1}))
        if not topics:
            return 0
        # The least text as a bound lets the index alone answer.
        assigned = {"$match": {"user_id": user_id, "topic_id": {"$gte": ""}}}
        pairs = {"$group": {"_id": {"thread_id": "$thread_id", "topic_id": "$topic_id"}}}
        found = await read_all(self._turns.aggregate([assigned, pairs]))
        live = {(pair["_id"]["thread_id"], pair["_id"]["topic_id"]) for pair in found}
        forsaken = [
            topic["_id"]
            for topic in topics
            if live.isdisjoint((topic["thread_id"], topic_id) for topic_id in _turns_of(topic))
        ]
        result = await self._topics.update_many({"_id": {"$in": forsaken}, "user_id": user_id}, _reset())
        return int(result.matched_count)


def _reset() -> Document:
    """The update that empties what is derived."""
    return {"$set": BLANK_TOPIC | {"revision": uuid4().hex}, "$unset": {"summary": "", "embedding": ""}}


def _turns_of(topic: Document) -> tuple[str, ...]:
    return (topic["topic_id"], *topic.get("absorbed", ()))


def _above(user_id: str, thread_id: str, topic_id: str) -> Document:
    """Topics that sort after this key; each branch is a range of the index, and they are merged in its order."""
    return {
        "$or": [
            {"user_id": user_id, "thread_id": thread_id, "topic_id": {"$gt": topic_id}},
            {"user_id": user_id, "thread_id": {"$gt": thread_id}},
            {"user_id": {"$gt": user_id}},
        ]
    }
