"""`VectorIndex`, over every adapter."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import numpy as np
import pytest
from numpy.typing import NDArray

from memory_agent.domain import PassageVector, Scope
from memory_agent.errors import VectorIndexError
from memory_agent.ports import VectorIndex
from memory_agent.testing import BruteForceIndex

HOSTILE_IDS = [
    *(
        "plain", "PLAIN", "plain ", " plain", "$ne", '{"$ne": ""}', "a.b/c\\d#0", "a:b#1", "' OR 1=1 --", "*", "%",
    ),
    *(
        "e\u0301", "\u00e9", "사용자 👩‍👩‍👧 \u202e\u200b", "\U0010ffff", "x" * 512, "x" * 511 + "y", "𠜎" * 512,
    ),
]  # fmt: skip


@contextlib.asynccontextmanager
async def opened(index: VectorIndex) -> AsyncIterator[VectorIndex]:
    await index.open()
    try:
        yield index
    finally:
        await index.close()


@pytest.fixture
async def index(make_index: Callable[[str], VectorIndex]) -> AsyncIterator[VectorIndex]:
    async with opened(make_index("0123456789ab")) as index:
        yield index


def direction(*values: float) -> NDArray[np.float32]:
    vector = np.zeros(8, dtype=np.float32)
    vector[: len(values)] = values
    unit: NDArray[np.float32] = vector / np.linalg.norm(vector)
    return unit


def passage(
    turn_id: str, vector: NDArray[np.float32], *, number: int = 0, thread_id: str = "thread"
) -> PassageVector:
    when = datetime(2026, 1, 1, 12, 30, 15, 123_000, tzinfo=UTC)
    return PassageVector(
        turn_id=turn_id,
        passage=number,
        thread_id=thread_id,
        role="user",
        timestamp=when,
        vector=vector,
    )


ANN = Scope(user_id="ann")


async def test_nearest_come_first_with_their_cosine(index: VectorIndex) -> None:
    """Turns come back nearest first, each with its true cosine, opposite ones included."""
    await index.upsert(
        "ann",
        [
            passage("east", direction(1, 0)),
            passage("north", direction(0, 1)),
            passage("west", direction(-1, 0)),
        ],
    )
    found = await index.query(ANN, direction(3, 1), limit=10)
    assert [similar.turn_id for similar in found] == ["east", "north", "west"]
    expected = [3 / 10**0.5, 1 / 10**0.5, -3 / 10**0.5]
    assert [similar.similarity for similar in found] == pytest.approx(expected, abs=1e-5)
    # A limit of n gives n turns, or all if there are fewer, or none for 0.
    assert [len(await index.query(ANN, direction(1), limit=n)) for n in (0, 1, 3, 50)] == [0, 1, 3, 3]


async def test_a_long_turn_is_one_result(index: VectorIndex) -> None:
    """A turn of many near passages appears once, with its nearest, and does not crowd out the others."""
    long = [passage("long", direction(1, i / 1000), number=i) for i in range(60)]
    await index.upsert("ann", [*long, passage("second", direction(1, 1)), passage("third", direction(0, 1))])
    found = await index.query(ANN, direction(1), limit=3)
    assert [similar.turn_id for similar in found] == ["long", "second", "third"]
    assert found[0].similarity == pytest.approx(1.0, abs=1e-6)


async def test_a_repeated_upsert_changes_nothing(index: VectorIndex) -> None:
    """The same passages stored twice, also within one call, are there once; another vector takes the old one's place."""
    await index.upsert("ann", [])
    passages = [
        passage("a", direction(1)),
        passage("a", direction(0, 1), number=1),
        passage("b", direction(1, 1)),
    ]
    await index.upsert("ann", [*passages, *passages])
    before = await index.query(ANN, direction(1), limit=10)
    await index.upsert("ann", passages)
    assert await index.query(ANN, direction(1), limit=10) == before
    await index.upsert("ann", [passage("a", direction(-1, 0))])
    found = {
        similar.turn_id: similar.similarity for similar in await index.query(ANN, direction(0, 1), limit=9)
    }
    assert found["a"] == pytest.approx(1.0, abs=1e-6)
    assert await index.delete("ann", ["a", "b"]) == 3


