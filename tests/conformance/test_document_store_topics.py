"""What every TopicStore must do. Turns come from a TurnStore, what they owe from a WorkStore."""

import asyncio
import dataclasses
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from memory_agent.domain import Scope, TopicDecayState, TopicHead, TopicTurns, Turn, new_id
from memory_agent.errors import InvalidInput
from memory_agent.ports import DocumentStore
from memory_agent.topics.index import families_of, unmerged

from .assertions import assert_same_topic
from .values import (
    FULL_TOPIC,
    NOW,
    OpenStore,
    a_scope,
    a_topic,
    an_erasure,
    on_every_server,
    saved_topic,
    stored,
    the_topic,
)

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
SCOPE = a_scope()
T2 = a_scope(thread_id="t2")
EVE = a_scope("eve")


async def test_reads_heads_of_topics(store: DocumentStore) -> None:
    """All but what matching reads, of all topics or of some with those that absorbed one of them, by id and in scope."""
    saved = [
        await saved_topic(store, topic)
        for topic in (
            a_topic("b", **{**FULL_TOPIC, "absorbed": ("x", "y")}),
            a_topic("a"),
            a_topic("c", absorbed=("a", "$z")),
            a_topic("d", scope=T2, absorbed=("a",)),
            a_topic("a", scope=EVE),
        )
    ]
    names = [field.name for field in dataclasses.fields(TopicHead)]

    def shown(topic: TopicHead) -> list[object]:
        return [getattr(topic, name) for name in names]

    heads = await store.topic_heads(SCOPE)
    expected = sorted((topic for topic in saved if topic.scope == SCOPE), key=lambda topic: topic.id)
    assert [shown(head) for head in heads] == [shown(topic) for topic in expected]
    assert {type(head) for head in heads} == {TopicHead}

    async def ids(scope: Scope, *asked: str) -> list[str]:
        return [head.id for head in await store.topic_heads(scope, ids=asked)]

    assert await ids(SCOPE, "a") == ["a", "c"]
    assert await ids(SCOPE, "y", "$z", "unknown") == ["b", "c"]
    assert await ids(SCOPE) == await ids(SCOPE, "unknown") == []
    assert (await ids(T2, "a"), await ids(EVE, "a", "b")) == (["d"], ["a"])
    assert await ids(Scope(user_id="ada"), "a") == ["a", "c", "d"]


@pytest.mark.parametrize(
    "absorbed",
    [
        {"a": (), "b": ("a",), "c": ("b", "a"), "d": ()},
        {"a": (), "b": ("a",), "c": ("b",), "d": ("c",)},
        {"a": ("b",), "b": ("a",), "c": (), "d": ("a", "c")},
    ],
    ids=["merged twice", "split off since", "each other"],
)
async def test_finds_families_without_a_look_at_all(
    store: DocumentStore, absorbed: dict[str, tuple[str, ...]]
) -> None:
    """The topics that some turns belong to are the ones that all of the thread's topics say."""
    topics = [await saved_topic(store, a_topic(name, absorbed=others)) for name, others in absorbed.items()]
    for asked in ({"a"}, {"b"}, {"c", "d"}, {"a", "d"}, {"unknown"}, set[str]()):
        expected = [topic.id for topic in unmerged(topics) if not asked.isdisjoint(topic.turns_of)]
        assert [topic.id for topic in await families_of(store, SCOPE, asked)] == expected


# --- assigning -----------------------------------------------------------------------------------------------


async def test_the_first_assignment_stands(store: DocumentStore) -> None:
    """Turns get their topic once; another assignment changes those only that have none, and nothing of what they owe.

    Unknown, forgotten and foreign turns are left alone.
    """
    gone, *turns = await stored(store, SCOPE, "gone", "a", "b", pending=("index", "topics"))
    assert {(turn.topic_id, turn.compressed) for turn in turns} == {(None, False)}
    [elsewhere] = await stored(store, T2, "elsewhere")
    [foreign] = await stored(store, EVE, "foreign")
    await store.erase_turns(an_erasure(SCOPE, [gone.id]), now=NOW, limit=10)
    await store.postpone(SCOPE, [turns[1].id], error="down", due_at=NOW + DAY, counted=True)
    before = await store.list_turns(SCOPE)
    await store.assign_topics(SCOPE, {turns[0].id: "first"})
    ids = [gone.id, *(turn.id for turn in turns), elsewhere.id, foreign.id, "unknown", "$x"]
    await store.assign_topics(SCOPE, dict.fromkeys(ids, "second"))
    await store.assign_topics(SCOPE, {})
    assigned = [replace(before[0], topic_id="first"), replace(before[1], topic_id="second")]
    assert await store.list_turns(SCOPE) == assigned
    assert await store.list_turns(T2) == [elsewhere]
    assert await store.list_turns(EVE) == [foreign]
    await store.compress_turns(SCOPE, "second", [turns[1].id])
    assert await store.list_turns(SCOPE) == [assigned[0], replace(assigned[1], compressed=True)]
    # An old turn tells the topic that it carries, or none.
    old = await store.turns_before(NOW + DAY, limit=3)
    assert [turn.topic_id for turn in old] == ["first", "second", None]


