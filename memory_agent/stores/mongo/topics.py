"""Topics in MongoDB, replaced under their revision, and the texts of compressed turns, packed together.

A turn is plain (it has its `content`), then packed (it has a `segment_id` instead), then gone, and never goes back.
A segment is written before any turn points at it, and a text leaves it only when its turn can't need it there any
more: when it is gone, or points at another segment. So no transaction is needed: whoever moves a turn on trims the
segments that hold it afterwards, a crash leaves at most a text too many, and a repeat finds and finishes that.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from bson.binary import Binary
from pymongo import InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError

from memory_agent.concurrency import Tries, overtaken
from memory_agent.domain import PackedSize, Scope, TopicChanges, TopicTurns, new_id
from memory_agent.errors import StoreError
from memory_agent.stores.codec import chunks, pack_texts, segments_of, thread_of, unpack_texts
from memory_agent.stores.fields import HEAD, STANDING, TOPIC, TURN
from memory_agent.stores.mongo.connection import (
    CHANGED_KEYS,
    HELD_KEYS,
    TOPIC_KEYS,
    MongoConnection,
    bounded,
    first_write_error,
    read_all,
    united,
    violated_keys,
)
from memory_agent.stores.mongo.documents import BLANK_TOPIC, one_of, scope_filter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import Topic, TopicDecayState, TopicHead, TopicMark, Turn
    from memory_agent.stores.mongo.connection import Document


_PLAIN: Final[Document] = {"gone_at": None, "segment_id": None}
PACKED: Final[Document] = {"$project": {"codec": 1, "data": 1, "turn_ids": 1}}
"""What a segment's texts are unpacked from."""
_TURNS_OF_A_SEGMENT: Final = 1_000
_READINGS: Final = 5
_UNPACKED_IN_PLACE: Final = 16_000
"""Packed bytes that take less than a hop into a thread."""


