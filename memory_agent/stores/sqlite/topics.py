"""Topics in SQLite, which turns carry them, and the texts of compressed turns, packed together.

Brotli needs a second for a megabyte. So what is packed is checked again in the transaction that stores it; if a
turn was forgotten or packed meanwhile, the caller packs anew. A turn's text never changes, so equal ids are equal
texts.

Which text is whose only the turns say, by its place: a few bytes where ids in the segment would take as many as the
packed text. So places stay when others go, and a text that went is left empty.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from memory_agent.domain import PackedSize, Topic, TopicChanges, TopicTurns
from memory_agent.errors import StoreError
from memory_agent.stores.codec import (
    dump_json,
    from_milliseconds,
    milliseconds,
    pack_texts,
    segments_of,
    thread_of,
    unpack_texts,
)
from memory_agent.stores.fields import HEAD, STANDING, TOPIC, TURN
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import Where, in_scope, these_turns

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import Scope, TopicDecayState, TopicHead, TopicMark, Turn
    from memory_agent.stores.codec import Packed, Record


TURN_COLUMNS: Final = f"segment_id, segment_at, {TURN.columns}"
_PLAIN: Final = (None, None)
_CONTENT: Final = list(TURN.kinds).index("content")
_USER: Final = 2 + list(TURN.kinds).index("user_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaving:
    """Turns whose texts go out of a segment, each with its place there, and of how many.

    Equal ones leave equal texts: a segment never gets a turn again, so each state of it has another `live`. An id may
    be given to another segment after its own went, but not while one of the turns is there.
    """

    segment_id: int
    live: int
    turns: frozenset[tuple[str, int]]

    @property
    def whole(self) -> bool:
        """True if no turn has its text there any more."""
        return len(self.turns) >= self.live


Remainders = dict[Leaving, "Packed"]
"""What stays of segments, packed."""


def read_turns(db: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> list[Turn]:
    """The turns that a statement on TURN_COLUMNS finds, each with its text wherever that is kept."""
    return with_texts(db, db.execute(sql, parameters).fetchall())


def with_texts(db: sqlite3.Connection, records: Sequence[Record]) -> list[Turn]:
    """The turns in rows that begin with TURN_COLUMNS, all of one user; one query for all texts in segments."""
    places = {(record[0], record[1]) for record in records} - {_PLAIN}
    texts = texts_at(db, records[0][_USER], places) if places else {}
    found = []
    for segment_id, at, *stored in records:
        if segment_id is not None:
            if (segment_id, at) not in texts:
                raise StoreError(f"turn {stored[0]} is compressed, but its segment does not hold its text")
            stored[_CONTENT] = texts[segment_id, at]
        found.append(TURN.read(stored))
    return found


def without_text(db: sqlite3.Connection, records: Sequence[Record]) -> list[str]:
    """Of the turns in such rows, the ids of those that are compressed and whose text is lost or damaged."""
    wanted: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for segment_id, at, turn_id, *_ in records:
        if segment_id is not None:
            wanted[segment_id].append((at, turn_id))
    counts: dict[int, int] = {}
    if wanted:
        for segment_id, codec, data in _segments(db, "id, codec, data", records[0][_USER], wanted):
            with suppress(StoreError):
                counts[segment_id] = len(unpack_texts(codec, data))
    return [
        turn_id
        for segment_id, turns in wanted.items()
        for at, turn_id in turns
        if at >= counts.get(segment_id, 0)
    ]


def texts_at(db: sqlite3.Connection, user_id: str, places: Iterable[Record]) -> dict[Record, str]:
    """The texts at these places (segment, place in it), where there are such."""
    wanted: dict[int, list[int]] = defaultdict(list)
    for segment_id, at in places:
        wanted[segment_id].append(at)
    texts: dict[Record, str] = {}
    # One segment after the other: unpacked, they may be large.
    for segment_id, codec, data in _segments(db, "id, codec, data", user_id, wanted):
        unpacked = unpack_texts(codec, data)
        texts |= {(segment_id, at): unpacked[at] for at in wanted[segment_id] if at < len(unpacked)}
    return texts


def _segments(
    db: sqlite3.Connection, columns: str, user_id: str, segment_ids: Iterable[int]
) -> sqlite3.Cursor:
    # The plus leaves the choice to the ids: by the user all of their segments would be looked at.
    where = Where("+user_id = ?", user_id).among("id", list(segment_ids))
    return db.execute(f"SELECT {columns} FROM segments WHERE {where}", where.values)


def plain_sizes(db: sqlite3.Connection, scope: Scope, turn_ids: Sequence[str]) -> list[tuple[str, int]]:
    """Those of the turns that are not compressed, by `seq`, with the UTF-8 bytes of their texts."""
    return _plain(db, "id, length(CAST(content AS BLOB))", scope, turn_ids)


def plain_texts(db: sqlite3.Connection, scope: Scope, turn_ids: Sequence[str]) -> dict[str, str]:
    """The texts of those of the turns that are not compressed, by `seq`."""
    return dict(_plain(db, "id, content", scope, turn_ids))


def _plain(db: sqlite3.Connection, columns: str, scope: Scope, turn_ids: Sequence[str]) -> list[Any]:
    where = these_turns(scope, turn_ids).also("segment_id IS NULL")
    return db.execute(f"SELECT {columns} FROM turns WHERE {where} ORDER BY seq", where.values).fetchall()


def put_segment(
    db: sqlite3.Connection, scope: Scope, topic_id: str, turn_ids: Sequence[str], packed: Packed
) -> bool:
    """Move the texts of these turns into a segment; False if some are forgotten or compressed by now."""
    if len(_plain(db, "id", scope, turn_ids)) < len(turn_ids):
        return False
    place = (scope.user_id, scope.thread_id, topic_id)
    segment_id = db.execute(
        "INSERT INTO segments (user_id, thread_id, topic_id, live, raw_bytes, codec, data)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [*place, len(turn_ids), packed.raw_bytes, packed.codec, packed.data],
    ).lastrowid
    db.execute(
        "UPDATE turns SET segment_id = ?, segment_at = texts.key, content = '' FROM json_each(?) AS texts"
        " WHERE turns.id = texts.value AND +user_id = ? AND +thread_id = ?",  # the pluses: as in in_scope
        [segment_id, dump_json(turn_ids), scope.user_id, scope.thread_id],
    )
    return True


def leaving(
    db: sqlite3.Connection, user_id: str, places: Iterable[tuple[str, int | None, int | None]]
) -> list[Leaving]:
    """By segment, what goes with these turns (turn, segment, place in it), those that aren't compressed aside."""
    turns: dict[int, set[tuple[str, int]]] = defaultdict(set)
    for turn_id, segment_id, at in places:
        if segment_id is not None and at is not None:
            turns[segment_id].add((turn_id, at))
    return [
        Leaving(segment_id=segment_id, live=live, turns=frozenset(turns[segment_id]))
        for segment_id, live in _segments(db, "id, live", user_id, turns)
    ]


