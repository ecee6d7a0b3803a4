"""The OpenAI Agents SDK's runner with the session: its own loop, a real HTTP server as the model."""

import asyncio
import copy
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    RunConfig,
    RunContextWrapper,
    Runner,
    Session,
    SessionSettings,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from memory_agent import MemoryConfig, MemoryService
from memory_agent.errors import InvalidInput
from memory_agent.integrations.openai_agents import MemorySession
from memory_agent.integrations.shared import turns_of
from memory_agent.testing import HashEmbedder
from tests.frameworks.pages import calling, said, sent_to, streamed, streamed_call
from tests.frameworks.talks import CAT, KEY, Talk, TalksWithHistory
from tests.integration.test_redaction import CARD, hide_cards
from tests.over_http import both_ways_by_day, embedded_only
from tests.servers.openai_script import ScriptedOpenAI

pytestmark = pytest.mark.usefixtures("both_ways")
set_tracing_disabled(True)


@dataclass
class Person:
    user_id: str
    thread_id: str


@pytest.fixture
def session(service: MemoryService) -> MemorySession:
    return MemorySession(service.agent("ada", "t"))


@pytest.fixture
async def agent(openai_server: ScriptedOpenAI) -> AsyncIterator[Agent[Any]]:
    @function_tool
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"snow in {city}"

    async with AsyncOpenAI(base_url=openai_server.base_url, api_key="none", max_retries=0) as client:
        model = OpenAIChatCompletionsModel(model="scripted", openai_client=client)
        yield Agent(name="Helper", instructions="Answer briefly.", model=model, tools=[weather])


async def say(agent: Agent[Any], text: str, session: MemorySession, **how: Any) -> str:
    config = RunConfig(call_model_input_filter=session.recall, **how.pop("config", {}))
    result = await Runner.run(agent, text, session=session, run_config=config, **how)
    return str(result.final_output)


USER: Any = {"role": "user", "content": "What's the weather in Oslo?"}
CALL: Any = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "weather",
    "arguments": '{"$city": "Oslo"}',
}
RESULT: Any = {"type": "function_call_output", "call_id": "call_1", "output": "snow 100 % _ \u0000 🌨"}
THOUGHT: Any = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "\\" * 100_000}
ANSWER: Any = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "It snows.", "annotations": []}],
}
IMAGE: Any = {
    "role": "user",
    "content": [{"type": "input_image", "image_url": "data:image/png;base64," + "iVBORw" * 50_000}],
}
ITEMS = [USER, THOUGHT, CALL, RESULT, ANSWER, IMAGE]


# --- the protocol, after the behaviour of the SDK's own sessions --------------------------------------------------
@both_ways_by_day
async def test_items_of_every_kind_and_size_come_back_unchanged_and_in_order(session: MemorySession) -> None:
    before = copy.deepcopy(ITEMS)
    many_texts: Any = {"type": "custom", "output": ["ab"] * 10_000}
    await session.add_items(ITEMS[:2])
    await session.add_items([*ITEMS[2:], many_texts])
    assert await session.get_items() == [*before, many_texts]
    assert list((await session.get_items())[2]) == list(CALL)  # the order of keys too
    assert isinstance(session, Session)


async def test_a_limit_gives_the_latest_items_and_popped_ones_are_gone_the_last_first(
    session: MemorySession, service: MemoryService
) -> None:
    await session.add_items(ITEMS)
    for limit in range(len(ITEMS) + 2):
        assert await session.get_items(limit) == ITEMS[max(len(ITEMS) - limit, 0) :]
    assert await session.get_items(-1) == []
    # Popped items are gone, the last first
    await session.clear_session()
    await session.add_items(ITEMS)
    assert [await session.pop_item() for _ in range(len(ITEMS) + 1)] == [*ITEMS[::-1], None]
    assert await said(service) == []
    await session.add_items([USER])
    assert await session.get_items() == [USER]


async def test_clearing_one_session_leaves_the_others(service: MemoryService, session: MemorySession) -> None:
    others = [MemorySession(service.agent(*ids)) for ids in (("ada", "t_"), ("ada", "t%"), ("eve", "t"))]
    for each in (session, *others):
        await each.add_items([USER])
    await session.clear_session()
    await session.clear_session()
    assert await session.get_items() == []
    assert [await other.get_items() for other in others] == [[USER]] * 3


async def test_what_is_said_is_the_text_of_turns_and_turns_that_came_otherwise_are_no_items(
    service: MemoryService, session: MemorySession
) -> None:
    await session.add_items([])
    assert await said(service) == []
    # What is said is the text of turns.
    await session.add_items([USER, CALL, RESULT, ANSWER])
    assert await said(service) == [
        ("user", "What's the weather in Oslo?"),
        ("tool", "[function_call weather]"),
        ("tool", "[function_call_output]"),
        ("assistant", "It snows."),
    ]
    # Turns that came otherwise are no items
    await session.clear_session()
    await session.add_items([USER])
    await service.agent("ada", "t").update_memory("I like trams.", "Noted.")
    assert await session.get_items() == [USER]
    assert await session.get_items(1) == [USER]
    assert await session.pop_item() == USER
    assert len(await said(service)) == 2