class MongoSegments(MongoConnection):
    """The segments of a MongoStore."""

    # --- reading ---------------------------------------------------------------------------------------------
    async def _with_texts(
        self, documents: Sequence[Document], segments: Sequence[Document] | None = None
    ) -> list[Document]:
        """One user's documents of `turns`, each with its `content`, in their order. `segments`: theirs, where they were read after them.

        Those of turns that were forgotten since they were read come as they are now, or are left out.
        """
        turns = {document["_id"]: document for document in documents}
        for _ in range(_READINGS):
            packed = [t for t in turns.values() if "segment_id" in t and "content" not in t]
            unread, segments = await self._fill_in(packed, segments), None
            if not unread:
                return list(turns.values())
            # Their text left the segment because they were forgotten between the two reads.
            query = {**one_of(unread), "user_id": packed[0]["user_id"]}
            now = {turn["_id"]: turn for turn in await read_all(self._turns.find(query))}
            turns = {
                turn_id: now.get(turn_id, turn)
                for turn_id, turn in turns.items()
                if turn_id in now or turn_id not in unread
            }
        unreadable = next(t for t in turns.values() if "segment_id" in t and "content" not in t)
        raise StoreError(f"turn {unreadable['_id']} has no text in its segment {unreadable['segment_id']}")

    async def _without_text(self, documents: Sequence[Document]) -> set[str]:
        """Of these of one user, those that are compressed and whose text is lost or damaged."""
        packed = [document for document in documents if "segment_id" in document]
        if not packed:
            return set()
        query = {**one_of({turn["segment_id"] for turn in packed}), "user_id": packed[0]["user_id"]}
        held: set[tuple[str, str]] = set()
        for segment in await read_all(self._segments.find(query, PACKED["$project"])):
            with suppress(StoreError):
                texts = await asyncio.to_thread(_unpacked, segment)
                held |= {(segment["_id"], turn_id) for turn_id, _ in texts}
        return {turn["_id"] for turn in packed if (turn["segment_id"], turn["_id"]) not in held}

    async def _fill_in(self, packed: Sequence[Document], segments: Sequence[Document] | None) -> list[str]:
        """Give these turns their `content`; the ids of those that their segment does not hold."""
        if not packed:
            return []
        if segments is None:
            query = {**one_of({turn["segment_id"] for turn in packed}), "user_id": packed[0]["user_id"]}
            segments = await read_all(self._segments.find(query, PACKED["$project"]))
        wanted = {turn["_id"] for turn in packed}
        if sum(len(segment["data"]) for segment in segments) > _UNPACKED_IN_PLACE:
            texts = await asyncio.to_thread(_texts_of, segments, wanted)
        else:
            texts = _texts_of(segments, wanted)
        for turn in packed:
            if (place := (turn["segment_id"], turn["_id"])) in texts:
                turn["content"] = texts[place]
        return [turn["_id"] for turn in packed if "content" not in turn]

    # --- packing ---------------------------------------------------------------------------------------------
    async def compress_turns(self, scope: Scope, topic_id: str, turn_ids: Sequence[str]) -> PackedSize:
        thread_of(scope)
        plain = await self._plain_turns(scope, turn_ids)
        done = PackedSize()
        # A segment that holds a plain turn is the work of a crashed compressor, or of one that is at it now. It may
        # still point turns there, so the segment is not deleted but finished, which both of them may do.
        begun = await self._segments_holding(scope.user_id, [turn["_id"] for turn in plain])
        for segment in begun:
            done += await self._point_at(scope.user_id, segment["_id"], segment["turn_ids"])
        if begun:
            plain = await self._plain_turns(scope, turn_ids)
        for chunk in chunks(plain, _TURNS_OF_A_SEGMENT):
            for part in segments_of(turn["bytes"] for turn in chunk):
                done += await self._pack(scope, topic_id, [turn["_id"] for turn in chunk[part]])
        return done

    async def _plain_turns(self, scope: Scope, turn_ids: Iterable[str]) -> list[Document]:
        """Id and `bytes` of the text, by rising `seq`, of those that are not compressed."""
        size: list[Document] = [
            {"$match": {**scope_filter(scope, turn_ids), **_PLAIN}},
            {"$project": {"seq": 1, "bytes": {"$strLenBytes": "$content"}}},
            {"$sort": {"seq": 1}},
        ]
        return await self._bounded(read_all(self._turns.aggregate(size)))

    async def _pack(self, scope: Scope, topic_id: str, turn_ids: Sequence[str]) -> PackedSize:
        """One segment of these turns, as far as they are still plain."""
        turns = await self._read_plain(scope, turn_ids)
        if not turns:
            return PackedSize()
        ids = [turn["_id"] for turn in turns]
        segment = {
            "_id": new_id(),
            **scope_filter(scope),
            "topic_id": topic_id,
            **await asyncio.to_thread(_packed_fields, ids, [turn["content"] for turn in turns]),
        }
        await self._insert_segment(segment)
        return await self._point_at(scope.user_id, segment["_id"], ids)

    async def _read_plain(self, scope: Scope, turn_ids: Sequence[str]) -> list[Document]:
        query = {**scope_filter(scope, turn_ids), **_PLAIN}
        return await self._bounded(read_all(self._turns.find(query, {"content": 1}).sort("seq", 1)))

    async def _insert_segment(self, segment: Document) -> None:
        await self._bounded(self._segments.insert_one(segment))

    async def _point_at(self, user_id: str, segment_id: str, turn_ids: Sequence[str]) -> PackedSize:
        """These turns, as far as they are plain, have their text in the segment that was made of them.

        Then the segment is trimmed to what points at it. What it then holds, if nobody has counted it yet.
        """
        if await self._move(user_id, segment_id, turn_ids) < len(turn_ids):
            await self._trim(user_id, segment_id)
        segment = await self._bounded(
            # Counted once: by the first of several that finish it.
            self._segments.find_one_and_update(
                {"_id": segment_id, "user_id": user_id, "counted": None},
                {"$set": {"counted": True}},
                projection={"turn_ids": 1, "raw_bytes": 1, "packed_bytes": 1, "_id": 0},
            )
        )
        if segment is None:
            return PackedSize()
        return PackedSize(turns=len(segment.pop("turn_ids")), **segment)

    async def _move(self, user_id: str, segment_id: str, turn_ids: Sequence[str]) -> int:
        plain = {**one_of(turn_ids), "user_id": user_id, **_PLAIN}
        move = {"$set": {"segment_id": segment_id}, "$unset": {"content": ""}}
        return int((await self._bounded(self._turns.update_many(plain, move))).modified_count)

    # --- taking texts out ------------------------------------------------------------------------------------
    async def _trim_all(self, user_id: str, segments: Iterable[Document]) -> int:
        """Trim those of these segments (`_id` and `turn_ids`) that hold too much; how many texts went."""
        taken = 0
        for segment in segments:
            if len(await self._needed(user_id, segment)) < len(segment["turn_ids"]):
                taken += await self._trim(user_id, segment["_id"])
        return taken

    async def _trim(self, user_id: str, segment_id: str) -> int:
        """Take out of the segment what no turn needs there any more; how many texts went."""
        async for _ in Tries():
            query = {"_id": segment_id, "user_id": user_id}
            segment = await self._bounded(self._segments.find_one(query))
            if segment is None:
                return 0
            needed = await self._needed(user_id, segment)
            if len(needed) == len(segment["turn_ids"]):
                return 0
            if await self._keep_only(segment, needed):
                return len(segment["turn_ids"]) - len(needed)
        raise overtaken("the segment")

    async def _keep_only(self, segment: Document, needed: Collection[str]) -> bool:
        """Rewrite the segment with only the `needed`, or delete it without any; False if it changed since it was read."""
        as_read = {name: segment[name] for name in ("_id", "user_id", "revision")}
        if not needed:
            return bool((await self._bounded(self._segments.delete_one(as_read))).deleted_count)
        fields = await asyncio.to_thread(_without, segment, needed)
        return bool((await self._bounded(self._segments.update_one(as_read, {"$set": fields}))).matched_count)

    async def _needed(self, user_id: str, segment: Document) -> set[str]:
        """The turns that have their text in the segment, or are plain and may yet come to."""
        there = {"gone_at": None, "segment_id": {"$in": [None, segment["_id"]]}}
        query = {**one_of(segment["turn_ids"]), "user_id": user_id, **there}
        return {turn["_id"] for turn in await self._bounded(read_all(self._turns.find(query, {"_id": 1})))}

    async def _segments_holding(self, user_id: str, turn_ids: Sequence[str]) -> list[Document]:
        if not turn_ids:
            return []
        query = {"user_id": user_id, "turn_ids": {"$in": list(turn_ids)}}
        # By any other index the server would read all packed texts of the user.
        found = self._segments.find(query, {"turn_ids": 1}).hint([(key, 1) for key in HELD_KEYS])
        return await self._bounded(read_all(found))

    async def _segments_of_user(self, user_id: str) -> list[Document]:
        return await self._bounded(read_all(self._segments.find({"user_id": user_id}, {"turn_ids": 1})))


