"""What every MigrationStore must do."""

from dataclasses import replace
from typing import Any

import numpy as np

from memory_agent.domain import NextVectors, SearchRow
from memory_agent.ports import DocumentStore

from .values import NOW, a_row, a_scope, an_erasure, stored

SCOPE = a_scope()
OLD, NEW = "ab12cd34ef56", "b" * 12


def vectors(*numbers: float, tokens: bytes = b"", embedder: str = NEW) -> NextVectors:
    """Next vectors of one passage."""
    made = np.array([numbers], dtype=np.float32)
    return NextVectors(embedder=embedder, vectors=made / np.linalg.norm(made), tokens=tokens)


def by_new(row: SearchRow) -> list[float]:
    """The row's vectors by the new model, rounded."""
    found = row.vectors_by(NEW)
    assert found is not None
    return [round(float(number), 1) for number in found.reshape(-1)]


async def filled(store: DocumentStore, count: int = 3, **fields: Any) -> list[str]:
    """Rows by the old model, with tokens; their turns' ids."""
    turns = await stored(store, SCOPE, *(f"text {number}" for number in range(count)))
    rows = [replace(a_row(tokens=b"old", **fields), turn_id=turn.id, seq=turn.seq) for turn in turns]
    await store.put_search_rows("ada", rows, now=NOW)
    return [turn.id for turn in turns]


async def test_next_vectors_are_read_with_their_row(store: DocumentStore) -> None:
    """Put beside a row or with it, they come back with it; neither the row's own nor its number change by them."""
    first, second, third = await filled(store)
    before = await store.search_rows("ada")
    await store.put_next_vectors("ada", {first: vectors(1, 0), third: vectors(0, 1, tokens=b"new")})
    await store.put_next_vectors("bob", {second: vectors(1, 1)})
    found = {row.turn_id: row for row in await store.search_rows("ada")}
    assert [row.index_seq for row in found.values()] == [row.index_seq for row in before]
    assert found[second].next is None
    assert found[second].vectors_by(NEW) is None
    assert (by_new(found[first]), by_new(found[third])) == ([1, 0], [0, 1])
    for row in before:
        np.testing.assert_array_equal(found[row.turn_id].vectors, row.vectors)
    assert await store.token_codes("ada", list(found), embedder=NEW) == {third: b"new"}
    assert await store.token_codes("ada", list(found), embedder=OLD) == dict.fromkeys(found, b"old")
    await store.put_search_rows("ada", [replace(found[second], next=vectors(1, 1, tokens=b"put"))], now=NOW)
    (row,) = await store.search_rows("ada", ids=[second])
    assert by_new(row) == [0.7, 0.7]
    assert await store.token_codes("ada", [second], embedder=NEW) == {second: b"put"}
    (beside,) = await store.neighbour_rows("ada", [("t1", row.seq)])
    assert by_new(beside) == [0.7, 0.7]


async def test_the_nearest_turns_are_found_by_either_model(store: DocumentStore) -> None:
    """Each model's vectors are looked through apart, in rows that have them as their own or as the next."""
    first, second, third = await filled(store)
    await store.put_next_vectors("ada", {first: vectors(1, 0), second: vectors(0, 1)})
    question = np.array([1, 0], dtype=np.float32)
    found = await store.nearest_turns(SCOPE, question, embedder=NEW, limit=5)
    assert [(each.turn_id, round(each.similarity, 2)) for each in found] == [(first, 1), (second, 0)]
    assert await store.adopt_next_vectors("ada", NEW) == 2
    assert await store.nearest_turns(SCOPE, question, embedder=NEW, limit=5) == found
    (old,) = await store.search_rows("ada", ids=[third])
    (left,) = await store.nearest_turns(SCOPE, old.vectors[0].astype(np.float32), embedder=OLD, limit=5)
    assert left.turn_id == third


async def test_tells_which_turns_lack_a_models_vectors(store: DocumentStore) -> None:
    """In rising order and within the limit; stubs and other users' rows are none."""
    ids = await filled(store, 4)
    await store.put_search_rows("bob", [a_row(scope=a_scope("bob"))], now=NOW)
    assert await store.turns_without("ada", NEW, limit=2) == sorted(ids)[:2]
    assert await store.turns_without("ada", OLD, limit=9) == []
    await store.put_next_vectors("ada", {ids[0]: vectors(1, 0), ids[1]: vectors(1, 0, embedder="c" * 12)})
    await store.erase_turns(an_erasure(SCOPE, [ids[3]]), now=NOW, limit=9)
    assert await store.turns_without("ada", NEW, limit=9) == sorted(ids[1:3])
    assert await store.turns_without("ada", NEW, limit=0) == []


