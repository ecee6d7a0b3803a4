"""Servers that speak OpenAI's API, each with the statuses and texts that it is known to answer: what comes out of them.

Where a refusal was seen stands beside it, as project and issue, pull request or file.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from memory_agent.domain import Message, Usage
from memory_agent.errors import LLMError, LLMUnavailable
from memory_agent.models.openai import LEARNED, OpenAIChat
from memory_agent.models.tokens import EstimatedTokens
from memory_agent.testing import BruteForceIndex
from tests.integration.fact_script import asking, opened
from tests.servers.openai_script import Reply, Request, ScriptedOpenAI

OSLO: Final = "The office in Oslo is where they keep a desk for me."
"""What a model can make a fact of, and patterns can't."""
FACT: Final = {
    "quote": OSLO[:-1],
    "about": "user",
    "path": "employer",
    "value": "office in Oslo",
    "over": False,
}
ANSWER: Final = json.dumps({"facts": [FACT]})
SCHEMA: Final = {"type": "object", "properties": {"facts": {"type": "array", "items": {"type": "object"}}}}
QUESTION: Final = [Message(role="system", content="Take notes."), Message(role="user", content=OSLO)]

Condition = Callable[[Request], bool]


# --- the servers ---------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What a server answers to requests of a kind. `source`: where that was seen."""

    when: Condition
    status: int
    body: Any
    source: str


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server: what it refuses, in its order, and the message in which it puts an answer. `requests`: for the first answer."""

    refusals: tuple[Refusal, ...] = ()
    message: Callable[[Request, str], dict[str, Any]] = field(default=lambda _, answer: {"content": answer})
    requests: int = 1

    def __call__(self, body: Request) -> Reply:
        for refusal in self.refusals:
            if refusal.when(body):
                return Reply(status=refusal.status, raw=json.dumps(refusal.body))
        message = {"role": "assistant", **self.message(body, ANSWER)}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": tokens_of(body), "completion_tokens": 30}
        return Reply(raw=json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}))


def tokens_of(body: Request) -> int:
    return EstimatedTokens().count("\n".join(message["content"] for message in body["messages"]))


def form(*names: str) -> Condition:
    return lambda body: body.get("response_format", {}).get("type") in names


def option(name: str) -> Condition:
    return lambda body: name in body


def role(name: str) -> Condition:
    return lambda body: any(message["role"] == name for message in body["messages"])


def openai(message: str, **more: Any) -> dict[str, Any]:
    """An error as OpenAI's API has it."""
    return {
        "error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}
    }


def vllm(message: str) -> dict[str, Any]:
    return {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}


def patterned(body: Request) -> bool:
    """True if the schema holds what Ollama's grammar cannot."""
    schema = json.dumps(body.get("response_format", {}))
    return any(word in schema for word in ('"pattern"', '"type": [', '"$ref"'))


