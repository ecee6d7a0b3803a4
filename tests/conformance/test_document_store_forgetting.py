"""What every DocumentStore must do to forget, and that no read crosses a scope."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_agent.domain import (
    ErasedCounts,
    FactsDocument,
    PackedSize,
    Scope,
    Tombstone,
    Turn,
    TurnFeatures,
    new_id,
)
from memory_agent.ports import DocumentStore
from tests import profiles

from .values import (
    NOW,
    OpenStore,
    a_call,
    a_change,
    a_compression,
    a_row,
    a_scope,
    a_session,
    a_topic,
    an_erasure,
    bytes_of,
    on_every_server,
    put_large,
    stored,
)

DAY = timedelta(days=1)
SCOPE = a_scope()
T2 = a_scope(thread_id="t2")


async def remembered(store: DocumentStore, scope: Scope, *contents: str, **call: Any) -> list[Turn]:
    """Turns with a search row and a fact change each, and a saved facts document."""
    turns = await stored(store, scope, *contents, **call)
    row: dict[str, Any] = {"session_id": "s", "speaker": "Zoë", "signs": TurnFeatures(counts=True)}
    terms = {"sea": 2, "@a:x": 1}
    rows = [a_row(turn.id, scope=scope, seq=turn.seq, terms=terms, tokens=b"tokens", **row) for turn in turns]
    await put_large(store, scope.user_id, rows)
    for turn in turns:
        await store.append_fact_change(scope, a_change(turn.id, key=turn.id))
    document = await store.load_facts(scope)
    saved = FactsDocument(people={"user": {"name": "Ada"}}, through=len(turns))
    assert await store.save_facts(scope, saved, expected=document.revision)
    return turns


@on_every_server
async def test_erasures_are_owed_work(store: DocumentStore) -> None:
    """Erasures come back when due, longest due first; putting one again replaces it, ending it removes it."""
    late = replace(an_erasure(SCOPE, ["a", "$b"]), due_at=NOW)
    early = replace(an_erasure(SCOPE.user), due_at=NOW - DAY)
    for erasure in (late, early):
        await store.put_erasure(erasure)
    # A user's concern each of the user's threads.
    for scope, count in ((a_scope(), 2), (T2, 1), (SCOPE.user, 2), (None, 2), (a_scope("eve"), 0)):
        assert (await store.status(scope, now=NOW)).erasures == count
    assert await store.due_erasures(NOW, limit=10) == [early, late]
    assert await store.due_erasures(NOW, limit=1) == [early]
    assert await store.due_erasures(NOW - DAY * 2, limit=10) == []
    swept = replace(early, due_at=NOW + DAY, swept=True)
    await store.put_erasure(swept)
    assert await store.due_erasures(NOW, limit=10) == [late]
    assert await store.due_erasures(NOW + DAY, limit=10) == [late, swept]
    for _ in range(2):
        await store.end_erasure(late)
    assert await store.due_erasures(NOW + DAY, limit=10) == [swept]


async def test_erases_named_turns_with_all_derived(store: DocumentStore) -> None:
    """The turns, their rows, changes and the thread's document go; everything else stays as it was."""
    gone, kept = await remembered(store, SCOPE, "gone", "kept")
    [elsewhere] = await remembered(store, a_scope(thread_id="t2"), "elsewhere")
    [foreign] = await remembered(store, a_scope("eve"), "foreign")
    before = await store.load_facts(SCOPE)
    head = await store.index_head("ada")
    erasure = an_erasure(SCOPE, [gone.id, elsewhere.id, foreign.id, "unknown"])

    counts = await store.erase_turns(erasure, now=NOW + DAY, limit=10)

    assert counts == ErasedCounts(turns=1, search_rows=1, fact_changes=1)
    assert await store.list_turns(SCOPE.user) == [kept, elsewhere]
    assert await store.list_turns(a_scope("eve")) == [foreign]
    [stub] = await store.search_rows("ada", after=head)
    assert (stub.turn_id, stub.thread_id, stub.erased) == (gone.id, "t1", True)
    assert (stub.terms, stub.length, stub.vectors.shape[0]) == ({}, 0, 0)
    assert (stub.session_id, stub.speaker, stub.signs) == (None, None, TurnFeatures())
    tokens = await store.token_codes("ada", [gone.id, kept.id], embedder=a_row().embedder)
    assert tokens == {kept.id: b"tokens"}
    assert [change.turn_id for change in await store.fact_changes(SCOPE)] == [kept.id]
    after = await store.load_facts(SCOPE)
    assert (after.facts, after.through) == ({}, 0)
    assert after.revision not in (None, before.revision)
    for scope in (a_scope(thread_id="t2"), a_scope("eve")):
        assert (await store.load_facts(scope)).facts == {"name": "Ada"}
    [entity] = await store.entity_counts(SCOPE)
    assert (entity.count, entity.first_turn_id) == (1, kept.id)
    assert await store.erase_turns(erasure, now=NOW + DAY, limit=10) == ErasedCounts()
    # Later changes are numbered above, and only stubs of before the given time are swept.
    await store.erase_turns(an_erasure(SCOPE), now=NOW + DAY * 2, limit=10)
    await store.append_fact_change(SCOPE, a_change())
    assert [change.seq for change in await store.fact_changes(SCOPE)] == [3]
    assert await store.entity_counts(SCOPE) == []
    await store.sweep_orphans(SCOPE, stubs_before=NOW + DAY * 2, now=NOW + DAY * 3)
    rows = {row.turn_id: row.erased for row in await store.search_rows("ada")}
    assert rows == {kept.id: True, elsewhere.id: False}


