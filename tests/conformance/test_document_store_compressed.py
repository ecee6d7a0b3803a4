"""What every DocumentStore must do to compress turns, and to forget some of them."""

import asyncio
from dataclasses import replace

from memory_agent.domain import Entity, ErasedCounts, PackedSize, Tombstone, TopicTurns
from memory_agent.ports import DocumentStore

from .values import (
    NOW,
    OpenStore,
    a_call,
    a_draft,
    a_scope,
    an_erasure,
    bytes_of,
    on_every_server,
    only_turns,
    stored,
    stored_compressed,
    without_packing,
)

SCOPE = a_scope()
T2 = a_scope(thread_id="t2")
EVE = a_scope("eve")

TEXTS = (
    "plain words about the sea", "nul\0inside \x01\x1f", "👩‍👩‍👧‍👦 🇳🇴 שלום \u202bעולם\u202c", "crlf\r\n\ttab\n",
    "é e\u0301 ﬁ Å", "\ufeff$set.a/b", " ", "\n", "", "x" * 20_000,
)  # fmt: skip
"""What packing might change."""


# --- compressing ---------------------------------------------------------------------------------------------


async def test_compressed_turns_read_as_before(store: DocumentStore) -> None:
    """Packed texts come back byte for byte wherever turns are read, and nothing else of a turn changes."""
    entities = (Entity(kind="people", name="Zoë"),)
    drafts = a_call(*TEXTS, pending=("index", "topics"), key="k", session_id="$s.1 é")
    given = [replace(draft, entities=entities) for draft in drafts]
    turns = only_turns(await store.append_turns(SCOPE, given))
    packed = await store.compress_turns(SCOPE, "topic", [turn.id for turn in turns])
    assert (packed.turns, packed.raw_bytes) == (len(turns), bytes_of(turns))
    assert 0 < packed.packed_bytes < packed.raw_bytes
    expected = [replace(turn, compressed=True) for turn in turns]
    assert await store.list_turns(SCOPE) == expected
    assert await store.list_turns(SCOPE.user, newest=True, limit=3) == expected[-3:]
    assert await store.list_turns(SCOPE, ids=[turns[2].id]) == [expected[2]]
    assert await store.owed_turns(SCOPE, "index", limit=100) == expected
    assert await store.owed_turns(SCOPE.user, "topics", limit=1, newest=True) == [expected[-1]]
    assert await store.append_turns(SCOPE, a_call("other words", key="k")) == expected
    for turn, text in zip(await store.list_turns(SCOPE), TEXTS, strict=True):
        assert turn.content.encode() == text.encode()
    await store.postpone(SCOPE, [turns[0].id], error="broken", due_at=None, counted=True)
    status = await store.status(SCOPE, now=NOW)
    assert (status.turns, status.pending["topics"], status.owed_count) == (len(TEXTS),) * 3
    assert [parked.turn_id for parked in status.parked] == [turns[0].id]
    await stored(store, SCOPE, "not packed")
    every = await store.list_turns(SCOPE)
    ids = [turn.id for turn in every]
    assert await store.list_turns(SCOPE.user, ids=ids[::-1]) == every
    assert await store.list_turns(SCOPE, ids=ids[1:], newest=True, limit=3) == every[-3:]


async def test_packs_only_what_is_left(store: DocumentStore) -> None:
    """A repeat packs nothing; packed, unknown, forgotten and foreign turns are passed over."""
    gone, *turns = await stored(store, SCOPE, *"abcd")
    [elsewhere] = await stored(store, T2, "elsewhere")
    [foreign] = await stored(store, EVE, "foreign")
    await store.erase_turns(an_erasure(SCOPE, [gone.id]), now=NOW, limit=10)
    first = await store.compress_turns(SCOPE, "topic", [turns[1].id])
    assert (first.turns, first.raw_bytes) == (1, 1)
    ids = [turn.id for turn in (elsewhere, foreign, gone, *turns[::-1])]
    rest = await store.compress_turns(SCOPE, "topic", [*ids, "unknown", turns[0].id])
    assert (rest.turns, rest.raw_bytes) == (2, 2)
    for again in (ids, [], ["unknown"]):
        assert await store.compress_turns(SCOPE, "topic", again) == PackedSize()
    assert await store.list_turns(SCOPE) == [replace(turn, compressed=True) for turn in turns]
    assert await store.list_turns(T2) == [elsewhere]
    assert await store.list_turns(EVE) == [foreign]


