"""What every WorkStore must do with owed work and leases. Turns, which owe it, come from a TurnStore."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from memory_agent.domain import STAGES, Lease, Outage, Scope, Stage, Tenant, outage_name, stored_at
from memory_agent.ports import DocumentStore

from .values import NOW, OpenStore, a_call, a_scope, on_every_server, stored

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
SCOPE = a_scope()
T2 = a_scope(thread_id="t2")
EVE = a_scope("eve")


async def test_longest_due_threads_come_first(store: DocumentStore) -> None:
    """Due threads come by the time since when, each once, up to the limit, whoever's they are."""
    scopes = [a_scope("ada", "t1"), a_scope("eve", "t1"), a_scope("ada", "t2")]
    for i, scope in enumerate(scopes):
        turns = await stored(store, scope, "a", "b", pending=("index",))
        due_at = NOW - DAY * (i + 1)
        await store.postpone(scope, [turns[1].id], error="e", due_at=due_at, counted=True)
        await store.postpone(scope, [turns[0].id], error="e", due_at=NOW, counted=True)
    assert await store.due_threads(NOW, "index", limit=10) == scopes[::-1]
    assert await store.due_threads(NOW, "index", limit=2) == scopes[:0:-1]
    assert await store.due_threads(NOW - DAY * 2, "index", limit=10) == scopes[:0:-1]


async def test_users_take_turns(store: DocumentStore) -> None:
    """However many threads of one user are due for longer, each user's first comes before anybody's second."""
    many = [a_scope("ada", f"t{n}") for n in range(4)]
    for days, scope in enumerate([*many[::-1], EVE, a_scope("bob")]):
        [turn] = await stored(store, scope, "a", pending=("index",))
        await store.postpone(scope, [turn.id], error="e", due_at=NOW - DAY * (9 - days), counted=True)
    due = await store.due_threads(NOW, "index", limit=10)
    assert due == [many[3], EVE, a_scope("bob"), *many[2::-1]]
    assert await store.due_threads(NOW, "index", limit=3) == due[:3]


async def test_tells_whether_more_is_owed(store: DocumentStore) -> None:
    """Turns of everybody that owe any stage count, each once; parked ones don't."""
    turns = await stored(store, SCOPE, "a", "b", pending=("index", "facts"))
    await stored(store, EVE, "c", pending=("facts",))
    await stored(store, EVE, "owes nothing")
    assert [await store.owes_more_than(count) for count in (0, 2, 3)] == [True, True, False]
    await store.postpone(SCOPE, [turns[0].id], error="e", due_at=None, counted=True)
    await store.strike_off(SCOPE, [turns[1].id], "index")
    assert [await store.owes_more_than(count) for count in (1, 2)] == [True, False]


@on_every_server
async def test_a_long_backlog_hides_no_other_thread(store: DocumentStore) -> None:
    """A thread that owes thousands of turns doesn't keep others from being found; of those due alike, by user and thread."""
    other = a_scope("eve")
    await stored(store, other, "a", pending=("index",))
    await store.append_turns(SCOPE, a_call(*["x"] * 2_500, pending=("index",)))
    assert await store.due_threads(NOW, "index", limit=10) == [SCOPE, other]


async def test_threads_are_due_for_the_stage_that_comes_next(store: DocumentStore) -> None:
    """As soon as its turns are stored a thread is due for the first stage, for each later one once that is struck off."""
    await stored(store, T2, "owes nothing")
    [turn] = await stored(store, SCOPE, "a", pending=STAGES)
    assert turn.pending == ("index", "topics", "compact", "compress", "facts", "reextract")
    for i, stage in enumerate(STAGES):
        due = [await store.due_threads(NOW, later, limit=5) for later in STAGES]
        assert due == [[SCOPE] if later == stage else [] for later in STAGES]
        assert await store.due_threads(NOW - DAY, stage, limit=5) == []
        assert (await store.list_turns(SCOPE))[0].pending == STAGES[i:]
        assert [owed.id for owed in await store.owed_turns(SCOPE, STAGES[-1], limit=5)] == [turn.id]
        await store.strike_off(SCOPE, [turn.id], stage)
    assert (await store.list_turns(SCOPE))[0].pending == ()


