"""Google ADK's runner with the memory service: its own loop, a real HTTP server as the model."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from google.adk.agents import Agent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.google_llm import Gemini
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.session import Session
from google.adk.tools.load_memory_tool import load_memory_tool
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai import Client, types

from memory_agent import MemoryService
from memory_agent.errors import InvalidInput
from memory_agent.integrations.adk import AdkMemoryService
from tests.frameworks.gemini_script import ScriptedGemini, calling
from tests.frameworks.talks import CAT, KEY, Talk, Talks
from tests.over_http import both_ways_by_day

pytestmark = pytest.mark.usefixtures("both_ways")


@pytest.fixture
async def gemini() -> AsyncIterator[ScriptedGemini]:
    server = ScriptedGemini().start()
    yield server
    server.stop()


@pytest.fixture
async def model(gemini: ScriptedGemini) -> AsyncIterator[Gemini]:
    """On connections of this test, which end with it."""
    async with httpx.AsyncClient() as http:
        options = types.HttpOptions(base_url=gemini.url, httpx_async_client=http)
        yield Gemini(model="gemini-2.5-flash", client=Client(api_key="none", http_options=options))


@pytest.fixture
def memories(service: MemoryService) -> AdkMemoryService:
    return AdkMemoryService(service)


def event(text: str, *, author: str = "user", **fields: Any) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author=author, content=content, **fields)


def session_of(*events: Event, user: str = "ada", session: str = "s", app: str = "trips") -> Session:
    return Session(id=session, app_name=app, user_id=user, events=list(events))


async def found(
    memories: AdkMemoryService, query: str, user: str = "ada", app: str = "trips"
) -> list[MemoryEntry]:
    return (await memories.search_memory(app_name=app, user_id=user, query=query)).memories


def text_of(entry: MemoryEntry) -> str:
    (part,) = entry.content.parts or []
    return str(part.text)


async def said(service: MemoryService, thread: str = "s", user: str = "trips/ada") -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in (await service.agent(user, thread).history()).turns]


# --- the service's rules, after the behaviour of ADK's own ---------------------------------------------------------
@both_ways_by_day
async def test_a_session_that_grows_is_remembered_once(
    service: MemoryService, memories: AdkMemoryService
) -> None:
    events = [event("I like trams."), event("Noted.", author="helper")]
    await memories.add_session_to_memory(session_of(*events))
    events.append(event("And boats."))
    for _ in range(2):
        await memories.add_session_to_memory(session_of(*events))
    await memories.add_events_to_memory(app_name="trips", user_id="ada", events=events[1:], session_id="s")
    assert await said(service) == [("user", "I like trams."), ("assistant", "Noted."), ("user", "And boats.")]
    (turn, *_) = (await service.agent("trips/ada", "s").history()).turns
    assert abs(turn.timestamp.timestamp() - events[0].timestamp) < 0.002


async def test_several_that_add_a_session_at_once_remember_it_once(
    service: MemoryService, memories: AdkMemoryService
) -> None:
    session = session_of(*(event(f"The stop number {n} is green.") for n in range(5)))
    await asyncio.gather(*(memories.add_session_to_memory(session) for _ in range(4)))
    assert sorted(await said(service)) == [("user", f"The stop number {n} is green.") for n in range(5)]


async def test_what_says_nothing_is_left_out(service: MemoryService, memories: AdkMemoryService) -> None:
    call = types.Part(function_call=types.FunctionCall(name="weather", args={"city": "Oslo"}))
    result = types.Part(function_response=types.FunctionResponse(name="weather", response={"is": "snow"}))
    thought = types.Part(text="Hm.", thought=True)
    parts = [call, result, thought, types.Part(text=" ")]
    events = [Event(author="helper", content=types.Content(role="model", parts=[part])) for part in parts]
    events += [Event(author="helper"), event("It sn", author="helper", partial=True)]
    both = types.Content(role="model", parts=[thought, types.Part(text="It snows."), call])
    events.append(Event(author="helper", content=both))
    await memories.add_session_to_memory(session_of(*events))
    assert await said(service) == [("assistant", "It snows.")]


async def test_a_search_finds_by_meaning_best_first_with_author_and_time(
    service: MemoryService, memories: AdkMemoryService
) -> None:
    cat = event("My cat Minka sleeps on the sofa.", timestamp=1_700_000_000.5)
    await memories.add_session_to_memory(session_of(cat, event("Saturn has rings of ice.", author="helper")))
    await memories.add_events_to_memory(
        app_name="trips",
        user_id="ada",
        events=[event("The engine of the old automobile needs oil.")],
        custom_metadata={"source": "garage"},
    )
    await service.settle()
    (best, *_) = await found(memories, "Where does the cat sleep?")
    assert (text_of(best), best.author) == ("My cat Minka sleeps on the sofa.", "user")
    assert best.timestamp == "2023-11-14T22:13:20.500000+00:00"
    (car, *_) = await found(memories, "What does the car need?")
    assert car.custom_metadata["source"] == "garage"
    assert 0 < car.custom_metadata["confidence"] <= 1
    (saturn, *_) = await found(memories, "Which planet has rings?")
    assert saturn.author == "helper"
    assert len(await found(AdkMemoryService(service, top_k=1), "cat, car or Saturn?")) == 1
    assert await found(memories, " ") == []


async def test_users_and_applications_are_apart(service: MemoryService, memories: AdkMemoryService) -> None:
    apart = [("trips", "ada"), ("trips", "a_a"), ("trips", "a%"), ("trip_", "ada"), ("trips", "ada/x")]
    for app, user in apart:
        await memories.add_session_to_memory(
            session_of(event(f"The word of {app} {user} is tram."), app=app, user=user)
        )
    await service.settle()
    for app, user in apart:
        words = [text_of(entry) for entry in await found(memories, "What is the word?", user, app)]
        assert words == [f"The word of {app} {user} is tram."]
    assert await found(memories, "What is the word?", "nobody") == []
    with pytest.raises(InvalidInput, match="slash"):
        await found(memories, "word", "x", "trips/ada")


async def test_a_deleted_memory_stays_deleted_when_its_session_is_added_again(
    service: MemoryService, memories: AdkMemoryService
) -> None:
    session = session_of(event("The key is under the mat."), event("The cat is at Bob's."))
    await memories.add_session_to_memory(session)
    await service.settle()
    (key, *_) = await found(memories, "Where is the key?")
    for memory_id in (None, "", "unknown", "unknown/s"):
        await memories.delete_memory(app_name="trips", user_id="ada", memory_id=memory_id)
    await memories.delete_memory(app_name="trips", user_id="eve", memory_id=key.id)
    assert len(await said(service)) == 2
    await memories.delete_memory(app_name="trips", user_id="ada", memory_id=key.id)
    await memories.add_session_to_memory(session)
    assert await said(service) == [("user", "The cat is at Bob's.")]
    assert "key" not in str(await found(memories, "Where is the key?"))


async def test_memories_of_no_session_are_remembered_once(
    service: MemoryService, memories: AdkMemoryService
) -> None:
    content = types.Content(parts=[types.Part(text="Ada eats no meat.")])
    entry = MemoryEntry(id="m1", content=content, timestamp="2024-05-01T10:00:00", custom_metadata={"a": 1})
    for _ in range(2):
        await memories.add_memory(app_name="trips", user_id="ada", memories=[entry])
    await service.settle()
    (food,) = await found(memories, "What does Ada eat?")
    assert food.timestamp == "2024-05-01T10:00:00+00:00"
    assert food.custom_metadata["a"] == 1


# --- with the runner ----------------------------------------------------------------------------------------------
async def remember(callback_context: Any) -> None:
    await callback_context.add_session_to_memory()


class Loop:
    """ADK's runner with a helper that recalls, and remembers after each run."""

    def __init__(self, memories: AdkMemoryService, model: Gemini, tool: Any = None) -> None:
        agent = Agent(
            name="helper",
            model=model,
            instruction="Answer briefly.",
            tools=[tool or PreloadMemoryTool()],
            after_agent_callback=remember,
        )
        self.runner = Runner(
            app=App(name="trips", root_agent=agent),
            session_service=InMemorySessionService(),
            memory_service=memories,
        )

    async def say(self, text: str, *, user: str = "ada", thread: str = "t") -> str:
        ids: Any = {"user_id": user, "session_id": thread}
        sessions = self.runner.session_service
        if await sessions.get_session(app_name="trips", **ids) is None:
            await sessions.create_session(app_name="trips", **ids)
        message = types.Content(role="user", parts=[types.Part(text=text)])
        answers = [
            event.content.parts[0].text
            async for event in self.runner.run_async(**ids, new_message=message)
            if event.is_final_response() and event.content and event.content.parts
        ]
        return str(answers[-1])