def remaining_texts(db: sqlite3.Connection, user_id: str, gone: Leaving) -> list[str]:
    """The segment's texts, empty where they are to go; nothing if none is left, or if they aren't as they were."""
    if gone.whole:
        return []
    places = {at for _, at in gone.turns}
    return [
        "" if at in places else text
        for live, codec, data in _segments(db, "live, codec, data", user_id, [gone.segment_id])
        if live == gone.live
        for at, text in enumerate(unpack_texts(codec, data))
    ]


def take_out(
    db: sqlite3.Connection, user_id: str, leaving: Sequence[Leaving], remainders: Remainders
) -> bool:
    """Take these texts out of their segments; False, and nothing done, if a remainder is missing."""
    if any(not gone.whole and gone not in remainders for gone in leaving):
        return False
    db.executemany(
        "DELETE FROM segments WHERE user_id = ? AND id = ?",
        [(user_id, gone.segment_id) for gone in leaving if gone.whole],
    )
    db.executemany(
        "UPDATE segments SET live = live - ?, raw_bytes = ?, codec = ?, data = ? WHERE user_id = ? AND id = ?",
        [
            (len(gone.turns), packed.raw_bytes, packed.codec, packed.data, user_id, gone.segment_id)
            for gone in leaving
            if not gone.whole
            for packed in [remainders[gone]]
        ],
    )
    return True


_INSERT_TOPIC: Final = f"INSERT INTO topics ({TOPIC.columns}) VALUES ({TOPIC.marks})"
_ASSIGNED: Final = ", ".join(f"{column} = ?" for column in TOPIC.columns.split(", ")[3:])
_DERIVED: Final = {
    "title": "''",
    "opener": "''",
    "access_count": "0",
    "given_importance": "NULL",
    "words": "'{}'",
    "embedding": "x''",
    "embedded": "0",
    "embedder": "''",
    "summary": "NULL",
    "through": "0",
    "stale": "1",
}
"""What is derived from turns, as it is in an empty topic."""
_EMPTIED: Final = ", ".join(f"{column} = {value}" for column, value in _DERIVED.items())
_IS_EMPTY: Final = " AND ".join(f"{column} IS {value}" for column, value in _DERIVED.items())


