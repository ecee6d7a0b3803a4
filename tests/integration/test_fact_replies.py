"""Whatever a model's server answers, a fact is there in the end, once and with its source, or its turn is parked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from memory_agent import TurnsParked
from memory_agent.testing import BruteForceIndex
from tests.integration.fact_script import add, asked, asking, by_words, opened, refused, reply, standing
from tests.servers.openai_script import Reply

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from memory_agent import MemoryAgent, MemoryService
    from tests.servers.openai_script import Request, ScriptedOpenAI

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
    return asking(
        embedded_settings,
        openai_server,
        retry_base_seconds=0.01,
        retry_max_seconds=0.05,
        worker_poll_seconds=0.02,
    )


def remembering(settings: dict[str, Any]) -> AbstractAsyncContextManager[MemoryService]:
    """A service on SQLite; vectors in RAM, for facts have nothing to do with them and opening an index takes a while."""
    return opened(settings, vectors=BruteForceIndex())


def first(replies: list[Reply | str], server: ScriptedOpenAI) -> None:
    """Let the server give `replies` one after the other, and sound ones from then on."""
    left = list(replies)
    server.answer = lambda body: left.pop(0) if left else SOUND(body)


async def assert_known_once(memory: MemoryAgent, turn_id: str) -> None:
    """Both facts stand, from this turn alone, each by the words of the turn that say so; nothing is owed."""
    assert await memory.fetch_facts() == FACTS
    records = await standing(memory)
    assert sorted(".".join(record.path) for record in records) == ["location", "name"]
    for record in records:
        (source,) = record.sources
        assert source.turn_id == turn_id
        assert source.quote in (NAME["quote"], HOME["quote"])
    status = await memory.status()
    assert (status.pending["facts"], status.parked_count) == (0, 0)


# --- read as it is meant -------------------------------------------------------------------------------------
MENDED: Final[dict[str, str]] = {
    "the-asked-form": ANSWER,
    "fenced": f"```json\n{json.dumps(json.loads(ANSWER), indent=2)}\n```",
    "fence-without-a-name": f"```\n{ANSWER}\n```",
    "prose-around": f"Sure! From message [1] I take:\n{ANSWER}\nAnything {{else}}?",
    "a-draft-before": f"{json.dumps({'additions': [NAME]})}\nThe home is missing. Again:\n{ANSWER}",
    "thinking-closed": f"<think>Perhaps {HALF}</think>\n{ANSWER}",
    "thinking-several-times": f"<think>a</think><reasoning>{{</reasoning>{ANSWER}<thinking>done</thinking>",
    "thinking-without-its-beginning": f"Perhaps {HALF}\n</think>\n\n{ANSWER}",
    "trailing-commas": ANSWER.replace("}]", "},]").replace('"}', '",}'),
    "single-quotes": str(json.loads(ANSWER)).replace('"', "'"),
    "comments": ANSWER.replace("[{", "[ // what is new: {\n{", 1).replace("}]", "} /* all */]", 1),
    "nan": ANSWER.replace('"turn"', '"confidence": NaN, "old": NaN, "turn"'),
    "byte-order-mark": f"\ufeff{ANSWER}",
    "a-string-of-json": json.dumps(ANSWER),
    "a-list-for-the-object": json.dumps([NAME, HOME]),
    "a-list-with-operations": json.dumps([{**NAME, "op": "add"}, {**HOME, "action": "ADDITION"}]),
    "items-line-by-line": f"{json.dumps(NAME)}\n{json.dumps(HOME)}",
    "one-key-facts": json.dumps({"facts": [NAME, HOME]}),
    "keys-in-capitals": ANSWER.replace("additions", "Additions").replace("path", "PATH"),
    "key-said-twice": f'{{"additions": [{json.dumps(NAME)}], "additions": [{json.dumps(HOME)}]}}',
    "object-for-a-list": json.dumps({"additions": {"1": NAME, "2": HOME}, "updates": {}}),
    "null-for-lists": json.dumps({"additions": [NAME, HOME], "updates": None}),
    "paths-as-lists": json.dumps({"additions": [{**NAME, "path": ["name"]}, {**HOME, "path": "/location"}]}),
    "turns-as-text": json.dumps({"additions": [{**NAME, "turn": "#1"}, {**HOME, "turn": "turn 1"}]}),
    "turns-left-out": json.dumps(
        {"additions": [{k: v for k, v in item.items() if k != "turn"} for item in (NAME, HOME)]}
    ),
    "quotes-in-lists": json.dumps([{**item, "quote": [item["quote"]]} for item in (NAME, HOME)]),
    "optional-fields-of-wrong-types": json.dumps(
        [{**item, "confidence": ["?"], "valid_from": {"since": 1}, "old": []} for item in (NAME, HOME)]
    ),
    "10-mb-of-padding": " " * 5_000_000 + ANSWER + "\n" * 5_000_000,
    # Few words, for the server counts them as tokens and would cut the reply off.
    "10-mb-of-prose": "Let-me-see." * 400_000 + " " + ANSWER + " " + "I-hope." * 600_000,
}


@pytest.mark.parametrize("text", MENDED.values(), ids=MENDED.keys())
async def test_another_form_is_read_at_once(
    quick: dict[str, Any], openai_server: ScriptedOpenAI, text: str
) -> None:
    """What leaves no doubt costs no second request."""
    first([text], openai_server)
    async with remembering(quick) as service:
        memory = service.agent("ada", "chat")
        turn = await memory.add_user_message(TEXT)
        await memory.settle(timeout=60)
        await assert_known_once(memory, turn.id)
        assert len(openai_server.chats) == 1
        assert (await memory.status()).extraction.requests == 1


async def test_items_said_twice_count_once(quick: dict[str, Any], openai_server: ScriptedOpenAI) -> None:
    """A model that repeats itself is no second source."""
    first([json.dumps({"additions": [NAME, HOME, NAME, HOME]})], openai_server)
    async with remembering(quick) as service:
        memory = service.agent("ada", "chat")
        turn = await memory.add_user_message(TEXT)
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == FACTS
        assert len(openai_server.chats) == 1
        await assert_known_once(memory, turn.id)


# --- asked again ---------------------------------------------------------------------------------------------
def completion(**choice: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "finish_reason": "stop", **choice}]})


def with_item(**fields: Any) -> str:
    return json.dumps({"additions": [NAME, {**HOME, **fields}]})


MALFORMED: Final[dict[str, Reply | str]] = {
    "empty": "",
    "blank": " \n\t ",
    "null": "null",
    "prose": "I cannot find any JSON in my heart.",
    "prose-in-chinese": "用户叫艾达,住在都灵。",
    "cut-off-and-told": Reply(text=HALF, finish_reason="length"),
    "cut-off-and-told-where-it-parses": Reply(text=json.dumps({"additions": [NAME]}), finish_reason="length"),
    "cut-off-in-a-value": HALF,
    "cut-off-between-items": ANSWER[: ANSWER.index(', {"path": "location"')],
    "cut-off-before-the-last-bracket": ANSWER[:-1],
    "cut-off-list-of-items": json.dumps([NAME, HOME])[:-1],
    "cut-off-after-a-draft": f"{json.dumps({'additions': [NAME]})}\nBetter: {HALF}",
    "thinking-never-ended": f"<think>Perhaps {ANSWER}",
    "elided": json.dumps({"additions": [NAME, "…"]}).replace('"…"', "..."),
    "a-bracket-too-few": ANSWER.replace("}]", "]", 1),
    "a-bracket-too-many": ANSWER.replace("}]", "}]}", 1),
    "grouped-as-before": json.dumps({"personal_info": {"name": "Ada"}}),
    "an-error-object": json.dumps({"error": "context length exceeded"}),
    "facts-beside-the-lists": json.dumps({"additions": [NAME], "personal_info": {"location": "Turin"}}),
    "list-of-wrong-type": json.dumps({"additions": "Ada lives in Turin"}),
    "items-of-wrong-type": json.dumps({"additions": ["name: Ada", "location: Turin"]}),
    "path-missing": json.dumps({"additions": [NAME, {"value": "Turin", "turn": 1}]}),
    "path-empty": with_item(path=""),
    "path-of-wrong-type": with_item(path={"location": 1}),
    "value-missing": json.dumps({"additions": [NAME, {"path": "location", "turn": 1}]}),
    "value-null": with_item(value=None),
    "value-nan": with_item(value=float("nan")),
    "turn-of-wrong-type": with_item(turn={"number": 1}),
    "turn-in-words": with_item(turn="the first"),
    "quote-of-wrong-type": with_item(quote={"text": "I live in Turin"}),
    "operation-unknown": json.dumps([NAME, {**HOME, "op": "ponder"}]),
    "one-item-in-another": json.dumps({"additions": [NAME]})[:-3]
    + ', "path": "location", "value": "Turin"}]}',
    "nested-10000-deep": '{"additions": ' * 10_000 + "1" + "}" * 10_000,
    "10-mb-of-brackets": "[" * 10_000_000,
    "10-mb-of-prose-alone": "Let me see. " * 850_000,
    "lone-surrogates": "\ud800" * 10,
    "content-null": Reply(raw=completion(message={"role": "assistant", "content": None})),
    "no-choices": Reply(raw='{"choices": []}'),
    "choices-null": Reply(raw='{"choices": null}'),
    "choices-missing": Reply(raw='{"id": "x", "object": "chat.completion"}'),
    "message-missing": Reply(raw=completion()),
    "refusal": Reply(
        raw=completion(message={"role": "assistant", "content": None, "refusal": "I can't help with that."})
    ),
    "content-filter": Reply(text="", finish_reason="content_filter"),
    "html-with-200": Reply(raw="<html><body>Bad gateway</body></html>", content_type="text/html"),
    "html-said-to-be-json": Reply(raw="<html><body>Bad gateway</body></html>"),
    "body-cut-off-and-sent-whole": Reply(raw='{"choices": [{"index": 0, "mess'),
    "body-empty": Reply(raw=""),
    "utf-8-broken": Reply(raw=b'{"choices": [{"message": {"content": "\xff\xfe\xc3"}}]}'),
}


NO_ANSWER: Final = [
    MALFORMED[name]
    for name in (
        "no-choices",
        "choices-null",
        "choices-missing",
        "message-missing",
        "html-with-200",
        "html-said-to-be-json",
        "body-cut-off-and-sent-whole",
        "body-empty",
        "utf-8-broken",
    )
]
"""After which the model is asked for something harmless: does its server answer anybody?"""


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_malformed_answer_is_asked_again(
    quick: dict[str, Any], openai_server: ScriptedOpenAI, malformed: Reply | str
) -> None:
    """The stage is not struck off and nothing of half an answer is taken; the next answer brings the facts."""
    first([malformed], openai_server)
    async with remembering(quick) as service:
        memory = service.agent("ada", "chat")
        turn = await memory.add_user_message(TEXT)
        await memory.settle(timeout=60)
        await assert_known_once(memory, turn.id)
        assert await refused(memory) == []
        answered_nothing = sum("Answer with {}" in str(body["messages"]) for body in openai_server.chats)
        assert answered_nothing == (malformed in NO_ANSWER)
        assert len(openai_server.chats) == 2 + answered_nothing


async def test_a_wrong_content_type_does_no_harm(
    quick: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """A completion that is sent as plain text is asked for again, or read; either way its facts are there once."""
    first([Reply(text=ANSWER, content_type="text/plain")], openai_server)
    async with remembering(quick) as service:
        memory = service.agent("ada", "chat")
        turn = await memory.add_user_message(TEXT)
        await memory.settle(timeout=60)
        await assert_known_once(memory, turn.id)
        assert len(openai_server.chats) <= 3


# --- waited out ----------------------------------------------------------------------------------------------
UNAVAILABLE: Final[dict[str, Reply]] = {
    "429-with-retry-after": Reply(status=429, text="slow down", headers={"Retry-After": "1"}),
    "401": Reply(status=401, text="bad key"),
    "500": Reply(status=500, text="broken"),
    "503": Reply(status=503, text="loading the model"),
    "529-with-html": Reply(status=529, raw="<html>overloaded</html>", content_type="text/html"),
    "dropped-before-the-answer": Reply(drop=True),
    "dropped-after-the-headers": Reply(text=ANSWER, sends=0.0),
    "dropped-in-mid-body": Reply(text=ANSWER, sends=0.6),
    "chunks-cut-short": Reply(text=ANSWER, sends=0.6, chunked=True),
    "hanging-before-the-answer": Reply(text=ANSWER, delay_seconds=30),
    "hanging-in-mid-body": Reply(text=ANSWER, sends=0.6, hangs=True),
    "hanging-in-mid-chunks": Reply(text=ANSWER, sends=0.6, hangs=True, chunked=True),
}


@pytest.mark.parametrize("broken", UNAVAILABLE.values(), ids=UNAVAILABLE.keys())
async def test_an_outage_is_waited_out(
    quick: dict[str, Any], openai_server: ScriptedOpenAI, broken: Reply
) -> None:
    """Whatever the server does to the connection is not the turn's fault: it is never parked for that."""
    first([broken, broken], openai_server)
    async with remembering({**quick, "max_attempts": 1, "llm_timeout_seconds": 0.3}) as service:
        memory = service.agent("ada", "chat")
        turn = await memory.add_user_message(TEXT)
        await memory.settle(timeout=60)
        await assert_known_once(memory, turn.id)
        assert len(openai_server.chats) == 3


