"""Values that the conformance suites put into a store, and how they open one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import numpy as np
import pytest

from memory_agent.domain import (
    PERSON,
    Character,
    Compression,
    Erasure,
    FactChange,
    FactEvent,
    KeyMoment,
    RefusedFact,
    Scope,
    SearchRow,
    Session,
    SummaryItem,
    Tombstone,
    Topic,
    TopicRanges,
    TopicSummary,
    Turn,
    TurnDraft,
    new_id,
)
from memory_agent.ports import DocumentStore

on_every_server = pytest.mark.on_every_server
"""Marks what has to hold without a replica set in every run, and at night by another driver: whatever more than one store
does at once, but for the longest races, and so much besides that every line of the MongoStore is run."""
NOW = datetime(2031, 5, 4, 3, 2, 1, 987_000, tzinfo=UTC)
"""Later than every id made while testing, so that work owed at once is due."""


class OpenStore(Protocol):
    """Opens one more store on the test's database."""

    async def __call__(self) -> DocumentStore: ...


def a_scope(user_id: str = "ada", thread_id: str = "t1") -> Scope:
    return Scope(user_id=user_id, thread_id=thread_id)


def a_draft(
    content: str = "hello",
    *,
    index: int = 0,
    size: int = 1,
    key: str | None = None,
    turn_id: str | None = None,
    **fields: Any,
) -> TurnDraft:
    """A draft of the user's; `fields` are other ones of TurnDraft."""
    values: dict[str, Any] = {
        "speaker": None,
        "timestamp": NOW,
        "importance": None,
        "metadata": {},
        "pending": (),
    }
    return TurnDraft(
        id=turn_id or new_id(),
        role="user",
        content=content,
        tokens=len(content),
        due_at=NOW,
        idempotency_key=key,
        call_index=index,
        call_size=size,
        **{**values, **fields},
    )


def a_call(*contents: str, **fields: Any) -> list[TurnDraft]:
    """The drafts of one call; `fields` as of `a_draft`."""
    return [a_draft(text, index=index, size=len(contents), **fields) for index, text in enumerate(contents)]


async def stored(store: DocumentStore, scope: Scope, *contents: str, **fields: Any) -> list[Turn]:
    """Append one call and give back its turns; `fields` as of `a_draft`."""
    return only_turns(await store.append_turns(scope, a_call(*contents, **fields)))


def only_turns(appended: Sequence[Turn | Tombstone]) -> list[Turn]:
    turns = [turn for turn in appended if isinstance(turn, Turn)]
    assert len(turns) == len(appended)
    return turns


def a_row(
    turn_id: str | None = None,
    *,
    scope: Scope | None = None,
    terms: Mapping[str, int] | None = None,
    passages: int = 1,
    seq: int = 1,
    **fields: Any,
) -> SearchRow:
    """A row with linear vectors; `fields` are other ones of SearchRow."""
    scope = scope or a_scope()
    terms = {"sea": 2, "sun": 1} if terms is None else terms
    vectors = np.linspace(-1, 1, passages * 8, dtype=np.float32).reshape(passages, 8).astype(np.float16)
    return SearchRow(
        turn_id=turn_id or new_id(),
        user_id=scope.user_id,
        thread_id=scope.thread_id or "t1",
        seq=seq,
        role="assistant",
        timestamp=NOW - timedelta(days=1),
        vectors=vectors,
        terms=terms,
        length=sum(terms.values()),
        embedder="ab12cd34ef56",
        language="english/2",
        **fields,
    )


async def put_large(store: DocumentStore, user_id: str, rows: Sequence[SearchRow]) -> None:
    """Put the rows of a large user: what they hold is in the term index as well."""
    await store.put_search_rows(user_id, rows, now=NOW)
    await store.index_terms(user_id, [row.turn_id for row in rows])


def a_topic(topic_id: str | None = None, *, scope: Scope | None = None, **fields: Any) -> Topic:
    """A topic with a title and an embedding; `fields` are those of Topic."""
    scope = scope or a_scope()
    values: dict[str, Any] = {
        "title": "The sea at night",
        "created_at": NOW - timedelta(days=2),
        "last_access": NOW - timedelta(days=1),
        "access_count": 3,
        "given_importance": 0.75,
        "embedding": np.linspace(-0.5, 0.5, 8, dtype=np.float32).astype(np.float16),
        "embedded": 2,
        "embedder": "ab12cd34ef56",
        "through": 4,
    }
    return Topic(
        id=topic_id or new_id(),
        user_id=scope.user_id,
        thread_id=scope.thread_id or "t1",
        **{**values, **fields},
    )


