"""LangGraph's store over a memory, after the behaviour of LangGraph's own stores."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)

from memory_agent import MemoryService
from memory_agent.errors import InvalidInput, NotOpen
from memory_agent.integrations.langgraph import MemoryStore
from tests.fixtures import OpenService
from tests.over_http import both_ways_by_day, embedded_only

pytestmark = pytest.mark.usefixtures("both_ways")


@pytest.fixture
async def store(service: MemoryService) -> MemoryStore:
    return MemoryStore(service)


def keys(items: Sequence[SearchItem]) -> list[str]:
    return [item.key for item in items]


ABOUT_MINKA = "Where does the cat Minka sleep?"


def score_of(key: str, items: Sequence[SearchItem]) -> float:
    return max((item.score or 0.0 for item in items if item.key == key), default=0.0)


# --- items -------------------------------------------------------------------------------------------------------
@both_ways_by_day
async def test_an_item_comes_back_as_it_was_put_updated_and_until_it_is_deleted(store: MemoryStore) -> None:
    await store.aput(("notes", "ada"), "a/b %_.md", {"text": "Grüße", "n": [1, {"deep": None}]})
    item = await store.aget(("notes", "ada"), "a/b %_.md")
    assert item is not None
    assert (item.value, item.key, item.namespace) == (
        {"text": "Grüße", "n": [1, {"deep": None}]},
        "a/b %_.md",
        ("notes", "ada"),
    )
    await store.adelete(("notes", "ada"), "a/b %_.md")
    assert await store.aget(("notes", "ada"), "a/b %_.md") is None
    await store.adelete(("notes", "ada"), "a/b %_.md")  # again: nothing happens
    await store.aput(("notes", "ada"), "a/b %_.md", {"text": "again"})
    again = await store.aget(("notes", "ada"), "a/b %_.md")
    assert again is not None
    assert again.value == {"text": "again"}
    # An update keeps when it was made, and replaces the whole value.
    await store.aput(("notes",), "k", {"a": 1, "b": 2})
    first = await store.aget(("notes",), "k")
    await asyncio.sleep(0.005)
    await store.aput(("notes",), "k", {"a": 3})
    second = await store.aget(("notes",), "k")
    assert first is not None
    assert second is not None
    assert second.value == {"a": 3}
    assert abs(second.created_at - first.created_at) < timedelta(milliseconds=1)
    assert second.updated_at > first.updated_at


async def test_after_an_update_nothing_finds_the_old_text(service: MemoryService, store: MemoryStore) -> None:
    await store.aput(("notes",), "pet", {"text": "My cat Minka sleeps on the sofa"})
    await store.aput(("notes",), "sky", {"text": "Saturn has rings of ice"})
    await service.settle()
    (pet, *_) = await store.asearch(("notes",), query=ABOUT_MINKA)
    assert pet.key == "pet"
    await store.aput(("notes",), "pet", {"text": "Berlin has a very long tram line"})
    for _ in range(2):  # before the new vector is there, and after
        assert score_of("pet", await store.asearch(("notes",), query=ABOUT_MINKA)) < (pet.score or 0) / 10
        await service.settle()
    assert keys(await store.asearch(("notes",), query="tram line in Berlin"))[:1] == ["pet"]
    assert (await service.status()).turns == 2


async def test_what_a_killed_update_left_behind_is_not_found(
    service: MemoryService, store: MemoryStore
) -> None:
    await store.aput(("notes",), "pet", {"text": "My cat Minka sleeps on the sofa"})
    old = (await service.agent("langgraph.notes", "pet").history()).turns[0]
    await service.agent("langgraph.notes", "pet").add_turn(
        "tool",
        "Berlin has a very long tram line",
        metadata={**old.metadata, "verbatim": {"text": "Berlin has a very long tram line"}},
    )
    await service.settle()
    assert score_of("pet", await store.asearch(("notes",), query=ABOUT_MINKA)) < 0.05
    (item,) = await store.asearch(("notes",))
    assert item.value == {"text": "Berlin has a very long tram line"}
    await store.aput(("notes",), "pet", {"text": "new"})
    assert (await service.status()).turns == 1


async def test_of_puts_at_once_or_cancelled_one_item_stays_whole(
    service: MemoryService, store: MemoryStore
) -> None:
    await asyncio.gather(*(store.aput(("n",), "k", {"by": by, "twice": by}) for by in range(8)))
    item = await store.aget(("n",), "k")
    assert item is not None
    assert item.value["by"] == item.value["twice"]
    assert (await service.agent("langgraph.n", "k").history()).turns[0].metadata["verbatim"] == item.value
    assert (await service.status()).turns == 1
    # A put that is cancelled leaves one item whole, and the next one stands.
    await store.aput(("n",), "k", {"v": 0})
    tried = {0}
    for steps in range(0, 40, 3):
        tried.add(steps)
        putting = asyncio.create_task(store.aput(("n",), "k", {"v": steps}))
        for _ in range(steps):
            await asyncio.sleep(0)
        putting.cancel()
        await asyncio.gather(putting, return_exceptions=True)
        item = await store.aget(("n",), "k")
        assert item is not None
        assert item.value["v"] in tried  # what is cancelled may still land, as a request that was sent does
        assert len(await store.asearch(("n",))) == 1
    await store.aput(("n",), "k", {"v": "last"})
    (found,) = await store.asearch(("n",))
    assert found.value == {"v": "last"}


# --- namespaces --------------------------------------------------------------------------------------------------
async def test_a_namespace_matches_label_by_label_whatever_it_holds(store: MemoryStore) -> None:
    for name in ("a_b", "a%b", "axb", "a", "a-b", "a*"):
        await store.aput((name, "x"), "k", {"text": name})
        await store.aput((name,), "k", {"text": name})
    for name in ("a_b", "a%b", "axb", "a", "a-b", "a*"):
        found = await store.asearch((name,))
        assert sorted(item.namespace for item in found) == [(name,), (name, "x")]
        asked = await store.asearch((name,), query=name)
        assert {item.namespace[0] for item in asked} <= {name}
    assert await store.asearch(("a_",)) == []


async def test_namespaces_are_listed_by_prefix_suffix_and_depth(store: MemoryStore) -> None:
    made = [
        ("a", "b", "c"), ("a", "b", "d", "e"), ("a", "x", "c"), ("b", "b", "c"), ("users", "1"), ("users", "2"),
    ]  # fmt: skip
    await store.abatch([PutOp(namespace, "k", {"v": 1}) for namespace in made])
    assert await store.alist_namespaces() == made
    assert await store.alist_namespaces(prefix=("a", "b")) == made[:2]
    assert await store.alist_namespaces(prefix=("a", "*", "c")) == [made[0], made[2]]
    assert await store.alist_namespaces(suffix=("*", "c")) == [made[0], made[2], made[3]]
    assert await store.alist_namespaces(prefix=("a",), suffix=("c",)) == [made[0], made[2]]
    assert await store.alist_namespaces(max_depth=2) == [
        ("a", "b"), ("a", "x"), ("b", "b"), ("users", "1"), ("users", "2"),
    ]  # fmt: skip
    assert await store.alist_namespaces(limit=2, offset=1) == made[1:3]
    await store.adelete(("users", "1"), "k")
    assert ("users", "1") not in await store.alist_namespaces()


async def test_conversations_and_other_stores_are_no_namespaces_and_none_is_the_path_of_another(
    service: MemoryService, store: MemoryStore
) -> None:
    await service.agent("ada", "chat").update_memory("I like trams", "Noted.")
    await service.agent("langgraph", "chat").update_memory("I like trams", "Noted.")
    await MemoryStore(service, name="other").aput(("n",), "k", {"text": "I like trams"})
    await store.aput(("n",), "mine", {"text": "I like trams"})
    assert await store.alist_namespaces() == [("n",)]
    assert keys(await store.asearch(())) == ["mine"]
    assert keys(await store.asearch((), query="Who likes trams?")) == ["mine"]
    # A label with a point would be the path of another namespace.
    await store.aput(("ada", "private"), "pin", {"text": "1234"})
    for operation in (
        GetOp(("ada.private",), "pin"),
        SearchOp(("ada.private",)),
        PutOp(("ada.private",), "pin", None),
    ):
        with pytest.raises(InvalidNamespaceError):
            await store.abatch([operation])
    assert await store.aget(("ada", "private"), "pin") is not None


@embedded_only("nothing is asked")
async def test_namespaces_that_langgraph_refuses_are_refused(store: MemoryStore) -> None:
    for bad in ((), ("a.b",), ("",), ("langgraph", "x")):
        with pytest.raises(InvalidNamespaceError):
            await store.aput(bad, "k", {"v": 1})


# --- searches ----------------------------------------------------------------------------------------------------
async def test_items_without_a_question_come_by_time_also_those_without_words(store: MemoryStore) -> None:
    for key in ("c", "a", "b"):
        await store.aput(("n",), key, {"key": key})
        await asyncio.sleep(0.003)
    await store.aput(("n",), "c", {"key": "again"})
    assert keys(await store.asearch(("n",))) == ["c", "b", "a"]
    assert keys(await store.asearch(("n",), limit=1, offset=1)) == ["b"]
    # Values without words are kept.
    await store.aput(("forms",), "empty", {"first": "", "last": " "})
    (item,) = await store.asearch(("forms",), query="")
    assert item.value == {"first": "", "last": " "}


@pytest.mark.parametrize(("name", "value"), [("limit", -1), ("offset", -1), ("limit", 1.5)])
async def test_a_page_that_can_be_none_is_refused_with_and_without_a_question(
    store: MemoryStore, name: str, value: Any
) -> None:
    await store.aput(("n",), "k", {"text": "a cat"})
    page = {name: value}
    for asked in (
        store.asearch(("n",), query="cat", **page),
        store.asearch(("n",), **page),
        store.alist_namespaces(**page),
    ):
        with pytest.raises(InvalidInput, match=f"{name} is {value}; pass a whole number from 0 on"):
            await asked
    assert await store.asearch(("n",), query="cat", limit=0) == await store.asearch(("n",), limit=0) == []


async def test_filters_compare_values(store: MemoryStore) -> None:
    for n in range(40):
        await store.aput(("n",), f"{n:02}", {"n": n, "even": n % 2 == 0, "of": {"a": n}})
    await store.aput(("n",), "text", {"n": "many"})

    async def found(test: dict[str, Any]) -> list[str]:
        return sorted(keys(await store.asearch(("n",), filter=test, limit=100)))

    assert await found({"n": 7}) == ["07"]
    assert await found({"n": {"$eq": 7}}) == ["07"]
    assert await found({"n": {"$gt": 36, "$lte": 38}}) == ["37", "38"]
    assert await found({"n": {"$lt": 2}, "even": True}) == ["00"]
    assert await found({"of": {"a": 3}}) == ["03"]
    assert len(await found({"n": {"$ne": 7}})) == 40
    assert await found({"n": {"$gte": 39}}) == ["39"]
    with pytest.raises(InvalidInput, match=r"\$like"):
        await found({"n": {"$like": "%"}})


async def test_a_question_finds_by_meaning_and_by_word_within_the_filter(
    service: MemoryService, store: MemoryStore
) -> None:
    for n in range(12):
        await store.aput(("ada",), f"cat{n}", {"text": f"The cat number {n} sleeps on a sofa", "n": n})
    await store.aput(("ada",), "car", {"text": "The engine of the old automobile needs oil", "n": 99})
    await store.aput(("bob",), "car", {"text": "My automobile is red", "n": 99})
    await service.settle()
    (best, *_) = await store.asearch(("ada",), query="What does the car need?")
    assert (best.key, best.namespace) == ("car", ("ada",))
    assert best.score is not None
    assert 0 < best.score <= 1
    found = await store.asearch(("ada",), query="Where does the cat sleep?", filter={"n": 11}, limit=1)
    assert keys(found) == ["cat11"]
    pages = [await store.asearch(("ada",), query="cat on a sofa", limit=3, offset=at) for at in (0, 3)]
    assert len({item.key for page in pages for item in page}) == 6


async def test_the_fields_that_are_searched_can_be_chosen(service: MemoryService) -> None:
    store = MemoryStore(service, fields=["title", "notes[*].body"])
    await store.aput(("n",), "a", {"title": "Trip", "notes": [{"body": "Porto by tram"}], "other": "walnuts"})
    await store.aput(("n",), "b", {"title": "Nuts", "other": "walnuts"}, index=["other"])
    await store.aput(("n",), "c", {"title": "walnuts"}, index=False)
    await service.settle()
    (best, *others) = keys(await store.asearch(("n",), query="walnuts"))
    assert best == "b"
    assert "c" not in others
    assert keys(await store.asearch(("n",), query="Porto by tram"))[:1] == ["a"]
    assert len(await store.asearch(("n",))) == 3


# --- time to live ------------------------------------------------------------------------------------------------
async def test_an_item_is_gone_when_its_minutes_are_over(service: MemoryService) -> None:
    store = MemoryStore(service, default_ttl=60)
    await store.aput(("n",), "short", {"text": "tram"}, ttl=0.005)
    await store.aput(("n",), "ever", {"text": "tram"}, ttl=None)
    await store.aput(("n",), "hour", {"text": "tram"})
    (turn,) = (await service.agent("langgraph.n", "hour").history()).turns
    left = datetime.fromisoformat(turn.metadata["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=58) < left <= timedelta(minutes=60)
    await asyncio.sleep(0.4)
    assert await store.aget(("n",), "short") is None
    assert sorted(keys(await store.asearch(("n",)))) == ["ever", "hour"]
    assert (await service.status()).turns == 2


# --- batches, threads and loops ----------------------------------------------------------------------------------
async def test_a_batch_reads_before_it_puts_and_the_last_put_counts(store: MemoryStore) -> None:
    await store.aput(("n",), "k", {"v": 0})
    results = await store.abatch(
        [
            PutOp(("n",), "k", {"v": 1}),
            GetOp(("n",), "k"),
            PutOp(("n",), "k", {"v": 2}),
            SearchOp(("n",)),
            ListNamespacesOp(match_conditions=(MatchCondition("prefix", ("*",)),)),
            GetOp(("n",), "none"),
        ]
    )
    assert [results[0], results[2], results[5]] == [None, None, None]
    assert results[1].value == {"v": 0}  # type: ignore[union-attr]
    assert results[4] == [("n",)]
    item = await store.aget(("n",), "k")
    assert item is not None
    assert item.value == {"v": 2}


async def test_other_threads_and_loops_may_ask_and_the_loops_own_thread_is_told_to_await(
    store: MemoryStore,
) -> None:
    await asyncio.to_thread(store.put, ("n",), "k", {"v": 1})
    item = await asyncio.to_thread(store.get, ("n",), "k")
    assert item is not None
    there = await asyncio.to_thread(lambda: asyncio.run(store.aget(("n",), "k")))
    assert there == item
    with pytest.raises(InvalidInput, match="async methods"):
        store.get(("n",), "k")


@embedded_only("nothing is asked")
def test_a_store_is_made_where_a_loop_runs() -> None:
    with pytest.raises(NotOpen, match="async function"):
        MemoryStore(None)  # type: ignore[arg-type]


@embedded_only("reads of the store are counted")
async def test_an_item_is_read_by_its_key_in_one_read_however_many_there_are(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    async with open_service(run_worker=False) as service:
        store = MemoryStore(service)
        list_turns, last_turns = service.core.store.list_turns, service.core.contexts.last_turns

        async def listed(*asked: Any, **how: Any) -> Any:
            reads.append("list")
            return await list_turns(*asked, **how)

        async def last(*asked: Any, **how: Any) -> Any:
            reads.append("last")
            return await last_turns(*asked, **how)

        monkeypatch.setattr(service.core.store, "list_turns", listed)
        monkeypatch.setattr(service.core.contexts, "last_turns", last)
        for size in (1, 300):
            await store.abatch([PutOp(("n",), f"k{n}", {"n": n}) for n in range(size)])
            reads.clear()
            item = await store.aget(("n",), f"k{size // 2}")
            assert item is not None
            assert item.value == {"n": size // 2}
            assert reads.count("last") == 1
            assert len(reads) <= 2
