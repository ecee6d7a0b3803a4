"""Whatever a model's server answers: what can be read counts, with its source, and no turn waits for the rest."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import pytest

from memory_agent import MemoryAgent, MemoryService
from memory_agent.testing import BruteForceIndex
from tests.integration.fact_script import (
    Item,
    add,
    asked,
    asking,
    by_words,
    opened,
    prompt,
    refused,
    reply,
    standing,
)
from tests.servers.openai_script import Reply, Request, ScriptedOpenAI

SPOONS: Final = "On Sundays I carve spoons"
TEXT: Final = f"I'm Ada and I live in Turin. {SPOONS}."
ITEMS: Final = [
    add("name", "Ada", "I'm Ada"),
    add("location", "Turin", "I live in Turin"),
    add("habits", SPOONS, SPOONS),
]
PLAIN: Final = {"name": "Ada", "location": "Turin"}
"""What patterns find in it."""
FACTS: Final = {**PLAIN, "habits": [SPOONS]}
BEES: Final = "I painted the old barn blue, for the bees."
BOAT: Final = "The boat that we share with Ola leaks again."
SOUND: Final = by_words(
    {
        TEXT: ITEMS,
        "bees": [add("habits", "painted the barn blue", "I painted the old barn blue")],
        "boat": [add("belongings", "boat shared with Ola", "The boat that we share with Ola")],
    }
)
OTHERS: Final = {"habits": ["painted the barn blue"], "belongings": "boat shared with Ola"}
ANSWER: Final = reply(ITEMS)


def remembering(settings: dict[str, Any], **others: Any) -> AbstractAsyncContextManager[MemoryService]:
    """A service on SQLite; vectors in RAM, for facts have nothing to do with them and opening an index takes a while."""
    return opened({**settings, **others}, vectors=BruteForceIndex())


@pytest.fixture
def quick(embedded_settings: dict[str, Any], openai_server: ScriptedOpenAI) -> dict[str, Any]:
    """Settings that ask the scripted server and soon ask again."""
    return asking(embedded_settings, openai_server)


@pytest.fixture
async def service(quick: dict[str, Any]) -> AsyncIterator[MemoryService]:
    async with remembering(quick) as service:
        yield service


async def tell(memory: MemoryAgent, *texts: str) -> list[str]:
    """What the user says at once, settled, with nothing pending or parked; the ids of the turns."""
    turns = await memory.add_turns([{"role": "user", "content": text} for text in texts])
    await memory.settle(timeout=60)
    status = await memory.status()
    assert (status.pending["facts"], status.parked_count) == (0, 0)
    return [turn.id for turn in turns]


async def learns(
    service: MemoryService, server: ScriptedOpenAI, case: str, *replies: Reply | str
) -> MemoryAgent:
    """A user named by the case, whose turn is known after `replies` and sound ones: from it alone, each by its quote."""
    left = list(replies)
    server.answer = lambda body: left.pop(0) if left else SOUND(body)
    server.requests.clear()
    memory = service.agent(case, "chat")
    [turn_id] = await tell(memory, TEXT)
    assert await memory.fetch_facts() == FACTS, case
    for record in await standing(memory):
        (source,) = record.sources
        assert source.turn_id == turn_id, case
        assert (source.quote or "nothing") in TEXT, case
        assert source.extractor.startswith("llm:"), case
    return memory


# --- read as it is meant -------------------------------------------------------------------------------------
# Every form of a reply is shown in tests/unit/facts/test_replies.py and tests/unit/llm/test_replies.py.
READ: Final[dict[str, Reply | str]] = {
    "prose-around": f"Sure! From message [1] I take:\n```json\n{ANSWER}\n```\nAnything {{else}}?",
    "items-said-twice": reply([*ITEMS, *ITEMS]),
    "in-chunks": Reply(text=ANSWER, chunked=True),
    "plain-text": Reply(text=f"<think>Hm, {{}}</think>{ANSWER}"),
    "cut-off": Reply(text=ANSWER[:-2] + ', {"quote": "On Sund', finish_reason="length"),
}


async def test_what_can_be_read_costs_no_second_request(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    """Another form is read at once, and a model that repeats itself is no second source."""
    for case, said in READ.items():
        memory = await learns(service, openai_server, case, said)
        assert len(openai_server.chats) == (await memory.status()).extraction.requests == 1, case
        assert await refused(memory) == [], case


# --- asked once more -----------------------------------------------------------------------------------------
# How a server fails is shown in tests/unit/models/test_openai.py.
UNREADABLE: Final[dict[str, Reply | str]] = {
    "prose": "I cannot find any JSON in my heart.",
    "nested-10000-deep": '{"facts": ' * 10_000 + "1" + "}" * 10_000,
    "lone-surrogates": "\ud800" * 10,
    "content-filter": Reply(text="", finish_reason="content_filter"),
}


async def test_what_cannot_be_read_is_asked_once_more(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    """For the JSON object alone; nothing is noted of the first reply."""
    for case, unreadable in UNREADABLE.items():
        memory = await learns(service, openai_server, case, unreadable)
        assert await refused(memory) == [], case
        first, *_, last = map(prompt, openai_server.chats)
        assert last == f"{first}\nAnswer with the JSON object alone.", case


async def test_what_cannot_be_read_twice_is_read_by_patterns(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    """The turn is done, marked so with what the model said; extraction anew leaves that until the model can be read."""
    for case, unreadable in UNREADABLE.items():

        def answer(body: Request, unreadable: Reply | str = unreadable) -> Reply | str:
            return unreadable if any(TEXT in message.text for message in asked(body)) else SOUND(body)

        openai_server.answer = answer
        memory = service.agent(case, "chat")
        [turn_id] = await tell(memory, TEXT)
        for _ in range(2):
            assert await memory.fetch_facts() == PLAIN, case
            records = await memory.fact_history()
            assert {
                source.extractor.partition(": ")[0] for record in records for source in record.sources
            } == {"instead of llm:gpt-4o-mini:prompt-4"}, case
            assert all(": patterns:" in source.extractor for each in records for source in each.sources), case
            (record,) = await refused(memory)
            assert record.sources[0].turn_id == turn_id, case
            assert "answered without facts that can be read, so patterns read" in str(record.refused), case
            assert len(str(record.refused)) < 1_000, case
            await memory.reextract_facts()
            await memory.settle(timeout=60)
        openai_server.answer = SOUND
        await memory.reextract_facts()
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == FACTS, case
        assert await refused(memory) == [], case


# --- too long ------------------------------------------------------------------------------------------------
async def test_what_is_too_long_is_asked_in_halves(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    """Whether the server says so of the request, or cuts off its reply."""

    def refusing(body: Request) -> Reply | str:
        long = len(asked(body)) > 1
        words = "the request exceeds the available context size, try increasing it"
        return Reply(status=400, text=words) if long else SOUND(body)

    def cutting(body: Request) -> Reply | str:
        text = SOUND(body)
        return Reply(text=text[:-20], finish_reason="length") if len(asked(body)) > 1 else text

    for case, answer, sizes in (("long", refusing, [2, 2, 1, 1, 1]), ("cut", cutting, [2, 1, 1, 1])):
        openai_server.answer = answer
        openai_server.requests.clear()
        memory = service.agent(case, "chat")
        await tell(memory, BOAT, TEXT, BEES)
        known = await memory.fetch_facts()
        assert known == {**FACTS, **OTHERS, "habits": [SPOONS, "painted the barn blue"]}, case
        assert [len(asked(body)) for body in openai_server.chats] == sizes, case


# --- not asked -----------------------------------------------------------------------------------------------
NOTHING: Final = (
    "Hello!", "Thank you so much!", "안녕하세요!", "What is the capital of Peru?",
    "```python\nmy_name = 'Ada'  # I live in Turin\n```", "How do I sort a list in Python? And is it stable?",
)  # fmt: skip


async def test_turns_that_state_nothing_cost_no_request(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    """Greetings, thanks, code alone, questions alone; among others they are not shown either."""
    openai_server.answer = SOUND
    memory = service.agent("ada", "chat")
    await tell(memory, *NOTHING)
    assert openai_server.chats == []
    await tell(memory, NOTHING[0], TEXT, NOTHING[3])
    assert [[message.text for message in asked(body)] for body in openai_server.chats] == [[TEXT]]
    assert await memory.fetch_facts() == FACTS


# --- waited out ----------------------------------------------------------------------------------------------
UNAVAILABLE: Final[dict[str, Reply]] = {
    "429-with-retry-after": Reply(status=429, text="slow down", headers={"Retry-After": "1"}),
    "503": Reply(status=503, text="loading the model"),
    "dropped-in-mid-body": Reply(text=ANSWER, sends=0.6),
    "chunks-cut-short": Reply(text=ANSWER, sends=0.6, chunked=True),
    "hanging-in-mid-body": Reply(text=ANSWER, sends=0.6, hangs=True),
}


async def test_an_outage_is_waited_out(quick: dict[str, Any], openai_server: ScriptedOpenAI) -> None:
    """Whatever the server does to the connection is not the turn's fault: it is never parked for that."""
    async with remembering(quick, max_attempts=1, llm_timeout_seconds=0.3) as service:
        for case, broken in UNAVAILABLE.items():
            await learns(service, openai_server, case, broken, broken)
            assert len(openai_server.chats) == 3, case