class SqliteTopics(SqliteConnection):
    """The topics of a SqliteStore."""

    async def assign_topics(self, scope: Scope, topics: Mapping[str, str]) -> None:
        records = [
            (topic_id, scope.user_id, thread_of(scope), turn_id) for turn_id, topic_id in topics.items()
        ]
        sql = (
            "UPDATE turns SET topic_id = ?"
            " WHERE user_id = ? AND thread_id = ? AND id = ? AND topic_id IS NULL"
        )
        if records:
            # The count, not the cursor: freed in another thread, that one would reset the statement while it runs.
            await self._write(lambda db: db.executemany(sql, records).rowcount)

    async def list_topics(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        archived: bool | None = None,
        stale: bool | None = None,
    ) -> list[Topic]:
        where = in_scope(scope).among("id", ids).equal(archived=archived, stale=stale)
        return await self._select(TOPIC, f"FROM topics WHERE {where} ORDER BY id, thread_id", where.values)

    async def topic_heads(self, scope: Scope, *, ids: Sequence[str] | None = None) -> list[TopicHead]:
        where = in_scope(scope)
        if ids is not None:
            named, absorbed = where.among("id", ids), where.among("value", ids)
            # One after the other: with OR, SQLite would read all of the thread's.
            where = Where(
                f"rowid IN (SELECT rowid FROM topics WHERE {named} UNION SELECT topics.rowid"
                f" FROM topics INDEXED BY topics_absorbing, json_each(absorbed) WHERE {absorbed} AND absorbed <> '[]')",
                *named.values,
                *absorbed.values,
            )
        return await self._select(HEAD, f"FROM topics WHERE {where} ORDER BY id, thread_id", where.values)

    async def changed_topics(self, scope: Scope, *, after: TopicMark | None = None) -> TopicChanges:
        thread_of(scope)
        return await self._read(lambda db: _changed(db, scope, after))

    async def turns_behind(self, scope: Scope, after: Mapping[str, int]) -> list[Turn]:
        sql = (
            "WITH asked (topic, above) AS (SELECT key, value FROM json_each(?))"
            f" SELECT {TURN_COLUMNS} FROM asked CROSS JOIN turns INDEXED BY turns_topic"
            " WHERE user_id = ? AND topic_id = topic AND thread_id = ? AND seq > above ORDER BY seq"
        )
        values = [dump_json(dict(after)), scope.user_id, thread_of(scope)]
        return await self._read(lambda db: read_turns(db, sql, values))

    async def save_topics(self, topics: Sequence[Topic]) -> set[str]:
        records = [(topic, TOPIC.record(topic, revision=uuid4().hex)) for topic in topics]
        return await self._write(
            lambda db: {topic.id for topic, record in records if _save(db, record, topic.revision)}
        )

    async def delete_topic(self, scope: Scope, topic_id: str, *, expected: str) -> bool:
        sql = "DELETE FROM topics WHERE user_id = ? AND thread_id = ? AND id = ? AND revision = ?"
        return await self._execute(sql, [scope.user_id, thread_of(scope), topic_id, expected]) > 0

    async def count_topic_turns(self, scope: Scope, topic_ids: Sequence[str]) -> dict[str, TopicTurns]:
        thread_of(scope)
        return await self._read(lambda db: _count(db, scope, topic_ids))

    async def compress_turns(self, scope: Scope, topic_id: str, turn_ids: Sequence[str]) -> PackedSize:
        thread_of(scope)
        sizes = await self._read(lambda db: plain_sizes(db, scope, turn_ids))
        done = PackedSize()
        for together in segments_of(size for _, size in sizes):
            done += await self._compress(scope, topic_id, [turn_id for turn_id, _ in sizes[together]])
        return done

    async def _compress(self, scope: Scope, topic_id: str, turn_ids: Sequence[str]) -> PackedSize:
        """Pack these turns into one segment, or what is left of them if somebody else forgets or packs some."""
        while texts := await self._read(lambda db: plain_texts(db, scope, turn_ids)):
            ids = list(texts)
            packed = await asyncio.to_thread(pack_texts, list(texts.values()))
            if await self._write(lambda db: put_segment(db, scope, topic_id, ids, packed)):  # noqa: B023 - awaited here
                return PackedSize(turns=len(ids), raw_bytes=packed.raw_bytes, packed_bytes=len(packed.data))
        return PackedSize()

    async def topics_after(self, key: tuple[str, str, str] | None, *, limit: int) -> list[TopicDecayState]:
        where = Where() if key is None else Where("(user_id, thread_id, id) > (?, ?, ?)", *key)
        rest = f"FROM topics WHERE {where} ORDER BY user_id, thread_id, id LIMIT ?"
        return await self._select(STANDING, rest, [*where.values, max(limit, 0)])


def _save(db: sqlite3.Connection, record: Record, expected: str | None) -> bool:
    if expected is None:
        sql = f"{_INSERT_TOPIC} ON CONFLICT (user_id, thread_id, id) DO NOTHING"
        return db.execute(sql, record).rowcount > 0
    sql = f"UPDATE topics SET {_ASSIGNED} WHERE user_id = ? AND thread_id = ? AND id = ? AND revision = ?"
    return db.execute(sql, [*record[3:], *record[:3], expected]).rowcount > 0