async def test_topic_methods_need_a_thread(store: DocumentStore) -> None:
    """Assigning, counting and compressing refuse a scope without a thread."""
    for call in (
        store.assign_topics(SCOPE.user, {"a": "b"}),
        store.count_topic_turns(SCOPE.user, ["a"]),
        store.compress_turns(SCOPE.user, "a", ["b"]),
    ):
        with pytest.raises(InvalidInput, match="thread"):
            await call


# --- list_turns by topic -------------------------------------------------------------------------------------


async def test_lists_turns_by_topic_and_packing(store: DocumentStore) -> None:
    """Only turns that carry one of the topics, or are packed, come: in order, within limits, with every other filter.

    Without a thread those of all threads, by rising id, and nobody else's.
    """
    turns = await stored(store, SCOPE, *"abcdef", session_id="s1")
    turns += await stored(store, SCOPE, "g", session_id="s2")
    topics = {turn.id: "odd" if i % 2 else "even" for i, turn in enumerate(turns[:6])}
    await store.assign_topics(SCOPE, topics)
    for scope in (T2, EVE):
        [turn] = await stored(store, scope, "there")
        await store.assign_topics(scope, {turn.id: "even"})
    await store.compress_turns(SCOPE, "even", [turns[0].id, turns[2].id])
    a, b, c, d, e, f, g = await store.list_turns(SCOPE)
    assert [turn.compressed for turn in (a, b, c, d)] == [True, False, True, False]
    [there] = await store.list_turns(T2)

    async def listed(scope: Scope = SCOPE, **filters: Any) -> list[Turn]:
        return await store.list_turns(scope, **filters)

    assert await listed(topic_ids=["even"]) == [a, c, e]
    assert await listed(SCOPE.user, topic_ids=["even"]) == [a, c, e, there]
    assert await listed(topic_ids=["odd", "even", "none"]) == [a, b, c, d, e, f]
    assert await listed(topic_ids=[]) == await listed(topic_ids=["none"]) == []
    assert await listed(topic_ids=["even"], limit=2) == [a, c]
    assert await listed(topic_ids=["even"], limit=2, newest=True) == [c, e]
    assert await listed(topic_ids=["even"], after_seq=a.seq, limit=1) == [c]
    assert await listed(topic_ids=["even"], ids=[b.id, c.id]) == [c]
    assert await listed(topic_ids=["even"], session_id="s1", through=1) == [a]
    assert await listed(compressed=True) == [a, c]
    assert await listed(compressed=False) == [b, d, e, f, g]
    assert await listed(SCOPE.user, compressed=True, limit=1, newest=True) == [c]
    assert await listed(SCOPE.user, compressed=True, session_id="s1") == [a, c]
    assert await listed(compressed=False, topic_ids=["even"], limit=1) == [e]
    assert await listed(compressed=True, after_seq=1, ids=[a.id, c.id]) == [c]
    assert await listed(compressed=False, session_id="s1", through=3) == [b]


# --- topics --------------------------------------------------------------------------------------------------


async def test_gives_topics_back(store: DocumentStore) -> None:
    """Every field comes back as it was, and the revision is the store's own."""
    kinds: list[dict[str, Any]] = [
        {},
        FULL_TOPIC,
        {"embedding": np.empty(0, dtype=np.float16), "embedded": 0, "embedder": ""},
        {"set_importance": None, "given_importance": 1.0},
        {"set_importance": 1.0, "given_importance": 0.0, "votes": 2},
        {"created_at": NOW.replace(year=1), "last_access": NOW.replace(year=9999)},
    ]
    for fields in kinds:
        topic = a_topic(**fields)
        assert await store.save_topics([topic])
        found = await the_topic(store, SCOPE, topic.id)
        assert_same_topic(found, topic)
        assert found.revision is not None


