"""What every DocumentStore must do with copies of threads."""

from dataclasses import replace

import pytest

from memory_agent.domain import (
    CopiedTurn,
    Erasure,
    ExtractionCost,
    ForgottenTurn,
    Scope,
    SpentKey,
    ThreadCopy,
    ThreadRemains,
    Tombstone,
    Turn,
    new_id,
)
from memory_agent.errors import StoreError
from memory_agent.ports import DocumentStore

from .values import (
    NOW,
    a_call,
    a_change,
    a_compression,
    a_scope,
    a_topic,
    saved_topic,
    stored,
    stored_compressed,
)

SCOPE = a_scope(user_id="ada", thread_id="chat")
OTHER = a_scope(user_id="eve", thread_id="elsewhere")


def moved(turn: Turn, scope: Scope) -> Turn:
    """The same under another id, as another store's turn."""
    return replace(turn, id=new_id(), user_id=scope.user_id, thread_id=str(scope.thread_id), compressed=False)


async def test_copied_turns_come_with_their_texts_and_calls(store: DocumentStore) -> None:
    """By number, page by page, packed ones with their text; a forgotten one is no turn, but its number and key are told."""
    await saved_topic(store, a_topic("t", scope=SCOPE))
    await stored(store, SCOPE, "a", "b", key="k")
    await stored_compressed(store, SCOPE, "packed away", topic_id="t")
    [gone] = await stored(store, SCOPE, "gone", key="g")
    erasure = Erasure(id=new_id(), scope=SCOPE, turn_ids=(gone.id,), before_id=new_id(), due_at=NOW)
    await store.erase_turns(erasure, now=NOW, limit=10)
    first = await store.copied_turns(SCOPE, limit=2)
    rest = await store.copied_turns(SCOPE, after_seq=2, limit=2)
    assert [
        (one.turn.content, one.idempotency_key, one.call_index, one.call_size) for one in (*first, *rest)
    ] == [("a", "k", 0, 2), ("b", "k", 1, 2), ("packed away", None, 0, 1)]
    bare = await store.copied_turns(SCOPE, limit=9, texts=False)
    assert [(one.turn.seq, one.turn.content, one.idempotency_key, one.readable) for one in bare] == [
        (1, "", "k", True),
        (2, "", "k", True),
        (3, "", None, True),
    ]
    assert await store.copied_turns(SCOPE, limit=0) == []
    assert await store.copied_turns(OTHER, limit=9) == []
    remains = await store.thread_remains(SCOPE)
    assert remains.last_seq == 4
    [left] = remains.turns
    assert left == ForgottenTurn(turn_id=gone.id, seq=4, idempotency_key="g", call_index=0, call_size=1)
    assert await store.damaged_records(SCOPE) == []


async def test_who_is_stored_is_listed(store: DocumentStore) -> None:
    """Of all tenants, by id, and their threads; also whose turns are all forgotten."""
    await stored(store, SCOPE, "a")
    [gone] = await stored(store, OTHER, "b", key="g")
    tenants = a_scope(user_id="acme\x1fzoe", thread_id="t")
    await stored(store, tenants, "c")
    erasure = Erasure(id=new_id(), scope=OTHER, turn_ids=(gone.id,), before_id=new_id(), due_at=NOW)
    await store.erase_turns(erasure, now=NOW, limit=10)
    users = await store.stored_users(limit=10)
    assert users == sorted(["ada", "eve", "acme\x1fzoe"])
    assert await store.stored_users(after=users[0], limit=1) == users[1:2]
    assert await store.stored_threads("eve") == ["elsewhere"]
    assert await store.stored_threads("nobody") == []


