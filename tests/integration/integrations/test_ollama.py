"""A conversation with a model of Ollama's, over Ollama's own API."""

import json
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest

from memory_agent.domain import Message
from memory_agent.errors import InvalidInput, LLMError, LLMUnavailable
from memory_agent.integrations.ollama import OllamaAdapter, OllamaModel
from memory_agent.strategy import HybridMemoryStrategy, StrategyConfig
from tests.servers.ollama_script import Recorded, ScriptedOllama

THINKING = Recorded(
    b'{"model":"qwen3:30b-a3b","created_at":"2026-11-20T08:52:19.385406455Z","message":{"role":"assistant","content":"",'
    b'"thinking":"They ask why."},"done":false}\n'
    b'{"model":"qwen3:30b-a3b","created_at":"2026-11-20T08:52:19.401Z","message":{"role":"assistant","content":"Rayleigh"},"done":false}\n'
    b'{"model":"qwen3:30b-a3b","created_at":"2026-11-20T08:52:19.402Z","message":{"role":"assistant","content":" scattering\xc2\x85."},"done":false}\n'
    b'{"model":"qwen3:30b-a3b","created_at":"2026-11-20T08:52:20.1Z","message":{"role":"assistant","content":""},"done":true,'
    b'"done_reason":"stop","total_duration":4883583458,"load_duration":1334875,"prompt_eval_count":26,'
    b'"prompt_eval_duration":342546000,"eval_count":282,"eval_duration":4535599000}'
)
"""In the form of Ollama's API documentation, with a next-line character, at which httpx would cut a line."""
CUT_OFF = Recorded(
    THINKING.body[: THINKING.body.index(b'{"model":"qwen3:30b-a3b","created_at":"2026-11-20T08:52:20')]
)


@pytest.fixture
def ollama() -> Iterator[ScriptedOllama]:
    server = ScriptedOllama("qwen3", []).start()
    yield server
    server.stop()


def sent(ollama: ScriptedOllama) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in ollama.chats[-1]["messages"]]


async def test_an_answer_joins_the_history_without_the_thinking(ollama: ScriptedOllama) -> None:
    ollama.replies = [THINKING, "<think>Hm.</think>Mie is white."]
    async with OllamaAdapter("qwen3", ollama.url + "/", {"temperature": 0, "keep_alive": "5m"}) as adapter:
        pieces = [piece async for piece in adapter.stream_prompt_async("Why is the sky blue?", think=True)]
        assert pieces == ["Rayleigh", " scattering\x85."]
        assert adapter.client.last["done_reason"] == "stop"
        assert (adapter.client.usage.prompt_tokens, adapter.client.usage.completion_tokens) == (26, 282)
        assert await adapter.send_prompt_async("And clouds?", temperature=0.5) == "Mie is white."
    first, second = ollama.chats
    assert {name: value for name, value in first.items() if name != "messages"} == {
        "model": "qwen3",
        "stream": True,
        "keep_alive": "5m",
        "think": True,
        "options": {"temperature": 0, "num_ctx": 4_000 + 2_048},
    }
    assert (second["options"]["temperature"], "think" in second) == (0.5, False)
    said = [
        ("user", "Why is the sky blue?"),
        ("assistant", "Rayleigh scattering\x85."),
        ("user", "And clouds?"),
    ]
    assert sent(ollama) == said
    assert adapter.history == [*said, ("assistant", "Mie is white.")]


async def test_a_long_conversation_is_sent_as_its_strategy_keeps_it(ollama: ScriptedOllama) -> None:
    """The same model makes the summary, in a context of the same size, so that it is not loaded again."""
    config = StrategyConfig(max_context_tokens=2_000, recent_messages_count=4, summarization_threshold=6)
    ollama.replies = ["SUMMARY: They count sheep.", "Eleven.", "Twelve."]
    async with OllamaAdapter("qwen3", ollama.url, memory_config=config) as adapter:
        adapter.history = [("user", f"Sheep number {i} jumps over the fence.") for i in range(12)]
        assert await adapter.send_prompt_async("How many?") == "Eleven."
        summary, *recent = sent(ollama)
        assert "They count sheep." in summary[1]
        assert recent == [*adapter.history[8:12], ("user", "How many?")]
        assert {chat["options"]["num_ctx"] for chat in ollama.chats} == {2_000 + 2_048}
        adapter.memory_strategy = None
        await adapter.send_prompt_async("Sure?")
        assert len(sent(ollama)) == 12 + 2 + 1


