"""What every DocumentStore must do to forget facts: with their turns, and with the turns that were in view."""

from dataclasses import replace
from datetime import timedelta

import pytest

from memory_agent.domain import (
    ErasedCounts,
    Erasure,
    ExtractionCost,
    FactEvent,
    FactsDocument,
    RefusedFact,
    Scope,
    Turn,
    new_id,
)
from memory_agent.ports import DocumentStore

from .values import (
    NOW,
    a_change,
    a_draft,
    a_scope,
    an_erasure,
    appended,
    keys_of,
    on_every_server,
    only_turns,
    stored,
)

DAY = timedelta(days=1)
SCOPE = a_scope()
COST = ExtractionCost(turns=1, requests=2, prompt_tokens=2**31, completion_tokens=3)
T2 = a_scope(thread_id="t2")
EVE = a_scope("eve")


async def erased(store: DocumentStore, erasure: Erasure, *, limit: int = 10) -> ErasedCounts:
    """What the erasure took in all, batch by batch until nothing is left."""
    total = ErasedCounts()
    for _ in range(20):
        counts = await store.erase_turns(erasure, now=NOW, limit=limit)
        if counts == ErasedCounts():
            return total
        total += counts
    raise AssertionError("the erasure finds no end")


async def the_turn(store: DocumentStore, turn: Turn) -> Turn:
    """The turn as it is now."""
    [found] = await store.list_turns(a_scope(turn.user_id, turn.thread_id), ids=[turn.id])
    return found


async def with_document(store: DocumentStore, scope: Scope) -> FactsDocument:
    """The thread's document, saved with something in it."""
    expected = (await store.load_facts(scope)).revision
    assert await store.save_facts(
        scope, FactsDocument(people={"user": {"name": "Ada"}}, through=1), expected=expected
    )
    return await store.load_facts(scope)


async def was_reset(store: DocumentStore, scope: Scope, before: FactsDocument) -> bool:
    after = await store.load_facts(scope)
    assert after.revision is not None
    return (after.facts, after.through) == ({}, 0) and after.revision != before.revision


async def test_what_had_a_forgotten_turn_in_view_is_forgotten(store: DocumentStore) -> None:
    """Its change goes and all others of the turn that made it, in every generation and thread; other turns keep theirs.

    What people said stays, unless it was in view. Of a dropped generation nothing is left to find.
    """
    a, b, c = await stored(store, SCOPE, *"abc")
    [elsewhere] = await stored(store, T2, "elsewhere")
    await appended(
        store,
        SCOPE,
        a_change(a.id, key="a", turns=()),  # its own turn counts as seen
        a_change(b.id, key="b saw a", seen=[a.id]),
        a_change(b.id, key="b", generation="g"),
        a_change(c.id, key="c saw b", seen=[b.id]),
        a_change(None, key="edit"),
        a_change(None, key="edit saw a", seen=[a.id]),
        a_change(a.id, key="dropped", generation="dropped"),
    )
    await appended(store, T2, a_change(elsewhere.id, seen=[a.id]))
    before = {scope: await with_document(store, scope) for scope in (SCOPE, T2)}
    assert await store.drop_generation(SCOPE, "dropped") == 1
    counts = await erased(store, an_erasure(SCOPE, [a.id]))
    assert counts == ErasedCounts(turns=1, fact_changes=5)
    assert await keys_of(store, SCOPE.user) == {"c saw b", "edit"}
    for scope, document in before.items():
        assert await was_reset(store, scope, document)
    assert [turn.pending for turn in await store.list_turns(SCOPE)] == [("facts",), ()]
    assert (await the_turn(store, elsewhere)).pending == ("facts",)
    await appended(store, SCOPE, a_change(b.id, key="b"))
    assert [change.seq for change in await store.fact_changes(SCOPE)] == [4, 5, 8]
    # Naming every turn of a thread leaves what people said.
    assert (await erased(store, an_erasure(SCOPE, [b.id, c.id]))).fact_changes == 2
    assert await keys_of(store, SCOPE) == {"edit"}