async def test_copies_are_stored_as_they_are_and_once(store: DocumentStore) -> None:
    """Under their own ids, numbers, keys and times, with what they owe; the next turn and change get the numbers after them."""
    [made] = await stored(store, SCOPE, "hello", pending=("facts",))
    turn = replace(moved(made, OTHER), seq=7, topic_id="t", pending=("facts",), due_at=NOW)
    copied = CopiedTurn(turn=turn, idempotency_key="k", call_index=0, call_size=1)
    change = replace(a_change(turn.id, key="c"), seq=5, thread_id="elsewhere")
    left = ForgottenTurn(turn_id=new_id(), seq=3, idempotency_key="g", call_index=0, call_size=1)
    remains = ThreadRemains(
        last_seq=9,
        last_change=8,
        cost=ExtractionCost(turns=2, requests=1, prompt_tokens=5, completion_tokens=6, seconds=0.25),
        turns=(left,),
        keys=(SpentKey(kind="edit", key="e", id="x"),),
    )
    copies = ThreadCopy(turns=(copied,), changes=(change,), remains=remains)
    assert await store.put_copies(OTHER, copies) == [turn.id]
    assert await store.put_copies(OTHER, copies) == []
    assert await store.copied_turns(OTHER, limit=9) == [copied]
    assert await store.thread_remains(OTHER) == remains
    assert await store.fact_changes(OTHER) == [change]
    assert await store.due_threads(NOW, "facts", limit=9) == [SCOPE, OTHER]
    assert await store.append_turns(OTHER, a_call("hello", key="k")) == [turn]
    [again] = await store.append_turns(OTHER, a_call("gone", key="g"))
    assert isinstance(again, Tombstone)
    assert again.turn_id == left.turn_id
    assert await store.key_spent(OTHER, "edit", "e")
    [following] = await stored(store, OTHER, "next")
    assert following.seq == 10
    assert await store.append_fact_change(OTHER, a_change(key="d"))
    assert [one.seq for one in await store.fact_changes(OTHER)] == [5, 9]
    assert await store.damaged_records(OTHER) == []
    await store.drop_damaged(OTHER, [])
    assert len(await store.fact_changes(OTHER)) == 2


async def test_copied_compressions_count_the_turns_that_are_there(store: DocumentStore) -> None:
    """One that knows a turn more is not kept; one that was here goes when a turn comes in among its own."""
    copied = [moved(turn, OTHER) for turn in await stored(store, SCOPE, *map(str, range(200)))]
    first, *rest = [CopiedTurn(turn=turn) for turn in copied]
    made = a_compression(copied[:150], scope=OTHER)
    less = replace(made, turns=149, covers=made.covers[1:])
    for turns, compressions, there, kept in (
        (rest, (made,), 199, []),
        ((), (less,), 199, [less]),
        ((first,), (), 200, []),
        ((), (made,), 200, [made]),
    ):
        await store.put_copies(OTHER, ThreadCopy(turns=tuple(turns), compressions=compressions))
        assert await store.compressions(OTHER) == kept
        assert (await store.status(OTHER, now=NOW)).turns == there == len(await store.list_turns(OTHER))


async def test_what_another_turn_or_change_has_is_refused(store: DocumentStore) -> None:
    """A number, an id, a key of another: an error, and those that are there stay as they are."""
    [there] = await stored(store, SCOPE, "there", key="k")
    assert await store.append_fact_change(SCOPE, a_change(key="c"))
    assert await store.append_compression(a_compression([there], scope=SCOPE))
    one = replace(moved(there, SCOPE), content="other")
    for wrong in (
        CopiedTurn(turn=one),
        CopiedTurn(turn=replace(one, id=there.id, seq=2)),
        CopiedTurn(turn=replace(one, seq=2), idempotency_key="k"),
    ):
        with pytest.raises(StoreError, match=r"turn '.*' cannot be stored as number \d of thread 'chat'"):
            await store.put_copies(SCOPE, ThreadCopy(turns=(wrong,)))
    for change in (replace(a_change(key="d"), seq=1), replace(a_change(key="c"), seq=2)):
        with pytest.raises(StoreError, match=r"change '.' cannot be stored as number \d of the facts"):
            await store.put_copies(SCOPE, ThreadCopy(changes=(replace(change, thread_id="chat"),)))
    assert [turn.content for turn in await store.list_turns(SCOPE)] == ["there"]
    assert [change.key for change in await store.fact_changes(SCOPE)] == ["c"]
    assert len(await store.compressions(SCOPE)) == 1