async def test_no_user_sees_anothers_turns(index: VectorIndex) -> None:
    """Whatever characters ids are made of, each user finds exactly the own turns."""
    for number, user_id in enumerate(HOSTILE_IDS):
        await index.upsert(user_id, [passage(f"turn-{number}", direction(1), thread_id=user_id)])
    for number, user_id in enumerate(HOSTILE_IDS):
        for scope in (Scope(user_id=user_id), Scope(user_id=user_id, thread_id=user_id)):
            found = await index.query(scope, direction(1), limit=50)
            assert [similar.turn_id for similar in found] == [f"turn-{number}"], repr(user_id)
        assert await index.turn_ids(user_id) == {f"turn-{number}"}
    # So do ids of turns, each once.
    for number_of, vector in ((2, direction(1)), (11, direction(0, 1))):
        await index.upsert("ann", [passage(turn_id, vector, number=number_of) for turn_id in HOSTILE_IDS])
    assert await index.turn_ids("ann") == set(HOSTILE_IDS)
    assert await index.turn_ids("nobody") == set()
    assert await index.query(Scope(user_id="nobody"), direction(1), limit=5) == []


async def test_a_thread_sees_no_other_thread(index: VectorIndex) -> None:
    """A thread scope gives the thread's turns only, the user's scope those of all threads."""
    for number, thread_id in enumerate(HOSTILE_IDS):
        await index.upsert("ann", [passage(f"turn-{number}", direction(1), thread_id=thread_id)])
    for number, thread_id in enumerate(HOSTILE_IDS):
        found = await index.query(Scope(user_id="ann", thread_id=thread_id), direction(1), limit=50)
        assert [similar.turn_id for similar in found] == [f"turn-{number}"], repr(thread_id)
    assert len(await index.query(ANN, direction(1), limit=50)) == len(HOSTILE_IDS)


async def test_nobody_deletes_or_clears_anothers_turn(index: VectorIndex) -> None:
    """Also where they share a collection."""
    users = [f"user{i}" for i in range(8)]  # more than there are shards: some share one
    for number, user_id in enumerate(users):
        await index.upsert(user_id, [passage(f"turn-{number}", direction(1, number))])
    every = [f"turn-{number}" for number in range(len(users))]
    assert await index.delete(users[0], every) == 1
    await index.clear(users[1])
    held = [await index.turn_ids(user_id) for user_id in users]
    assert held == [set(), set(), *({turn_id} for turn_id in every[2:])]


async def test_a_place_has_one_name_as_long_as_it_keeps_what_is_there(
    make_index: Callable[[str], VectorIndex], index: VectorIndex
) -> None:
    await index.upsert("ann", [passage("a", direction(1))])
    assert await index.place("ann") == await index.place("ann") != ""
    async with opened(make_index("another00000")) as other:
        assert await other.place("ann") != await index.place("ann")
    assert index.losses == 0


async def test_delete_takes_all_passages_of_the_named_turns(index: VectorIndex) -> None:
    """delete() removes every passage of the turns, counts them, passes over unknown ones, and can be repeated."""
    await index.upsert("ann", [passage("a", direction(1, i), number=i) for i in range(3)])
    await index.upsert("ann", [passage("b", direction(1)), passage("c", direction(1))])
    assert await index.delete("ann", ["a", "b", "unknown", "a"]) == 4
    assert await index.delete("ann", ["a", "b"]) == 0
    assert await index.delete("ann", []) == 0
    assert await index.delete("nobody", ["c"]) == 0
    assert await index.turn_ids("ann") == {"c"}


async def test_another_fingerprint_sees_nothing(make_index: Callable[[str], VectorIndex]) -> None:
    """Vectors of one model are invisible to an index of another, also if the dimensions differ."""
    async with opened(make_index("aaaaaaaaaaaa")) as first, opened(make_index("bbbbbbbbbbbb")) as second:
        await first.upsert("ann", [passage("a", direction(1))])
        assert await second.query(ANN, direction(1), limit=5) == []
        wide = np.zeros(16, dtype=np.float32)
        wide[0] = 1
        await second.upsert("ann", [passage("b", wide)])
        assert [s.turn_id for s in await first.query(ANN, direction(1), limit=5)] == ["a"]


