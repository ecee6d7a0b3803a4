"""Whatever a model's server answers, a fact is there in the end, once and with its source, or its turn is parked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import pytest

from memory_agent import MemoryAgent, MemoryService, Turn, TurnsParked
from memory_agent.testing import BruteForceIndex
from tests.integration.fact_script import add, asked, asking, by_words, opened, refused, standing
from tests.servers.openai_script import Reply, Request, ScriptedOpenAI

TEXT: Final = "I'm Ada and I live in Turin."
NAME: Final = {"path": "name", "value": "Ada", "turn": 1, "quote": "I'm Ada"}
HOME: Final = {"path": "location", "value": "Turin", "turn": 1, "quote": "I live in Turin"}
FACTS: Final = {"name": "Ada", "location": "Turin"}
SOUND: Final = by_words(
    {
        TEXT: [add("name", "Ada", "I'm Ada"), add("location", "Turin", "I live in Turin")],
        "bees": [add("interests", ["bees"], "I keep bees")],
        "boat": [add("belongings", ["boat"], "I own a boat")],
    }
)
ANSWER: Final = json.dumps({"additions": [NAME, HOME], "updates": [], "retractions": []})
HALF: Final = ANSWER[: ANSWER.index('{"path": "location"') + 25]


@pytest.fixture
def quick(embedded_settings: dict[str, Any], openai_server: ScriptedOpenAI) -> dict[str, Any]:
    """Settings that ask the scripted server and soon ask again."""
    return asking(embedded_settings, openai_server)


def remembering(settings: dict[str, Any], **others: Any) -> AbstractAsyncContextManager[MemoryService]:
    """A service on SQLite; vectors in RAM, for facts have nothing to do with them and opening an index takes a while."""
    return opened({**settings, **others}, vectors=BruteForceIndex())


@pytest.fixture
async def service(quick: dict[str, Any]) -> AsyncIterator[MemoryService]:
    async with remembering(quick) as service:
        yield service


async def learns(
    service: MemoryService, server: ScriptedOpenAI, case: str, *replies: Reply | str
) -> MemoryAgent:
    """A user named by the case, after a turn for which the server gave `replies` and sound ones from then on.

    Both facts stand, from this turn alone, each by the words of the turn that say so; nothing is owed.
    """
    left = list(replies)
    server.answer = lambda body: left.pop(0) if left else SOUND(body)
    server.requests.clear()
    memory = service.agent(case, "chat")
    turn = await memory.add_user_message(TEXT)
    await memory.settle(timeout=60)
    assert await memory.fetch_facts() == FACTS, case
    records = await standing(memory)
    assert sorted(".".join(record.path) for record in records) == ["location", "name"], case
    for record in records:
        (source,) = record.sources
        assert source.turn_id == turn.id, case
        assert source.quote in (NAME["quote"], HOME["quote"]), case
    status = await memory.status()
    assert (status.pending["facts"], status.parked_count) == (0, 0), case
    return memory


# --- read as it is meant -------------------------------------------------------------------------------------
# Every form of a reply is shown in tests/unit/facts/test_replies.py and tests/unit/llm/test_replies.py.
MENDED: Final[dict[str, Reply | str]] = {
    "prose-around": f"Sure! From message [1] I take:\n```json\n{ANSWER}\n```\nAnything {{else}}?",
    "items-said-twice": json.dumps({"additions": [NAME, HOME, NAME, HOME]}),
    "in-chunks": Reply(text=ANSWER, chunked=True),
}


async def test_what_leaves_no_doubt_costs_no_second_request(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    """Another form is read at once, and a model that repeats itself is no second source."""
    for case, said in MENDED.items():
        memory = await learns(service, openai_server, case, said)
        assert len(openai_server.chats) == (await memory.status()).extraction.requests == 1, case


# --- asked again ---------------------------------------------------------------------------------------------
# How a server fails is shown in tests/unit/models/test_openai.py.
MALFORMED: Final[dict[str, Reply | str]] = {
    "prose": "I cannot find any JSON in my heart.",
    "cut-off": HALF,
    "cut-off-and-told-where-it-parses": Reply(text=json.dumps({"additions": [NAME]}), finish_reason="length"),
    "path-missing": json.dumps({"additions": [NAME, {"value": "Turin", "turn": 1}]}),
    "nested-10000-deep": '{"additions": ' * 10_000 + "1" + "}" * 10_000,
    "lone-surrogates": "\ud800" * 10,
    "content-filter": Reply(text="", finish_reason="content_filter"),
    "no-choices": Reply(raw='{"choices": []}'),
    "html-with-200": Reply(raw="<html><body>Bad gateway</body></html>", content_type="text/html"),
    "utf-8-broken": Reply(raw=b'{"choices": [{"message": {"content": "\xff\xfe\xc3"}}]}'),
}
NO_ANSWER: Final = frozenset({"no-choices", "html-with-200", "utf-8-broken"})
"""After which the model is asked for something harmless: does its server answer anybody?"""


async def test_malformed_answers_are_asked_again(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    """The stage is not struck off and nothing of half an answer is taken; the next answer brings the facts."""
    for case, malformed in MALFORMED.items():
        memory = await learns(service, openai_server, case, malformed)
        assert await refused(memory) == [], case
        answered_nothing = sum("Answer with {}" in str(body["messages"]) for body in openai_server.chats)
        assert answered_nothing == (case in NO_ANSWER), case
        assert len(openai_server.chats) == 2 + answered_nothing, case
    # A completion that is sent as plain text is asked for again, or read.
    await learns(service, openai_server, "plain", Reply(text=ANSWER, content_type="text/plain"))
    assert len(openai_server.chats) <= 3


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
DOUBTFUL: Final[dict[str, dict[str, Any]]] = {
    "quote-of-another-turn": {"quote": "I was born in Rome"},
    "quote-missing": {"quote": None},
    "message-not-shown": {"turn": 7},
    "path-without-a-letter": {"path": "§.$"},
    "value-without-end": {"value": "x" * 100_000},
    "lone-surrogate-in-the-quote": {"quote": "I was born \ud83d in Rome"},
}


async def test_an_item_that_is_not_believed_takes_no_other_along(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    """It is kept with the reason; what else the answer says is known, and the model is not asked again."""
    for case, fields in DOUBTFUL.items():
        doubtful = {"path": "birthplace", "value": "Rome", "turn": 1, "quote": "I live in Turin", **fields}
        memory = await learns(service, openai_server, case, json.dumps({"additions": [NAME, doubtful, HOME]}))
        (record,) = await refused(memory)
        assert record.refused, case
        assert len(openai_server.chats) == 1, case


async def test_a_quote_of_another_turn_of_the_batch_is_not_believed(
    service: MemoryService, openai_server: ScriptedOpenAI
) -> None:
    """Each item has to be said by the very message that it names."""
    answer = {"additions": [NAME, {**HOME, "turn": 2}, {**HOME, "quote": "I keep bees"}]}
    openai_server.answer = lambda body: json.dumps(answer) if len(asked(body)) == 2 else SOUND(body)
    memory = service.agent("ada", "chat")
    await memory.add_turns([{"role": "user", "content": text} for text in (TEXT, "I keep bees.")])
    await memory.settle(timeout=60)
    assert await memory.fetch_facts() == {"name": "Ada"}
    assert len(await refused(memory)) == 2


# --- parked --------------------------------------------------------------------------------------------------
ALWAYS: Final[dict[str, tuple[Reply | str, str]]] = {
    "empty": ("", "empty"),
    "brackets-without-end": ("[" * 1_000_000, "[[[[[["),
    "lone-surrogates": ("\ud800 and { no JSON", "\\ud800 and { no JSON"),
    "utf-8-broken": (Reply(raw=b'{"choices": "\xff"}'), "utf-8"),
    "400": (Reply(status=400, text="this is too long for me"), "this is too long for me"),
}
OTHERS: Final = {"belongings": ["boat"], "interests": ["bees"]}


async def tell_three(memory: MemoryAgent) -> list[Turn]:
    """The text between two others."""
    texts = ["I own a boat.", TEXT, "I keep bees."]
    return await memory.add_turns([{"role": "user", "content": text} for text in texts])


async def test_the_always_malformed_is_parked(service: MemoryService, openai_server: ScriptedOpenAI) -> None:
    """The turn keeps what was answered and holds up no other; with the model mended its facts are there, once.

    A batch that cannot be read is asked for in parts.
    """
    for case, (malformed, kept) in ALWAYS.items():

        def answer(body: Request, malformed: Reply | str = malformed) -> Reply | str:
            return malformed if any(TEXT in message.text for message in asked(body)) else SOUND(body)

        openai_server.answer = answer
        memory = service.agent(case, "chat")
        _, turn, _ = await tell_three(memory)
        with pytest.raises(TurnsParked) as caught:
            await memory.settle(timeout=60)
        (parked,) = caught.value.parked
        assert (parked.turn_id, parked.pending, parked.attempts) == (turn.id, ("facts",), 2)
        assert kept in parked.last_error, case
        assert len(parked.last_error) < 5_000, case
        assert await memory.fetch_facts() == OTHERS, case
        # With sound answers again the parked turn gets its facts, and asks for no other's.
        openai_server.answer = SOUND
        openai_server.requests.clear()
        assert await service.retry_parked() == 1, case
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == FACTS | OTHERS, case
        assert len(openai_server.chats) == 1, case
        records = [record for record in await standing(memory) if record.path[0] in FACTS]
        assert [[source.turn_id for source in record.sources] for record in records] == [[turn.id]] * 2
