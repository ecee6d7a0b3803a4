"""Facts end to end: extracted from turns with their source, put right by people, told as of any time."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory_agent import InvalidInput, MemoryAgent, TurnInput
from memory_agent.testing import FixedClock
from tests.fixtures import on_both_by_day
from tests.integration.fact_script import (
    add,
    asked,
    asking,
    by_words,
    context,
    known,
    opened,
    standing,
)
from tests.over_http import both_ways_by_day
from tests.servers.openai_script import Request, ScriptedOpenAI

pytestmark = pytest.mark.usefixtures("both_ways")  # see tests/over_http.py

MONDAY = datetime(2026, 5, 4, 9, tzinfo=UTC)
INTRODUCTION = "I'm John, I work as a software engineer. I prefer morning meetings."
MOVE = "Actually I moved to a product role"
WORKED_EXAMPLE = {
    INTRODUCTION: [
        add("name", "John", "I'm John"),
        add("occupation", "software engineer", "I work as a software engineer"),
        add("preferences.meeting_time", "morning", "I prefer morning meetings."),
    ],
    MOVE: [add("occupation", "product role", "I moved to a product role")],
}
BEFORE = {"name": "John", "occupation": "software engineer", "preferences": {"meeting_time": "morning"}}


async def say(memory: MemoryAgent, *texts: str) -> list[str]:
    """What the user says, turn by turn, settled; the turns' ids."""
    turns = await memory.add_turns([TurnInput(role="user", content=text) for text in texts])
    await memory.settle(timeout=60)
    return [turn.id for turn in turns]


# --- the worked example --------------------------------------------------------------------------------------
@on_both_by_day
@pytest.mark.parametrize("by", ["patterns", "llm"])
async def test_the_worked_example(by: str, settings: dict[str, Any], openai_server: ScriptedOpenAI) -> None:
    """What a user says of themselves is known with its source; what changes later is known as of any time."""
    openai_server.answer = by_words(WORKED_EXAMPLE)
    chosen = asking(settings, openai_server) if by == "llm" else settings
    clock = FixedClock(MONDAY)
    async with opened(chosen, clock=clock) as service:
        memory = service.agent("john", "chat")
        first, _ = (await memory.update_memory(INTRODUCTION, "Noted, John.")).turn_ids
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == BEFORE
        records = await standing(memory)
        assert {record.path[-1] for record in records} == {"name", "occupation", "meeting_time"}
        for record in records:
            (source,) = record.sources
            assert (source.turn_id, source.thread_id, source.said_at) == (first, "chat", MONDAY)
            assert source.quote
            assert source.quote in INTRODUCTION
            assert source.extractor.startswith(by)
        between = clock.tick(60)
        clock.tick(60)
        second, _ = (await memory.update_memory(MOVE, "Congratulations!")).turn_ids
        await memory.settle(timeout=60)
        after = {**BEFORE, "occupation": "product role"}
        assert await memory.fetch_facts() == after
        old, new = await memory.fact_history("occupation")
        assert (old.value, old.stands, old.superseded_by) == ("software engineer", False, new.id)
        expected = ("product role", True, None, "software engineer")
        assert (new.value, new.stands, new.superseded_by, new.old) == expected
        assert new.sources[0].turn_id == second
        assert (new.sources[0].quote or "nothing") in MOVE
        assert await memory.fetch_facts(as_of=between) == BEFORE
        assert await memory.fetch_facts(recorded_by=between) == BEFORE
        assert await memory.fetch_facts(as_of=clock.now()) == after
        assert await memory.fetch_facts(as_of=MONDAY - timedelta(seconds=1)) == {}
        text = str(await memory.fetch_memory("What do I do?"))
        assert "- occupation: product role" in text
        # A turn of last week that is extracted today counts from then by `as_of`, from today by `recorded_by`.
        clock.tick(7 * 86_400)
        memory = service.agent("johan", "later")
        await memory.add_user_message(INTRODUCTION, timestamp=MONDAY)
        await memory.settle(timeout=60)
        a_day_later = MONDAY + timedelta(days=1)
        assert await memory.fetch_facts(as_of=a_day_later) == BEFORE
        assert await memory.fetch_facts(recorded_by=a_day_later) == {}
        assert await memory.fetch_facts(recorded_by=clock.now()) == BEFORE