async def test_what_lost_its_facts_is_due_at_once(store: DocumentStore) -> None:
    """A turn that lost its changes owes facts in its place among the stages, not parked, with no attempts or error."""
    [gone] = await stored(store, SCOPE, "gone")
    draft = a_draft("stays", pending=("index", "compact"))
    [stays] = only_turns(await store.append_turns(SCOPE, [draft]))
    await store.postpone(SCOPE, [stays.id], error="down", due_at=None, counted=True)
    await appended(store, SCOPE, a_change(stays.id, seen=[gone.id]))
    now = NOW + DAY
    await store.erase_turns(an_erasure(SCOPE, [gone.id]), now=now, limit=10)
    owing = await the_turn(store, stays)
    assert (owing.pending, owing.due_at) == (("index", "compact", "facts"), now)
    assert (owing.parked, owing.attempts, owing.last_error) == (False, 0, None)
    await store.strike_off(SCOPE, [stays.id], "index", "compact")
    assert await store.due_threads(now - DAY / 2, "facts", limit=5) == []
    assert await store.due_threads(now, "facts", limit=5) == [SCOPE]


async def test_a_user_in_view_of_what_went_owes_facts_unless_some_are_left(store: DocumentStore) -> None:
    """It may say the same. What has a change of its own, and what no user said, owes nothing."""
    gone, silent, stated, other = await stored(store, SCOPE, "gone", "silent", "stated", "other")
    [reply] = only_turns(await store.append_turns(SCOPE, [replace(a_draft("reply"), role="assistant")]))
    await appended(
        store,
        SCOPE,
        a_change(gone.id, seen=[silent.id, stated.id, reply.id]),
        a_change(stated.id, key="stated", seen=[other.id]),
    )
    await store.erase_turns(an_erasure(SCOPE, [gone.id]), now=NOW, limit=10)
    assert await keys_of(store, SCOPE) == {"stated"}
    assert [turn.content for turn in await store.owed_turns(SCOPE, "facts", limit=5)] == ["silent"]


@pytest.mark.parametrize("whole", [True, False], ids=["thread", "named"])
async def test_what_is_forgotten_as_well_owes_nothing(store: DocumentStore, whole: bool) -> None:
    """Batch by batch, no turn that the same call forgets later is owed facts in between."""
    turns = await stored(store, SCOPE, *"abcd")
    ids = [turn.id for turn in turns]
    for i, turn_id in enumerate(ids):
        await appended(store, SCOPE, a_change(turn_id, key=turn_id, seen=ids[:i]))
    erasure = an_erasure(SCOPE, None if whole else ids[:3])
    await store.erase_turns(erasure, now=NOW, limit=1)
    owing = {turn.content: turn.pending for turn in await store.list_turns(SCOPE)}
    assert owing == {"b": (), "c": (), "d": () if whole else ("facts",)}
    assert await keys_of(store, SCOPE) == set()
    await erased(store, erasure, limit=1)
    assert [turn.content for turn in await store.list_turns(SCOPE)] == ([] if whole else ["d"])


async def test_other_users_views_are_theirs(store: DocumentStore) -> None:
    """Another user's changes, documents and owed work stay, whichever ids theirs name."""
    [gone] = await stored(store, SCOPE, "gone")
    [hers] = await stored(store, EVE, "hers")
    await appended(store, SCOPE, a_change(hers.id, key="mine", seen=[gone.id]))
    kept = await appended(
        store, EVE, a_change(hers.id, seen=[gone.id]), a_change(gone.id), a_change(None), a_change("unknown")
    )
    before = await with_document(store, EVE)
    await erased(store, an_erasure(SCOPE.user))
    await store.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW)
    assert await store.fact_changes(SCOPE.user) == []
    assert await store.fact_changes(EVE) == kept
    assert await store.load_facts(EVE) == before
    assert (await the_turn(store, hers)).pending == ()