# --- told, and not believed ----------------------------------------------------------------------------------
ROME: Final = add("birthplace", "Rome", "I live in Turin")
DOUBTFUL: Final[dict[str, Item]] = {
    "quote-of-nobody": {**ROME, "quote": "I was born in Rome"},
    "quote-missing": {**ROME, "quote": None},
    "value-of-the-example": ROME,
    "path-without-a-letter": add("§.$", "carve", "I carve spoons"),
    "value-without-end": add("note", "x" * 20_000, "I live in Turin"),
    "lone-surrogate-in-the-quote": {**ROME, "quote": "I was born \ud83d in Rome"},
}


async def test_an_item_that_is_not_believed_takes_no_other_along(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    """It is kept with the reason; what else the answer says is known, and the model is not asked again."""
    for case, doubtful in DOUBTFUL.items():
        memory = await learns(service, openai_server, case, json.dumps({"facts": [doubtful, *ITEMS]}))
        assert len(await refused(memory)) == 1, case
        assert len(openai_server.chats) == 1, case


async def test_a_quote_finds_its_message(service: MemoryService, openai_server: ScriptedOpenAI) -> None:
    """Whichever of the request has it, without regard to case, spaces and marks; all of them where several do."""
    items = [
        *ITEMS,
        add("habits", "painted the barn", "I PAINTED the  old-barn: blue!"),
        add("belongings", "boat", "the boat that we share"),
    ]
    openai_server.answer = lambda _: reply(items)
    memory = service.agent("ada", "chat")
    first, second = await tell(memory, f"{BOAT} {BEES}", f"{TEXT} {BOAT}")
    assert len(openai_server.chats) == 1
    sources = {
        str(record.value): [source.turn_id for source in record.sources] for record in await standing(memory)
    }
    assert sources == {
        "Ada": [second], "Turin": [second], SPOONS: [second], "painted the barn": [first], "boat": [first, second]
    }  # fmt: skip