async def test_several_that_add_or_pop_at_once_lose_nothing_and_share_nothing(session: MemorySession) -> None:
    runs: Any = [[{"role": "user", "content": f"{run} {n}"} for n in range(5)] for run in "ab"]
    await asyncio.gather(*(session.add_items(items) for items in runs))
    found: list[Any] = list(await session.get_items())
    assert [[item for item in found if item["content"][0] == run] for run in "ab"] == runs
    # Of several that pop each gets another item
    await session.clear_session()
    items: Any = [{"role": "user", "content": f"number {n}"} for n in range(5)]
    await session.add_items(items)
    popped: list[Any] = await asyncio.gather(*(session.pop_item() for _ in range(7)))
    assert sorted(item["content"] for item in popped if item) == [item["content"] for item in items]


async def test_parts_of_large_items_that_stand_between_each_other_are_told_apart(
    service: MemoryService, session: MemorySession
) -> None:
    """As two processes leave them that write at once on MongoDB."""
    one, other = (turns_of("user", text, {"role": "user", "content": text * 90_000}) for text in "ab")
    mixed = [turn for pair in zip(one, other, strict=True) for turn in pair]
    await service.agent("ada", "t").add_turns(mixed[:-1])
    found: list[Any] = await session.get_items()
    assert [item["content"][:1] for item in found] == ["a"]
    await service.agent("ada", "t").add_turns(mixed[-1:])
    both: list[Any] = await session.get_items()
    assert [item["content"] for item in both] == ["a" * 90_000, "b" * 90_000]


@embedded_only("the service is asked by what it is made of")
async def test_a_cancelled_call_has_stored_all_or_nothing(
    service: MemoryService, session: MemorySession
) -> None:
    for pauses in range(12):
        adding = asyncio.create_task(session.add_items(ITEMS))
        for _ in range(pauses):
            await asyncio.sleep(0)
        adding.cancel()
        adding.cancel()
        await asyncio.gather(adding, return_exceptions=True)
        stored = await session.get_items()
        assert stored in ([], ITEMS)
        await session.clear_session()


@embedded_only("a service of its own")
async def test_texts_of_items_are_redacted_and_what_the_api_has_to_know_again_stays(
    embedded_settings: dict[str, Any],
) -> None:
    call_id, secret = f"call {CARD}", f"My card is {CARD}. "
    call = {**CALL, "call_id": call_id, "arguments": f'{{"card": "{CARD}"}}'}
    items: Any = [
        {"role": "user", "content": secret * 5_000},
        {"role": "user", "content": [{"type": "input_text", "text": secret}]},
        call,
        {**RESULT, "call_id": call_id, "output": f"{secret}\ud83d"},
        ANSWER,
        {**RESULT, "output": f"{'x' * 19_990} {CARD} {'x' * 19_980} {CARD} {'x' * 40_000}"},
        {"type": "file_search_call", "results": [{"attributes": {"customer_name": CARD}, "text": CARD}]},
        {"type": "image_generation_call", "result": f"call {CARD}"},
    ]
    cfg = MemoryConfig(**embedded_settings, redact_before_storing=True, enable_fact_extraction=False)
    async with MemoryService(cfg, redact=hide_cards, embedder=HashEmbedder()) as service:
        session = MemorySession(service.agent("ada", "t"))
        await session.add_items(items)
        found = await session.get_items()
        turns = (await service.agent("ada", "t").history()).turns
    assert [
        (turn.content.count(CARD), str(turn.metadata).count(CARD)) for turn in turns if CARD in str(turn)
    ] == [(0, 1)] * 3
    assert found[0]["content"] == hide_cards(secret) * 5_000  # type: ignore[typeddict-item]
    assert found[1]["content"][0]["text"] == hide_cards(secret)  # type: ignore[index, typeddict-item]
    assert found[2] == {**call, "arguments": '{"card": "[card]"}'}
    assert found[3:5] == [{**items[3], "output": f"{hide_cards(secret)}\ud83d"}, ANSWER]
    assert found[5] == {**items[5], "output": hide_cards(items[5]["output"])}
    assert found[6]["results"] == [{"attributes": {"customer_name": "[card]"}, "text": "[card]"}]  # type: ignore[typeddict-item]
    assert found[7] == items[7]


@embedded_only("no service")
def test_a_large_value_fills_its_turns() -> None:
    assert len(turns_of("tool", "image", {"image_url": "A" * 100_000})) == 3


# --- with the runner ----------------------------------------------------------------------------------------------


@pytest.fixture
def talk(service: MemoryService, agent: Agent[Any], openai_server: ScriptedOpenAI) -> Talk:
    async def say_there(text: str, *, user: str = "ada", thread: str = "t") -> None:
        await say(agent, text, MemorySession(service.agent(user, thread)))

    return Talk(say_there, openai_server)