SERVERS: Final = {
    "openai, a model that thinks": Server(
        refusals=(
            Refusal(
                when=option("max_tokens"),
                status=400,
                body=openai(
                    "Unsupported parameter: 'max_tokens' is not supported with this model."
                    " Use 'max_completion_tokens' instead.",
                    param="max_tokens",
                    code="unsupported_parameter",
                ),
                source="griptape-ai/ComfyUI-Griptape#312",
            ),
            Refusal(
                when=option("temperature"),
                status=400,
                body=openai(
                    "Unsupported value: 'temperature' does not support 0 with this model."
                    " Only the default (1) value is supported.",
                    param="temperature",
                    code="unsupported_value",
                ),
                source="johny-b/llmcomp#69",
            ),
        ),
        requests=3,
    ),
    "ollama": Server(
        refusals=(
            Refusal(
                when=patterned,
                status=500,
                body=openai("invalid JSON schema in format", type="api_error"),
                source="ollama/ollama#8185, datalab-to/marker#984",
            ),
        ),
        message=lambda body, answer: {"content": "", "reasoning": answer},  # NousResearch/hermes-agent#85039
    ),
    "llama_cpp.server": Server(
        refusals=(
            Refusal(
                when=form("json_schema"),
                status=500,
                body=openai(
                    "1 validation error:\n  {'type': 'literal_error', 'loc': ('body', 'response_format', 'type'),"
                    " 'msg': \"Input should be 'text' or 'json_object'\", 'input': 'json_schema', 'ctx': {'expected':"
                    " \"'text' or 'json_object'\"}}\n\n  File \"/env/llama_cpp/server/app.py\", line 376, in"
                    " create_chat_completion\n    POST /v1/chat/completions",
                    type="internal_server_error",
                ),
                source="llama-cpp-python 0.3.36, asked; ggml-org/llama.cpp#23463",
            ),
        ),
        requests=2,
    ),
    "llama-server of 2024, gemma's template": Server(
        refusals=(
            Refusal(
                when=role("system"),
                status=500,
                body={
                    "error": {
                        "code": 500,
                        "message": "\n------------\nWhile executing CallExpression at line 1, column 60 in source:\n"
                        "Error: Jinja Exception: System role not supported",
                        "type": "server_error",
                    }
                },
                source="mistralai/mistral-vibe#1006, abetlen/llama-cpp-python#1580",
            ),
            Refusal(
                when=form("json_schema"),
                status=500,
                body={
                    "error": {
                        "code": 500,
                        "message": 'response_format type must be one of "text" or "json_object", but got: json_schema',
                        "type": "server_error",
                    }
                },
                source="ggml-org/llama.cpp#9522",
            ),
        ),
        requests=3,
    ),
    "llama-server, which holds nothing to the schema": Server(
        message=lambda body, answer: {"content": f"Here is the JSON:\n```json\n{answer}\n```"},
        # ggml-org/llama.cpp#24097
    ),
    "lm-studio": Server(
        refusals=(
            Refusal(
                when=form("json_object"),
                status=400,
                body={"error": "'response_format.type' must be 'json_schema' or 'text'"},
                source="lmstudio-ai/lmstudio-bug-tracker#189",
            ),
        ),
        # lmstudio-ai/lmstudio-bug-tracker#1684: empty with a schema
        message=lambda body, answer: {
            "content": "" if "response_format" in body else answer,
            "tool_calls": [],
        },
        requests=3,
    ),
    "vllm": Server(
        refusals=(
            Refusal(
                when=role("system"),
                status=400,
                body=vllm("System role not supported"),
                source="vllm-project/vllm#2964",
            ),
            Refusal(
                when=form("json_schema"),
                status=400,
                body=vllm("The provided JSON schema contains features not supported by xgrammar."),
                source="vllm-project/vllm#16321",
            ),
        ),
        message=lambda body, answer: {
            "content": None,
            "reasoning_content": answer,
        },  # vllm-project/vllm#16182
        requests=3,
    ),
    "vllm with a short context": Server(
        refusals=(
            Refusal(
                when=lambda body: (body.get("max_tokens") or body.get("max_completion_tokens") or 0) > 300,
                status=400,
                body=vllm(
                    "This model's maximum context length is 2048 tokens. However, you requested 4000 output tokens and"
                    " your prompt contains at least 900 input tokens, for a total of at least 4900 tokens."
                ),
                source="vllm-project/vllm#42474",
            ),
        ),
        requests=3,
    ),
    "deepseek": Server(
        refusals=(
            Refusal(
                when=form("json_schema"),
                status=400,
                body=openai("This response_format type is unavailable now", code="invalid_request_error"),
                source="llm-exe/llm-exe#662",
            ),
            Refusal(
                when=lambda body: form("json_object")(body) and "json" not in str(body["messages"]).lower(),
                status=400,
                body=openai(
                    "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'."
                ),
                source="browserbase/stagehand#1204",
            ),
        ),
        message=lambda body, answer: {"content": answer, "reasoning_content": "The user works in {Oslo}."},
        requests=2,
    ),
    "deepseek, in the words of its parser": Server(
        refusals=(
            Refusal(
                when=form("json_schema"),
                status=422,
                body={
                    "error": {
                        "message": "Failed to deserialize the JSON body into the target type: response_format:"
                        " response_format.type `json_schema` is unavailable now at line 1 column 6893",
                        "type": "invalid_request_error",
                    }
                },
                source="dzhng/deep-research#22",
            ),
        ),
        requests=2,
    ),
    "openrouter": Server(
        refusals=(
            Refusal(
                when=form("json_schema"),
                status=404,
                body={
                    "error": {
                        "message": "No endpoints available matching your guardrail restrictions and data policy."
                        " Configure: https://openrouter.ai/settings/privacy",
                        "code": 404,
                    }
                },
                source="OpenRouterTeam/ai-sdk-provider#483",
            ),
            Refusal(
                when=form("json_object"),
                status=200,
                body={
                    "error": {
                        "message": "Provider returned error",
                        "code": 400,
                        "metadata": {
                            "raw": "response_format json_object is not supported",
                            "provider_name": "X",
                        },
                    }
                },
                source="reVrost/go-openrouter#21; openrouter.ai/docs/errors: status 200 once a model was asked",
            ),
        ),
        requests=3,
    ),
    "litellm": Server(
        refusals=(
            Refusal(
                when=option("response_format"),
                status=400,
                body=openai(
                    "litellm.UnsupportedParamsError: together_ai does not support parameters: ['response_format'], for"
                    " model=deepseek-ai/DeepSeek-V3. To drop these, set `litellm.drop_params=True` or for proxy:",
                    type="None",
                    code="400",
                ),
                source="BerriAI/litellm#8278",
            ),
            Refusal(
                when=option("temperature"),
                status=400,
                body=openai(
                    "litellm.UnsupportedParamsError: gpt-5-nano doesn't support temperature=0 while reasoning is active."
                    " Only temperature=1 is supported",
                    code="400",
                ),
                source="BerriAI/litellm#33738",
            ),
        ),
        requests=4,
    ),
    "groq": Server(
        refusals=(
            Refusal(
                when=option("response_format"),
                status=400,
                body=openai(
                    "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details.",
                    code="json_validate_failed",
                    failed_generation=ANSWER,
                ),
                source="build-with-groq/g1#23",
            ),
        ),
    ),
    "mistral, a model that thinks": Server(
        message=lambda body, answer: {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": '{"facts": ['}]},
                {"type": "text", "text": answer},
            ]
        },
        # vercel/ai#8072
    ),
    "google, gemma": Server(
        refusals=(
            Refusal(
                when=role("system"),
                status=400,
                body=[
                    {
                        "error": {
                            "code": 400,
                            "message": "Developer instruction is not enabled for models/gemma-3-27b-it",
                            "status": "INVALID_ARGUMENT",
                        }
                    }
                ],
                source="microsoft/vscode#258088",
            ),
        ),
        requests=2,
    ),
}


