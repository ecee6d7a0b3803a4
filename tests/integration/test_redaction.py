"""What must not go further stays: out of what a language model is told, out of the stores, out of errors and logs."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pymongo
import pytest

from memory_agent import ConfigError, InvalidInput, MemoryConfig, MemoryService, RedactionFailed, TurnsParked
from memory_agent.integrations.memory_files import MemoryFiles
from memory_agent.llm.redact import redacted_value
from tests.fixtures import on_both_by_day
from tests.integration.fact_script import (
    Asked,
    Item,
    add,
    asking,
    by_message,
    by_words,
    opened,
    refused,
)
from tests.integration.test_privacy import files_with, logged
from tests.servers.openai_script import ScriptedOpenAI

CARD = "4929 1234 5678 9012"
SECRET = f"My name is Ann, and my card is {CARD}."
CARDS = re.compile(r"\b(?:\d{4} ){3}\d{4}\b")


def stating(asked: Asked) -> Iterable[Item]:
    """A model that notes the name, and the card as it sees it."""
    yield add("name", "Ann", "My name is Ann")
    card = re.search(r"my card is (.*)\.", asked.text)
    if card:
        yield add("card", card[1], card[0])


def hide_cards(text: str) -> str:
    """A redactor as an application may write one."""
    return CARDS.sub("[card]", text)


def fail(text: str) -> str:
    """A redactor that fails, and says of what."""
    raise ValueError(f"cannot read {text}")


def say_nothing(_: str) -> Any:
    """A redactor that is none."""
    return None


NOT_A_FUNCTION = "hide_cards"


def wire(server: ScriptedOpenAI) -> str:
    """All that the model's server was told."""
    return "\n".join(str(request.body) for request in server.requests)


