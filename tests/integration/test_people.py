"""Who is remembered, and in which threads: told with counts, page by page, and of nobody else's."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from memory_agent import InvalidInput, MemoryService, NotFound, ThreadSummary, TurnsParked, UserSummary
from memory_agent.testing import HashEmbedder
from tests import profiles
from tests.conformance.values import a_draft, a_scope
from tests.integration.conversations import START, STORES, opened, said, settings_on
from tests.over_http import embedded_only

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("both_ways")  # see tests/over_http.py


@pytest.fixture(params=profiles.by_day(*STORES))
def settings(request: pytest.FixtureRequest, tmp_path: Path, both_ways: None) -> dict[str, Any]:
    return settings_on(request.param, request, tmp_path)


@pytest.fixture
async def service(settings: dict[str, Any]) -> AsyncIterator[MemoryService]:
    async with opened(settings) as service:
        yield service


async def fill(service: MemoryService) -> None:
    """Ada's two threads, and Bo's one."""
    for user, thread, count, day in (("ada", "work", 3, 0), ("ada", "holidays", 2, 4), ("bo", "work", 1, 2)):
        turns = said(["Hello."] * count, start=START + timedelta(days=day))
        await service.agent(user, thread).add_turns(turns)


async def test_users_and_threads_are_told_with_counts_and_last_activity(service: MemoryService) -> None:
    """By id; a user's are those of all the user's threads."""
    assert (await service.users()).users == ()
    await fill(service)
    last = {"work": START + timedelta(minutes=2), "holidays": START + timedelta(days=4, minutes=1)}
    threads = (
        ThreadSummary(thread_id="holidays", turns=2, last_activity=last["holidays"]),
        ThreadSummary(thread_id="work", turns=3, last_activity=last["work"]),
    )
    ada = UserSummary(user_id="ada", threads=2, turns=5, last_activity=last["holidays"])
    bo = UserSummary(user_id="bo", threads=1, turns=1, last_activity=START + timedelta(days=2))
    users = await service.users()
    assert (users.users, users.next) == ((ada, bo), None)
    assert (await service.users(user_id="bo")).users == (bo,)
    assert (await service.users(user_id="eve")).users == ()
    found = await service.threads("ada")
    assert (found.threads, found.next) == (threads, None)
    memory = service.agent("ada", "work")
    assert await memory.threads() == found
    assert await memory.thread_summary() == threads[1]


async def test_pages_have_no_gaps_and_no_repeats(service: MemoryService) -> None:
    """Also where users come and go between two pages."""
    for number in range(7):
        await service.agent(f"user {number}", "t").update_memory("Hi", "Hello")
        await service.agent("user 3", f"thread {number}").update_memory("Hi", "Hello")
    first = await service.users(limit=3)
    assert ([user.user_id for user in first.users], first.next) == (["user 0", "user 1", "user 2"], "user 2")
    await service.forget_user("user 2")
    await service.forget_user("user 3")
    await service.agent("user 35", "t").update_memory("Hi", "Hello")
    await service.agent("a user", "t").update_memory("Hi", "Hello")
    second = await service.users(after=first.next, limit=3)
    assert [user.user_id for user in second.users] == ["user 35", "user 4", "user 5"]
    last = await service.users(after=second.next, limit=3)
    assert ([user.user_id for user in last.users], last.next) == (["user 6"], None)
    assert (await service.users(after="user 6")).users == ()
    assert [len((await service.users(limit=limit)).users) for limit in (1, 7, 1_000)] == [1, 7, 7]
    for number in range(5):
        await service.agent("ada", f"t{number}").update_memory("Hi", "Hello")
    page = await service.threads("ada", limit=2)
    assert ([thread.thread_id for thread in page.threads], page.next) == (["t0", "t1"], "t1")
    page = await service.agent("ada", "t0").threads(after=page.next, limit=3)
    assert ([thread.thread_id for thread in page.threads], page.next) == (["t2", "t3", "t4"], None)
    assert (await service.threads("ada", after="t4")).threads == ()


async def test_an_unknown_name_is_said_with_the_nearest_ones(service: MemoryService) -> None:
    """Of users and threads; a new user's memory begins empty all the same."""
    with pytest.raises(NotFound, match=r"^no user 'ada' is remembered$"):
        await service.threads("ada")
    await fill(service)
    with pytest.raises(NotFound, match=r"^no user 'adda' is remembered; nearest: 'ada'$"):
        await service.threads("adda")
    with pytest.raises(NotFound, match=r"^no user 'me' is remembered; there are 'ada', 'bo'$"):
        await service.agent("me", "work").thread_summary()
    with pytest.raises(NotFound, match=r"^user 'ada' has no thread 'holliday'; nearest: 'holidays'$"):
        await service.agent("ada", "holliday").thread_summary()
    with pytest.raises(NotFound, match=r"^user 'bo' has no thread 'main'; there is 'work'$"):
        await service.agent("bo", "main").thread_summary()
    new = service.agent("me", "main")
    assert (await new.threads()).threads == ()
    assert await new.fetch_long_term("Hello") == []
    assert await new.fetch_short_term() == []
    assert str(await new.fetch_memory("Hello")) == ""


