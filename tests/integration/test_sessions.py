"""Sessions as a user of the package sees them, on SQLite and on MongoDB."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent import (
    IdempotencyKeyReused,
    InvalidInput,
    MemoryAgent,
    MemoryService,
    NotFound,
    TurnForgotten,
)
from memory_agent.domain import Character
from memory_agent.testing import FixedClock
from memory_agent.work.admit import admit
from tests import profiles
from tests.integration.conversations import START, STORES, everything, lines, opened, said, settings_on
from tests.over_http import both_ways_by_day

pytestmark = pytest.mark.usefixtures("both_ways")  # see tests/over_http.py

MIA = Character(name="Mia Holm", personality="warm", profile="Repairs clocks.", traits=("patient",))


@pytest.fixture(params=profiles.by_day(*STORES))
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A fresh database on each store."""
    return settings_on(request.param, request, tmp_path)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(START)


@pytest.fixture
async def service(settings: dict[str, Any], clock: FixedClock) -> AsyncIterator[MemoryService]:
    """A service whose clock stands still."""
    async with opened(settings, clock=clock) as service:
        yield service


async def sessions_of(memory: MemoryAgent) -> list[int]:
    """The number of each turn's session."""
    numbers = {session.id: session.number for session in await memory.sessions()}
    return [numbers[turn.session_id or ""] for turn in await everything(memory)]


# --- opening and closing -------------------------------------------------------------------------------------


async def test_a_started_session_has_its_people_and_is_inherited(
    memory: MemoryAgent, clock: FixedClock
) -> None:
    """One that opens by itself later has the same character and people; what was started first is over."""
    await memory.update_memory("Hello", "Hi")
    started = await memory.start_session(
        MIA, ["Ann", "Bo", "Ann"], {"place": "Bergen", "n": [1, {"x": None}]}
    )
    assert (started.number, started.explicit, started.after_seq) == (2, True, 2)
    assert (started.character, started.participants) == (MIA, ("Ann", "Bo"))
    assert started.metadata == {"place": "Bergen", "n": [1, {"x": None}]}
    assert await memory.current_session() == started
    clock.tick(60)
    await memory.add_turn("user", "I am here", speaker="Ann")
    await memory.add_turn("user", "So am I", speaker="Bo")
    clock.tick(5 * 3_600)
    assert await memory.current_session() is None
    await memory.add_turn("user", "Again", speaker="Bo")
    assert await sessions_of(memory) == [1, 1, 2, 2, 3]
    _, second, third = await memory.sessions()
    assert (second.total_turns, second.last_activity) == (2, START + timedelta(seconds=60))
    assert (third.explicit, third.character, third.participants) == (False, MIA, ("Ann", "Bo"))
    assert third.metadata == started.metadata
    assert [turn.speaker for turn in await everything(memory)][2:] == ["Ann", "Bo", "Bo"]
    context = await memory.fetch_memory("Who are you?")
    assert context.persona.startswith("You are Mia Holm.\nPersonality: warm")


@both_ways_by_day
async def test_search_within_a_session_finds_its_turns_alone(
    service: MemoryService, memory: MemoryAgent
) -> None:
    """By its words, whichever thread asks; a session that the user, or the thread, does not have is told."""
    first = await memory.start_session(character_id=3)
    await memory.update_memory("The red bicycle needs a chain.", None)
    await memory.start_session(MIA, character_id="mia-1")
    await memory.update_memory("The blue bicycle needs a bell.", None)
    await memory.settle()
    found = await memory.fetch_long_term("Which bicycle?", session_id=first.id)
    assert [one.text for one in found] == ["The red bicycle needs a chain."]
    assert await service.search(memory.scope.tenants_user_id, "Which bicycle?", session_id=first.id) == found
    elsewhere = service.agent(memory.scope.tenants_user_id, "elsewhere")
    assert [
        one.turn.id for one in await elsewhere.fetch_long_term("Which bicycle?", session_id=first.id)
    ] == [one.turn.id for one in found]
    for search in (
        memory.fetch_long_term("Which bicycle?", session_id="none"),
        elsewhere.fetch_long_term("Which bicycle?", session_id=first.id, scope="thread"),
        service.search("somebody", "Which bicycle?", session_id=first.id),
    ):
        with pytest.raises(NotFound, match="no such session"):
            await search
    assert [session.character_id for session in await memory.sessions()] == [3, "mia-1"]