async def test_the_order_in_which_stages_were_written_does_not_count(store: DocumentStore) -> None:
    """The order they run in does: it was another in earlier versions, whose turns may still be pending."""
    [turn] = await stored(store, SCOPE, "a", pending=("reextract", "facts", "compress", "compact"))
    for stage in ("compact", "compress", "facts", "reextract"):
        assert (await store.list_turns(SCOPE))[0].pending[0] == stage
        due = [later for later in STAGES if await store.due_threads(NOW, later, limit=5)]
        assert due == [stage]
        await store.strike_off(SCOPE, [turn.id], stage)


@on_every_server
async def test_finds_what_is_owed(store: DocumentStore) -> None:
    """Owed turns come by stage: of a thread by number, of a user by id, the lowest or the newest first."""
    both = await stored(store, SCOPE, "a", "b", pending=("index", "facts"))
    facts = await stored(store, a_scope(thread_id="t2"), "c", pending=("facts",))
    await stored(store, a_scope("eve"), "d", pending=("index", "facts"))
    await store.postpone(SCOPE, [both[0].id], error="e", due_at=None, counted=True)
    await store.postpone(SCOPE, [both[1].id], error="e", due_at=NOW + DAY, counted=True)

    async def owed(scope: Scope, stage: str, **options: bool) -> list[str]:
        found = await store.owed_turns(scope, stage, limit=10, **options)  # type: ignore[arg-type]
        return [turn.content for turn in found]

    assert await owed(SCOPE, "index") == ["a", "b"]
    assert await owed(SCOPE, "index", newest=True) == ["b", "a"]
    assert await owed(SCOPE.user, "index") == ["a", "b"]
    assert await owed(SCOPE.user, "facts", newest=True) == ["c", "b", "a"]
    assert await owed(SCOPE, "index", parked=False) == ["b"]
    assert await owed(a_scope(thread_id="t2"), "index") == []
    assert [turn.id for turn in await store.owed_turns(SCOPE, "facts", limit=1)] == [both[0].id]
    assert [turn.id for turn in await store.owed_turns(SCOPE.user, "facts", limit=1, newest=True)] == [
        facts[0].id
    ]


@pytest.mark.parametrize("count", [3, 40])
async def test_finds_what_owes_any_stage(store: DocumentStore, count: int) -> None:
    """Whichever it is: of a thread by number, of a user by id, the lowest or the newest first."""
    pending: list[Stage] = ["index", "facts", "compress"]
    turns = [(await stored(store, SCOPE, str(n), pending=(pending[n % 3],)))[0].id for n in range(count)]
    await stored(store, a_scope("eve"), "another's", pending=("facts",))

    async def owed(scope: Scope, limit: int, **options: bool) -> list[str]:
        return [turn.id for turn in await store.owed_turns(scope, None, limit=limit, **options)]

    for scope in (SCOPE, SCOPE.user):
        assert await owed(scope, 2) == turns[:2]
        assert await owed(scope, 2, newest=True) == turns[:-3:-1]
        assert await owed(scope, count + 1) == turns
    await store.postpone(SCOPE, turns[:1], error="e", due_at=None, counted=True)
    assert await owed(SCOPE, 1, parked=False) == turns[1:2]


async def test_strikes_off(store: DocumentStore) -> None:
    """A struck stage is owed no more, attempts and error are forgotten, and a repeat changes nothing."""
    [turn] = await stored(store, SCOPE, "a", pending=("index", "facts"))
    await store.postpone(SCOPE, [turn.id], error="down", due_at=NOW, counted=True)
    await store.strike_off(SCOPE, [turn.id], "topics")  # which it does not owe
    [left] = await store.list_turns(SCOPE)
    assert (left.attempts, left.last_error) == (1, "down")
    for _ in range(2):
        await store.strike_off(SCOPE, [turn.id, "forgotten"], "index")
        [left] = await store.list_turns(SCOPE)
        assert (left.pending, left.attempts, left.last_error) == (("facts",), 0, None)
        assert left.due_at == NOW
    await store.strike_off(SCOPE, [turn.id], "facts")
    [left] = await store.list_turns(SCOPE)
    assert (left.pending, left.due_at, left.parked) == ((), None, False)
    assert await store.due_threads(NOW, "index", limit=10) == []


