"""What every DocumentStore must tell of who is remembered: users and threads by rising id, counted, page by page."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from memory_agent.domain import Scope, ThreadSummary, new_id
from memory_agent.ports import DocumentStore

from .values import (
    NOW,
    a_change,
    a_draft,
    a_scope,
    a_session,
    an_erasure,
    on_every_server,
    stored,
    stored_compressed,
)

MINUTE = timedelta(minutes=1)


async def paged(read: Callable[..., Awaitable[list[str]]], *of: Any, limit: int) -> list[str]:
    """All ids that `read` finds, by so many at once."""
    found: list[str] = []
    while page := await read(*of, after=found[-1] if found else "", limit=limit):
        assert len(page) <= limit
        found += page
    return found


async def test_lists_users_and_threads_by_rising_id(store: DocumentStore) -> None:
    """Compared code point by code point, page by page without gaps or repeats, also far above one look's worth."""
    users = ["Ada", "ada", "ada ", "adam", "bo", "z", "é", "海", "👩‍👩‍👧‍👦"]
    assert await store.user_ids("default", limit=10) == await store.thread_ids(a_scope(), limit=10) == []
    assert (await store.count_threads([]), await store.count_threads(["ada"])) == ({}, {"ada": []})
    for user in users:
        for thread in ("t2", "T2", "ü $x.y", "t10"):
            await stored(store, a_scope(user, thread), "one", "two")
    for limit in (1, 2, 4, 100):
        assert await paged(store.user_ids, "default", limit=limit) == sorted(users)
        assert await paged(store.thread_ids, a_scope("ada"), limit=limit) == ["T2", "t10", "t2", "ü $x.y"]
    assert await store.user_ids("default", after="b", limit=2) == ["bo", "z"]
    assert await store.thread_ids(a_scope("ada", "t10"), after="t1", limit=1) == ["t10"]
    assert await store.user_ids("default", limit=0) == await store.thread_ids(a_scope(), limit=0) == []


@on_every_server
async def test_a_user_of_many_turns_hides_nobody(store: DocumentStore) -> None:
    many = [a_draft("x", index=index, size=1_200) for index in range(1_200)]
    await store.append_turns(a_scope("ada", "long"), many)
    await stored(store, a_scope("ada", "short"), "one")
    await stored(store, a_scope("bo"), "one")
    assert await store.user_ids("default", limit=5) == ["ada", "bo"]
    assert await store.thread_ids(a_scope("ada"), limit=5) == ["long", "short"]
    assert (await store.count_threads(["ada"]))["ada"][0].turns == 1_200


@on_every_server
async def test_counts_turns_and_tells_the_last_one_s_time(store: DocumentStore) -> None:
    """The last one is that of the highest seq, whatever the others' timestamps."""
    for minutes in (5, 9, 2):
        await store.append_turns(a_scope("ada", "b"), [a_draft("x", timestamp=NOW + minutes * MINUTE)])
    await stored_compressed(store, a_scope("ada", "a"), "one", "two", topic_id="t")
    await stored(store, a_scope("bo", "b"), "one")
    a = ThreadSummary(thread_id="a", turns=2, last_activity=NOW)
    b = ThreadSummary(thread_id="b", turns=3, last_activity=NOW + 2 * MINUTE)
    bos = ThreadSummary(thread_id="b", turns=1, last_activity=NOW)
    assert await store.count_threads(["bo", "ada", "eve"]) == {"bo": [bos], "ada": [a, b], "eve": []}
    assert await store.count_threads(["ada", "bo"], thread_ids=["b", "c"]) == {"ada": [b], "bo": [bos]}
    assert await store.count_threads(["ada"], thread_ids=[]) == {"ada": []}


async def test_a_session_or_a_fact_makes_a_thread_too(store: DocumentStore) -> None:
    """Somebody started the one or set the other before a word was said."""
    assert await store.put_sessions([a_session(scope=a_scope("ada", "opened"))])
    assert await store.append_fact_change(a_scope("bo", "told"), a_change(None))
    assert await store.append_fact_change(a_scope("ada", "said"), a_change(None))
    await stored(store, a_scope("ada", "said"), "one")
    assert await store.user_ids("default", limit=9) == ["ada", "bo"]
    assert await store.thread_ids(a_scope("ada"), limit=9) == ["opened", "said"]
    opened = ThreadSummary(thread_id="opened", turns=0, last_activity=None)
    said = ThreadSummary(thread_id="said", turns=1, last_activity=NOW)
    told = replace(opened, thread_id="told")
    assert await store.count_threads(["ada", "bo"]) == {"ada": [opened, said], "bo": [told]}


async def test_tells_of_no_other_tenant_s_users(store: DocumentStore) -> None:
    """Nor counts them to a page, wherever their stored ids lie among the default tenant's."""
    users = ["acm", "acme", "acme ", "acmeada", "b", "zoe"]
    for tenant in ("default", "acme", "acme-2", "zzz"):
        for user in users:
            await stored(store, Scope.of(user, "t1", tenant=tenant), "one")
    for tenant in ("acme", "acme-2", "zzz"):
        expected = [Scope.of(user, tenant=tenant).user_id for user in users]
        for limit in (1, 4, 100):
            assert await paged(store.user_ids, tenant, limit=limit) == expected
    for limit in (1, 4, 100):
        assert await paged(store.user_ids, "default", limit=limit) == users
    assert await store.user_ids("acm", limit=9) == []
    assert await store.user_ids("nobody", limit=9) == []


async def test_what_was_forgotten_does_not_count(store: DocumentStore) -> None:
    """Not the turn, and not the thread or the user once nothing else is left; what a repeat needs is none."""
    first, second, last = await stored(store, a_scope("ada"), "one", "two", "three", key="k")
    await stored(store, a_scope("ada", "t2"), "kept")
    await store.append_turns(a_scope("bo"), [a_draft("gone", key="k2")])
    assert await store.append_fact_change(a_scope("bo", "t2"), a_change(None))
    await store.erase_turns(an_erasure(a_scope("ada"), [last.id, first.id]), now=NOW, limit=10)
    assert [(t.thread_id, t.turns) for t in (await store.count_threads(["ada"]))["ada"]] == [
        ("t1", 1),
        ("t2", 1),
    ]
    await store.erase_turns(an_erasure(a_scope("ada"), [second.id]), now=NOW, limit=10)
    await store.erase_turns(an_erasure(Scope(user_id="bo")), now=NOW, limit=10)
    assert await store.thread_ids(a_scope("ada"), limit=9) == ["t2"]
    assert await store.user_ids("default", limit=9) == ["ada"]
    assert (await store.count_threads(["bo"])) == {"bo": []}
    await store.erase_remains(Scope(user_id="bo"), before_id=new_id())
    assert await store.user_ids("default", limit=9) == ["ada"]