async def test_what_a_started_session_imports_belongs_to_it(memory: MemoryAgent, clock: FixedClock) -> None:
    """However old it is, over several calls, until its own times leave a gap."""
    await memory.update_memory("Hello", "Hi")
    await memory.start_session(MIA)
    old = START - timedelta(days=3_000)
    await memory.add_turns(said(lines(3), start=old))
    await memory.add_turns(said(lines(3), start=old + timedelta(hours=3)))
    assert await sessions_of(memory) == [1, 1, *[2] * 6]
    await memory.add_turns(said(lines(2), start=old + timedelta(hours=8)))
    await memory.start_session()
    clock.tick(9 * 86_400)
    assert (await memory.current_session()) is not None
    await memory.add_turn("user", "Much later")
    clock.tick(60)
    await memory.add_turn("user", "And on")
    assert await sessions_of(memory) == [1, 1, *[2] * 6, 3, 3, 4, 4]


async def test_a_session_after_a_cleared_thread_counts_its_own_turns(settings: dict[str, Any]) -> None:
    """Also one after the newest turns were forgotten; what is gone fills no session that comes after it."""
    async with opened(settings, max_turns_per_session=5, clock=FixedClock(START)) as service:
        memory = service.agent("ann", "chat")
        await memory.add_turns(said(lines(9)))
        await memory.clear()
        for _ in range(3):
            await memory.update_memory("Hello", "Hi")
        assert await sessions_of(memory) == [1, 1, 1, 1, 1, 2]
        await memory.forget([turn.id for turn in (await everything(memory))[3:]])
        await memory.start_session()
        for _ in range(3):
            await memory.update_memory("Hello", "Hi")
        assert await sessions_of(memory) == [1, 1, 1, 3, 3, 3, 3, 3, 4]


# --- reading -------------------------------------------------------------------------------------------------
@both_ways_by_day
async def test_the_whole_history_can_be_paged_through(settings: dict[str, Any]) -> None:
    """Of the thread or of one session, in order, compressed turns included, whatever the size of a page."""
    small = {"enable_topics": True, "max_messages_per_topic": 6, "recent_message_keep": 2}
    async with opened(settings, max_turns_per_session=7, **small) as service:
        memory = service.agent("ann", "chat")
        await memory.add_turns(said(lines(24)))
        await memory.settle(timeout=60)
        turns = await everything(memory)
        assert any(turn.compressed for turn in turns)
        one, *_ = sessions = await memory.sessions()
        for session_id, expected in (
            (None, lines(24)),
            (one.id, lines(7)),
            (sessions[-1].id, lines(3, first=22)),
        ):
            for limit in (1, 5, 7, 24, 10_000):
                found, after = [], 0
                while True:
                    page = await memory.history(session_id, after=after, limit=limit)
                    assert len(page.turns) <= limit
                    found += [turn.content for turn in page.turns]
                    if page.next is None:
                        break
                    after = page.next
                assert found == expected
        assert (await service.agent("ann", "other").history()).turns == ()


async def test_a_refused_call_leaves_no_session(memory: MemoryAgent) -> None:
    """Nor a turn; nor does one leave a session whose key was another call's."""
    with pytest.raises(InvalidInput, match=r"turns\[1\]"):
        await memory.add_turns([*said(["fine"]), {"role": "user", "content": ""}])
    assert (await memory.sessions(), await everything(memory)) == ([], [])
    await memory.add_turns(said(["one", "two"]), idempotency_key="k")
    late = said(["another"], start=START + timedelta(days=2))
    with pytest.raises(IdempotencyKeyReused, match="with another content; nothing was stored"):
        await memory.add_turns(late, idempotency_key="k")
    assert [session.total_turns for session in await memory.sessions()] == [2]


# --- many at once --------------------------------------------------------------------------------------------
async def test_many_first_turns_at_once_open_one_session(memory: MemoryAgent) -> None:
    """Whoever comes first, all belong to it; of many starts at once none is lost, and no two have a number in common."""
    await asyncio.gather(*(memory.update_memory(f"q {n}", f"a {n}") for n in range(20)))
    assert [session.total_turns for session in await memory.sessions()] == [40]
    assert await sessions_of(memory) == [1] * 40
    started = await asyncio.gather(*(memory.start_session(metadata={"n": n}) for n in range(8)))
    assert sorted(session.number for session in started) == list(range(2, 10))
    assert [session.number for session in await memory.sessions()] == list(range(1, 10))


