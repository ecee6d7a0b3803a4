"""What every DocumentStore must do with compressions of a conversation: append in a row, read, and forget them."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from memory_agent.domain import Compression, ErasedCounts, KeyMoment, Scope, Turn, new_id
from memory_agent.errors import InvalidInput
from memory_agent.ports import DocumentStore

from .values import (
    FULL_COMPRESSION,
    NOW,
    OpenStore,
    a_call,
    a_compression,
    a_draft,
    a_scope,
    an_erasure,
    on_every_server,
    only_turns,
    stored,
)

DAY = timedelta(days=1)
SCOPE = a_scope()
T2 = a_scope(thread_id="t2")
EVE = a_scope("eve")


async def compressed(
    store: DocumentStore, turns: Sequence[Turn], *sizes: int, scope: Scope = SCOPE
) -> list[Compression]:
    """Compressions in a row, over so many of the turns each."""
    made: list[Compression] = []
    start = 0
    for number, size in enumerate(sizes, start=1):
        covered = turns[start : start + size]
        after, before = (made[-1].through, made[-1].turns) if made else (0, 0)
        turns_then = before + len(covered)
        made.append(a_compression(covered, number, after_seq=after, scope=scope, turns=turns_then))
        assert await store.append_compression(made[-1])
        start += size
    return made


async def numbers(store: DocumentStore, scope: Scope) -> list[int]:
    return [compression.number for compression in await store.compressions(scope)]


async def owing(store: DocumentStore, scope: Scope) -> list[str]:
    """What the turns say that owe `compress`."""
    return [turn.content for turn in await store.owed_turns(scope, "compress", limit=100)]


# --- storing and reading -------------------------------------------------------------------------------------


async def test_gives_every_field_of_a_compression_back(store: DocumentStore) -> None:
    """What is read is what was stored, whether fields are full or empty, whatever their texts hold."""
    turns = await stored(store, SCOPE, "a", "b")
    full = a_compression(turns[:1], 1, **FULL_COMPRESSION)
    empty = a_compression(turns[1:], 2, after_seq=1, summary=(), made_by="")
    for compression in (full, empty):
        assert await store.append_compression(compression)
    assert await store.compressions(SCOPE) == [full, empty]


@on_every_server
async def test_reads_compressions_in_order(store: DocumentStore) -> None:
    """By number; `through` leaves out those that go further, `newest` all but the last so many of the rest."""
    turns = await stored(store, SCOPE, *"abcdef")
    made = await compressed(store, turns, 2, 1, 3)
    others = await compressed(store, await stored(store, T2, *"xy"), 2, scope=T2)
    await compressed(store, await stored(store, EVE, *"xy"), 2, scope=EVE)
    assert await store.compressions(SCOPE) == made
    assert await store.compressions(T2) == others
    assert await store.compressions(a_scope("nobody")) == []
    assert await store.compressions(SCOPE, newest=1) == made[2:]
    assert await store.compressions(SCOPE, newest=2) == made[1:]
    assert await store.compressions(SCOPE, newest=9) == made
    assert await store.compressions(SCOPE, newest=0) == []
    for through, expected in ((0, 0), (1, 0), (2, 1), (3, 2), (5, 2), (6, 3), (99, 3)):
        assert await store.compressions(SCOPE, through=through) == made[:expected]
    assert await store.compressions(SCOPE, through=5, newest=1) == made[1:2]
    with pytest.raises(InvalidInput, match="thread"):
        await store.compressions(SCOPE.user)


def a_moment(turn: Turn) -> KeyMoment:
    return KeyMoment(
        turn_id=turn.id, seq=turn.seq, who="user", at=NOW, score=3.0, tokens=1, text=turn.content
    )


@on_every_server
@pytest.mark.parametrize("gone", [None, 9, 7, 4])
async def test_each_compression_has_its_moments_whichever_were_dropped(
    store: DocumentStore, gone: int | None
) -> None:
    """Also those that later ones have, too, or have no more; also when these went with a turn that was forgotten."""
    turns = await stored(store, SCOPE, *"abcdefghij")
    made: list[Compression] = []
    for number, of in enumerate([(0, 1, 3), (0, 3, 5), (0, 5, 6, 7), (5, 6, 9)], start=1):
        covered = turns[(len(turns) * (number - 1)) // 4 : (len(turns) * number) // 4]
        after: dict[str, Any] = (
            {"after_seq": made[-1].through, "turns": made[-1].turns + len(covered)} if made else {}
        )
        there = tuple(a_moment(turns[i]) for i in of if i < covered[-1].seq)
        made.append(a_compression(covered, number, **after, moments=there))
        assert await store.append_compression(made[-1])
    if gone is not None:
        await store.erase_turns(an_erasure(SCOPE, [turns[gone].id]), now=NOW, limit=10)
        made = [one for one in made if one.through <= turns[gone].seq - 1]
    assert made
    assert await store.compressions(SCOPE) == made
    for one in made:
        assert await store.compressions(SCOPE, through=one.through, newest=1) == [one]


async def counted(store: DocumentStore, scope: Scope) -> int:
    """The thread's turns, by its status, which is right."""
    there = len(await store.list_turns(scope))
    assert (await store.status(scope, now=NOW)).turns == there
    return there