@pytest.fixture
def talk(memories: AdkMemoryService, gemini: ScriptedGemini, model: Gemini) -> Talk:
    return Talk(Loop(memories, model).say, gemini)


class TestTalks(Talks):
    user = "trips/ada"
    after_cancelled = (("user", KEY), ("user", CAT), ("assistant", "Noted."))


async def test_nothing_that_was_recalled_is_stored_or_becomes_a_fact(
    service: MemoryService, memories: AdkMemoryService, gemini: ScriptedGemini, model: Gemini
) -> None:
    await service.agent("trips/ada", "old").update_memory("My name is Ada and I live in Oslo.", "Hello.")
    await service.settle()
    before = await service.agent("trips/ada", "old").fetch_facts()
    gemini.then("In the north.")
    await Loop(memories, model).say("Where do I live?")
    gemini.then(calling("load_memory", query="home"), "In the north.")
    await Loop(memories, model, load_memory_tool).say("Where do I live?", thread="asked")
    assert "Oslo" in str(gemini.asked[0])
    assert "Oslo" in str(gemini.asked[-1])
    await service.settle()
    for session in ("t", "asked"):
        assert await said(service, session) == [("user", "Where do I live?"), ("assistant", "In the north.")]
        assert await service.agent("trips/ada", session).fetch_facts(scope="thread") == {}
    assert await service.agent("trips/ada", "old").fetch_facts() == before


async def test_an_event_is_known_by_its_id_whatever_else_comes_with_it(
    service: MemoryService, memories: AdkMemoryService
) -> None:
    events = [event(f"text {number}", id=f"e{number}") for number in range(3)]
    place: dict[str, Any] = {"app_name": "trips", "user_id": "ada", "session_id": "s"}
    await memories.add_events_to_memory(**place, events=events[:2], custom_metadata={"from": "mail"})
    await service.agent("trips/ada", "s").update_memory("Said elsewhere.", "Yes.")
    await memories.add_events_to_memory(**place, events=[events[0], events[2]])
    await memories.add_session_to_memory(session_of(*events))
    assert [text for _, text in await said(service)] == [
        "text 0", "text 1", "Said elsewhere.", "Yes.", "text 2",
    ]  # fmt: skip