@pytest.mark.parametrize("whole", ["thread", "user"])
async def test_edits_go_with_the_whole_scope(store: DocumentStore, whole: str) -> None:
    """All that is older than the call goes, of every kind, also where no turn is left; what is later stays."""
    scope = T2 if whole == "thread" else T2.user
    await stored(store, T2, "a", "b", "c")
    for thread in (SCOPE, T2, EVE):
        await store.add_extraction_cost(thread, COST)
    await appended(
        store,
        T2,
        a_change(None, idempotency_key="$k"),
        a_change(None, kind="replay", generation="g"),
        a_change(None, kind="undo", generation="g"),
    )
    elsewhere = await appended(store, SCOPE, a_change(None))
    documents = {thread: await with_document(store, thread) for thread in (SCOPE, T2)}
    hers = await appended(store, EVE, a_change(None))
    erasure = an_erasure(scope)
    later = new_id()
    await appended(store, T2, a_change(None, key=erasure.before_id), a_change(None, key=later))
    counts = await erased(store, erasure, limit=2)
    assert (counts.turns, counts.fact_changes) == (3, 3 if whole == "thread" else 4)
    assert await keys_of(store, T2) == {erasure.before_id, later}
    assert await was_reset(store, T2, documents[T2])
    assert await store.fact_changes(SCOPE) == (elsewhere if whole == "thread" else [])
    assert await was_reset(store, SCOPE, documents[SCOPE]) == (whole == "user")
    assert await store.fact_changes(EVE) == hers
    await check_remains(store)
    # Where there never was a turn they are found and counted as well, and their numbers stay taken.
    erasure = an_erasure(EVE)
    for expected in (ErasedCounts(fact_changes=1), ErasedCounts()):
        assert await store.erase_turns(erasure, now=NOW, limit=10) == expected
    assert not await store.save_facts(EVE, FactsDocument(people={"user": {"a": 1}}, through=2), expected=None)
    assert [change.seq for change in await appended(store, EVE, a_change(None))] == [2]


@on_every_server
async def test_sweeps_what_a_late_worker_saw(store: DocumentStore) -> None:
    """A change made with a turn in view that was forgotten meanwhile goes, with its turn's others, and is owed again."""
    gone, stays, other = await stored(store, SCOPE, "gone", "stays", "other")
    [elsewhere] = await stored(store, T2, "elsewhere")
    await erased(store, an_erasure(SCOPE, [gone.id]))
    await appended(
        store,
        SCOPE,
        a_change(stays.id, key="late", seen=[gone.id]),
        a_change(gone.id, key="of it", turns=()),
        a_change(stays.id, key="its other", generation="g"),
        a_change(other.id, key="other", seen=[stays.id]),
        a_change(None, key="edit"),
        a_change(None, key="edit of it", seen=[gone.id]),
    )
    await appended(store, T2, a_change(elsewhere.id, key="elsewhere"))
    before = await with_document(store, SCOPE)
    now = NOW + DAY
    assert await store.sweep_orphans(T2, stubs_before=NOW, now=now) == ErasedCounts(fact_changes=4)
    assert await keys_of(store, SCOPE.user) == {"other", "edit", "elsewhere"}
    assert await was_reset(store, SCOPE, before)
    owing = await the_turn(store, stays)
    assert (owing.pending, owing.due_at) == (("facts",), now)
    assert [(await the_turn(store, turn)).pending for turn in (other, elsewhere)] == [(), ()]
    assert await store.sweep_orphans(SCOPE, stubs_before=NOW, now=now) == ErasedCounts()
    assert [change.seq for change in await appended(store, SCOPE, a_change(stays.id))] == [7]


async def test_many_changes_go_at_once(store: DocumentStore) -> None:
    """More turns and views than one query holds are forgotten whole."""
    turns = []
    for _ in range(3):
        turns += await stored(store, SCOPE, *(f"{i}" for i in range(400)))
    ids = [turn.id for turn in turns]
    for i in range(0, len(ids), 40):
        await store.append_fact_change(SCOPE, a_change(ids[i], seen=ids[max(0, i - 300) : i]))
    await store.append_fact_change(SCOPE, a_change(new_id(), key="orphan", seen=ids))
    assert (await erased(store, an_erasure(SCOPE), limit=500)).fact_changes == 31
    assert await store.fact_changes(SCOPE) == []