async def test_next_vectors_become_the_rows_own(store: DocumentStore) -> None:
    """With their tokens or none, under the same number; those by another model, and other users', stay what they are."""
    first, second, third = await filled(store)
    await store.put_next_vectors(
        "ada",
        {first: vectors(1, 0, tokens=b"new"), second: vectors(0, 1), third: vectors(1, 1, embedder="c" * 12)},
    )
    before = {row.turn_id: row for row in await store.search_rows("ada")}
    assert await store.adopt_next_vectors("bob", NEW) == 0
    assert await store.adopt_next_vectors("ada", NEW) == 2
    assert await store.adopt_next_vectors("ada", NEW) == 0
    found = {row.turn_id: row for row in await store.search_rows("ada")}
    assert [row.index_seq for row in found.values()] == [row.index_seq for row in before.values()]
    assert {row.turn_id: row.embedder for row in found.values()} == {first: NEW, second: NEW, third: OLD}
    assert [by_new(found[each]) for each in (first, second)] == [[1, 0], [0, 1]]
    assert [row.next is None for row in found.values()] == [True, True, False]
    assert await store.token_codes("ada", list(found), embedder=NEW) == {first: b"new"}
    assert await store.token_codes("ada", list(found), embedder=OLD) == {third: b"old"}


async def test_next_vectors_are_dropped(store: DocumentStore) -> None:
    """All of the user, and what the rows had before is as it was."""
    ids = await filled(store)
    before = await store.search_rows("ada")
    await store.put_next_vectors("ada", dict.fromkeys(ids, vectors(1, 0, tokens=b"new")))
    assert await store.drop_next_vectors("bob") == 0
    assert await store.drop_next_vectors("ada") == 3
    assert await store.drop_next_vectors("ada") == 0
    for row, was in zip(await store.search_rows("ada"), before, strict=True):
        assert row.next is None
        assert row.index_seq == was.index_seq
        np.testing.assert_array_equal(row.vectors, was.vectors)
    assert await store.token_codes("ada", ids, embedder=NEW) == {}


async def test_a_forgotten_turns_next_vectors_are_gone(store: DocumentStore) -> None:
    """They go with the row, nothing puts them back, and whoever gets the row's place later has none of them."""
    first, second, third = await filled(store)
    await store.put_next_vectors("ada", dict.fromkeys([first, second, third], vectors(1, 0, tokens=b"new")))
    await store.erase_turns(an_erasure(SCOPE, [third]), now=NOW, limit=9)
    await store.put_next_vectors("ada", {third: vectors(1, 0)})
    found = {row.turn_id: row for row in await store.search_rows("ada")}
    assert found[third].erased
    assert found[third].next is None
    assert await store.token_codes("ada", [third], embedder=NEW) == {}
    await store.erase_turns(an_erasure(SCOPE.user), now=NOW, limit=9)
    await store.put_search_rows("bob", [a_row(scope=a_scope("bob")) for _ in range(4)], now=NOW)
    assert [row.next for row in await store.search_rows("bob")] == [None] * 4


async def test_a_pointer_is_told_by_the_users_newest_row(store: DocumentStore) -> None:
    """Whoever has read all rows reads one of them again after a change, and none where nothing changes."""
    ids = await filled(store)
    await store.erase_turns(an_erasure(SCOPE, [ids[2]]), now=NOW, limit=9)
    order = [row.turn_id for row in await store.search_rows("ada")]
    assert await store.vector_pointer("ada") == ""
    for embedder in (NEW, OLD, ""):
        head = await store.index_head("ada")
        await store.set_vector_pointer("ada", embedder, now=NOW)
        assert await store.vector_pointer("ada") == embedder
        assert await store.vector_pointer("bob") == ""
        (told,) = await store.search_rows("ada", after=head)
        assert told.turn_id == ids[1]
        assert told.index_seq > head
        await store.set_vector_pointer("ada", embedder, now=NOW)
        assert await store.index_head("ada") == told.index_seq
    live = [row.turn_id for row in await store.search_rows("ada") if not row.erased]
    assert live == [each for each in order if each != ids[2]]


async def test_a_pointer_goes_with_the_users_last_row(store: DocumentStore) -> None:
    """A user without rows may have one; who is forgotten has none."""
    await store.set_vector_pointer("cyd", NEW, now=NOW)
    assert await store.vector_pointer("cyd") == NEW
    await filled(store)
    await store.set_vector_pointer("ada", NEW, now=NOW)
    erasure = an_erasure(SCOPE.user)
    await store.erase_turns(erasure, now=NOW, limit=9)
    await store.erase_remains(SCOPE.user, before_id=erasure.before_id)
    assert await store.vector_pointer("ada") == ""
    assert await store.vector_pointer("cyd") == NEW