@on_every_server
async def test_a_topic_is_saved_against_its_revision(store: DocumentStore) -> None:
    """Only who read the latest revision replaces a topic, and each save makes a new one."""
    topic = a_topic()
    assert not await store.save_topics([replace(topic, revision="other")])
    assert await store.list_topics(SCOPE) == []
    assert await store.save_topics([topic])
    assert not await store.save_topics([replace(topic, title="again")])
    first = await the_topic(store, SCOPE, topic.id)
    assert_same_topic(first, topic)
    assert not await store.save_topics([replace(topic, title="wrong", revision="wrong")])
    assert await store.save_topics([replace(first, **FULL_TOPIC)])
    second = await the_topic(store, SCOPE, topic.id)
    assert_same_topic(second, replace(first, **FULL_TOPIC))
    assert second.revision not in (None, first.revision)
    assert not await store.save_topics([first])
    plain = replace(second, summary=None, set_importance=None, tags=(), absorbed=(), archived=False)
    assert await store.save_topics([plain])
    third = await the_topic(store, SCOPE, topic.id)
    assert_same_topic(third, plain)
    # It is deleted against the latest as well, once; then it can be made anew.
    revision = third.revision or ""
    assert not await store.delete_topic(SCOPE, topic.id, expected=second.revision or "")
    assert not await store.delete_topic(SCOPE, "unknown", expected=revision)
    assert await store.delete_topic(SCOPE, topic.id, expected=revision)
    assert not await store.delete_topic(SCOPE, topic.id, expected=revision)
    assert not await store.save_topics([third])
    assert await store.list_topics(SCOPE) == []
    assert await store.save_topics([replace(third, revision=None)])


@on_every_server
async def test_of_concurrent_saves_of_a_topic_one_wins(open_store: OpenStore) -> None:
    """Saves at once against the same revision: exactly one succeeds, also for the first one."""
    stores = [await open_store(), await open_store()]
    topic = a_topic()
    for _ in range(2):
        expected = topic.revision
        results = await asyncio.gather(
            *(stores[i % 2].save_topics([replace(topic, votes=i, revision=expected)]) for i in range(8))
        )
        assert sum(map(len, results)) == 1
        topic = await the_topic(stores[1], SCOPE, topic.id)
        assert topic.votes == results.index({topic.id})


@on_every_server
async def test_lists_topics(store: DocumentStore) -> None:
    """The scope's topics come by rising id; filters combine."""
    ids = sorted(new_id() for _ in range(5))
    fields: list[dict[str, Any]] = [
        {"archived": True, "stale": True}, {"archived": True}, {"stale": True}, {}, {"scope": T2},
    ]  # fmt: skip
    for topic_id, values in reversed(list(zip(ids, fields, strict=True))):
        await store.save_topics([a_topic(topic_id, **values)])
    foreign = a_topic(scope=EVE)
    await store.save_topics([foreign])

    async def listed(scope: Scope = SCOPE, **filters: Any) -> list[str]:
        return [topic.id for topic in await store.list_topics(scope, **filters)]

    assert await listed() == ids[:4]
    assert await listed(SCOPE.user) == ids
    assert await listed(EVE) == [foreign.id]
    assert await listed(a_scope("nobody")) == []
    assert await listed(archived=True) == ids[:2]
    assert await listed(archived=False) == ids[2:4]
    assert await listed(SCOPE.user, stale=True) == [ids[0], ids[2]]
    assert await listed(SCOPE.user, stale=False) == [ids[1], ids[3], ids[4]]
    assert await listed(archived=True, stale=False) == [ids[1]]
    assert await listed(ids=[ids[3], ids[0], ids[4], foreign.id, "unknown"]) == [ids[0], ids[3]]
    assert await listed(SCOPE.user, ids=[ids[4], ids[0]], archived=False) == [ids[4]]
    assert await listed(ids=[]) == []