async def test_postpones(store: DocumentStore) -> None:
    """A failed stage is due again at its time, with the error kept and the attempt counted if it counts."""
    owing = await stored(store, SCOPE, "a", "b", pending=("index",))
    [free] = await stored(store, SCOPE, "c")
    ids = [owing[0].id, owing[1].id, free.id]
    await store.postpone(SCOPE, ids, error="first", due_at=NOW + DAY, counted=True)
    await store.postpone(SCOPE, ids, error="second", due_at=NOW + DAY, counted=False)
    turns = await store.list_turns(SCOPE)
    assert [(turn.attempts, turn.last_error, turn.due_at) for turn in turns] == [
        (1, "second", NOW + DAY),
        (1, "second", NOW + DAY),
        (0, None, None),
    ]
    assert await store.due_threads(NOW, "index", limit=10) == []
    assert await store.due_threads(NOW + DAY, "index", limit=10) == [SCOPE]


@on_every_server
async def test_parks_and_retries(store: DocumentStore) -> None:
    """A parked turn is never due until it is retried, and then with no attempts counted."""
    [turn] = await stored(store, SCOPE, "a", pending=("index",))
    [foreign] = await stored(store, a_scope("eve"), "b", pending=("index",))
    for scope, parked in ((SCOPE, turn), (a_scope("eve"), foreign)):
        await store.postpone(scope, [parked.id], error="broken", due_at=None, counted=True)
    assert await store.due_threads(NOW + DAY, "index", limit=10) == []
    [parked_turn] = await store.list_turns(SCOPE)
    assert (parked_turn.parked, parked_turn.attempts, parked_turn.due_at) == (True, 1, None)
    assert await store.retry_parked(SCOPE, now=NOW) == 1
    assert await store.retry_parked(SCOPE.user, now=NOW) == 0
    [again] = await store.list_turns(SCOPE)
    assert (again.parked, again.attempts, again.due_at, again.last_error) == (False, 0, NOW, "broken")
    assert await store.due_threads(NOW, "index", limit=10) == [SCOPE]
    assert await store.retry_parked(None, now=NOW) == 1
    # One that owes nothing more is not parked; one that owes another stage still is.
    await store.owe(SCOPE, "facts", now=NOW)
    await store.postpone(SCOPE, [turn.id], error="broken", due_at=None, counted=True)
    for stage, parked_count in (("index", 1), ("facts", 0)):
        await store.strike_off(SCOPE, [turn.id], stage)  # type: ignore[arg-type]
        assert (await store.status(SCOPE, now=NOW)).parked_count == parked_count


