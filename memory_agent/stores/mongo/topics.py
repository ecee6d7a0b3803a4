"""Topics in MongoDB: one document each, replaced under its revision; which turns are a topic's, their documents say."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pymongo import InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError

from memory_agent.domain import Scope, TopicChanges, TopicTurns
from memory_agent.optimistic import Tries, overtaken
from memory_agent.stores.codec import chunks, thread_of
from memory_agent.stores.fields import HEAD, STANDING, TOPIC, TURN
from memory_agent.stores.mongo.connection import (
    CHANGED_KEYS,
    TOPIC_KEYS,
    bounded,
    first_write_error,
    read_all,
    united,
    violated_keys,
)
from memory_agent.stores.mongo.documents import BLANK_TOPIC, scope_filter
from memory_agent.stores.mongo.segments import MongoSegments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import Topic, TopicDecayState, TopicHead, TopicMark, Turn
    from memory_agent.stores.mongo.connection import Document

_BRANCHES: Final = 50
"""Topics asked for in one query: planning takes time with the square of them."""
_MANY_TOPICS: Final = 50


class MongoTopics(MongoSegments):
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
    async def changed_topics(self, scope: Scope, *, after: TopicMark | None = None) -> TopicChanges:
        thread_of(scope)
        # The mark before the topics: what is deleted in between shows in the next one.
        where = scope_filter(scope)
        above = {} if after is None else {"changed": {"$gt": after[0]}}
        found, changed = await united(
            (self._topic_marks, {"$match": where}), (self._topics, {"$match": {**where, **above}})
        )
        deleted = found[0]["unnumbered"] if found else 0
        whole = after is None or after[1] != deleted
        if whole and above:
            changed = await read_all(self._topics.find(where))
        highest = max((each.get("changed", 0) for each in changed), default=0)
        mark = (highest if after is None or whole else max(highest, after[0]), deleted)

        def changes() -> TopicChanges:
            return TopicChanges(topics=tuple(map(TOPIC.get, changed)), mark=mark, whole=whole)

        # A long thread's topics take so long to be made that nobody on the event loop should wait for them.
        return changes() if len(changed) <= _MANY_TOPICS else await asyncio.to_thread(changes)

    @bounded
    async def turns_behind(self, scope: Scope, after: Mapping[str, int]) -> list[Turn]:
        thread_of(scope)
        found: list[Document] = []
        for some in chunks(list(after.items()), _BRANCHES):
            either = [{"topic_id": topic_id, "seq": {"$gt": seq}} for topic_id, seq in some]
            found += await read_all(self._turns.find({**scope_filter(scope), "gone_at": None, "$or": either}))
        texts = await self._with_texts(sorted(found, key=lambda turn: turn["seq"]))
        return [TURN.get(document) for document in texts if "gone_at" not in document]

    async def save_topics(self, topics: Sequence[Topic]) -> set[str]:
        if not topics:
            return set()
        async with self._sequences.lock(("topics", topics[0].scope)):
            return await self._save(topics)

    @bounded
    async def _save(self, topics: Sequence[Topic]) -> set[str]:
        """Under the next numbers, which a unique index settles: none becomes visible below one that was seen."""
        scope = topics[0].scope
        # New ones first: each change of kind would be a command of its own.
        new_first = sorted(topics, key=lambda topic: topic.revision is not None)
        revisions = {uuid4().hex: topic for topic in new_first}
        left, saved = list(revisions), 0
        done: Mapping[str, Any]
        async for _ in Tries():
            newest = await self._topics.find_one(
                {**scope_filter(scope), "changed": {"$exists": True}},
                {"changed": 1, "_id": 0},
                sort=[("changed", -1)],
            )
            first = (newest["changed"] if newest else 0) + 1
            operations = [
                _saving(revisions[revision], {"revision": revision, "changed": number})
                for number, revision in enumerate(left, start=first)
            ]
            try:
                done = (await self._topics.bulk_write(operations, ordered=True)).bulk_api_result
                left = []
            except BulkWriteError as exc:
                error, keys = first_write_error(exc), violated_keys(exc)
                if error is None or keys not in (TOPIC_KEYS, CHANGED_KEYS):
                    raise
                done, left = exc.details, left[error["index"] + (keys == TOPIC_KEYS) :]
            saved += done["nInserted"] + done["nMatched"]
            if not left:
                break
        else:
            raise overtaken("the topics of this thread")
        if saved == len(topics):
            return {topic.id for topic in topics}
        where = {**scope_filter(scope), "revision": {"$in": list(revisions)}}
        return {found["topic_id"] for found in await read_all(self._topics.find(where, {"topic_id": 1}))}

    @bounded
    async def delete_topic(self, scope: Scope, topic_id: str, *, expected: str) -> bool:
        stored = {**scope_filter(scope), "topic_id": topic_id, "revision": expected}
        deleted = bool((await self._topics.delete_one(stored)).deleted_count)
        if deleted:
            await self._changed_unnumbered(scope)
        return deleted

    async def _changed_unnumbered(self, scope: Scope) -> None:
        """Tell those who keep the thread's topics to read them all: some were reset or deleted, which is rare."""
        where, more = scope_filter(scope), {"$inc": {"unnumbered": 1}, "$setOnInsert": {"_id": str(uuid4())}}
        await self._topic_marks.update_one(where, more, upsert=True)

    @bounded
    async def count_topic_turns(self, scope: Scope, topic_ids: Sequence[str]) -> dict[str, TopicTurns]:
        thread_of(scope)
        ours = {**scope_filter(scope), "topic_id": {"$in": list(topic_ids)}}
        packed = {"$cond": [{"$eq": [{"$type": "$segment_id"}, "missing"]}, 0, 1]}
        turns = {"turns": {"$sum": 1}, "compressed": {"$sum": packed}}
        sizes = {name: {"$sum": f"${name}"} for name in ("raw_bytes", "packed_bytes")}
        counts = dict.fromkeys(topic_ids, TopicTurns())
        found = await united(
            (self._turns, {"$match": {**ours, "gone_at": None}}, {"$group": {"_id": "$topic_id", **turns}}),
            (self._segments, {"$match": ours}, {"$group": {"_id": "$topic_id", **sizes}}),
        )
        for group in itertools.chain.from_iterable(found):
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
        await self._changed_unnumbered(Scope(user_id=user_id, thread_id=thread_id))
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
        for thread_id in {topic["thread_id"] for topic in topics if topic["_id"] in set(forsaken)}:
            await self._changed_unnumbered(Scope(user_id=user_id, thread_id=thread_id))
        return int(result.matched_count)


def _saving(topic: Topic, more: Document) -> InsertOne[Document] | ReplaceOne[Document]:
    document = {**TOPIC.document(topic), **more}
    if topic.revision is None:
        return InsertOne({"_id": str(uuid4()), **document})
    return ReplaceOne(
        {**scope_filter(topic.scope), "topic_id": topic.id, "revision": topic.revision}, document
    )


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
