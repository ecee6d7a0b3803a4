"""What every FactStore must do: changes, documents, generations, and costs, which the `status` of a WorkStore tells."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, get_args

import pytest

from memory_agent.domain import ChangeKind, ExtractionCost, FactsDocument
from memory_agent.errors import InvalidInput
from tests.conformance.stores import (
    FULL_CHANGE,
    NASTY,
    NOW,
    a_change,
    a_scope,
    appended,
    on_every_server,
)

if TYPE_CHECKING:
    from memory_agent.domain import Scope
    from memory_agent.ports import DocumentStore
    from tests.conformance.stores import OpenStore

SCOPE = a_scope()
COST = ExtractionCost(turns=1, requests=2, prompt_tokens=2**31, completion_tokens=3)


# --- changes and documents -----------------------------------------------------------------------------------


async def test_gives_changes_back_in_order(store: DocumentStore) -> None:
    """Changes come back whole, numbered from 1 in the order of their appends within the thread."""
    changes = [a_change(key="k1", value=NASTY), a_change(None, key="k2", minutes=-5), a_change(key="k3")]
    for change in changes:
        assert await store.append_fact_change(SCOPE, change)
    numbered = [replace(change, seq=seq, thread_id="t1") for seq, change in enumerate(changes, start=1)]
    assert await store.fact_changes(SCOPE) == numbered
    assert await store.fact_changes(SCOPE, after_seq=1) == numbered[1:]
    assert await store.fact_changes(SCOPE, keys=["k3", "k1", "nope"]) == [numbered[0], numbered[2]]
    assert await store.fact_changes(SCOPE, keys=[]) == []


async def test_gives_every_field_of_a_change_back(store: DocumentStore) -> None:
    """Whatever keys and values hold, a change comes back equal, with its numbers as exact as they were."""
    [found] = await appended(store, SCOPE, FULL_CHANGE)
    assert found == replace(FULL_CHANGE, seq=1, thread_id="t1")
    assert found.said_at.utcoffset() == found.recorded_at.utcoffset() == timedelta(0)
    # Equal is not the same: 1 == 1.0 == True, and 0.0 == -0.0.
    assert repr(found.events) == repr(FULL_CHANGE.events)
    assert repr(found.refused) == repr(FULL_CHANGE.refused)


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


@pytest.mark.parametrize("kind", get_args(ChangeKind))
@pytest.mark.parametrize("turns", [(), ("a", "b")], ids=["nothing-in-view", "turns-in-view"])
async def test_gives_a_change_without_a_turn_back(
    store: DocumentStore, kind: ChangeKind, turns: tuple[str, ...]
) -> None:
    """A change of any kind may have no turn, no events and nothing refused; its scope says where it is."""
    change = a_change(None, kind=kind, turns=turns, events=(), generation="g" if kind == "replay" else "")
    misplaced = replace(change, seq=99, thread_id="elsewhere")
    assert await store.append_fact_change(SCOPE, misplaced)
    placed = replace(change, seq=1, thread_id="t1")
    assert await store.fact_changes(SCOPE) == await store.fact_changes(SCOPE.user) == [placed]
    assert await store.fact_changes(a_scope(thread_id="elsewhere")) == []


async def test_a_change_is_appended_once(store: DocumentStore) -> None:
    """A key that the thread has is refused and nothing is stored; another thread may use it."""
    assert await store.append_fact_change(SCOPE, a_change(key="k"))
    assert not await store.append_fact_change(SCOPE, a_change(key="k", value="Eve"))
    assert await store.append_fact_change(a_scope(thread_id="t2"), a_change(key="k"))
    assert await store.append_fact_change(a_scope("eve"), a_change(key="k"))
    [only] = await store.fact_changes(SCOPE)
    assert only.events[0].value == "Ada"


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
    facts = {"name": "Ada", "$x.y": {"": [1, None, {"é": True}]}}
    assert not await store.save_facts(SCOPE, FactsDocument(facts=facts, through=3), expected="other")
    assert await store.save_facts(
        SCOPE, FactsDocument(facts=facts, through=3, revision="mine"), expected=None
    )
    assert not await store.save_facts(SCOPE, FactsDocument(), expected=None)
    first = await store.load_facts(SCOPE)
    assert (first.facts, first.through) == (facts, 3)
    assert first.revision not in (None, "mine")
    assert await store.save_facts(SCOPE, FactsDocument(through=4), expected=first.revision)
    second = await store.load_facts(SCOPE)
    assert (second.facts, second.through) == ({}, 4)
    assert second.revision != first.revision
    assert not await store.save_facts(SCOPE, first, expected=first.revision)
    assert await store.load_facts(a_scope(thread_id="t2")) == FactsDocument()


@on_every_server
async def test_a_document_comes_back_as_it_was(store: DocumentStore) -> None:
    """Whatever its keys and values hold: in the same order, and with its numbers as exact as they were."""
    facts = {"z": 1, "name": "Ada", **NASTY, "a": {"$ref": "x", "$id": 1, "%": {"%int": "7", "%2E": [{}]}}}
    assert await store.save_facts(SCOPE, FactsDocument(facts=facts, through=1), expected=None)
    assert repr((await store.load_facts(SCOPE)).facts) == repr(facts)


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


async def test_facts_need_a_thread(store: DocumentStore) -> None:
    """Changes and documents belong to threads; a scope without one is refused."""
    with pytest.raises(InvalidInput, match="thread"):
        await store.append_fact_change(SCOPE.user, a_change())
    with pytest.raises(InvalidInput, match="thread"):
        await store.load_facts(SCOPE.user)
    with pytest.raises(InvalidInput, match="thread"):
        await store.save_facts(SCOPE.user, FactsDocument(), expected=None)
    with pytest.raises(InvalidInput, match="thread"):
        await store.drop_generation(SCOPE.user, "g")
    with pytest.raises(InvalidInput, match="thread"):
        await store.add_extraction_cost(SCOPE.user, COST)


# --- generations ---------------------------------------------------------------------------------------------


async def test_drops_a_generation(store: DocumentStore) -> None:
    """All changes of the replay go from the thread, of every kind; nothing of others does, and a repeat finds none."""
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
    assert await store.save_facts(SCOPE, FactsDocument(facts={"a": 1}, through=3), expected=None)
    before = await store.load_facts(SCOPE)
    await store.drop_generation(SCOPE, "g")
    after = await store.load_facts(SCOPE)
    assert (after.facts, after.through) == ({}, 0)
    assert not await store.save_facts(SCOPE, before, expected=before.revision)
    await store.append_fact_change(SCOPE, a_change())
    assert [change.seq for change in await store.fact_changes(SCOPE)] == [1, 4]


@on_every_server
async def test_the_empty_generation_is_never_dropped(store: DocumentStore) -> None:
    """What belongs to no replay cannot be dropped as one."""
    await appended(store, SCOPE, a_change())
    with pytest.raises(InvalidInput, match="generation"):
        await store.drop_generation(SCOPE, "")
    assert len(await store.fact_changes(SCOPE)) == 1


# --- costs ---------------------------------------------------------------------------------------------------


@on_every_server
async def test_costs_add_up(open_store: OpenStore) -> None:
    """Costs added at once by two stores are all in the sum, from the first on."""
    stores = [await open_store(), await open_store()]
    await asyncio.gather(*(stores[i % 2].add_extraction_cost(SCOPE, COST) for i in range(30)))
    expected = ExtractionCost(turns=30, requests=60, prompt_tokens=30 * 2**31, completion_tokens=90)
    assert (await stores[0].status(SCOPE, now=NOW)).extraction == expected


async def test_costs_are_summed_over_the_scope(store: DocumentStore) -> None:
    """A thread has its own, a user those of all threads, everybody the sum; without any they are zero."""
    assert (await store.status(None, now=NOW)).extraction == ExtractionCost()
    for scope in (SCOPE, SCOPE, a_scope(thread_id="t2"), a_scope("eve")):
        await store.add_extraction_cost(scope, COST)
    expected: tuple[tuple[Scope | None, int], ...] = (
        (SCOPE, 2),
        (a_scope(thread_id="t2"), 1),
        (SCOPE.user, 3),
        (a_scope("eve").user, 1),
        (a_scope("bob"), 0),
        (None, 4),
    )
    for asked, times in expected:
        cost = (await store.status(asked, now=NOW)).extraction
        assert cost == sum([COST] * times, ExtractionCost())