async def test_a_threads_turns_are_counted_whatever_becomes_of_them(store: DocumentStore) -> None:
    """Those appended, and appended once more; compressed; forgotten, whether compressed or not, one by one or all."""
    turns = await stored(store, SCOPE, *map(str, range(300)))
    await stored(store, T2, "elsewhere")
    await compressed(store, turns, 100, 100)
    await stored(store, SCOPE, "b", "c", key="k")
    await store.append_turns(SCOPE, a_call("b", "c", key="k"))
    assert await counted(store, SCOPE) == 302
    for gone, (number, left) in enumerate([(250, [1, 2]), (150, [1]), (20, [])], start=1):
        await store.erase_turns(an_erasure(SCOPE, [turns[number].id]), now=NOW, limit=10)
        assert await counted(store, SCOPE) == 302 - gone
        assert await numbers(store, SCOPE) == left
    await compressed(store, await store.list_turns(SCOPE, through=200), 198)
    assert await counted(store, SCOPE) == 299
    await store.erase_turns(an_erasure(SCOPE), now=NOW, limit=1_000)
    assert await counted(store, SCOPE) == 0


# --- what cannot stand ---------------------------------------------------------------------------------------


async def test_compressions_are_in_a_row(store: DocumentStore) -> None:
    """Only the next number is taken, and only what begins where the one before ended; the rest is left alone."""
    turns = await stored(store, SCOPE, *"abc")
    for number in (0, 2, 3):
        assert not await store.append_compression(a_compression(turns[:1], number))
    [first] = await compressed(store, turns, 1)
    for number in (0, 1, 3, 4):
        assert not await store.append_compression(a_compression(turns[1:2], number, after_seq=1))
    assert not await store.append_compression(first)
    assert not await store.append_compression(a_compression(turns[1:2], 2, after_seq=0))
    assert not await store.append_compression(a_compression(turns[2:], 2, after_seq=2))
    assert await store.compressions(SCOPE) == [first]
    second = a_compression(turns[1:], 2, after_seq=1)
    assert await store.append_compression(second)
    assert await store.compressions(SCOPE) == [first, second]


async def test_what_covers_a_turn_that_is_gone_is_refused(store: DocumentStore) -> None:
    """Forgotten, unknown and foreign turns, and those of another thread, cannot be covered."""
    turns = await stored(store, SCOPE, *"abc")
    [elsewhere] = await stored(store, T2, "elsewhere")
    [foreign] = await stored(store, EVE, "foreign")
    [keyed] = await stored(store, SCOPE, "keyed", key="k")
    erasure = an_erasure(SCOPE, [turns[1].id, keyed.id])
    await store.erase_turns(erasure, now=NOW, limit=10)
    live = [turns[0].id, turns[2].id]
    for gone in (turns[1].id, keyed.id, elsewhere.id, foreign.id, "unknown"):
        refused = a_compression(turns, covers=(live[0], gone, live[1]))
        assert not await store.append_compression(refused)
    assert await store.compressions(SCOPE) == []
    assert await store.append_compression(a_compression(turns, covers=(*live, live[0])))


@on_every_server
async def test_of_many_that_append_one_wins(open_store: OpenStore) -> None:
    """Whoever asks at once for the same number, from whichever process, exactly one compression is stored."""
    stores = [await open_store(), await open_store()]
    turns = await stored(stores[0], SCOPE, *"abc")
    kept = []
    for number, turn in enumerate(turns, start=1):
        made = [a_compression([turn], number, after_seq=number - 1) for _ in range(8)]
        won = await asyncio.gather(*(stores[i % 2].append_compression(c) for i, c in enumerate(made)))
        assert sum(won) == 1
        kept.append(made[won.index(True)])
    assert await stores[1].compressions(SCOPE) == kept


async def test_no_compression_outlives_a_turn_forgotten_meanwhile(open_store: OpenStore) -> None:
    """Of a maker and an eraser that race, whichever is first, nothing made of the turn is left; it is owed if any was."""
    maker, eraser = await open_store(), await open_store()
    for n in range(12):
        scope = a_scope(thread_id=f"race {n}")
        turns = await stored(maker, scope, *"abc")
        [first] = await compressed(maker, turns, 1, scope=scope)
        second = a_compression(turns[1:2], 2, after_seq=1, scope=scope)

        async def append(compression: Compression = second, turn: int = n) -> bool:
            await asyncio.sleep(0.0005 * (turn % 6))
            return await maker.append_compression(compression)

        erasure = an_erasure(scope, [turns[1].id])
        won, counts = await asyncio.gather(append(), eraser.erase_turns(erasure, now=NOW, limit=10))
        assert await maker.compressions(scope) == [first]
        # One that was deleted by its maker was never read by anybody; the eraser may have seen it before it went.
        assert counts.compressions in ((0, 1) if not won else (1,))
        assert await owing(maker, scope) in ((["c"],) if counts.compressions else ([], ["c"]))
        assert (await eraser.sweep_orphans(scope, stubs_before=NOW, now=NOW)).compressions == 0


