"""Topics in SQLite, which turns carry them, and the compressing of their texts."""

# ruff: noqa: S608 - statements are put together from constants of this package only; every value is bound

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from memory_agent.domain import PackedSize, Topic, TopicDecayState, TopicTurns
from memory_agent.stores.codec import from_milliseconds, milliseconds, thread_of
from memory_agent.stores.fields import STANDING, TOPIC
from memory_agent.stores.segments import pack_texts, segments_of
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import among, where_scope
from memory_agent.stores.sqlite.segments import plain_sizes, plain_texts, put_segment

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import Scope

_INSERT_TOPIC: Final = f"INSERT INTO topics ({TOPIC.columns}) VALUES ({TOPIC.marks})"
_ASSIGNED: Final = ", ".join(f"{column} = ?" for column in TOPIC.columns.split(", ")[3:])
_DERIVED: Final = {
    "title": "''",
    "access_count": "0",
    "given_importance": "NULL",
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
        where, parameters = where_scope(scope)
        if ids is not None:
            condition, values = among("id", ids)
            where, parameters = f"{where} AND {condition}", parameters + values
        for column, wanted in (("archived", archived), ("stale", stale)):
            if wanted is not None:
                where, parameters = f"{where} AND {column} = ?", [*parameters, int(wanted)]
        sql = f"SELECT {TOPIC.columns} FROM topics WHERE {where} ORDER BY id, thread_id"
        found = await self._read(lambda db: db.execute(sql, parameters).fetchall())
        return [Topic(**TOPIC.of_record(record)) for record in found]

    async def save_topic(self, topic: Topic, *, expected: str | None) -> bool:
        record = TOPIC.record(topic, revision=uuid4().hex)
        identity, values = record[:3], record[3:]
        if expected is None:
            sql = f"{_INSERT_TOPIC} ON CONFLICT (user_id, thread_id, id) DO NOTHING"
            parameters = [*identity, *values]
        else:
            sql = f"UPDATE topics SET {_ASSIGNED} WHERE id = ? AND user_id = ? AND thread_id = ? AND revision = ?"
            parameters = [*values, *identity, expected]
        return await self._write(lambda db: db.execute(sql, parameters).rowcount > 0)

    async def delete_topic(self, scope: Scope, topic_id: str, *, expected: str) -> bool:
        sql = "DELETE FROM topics WHERE user_id = ? AND thread_id = ? AND id = ? AND revision = ?"
        parameters = [scope.user_id, thread_of(scope), topic_id, expected]
        return await self._write(lambda db: db.execute(sql, parameters).rowcount > 0)

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
        where, parameters = ("1", []) if key is None else ("(user_id, thread_id, id) > (?, ?, ?)", [*key])
        sql = f"SELECT {STANDING.columns} FROM topics WHERE {where} ORDER BY user_id, thread_id, id LIMIT ?"
        found = await self._read(lambda db: db.execute(sql, [*parameters, max(limit, 0)]).fetchall())
        return [TopicDecayState(**STANDING.of_record(record)) for record in found]


def _count(db: sqlite3.Connection, scope: Scope, topic_ids: Sequence[str]) -> dict[str, TopicTurns]:
    where, parameters = where_scope(scope)
    condition, values = among("topic_id", topic_ids)
    where, parameters = f"{where} AND {condition}", parameters + values
    counted = dict.fromkeys(topic_ids, TopicTurns())
    for topic_id, turns, compressed in db.execute(
        f"SELECT topic_id, count(*), count(segment_id) FROM turns WHERE {where} GROUP BY topic_id",
        parameters,
    ):
        counted[topic_id] += TopicTurns(turns=turns, compressed=compressed)
    for topic_id, raw_bytes, packed_bytes in db.execute(
        f"SELECT topic_id, sum(raw_bytes), sum(length(data)) FROM segments WHERE {where} GROUP BY topic_id",
        parameters,
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
