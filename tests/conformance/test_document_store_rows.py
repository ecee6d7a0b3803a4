"""What every RowStore must do."""

import asyncio
from dataclasses import fields, replace
from datetime import timedelta
from itertools import product
from typing import Any

import numpy as np
import pytest

from memory_agent.domain import Scope, SearchRow, TurnFeatures, new_id
from memory_agent.domain.base import Tenant
from memory_agent.errors import StoreError
from memory_agent.ports import ALL_ROWS, DocumentStore

from .values import NOW, OpenStore, a_row, a_scope, an_erasure, on_every_server, put_large, stored

SCOPE = a_scope()
NOW_MS = int(NOW.timestamp() * 1000)
_FLAGS = ("asks", "tells_when", "counts", "of_self")


async def test_gives_rows_back(store: DocumentStore) -> None:
    """A row comes back with its terms, place and signs as they were, its vectors nearly, under an index_seq of its own."""
    terms = {"sea": 3, "$where": 1, "a.b": 70_000, "é": 1, "e\u0301": 2, "海": 1}
    full: dict[str, Any] = {"terms": terms, "seq": 7, "session_id": new_id(), "speaker": "Zoë $a.b"}
    full["utc_offset_minutes"] = -570
    flags = [dict(zip(_FLAGS, values, strict=True)) for values in product((False, True), repeat=len(_FLAGS))]
    signs = [TurnFeatures(**some, names=names) for some in flags for names in range(4)]
    rows = [
        *(a_row(passages=passages, **full) for passages in (0, 1, 3)),
        *(a_row(signs=one) for one in signs),
    ]
    await store.put_search_rows("ada", rows, now=NOW)
    found = await store.search_rows("ada")
    assert [row.index_seq for row in found] == list(range(NOW_MS, NOW_MS + len(rows)))
    for row, given in zip(found, rows, strict=True):
        assert len(row.vectors) == len(given.vectors)
        np.testing.assert_allclose(row.vectors.reshape(-1), given.vectors.reshape(-1), atol=1 / 254)
        for name in (field.name for field in fields(row)):
            if name not in ("vectors", "index_seq"):
                assert getattr(row, name) == getattr(given, name), name


async def test_keeps_tokens_apart_from_rows(store: DocumentStore) -> None:
    """They come by turn and embedder, of that user alone, and go with the row; rows are read without them."""
    rows = [
        replace(a_row(seq=n), tokens=tokens) for n, tokens in enumerate((b"\x00\xff", b"", b"abc"), start=1)
    ]
    await store.put_search_rows("ada", rows, now=NOW)
    ids, embedder = [row.turn_id for row in rows], rows[0].embedder
    kept = {ids[0]: b"\x00\xff", ids[2]: b"abc"}
    assert await store.token_codes("ada", [*ids, new_id()], embedder=embedder) == kept
    assert await store.token_codes("ada", ids[:1], embedder=embedder) == {ids[0]: b"\x00\xff"}
    assert await store.token_codes("ada", [], embedder=embedder) == {}
    assert await store.token_codes("ada", ids, embedder="another") == {}
    assert await store.token_codes("eve", ids, embedder=embedder) == {}
    assert [row.tokens for row in await store.search_rows("ada")] == [b"", b"", b""]
    await store.put_search_rows("ada", [replace(rows[0], tokens=b"")], now=NOW)
    assert await store.token_codes("ada", ids, embedder=embedder) == {ids[2]: b"abc"}


