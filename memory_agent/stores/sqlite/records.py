"""Domain values to SQLite rows and back."""

# ruff: noqa: S608 - statements are put together from constants of this package only; every value is bound

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.domain import (
    Erasure,
    FactChange,
    OldTurn,
    Scope,
    SearchRow,
    Stage,
    Tombstone,
    Topic,
    TopicStanding,
    TopicSummary,
    Turn,
    TurnDraft,
)
from memory_agent.stores.codec import (
    dump_json,
    from_milliseconds,
    milliseconds,
    pack_entities,
    pack_stated,
    pack_vectors,
    thread_of,
    unpack_entities,
    unpack_signs,
    unpack_stated,
    unpack_vectors,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

Record = tuple[Any, ...]

STAGE_BITS: Final[dict[Stage, int]] = {"index": 1, "topics": 2, "facts": 8, "compact": 16, "compress": 32}
"""How `turns.pending` keeps the owed stages, in their order. Never renumber: files on disk hold these bits.

4 was once reserved for entities and stays unused: they are found in the index stage.
"""

TURN_COLUMNS: Final = (
    "id, user_id, thread_id, seq, role, content, speaker, timestamp, tokens, importance, metadata,"
    " pending, due_at, attempts, last_error, parked, topic_id, segment_id, segment_at,"
    " session_id, entities"
)
OLD_TURN_COLUMNS: Final = "user_id, thread_id, id, timestamp, topic_id"
INSERT_TURN: Final = (
    "INSERT INTO turns (id, user_id, thread_id, seq, role, content, speaker, timestamp, tokens, importance,"
    " metadata, pending, due_at, idempotency_key, call_index, call_size, session_id, entities)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
ROW_COLUMNS: Final = (
    "turn_id, user_id, thread_id, seq, role, timestamp, session_id, speaker, signs, vectors, passages, terms,"
    " length, embedder, language, index_seq, erased_at"
)
TOPIC_COLUMNS: Final = (
    "id, user_id, thread_id, title, created_at, last_access, access_count, given_importance, embedding, embedded,"
    " embedder, summary, through, stale, set_importance, votes, tags, absorbed, archived, revision"
)
STANDING_COLUMNS: Final = (
    "user_id, thread_id, id, last_access, access_count, given_importance, set_importance, votes, through,"
    " absorbed, archived, stale"
)
CHANGE_COLUMNS: Final = (
    "thread_id, seq, key, kind, at, turn_id, turns, said_at, recorded_at, extractor, generation, stated,"
    " idempotency_key"
)
ERASURE_COLUMNS: Final = "id, user_id, thread_id, turn_ids, before_id, due_at, swept"


def where_scope(scope: Scope) -> tuple[str, list[Any]]:
    """A condition for what is in the scope, with its parameters."""
    if scope.thread_id is None:
        return "user_id = ?", [scope.user_id]
    return "user_id = ? AND thread_id = ?", [scope.user_id, scope.thread_id]


def among(column: str, values: Sequence[str] | Sequence[int]) -> tuple[str, list[Any]]:
    """A condition for `column` being one of any number of values, as one parameter."""
    return f"{column} IN (SELECT value FROM json_each(?))", [dump_json(list(values))]


def where_turns(scope: Scope, turn_ids: Sequence[str]) -> tuple[str, list[Any]]:
    """A condition for these turns of the scope."""
    # The plus keeps the thread from choosing the index: it would read the whole thread to find a few turns.
    where, parameters = where_scope(scope)
    where = where.replace("thread_id", "+thread_id")
    condition, values = among("id", turn_ids)
    return f"{where} AND {condition}", parameters + values


def turn_record(scope: Scope, draft: TurnDraft, seq: int, call_size: int) -> Record:
    """The parameters of INSERT_TURN."""
    return (
        draft.id,
        scope.user_id,
        thread_of(scope),
        seq,
        draft.role,
        draft.content,
        draft.speaker,
        milliseconds(draft.timestamp),
        draft.tokens,
        draft.importance,
        dump_json(draft.metadata) if draft.metadata else None,
        sum(STAGE_BITS[stage] for stage in draft.pending),
        milliseconds(draft.due_at) if draft.pending else None,
        draft.idempotency_key,
        draft.call_index,
        call_size,
        draft.session_id,
        dump_json(pack_entities(draft.entities)) if draft.entities else None,
    )


def stages(pending: int) -> tuple[Stage, ...]:
    """The stages in `turns.pending`, in the order they run."""
    return tuple(stage for stage, bit in STAGE_BITS.items() if pending & bit)


def turn(record: Record, content: str) -> Turn:
    """The turn in a row of TURN_COLUMNS, with its text (for compressed turns it is not in the row)."""
    metadata, pending, due_at = record[10:13]
    return Turn(
        id=record[0],
        user_id=record[1],
        thread_id=record[2],
        seq=record[3],
        role=record[4],
        content=content,
        speaker=record[6],
        timestamp=from_milliseconds(record[7]),
        tokens=record[8],
        importance=record[9],
        metadata=json.loads(metadata) if metadata else {},
        session_id=record[19],
        entities=unpack_entities(json.loads(record[20])) if record[20] else (),
        topic_id=record[16],
        compressed=record[17] is not None,
        pending=stages(pending),
        due_at=None if due_at is None else from_milliseconds(due_at),
        attempts=record[13],
        last_error=record[14],
        parked=bool(record[15]),
    )


def old_turn(record: Record) -> OldTurn:
    """Where the turn in a row of OLD_TURN_COLUMNS is."""
    return OldTurn(
        user_id=record[0],
        thread_id=record[1],
        id=record[2],
        timestamp=from_milliseconds(record[3]),
        topic_id=record[4],
    )


def topic_record(topic: Topic, revision: str) -> Record:
    """The parameters for TOPIC_COLUMNS."""
    return (
        topic.id,
        topic.user_id,
        topic.thread_id,
        topic.title,
        milliseconds(topic.created_at),
        milliseconds(topic.last_access),
        topic.access_count,
        topic.given_importance,
        topic.embedding.astype("<f2").tobytes(),
        topic.embedded,
        topic.embedder,
        None if topic.summary is None else _pack_summary(topic.summary),
        topic.through,
        int(topic.stale),
        topic.set_importance,
        topic.votes,
        dump_json(topic.tags),
        dump_json(topic.absorbed),
        int(topic.archived),
        revision,
    )


def topic(record: Record) -> Topic:
    """The topic in a row of TOPIC_COLUMNS."""
    return Topic(
        id=record[0],
        user_id=record[1],
        thread_id=record[2],
        title=record[3],
        created_at=from_milliseconds(record[4]),
        last_access=from_milliseconds(record[5]),
        access_count=record[6],
        given_importance=record[7],
        embedding=np.frombuffer(record[8], dtype="<f2"),
        embedded=record[9],
        embedder=record[10],
        summary=None if record[11] is None else _unpack_summary(record[11]),
        through=record[12],
        stale=bool(record[13]),
        set_importance=record[14],
        votes=record[15],
        tags=tuple(json.loads(record[16])),
        absorbed=tuple(json.loads(record[17])),
        archived=bool(record[18]),
        revision=record[19],
    )


def _pack_summary(summary: TopicSummary) -> str:
    return dump_json(
        {
            "text": summary.text,
            "made_by": summary.made_by,
            "through": summary.through,
            "turns": summary.turns,
            "made_at": milliseconds(summary.made_at),
        }
    )


def _unpack_summary(packed: str) -> TopicSummary:
    values = json.loads(packed)
    return TopicSummary(**{**values, "made_at": from_milliseconds(values["made_at"])})


def topic_standing(record: Record) -> TopicStanding:
    """What the sweep needs of the topic in a row of STANDING_COLUMNS."""
    return TopicStanding(
        user_id=record[0],
        thread_id=record[1],
        id=record[2],
        last_access=from_milliseconds(record[3]),
        access_count=record[4],
        given_importance=record[5],
        set_importance=record[6],
        votes=record[7],
        through=record[8],
        absorbed=tuple(json.loads(record[9])),
        archived=bool(record[10]),
        stale=bool(record[11]),
    )


def tombstone(record: Record) -> Tombstone:
    """From turn_id, seq, call_index, call_size."""
    return Tombstone(turn_id=record[0], seq=record[1], call_index=record[2], call_size=record[3])


def row_record(user_id: str, row: SearchRow, index_seq: int) -> Record:
    """The parameters for ROW_COLUMNS."""
    vectors, passages = pack_vectors(row.vectors)
    return (
        row.turn_id,
        user_id,
        row.thread_id,
        row.seq,
        row.role,
        milliseconds(row.timestamp),
        row.session_id,
        row.speaker,
        row.signs.packed,
        vectors,
        passages,
        dump_json(dict(row.terms)),
        row.length,
        row.embedder,
        row.language,
        index_seq,
        None,
    )


def search_row(record: Record) -> SearchRow:
    """The row in a row of ROW_COLUMNS. Called 10,000 times at a user's first search: keep it tight."""
    return SearchRow(
        turn_id=record[0],
        user_id=record[1],
        thread_id=record[2],
        seq=record[3],
        role=record[4],
        timestamp=from_milliseconds(record[5]),
        session_id=record[6],
        speaker=record[7],
        signs=unpack_signs(record[8]),
        vectors=unpack_vectors(record[9], record[10]),
        terms=json.loads(record[11]),
        length=record[12],
        embedder=record[13],
        language=record[14],
        index_seq=record[15],
        erased=record[16] is not None,
    )


def change_record(scope: Scope, change: FactChange, seq: int) -> Record:
    """The parameters for CHANGE_COLUMNS."""
    return (
        thread_of(scope),
        seq,
        change.key,
        change.kind,
        change.at,
        change.turn_id,
        dump_json(change.turns),
        milliseconds(change.said_at),
        milliseconds(change.recorded_at),
        change.extractor,
        change.generation,
        pack_stated(change),
        change.idempotency_key,
    )


def fact_change(record: Record) -> FactChange:
    """The change in a row of CHANGE_COLUMNS."""
    events, refused = unpack_stated(record[11])
    return FactChange(
        thread_id=record[0],
        seq=record[1],
        key=record[2],
        kind=record[3],
        at=record[4],
        turn_id=record[5],
        turns=tuple(json.loads(record[6])),
        said_at=from_milliseconds(record[7]),
        recorded_at=from_milliseconds(record[8]),
        extractor=record[9],
        generation=record[10],
        events=events,
        refused=refused,
        idempotency_key=record[12],
    )


def erasure_record(erasure: Erasure) -> Record:
    """The parameters for ERASURE_COLUMNS."""
    return (
        erasure.id,
        erasure.scope.user_id,
        erasure.scope.thread_id,
        None if erasure.turn_ids is None else dump_json(erasure.turn_ids),
        erasure.before_id,
        milliseconds(erasure.due_at),
        int(erasure.swept),
    )


def erasure(record: Record) -> Erasure:
    """The erasure in a row of ERASURE_COLUMNS."""
    return Erasure(
        id=record[0],
        scope=Scope(user_id=record[1], thread_id=record[2]),
        turn_ids=None if record[3] is None else tuple(json.loads(record[3])),
        before_id=record[4],
        due_at=from_milliseconds(record[5]),
        swept=bool(record[6]),
    )


def scalar(connection: sqlite3.Connection, sql: str, parameters: Sequence[Any]) -> Any:
    """The first column of the first row; None without one."""
    found = connection.execute(sql, parameters).fetchone()
    return found[0] if found else None
