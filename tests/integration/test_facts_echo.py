"""What memory itself put into a turn is no fact, and neither is what a turn orders a model to note."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from memory_agent import MemoryAgent, MemoryService
from tests import profiles
from tests.integration.fact_script import (
    Item,
    add,
    asked,
    asking,
    context,
    known,
    opened,
    refused,
    reply,
    standing,
)
from tests.servers.openai_script import Request, ScriptedOpenAI

ROUNDS = 50 if profiles.chosen() == "nightly" else 12
SAID = ("I live in Bergen.", "I like chess.", "My sister Mia plays the cello in an orchestra in Oslo.")
STATED = {
    SAID[0]: [add("location", "Bergen", "I live in Bergen.")],
    SAID[1]: [add("preferences.likes", ["chess"], "I like chess.")],
    SAID[2]: [add("family.sister", "Mia", "My sister Mia plays the cello in an orchestra in Oslo.")],
}

ECHOES: dict[str, Callable[[str], str]] = {
    "whole": lambda text: text,
    "facts-alone": lambda text: _lines(text, "- "),
    "recollections-alone": lambda text: _lines(text, "["),
    "without-tags": lambda text: "\n".join(line for line in text.splitlines() if not line.startswith("<")),
    "quoted": lambda text: "\n".join(f"> {line}" for line in text.splitlines()),
}


def _lines(text: str, beginning: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.startswith(beginning))


def eager() -> Callable[[Request], str]:
    """A model that notes every line that it sees under a path of its own, but for questions and what it noted."""
    numbers = itertools.count()

    def answer(body: Request) -> str:
        items: list[Item] = []
        for message in asked(body):
            if message.text in STATED:
                items += STATED[message.text]
                continue
            texts = [message.text, *known(body), *context(body)]
            lines = dict.fromkeys(line.strip() for text in texts for line in text.splitlines())
            items += [
                add(f"noted.line_{next(numbers)}", line, line)
                for line in lines
                if line and not line.endswith("?")
            ]
        return reply(items)

    return answer


@pytest.fixture
async def service(
    embedded_settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> AsyncIterator[MemoryService]:
    """One that asks the scripted server for facts."""
    async with opened(asking(embedded_settings, openai_server)) as service:
        yield service


async def loop(
    memory: MemoryAgent, echo: Callable[[str], str], answer: str = "Day {n}: stay in Bergen."
) -> None:
    """An agent loop that stores what it was given by memory along with what the user asked."""
    for number in range(ROUNDS):
        question = f"What should I do on day {number}?"
        given = echo(str(await memory.fetch_memory(question, max_tokens=1_500)))
        await memory.update_memory(f"{given}\n\n{question}", answer.format(n=number))
        if number % 6 == 5:
            await memory.settle(timeout=60)


@pytest.mark.parametrize("echo", ["facts-alone", "recollections-alone"])
async def test_facts_do_not_feed_on_themselves(
    memory: MemoryAgent, echo: str, openai_server: ScriptedOpenAI
) -> None:
    """Turns that carry what memory gave add nothing, however eagerly a model notes; what it noted is there to see."""
    openai_server.answer = eager()
    for text in SAID:
        await memory.update_memory(text, "Noted.")
    await memory.settle(timeout=60)
    await memory.set_fact("dog.tricks", "fetch the newspaper every morning")
    before, records = await memory.fetch_facts(), await standing(memory)
    assert len(records) == 4
    await loop(memory, ECHOES[echo])
    assert await memory.fetch_facts() == before
    assert [record.id for record in await standing(memory)] == [record.id for record in records]
    refusals = await refused(memory)
    assert {record.path[0] for record in refusals} <= {"noted"}
    assert all(record.refused and "quote" in record.refused for record in refusals)


@pytest.mark.parametrize("echo", ["without-tags"])
async def test_patterns_find_nothing_in_what_it_gave(echo: str, embedded_settings: dict[str, Any]) -> None:
    """Without a model as well: a turn that shows where the user used to live does not move them back."""
    async with opened({**embedded_settings, "enable_topics": False}) as service:
        memory = service.agent("ann", "chat")
        for text in ("Hello there!\nI live in Oslo.", "I like chess.", "I moved to Bergen."):
            await memory.update_memory(text, "Noted.")
        await memory.settle(timeout=60)
        before, records = await memory.fetch_facts(), await memory.fact_history()
        assert before == {"location": "Bergen", "preferences": {"likes": ["chess"]}}
        await loop(memory, ECHOES[echo])
        assert await memory.fetch_facts() == before
        assert await memory.fact_history() == records


# --- orders and hostile data ---------------------------------------------------------------------------------