async def test_packs_more_than_a_segment_holds(store: DocumentStore) -> None:
    """Texts that one segment cannot hold together, and one that is larger by itself, come back whole."""
    sizes = (2_100_000, 2_100_000, 10, 4_300_000, 10)
    drafts = [a_draft(chr(97 + i) * size, index=i, size=5) for i, size in enumerate(sizes)]
    turns = only_turns(await store.append_turns(SCOPE, drafts))
    await store.assign_topics(SCOPE, {turn.id: "topic" for turn in turns})
    packed = await store.compress_turns(SCOPE, "topic", [turn.id for turn in turns])
    assert (packed.turns, packed.raw_bytes) == (5, sum(sizes))
    assert without_packing(await store.list_turns(SCOPE)) == turns
    counted = await store.count_topic_turns(SCOPE, ["topic"])
    assert counted == {
        "topic": TopicTurns(turns=5, compressed=5, raw_bytes=sum(sizes), packed_bytes=packed.packed_bytes)
    }
    await store.erase_turns(an_erasure(SCOPE, [turns[1].id]), now=NOW, limit=10)
    assert without_packing(await store.list_turns(SCOPE)) == [turn for turn in turns if turn is not turns[1]]


async def test_every_turn_can_be_read_while_it_is_packed(open_store: OpenStore) -> None:
    """Readers of two processes see all texts as they were at every moment while others compress, by thread or by ids."""
    stores = [await open_store() for _ in range(3)]
    turns = await stored(stores[0], SCOPE, *(f"text {i} é" * 20 for i in range(40)))
    done = asyncio.Event()

    async def read(store: DocumentStore, ids: list[str] | None) -> None:
        while not done.is_set():
            await asyncio.sleep(0)  # a store may answer without letting others have the loop
            assert without_packing(await store.list_turns(SCOPE, ids=ids)) == turns

    asked = zip(stores, (None, [turn.id for turn in turns]), strict=False)
    readers = [asyncio.create_task(read(store, ids)) for store, ids in asked]
    packed = await asyncio.gather(
        *(
            stores[1 + i % 2].compress_turns(SCOPE, "topic", [turn.id for turn in turns[i * 3 : i * 3 + 10]])
            for i in range(14)
        )
    )
    done.set()
    await asyncio.gather(*readers)
    assert sum(part.turns for part in packed) == 40
    assert sum(part.raw_bytes for part in packed) == bytes_of(turns)
    assert all(turn.compressed for turn in await stores[0].list_turns(SCOPE))


# --- forgetting ----------------------------------------------------------------------------------------------