async def test_status_tells_how_the_scope_stands(store: DocumentStore) -> None:
    """Counts are of the scope, of the user, or of everybody."""
    turns = await stored(store, SCOPE, "a", "b", pending=("index", "facts"))
    await stored(store, a_scope(thread_id="t2"), "d", pending=("facts",))
    await stored(store, a_scope("eve"), "e")
    await store.postpone(SCOPE, [turns[0].id], error="broken", due_at=None, counted=True)
    now = stored_at(turns[1].id) + timedelta(seconds=7)

    thread = await store.status(SCOPE, now=now)
    nothing = dict.fromkeys(STAGES, 0)
    assert (thread.turns, thread.pending, thread.owed_count) == (2, {**nothing, "index": 2, "facts": 2}, 2)
    assert (thread.parked_count, thread.lag_seconds, thread.erasures) == (1, 7.0, 0)
    [parked] = thread.parked
    assert (parked.turn_id, parked.scope, parked.pending) == (turns[0].id, SCOPE, ("index", "facts"))
    assert (parked.attempts, parked.last_error) == (1, "broken")
    user = await store.status(SCOPE.user, now=now)
    assert (user.turns, user.pending, user.owed_count) == (3, {**nothing, "index": 2, "facts": 3}, 3)
    # Each stage has its count, whether or not something is owed.
    await store.strike_off(SCOPE, [turns[1].id], "index")
    assert dict((await store.status(SCOPE, now=now)).pending) == {**nothing, "index": 1, "facts": 2}
    everybody = await store.status(None, now=now)
    assert (everybody.turns, everybody.owed_count, everybody.erasures) == (4, 3, 0)
    nobody = await store.status(a_scope("new"), now=now)
    assert (nobody.turns, nobody.pending, nobody.lag_seconds) == (0, nothing, 0.0)


async def test_a_tenants_work_is_counted_and_tried_again_apart_from_every_others(
    store: DocumentStore,
) -> None:
    """Those of `default` have no name in front, and the others' ids lie among them."""
    scopes = [
        Scope.of(user, "t", tenant=tenant)
        for tenant, user in (("default", "ada"), ("acme", "ada"), ("acmes", "z"), ("default", "b"))
    ]
    for scope in scopes:
        turns = await stored(store, scope, "a", "b", pending=("index",))
        await store.postpone(scope, [turns[0].id], error="broken", due_at=None, counted=True)
    for name, count in (("default", 2), ("acme", 1), ("nobody", 0)):
        status = await store.status(Tenant(name=name), now=NOW)
        assert (status.turns, status.owed_count, status.parked_count) == (2 * count, 2 * count, count)
        assert {turn.scope.tenant for turn in status.parked} <= {name}
    assert await store.retry_parked(Tenant(name="acme"), now=NOW) == 1
    assert await store.retry_parked(Tenant(name="default"), now=NOW) == 2
    assert (await store.status(None, now=NOW)).parked_count == 1


@on_every_server
async def test_some_turns_can_owe_a_stage_again(store: DocumentStore) -> None:
    """owe with ids concerns these turns of the scope only, and brings parked ones back."""
    turns = await stored(store, SCOPE, "a", "b", "c", pending=("facts",))
    [elsewhere] = await stored(store, T2, "elsewhere")
    [foreign] = await stored(store, EVE, "foreign")
    await store.postpone(SCOPE, [turns[0].id, turns[1].id], error="broken", due_at=None, counted=True)
    ids = [turns[0].id, turns[2].id, elsewhere.id, foreign.id, "unknown"]
    assert await store.owe(SCOPE, "compact", now=NOW, turn_ids=ids) == 2
    a, b, c = await store.list_turns(SCOPE)
    for turn in (a, c):
        assert (turn.pending, turn.parked, turn.due_at) == (("compact", "facts"), False, NOW)
    assert (b.pending, b.parked) == (("facts",), True)
    assert (a.attempts, a.last_error) == (0, None)
    assert await store.owe(SCOPE, "index", now=NOW, turn_ids=[]) == 0
    assert await store.owe(SCOPE.user, "topics", now=NOW, turn_ids=ids) == 3
    assert await store.list_turns(EVE) == [foreign]
    assert await store.owe(SCOPE, "index", now=NOW, turn_ids=None) == 3
    for turn in await store.list_turns(SCOPE):
        # In the order that stages run, whenever they came to be owed.
        assert (turn.pending[:2], turn.parked, turn.due_at) == (
            ("index", "topics"),
            False,
            NOW,
        ) or turn.id == b.id
    assert await store.due_threads(NOW, "index", limit=10) == [SCOPE]