async def test_nearest_names_are_found_among_many(service: MemoryService) -> None:
    """Names with the same beginning are looked at, wherever they stand among hundreds."""
    store = service.core.store
    for number in range(400):
        await store.append_turns(a_scope(f"customer-{number:04}"), [a_draft()])
    for name in ("zoe.miller", "Zoe.Mills", "karl"):
        await store.append_turns(a_scope(name), [a_draft()])
    for wanted, nearest in (("zoe.milller", "'zoe.miller'"), ("zoe.mils", "'Zoe.Mills'"), ("kral", "'karl'")):
        with pytest.raises(NotFound, match=rf"nearest: .*{nearest}"):
            await service.threads(wanted)
    with pytest.raises(
        NotFound, match=r"there are 'Zoe\.Mills', 'customer-0000', 'customer-0001' and others"
    ):
        await service.threads("me")


async def test_who_was_forgotten_is_not_told_of(service: MemoryService) -> None:
    """Neither listed nor named, as soon as the call returned."""
    await fill(service)
    memory = service.agent("ada", "work")
    await memory.forget([turn.id for turn in await memory.fetch_short_term()][:2])
    assert (await memory.thread_summary()).turns == 1
    await memory.clear()
    assert [thread.thread_id for thread in (await service.threads("ada")).threads] == ["holidays"]
    with pytest.raises(NotFound, match=r"^user 'ada' has no thread 'work'; there is 'holidays'$"):
        await memory.thread_summary()
    await service.forget_user("ada")
    assert [user.user_id for user in (await service.users()).users] == ["bo"]
    with pytest.raises(NotFound, match=r"^no user 'ada' is remembered; there is 'bo'$"):
        await service.threads("ada")


async def test_what_no_page_can_be_is_refused(service: MemoryService) -> None:
    assert (await service.users(limit=1_000)).users == ()
    impossible: dict[str, tuple[Any, ...]] = {"limit": (0, 1_001, True, "5"), "after": ("", "a\nb")}
    for name, values in impossible.items():
        for value in values:
            for asked in (service.users, service.agent("ada", "t").threads):
                with pytest.raises(InvalidInput, match=f"^{name} "):
                    await asked(**{name: value})
            with pytest.raises(InvalidInput, match=f"^{name} "):
                await service.threads("ada", **{name: value})


@embedded_only("over HTTP the key says which tenant it is; see test_rest_calls.py")
async def test_tenants_are_told_of_their_own_users_alone(settings: dict[str, Any]) -> None:
    """In lists and among the nearest names, by the ids that they know them by."""
    async with opened(settings) as service:
        for tenant, user in (("acme", "ada"), ("default", "adam"), ("zeta", "adda2")):
            await service.agent(user, "t", tenant=tenant).update_memory("Hi", "Hello")
        for tenant, user in (("acme", "ada"), ("default", "adam"), ("zeta", "adda2")):
            assert [u.user_id for u in (await service.users(tenant=tenant)).users] == [user]
            assert (await service.threads(user, tenant=tenant)).threads[0].turns == 2
            with pytest.raises(NotFound, match=rf"^no user 'adda' is remembered; nearest: '{user}'$"):
                await service.threads("adda", tenant=tenant)
        assert (await service.users(tenant="nobodys")).users == ()
        with pytest.raises(InvalidInput, match="tenant is 'No'"):
            await service.users(tenant="No")


@embedded_only("what is parked is looked at with the service's own eyes")
async def test_parked_turns_name_their_user(settings: dict[str, Any]) -> None:
    """In the status of everybody, of the user, and in what settle raises; as the tenant knows the user."""
    embedder = HashEmbedder()
    embedder.fail = ValueError("a broken model")
    async with opened(settings, embedder=embedder, max_attempts=1) as service:
        memory = service.agent("ada", "work", tenant="acme")
        await memory.update_memory("Hi", "Hello")
        with pytest.raises(TurnsParked, match=r"of user 'ada', thread 'work', owing index") as caught:
            await memory.settle(30)
        for parked in (*caught.value.parked, *(await service.status()).parked):
            scope = parked.scope
            assert (scope.tenant, scope.tenants_user_id, scope.thread_id) == ("acme", "ada", "work")