@pytest.mark.parametrize("how", ["argument", "setting"])
async def test_a_model_is_not_told_what_the_store_keeps(
    how: str, settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """By default a redactor stands before the model: the wire never holds the secret, the store does."""
    openai_server.answer = by_message(stating)
    chosen = asking(
        settings, openai_server, enable_topics=True, max_messages_per_topic=2, recent_message_keep=1
    )
    parts: dict[str, Any] = {"redact": hide_cards}
    if how == "setting":
        chosen["redactor"], parts = f"{__name__}:hide_cards", {}
    async with opened(chosen, **parts) as service:
        memory = service.agent("ann", "chat")
        for _ in range(3):
            await memory.update_memory(SECRET, f"Your card {CARD} is safe.")
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == {"name": "Ann"}
        assert CARD in str(await memory.fetch_memory("Which card?"))
        assert [turn.content for turn in await memory.fetch_short_term(1)] == [f"Your card {CARD} is safe."]
        await memory.reextract_facts()
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == {"name": "Ann"}
    assert len(openai_server.chats) > 2
    assert "[card]" in wire(openai_server)
    assert CARD not in wire(openai_server)


def stored(settings: dict[str, Any]) -> list[str]:
    """Files of the embedded stores, or collections of the database, that hold the secret."""
    if "mongo_uri" not in settings:
        return files_with(settings["data_dir"], (CARD,))
    with pymongo.MongoClient[Any](settings["mongo_uri"]) as client:
        database = client[settings["db_name"]]
        return [
            name
            for name in database.list_collection_names()
            if any(CARD in str(document) for document in database[name].find())
        ]


@on_both_by_day
async def test_what_is_redacted_before_storing_is_nowhere(
    settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """With redact_before_storing no store, index or request ever holds the secret, and its place is kept."""
    openai_server.answer = by_message(stating)
    settings = asking(settings, openai_server, redact_before_storing=True, enable_topics=True)
    async with opened(settings, redact=hide_cards) as service:
        memory = service.agent("ann", "chat")
        await memory.update_memory(SECRET, f"Your card {CARD} is safe.", idempotency_key="k")
        turn = await memory.add_user_message(SECRET)
        assert turn.content == hide_cards(SECRET)
        assert turn.tokens == service.core.counter.count(turn.content)
        item = await memory.add_turn("tool", "-", metadata={"verbatim": {"text": [SECRET]}, "n": 1})
        assert item.metadata == {"verbatim": {"text": [hide_cards(SECRET)]}, "n": 1}
        files = MemoryFiles(service, "ann")
        await files.create("/memories/cards.md", SECRET)
        assert await files.read("/memories/cards.md") == hide_cards(SECRET)
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == {"name": "Ann", "card": "[card]"}
        again = await memory.update_memory(SECRET, f"Your card {CARD} is safe.", idempotency_key="k")
        assert again.seq == 2
        assert stored(settings) == []
    assert stored(settings) == []
    assert CARD not in wire(openai_server)


async def test_what_grows_past_the_room_of_metadata_by_being_redacted_is_refused(
    embedded_settings: dict[str, Any],
) -> None:
    """Else a file would stand that no rename could move."""
    async with opened(
        {**embedded_settings, "redact_before_storing": True},
        redact=lambda text: text.replace("x", "[redacted]"),
    ) as service:
        files = MemoryFiles(service, "ann")
        with pytest.raises(
            InvalidInput, match=r"grew from 20,\d+ to 200,\d+ .* by redaction, and at most 100,000"
        ):
            await files.create("/memories/a.md", "x" * 20_000)
        await files.create("/memories/a.md", "x" * 9_940)
        await files.rename("/memories/a.md", "/memories/b.md")
        assert await files.read("/memories/b.md") == "[redacted]" * 9_940
        await files.insert("/memories/b.md", 0, "y")
        (first, _) = await files.versions("/memories/b.md")
        await files.restore("/memories/b.md", first.id)
        assert await files.read("/memories/b.md") == "[redacted]" * 9_940


async def test_texts_with_nothing_to_see_are_not_redacted() -> None:
    assert await redacted_value(str.upper, {"a": ["", " \n", "b", 1]}) == {"a": ["", " \n", "B", 1]}
    assert await redacted_value(fail, ["", " \n"]) == ["", " \n"]


@pytest.mark.parametrize("redact", [fail, say_nothing], ids=["raises", "returns-nothing"])
async def test_a_redactor_that_fails_lets_nothing_pass(
    redact: Callable[[str], str],
    settings: dict[str, Any],
    openai_server: ScriptedOpenAI,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing is stored or sent, and neither the error, nor the log, nor what is kept with the turn quotes the text."""
    caplog.set_level(logging.DEBUG)
    settings = asking(settings, openai_server)
    async with opened({**settings, "redact_before_storing": True}, redact=redact) as service:
        memory = service.agent("ann", "chat")
        with pytest.raises(RedactionFailed) as caught:
            await memory.update_memory(SECRET, "Noted.")
        assert CARD not in f"{caught.value!r} {caught.value.__cause__!r}"
        assert (await memory.status()).turns == 0
        assert stored(settings) == []
    async with opened(settings, redact=redact) as service:
        memory = service.agent("ann", "chat")
        await memory.update_memory(SECRET, "Noted.")
        with pytest.raises(TurnsParked, match="RedactionFailed") as parked:
            await memory.settle(timeout=60)
        assert CARD not in str(parked.value)
    assert openai_server.chats == []
    assert CARD not in logged(caplog)


async def test_a_text_of_which_nothing_is_left_is_refused(embedded_settings: dict[str, Any]) -> None:
    """What the redactor leaves empty cannot be stored, and is said so by name."""
    settings = {**embedded_settings, "redact_before_storing": True, "run_worker": False}
    async with opened(settings, redact=lambda _: " ") as service:
        with pytest.raises(InvalidInput, match="content, redacted"):
            await service.agent("ann", "chat").add_user_message(SECRET)
        assert (await service.status()).turns == 0


@pytest.mark.parametrize(
    ("redactor", "says"),
    [
        ("no.such.module:redact", "no.such.module"),
        (f"{__name__}:no_such_function", "no_such_function"),
        (f"{__name__}:NOT_A_FUNCTION", "not a function"),
        ("hide_cards", "package.module:function"),
        ("os.path", "package.module:function"),
    ],
)
async def test_a_redactor_that_is_none_is_a_wrong_setting(
    redactor: str, says: str, embedded_settings: dict[str, Any]
) -> None:
    """A setting that names no function says so when the service is opened, and nothing is opened."""
    with pytest.raises(ConfigError, match=re.escape(says)):
        async with MemoryService(MemoryConfig(**embedded_settings, redactor=redactor)):
            pass
    data_dir: Path = embedded_settings["data_dir"]
    assert not data_dir.exists() or not list(data_dir.rglob("*.sqlite3"))


# --- categories that are never noted -------------------------------------------------------------------------
async def test_what_is_never_noted_is_not(settings: dict[str, Any], openai_server: ScriptedOpenAI) -> None:
    """facts_never keeps a category out, visibly, and is told to the model; the rest is noted."""
    diabetes = "I have diabetes and I live in Bergen."
    openai_server.answer = by_words(
        {
            diabetes: [
                add("health.conditions", ["diabetes"], "I have diabetes"),
                add("notes", "has diabetes", "I have diabetes"),
                add("location", "Bergen", "I live in Bergen"),
            ]
        }
    )
    async with opened(asking(settings, openai_server, facts_never=("health", "politics"))) as service:
        memory = service.agent("ann", "chat")
        await memory.add_user_message(diabetes)
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == {"location": "Bergen"}
        assert {record.refused for record in await refused(memory)} == {
            "facts about health are never noted (setting facts_never)"
        }
        (body,) = openai_server.chats
        assert "Never note anything about: health, politics." in body["messages"][0]["content"]
