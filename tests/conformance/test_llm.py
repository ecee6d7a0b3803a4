"""`LLM`, over every adapter."""

import asyncio
from typing import Protocol

import pytest

from memory_agent.domain import Message
from memory_agent.errors import LLMError, LLMUnavailable
from memory_agent.ports import LLM

QUESTION = [Message(role="system", content="Be brief."), Message(role="user", content="What is two and two?")]
SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}}


class Stage(Protocol):
    """A model, and what it is going to say."""

    llm: LLM

    def says(self, *texts: str) -> None: ...
    def is_down(self) -> None: ...
    def refuses(self) -> None: ...


async def test_the_reply_is_the_models_text(stage: Stage) -> None:
    """Unchanged, with what it cost; also with a schema, for parsing is the caller's."""
    assert stage.llm.model == "scripted"
    stage.says("It is four, 넷 👍.", '{"answer": 4}', "one two three four five")
    completion = await stage.llm.complete(QUESTION)
    assert completion.text == "It is four, 넷 👍."
    assert (completion.prompt_tokens, completion.completion_tokens) == (7, 5)
    assert not completion.truncated
    assert (await stage.llm.complete(QUESTION, schema=SCHEMA)).text == '{"answer": 4}'
    cut_off = await stage.llm.complete(QUESTION, max_tokens=3)
    assert (cut_off.text, cut_off.truncated) == ("one two three", True)


async def test_failures_are_told_apart(stage: Stage) -> None:
    """A server that fails is worth a retry, and the next call works; a request that can never work is an LLMError."""
    stage.is_down()
    with pytest.raises(LLMUnavailable, match="on fire"):
        await stage.llm.complete(QUESTION)
    stage.says("four")
    assert (await stage.llm.complete(QUESTION)).text == "four"
    stage.refuses()
    with pytest.raises(LLMError, match="no such option"):
        await stage.llm.complete(QUESTION)


async def test_calls_at_once_are_all_answered(stage: Stage) -> None:
    """Concurrent calls each get a reply of their own."""
    stage.says(*(f"reply {n}" for n in range(8)))
    completions = await asyncio.gather(*(stage.llm.complete(QUESTION) for _ in range(8)))
    assert sorted(c.text for c in completions) == [f"reply {n}" for n in range(8)]


async def test_usage_adds_up(stage: Stage) -> None:
    """`usage` counts the requests that were answered and their tokens. close() can be repeated."""
    assert stage.llm.usage.requests == 0
    stage.says("one two", "three")
    await stage.llm.complete(QUESTION)
    await stage.llm.complete(QUESTION)
    stage.is_down()
    with pytest.raises(LLMUnavailable):
        await stage.llm.complete(QUESTION)
    usage = stage.llm.usage
    assert (usage.requests, usage.prompt_tokens, usage.completion_tokens) == (2, 14, 3)
    await stage.llm.close()
    await stage.llm.close()