FULL_TOPIC: dict[str, Any] = {
    "title": "Ünïcode\n“title” $set.a 👩‍👩‍👧‍👦",
    "access_count": 7,
    "given_importance": 0.1,
    "embedding": np.array([0.0, -0.0, 6e-8, -0.5, 0.333], dtype=np.float16),
    "embedded": 9,
    "embedder": "0123456789abcdef",
    "summary": TopicSummary(
        text="They talked\nabout “the sea”.\0é", made_by="llm:gpt/é", through=12, turns=5, made_at=NOW
    ),
    "through": 2**40,
    "stale": True,
    "set_importance": 0.0,
    "votes": -3,
    "tags": ("a.b", "$where", "", "Ünï, \"quoted\" 'x'", "海", "a.b"),
    "absorbed": ("z", "a", "m"),
    "archived": True,
}
"""Every field of a topic, with what a store might not give back as it was."""


def a_change(
    turn_id: str | None = "turn",
    *,
    key: str | None = None,
    minutes: int = 0,
    value: Any = "Ada",
    seen: Sequence[str] = (),
    **fields: Any,
) -> FactChange:
    """A change that a turn states with the turns of `seen` in view, or (`turn_id=None`) a person's edit.

    `fields` are those of FactChange.
    """
    values: dict[str, Any] = {
        "key": key or new_id(),
        "kind": "edit" if turn_id is None else "extraction",
        "at": turn_id or new_id(),
        "turn_id": turn_id,
        "turns": (*seen, turn_id) if turn_id else tuple(seen),
        "said_at": NOW - timedelta(days=1),
        "recorded_at": NOW + timedelta(minutes=minutes),
        "extractor": "patterns/1" if turn_id else PERSON,
        "events": (
            FactEvent(op="set", path=("name",), value=value),
            FactEvent(op="add", path=("likes", "$and.more"), value="tea"),
        ),
    }
    return FactChange(**{**values, **fields})


NASTY: dict[str, Any] = {
    "$where": "1",
    "__proto__": {"constructor": [[], [[1, [2, [3]]]], {}]},
    "a.b..c": {"": None, " ": True, "0": False},
    "\x01\x1f\x7f\u2028\ufeff\t\r\n\0": '"\\quoted\\" \x02',
    "é e\u0301 海 👩‍👩‍👧‍👦 \u202bשלום": ["é", "e\u0301"],
    "numbers": [0, -0.0, 2**63, -(2**80), 10**40, 1e308, 5e-324, 0.1, 1.0, 1],
}
"""Keys and values that a store's documents, queries or numbers may not hold."""
FULL_CHANGE = FactChange(
    key="$where: {k.1}\u2028é",
    kind="extraction",
    at="0190b0a0-0000-7000-8000-000000000001",
    turn_id="the turn",
    turns=("b", "the turn", "a", "$ne"),
    said_at=datetime(1, 1, 1, tzinfo=UTC),
    recorded_at=datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    extractor="llm:gpt/é $x.y 1",
    events=(
        FactEvent(op="set", path=(), value=NASTY),
        FactEvent(op="set", path=("name",), value=None),
        FactEvent(op="add", path=tuple(NASTY), value=[NASTY, [], ""], quote="“so”.\n\x01\0é", confidence=0.1),
        FactEvent(op="add", path=("likes",), value="tea", valid_from="2024-05", subject="$Bo.\x00"),
        FactEvent(op="remove", path=("likes", "__proto__"), value=False, quote="", confidence=0.0),
        FactEvent(op="retract", path=("$unset", "a.b")),
        FactEvent(op="revert", path=("job",), to=("0190b0a0-0000-7000-8000-000000000000", 2**40, 3)),
        FactEvent(op="revert", path=(), to=("", 0, 0)),
    ),
    refused=(
        RefusedFact(path="a.b", said='{"op": "$set"}\x01', quote="é", reason="not in the turn"),
        RefusedFact(path="", said="", quote=None, reason=""),
        RefusedFact(path="$where", said="null", quote="", reason="ill\nformed", subject="Ann"),
    ),
    generation="$g.1 é",
    idempotency_key="$k.1 \u2028é",
)
"""Every field of a change, of events and of refused facts, with what a store might not give back as it was."""


def a_session(number: int = 1, *, scope: Scope | None = None, **fields: Any) -> Session:
    """A session as it is put; `fields` are those of Session."""
    scope = scope or a_scope()
    values: dict[str, Any] = {"id": new_id(), "started_at": NOW + timedelta(hours=number), "after_seq": 0}
    return Session(
        user_id=scope.user_id, thread_id=scope.thread_id or "t1", number=number, **{**values, **fields}
    )


FULL_SESSION: dict[str, Any] = {
    "started_at": datetime(1, 1, 1, tzinfo=UTC),
    "after_seq": 2**40,
    "participants": ("Ünï", "$where", "a.b", "", "Ünï", "nul\0inside", "海"),
    "character": Character(
        name="$Mina.x",
        personality="warm\n\0é",
        profile="👩‍👩‍👧‍👦 “q”",
        traits=("", "a.b", "$", "a.b", "\u202bשלום"),
    ),
    "metadata": {"a.b": {"$-ish": [1, 2.5, True, None, "é", {"x": []}]}, "big": 2**63 - 1, "low": -(2**63)},
    "explicit": True,
    "idempotency_key": "$k.1 \u2028é",
}
"""Every field of a session that is stored, with what a store might not give back as it was."""