async def test_status_tells_outages_that_are_waited_for(store: DocumentStore) -> None:
    """Those kept as leases, run out or not, of stages that turns of the scope owe; in the order of the stages."""
    await stored(store, SCOPE, "a", pending=("index", "facts"))
    await stored(store, EVE, "b", pending=("index",))
    since = {"facts": NOW - DAY, "index": NOW, "topics": NOW}
    for stage, now in since.items():
        await store.acquire_leases(
            [f"outage:{stage}"], "any", now=now, until=now + SECOND, note="llm\nno answer"
        )

    async def told(scope: Scope | None) -> list[Outage]:
        return list((await store.status(scope, now=NOW + DAY)).outages)

    index = Outage(stage="index", part="llm", since=NOW, error="no answer")
    assert await told(SCOPE) == [index, replace(index, stage="facts", since=NOW - DAY)]
    assert await told(EVE.user) == [index]
    assert await told(None) == await told(SCOPE)
    assert await told(T2) == []


# --- leases --------------------------------------------------------------------------------------------------


@on_every_server
async def test_a_lease_has_one_holder(open_store: OpenStore) -> None:
    """Of many that ask at once exactly one gets it, and can renew it; the others cannot."""
    stores = [await open_store(), await open_store()]
    until = NOW + timedelta(seconds=60)
    got = await asyncio.gather(
        *(stores[i % 2].acquire_leases(["thread:x"], f"h{i}", now=NOW, until=until) for i in range(20))
    )
    assert sum(map(len, got)) == 1
    holder = f"h{got.index({'thread:x'})}"
    assert await stores[0].acquire_leases(["thread:x"], holder, now=NOW, until=until)
    assert not await stores[1].acquire_leases(["thread:x"], "late", now=NOW, until=until)
    assert await stores[1].acquire_leases(["thread:y"], "late", now=NOW, until=until)
    # At its end it is free, and again exactly one of many takes it.
    early = until - timedelta(milliseconds=1)
    assert not await stores[0].acquire_leases(["thread:x"], "other", now=early, until=until + DAY)
    got = await asyncio.gather(
        *(
            stores[i % 2].acquire_leases(["thread:x"], f"g{i}", now=until, until=until + DAY)
            for i in range(10)
        )
    )
    assert sum(map(len, got)) == 1


@on_every_server
async def test_many_leases_are_taken_and_given_back_together(open_store: OpenStore) -> None:
    """Those that another holder has are left to it, and the rest taken; a repeat renews them."""
    one, other = await open_store(), await open_store()
    until = NOW + DAY
    assert await other.acquire_leases(["b"], "other", now=NOW, until=until)
    for _ in range(2):
        assert await one.acquire_leases(["a", "b", "c"], "me", now=NOW, until=until) == {"a", "c"}
    assert await one.acquire_leases([], "me", now=NOW, until=until) == set()
    assert await other.acquire_leases(["a", "b"], "other", now=NOW, until=until) == {"b"}
    await one.release_leases(["a", "b", "c", "d"], "me")
    assert await other.acquire_leases(["a", "b", "c"], "other", now=NOW, until=until) == {"a", "b", "c"}


async def test_several_stages_are_struck_off_together(store: DocumentStore) -> None:
    """Of each turn those that it owes; one that owes nothing more is due no longer. Turns are listed by any stage too."""
    turns = await stored(store, SCOPE, "a", "b", pending=("topics", "facts", "compact"))
    await store.strike_off(SCOPE, [turns[0].id], "facts")
    await store.strike_off(SCOPE, [turn.id for turn in turns], "topics", "facts")
    owed = await store.owed_turns(SCOPE, None, limit=9)
    assert [turn.pending for turn in owed] == [("compact",)] * 2
    await store.strike_off(SCOPE, [turns[0].id], "compact", "compress")
    assert [turn.id for turn in await store.owed_turns(SCOPE, None, limit=9)] == [turns[1].id]
    assert await store.due_threads(NOW, "compact", limit=9) == [SCOPE]
    assert (await store.status(SCOPE, now=NOW)).owed_count == 1