async def test_erases_a_thread_and_a_user_up_to_a_moment(store: DocumentStore) -> None:
    """Without ids everything of the scope that is older than the call goes, batch by batch, and nothing else."""
    await remembered(store, SCOPE, *"abc")
    [other] = await remembered(store, a_scope(thread_id="t2"), "other")
    [foreign] = await remembered(store, a_scope("eve"), "foreign")
    thread, user = an_erasure(SCOPE), an_erasure(SCOPE.user)
    [later] = await stored(store, SCOPE, "after the call")
    batches = [await store.erase_turns(thread, now=NOW, limit=2) for _ in range(3)]
    assert [counts.turns for counts in batches] == [2, 1, 0]
    assert await store.list_turns(SCOPE.user) == [other, later]
    assert (await store.erase_turns(user, now=NOW, limit=10)).turns == 1
    assert await store.list_turns(SCOPE.user) == [later]
    assert await store.list_turns(a_scope("eve")) == [foreign]


async def test_a_fold_from_before_cannot_be_saved(store: DocumentStore) -> None:
    """Who read the facts before an erasure cannot save them after it, with or without a document then."""
    for thread_id, has_document in (("with", True), ("without", False)):
        scope = a_scope(thread_id=thread_id)
        [turn] = await stored(store, scope, "a")
        await store.append_fact_change(scope, a_change(turn.id))
        if has_document:
            assert await store.save_facts(scope, FactsDocument(people={"user": {"a": 1}}), expected=None)
        revision = (await store.load_facts(scope)).revision
        await store.erase_turns(an_erasure(scope), now=NOW, limit=10)
        stale = FactsDocument(people={"user": {"name": "Ada"}}, through=1)
        assert not await store.save_facts(scope, stale, expected=revision)


async def test_forgotten_turns_owe_nothing(store: DocumentStore) -> None:
    """No forgotten turn is due, owed, parked or counted, and work on it is passed over."""
    [turn] = await stored(store, SCOPE, "a", pending=("index",))
    await store.erase_turns(an_erasure(SCOPE), now=NOW, limit=10)
    await store.strike_off(SCOPE, [turn.id], "index")
    await store.postpone(SCOPE, [turn.id], error="e", due_at=None, counted=True)
    assert await store.owe(SCOPE, "facts", now=NOW) == 0
    assert await store.due_threads(NOW, "index", limit=10) == []
    assert await store.owed_turns(SCOPE, "index", limit=10) == []
    assert await store.turns_at(SCOPE, [(turn.thread_id, turn.seq)]) == []
    status = await store.status(None, now=NOW)
    assert (status.turns, status.owed_count, status.parked_count) == (0, 0, 0)