@pytest.fixture
def server(openai_server: ScriptedOpenAI, request: pytest.FixtureRequest) -> ScriptedOpenAI:
    openai_server.answer = SERVERS[request.param]
    return openai_server


@pytest.mark.parametrize(
    ("server", "requests"), [(n, s.requests) for n, s in SERVERS.items()], indirect=["server"]
)
async def test_each_server_answers_and_is_asked_in_its_way_from_then_on(
    server: ScriptedOpenAI, requests: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Found out once for all clients of the endpoint and the model, and said once."""
    caplog.set_level(logging.INFO, "memory_agent.models.openai")
    first, second = (OpenAIChat("m", base_url=server.base_url, max_retries=2) for _ in range(2))
    for chat, asked in ((first, requests), (second, requests + 1), (first, requests + 2)):
        completion = await chat.complete(QUESTION, schema=SCHEMA, max_tokens=400)
        assert ANSWER in completion.text
        assert len(server.chats) == asked
    told = [record.getMessage() for record in caplog.records if "from now on" in record.getMessage()]
    assert len(told) == (requests > 1), told
    for chat in (first, second):
        await chat.close()


@pytest.mark.parametrize("server", SERVERS, indirect=True)
async def test_facts_come_out_of_each(embedded_settings: dict[str, Any], server: ScriptedOpenAI) -> None:
    async with opened(asking(embedded_settings, server), vectors=BruteForceIndex()) as service:
        memory = service.agent("ada", "chat")
        await memory.update_memory(OSLO, "Nice!")
        await memory.settle(timeout=60)
        assert await memory.fetch_facts() == {"employer": "office in Oslo"}
        assert (await memory.status()).outages == ()


async def test_what_was_spent_is_shown(
    embedded_settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """Requests, tokens and seconds: of the facts by the store, of facts and of summaries since the process began."""
    openai_server.answer = SERVERS["vllm"]
    async with opened(asking(embedded_settings, openai_server), vectors=BruteForceIndex()) as service:
        memory = service.agent("ada", "chat")
        await memory.add_user_message(OSLO)
        await memory.settle(timeout=60)
        cost, worker = (await memory.status()).extraction, await service.worker_status()
        assert (cost.requests, cost.seconds) == (1, worker.usage_by["facts"].seconds)
        assert cost.seconds > 0
        assert (worker.usage, worker.usage_by["summaries"]) == (worker.usage_by["facts"], Usage())


# --- what is no matter of the way ----------------------------------------------------------------------------
PAGE: Final = "<!doctype html><html><body role='main'>Bad gateway: no JSON, no temperature</body></html>"
OUTAGES: Final = {
    "ollama": (500, openai("llama runner process has terminated: exit status 2", type="api_error")),
    "a proxy's page": (502, PAGE),
    "a rate limit": (429, openai("Rate limit reached for max_tokens per minute in JSON mode")),
    "openrouter, no credits": (
        402,
        {"error": {"message": "This request requires more credits, or fewer max_tokens.", "code": 402}},
    ),
    "openrouter, after the head": (200, {"error": {"message": "Provider returned error", "code": 502}}),
    "openrouter, in the choice": (
        200,
        {
            "choices": [
                {
                    "finish_reason": "error",
                    "message": {"content": "{"},
                    "error": {"code": 503, "message": "no"},
                }
            ]
        },
    ),
    "litellm, no such key": (401, openai("Authentication Error, No connected db. role", code="401")),
}


@pytest.mark.parametrize(("status", "body"), OUTAGES.values(), ids=OUTAGES)
async def test_an_outage_is_asked_nothing_more(openai_server: ScriptedOpenAI, status: int, body: Any) -> None:
    page = isinstance(body, str)
    raw, kind = (body, "text/html") if page else (json.dumps(body), "application/json")
    openai_server.answer = lambda _: Reply(status=status, raw=raw, content_type=kind)
    chat = OpenAIChat("m", base_url=openai_server.base_url, max_retries=0)
    with pytest.raises(LLMUnavailable):
        await chat.complete(QUESTION, schema=SCHEMA, max_tokens=400)
    assert len(openai_server.chats) == 1
    assert LEARNED[openai_server.base_url, "m"].way == (0, 0, 0, 0)
    await chat.close()


LLAMA_SERVER_TOO_LONG: Final = {
    "error": {
        "code": 400,
        "message": "the request exceeds the available context size, try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 4476,
        "n_ctx": 4096,
    }
}
N_KEEP: Final = {"error": "Cannot truncate prompt with n_keep (4476) >= n_ctx (4096)"}
TOO_LONG: Final = {
    "llama-server, ggml-org/llama.cpp#17284": (400, LLAMA_SERVER_TOO_LONG),
    "llama-server, ggml-org/llama.cpp#15780": (500, LLAMA_SERVER_TOO_LONG),
    "lm-studio, lreuss07/secintel-ai#1": (400, N_KEEP),
    "lm-studio, lmstudio-bug-tracker#2322": (200, N_KEEP),
    "lm-studio, lmstudio-bug-tracker#546": (
        400,
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the context length."
            " Try to load the model with a larger context length, or provide a shorter input"
        },
    ),
    "ollama with shift off, ollama/ollama#18399": (
        400,
        openai("the prompt is longer than the context length currently available to the model"),
    ),
    "openai": (
        400,
        openai(
            "This model's maximum context length is 4097 tokens. However, your messages resulted in 6988 tokens.",
            param="messages",
            code="context_length_exceeded",
        ),
    ),
}


@pytest.mark.parametrize(("status", "body"), TOO_LONG.values(), ids=TOO_LONG)
async def test_a_prompt_that_is_too_long_is_refused_for_its_length_alone(
    openai_server: ScriptedOpenAI, status: int, body: Any
) -> None:
    """At once, in the server's words; a shorter one is answered in the best form."""
    refused = Reply(status=status, raw=json.dumps(body))
    openai_server.answer = lambda asked: refused if tokens_of(asked) > 1_000 else "{}"
    chat = OpenAIChat("m", base_url=openai_server.base_url, max_retries=0)
    with pytest.raises(LLMError, match=r"context|n_ctx"):
        await chat.complete([Message(role="user", content="word " * 2_000)], schema=SCHEMA)
    assert len(openai_server.chats) == 1
    await chat.complete(QUESTION, schema=SCHEMA)
    assert openai_server.chats[-1]["response_format"]["type"] == "json_schema"
    await chat.close()


# --- what was cut without a word -----------------------------------------------------------------------------
LONG: Final = [
    Message(role="system", content="Take notes. " * 100),
    Message(role="user", content=f"{OSLO} " * 600),
]


def counting(count: Callable[[int], int | None]) -> Callable[[Request], Reply]:
    """A server that counts a prompt of so many tokens in its own way."""

    def answer(body: Request) -> Reply:
        usage = {"prompt_tokens": count(tokens_of(body)), "completion_tokens": 2}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}
        return Reply(raw=json.dumps({"choices": [choice], "usage": usage}))

    return answer