async def test_forgets_texts_in_segments(store: DocumentStore) -> None:
    """Turns with and without segments, of several, go in one call; the others are read byte for byte, in any mixture."""
    turns = await stored_compressed(store, SCOPE, *TEXTS, topic_id="topic", key="k")
    others = await stored_compressed(store, T2, "other thread", topic_id="elsewhere")
    more = await stored_compressed(store, SCOPE, "b1", "b2", topic_id="two")
    plain = await stored(store, SCOPE, "c1", "c2é")
    last = await stored_compressed(store, SCOPE, "d1", topic_id="two")
    everything = [*turns, *others, *more, *plain, *last]
    assert await store.list_turns(SCOPE.user) == everything
    assert await store.list_turns(SCOPE.user, compressed=True, topic_ids=["two"]) == [*more, *last]
    packed = [*turns[1::3], *more]
    gone = [*packed, plain[0]]
    kept = [turn for turn in everything if turn not in gone and turn.thread_id == "t1"]
    erasure = an_erasure(SCOPE, [turn.id for turn in gone])
    counts = await store.erase_turns(erasure, now=NOW, limit=100)
    assert (counts.turns, counts.packed_texts) == (len(gone), len(packed))
    assert await store.list_turns(SCOPE) == kept
    assert await store.list_turns(T2) == others
    counted = await store.count_topic_turns(SCOPE, ["topic", "two"])
    left = [turn for turn in turns if turn in kept]
    one = counted["topic"]
    assert (one.turns, one.compressed, one.raw_bytes) == (len(left), len(left), bytes_of(left))
    assert counted["two"].raw_bytes == 2
    assert await store.erase_turns(an_erasure(SCOPE, erasure.turn_ids), now=NOW, limit=100) == ErasedCounts()
    assert await store.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW) == ErasedCounts()
    assert await store.list_turns(SCOPE) == kept
    # A late repeat of the call finds a tombstone for each that went, under its id or a hash, and the texts of the others.
    repeat = await store.append_turns(SCOPE, a_call("late", key="k"))
    size = len(TEXTS)
    for index, (turn, found) in enumerate(zip(turns, repeat, strict=True)):
        gone_id = found.turn_id if isinstance(found, Tombstone) else turn.id
        assert gone_id == turn.id or gone_id.startswith(f"{turn.id[:13]}#")
        gone_turn = Tombstone(turn_id=gone_id, seq=turn.seq, call_index=index, call_size=size)
        assert found == (turn if turn in left else gone_turn)


async def test_clearing_a_thread_leaves_no_segment(store: DocumentStore) -> None:
    """Batch by batch all packed texts go; between batches the rest can be read; other threads stay."""
    turns = await stored_compressed(store, SCOPE, *"abcde", topic_id="topic")
    kept = await stored_compressed(store, T2, "kept", topic_id="topic")
    erasure = an_erasure(SCOPE)
    packed = 0
    for start in (2, 4, 5):
        packed += (await store.erase_turns(erasure, now=NOW, limit=2)).packed_texts
        assert await store.list_turns(SCOPE) == turns[start:]
    assert packed == 5
    assert await store.erase_turns(erasure, now=NOW, limit=2) == ErasedCounts()
    assert await store.count_topic_turns(SCOPE, ["topic"]) == {"topic": TopicTurns()}
    assert await store.list_turns(SCOPE.user) == kept


@on_every_server
async def test_forgetting_while_packing(open_store: OpenStore) -> None:
    """Of turns that one process packs while another forgets some, the forgotten go and the others stay."""
    packer, eraser = await open_store(), await open_store()
    turns = await stored(packer, SCOPE, *(f"text {i} é" for i in range(60)))
    gone = {turn.id for turn in turns[::3]}
    packing = (
        packer.compress_turns(SCOPE, "topic", [turn.id for turn in turns[i : i + 20]])
        for i in range(0, 60, 20)
    )
    forgetting = (eraser.erase_turns(an_erasure(SCOPE, [turn.id]), now=NOW, limit=10) for turn in turns[::3])
    await asyncio.gather(*packing, *forgetting)
    left = [turn for turn in turns if turn.id not in gone]
    assert without_packing(await packer.list_turns(SCOPE)) == left
    # What a worker packed of a turn that was forgotten under its hands ends with the sweep.
    await eraser.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW)
    assert await eraser.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW) == ErasedCounts()
    await packer.compress_turns(SCOPE, "topic", [turn.id for turn in turns])
    await packer.assign_topics(SCOPE, {turn.id: "topic" for turn in turns})
    counted = (await packer.count_topic_turns(SCOPE, ["topic"]))["topic"]
    assert (counted.turns, counted.compressed, counted.raw_bytes) == (40, 40, bytes_of(left))
    assert without_packing(await packer.list_turns(SCOPE)) == left