@on_every_server
async def test_a_number_is_not_given_again(open_store: OpenStore) -> None:
    """After the newest turns were erased by another process, numbers go on above theirs."""
    ours, theirs = await open_store(), await open_store()
    await stored(ours, SCOPE, "a")
    newer = await stored(theirs, SCOPE, "b", "c")
    await theirs.erase_turns(an_erasure(SCOPE, [turn.id for turn in newer]), now=NOW, limit=10)
    await theirs.sweep_orphans(SCOPE, stubs_before=NOW + DAY, now=NOW)
    [again] = await stored(ours, SCOPE, "d")
    assert again.seq > newer[-1].seq
    [later] = await stored(await open_store(), SCOPE, "e")
    assert later.seq > again.seq


@on_every_server
async def test_a_repeat_after_forgetting_finds_tombstones(store: DocumentStore) -> None:
    """A repeat of a call whose turns were forgotten stores nothing and tells which are gone; after the sweep by a hash in place of the id."""
    first = await stored(store, SCOPE, "a", "b", key="k")
    await store.erase_turns(an_erasure(SCOPE, [first[0].id]), now=NOW, limit=10)
    gone, kept = await store.append_turns(SCOPE, a_call("a", "b", key="k"))
    assert gone == Tombstone(turn_id=first[0].id, seq=1, call_index=0, call_size=2)
    hashes = set()
    for _ in range(2):
        await store.sweep_orphans(SCOPE, stubs_before=NOW + DAY, now=NOW + DAY)
        gone, kept = await store.append_turns(SCOPE, a_call("a", "b", key="k"))
        assert isinstance(gone, Tombstone)
        assert (gone.seq, gone.call_index, gone.call_size) == (1, 0, 2)
        assert kept == first[1]
        hashes.add(gone.turn_id)
    assert len(hashes) == 1
    assert first[0].id not in hashes
    assert await store.list_turns(SCOPE) == [kept]
    assert [turn.seq for turn in await stored(store, SCOPE, "c", key="k2")] == [3]


@on_every_server
async def test_index_numbers_rise_after_rows_were_deleted(store: DocumentStore) -> None:
    """After every row of the user is gone, the next number is still above all that were."""
    [turn] = await stored(store, SCOPE, "a")
    await store.put_search_rows("ada", [a_row(turn.id), *(a_row() for _ in range(50))], now=NOW)
    head = await store.index_head("ada")
    later = NOW + timedelta(milliseconds=10)
    await store.erase_turns(an_erasure(SCOPE), now=later, limit=10)
    for _ in range(2):
        await store.sweep_orphans(SCOPE, stubs_before=later + timedelta(days=1), now=later)
    await store.put_search_rows("ada", [a_row()], now=later)
    assert await store.index_head("ada") > head


async def test_sweeps_what_a_late_worker_wrote(store: DocumentStore) -> None:
    """Rows and changes written for a turn after it was forgotten go, in all threads of the user, of no other."""
    [turn] = await remembered(store, SCOPE, "a")
    [kept] = await remembered(store, a_scope(thread_id="t2"), "kept")
    await store.put_search_rows("eve", [a_row(scope=a_scope("eve"))], now=NOW)
    await store.erase_turns(an_erasure(SCOPE), now=NOW, limit=10)
    await store.put_search_rows("ada", [a_row(turn.id)], now=NOW)
    await store.append_fact_change(SCOPE, a_change(turn.id))
    document = await store.load_facts(SCOPE)
    await store.save_facts(
        SCOPE, FactsDocument(people={"user": {"name": "Ada"}}, through=2), expected=document.revision
    )

    counts = await store.sweep_orphans(a_scope(thread_id="t2"), stubs_before=NOW, now=NOW)

    assert counts == ErasedCounts(search_rows=1, fact_changes=1)
    assert {row.turn_id: row.erased for row in await store.search_rows("ada")} == {
        turn.id: True,
        kept.id: False,
    }
    assert [change.turn_id for change in await store.fact_changes(SCOPE.user)] == [kept.id]
    assert (await store.load_facts(SCOPE)).facts == {}
    [hers] = await store.search_rows("eve")
    assert not hers.erased
    again = await store.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW)
    assert again == ErasedCounts()