async def test_a_repeated_call_opens_and_changes_nothing(memory: MemoryAgent, clock: FixedClock) -> None:
    """Even days later, when a new turn would open one; nor does one whose turns were forgotten."""
    first = await memory.update_memory("Hello", "Hi", idempotency_key="k")
    before = (await memory.sessions(), await everything(memory))
    for days in (0, 1, 30):
        clock.tick(days * 86_400)
        repeats = [memory.update_memory("Hello", "Hi", idempotency_key="k") for _ in range(5)]
        assert set(await asyncio.gather(*repeats)) == {first}
        sessions = await memory.sessions()
        assert ([session.id for session in sessions], len(await everything(memory))) == ([before[0][0].id], 2)
    await memory.forget(first.turn_ids)
    await memory.update_memory("Hello", "Hi", idempotency_key="k")
    assert len(await memory.sessions()) == 1


async def test_repeats_and_new_calls_at_once_leave_every_turn_in_a_session(
    memory: MemoryAgent, clock: FixedClock
) -> None:
    """What a repeat takes back was not another call's to build on."""
    await memory.update_memory("Hello", "Hi", idempotency_key="k")
    for round_ in range(5):
        clock.tick(86_400)
        calls = []
        for n in range(6):
            calls.append(memory.update_memory("Hello", "Hi", idempotency_key="k"))
            calls.append(memory.update_memory(f"q {round_} {n}", "a"))
        await asyncio.gather(*calls)
    known = {session.id for session in await memory.sessions()}
    assert {turn.session_id for turn in await everything(memory)} == known


# --- forgetting and isolation --------------------------------------------------------------------------------


@pytest.mark.parametrize("confirmed", [True, False])
async def test_a_session_that_went_while_its_turns_came_in_is_put_back(
    confirmed: bool, service: MemoryService, clock: FixedClock
) -> None:
    """By the call itself, or if its process died, by the next one."""
    memory, parts = service.agent("ann", "chat"), service.core
    drafts = admit(
        said(["Hello", "Hi"]), now=clock.now(), counter=parts.counter, idempotency_key=None, stages=()
    )
    placement = await parts.sessions.place(memory.scope, drafts)
    await memory.clear()
    stored = await parts.store.append_turns(memory.scope, placement.drafts)
    if confirmed:
        await parts.sessions.confirm(memory.scope, placement, stored)
        assert [s.total_turns for s in await memory.sessions()] == [2]
    await memory.update_memory("Are you there?", "Yes")
    assert [s.total_turns for s in await memory.sessions()] == [4]
    assert await sessions_of(memory) == [1] * 4


# --- idempotency ---------------------------------------------------------------------------------------------
async def test_a_repeat_of_start_session_starts_none(
    memory: MemoryAgent, service: MemoryService, clock: FixedClock
) -> None:
    """It gives the first session as it stands now, and one with other people is refused; the key is the thread's own, until it is cleared."""
    given = await asyncio.gather(*(memory.start_session(MIA, idempotency_key="k") for _ in range(8)))
    (first,) = await memory.sessions()
    assert given == [first] * 8
    await memory.update_memory("Hello", "Hi")
    clock.tick(60)
    last = await memory.start_session()
    for other, what in (
        (memory.start_session(MIA, participants=["Bo"], idempotency_key="k"), "participants"),
        (memory.start_session(idempotency_key="k"), "character"),
        (memory.start_session(MIA, metadata={"a": 1}, idempotency_key="k"), "metadata"),
    ):
        with pytest.raises(IdempotencyKeyReused, match=f"with another {what}; nothing was stored"):
            await other
    again = await memory.start_session(MIA, idempotency_key="k")
    assert again == dataclasses.replace(first, total_turns=2)
    assert [session.id for session in await memory.sessions()] == [first.id, last.id]
    assert (await service.agent("ann", "other").start_session(idempotency_key="k")).id != first.id
    for bad in ("", "a\nb", 7):
        with pytest.raises(InvalidInput, match="idempotency_key"):
            await memory.start_session(idempotency_key=bad)  # type: ignore[arg-type]
    await memory.clear()
    with pytest.raises(TurnForgotten, match="'k' was forgotten since"):
        await memory.start_session(MIA, idempotency_key="k")
    assert await memory.sessions() == []
    await memory.start_session(MIA, idempotency_key="k2")