def _packed_fields(turn_ids: Sequence[str], texts: Sequence[str]) -> Document:
    """The fields of a segment that change when it is rewritten. About a second for each megabyte of text."""
    packed = pack_texts(texts)
    return {
        "turn_ids": list(turn_ids),
        "codec": packed.codec,
        "data": Binary(packed.data),
        "raw_bytes": packed.raw_bytes,
        "packed_bytes": len(packed.data),
        "revision": uuid4().hex,
    }


def _unpacked(segment: Document) -> Iterable[tuple[str, str]]:
    texts = unpack_texts(segment["codec"], segment["data"])
    if len(texts) != len(segment["turn_ids"]):
        raise StoreError(
            f"segment {segment['_id']} is damaged: {len(texts):,} texts of {len(segment['turn_ids']):,} turns"
        )
    return zip(segment["turn_ids"], texts, strict=True)


def _without(segment: Document, needed: Collection[str]) -> Document:
    kept = [(turn_id, text) for turn_id, text in _unpacked(segment) if turn_id in needed]
    return _packed_fields([turn_id for turn_id, _ in kept], [text for _, text in kept])


def _texts_of(segments: Iterable[Document], turn_ids: Collection[str]) -> dict[tuple[str, str], str]:
    """The texts of these turns by segment and turn."""
    return {
        (segment["_id"], turn_id): text
        for segment in segments
        for turn_id, text in _unpacked(segment)
        if turn_id in turn_ids
    }


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