def a_compression(
    turns: Sequence[Turn],
    number: int = 1,
    /,
    *,
    after_seq: int = 0,
    scope: Scope | None = None,
    **fields: Any,
) -> Compression:
    """A compression that covers these turns; `fields` are those of Compression."""
    scope = scope or a_scope()
    through = max((turn.seq for turn in turns), default=after_seq)
    values: dict[str, Any] = {
        "id": new_id(),
        "session_id": None,
        "at": NOW,
        "reason": "tokens",
        "through": through,
        "turns": through,
        "tokens_before": 1_000,
        "tokens_after": 100,
        "made_by": "extractive:1",
        "summary": (SummaryItem(kind="event", text="They met.", first_seq=1, last_seq=through),),
        **dict.fromkeys(("moments", "topics", "preserved"), ()),
        "covers": tuple(turn.id for turn in turns),
    }
    return Compression(
        user_id=scope.user_id,
        thread_id=scope.thread_id or "t1",
        number=number,
        after_seq=after_seq,
        **{**values, **fields},
    )


FULL_COMPRESSION: dict[str, Any] = {
    "id": "$set.é 1",
    "session_id": "the session",
    "at": datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    "reason": "asked",
    "turns": 2**40,
    "tokens_before": 2**50,
    "tokens_after": 0,
    "made_by": "llm:gpt/é $x.y\0",
    "summary": (
        SummaryItem(
            kind="decision", text="“q” \x01\0\u2028 $where: {a.b}\n👩‍👩‍👧‍👦", first_seq=1, last_seq=2**40
        ),
        SummaryItem(
            kind="fact", text="", first_seq=1, last_seq=2, participants=("", "Ünï", "$x", "Ünï"), said_at=NOW
        ),
        SummaryItem(kind="topic", text="", first_seq=0, last_seq=0, importance=10.0),
    ),
    "moments": (
        KeyMoment(turn_id="a", seq=3, who="Ann", at=NOW, score=5e-324, tokens=7, code=True),
        KeyMoment(turn_id="", seq=4, who="é\0", at=NOW, score=0.5, tokens=0, text="$w.x\0 “q”"),
        KeyMoment(turn_id="$b", seq=4, who="", at=NOW, score=-0.0, tokens=0),
    ),
    "topics": (TopicRanges(topic_id="$t", ranges=((1, 1), (3, 2**40))), TopicRanges(topic_id="", ranges=())),
    "preserved": ("b", "a", "$ne", "a"),
}
"""Fields of a compression with what a store might not give back as it was."""


async def appended(store: DocumentStore, scope: Scope, *changes: FactChange) -> list[FactChange]:
    """The changes as they are read, once appended."""
    for change in changes:
        assert await store.append_fact_change(scope, change)
    keys = [change.key for change in changes]
    return await store.fact_changes(scope, keys=keys)


async def keys_of(store: DocumentStore, scope: Scope) -> set[str]:
    """The keys of the scope's changes."""
    return {change.key for change in await store.fact_changes(scope)}


def an_erasure(scope: Scope, turn_ids: Sequence[str] | None = None) -> Erasure:
    return Erasure(
        id=new_id(),
        scope=scope,
        turn_ids=None if turn_ids is None else tuple(turn_ids),
        before_id=new_id(),
        due_at=NOW,
    )


def bytes_of(turns: Sequence[Turn]) -> int:
    return sum(len(turn.content.encode()) for turn in turns)


def without_packing(turns: Sequence[Turn]) -> list[Turn]:
    """The turns as they would be had they never been compressed or assigned."""
    return [replace(turn, compressed=False, topic_id=None) for turn in turns]


async def stored_compressed(
    store: DocumentStore, scope: Scope, *contents: str, topic_id: str, **fields: Any
) -> list[Turn]:
    """Turns of a topic, stored and packed; as they are read then."""
    turns = await stored(store, scope, *contents, **fields)
    await store.assign_topics(scope, {turn.id: topic_id for turn in turns})
    packed = await store.compress_turns(scope, topic_id, [turn.id for turn in turns])
    assert packed.turns == len(turns)
    return await store.list_turns(scope, ids=[turn.id for turn in turns])


async def saved_topic(store: DocumentStore, topic: Topic) -> Topic:
    """The topic as it is stored, new or over what is there."""
    found = await store.list_topics(topic.scope, ids=[topic.id])
    assert await store.save_topics([replace(topic, revision=found[0].revision if found else None)])
    return await the_topic(store, topic.scope, topic.id)


async def the_topic(store: DocumentStore, scope: Scope, topic_id: str) -> Topic:
    [topic] = await store.list_topics(scope, ids=[topic_id])
    return topic