async def test_reads_many_rows(store: DocumentStore) -> None:
    """Thousands, of one thread or of hundreds, come back whole and in order."""
    long = [a_row(seq=seq) for seq in range(1, 2_101)]
    short = [a_row(scope=a_scope(thread_id=f"s{i % 400}"), seq=i // 400 + 1) for i in range(800)]
    await store.put_search_rows("ada", [*long, *short], now=NOW)
    everything = [row.turn_id for row in (*long, *short)]
    assert [row.turn_id for row in await store.search_rows("ada")] == everything
    assert len(await store.search_rows("ada", limit=2_000)) == 2_000


async def test_index_numbers_rise_with_every_change(store: DocumentStore) -> None:
    """A batch is numbered in order from now in ms or above the newest, and a replaced row gets a fresh number."""
    rows = [a_row(), a_row(), a_row()]
    assert await store.index_head("ada") == 0
    await store.put_search_rows("eve", [a_row(scope=a_scope("eve"))], now=NOW + timedelta(days=1))
    await store.put_search_rows("ada", rows[:2], now=NOW)
    assert await store.index_head("ada") == NOW_MS + 1
    first = await store.search_rows("ada")
    assert [row.turn_id for row in first] == [rows[0].turn_id, rows[1].turn_id]
    await store.put_search_rows("ada", [rows[2], replace(rows[0], seq=9, terms={"new": 1})], now=NOW)
    again = await store.search_rows("ada")
    assert [row.turn_id for row in again] == [rows[1].turn_id, rows[2].turn_id, rows[0].turn_id]
    assert [row.index_seq for row in again] == [NOW_MS + i for i in (1, 2, 3)]
    assert (again[2].seq, again[2].terms) == (9, {"new": 1})
    await store.put_search_rows("ada", [a_row()], now=NOW - timedelta(days=1))
    assert await store.index_head("ada") == NOW_MS + 4


@on_every_server
async def test_reads_rows_by_id_number_and_limit(store: DocumentStore) -> None:
    """Rows come by rising index_seq, only the asked ones of the user."""
    rows = [a_row() for _ in range(5)]
    await store.put_search_rows("ada", rows, now=NOW)
    await store.put_search_rows("eve", [a_row(scope=a_scope("eve"))], now=NOW)
    found = await store.search_rows("ada")
    ids = [row.turn_id for row in rows]
    assert [row.turn_id for row in found] == ids
    after = await store.search_rows("ada", after=found[1].index_seq, limit=2)
    assert [row.turn_id for row in after] == ids[2:4]
    some = await store.search_rows("ada", ids=[ids[4], ids[0], "nobody"])
    assert [row.turn_id for row in some] == [ids[0], ids[4]]
    assert await store.search_rows("ada", ids=[]) == []
    assert await store.search_rows("ada", limit=0) == []
    assert await store.search_rows("bob") == []


@on_every_server
async def test_refuses_rows_of_another_user(store: DocumentStore) -> None:
    """A row that names another user is refused, and a user cannot replace another's row."""
    foreign = a_row(scope=a_scope("eve"))
    with pytest.raises(StoreError):
        await store.put_search_rows("ada", [foreign], now=NOW)
    await store.put_search_rows("eve", [foreign], now=NOW)
    with pytest.raises(StoreError):
        await store.put_search_rows("ada", [replace(foreign, user_id="ada")], now=NOW)
    assert len(await store.search_rows("eve")) == 1


@on_every_server
async def test_index_numbers_rise_across_stores(open_store: OpenStore) -> None:
    """With two processes writing one user's rows, a reader that goes on from the head misses none."""
    stores = [await open_store(), await open_store()]
    seen: dict[str, SearchRow] = {}
    done = asyncio.Event()

    async def read() -> None:
        head = 0
        while True:
            await asyncio.sleep(0)  # a store may answer without letting others have the loop
            finished = done.is_set()
            for row in await stores[0].search_rows("ada", after=head):
                seen[row.turn_id] = row
                head = row.index_seq
            if finished:
                return

    batches = [[a_row() for _ in range(5)] for _ in range(24)]

    async def write(store: DocumentStore, some: list[list[SearchRow]], ahead: int) -> None:
        for i, batch in enumerate(some):
            # Clocks that disagree leave gaps, into which the one behind would write.
            await store.put_search_rows("ada", batch, now=NOW + timedelta(milliseconds=i * 40 * ahead))

    reader = asyncio.create_task(read())
    await asyncio.gather(write(stores[0], batches[::2], 0), write(stores[1], batches[1::2], 1))
    done.set()
    await reader
    assert seen.keys() == {row.turn_id for batch in batches for row in batch}
    numbers = [row.index_seq for row in await stores[1].search_rows("ada")]
    assert len(set(numbers)) == 120


@on_every_server
async def test_finds_candidates_by_term(store: DocumentStore) -> None:
    """Each term gives the scope's newest rows that hold it; frequency counts the whole user's rows."""
    ids = sorted(new_id() for _ in range(6))
    other = a_scope(thread_id="t2")
    rows = [
        a_row(ids[0], terms={"sea": 1}),
        a_row(ids[1], terms={"sea": 2, "sun": 1}),
        a_row(ids[2], terms={"sun": 1}),
        a_row(ids[3], terms={"sea": 5}),
        a_row(ids[4], terms={"sea": 1, "é": 1}, scope=other),
        a_row(ids[5], terms={}, scope=other),
    ]
    await put_large(store, "ada", rows)
    await put_large(store, "eve", [a_row(terms={"sea": 1}, scope=a_scope("eve"))])
    await store.index_terms("eve", ids)
    thread = await store.term_candidates(SCOPE, ["sea", "é", "none", "sea"], limit=2)
    assert (thread.rows, thread.frequency) == (6, {"sea": 4, "é": 1, "none": 0})
    assert thread.mean_length == pytest.approx(12 / 6)
    assert sorted(thread.turn_ids) == [ids[1], ids[3]]
    user = await store.term_candidates(SCOPE.user, ["sea", "sun"], limit=10)
    assert sorted(user.turn_ids) == ids[:5]
    assert len(set(user.turn_ids)) == len(user.turn_ids)
    empty = await store.term_candidates(a_scope("new"), ["sea"], limit=10)
    assert (empty.rows, empty.mean_length, empty.turn_ids) == (0, 0.0, ())


@on_every_server
async def test_rows_are_in_the_term_index_once_they_were_taken_in(store: DocumentStore) -> None:
    """Whoever has none costs none; a row that is put again is taken in again, and an erased one is in it no more."""
    turns = await stored(store, SCOPE, "one", "two", "three")
    rows = [a_row(turn.id, seq=turn.seq, terms={"sea": 1, "@a:x": 1}) for turn in turns]
    await store.put_search_rows("ada", rows, now=NOW)

    async def held(*terms: str) -> dict[str, int]:
        return dict((await store.term_candidates(SCOPE, terms, limit=5)).frequency)

    assert (await store.candidates_through("ada"), await held("sea")) == (None, {"sea": 0})
    assert await store.entity_counts(SCOPE) == []
    for _ in range(2):  # again: it changes nothing
        await store.index_terms("ada", [rows[0].turn_id, rows[1].turn_id])
    assert (await store.candidates_through("ada"), await held("sea", "@a:x")) == (0, {"sea": 2, "@a:x": 2})
    await store.index_terms("ada", [rows[2].turn_id])
    await store.put_search_rows("ada", [replace(rows[0], terms={"new": 1})], now=NOW)
    assert await held("sea", "new") == {"sea": 2, "new": 0}
    await store.index_terms("ada", [rows[0].turn_id])
    assert await held("sea", "new") == {"sea": 2, "new": 1}
    await store.erase_turns(an_erasure(SCOPE, [rows[1].turn_id]), now=NOW, limit=5)
    assert await held("sea") == {"sea": 1}
    await store.index_terms("ada", [rows[1].turn_id])
    assert (await held("sea"), len(await store.entity_counts(SCOPE))) == ({"sea": 1}, 1)
    assert await store.candidates_through("eve") is None


@on_every_server
async def test_how_far_candidates_go_never_sinks(store: DocumentStore) -> None:
    """It is each user's own, and goes with the last of the user's rows."""
    [turn] = await stored(store, SCOPE, "one")
    await store.put_search_rows("ada", [a_row(turn.id, seq=turn.seq)], now=NOW)
    for through, expected in ((5, 5), (3, 5), (ALL_ROWS, ALL_ROWS), (0, ALL_ROWS)):
        await store.set_candidates_through("ada", through)
        assert await store.candidates_through("ada") == expected
    await store.index_terms("ada", [turn.id])
    await store.erase_remains(SCOPE.user, before_id="~")
    assert (await store.candidates_through("ada"), await store.candidates_through("eve")) == (ALL_ROWS, None)
    await store.erase_turns(an_erasure(SCOPE.user), now=NOW, limit=5)
    await store.erase_remains(SCOPE.user, before_id="~")
    assert await store.candidates_through("ada") is None


@on_every_server
async def test_notes_how_far_rows_are_in_a_vector_index(store: DocumentStore) -> None:
    """Only who has seen its last mark clears a note; an erased row marks it, and it goes with the user's last row."""
    [turn, other] = await stored(store, SCOPE, "one", "two")
    rows = [a_row(turn.id, seq=turn.seq), a_row(other.id, seq=other.seq)]
    await store.put_search_rows("ada", rows, now=NOW)
    assert (await store.vector_fills(limit=9), await store.vectors_missing(None)) == ([], 0)
    await store.want_vectors(["ada"])
    [note] = await store.vector_fills(["ada", "eve"], limit=9)
    assert (note.user_id, note.place, note.through, note.pending) == ("ada", "", 0, True)
    await store.want_vectors(["ada"])
    first, last = [row.index_seq for row in await store.search_rows("ada")]
    await store.note_filled(note, place="here", through=first, pending=False)
    [note] = await store.vector_fills(pending=True, limit=9)
    assert (note.place, note.through) == ("here", first)
    others = Scope(user_id="ada", thread_id="another")
    missing = [await store.vectors_missing(scope) for scope in (None, SCOPE.user, SCOPE, others)]
    assert missing == [1, 1, 1, 0]
    await store.note_filled(note, place="here", through=last, pending=False)
    assert await store.vector_fills(pending=True, limit=9) == []
    await store.erase_turns(an_erasure(SCOPE, [turn.id]), now=NOW, limit=5)
    assert (
        len(await store.vector_fills(pending=True, limit=9)),
        await store.vectors_missing(SCOPE.user),
    ) == (
        1,
        1,
    )
    await store.want_vectors(["ada"], anew=True)
    await store.note_filled(note, place="here", through=last, pending=False)  # from before it was begun anew
    [note] = await store.vector_fills(limit=9)
    assert (note.place, note.through, note.pending) == ("", 0, True)
    await store.erase_turns(an_erasure(SCOPE.user), now=NOW, limit=5)
    await store.erase_remains(SCOPE.user, before_id="~")
    assert await store.vector_fills(limit=9) == []
    await store.note_filled(note, place="here", through=last, pending=False)
    assert await store.vector_fills(limit=9) == []


async def test_notes_everybody_who_has_rows_and_no_note(store: DocumentStore) -> None:
    """In pages by rising user id."""
    users = [f"user{n}" for n in range(5)]
    for user in users:
        await store.put_search_rows(user, [a_row(scope=Scope(user_id=user, thread_id="t"))], now=NOW)
    await store.want_vectors(users[2:3])
    await store.want_vectors(None)
    assert [note.marks for note in await store.vector_fills(limit=9)] == [1] * 5
    page = await store.vector_fills(pending=True, limit=2)
    rest = await store.vector_fills(pending=True, after=page[-1].user_id, limit=9)
    assert [note.user_id for note in [*page, *rest]] == users
    assert await store.vector_fills(limit=0) == []
    assert await store.vectors_missing(Tenant(name="acme")) == 0
    assert await store.vectors_missing(None) == 5


async def test_counts_rows_up_to_a_limit(store: DocumentStore) -> None:
    """Of the user alone, and no further than asked."""
    await store.put_search_rows("ada", [a_row() for _ in range(5)], now=NOW)
    await store.put_search_rows("eve", [a_row(scope=a_scope("eve"))], now=NOW)
    assert [await store.count_rows("ada", limit=limit) for limit in (0, 3, 5, 9)] == [0, 3, 5, 5]
    assert await store.count_rows("bob", limit=9) == 0


async def test_counts_everybodys_rows_by_other_embedders(store: DocumentStore) -> None:
    """Those before and behind it in order; neither its own nor stubs."""
    for user in ("ada", "eve"):
        scope = a_scope(user)
        rows = [
            replace(a_row(scope=scope, seq=seq), embedder=by)
            for seq, by in enumerate(("aaaa", "mmmm", "zzzz"), 1)
        ]
        await store.put_search_rows(user, rows, now=NOW)
    assert [await store.rows_by_others(by) for by in ("mmmm", "aaaa", "none")] == [4, 4, 6]
    await store.sweep_orphans(a_scope("eve").user, stubs_before=NOW, now=NOW)  # none of them has a turn
    assert await store.rows_by_others("mmmm") == 2


async def test_finds_the_turns_nearest_to_a_vector(store: DocumentStore) -> None:
    """Exactly, nearest first and each turn once, of the scope's rows by this embedder that were not erased."""
    some = np.random.default_rng(3).standard_normal((60, 2, 16)).astype(np.float32)
    some /= np.linalg.norm(some, axis=2, keepdims=True)
    asked = some[7, 1]
    rows = {}
    for number, vectors in enumerate(some):
        scope = a_scope("ada", f"t{number % 2}")
        [turn] = await stored(store, scope, f"turn {number}")
        passages = vectors[: 1 + number % 2]
        rows[turn.id] = replace(a_row(turn.id, scope=scope, seq=turn.seq), vectors=passages)
    [others] = await stored(store, a_scope("bob", "t0"), "another's")
    await store.put_search_rows(
        "bob", [replace(a_row(others.id, scope=a_scope("bob", "t0")), vectors=some[7])], now=NOW
    )
    gone, foreign, empty, *_ = rows
    rows[foreign] = replace(rows[foreign], embedder="another")
    rows[empty] = replace(rows[empty], vectors=np.empty((0, 0), dtype=np.float32))
    await store.put_search_rows("ada", list(rows.values()), now=NOW)
    await store.erase_turns(an_erasure(a_scope("ada", rows[gone].thread_id), [gone]), now=NOW, limit=10)
    kept = await store.search_rows(
        "ada", ids=[turn_id for turn_id in rows if turn_id not in {gone, foreign, empty}]
    )
    for thread in (None, "t1"):
        cosines = {
            row.turn_id: float((row.vectors @ asked).max()) for row in kept if thread in (None, row.thread_id)
        }
        best = sorted(cosines, key=lambda turn_id: -cosines[turn_id])
        scope = replace(a_scope(), thread_id=thread)
        found = await store.nearest_turns(scope, asked, embedder="ab12cd34ef56", limit=9)
        assert [one.turn_id for one in found] == best[:9]
        assert [one.similarity for one in found] == pytest.approx([cosines[t] for t in best[:9]], abs=1e-5)
        everything = await store.nearest_turns(scope, asked, embedder="ab12cd34ef56", limit=1_000)
        assert {one.turn_id for one in everything} == set(cosines)
    assert await store.nearest_turns(a_scope().user, asked, embedder="ab12cd34ef56", limit=0) == []
    assert await store.nearest_turns(a_scope("nobody").user, asked, embedder="ab12cd34ef56", limit=5) == []
    with pytest.raises(ValueError, match="the vector has 3 numbers, those of the rows 16"):
        await store.nearest_turns(a_scope().user, np.ones(3, np.float32), embedder="ab12cd34ef56", limit=5)