def half_of(num_ctx: int) -> Callable[[int], int]:
    """As Ollama cuts: to the half of its context and two (ollama/ollama#17427)."""
    return lambda tokens: tokens if tokens < num_ctx else num_ctx // 2 + 2


async def test_a_prompt_that_the_server_cut_is_an_error(
    openai_server: ScriptedOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    """The reply to a part of it is not to be trusted. Found out by one short request more, said once; a shorter prompt goes."""
    openai_server.answer = counting(half_of(2_048))
    chat = OpenAIChat("m", base_url=openai_server.base_url)
    for asked in (2, 3):
        with pytest.raises(
            LLMError, match=r"cut the prompt to 1,026 tokens; raise num_ctx \(OLLAMA_CONTEXT_LENGTH"
        ):
            await chat.complete(LONG, max_tokens=400)
        assert len(openai_server.chats) == asked
    assert openai_server.chats[1]["max_tokens"] == 1
    assert (await chat.complete(QUESTION, max_tokens=400)).text == ANSWER
    assert [r.levelname for r in caplog.records if "cuts prompts to 1,026 tokens" in r.getMessage()] == [
        "WARNING"
    ]
    await chat.close()


COUNTS: Final[dict[str, Callable[[int], int | None]]] = {
    "all of it": lambda tokens: tokens,
    "by a tokenizer with larger pieces": lambda tokens: round(tokens * 0.8),
    "nothing of what was in its cache, as Ollama did (ollama/ollama#5370)": lambda tokens: 0,
    "not at all (ollama/ollama#2068)": lambda tokens: None,
    "what was not in its cache (ollama/ollama#16414)": lambda tokens: tokens - 2_000,
    "words, or letters by four": lambda tokens: round(tokens * 0.4),
    "a constant of a proxy's": lambda tokens: 10,
}


@pytest.mark.parametrize("count", COUNTS.values(), ids=COUNTS)
async def test_a_server_that_counts_otherwise_is_believed(
    openai_server: ScriptedOpenAI, count: Callable[[int], int | None]
) -> None:
    """It is asked at most once more whether it cuts."""
    openai_server.answer = counting(count)
    chat = OpenAIChat("m", base_url=openai_server.base_url)
    for _ in range(3):
        assert (await chat.complete(LONG, max_tokens=400)).text == ANSWER
    assert len(openai_server.chats) <= 4
    await chat.close()


async def test_status_says_that_prompts_are_cut(
    embedded_settings: dict[str, Any], openai_server: ScriptedOpenAI
) -> None:
    """With what to do about it."""
    openai_server.answer = counting(lambda tokens: min(tokens, 514))
    async with opened(asking(embedded_settings, openai_server), vectors=BruteForceIndex()) as service:
        memory = service.agent("ada", "chat")
        assert (await memory.status()).warnings == ()
        await memory.add_user_message(f"{OSLO} " + "The weather was fine again, and later it rained. " * 150)
        await memory.settle(timeout=60)
        (warning,) = (await memory.status()).warnings
        assert "cuts prompts to 514 tokens; raise num_ctx (OLLAMA_CONTEXT_LENGTH)" in warning