async def test_what_is_under_hashes_is_as_good_as_under_ids(store: DocumentStore) -> None:
    """The numbers, calls and keys of a thread that was swept are known, and go with the user but for what is newer."""
    erased = [await stored(store, SCOPE, "a", key="k"), await stored(store, SCOPE, "b")]
    await store.append_fact_change(SCOPE, a_change(None, key=new_id(), idempotency_key="edit"))
    await store.erase_turns(an_erasure(SCOPE), now=NOW, limit=10)
    await store.erase_turns(an_erasure(SCOPE), now=NOW, limit=10)
    before_id = new_id()
    for _ in range(2):
        await store.sweep_orphans(SCOPE, stubs_before=NOW + DAY, now=NOW + DAY)
        await store.erase_remains(SCOPE, before_id=before_id)
    assert await store.stored_threads("ada") == []
    remains = await store.thread_remains(SCOPE)
    assert (remains.last_seq, len(remains.turns), len(remains.keys)) == (2, 1, 1)
    assert await store.key_spent(SCOPE, "edit", "edit")
    assert not await store.key_spent(a_scope("eve"), "edit", "edit")
    [left] = await store.append_turns(SCOPE, a_call("a", key="k"))
    assert isinstance(left, Tombstone)
    [new] = await stored(store, SCOPE, "c")
    assert new.seq > erased[1][0].seq
    await store.erase_remains(SCOPE.user, before_id=before_id)
    assert not await store.key_spent(SCOPE, "edit", "edit")
    [again] = await stored(store, SCOPE, "a", key="k")
    assert again.seq > new.seq


async def test_an_erasure_that_a_clock_ahead_put_off_is_brought_back(store: DocumentStore) -> None:
    for days in (0, 30):
        erasure = an_erasure(SCOPE, ["a"])
        await store.put_erasure(replace(erasure, id=f"in {days}", due_at=NOW + timedelta(days=days, hours=1)))
    assert await store.bring_back(now=NOW, beyond=NOW + timedelta(hours=2)) == 1
    assert [each.id for each in await store.due_erasures(NOW, limit=9)] == ["in 30"]


async def test_erases_what_remains_of_a_user(store: DocumentStore) -> None:
    """Tombstones, stubs and facts documents of empty threads go; what the user did since stays."""
    await remembered(store, SCOPE, "a", key="k")
    [old] = await remembered(store, a_scope(thread_id="t2"), "b", key="k")
    [foreign] = await stored(store, a_scope("eve"), "x", key="k")
    await store.erase_turns(an_erasure(SCOPE.user), now=NOW, limit=10)
    await store.erase_turns(an_erasure(a_scope("eve")), now=NOW, limit=10)
    before_id = new_id()
    [new] = await stored(store, a_scope(thread_id="t2"), "c", key="k2")
    [newer] = await stored(store, a_scope(thread_id="t3"), "d", key="k3")
    await store.erase_turns(an_erasure(a_scope(thread_id="t3"), [newer.id]), now=NOW, limit=10)
    for _ in range(2):
        await store.erase_remains(SCOPE.user, before_id=before_id)
    assert await store.load_facts(SCOPE) == FactsDocument()
    assert (await store.load_facts(a_scope(thread_id="t2"))).revision is not None
    assert await store.search_rows("ada") == []
    assert await store.list_turns(SCOPE.user) == [new]
    assert new.seq > old.seq
    [again] = await stored(store, a_scope(thread_id="t2"), "b", key="k")
    assert again.seq > new.seq
    for scope, turn, key in ((a_scope(thread_id="t3"), newer, "k3"), (a_scope("eve"), foreign, "k")):
        [left] = await store.append_turns(scope, a_call("late", key=key))
        assert isinstance(left, Tombstone)
        assert left.turn_id == turn.id


hostile_ids = st.one_of(
    st.sampled_from(
        ["$", ".", "/", "$ne", "a", "A", "a ", "é", "e\u0301", "%", "_", "*", "x" * 512, "💥", "ada", "t1"]
    ),
    st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=40).filter(
        str.isprintable
    ),
).filter(lambda text: bool(text.strip()))