@on_every_server
async def test_topics_of_others_are_out_of_reach(store: DocumentStore) -> None:
    """The same topic id of another user or thread is another topic: no save or deletion touches it."""
    topics = [await saved_topic(store, a_topic("same", scope=scope)) for scope in (SCOPE, EVE)]
    for mine, other in (topics, topics[::-1]):
        assert not await store.save_topics([replace(mine, votes=9, revision=other.revision)])
        assert other.revision is not None
        assert not await store.delete_topic(mine.scope, "same", expected=other.revision)
    assert not await store.delete_topic(T2, "same", expected=topics[0].revision or "")
    assert await store.delete_topic(SCOPE, "same", expected=topics[0].revision or "")
    assert await store.list_topics(SCOPE) == []
    assert_same_topic(await the_topic(store, EVE, "same"), topics[1], revision=True)


@on_every_server
async def test_walks_over_everybodys_topics(store: DocumentStore) -> None:
    """Pages come by user, thread and id, each topic once, with what the sweep needs to know."""
    scopes = [
        a_scope(user, thread) for user in ("ada", "Ada", "ádá", "z", "海") for thread in ("t", "T", "é")
    ]
    topics = [
        a_topic(f"{i}", scope=scope, votes=i, absorbed=("x", "y")[:i], archived=i == 1, set_importance=0.0)
        for scope in scopes
        for i in range(3)
    ]
    topics[0] = replace(topics[0], set_importance=None)
    for topic in reversed(topics):
        await store.save_topics([topic])
    found: list[TopicDecayState] = []
    key = None
    while page := await store.topics_after(key, limit=4):
        assert len(page) <= 4
        found += page
        key = (page[-1].user_id, page[-1].thread_id, page[-1].id)
    names = [field.name for field in dataclasses.fields(TopicDecayState)]
    expected = [TopicDecayState(**{name: getattr(topic, name) for name in names}) for topic in topics]
    assert found == sorted(expected, key=lambda topic: (topic.user_id, topic.thread_id, topic.id))
    assert await store.topics_after(None, limit=1) == found[:1]
    # From where a topic was that is gone meanwhile.
    first = found[0]
    assert await store.topics_after((first.user_id, first.thread_id, f"{first.id}~"), limit=2) == found[1:3]
    assert await store.topics_after((first.user_id, "", ""), limit=2) == found[:2]


async def test_counts_a_topics_turns(store: DocumentStore) -> None:
    """Turns by the id they carry, bytes by its segments; zeros for a topic that no turn carries."""
    turns = await stored(store, SCOPE, "é" * 500, "b" * 500, "c", "d")
    [foreign] = await stored(store, EVE, "x" * 1_000)
    [elsewhere] = await stored(store, T2, "y" * 1_000)
    await store.assign_topics(SCOPE, {turn.id: "one" for turn in turns[:3]} | {turns[3].id: "two"})
    for turn in (foreign, elsewhere):
        await store.assign_topics(turn.scope, {turn.id: "one"})
        await store.compress_turns(turn.scope, "one", [turn.id])
    assert await store.count_topic_turns(SCOPE, ["one", "two", "none"]) == {
        "one": TopicTurns(turns=3),
        "two": TopicTurns(turns=1),
        "none": TopicTurns(),
    }
    packed = [await store.compress_turns(SCOPE, "one", [turn.id]) for turn in turns[:2]]
    assert await store.count_topic_turns(SCOPE, ["one"]) == {
        "one": TopicTurns(
            turns=3, compressed=2, raw_bytes=1_500, packed_bytes=sum(part.packed_bytes for part in packed)
        )
    }
    assert await store.count_topic_turns(SCOPE, []) == {}
    assert await store.count_topic_turns(a_scope("nobody"), ["one"]) == {"one": TopicTurns()}


async def test_counts_what_an_absorbing_topic_packed(store: DocumentStore) -> None:
    """Turns that carry an absorbed topic's id are packed by the one that has them now; together both are right."""
    turns = await stored(store, SCOPE, "a" * 100, "b" * 100)
    await store.assign_topics(SCOPE, {turn.id: "absorbed" for turn in turns})
    packed = await store.compress_turns(SCOPE, "absorbing", [turn.id for turn in turns])
    counted = await store.count_topic_turns(SCOPE, ["absorbing", "absorbed"])
    assert counted["absorbing"] + counted["absorbed"] == TopicTurns(
        turns=2, compressed=2, raw_bytes=200, packed_bytes=packed.packed_bytes
    )