def _changed(db: sqlite3.Connection, scope: Scope, after: TopicMark | None) -> TopicChanges:
    where = in_scope(scope)
    found = db.execute(f"SELECT changed, deleted FROM topic_marks WHERE {where}", where.values).fetchone()
    mark: TopicMark = found or (0, 0)
    whole = after is None or after[1] != mark[1] or after[0] > mark[0]
    if after is not None and not whole:
        where = where.also("changed > ?", after[0])
    # All at once: a row that is damaged would leave a statement half read, and the lane on an old snapshot.
    records = db.execute(f"SELECT {TOPIC.columns} FROM topics WHERE {where}", where.values).fetchall()
    return TopicChanges(topics=tuple(map(TOPIC.read, records)), mark=mark, whole=whole)


def _count(db: sqlite3.Connection, scope: Scope, topic_ids: Sequence[str]) -> dict[str, TopicTurns]:
    where = in_scope(scope).among("topic_id", topic_ids)
    counted = dict.fromkeys(topic_ids, TopicTurns())
    for topic_id, turns, compressed in db.execute(
        f"SELECT topic_id, count(*), count(segment_id) FROM turns WHERE {where} GROUP BY topic_id",
        where.values,
    ):
        counted[topic_id] += TopicTurns(turns=turns, compressed=compressed)
    for topic_id, raw_bytes, packed_bytes in db.execute(
        f"SELECT topic_id, sum(raw_bytes), sum(length(data)) FROM segments WHERE {where} GROUP BY topic_id",
        where.values,
    ):
        counted[topic_id] += TopicTurns(raw_bytes=raw_bytes, packed_bytes=packed_bytes)
    return counted


def reset_topics(
    db: sqlite3.Connection, user_id: str, carried: Iterable[tuple[str, str]], now: datetime
) -> int:
    """Empty the topics that turns of (thread, topic id) belong to; how many.

    Each gets a new revision, also one that was empty: who read it since may have read turns that are gone now.
    Where neither the topic nor one that absorbed it is stored, an empty one is made.
    """
    held: set[tuple[str, str]] = set()
    made = 0
    for thread_id, topic_id in carried:
        found = _holding(db, user_id, thread_id, topic_id)
        held.update((thread_id, found_id) for found_id in found)
        if not found:
            db.execute(
                _INSERT_TOPIC, TOPIC.record(_empty(user_id, thread_id, topic_id, now), revision=uuid4().hex)
            )
            made += 1
    return made + _empty_topics(db, user_id, held)


def reset_forsaken_topics(db: sqlite3.Connection, user_id: str) -> int:
    """Empty the user's topics that no turn belongs to; how many were not empty yet.

    `reset_topics` leaves none. A worker that outlived its lease may have saved one after another had deleted it.
    """
    found = db.execute(
        f"SELECT thread_id, id FROM topics WHERE user_id = ? AND NOT ({_IS_EMPTY})"
        " AND NOT EXISTS (SELECT 1 FROM turns"
        " WHERE turns.user_id = topics.user_id AND turns.thread_id = topics.thread_id"
        " AND turns.topic_id IN (SELECT topics.id UNION ALL SELECT value FROM json_each(topics.absorbed)))",
        [user_id],
    ).fetchall()
    return _empty_topics(db, user_id, found)


def _holding(db: sqlite3.Connection, user_id: str, thread_id: str, topic_id: str) -> list[str]:
    """The topics that have the turns which carry this id: of that id, or which absorbed it."""
    found = db.execute(
        "SELECT id FROM topics WHERE user_id = ?1 AND thread_id = ?2 AND id = ?3"
        " UNION SELECT id FROM topics INDEXED BY topics_absorbing WHERE user_id = ?1 AND thread_id = ?2 AND absorbed <> '[]'"
        " AND ?3 IN (SELECT value FROM json_each(absorbed))",
        [user_id, thread_id, topic_id],
    )
    return [found_id for (found_id,) in found]


def _empty(user_id: str, thread_id: str, topic_id: str, now: datetime) -> Topic:
    time = from_milliseconds(milliseconds(now))
    return Topic(
        id=topic_id, user_id=user_id, thread_id=thread_id, created_at=time, last_access=time, stale=True
    )


def _empty_topics(db: sqlite3.Connection, user_id: str, topics: Collection[tuple[str, str]]) -> int:
    db.executemany(
        f"UPDATE topics SET {_EMPTIED}, revision = ? WHERE user_id = ? AND thread_id = ? AND id = ?",
        [(uuid4().hex, user_id, thread_id, topic_id) for thread_id, topic_id in topics],
    )
    return len(topics)