@on_every_server
async def test_leases_that_run_are_listed_by_name_without_those_of_outages(store: DocumentStore) -> None:
    later = NOW + DAY
    await store.acquire_leases(["c", "a", outage_name("index")], "me", now=NOW, until=later, note="x")
    await store.acquire_leases(["b"], "other", now=NOW, until=NOW + SECOND)
    assert [lease.name for lease in await store.held_leases(NOW, limit=2)] == ["a", "b"]
    assert [lease.name for lease in await store.held_leases(NOW + SECOND, limit=9)] == ["a", "c"]
    held = Lease(name="a", holder="me", since=NOW, until=later, note="x")
    assert (await store.held_leases(NOW, limit=1), await store.held_leases(NOW, limit=0)) == ([held], [])


async def test_a_lease_tells_who_has_it_since_when(store: DocumentStore) -> None:
    """`since` stays while it is renewed, `note` is replaced each time, and both are given back as stored."""
    until = NOW + DAY
    assert await store.load_lease("sweep") is None
    assert await store.acquire_leases(["sweep"], "a", now=NOW, until=until)
    assert await store.load_lease("sweep") == Lease(name="sweep", holder="a", since=NOW, until=until)
    for note in ("page 3 é\n$x", "", None):
        later = until + SECOND
        assert await store.acquire_leases(["sweep"], "a", now=NOW + SECOND, until=later, note=note)
        lease = Lease(name="sweep", holder="a", since=NOW, until=later, note=note)
        assert await store.load_lease("sweep") == lease
    assert not await store.acquire_leases(["sweep"], "b", now=NOW, until=until, note="mine")
    assert await store.load_lease("sweep") == lease
    assert await store.load_lease("other") is None
    await store.release_leases(["sweep"], "b")
    assert await store.load_lease("sweep") == lease
    # One that ran out can be read, and counts anew once it is taken, also by the same holder.
    assert await store.acquire_leases(["sweep"], "a", now=until + SECOND, until=until + DAY, note="page 4")
    again = Lease(name="sweep", holder="a", since=until + SECOND, until=until + DAY, note="page 4")
    assert await store.load_lease("sweep") == again
    assert await store.acquire_leases(["sweep"], "b", now=until + DAY, until=until + DAY * 2)
    assert await store.load_lease("sweep") == Lease(
        name="sweep", holder="b", since=until + DAY, until=until + DAY * 2
    )
    await store.release_leases(["sweep"], "a")
    assert not await store.acquire_leases(["sweep"], "a", now=until + DAY, until=until + DAY * 2)
    for _ in range(2):
        await store.release_leases(["sweep"], "b")
        assert await store.load_lease("sweep") is None
    assert await store.acquire_leases(["sweep"], "a", now=NOW, until=until)


async def test_what_a_clock_that_was_ahead_put_off_is_brought_back(store: DocumentStore) -> None:
    """Turns and leases beyond a time; what is due or runs out before it is left alone, and so are outages."""
    near, far = await stored(store, SCOPE, "a", "b", pending=("facts",))
    for turn, due in ((near, NOW + timedelta(minutes=5)), (far, NOW + timedelta(days=30))):
        await store.postpone(SCOPE, [turn.id], error="down", due_at=due, counted=True)
    for name, hours in (("near", 1), ("far", 720), (outage_name("facts"), 720)):
        await store.acquire_leases([name], "one", now=NOW, until=NOW + timedelta(hours=hours), note="far")
    assert await store.bring_back(now=NOW, beyond=NOW + timedelta(hours=2)) == 2
    assert await store.bring_back(now=NOW, beyond=NOW + timedelta(hours=2)) == 0
    dues = {turn.id: turn.due_at for turn in await store.owed_turns(SCOPE, None, limit=9)}
    assert dues == {near.id: NOW + timedelta(minutes=5), far.id: NOW}
    until = NOW + timedelta(hours=1)
    assert await store.acquire_leases(["near", "far"], "other", now=NOW, until=until) == {"far"}
    outage = await store.load_lease(outage_name("facts"))
    assert outage is not None
    assert outage.until == NOW + timedelta(hours=720)