class TestTalks(TalksWithHistory):
    after_cancelled = (("user", KEY), ("user", CAT), ("assistant", "Noted."))


async def test_one_session_serves_many_users_by_the_context_of_the_run(
    service: MemoryService, agent: Agent[Any], openai_server: ScriptedOpenAI
) -> None:
    openai_server.then("Noted.", "Hello Eve.")
    session = MemorySession(lambda person: service.agent(person.user_id, person.thread_id))
    ada, eve = Person("ada", "t"), Person("eve", "t")
    await say(agent, "I like trams.", session, context=ada)
    await say(agent, "Hello.", session, context=eve)
    assert await said(service, "ada") == [("user", "I like trams."), ("assistant", "Noted.")]
    assert await said(service, "eve") == [("user", "Hello."), ("assistant", "Hello Eve.")]
    assert "trams" not in sent_to(openai_server)[1]
    assert len(await session.get_items(wrapper=RunContextWrapper(ada))) == 2
    with pytest.raises(InvalidInput, match="wrapper="):
        await session.get_items()


async def test_nothing_that_was_recalled_is_stored_or_becomes_a_fact(
    service: MemoryService, agent: Agent[Any], openai_server: ScriptedOpenAI, session: MemorySession
) -> None:
    await service.agent("ada", "old").update_memory("My name is Ada and I live in Oslo.", "Hello.")
    await service.settle()
    before = await service.agent("ada", "old").fetch_facts()
    openai_server.then(calling("weather", '{"city": "Bergen"}'), "You live in the north.", "Yes.")
    await say(agent, "Where do I live?", session)
    await say(agent, "Really?", session)
    for asked in openai_server.chats:
        system = asked["messages"][0]["content"]
        assert system.startswith("Answer briefly.\n\n")
        assert "Oslo" in system
    await service.settle()
    assert "Oslo" not in str(await session.get_items())
    assert "Oslo" not in str(await said(service))
    assert await service.agent("ada", "t").fetch_facts(scope="thread") == {}
    assert await service.agent("ada", "t").fetch_facts() == before


async def test_a_limit_between_a_call_and_its_result_splits_no_pair(
    agent: Agent[Any], openai_server: ScriptedOpenAI, session: MemorySession
) -> None:
    await session.add_items([USER, CALL, RESULT, ANSWER])
    openai_server.then(*["Yes."] * 4)
    for limit in (1, 2, 3, 4):
        stored = await session.get_items()
        await say(agent, "Is that so?", session, config={"session_settings": SessionSettings(limit=limit)})
        roles = [message["role"] for message in openai_server.chats[-1]["messages"]]
        assert ("tool" in roles) == any(
            message.get("tool_calls") for message in openai_server.chats[-1]["messages"]
        )
        assert await session.pop_item()
        assert await session.pop_item()
        assert await session.get_items() == stored
    assert "tool" in roles


async def test_a_stream_is_remembered_once_and_whole(
    service: MemoryService, agent: Agent[Any], openai_server: ScriptedOpenAI, session: MemorySession
) -> None:
    openai_server.then(streamed_call("weather", '{"city": "Oslo"}'), streamed("It snows in Oslo."))
    config = RunConfig(call_model_input_filter=session.recall)
    result = Runner.run_streamed(agent, "How is it in Oslo?", session=session, run_config=config)
    async for _ in result.stream_events():
        pass
    turns = [each for each in await said(service) if each[0] != "tool"]
    assert turns == [("user", "How is it in Oslo?"), ("assistant", "It snows in Oslo.")]


async def test_of_a_stream_that_is_left_early_what_was_said_stays_and_no_half_of_an_answer(
    service: MemoryService, agent: Agent[Any], openai_server: ScriptedOpenAI, session: MemorySession
) -> None:
    openai_server.then(streamed("Nobody hears this."), "It snows.")
    config = RunConfig(call_model_input_filter=session.recall)
    result = Runner.run_streamed(agent, "How is it?", session=session, run_config=config)
    async for event in result.stream_events():
        if event.type == "raw_response_event":
            break
    result.cancel()
    await asyncio.gather(result.run_loop_task or asyncio.sleep(0), return_exceptions=True)
    await say(agent, "And now?", session)
    assert await said(service) == [("user", "How is it?"), ("user", "And now?"), ("assistant", "It snows.")]


async def test_a_callback_may_choose_what_of_the_history_is_shown(
    service: MemoryService, agent: Agent[Any], openai_server: ScriptedOpenAI, session: MemorySession
) -> None:
    openai_server.then("One.", "Two.")
    await say(agent, "First.", session)
    await say(agent, "Second.", session, config={"session_input_callback": lambda history, new: new})
    assert [message["role"] for message in openai_server.chats[-1]["messages"]] == ["system", "user"]
    assert [text for _, text in await said(service)] == ["First.", "One.", "Second.", "Two."]