@pytest.mark.parametrize("index_kind", ["chroma-server"])
async def test_vectors_of_former_models_can_be_erased(
    index_kind: str, make_index: Callable[[str], VectorIndex]
) -> None:
    """What another model's index holds of a user is named and deleted with the rest; other users keep theirs."""
    async with opened(make_index("aaaaaaaaaaaa")) as former, opened(make_index("bbbbbbbbbbbb")) as current:
        for user in ("ann", "bob"):
            await former.upsert(user, [passage("a", direction(1)), passage("b", direction(2))])
        await current.upsert("ann", [passage("c", direction(1))])
        assert await current.turn_ids("ann") == {"a", "b", "c"}
        assert await current.turn_ids("ann", searched=True) == {"c"}
        assert await current.delete("ann", ["a", "c"]) == 2
        assert [s.turn_id for s in await former.query(ANN, direction(1), limit=5)] == ["b"]
        assert await former.turn_ids("bob") == {"a", "b"}


async def test_what_was_stored_is_there_after_reopening(index: VectorIndex) -> None:
    """close() and open(), each also twice, lose nothing."""
    await index.upsert("ann", [passage("a", direction(1))])
    await index.close()
    await index.close()
    await index.open()
    await index.open()
    assert [s.turn_id for s in await index.query(ANN, direction(1), limit=5)] == ["a"]


async def test_more_than_fits_one_request_is_stored(index: VectorIndex) -> None:
    """An upsert of thousands of passages, and a delete of as many, work in one call."""
    vectors = unit_vectors(2_500, 8)
    await index.upsert("ann", [passage(f"t{i}", vector) for i, vector in enumerate(vectors)])
    ids = await index.turn_ids("ann")
    assert len(ids) == 2_500
    assert await index.delete("ann", sorted(ids)) == 2_500


async def test_search_agrees_with_the_exact_reference(index: VectorIndex) -> None:
    """Among many users' turns, at least 95 of 100 true neighbours are found, and every similarity is right."""
    vectors = unit_vectors(1_200, 32)
    reference = BruteForceIndex()
    for user in range(6):
        mine = [passage(f"t{i}", vectors[i]) for i in range(user, 1_200, 6)]
        await index.upsert(f"user{user}", mine)
        await reference.upsert(f"user{user}", mine)
    hits = 0
    for number, vector in enumerate(unit_vectors(12, 32, seed=7)):
        scope = Scope(user_id=f"user{number % 6}")
        found = await index.query(scope, vector, limit=20)
        truth = {s.turn_id: s.similarity for s in await reference.query(scope, vector, limit=1_200)}
        best = sorted(truth, key=lambda turn_id: -truth[turn_id])[:20]
        hits += len({s.turn_id for s in found} & set(best))
        assert [s.similarity for s in found] == pytest.approx([truth[s.turn_id] for s in found], abs=1e-4)
    assert hits >= 0.95 * 12 * 20


async def test_calls_at_once_do_not_disturb_each_other(index: VectorIndex) -> None:
    """Many concurrent upserts and queries of several users end as they would one after another."""

    async def one(number: int) -> None:
        user_id = f"user{number % 4}"
        await index.upsert(user_id, [passage(f"t{number}", direction(1, number))])
        found = await index.query(Scope(user_id=user_id), direction(1, number), limit=1)
        assert found[0].similarity == pytest.approx(1.0, abs=1e-5)

    await asyncio.gather(*(one(number) for number in range(24)))
    assert [len(await index.turn_ids(f"user{u}")) for u in range(4)] == [6, 6, 6, 6]


async def test_a_vector_of_another_length_is_refused(index: VectorIndex) -> None:
    """A vector that cannot be of this model is an error of what was given, not an outage."""
    await index.upsert("ann", [passage("a", direction(1))])
    with pytest.raises((VectorIndexError, ValueError)):
        await index.query(ANN, np.ones(3, dtype=np.float32), limit=5)


def unit_vectors(count: int, dimension: int, *, seed: int = 1) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