async def check_remains(store: DocumentStore) -> None:
    """The idempotency keys of erased edits are spent, and costs stay, until the user's remains are erased.

    Costs also stay then of threads with turns, and other users'.
    """
    assert await store.key_spent(T2, "edit", "$k")
    for scope, kind, key in ((T2, "session", "$k"), (T2, "edit", "new"), (SCOPE, "edit", "$k")):
        assert not await store.key_spent(scope, kind, key)  # type: ignore[arg-type]
    await stored(store, SCOPE, "there")
    assert (await store.status(T2, now=NOW)).extraction == COST
    await store.erase_remains(SCOPE.user, before_id=new_id())
    assert not await store.key_spent(T2, "edit", "$k")
    for asked, times in ((T2, 0), (SCOPE.user, 1), (None, 2)):
        cost = (await store.status(asked, now=NOW)).extraction
        assert cost == sum([COST] * times, ExtractionCost())


# --- facts that stay -----------------------------------------------------------------------------------------
async def test_facts_go_on_without_the_words_of_their_turns(store: DocumentStore) -> None:
    """Where an erasure keeps them: no change names or quotes the turn, none goes, and caches elsewhere are void."""
    gone, stays = await stored(store, SCOPE, "I am Ada", "I like tea")
    [elsewhere] = await stored(store, T2, "Ada is my name")
    quoted = FactEvent(op="set", path=("name",), value="Ada", quote="I am Ada")
    refused = (RefusedFact(path="x", said="I am Ada", quote="I am Ada", reason="why"),)
    before = {
        SCOPE: [
            a_change(gone.id, events=(quoted,), refused=refused),
            a_change(stays.id, seen=[gone.id], events=(quoted,), refused=refused),
            a_change(None),
        ],
        T2: [a_change(elsewhere.id, seen=[gone.id], refused=refused), a_change(elsewhere.id, key="other")],
        EVE: [a_change("of eve", refused=refused)],
    }
    for scope, changes in before.items():
        for change in changes:
            assert await store.append_fact_change(scope, change)
    document = await with_document(store, SCOPE)
    erasure = replace(an_erasure(SCOPE, [gone.id]), keeps_facts=True)
    await store.put_erasure(erasure)
    assert await store.due_erasures(NOW, limit=5) == [erasure]
    assert (await erased(store, erasure)).fact_changes == 0
    for scope, changes in before.items():
        after = await store.fact_changes(scope)
        expected = [replace(change, seq=1 + at) for at, change in enumerate(changes)]
        touched = [gone.id in change.turns for change in changes]
        assert after == [
            replace(change.without([gone.id]) if mine else change, thread_id=str(scope.thread_id))
            for change, mine in zip(expected, touched, strict=True)
        ]
    [first, second, _] = await store.fact_changes(SCOPE)
    assert (first.turn_id, first.turns, first.events[0].quote, first.refused) == (None, (), None, ())
    assert (second.turn_id, second.turns, second.events[0].quote) == (stays.id, (stays.id,), "I am Ada")
    assert await store.load_facts(SCOPE) == document
    heads = await store.fact_heads(SCOPE.user)
    assert {thread: head[:2] for thread, head in heads.items()} == {"t1": (3, 3), "t2": (2, 2)}
    assert min(head[2] for head in heads.values()) > 0
    assert (await store.fact_heads(EVE))["t1"] == (1, 1, 0)
    assert [turn.pending for turn in await store.list_turns(SCOPE.user)] == [(), ()]
    # The last pass finds nothing that would be of a turn which is gone, and the thread goes with all of it.
    await store.sweep_orphans(SCOPE, stubs_before=NOW + DAY, now=NOW + DAY)
    assert len(await store.fact_changes(SCOPE)) == 3
    await erased(store, an_erasure(SCOPE))
    assert await store.fact_changes(SCOPE) == []
