"""What every FactStore must do: changes, documents, generations, and costs, which the `status` of a WorkStore tells."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import get_args

import pytest

from memory_agent.domain import ChangeKind, ExtractionCost, FactsDocument, Scope
from memory_agent.errors import InvalidInput
from memory_agent.ports import DocumentStore

from .values import FULL_CHANGE, NASTY, NOW, OpenStore, a_change, a_scope, appended, on_every_server

SCOPE = a_scope()
COST = ExtractionCost(turns=1, requests=2, prompt_tokens=2**31, completion_tokens=3, seconds=1.5)


# --- changes and documents -----------------------------------------------------------------------------------


async def test_heads_tell_whether_changes_came_or_went(store: DocumentStore) -> None:
    """Of each thread in the scope that has some, how many and the last number, which no later change is given again."""
    other, stranger = a_scope(thread_id="t2"), a_scope(user_id="u2")
    assert await store.fact_heads(SCOPE.user) == {}
    for scope, key in ((SCOPE, "a"), (SCOPE, "b"), (other, "a"), (stranger, "a")):
        assert await store.append_fact_change(scope, a_change(key=key, generation="g" if key == "b" else ""))
    assert await store.fact_heads(SCOPE.user) == {"t1": (2, 2, 0), "t2": (1, 1, 0)}
    assert await store.fact_heads(SCOPE) == {"t1": (2, 2, 0)}
    assert await store.drop_generation(SCOPE, "g") == 1
    assert await store.fact_heads(SCOPE) == {"t1": (1, 1, 0)}
    assert await store.append_fact_change(SCOPE, a_change(key="c"))
    assert await store.fact_heads(SCOPE) == {"t1": (2, 3, 0)}


async def test_gives_changes_back_in_order(store: DocumentStore) -> None:
    """Changes come back whole, numbered from 1 in the order of their appends within the thread, of whichever kind.

    Whatever keys and values hold, with numbers as exact as they were. One without a turn may have nothing else either.
    """
    bare = [
        a_change(None, kind=kind, turns=turns, events=())
        for kind in get_args(ChangeKind)
        for turns in ((), ("a", "b"))
    ]
    changes = [FULL_CHANGE, a_change(None, key="k2", minutes=-5), a_change(key="k3", value=NASTY), *bare]
    for change in changes:
        assert await store.append_fact_change(SCOPE, replace(change, seq=99, thread_id="elsewhere"))
        assert not await store.append_fact_change(SCOPE, replace(change, kind="undo"))
    numbered = [replace(change, seq=seq, thread_id="t1") for seq, change in enumerate(changes, start=1)]
    found = await store.fact_changes(SCOPE)
    assert found == numbered
    # Equal is not the same: 1 == 1.0 == True, and 0.0 == -0.0.
    assert repr([(change.events, change.refused) for change in found]) == repr(
        [(change.events, change.refused) for change in changes]
    )
    assert found[0].said_at.utcoffset() == found[0].recorded_at.utcoffset() == timedelta(0)
    assert await store.fact_changes(SCOPE, after_seq=1) == numbered[1:]
    assert await store.fact_changes(SCOPE, keys=["k3", "k2", "nope"]) == numbered[1:3]
    assert await store.fact_changes(SCOPE, keys=[]) == []
    assert await store.fact_changes(a_scope(thread_id="elsewhere")) == []
    for scope in (a_scope(thread_id="t2"), a_scope("eve")):
        assert await store.append_fact_change(scope, a_change(key="k2"))


@on_every_server
async def test_an_idempotency_key_is_appended_once_in_a_thread(open_store: OpenStore) -> None:
    """Of many edits with one key exactly one is appended, whatever the changes' own keys; other threads have their own."""
    stores = [await open_store(), await open_store()]
    changes = [a_change(None, value=number, idempotency_key="$k") for number in range(6)]
    others = [a_change(None, value=number) for number in range(6)]
    appending = (stores[i % 2].append_fact_change(SCOPE, c) for i, c in enumerate([*changes, *others]))
    won = await asyncio.gather(*appending)
    assert (sum(won[:6]), sum(won[6:])) == (1, 6)
    found = await stores[0].fact_changes(SCOPE)
    assert [change.seq for change in found] == list(range(1, 8))
    assert [change.key for change in found if change.idempotency_key] == [changes[won.index(True)].key]
    for scope in (a_scope(thread_id="t2"), a_scope("eve")):
        assert await stores[1].append_fact_change(scope, a_change(None, idempotency_key="$k"))


async def test_a_users_changes_come_by_time(store: DocumentStore) -> None:
    """Without a thread, all the user's changes come as they were recorded, then by thread and number."""
    for thread, minutes in (("t3", 1), ("t2", 2), ("t1", 2), ("t1", 3), ("t2", 1), ("t1", 2)):
        await store.append_fact_change(a_scope(thread_id=thread), a_change(minutes=minutes))
    await store.append_fact_change(a_scope("eve"), a_change())
    places = [(change.thread_id, change.seq) for change in await store.fact_changes(SCOPE.user)]
    assert places == [("t2", 2), ("t3", 1), ("t1", 1), ("t1", 3), ("t2", 1), ("t1", 2)]


@on_every_server
async def test_concurrent_changes_are_all_kept(open_store: OpenStore) -> None:
    """Appends at once from two stores get numbers without gaps, each key once."""
    stores = [await open_store(), await open_store()]
    kept = await asyncio.gather(
        *(stores[i % 2].append_fact_change(SCOPE, a_change(key=f"{i // 2}")) for i in range(30))
    )
    assert sum(kept) == 15
    assert [change.seq for change in await stores[0].fact_changes(SCOPE)] == list(range(1, 16))