async def test_an_answer_in_chunks_is_read(quick: dict[str, Any], openai_server: ScriptedOpenAI) -> None:
    """A server need not tell the length beforehand."""
    first([Reply(text=ANSWER, chunked=True)], openai_server)
    async with remembering(quick) as service:
        memory = service.agent("ada", "chat")
        turn = await memory.add_user_message(TEXT)
        await memory.settle(timeout=60)
        await assert_known_once(memory, turn.id)
        assert len(openai_server.chats) == 1


async def test_one_failure_after_another(quick: dict[str, Any], openai_server: ScriptedOpenAI) -> None:
    """Outages and malformed answers in any order; only the latter are counted."""
    first(
        [
            Reply(status=503),
            HALF,
            Reply(drop=True),
            Reply(text=ANSWER, sends=0.5),
            "prose",
            Reply(status=429),
        ],
        openai_server,
    )
    async with remembering({**quick, "max_attempts": 3}) as service:
        memory = service.agent("ada", "chat")
        turn = await memory.add_user_message(TEXT)
        await memory.settle(timeout=60)
        await assert_known_once(memory, turn.id)
        assert len(openai_server.chats) == 7


# --- told, and not believed ----------------------------------------------------------------------------------
DOUBTFUL: Final[dict[str, dict[str, Any]]] = {
    "quote-of-another-turn": {"quote": "I was born in Rome"},
    "quote-missing": {"quote": None},
    "quote-empty": {"quote": "  "},
    "message-not-shown": {"turn": 7},
    "message-0": {"turn": "0"},
    "path-without-a-letter": {"path": "§.$"},
    "value-without-end": {"value": "x" * 100_000},
    "number-without-end": {"value": 10**400},
    "value-too-deep": {"value": json.loads("[" * 40 + "1" + "]" * 40)},
    "lone-surrogate-in-the-quote": {"quote": "I was born \ud83d in Rome"},
}