# --- forgetting ----------------------------------------------------------------------------------------------


@on_every_server
@pytest.mark.parametrize(("gone", "left"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3)])
async def test_forgetting_a_turn_drops_what_came_of_it(store: DocumentStore, gone: int, left: int) -> None:
    """The compression that covers it and all later ones go; the thread's newest turn owes `compress` if any did."""
    turns = await stored(store, SCOPE, *"abcdef")
    made = await compressed(store, turns, 2, 1, 2)
    elsewhere = await compressed(store, await stored(store, T2, *"abcdef"), 2, 1, scope=T2)
    hers = await compressed(store, await stored(store, EVE, *"abcdef"), 2, 1, scope=EVE)
    erasure = an_erasure(SCOPE, [turns[gone].id])
    counts = await store.erase_turns(erasure, now=NOW + DAY, limit=10)
    assert counts == ErasedCounts(turns=1, compressions=3 - left)
    assert await store.compressions(SCOPE) == made[:left]
    if left < 3:
        [owed] = await store.owed_turns(SCOPE, "compress", limit=10)
        assert (owed.id, owed.pending, owed.due_at) == (turns[5].id, ("compress",), NOW + DAY)
        assert await store.due_threads(NOW + DAY, "compress", limit=10) == [SCOPE]
    else:
        assert await owing(store, SCOPE.user) == []
    assert await store.compressions(T2) == elsewhere
    assert await store.compressions(EVE) == hers
    assert await owing(store, T2) + await owing(store, EVE) == []
    assert await store.erase_turns(erasure, now=NOW + DAY, limit=10) == ErasedCounts()
    assert await store.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW) == ErasedCounts()
    if left < 3:
        # What was dropped can be made anew of what is left, under the same number.
        again = a_compression(turns[5:], left + 1, after_seq=made[left - 1].through if left else 0)
        assert not await store.append_compression(replace(again, number=left + 2))
        assert await store.append_compression(again)
        assert await store.compressions(SCOPE) == [*made[:left], again]


async def test_forgetting_the_newest_turn_leaves_the_one_before_owing(store: DocumentStore) -> None:
    """The turn that owes is one that stays, whatever else is forgotten with it; its other work stays as it was."""
    [first] = only_turns(await store.append_turns(SCOPE, [a_draft("a", pending=("facts",))]))
    turns = [first, *await stored(store, SCOPE, *"bcd")]
    await compressed(store, turns, 4)
    await store.postpone(SCOPE, [first.id], error="broken", due_at=None, counted=True)
    erasure = an_erasure(SCOPE, [turn.id for turn in turns[1:]])
    counts = [await store.erase_turns(erasure, now=NOW, limit=2) for _ in range(3)]
    assert counts == [ErasedCounts(turns=2, compressions=1), ErasedCounts(turns=1), ErasedCounts()]
    [owed] = await store.list_turns(SCOPE)
    assert (owed.pending, owed.due_at, owed.parked) == (("compress", "facts"), NOW, False)
    assert (owed.attempts, owed.last_error) == (0, None)


@pytest.mark.parametrize(("limit", "whole"), [(1, SCOPE), (10, SCOPE), (2, SCOPE.user)], ids=str)
async def test_forgetting_a_scope_takes_its_compressions(
    store: DocumentStore, limit: int, whole: Scope
) -> None:
    """All of them go with the turns; what was said since the call owes `compress`, other threads nothing.

    The last step of forgetting a user, and sweeping, touch no compression of turns that are there.
    """
    turns = await stored(store, SCOPE, *"abc")
    await compressed(store, turns, 1, 1)
    elsewhere = await compressed(store, await stored(store, T2, *"xy"), 1, scope=T2)
    hers = await compressed(store, await stored(store, EVE, *"xy"), 1, scope=EVE)
    erasure = an_erasure(whole)
    later = await stored(store, SCOPE, "later", "newest")
    total = ErasedCounts()
    while (counts := await store.erase_turns(erasure, now=NOW, limit=limit)) != ErasedCounts():
        total += counts
    kept = elsewhere if whole == SCOPE else []
    assert total == ErasedCounts(turns=3 if kept else 5, compressions=2 if kept else 3)
    assert await store.compressions(SCOPE) == []
    assert await owing(store, SCOPE.user) == ["newest"]
    # Numbers begin anew.
    [made] = await compressed(store, later, 2)
    for _ in range(2):
        await store.erase_remains(SCOPE.user, before_id=new_id())
    assert await store.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW) == ErasedCounts()
    assert await store.compressions(SCOPE) == [replace(made, after_seq=0)]
    assert await store.compressions(T2) == kept
    assert await store.compressions(EVE) == hers