@on_every_server
async def test_a_document_is_saved_against_its_revision(store: DocumentStore) -> None:
    """Only who read the latest revision replaces the document, and each save makes a new one."""
    assert await store.load_facts(SCOPE) == FactsDocument()
    nasty = {"z": 1, "name": "Ada", **NASTY, "a": {"$ref": "x", "$id": 1, "%": {"%int": "7", "%2E": [{}]}}}
    facts = {"$Bo.\x00\n<b>": nasty, "": {}, "김 지수": {"facts": []}, "user": {"people": 1}}
    assert not await store.save_facts(SCOPE, FactsDocument(people=facts, through=3), expected="other")
    assert await store.save_facts(
        SCOPE,
        FactsDocument(
            people=facts, through=3, created_at=NOW, updated_at=NOW + timedelta(days=1), revision="mine"
        ),
        expected=None,
    )
    assert not await store.save_facts(SCOPE, FactsDocument(), expected=None)
    first = await store.load_facts(SCOPE)
    assert (repr(first.people), first.through) == (repr(facts), 3)
    assert (first.created_at, first.updated_at) == (NOW, NOW + timedelta(days=1))
    assert first.revision not in (None, "mine")
    assert await store.save_facts(SCOPE, FactsDocument(through=4), expected=first.revision)
    second = await store.load_facts(SCOPE)
    assert (second.facts, second.through) == ({}, 4)
    assert second.revision != first.revision
    assert not await store.save_facts(SCOPE, first, expected=first.revision)
    assert await store.load_facts(a_scope(thread_id="t2")) == FactsDocument()


@on_every_server
async def test_of_concurrent_saves_one_wins(open_store: OpenStore) -> None:
    """Saves at once against the same revision: exactly one succeeds, also for the first document."""
    stores = [await open_store(), await open_store()]
    expected = None
    for _ in range(2):
        saved = await asyncio.gather(
            *(stores[i % 2].save_facts(SCOPE, FactsDocument(through=i), expected=expected) for i in range(8))
        )
        assert sum(saved) == 1
        expected = (await stores[0].load_facts(SCOPE)).revision


@on_every_server
async def test_facts_need_a_thread_and_a_generation_its_name(store: DocumentStore) -> None:
    """Changes and documents belong to threads; a scope without one is refused, and so is the empty generation."""
    await appended(store, SCOPE, a_change())
    for call in (
        store.append_fact_change(SCOPE.user, a_change()),
        store.load_facts(SCOPE.user),
        store.save_facts(SCOPE.user, FactsDocument(), expected=None),
        store.drop_generation(SCOPE.user, "g"),
        store.add_extraction_cost(SCOPE.user, COST),
    ):
        with pytest.raises(InvalidInput, match="thread"):
            await call
    with pytest.raises(InvalidInput, match="generation"):
        await store.drop_generation(SCOPE, "")
    assert len(await store.fact_changes(SCOPE)) == 1


# --- generations ---------------------------------------------------------------------------------------------


async def test_drops_a_generation(store: DocumentStore) -> None:
    """All changes of the generation go from the thread, of every kind; nothing of others does, and a repeat finds none."""
    dropped = [
        a_change(generation="g.1"),
        a_change(None, kind="replay", generation="g.1"),
        a_change(None, kind="undo", generation="g.1"),
    ]
    kept = await appended(store, SCOPE, a_change(), a_change(generation="g.2"), a_change(None))
    await appended(store, SCOPE, *dropped)
    others = [a_scope(thread_id="t2"), a_scope("eve")]
    for other in others:
        await appended(store, other, a_change(generation="g.1"))
    assert await store.drop_generation(SCOPE, "g.1") == 3
    assert await store.fact_changes(SCOPE) == kept
    assert [len(await store.fact_changes(other)) for other in others] == [1, 1]
    assert await store.drop_generation(SCOPE, "g.1") == 0


@on_every_server
async def test_no_number_of_a_dropped_generation_is_given_again(store: DocumentStore) -> None:
    """Numbers go on above those of the dropped changes, and a fold from before cannot be saved."""
    await appended(store, SCOPE, a_change(), a_change(generation="g"), a_change(generation="g"))
    assert await store.save_facts(SCOPE, FactsDocument(people={"user": {"a": 1}}, through=3), expected=None)
    before = await store.load_facts(SCOPE)
    await store.drop_generation(SCOPE, "g")
    after = await store.load_facts(SCOPE)
    assert (after.facts, after.through) == ({}, 0)
    assert not await store.save_facts(SCOPE, before, expected=before.revision)
    await store.append_fact_change(SCOPE, a_change())
    assert [change.seq for change in await store.fact_changes(SCOPE)] == [1, 4]


# --- costs ---------------------------------------------------------------------------------------------------


@on_every_server
async def test_costs_add_up(open_store: OpenStore) -> None:
    """Costs added at once by two stores are all in the sums: a thread's, a user's over all threads, everybody's."""
    stores = [await open_store(), await open_store()]
    assert (await stores[0].status(None, now=NOW)).extraction == ExtractionCost()
    await asyncio.gather(*(stores[i % 2].add_extraction_cost(SCOPE, COST) for i in range(30)))
    for scope in (a_scope(thread_id="t2"), a_scope("eve")):
        await stores[0].add_extraction_cost(scope, COST)
    expected: tuple[tuple[Scope | None, int], ...] = (
        *((SCOPE, 30), (a_scope(thread_id="t2"), 1), (SCOPE.user, 31)),
        *((a_scope("eve").user, 1), (a_scope("bob"), 0), (None, 32)),
    )
    for asked, times in expected:
        cost = (await stores[1].status(asked, now=NOW)).extraction
        assert cost == sum([COST] * times, ExtractionCost())