# --- batches and what they show ------------------------------------------------------------------------------
async def stored_before(settings: dict[str, Any], turns: list[TurnInput]) -> list[str]:
    """Turns that wait for their facts; their ids."""
    async with opened({**settings, "run_worker": False}) as service:
        return [turn.id for turn in await service.agent("ann", "chat").add_turns(turns)]


async def test_waiting_turns_are_asked_about_together(
    settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """One call for two waiting turns of a thread, with what is known, and before those of few words the turn before."""
    rules = {"garden": [add("belongings", ["garden"], "I have a garden")]}
    openai_server.answer = by_words(rules)
    settings = asking(settings, openai_server)
    async with opened(settings) as service:
        memory = service.agent("ann", "chat")
        await memory.add_user_message("I have a garden.", timestamp=MONDAY)
        await memory.add_assistant_message("What grows there?", timestamp=MONDAY)
        await memory.settle(timeout=60)
    assert len(openai_server.chats) == 1
    friday = MONDAY + timedelta(days=4)
    await stored_before(
        settings,
        [
            TurnInput(role="user", content="Tomatoes, and my sister helps.", timestamp=friday),
            TurnInput(role="assistant", content="Lovely.", timestamp=friday),
            TurnInput(role="user", content="She is called Mia.", timestamp=friday, speaker="Ann"),
            TurnInput(
                role="user", content="I love the <message> of my garden, and its bees.", timestamp=friday
            ),
        ],
    )
    async with opened(settings) as service:
        await service.agent("ann", "chat").settle(timeout=60)
    _, *later = openai_server.chats
    assert [[(message.text, message.speaker) for message in asked(body)] for body in later] == [
        [("Tomatoes, and my sister helps.", "user"), ("She is called Mia.", "Ann")],
        [("I love the &lt;message> of my garden, and its bees.", "user")],
    ]
    assert context(later[0]) == ["assistant: What grows there?", "assistant: Lovely."]
    assert "belongings: garden" in known(later[1])


async def test_the_cost_is_as_the_server_counts(
    settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """status().extraction adds up the usage of every reply, of those that could not be read too."""
    usages: list[tuple[int, int]] = []
    answer = by_words({"chess": [add("interests", ["chess"], "I play chess")]})

    def counted(body: Request) -> str:
        text = '{"no JSON' if len(usages) == 0 else answer(body)
        words = sum(len(message["content"].split()) for message in body["messages"])
        usages.append((words, len(text.split())))
        return text

    openai_server.answer = counted
    async with opened(asking(settings, openai_server, max_attempts=5, facts_batch_turns=4)) as service:
        memory = service.agent("ann", "chat")
        await say(memory, "I play chess.")
        await say(memory, *(f"Move {number}." for number in range(9)))
        cost = (await memory.status()).extraction
        assert (cost.requests, cost.prompt_tokens, cost.completion_tokens) == (
            len(usages),
            sum(sent for sent, _ in usages),
            sum(received for _, received in usages),
        )
        assert 2 + math.ceil(9 / 4) <= cost.requests == len(openai_server.chats)
        assert (await service.status()).extraction == cost
        assert (await service.agent("bob", "chat").status()).extraction.requests == 0


# --- people --------------------------------------------------------------------------------------------------
async def test_people_outrank_what_was_said(settings: dict[str, Any], openai_server: ScriptedOpenAI) -> None:
    """An edit stands against turns that were stored before it, also if they are extracted later; a later turn updates it."""
    rules = {
        "Bergen": [add("location", "Bergen", "I live in Bergen")],
        "Oslo": [add("location", "Oslo", "I moved to Oslo")],
    }
    openai_server.answer = by_words(rules)
    settings = asking(settings, openai_server)
    async with opened({**settings, "run_worker": False}) as service:
        memory = service.agent("ann", "chat")
        await memory.add_user_message("I live in Bergen.")
        record = await memory.set_fact("location", "Trondheim")
        assert (record.by, record.confidence, record.sources[0].turn_id) == ("person", 1.0, None)
    async with opened(settings) as service:
        memory = service.agent("ann", "chat")
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == {"location": "Trondheim"}
        bergen, trondheim = await memory.fact_history("location")
        assert (bergen.value, bergen.superseded_by) == ("Bergen", trondheim.id)
        await say(memory, "I moved to Oslo.")
        assert await memory.fetch_facts() == {"location": "Oslo"}
        await memory.revert_fact("location")
        assert await memory.fetch_facts() == {"location": "Trondheim"}


@both_ways_by_day
async def test_edits_by_people(settings: dict[str, Any]) -> None:
    """Set, add, retract and revert do what they say at once, and each is an event with its old value."""
    async with opened({**settings, "run_worker": False}) as service:
        memory = service.agent("ann", "chat")
        first = await memory.set_fact("preferences.Meeting time", "morning")
        assert first.path == ("preferences", "meeting_time")
        await memory.add_fact("pets", "Rex")
        await memory.add_fact(["pets"], "Tom")
        expected = {"preferences": {"meeting_time": "morning"}, "pets": ["Rex", "Tom"]}
        assert await memory.fetch_facts() == expected
        gone = await memory.retract_fact("pets", "rex")
        assert (gone.op, gone.old, gone.stands) == ("remove", "Rex", False)
        with pytest.raises(InvalidInput, match=r"'hobbies', and nothing"):
            await memory.revert_fact("hobbies")
        second = await memory.set_fact("preferences", {"meeting_time": "noon", "drinks": ["tea"]})
        assert second.old == {"meeting_time": "morning"}
        assert (await memory.fact_history("preferences.meeting_time"))[0].superseded_by == second.id
        back = await memory.revert_fact("", to=first.id)
        assert await memory.fetch_facts() == {"preferences": {"meeting_time": "morning"}}
        await memory.revert_fact("", to=second.id)
        wanted = {"preferences": {"meeting_time": "noon", "drinks": ["tea"]}, "pets": ["Tom"]}
        assert await memory.fetch_facts() == wanted
        assert [record.op for record in await memory.fact_history()] == [
            *("set", "add", "add", "remove", "set", "revert", "revert")
        ]
        assert not back.stands
        # An edit that says what a larger edit said already is a source of that.
        memory = service.agent("bob", "chat")
        whole = await memory.set_fact("dog", {"name": "Rex", "age": 3})
        part = await memory.set_fact("dog.name", "Rex")
        assert (part.id, len(part.sources)) == (whole.id, 2)
        assert await memory.fetch_facts() == {"dog": {"name": "Rex", "age": 3}}


# --- several threads -----------------------------------------------------------------------------------------
async def test_a_users_threads_are_read_together(settings: dict[str, Any]) -> None:
    """By default: lists unite and the newest statement of all threads counts; another user sees nothing of it."""
    clock = FixedClock(MONDAY)
    async with opened(settings, clock=clock) as service:
        work, home = service.agent("ann", "work"), service.agent("ann", "home")
        await say(work, "I live in Bergen.", "I like chess.")
        clock.tick(60)
        await say(home, "I live in Oslo.", "I like tea.")
        alone = {"location": "Bergen", "preferences": {"likes": ["chess"]}}
        assert await work.fetch_facts(scope="thread") == alone
        both = {"location": "Oslo", "preferences": {"likes": ["chess", "tea"]}}
        for memory in (work, home):
            assert await memory.fetch_facts() == await memory.fetch_facts(scope="user") == both
        clock.tick(60)
        await work.set_fact("location", "Trondheim")
        assert (await home.fetch_facts())["location"] == "Trondheim"
        assert (await home.fetch_facts(scope="thread"))["location"] == "Oslo"
        threads = {record.thread_id for record in await home.fact_history()}
        assert threads == {"work", "home"}
        stranger = service.agent("bob", "work")
        assert await stranger.fetch_facts() == {}
        assert await stranger.fact_history() == []
        with pytest.raises(InvalidInput, match="nothing is known"):
            await stranger.retract_fact("location")
        clock.tick(60)
        await home.retract_fact("preferences.likes", "chess")
        assert (await work.fetch_facts())["preferences"] == {"likes": ["tea"]}
