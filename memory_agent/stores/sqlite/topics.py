"""Topics in SQLite, which turns carry them, and the compressing of their texts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from memory_agent.domain import PackedSize, Topic, TopicChanges, TopicTurns
from memory_agent.stores.codec import dump_json, from_milliseconds, milliseconds, thread_of
from memory_agent.stores.fields import HEAD, STANDING, TOPIC
from memory_agent.stores.segments import pack_texts, segments_of
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import Where, in_scope
from memory_agent.stores.sqlite.segments import (
    TURN_COLUMNS,
    plain_sizes,
    plain_texts,
    put_segment,
    read_turns,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import Scope, TopicDecayState, TopicHead, TopicMark, Turn
    from memory_agent.stores.codec import Record

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