@settings(
    max_examples=8 if profiles.chosen() == "nightly" else 4,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(names=st.lists(st.tuples(hostile_ids, hostile_ids), min_size=2, max_size=5, unique=True))
async def test_no_read_crosses_a_scope(store: DocumentStore, names: list[tuple[str, str]]) -> None:
    """Whatever characters ids hold, every read returns what its own scope stored, and nothing else.

    Nor does packing or forgetting reach beyond it, though all scopes give their things the same ids.
    """
    scopes = [Scope(user_id=user, thread_id=thread) for user, thread in names]
    # The store is shared by the examples, so each begins by forgetting what its scopes hold.
    for scope in scopes:
        await store.erase_turns(an_erasure(scope.user), now=NOW, limit=1_000)
        await store.erase_remains(scope.user, before_id="~")
    mark = new_id()
    expected = {scope: await everything_of(store, scope, mark) for scope in scopes}
    everything = [turn.id for turns in expected.values() for turn in turns]

    for scope in scopes:
        siblings = [other for other in scopes if other.user_id == scope.user_id]
        mine = [turn.id for turn in expected[scope]]
        ours = {turn.id for other in siblings for turn in expected[other]}
        assert await store.list_turns(scope) == expected[scope]
        assert await store.list_turns(scope, ids=everything, topic_ids=["$same"]) == expected[scope]
        assert {turn.id for turn in await store.list_turns(scope.user, ids=everything)} == ours
        rows = await store.search_rows(scope.user_id, ids=everything)
        assert {row.turn_id for row in rows} == ours
        found = await store.term_candidates(scope, ["sea"], limit=100)
        assert set(found.turn_ids) == set(mine)
        changes = await store.fact_changes(scope, keys=everything)
        assert [change.turn_id for change in changes] == mine
        assert (await store.status(scope, now=NOW)).turns == len(mine)
        [topic] = await store.list_topics(scope, ids=["$same"])
        counted = (await store.count_topic_turns(scope, ["$same"]))["$same"]
        assert (topic.scope, counted.turns, counted.raw_bytes) == (scope, 1, bytes_of(expected[scope]))
        assert await store.compress_turns(scope, "other", everything) == PackedSize()
        [session] = await store.sessions(scope, ids=["$same"])
        assert (session.scope, session.total_turns, session.compression_count) == (scope, 1, 1)
        assert len(await store.sessions(scope.user)) == len(siblings)
        head = await store.thread_head(scope)
        assert head.session is not None
        assert (head.session.scope, head.last_seq) == (scope, expected[scope][0].seq)
        [made] = await store.compressions(scope)
        assert (made.scope, made.covers) == (scope, tuple(mine))
        [again] = await store.append_turns(scope, a_call("again", key=mark))
        assert again == expected[scope][0]
        others = a_compression(expected[scope], 2, scope=scope, after_seq=made.through)
        late = replace(others, covers=tuple(everything))
        assert not await store.append_compression(late)
    await store.erase_turns(an_erasure(scopes[0], everything), now=NOW, limit=1_000)
    assert (await store.list_turns(scopes[0]), await store.compressions(scopes[0])) == ([], [])
    for scope in scopes[1:]:
        assert await store.list_turns(scope) == expected[scope]
        assert len(await store.compressions(scope)) == (await store.sessions(scope))[0].total_turns == 1


async def everything_of(store: DocumentStore, scope: Scope, mark: str) -> list[Turn]:
    """One of everything in the scope: a packed turn with all that is derived from it."""
    assert await store.put_sessions([a_session(1, scope=scope, id="$same")])
    [turn] = await remembered(store, scope, f"{scope}{mark}", key=mark, session_id="$same")
    await store.assign_topics(scope, {turn.id: "$same"})
    assert await store.save_topics([a_topic("$same", scope=scope)])
    await store.compress_turns(scope, "$same", [turn.id])
    assert await store.append_compression(a_compression([turn], scope=scope, session_id="$same"))
    return await store.list_turns(scope)