async def test_without_a_strategy_all_is_sent(ollama: ScriptedOllama) -> None:
    ollama.replies = ["Yes."]
    async with OllamaAdapter("qwen3", ollama.url, use_hybrid_memory=False) as adapter:
        adapter.history = [("user", f"Sheep {i}") for i in range(40)]
        await adapter.send_prompt_async("All of them?")
    assert len(sent(ollama)) == 41
    assert ollama.chats[0]["options"] == {}


@pytest.mark.parametrize(
    ("reply", "error", "told"),
    [
        (CUT_OFF, LLMUnavailable, "broke off in the middle"),
        (Recorded(b'{"error":"out of memory"}\n'), LLMError, "ended a reply with an error: out of memory"),
        (
            Recorded(b'{"error":"invalid options: num_ctx"}', 400),
            LLMError,
            "with 400: invalid options: num_ctx",
        ),
        (Recorded(b"busy", 503), LLMUnavailable, "answered 503: busy"),
        (Recorded(b"<html>hello</html>"), LLMError, "is not Ollama"),
        (Recorded(b"[1]"), LLMError, "is not Ollama"),
    ],
)
async def test_a_failure_says_what_it_is_and_leaves_the_history_as_it_was(
    ollama: ScriptedOllama, reply: Any, error: type[Exception], told: str
) -> None:
    ollama.replies = [reply]
    async with OllamaAdapter("qwen3", ollama.url) as adapter:
        with pytest.raises(error, match=told):
            await adapter.send_prompt_async("Why?")
        assert adapter.history == []


async def test_nobody_there_and_no_such_model_are_told_with_the_remedy(ollama: ScriptedOllama) -> None:
    async with OllamaAdapter("llama9", ollama.url) as adapter:
        with pytest.raises(LLMUnavailable, match=r"not found; get the model with `ollama pull llama9`"):
            await adapter.send_prompt_async("Why?")
    ollama.stop()
    async with OllamaAdapter("qwen3", ollama.url) as adapter:
        with pytest.raises(
            LLMUnavailable, match=r"does not answer \(ConnectError\); start it with `ollama serve`"
        ):
            await adapter.send_prompt_async("Why?")
    async with OllamaAdapter("qwen3", "localhost:11434") as adapter:
        with pytest.raises(LLMUnavailable, match="pass the base_url where it listens, such as http://local"):
            await adapter.send_prompt_async("Why?")
    for wrong in ("messages", "tools"):
        with pytest.raises(InvalidInput, match=f"{wrong} cannot be set"):
            OllamaAdapter("qwen3", default_params={wrong: []})


async def test_an_answer_that_is_not_read_to_its_end_is_not_remembered(ollama: ScriptedOllama) -> None:
    ollama.replies = ["One two three."]
    async with OllamaAdapter("qwen3", ollama.url) as adapter:
        async with aclosing(adapter.stream_prompt_async("Count.")) as stream:
            assert await anext(stream) == "One"
        assert adapter.history == []


async def test_it_is_a_model_like_any_other(ollama: ScriptedOllama) -> None:
    """With a schema Ollama is held to it; a reply that was cut off is told."""
    cut = {
        "message": {"role": "assistant", "content": '{"age": 22'},
        "done": True,
        "done_reason": "length",
        "eval_count": 4,
    }
    ollama.replies = [Recorded(json.dumps(cut).encode()), "They count sheep."]
    model = OllamaModel("qwen3", ollama.url)
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
    reply = await model.complete([Message(role="user", content="How old?")], schema=schema, max_tokens=4)
    assert (reply.text, reply.truncated, reply.completion_tokens) == ('{"age": 22', True, 4)
    assert (ollama.chats[0]["format"], ollama.chats[0]["options"]) == (schema, {"num_predict": 4})
    strategy = HybridMemoryStrategy(llm=model, summarization_threshold=3, recent_messages_count=1)
    context = await strategy.prepare_context([("user", f"Sheep {i}") for i in range(9)], "And?")
    assert "They count sheep." in context[0][1]
    await model.close()