@pytest.mark.parametrize("fields", DOUBTFUL.values(), ids=DOUBTFUL.keys())
async def test_an_item_that_is_not_believed_takes_no_other_along(
    quick: dict[str, Any], openai_server: ScriptedOpenAI, fields: dict[str, Any]
) -> None:
    """It is kept with the reason; what else the answer says is known, and the model is not asked again."""
    doubtful = {"path": "birthplace", "value": "Rome", "turn": 1, "quote": "I live in Turin", **fields}
    first([json.dumps({"additions": [NAME, doubtful, HOME]})], openai_server)
    async with remembering(quick) as service:
        memory = service.agent("ada", "chat")
        turn = await memory.add_user_message(TEXT)
        await memory.settle(timeout=60)
        await assert_known_once(memory, turn.id)
        (record,) = await refused(memory)
        assert record.refused
        assert len(openai_server.chats) == 1


async def test_a_quote_of_another_turn_of_the_batch_is_not_believed(
    quick: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """Each item has to be said by the very message that it names."""
    answer = {"additions": [NAME, {**HOME, "turn": 2}, {**HOME, "quote": "I keep bees"}]}
    openai_server.answer = lambda body: json.dumps(answer) if len(asked(body)) == 2 else SOUND(body)
    async with remembering(quick) as service:
        memory = service.agent("ada", "chat")
        await memory.add_turns([{"role": "user", "content": text} for text in (TEXT, "I keep bees.")])
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == {"name": "Ada"}
        assert len(await refused(memory)) == 2


# --- parked --------------------------------------------------------------------------------------------------
ALWAYS: Final[dict[str, tuple[Reply | str, str]]] = {
    "prose-without-end": ("I cannot find any JSON in my heart. " * 30, "I cannot find any JSON"),
    "empty": ("", "empty"),
    "cut-off-and-told": (Reply(text=HALF, finish_reason="length"), '{"additions": [{"path": "name"'),
    "cut-off": (HALF, '{"additions": [{"path": "name"'),
    "grouped-as-before": (json.dumps({"personal_info": {"name": "Ada"}}), "personal_info"),
    "thinking-never-ended": (f"<think>Perhaps {ANSWER}", "<think>Perhaps"),
    "10-mb-of-brackets": ("[" * 10_000_000, "[[[[[["),
    "lone-surrogates": ("\ud800 and { no JSON", "\\ud800 and { no JSON"),
    "html-with-200": (Reply(raw="<html>Bad gateway</html>", content_type="text/html"), "Bad gateway"),
    "utf-8-broken": (Reply(raw=b'{"choices": "\xff"}'), "utf-8"),
    "400": (Reply(status=400, text="this is too long for me"), "this is too long for me"),
}


@pytest.mark.parametrize(("malformed", "kept"), ALWAYS.values(), ids=ALWAYS.keys())
async def test_what_is_always_malformed_is_parked(
    quick: dict[str, Any], openai_server: ScriptedOpenAI, malformed: Reply | str, kept: str
) -> None:
    """The turn keeps what was answered and holds up no other; with the model mended its facts are there, once."""

    def answer(body: Request) -> Reply | str:
        return malformed if any(TEXT in message.text for message in asked(body)) else SOUND(body)

    openai_server.answer = answer
    async with remembering(quick) as service:
        memory = service.agent("ada", "chat")
        texts = ["I own a boat.", TEXT, "I keep bees."]
        turns = await memory.add_turns([{"role": "user", "content": text} for text in texts])
        with pytest.raises(TurnsParked) as caught:
            await memory.settle(timeout=60)
        (parked,) = caught.value.parked
        assert (parked.turn_id, parked.pending, parked.attempts) == (turns[1].id, ("facts",), 2)
        assert kept in parked.last_error
        assert len(parked.last_error) < 5_000
        assert await memory.fetch_facts() == {"belongings": ["boat"], "interests": ["bees"]}
        await assert_mended(service, memory, openai_server, turns[1].id)


async def assert_mended(
    service: MemoryService, memory: MemoryAgent, server: ScriptedOpenAI, turn_id: str
) -> None:
    """With sound answers again the parked turn gets its facts, and asks for no other's."""
    server.answer = SOUND
    server.requests.clear()
    assert await service.retry_parked() == 1
    await memory.settle(timeout=60)
    assert await memory.fetch_facts() == {**FACTS, "belongings": ["boat"], "interests": ["bees"]}
    assert len(server.chats) == 1
    records = [record for record in await standing(memory) if record.path[0] in FACTS]
    assert [[source.turn_id for source in record.sources] for record in records] == [[turn_id]] * 2


async def test_a_reply_that_is_right_for_one_turn_only_costs_the_others_nothing(
    quick: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """A batch that cannot be read is asked for in parts; nothing is known twice."""

    def answer(body: Request) -> str:
        return SOUND(body) if len(asked(body)) == 1 else "Too many messages for me."

    openai_server.answer = answer
    async with remembering(quick) as service:
        memory = service.agent("ada", "chat")
        await memory.add_turns(
            [{"role": "user", "content": text} for text in ("I own a boat.", TEXT, "I keep bees.")]
        )
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == {**FACTS, "belongings": ["boat"], "interests": ["bees"]}
        assert all(len(record.sources) == 1 for record in await standing(memory))


def test_the_script_is_sound() -> None:
    """The sound answer of these tests states what the cases expect."""
    assert json.loads(reply([add("name", "Ada", "I'm Ada", turn=1)]))["additions"] == [NAME]
    assert len(MENDED) + len(MALFORMED) + len(UNAVAILABLE) + len(DOUBTFUL) + len(ALWAYS) >= 40
