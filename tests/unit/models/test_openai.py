"""What is particular to the OpenAI adapters, against a real HTTP server."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from memory_agent.config import MemoryConfig
from memory_agent.domain import Message
from memory_agent.errors import EmbedderError, EmbedderUnavailable, LLMError, LLMUnavailable, ModelRefused
from memory_agent.models.openai import OpenAIChat, OpenAIEmbedder, translate
from tests.servers.openai_script import Reply, ScriptedOpenAI

ASK = [Message(role="user", content="hello there")]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
KEY = "sk-very-secret-key"


@pytest.fixture
def server(openai_server: ScriptedOpenAI) -> ScriptedOpenAI:
    return openai_server


@pytest.fixture
async def chat(server: ScriptedOpenAI) -> AsyncIterator[OpenAIChat]:
    chat = OpenAIChat("m", api_key=SecretStr(KEY), base_url=server.base_url, timeout_seconds=5, max_retries=0)
    yield chat
    await chat.close()


@pytest.fixture
async def embedder(server: ScriptedOpenAI) -> AsyncIterator[OpenAIEmbedder]:
    embedder = OpenAIEmbedder("m", base_url=server.base_url, timeout_seconds=5, max_retries=0)
    yield embedder
    await embedder.close()


# --- structured output ---------------------------------------------------------------------------------------
async def test_a_schema_is_sent_as_such(chat: OpenAIChat, server: ScriptedOpenAI) -> None:
    await chat.complete(ASK, schema=SCHEMA)
    sent = server.chats[0]["response_format"]
    assert sent == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": SCHEMA, "strict": False},
    }


@pytest.mark.parametrize(
    ("refused", "forms"),
    [
        ({"json_schema"}, ["json_schema", "json_object", "json_object"]),
        ({"json_schema", "json_object"}, ["json_schema", "json_object", None, None]),
    ],
    ids=["no-schemas", "no-response-format"],
)
async def test_a_server_that_cannot_is_asked_in_words(
    chat: OpenAIChat, server: ScriptedOpenAI, refused: set[str], forms: list[str | None]
) -> None:
    """A refused form is replaced by the next, with the schema in the system message, and never tried again."""
    server.refused_forms = refused
    server.then('{"name": "Ann"}')
    completion = await chat.complete(ASK, schema=SCHEMA)
    assert completion.text == '{"name": "Ann"}'
    await chat.complete([Message(role="system", content="Be brief."), *ASK], schema=SCHEMA)
    assert [body.get("response_format", {}).get("type") for body in server.chats] == forms
    first, *_, last = server.chats[-2]["messages"], server.chats[-1]["messages"]
    assert json.dumps(SCHEMA) in first[0]["content"]
    assert [message["role"] for message in last] == ["system", "user"]
    assert last[0]["content"].startswith("Be brief.\n")


async def test_a_bad_request_is_not_blamed_on_the_form(chat: OpenAIChat, server: ScriptedOpenAI) -> None:
    """If every form is refused the last refusal is told, and the next call asks in the best form again."""
    server.then(*(Reply(status=400, text=f"bad {n}") for n in range(3)))
    with pytest.raises(LLMError, match="bad 2"):
        await chat.complete(ASK, schema=SCHEMA)
    assert len(server.chats) == 4  # and once whether it answers anything at all, which it does
    await chat.complete(ASK, schema=SCHEMA)
    assert server.chats[-1]["response_format"]["type"] == "json_schema"


# --- replies -------------------------------------------------------------------------------------------------
async def test_usage_is_counted(chat: OpenAIChat, server: ScriptedOpenAI) -> None:
    """Requests and tokens add up; servers that leave the figures out count as none. "length" marks a reply as cut off."""
    server.then(
        "one two three", Reply(text="four", usage=False), Reply(text="and then", finish_reason="length")
    )
    first, second, third = [await chat.complete(ASK, max_tokens=5) for _ in range(3)]
    assert (first.prompt_tokens, first.completion_tokens, second.completion_tokens) == (2, 3, 0)
    assert [reply.truncated for reply in (first, second, third)] == [False, False, True]
    usage = chat.usage
    assert (usage.requests, usage.prompt_tokens, usage.completion_tokens) == (3, 4, 5)
    assert usage.seconds == first.seconds + second.seconds + third.seconds > 0
    assert server.chats[0]["max_tokens"] == 5  # as compatible servers know it
    assert "max_completion_tokens" not in server.chats[0]


def said(**message: Any) -> Reply:
    message = {"role": "assistant", "content": None, **message}
    return Reply(raw=json.dumps({"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}))


async def test_a_refusal_of_the_model_is_an_error(chat: OpenAIChat, server: ScriptedOpenAI) -> None:
    """A model that declines in words of its own, or a filter of contents that stops the answer or the request.

    Nothing else is asked to find that out.
    """
    error = {"message": "The prompt triggered the filter.", "code": "content_filter"}
    server.then(
        said(refusal="I can't do that"),
        Reply(text="", finish_reason="content_filter"),
        Reply(status=400, raw=json.dumps({"error": error})),
    )
    with pytest.raises(ModelRefused, match="can't do that") as caught:
        await chat.complete(ASK)
    assert caught.value.reply == "I can't do that"
    for _ in range(2):
        with pytest.raises(ModelRefused, match="filter"):
            await chat.complete(ASK)
    assert len(server.chats) == 3


ANSWER = '{"name": "Ann"}'
SHAPES: dict[str, dict[str, Any]] = {
    "parts": {"content": [{"type": "text", "text": '{"name":'}, {"type": "text", "text": ' "Ann"}'}]},
    "thinking-parts": {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": '{"name": "Bo"}'}]},
            {"type": "reasoning", "text": '{"name": "Bo"}'},
            {"type": "text", "text": ANSWER},
        ]
    },
    "tool-call": {"tool_calls": [{"type": "function", "function": {"name": "reply", "arguments": ANSWER}}]},
    "tool-call-as-object": {"content": "", "tool_calls": [{"function": {"arguments": {"name": "Ann"}}}]},
    "function-call": {"function_call": {"name": "reply", "arguments": ANSWER}},
    "reasoning-content": {"content": "", "reasoning_content": ANSWER},
    "reasoning": {"reasoning": ANSWER},
    "thinking": {"content": " \n", "thinking": ANSWER},
    "no-tool-calls": {"content": ANSWER, "tool_calls": [], "reasoning_content": "hm {"},
    "object": {"content": {"name": "Ann"}},
}


@pytest.mark.parametrize("message", SHAPES.values(), ids=SHAPES.keys())
async def test_the_answer_is_found_where_a_server_puts_it(
    chat: OpenAIChat, server: ScriptedOpenAI, message: dict[str, Any]
) -> None:
    server.then(said(**message))
    assert (await chat.complete(ASK, schema=SCHEMA)).text == ANSWER
    assert len(server.chats) == 1


async def test_a_rejected_generation_is_the_answer(chat: OpenAIChat, server: ScriptedOpenAI) -> None:
    """Groq refuses what its model wrote if it is no JSON, and tells it; the reader of replies may well read it."""
    error = {
        "message": "Failed to generate JSON.",
        "code": "json_validate_failed",
        "failed_generation": "{'a': 1",
    }
    server.then(Reply(status=400, raw=json.dumps({"error": error})))
    assert (await chat.complete(ASK, schema=SCHEMA)).text == "{'a': 1"
    assert len(server.chats) == 1


async def test_an_empty_answer_is_asked_for_once_more(chat: OpenAIChat, server: ScriptedOpenAI) -> None:
    """In a simpler form where there is one. What was cut off while thinking is no answer, and none that a second one mends."""
    server.then(said(content=""), "yes", said(), said(), Reply(text="", finish_reason="length"))
    assert (await chat.complete(ASK)).text == "yes"
    assert (await chat.complete(ASK)).text == ""
    assert len(server.chats) == 4
    assert (await chat.complete(ASK)).truncated
    assert len(server.chats) == 5
    server.then(said(reasoning_content="Hm, a name.", content=""), ANSWER)
    assert (await chat.complete(ASK, schema=SCHEMA)).text == ANSWER
    forms = [body["response_format"]["type"] for body in server.chats[5:]]
    assert forms == ["json_schema", "json_object"]


NONSENSE = ("not json at all", "{}", '{"choices": []}', '{"choices": [{}]}', "[1, 2]", "null")


async def test_nonsense_is_an_error(chat: OpenAIChat, server: ScriptedOpenAI) -> None:
    page = Reply(raw="<html>hello</html>", content_type="text/html")
    for nonsense in (*(Reply(raw=raw) for raw in NONSENSE), page):
        server.answer = None
        server.then(nonsense)
        with pytest.raises(LLMError):
            await chat.complete(ASK)
        server.answer = lambda _, nonsense=nonsense: nonsense
        with pytest.raises(LLMUnavailable, match="answers nothing as asked"):
            await chat.complete(ASK)


async def test_an_address_that_is_no_apis_waits_for_its_operator(
    chat: OpenAIChat, embedder: OpenAIEmbedder, server: ScriptedOpenAI
) -> None:
    """A server of web pages has one for every path, with 200 or 404, and of any length; that is said in few words."""
    body = "<!doctype html><html><head><title>My models</title><style>a {}</style></head><body><p>Sign in</p>"
    page = body + "<div>sign in here</div>" * 50_000
    for status in (200, 404):
        bad = Reply(status=status, raw=page, content_type="text/html")
        server.answer = server.embed_fault = lambda _, bad=bad: bad
        for failing, ask in (
            (LLMUnavailable, lambda: chat.complete([Message(role="user", content="x y z " * 20_000)])),
            (EmbedderUnavailable, lambda: embedder.embed(["text"], purpose="document")),
        ):
            with pytest.raises(failing) as caught:
                await ask()
            assert "a web page (My models Sign in" in str(caught.value)
            assert "openai_base_url" in str(caught.value)
            assert len(str(caught.value)) < 500


BODIES = (
    '{"error": {"message": "no model m", "code": "model_not_found"}}',
    '{"error": "no model m"}',
    '{"detail": "no model m"}',
    '{"detail": [{"msg": "no model m"}]}',
    '{"object": "error", "message": "no model m", "code": 404}',
    '{"reason": "no model m"}',
    '["no model m"]',
    "no model m",
)
"""OpenAI's, Ollama's, FastAPI's, vLLM's, and plain text."""


async def test_a_servers_own_words_are_told_in_whatever_form(
    chat: OpenAIChat, server: ScriptedOpenAI
) -> None:
    for body in BODIES:
        server.then(Reply(status=404, raw=body, content_type="text/plain"))
        with pytest.raises(LLMUnavailable, match=r"answered 404: .*no model m"):
            await chat.complete(ASK)


async def test_options_that_no_request_may_have_are_the_operators(
    chat: OpenAIChat, server: ScriptedOpenAI
) -> None:
    """A limit that is too high for the model is refused with any text; a text that is refused with any limit is not."""
    server.answer = lambda body: (
        Reply(status=400, text="at most 2048 tokens") if body.get("max_tokens", 0) > 2_048 else "{}"
    )
    with pytest.raises(LLMUnavailable, match="at most 2048"):
        await chat.complete(ASK, schema=SCHEMA, max_tokens=4_000)
    # As models that think do, where a limit leaves them no room for it.
    server.answer = lambda body: (
        Reply(status=400, text="limit was reached" if body["max_tokens"] < 500 else "too long")
        if body["max_tokens"] < 500 or ASK[0].content in str(body)
        else "{}"
    )
    with pytest.raises(LLMError, match="too long"):
        await chat.complete(ASK, max_tokens=1_000)


# --- outages -------------------------------------------------------------------------------------------------
async def test_statuses_say_whose_fault_it_is(
    chat: OpenAIChat, embedder: OpenAIEmbedder, server: ScriptedOpenAI
) -> None:
    """Overload, outages and refused credentials are worth a retry; what is refused by a server that takes others is not."""
    for status in (401, 402, 403, 404, 408, 409, 429, 500, 502, 503, 529):
        server.then(Reply(status=status, text="no"))
        with pytest.raises(LLMUnavailable):
            await chat.complete(ASK)
        server.embed_fault = lambda _, status=status: Reply(status=status, text="no")
        with pytest.raises(EmbedderUnavailable):
            await embedder.embed(["text"], purpose="query")
    for status in (400, 413, 415, 422):
        bad = Reply(status=status, text="no")
        server.answer = lambda body, bad=bad: bad if "hello there" in str(body["messages"]) else "{}"
        with pytest.raises(LLMError, match="no"):
            await chat.complete(ASK)
        server.embed_fault = lambda body, bad=bad: bad if "text" in body["input"] else None
        with pytest.raises(EmbedderError, match="no"):
            await embedder.embed(["text"], purpose="query")


async def test_a_server_that_refuses_everything_waits_for_its_operator(
    chat: OpenAIChat, embedder: OpenAIEmbedder, server: ScriptedOpenAI
) -> None:
    """Whatever it says and in whatever language: what is refused to anybody is not about this request. Mended, it works."""
    for status, words in ((400, "Invalid model name passed in model=m"), (422, "不明なモデル")):
        refused = Reply(status=status, text=words)
        server.answer = server.embed_fault = lambda _, refused=refused: refused
        with pytest.raises(LLMUnavailable, match=words):
            await chat.complete(ASK, schema=SCHEMA)
        with pytest.raises(EmbedderUnavailable, match=words):
            await embedder.embed([f"text {status}"], purpose="query")
        server.reset()
        assert (await chat.complete(ASK)).text == "{}"
        assert len(await embedder.embed([f"text {status}"], purpose="query")) == 1


async def test_an_outage_never_repeats_what_was_said(chat: OpenAIChat, server: ScriptedOpenAI) -> None:
    """Its words are kept for everybody who asks for the status; a server that echoes the request is not quoted."""
    for status in (400, 401, 404, 429, 500):
        server.answer = lambda body, status=status: Reply(
            status=status, text=f"invalid: {body['messages'][-1]['content']}"
        )
        with pytest.raises(LLMUnavailable) as caught:
            await chat.complete([Message(role="user", content="my vault opens with 471183")])
        assert "471183" not in str(caught.value)
        assert str(status) in str(caught.value)


SHOWN = (
    "Incorrect API key provided: sk-proj-abc***********wxyz. You can find yours",
    "Received API Key = sk-...abcd, Key Hash (Token) =" + "0123456789abcdef" * 4,
    "Authorization: Bearer eyJhbGciOi.abc.def is expired",
    "Invalid key gsk_abcdwxyz1234 or AIzaSyabcdwxyz12345 or " + "a1B2wxyz" * 6,
)


async def test_parts_of_keys_are_not_told(chat: OpenAIChat, server: ScriptedOpenAI) -> None:
    """A proxy shows the half of a key that it refuses, or its hash."""
    for words in SHOWN:
        server.then(Reply(status=401, text=words))
        with pytest.raises(LLMUnavailable) as caught:
            await chat.complete(ASK)
        secrets = "sk-proj", "wxyz", "abcd", "0123456789abcdef", "eyJ"
        assert [secret for secret in secrets if secret in str(caught.value)] == []
        assert len(str(caught.value)) < 500


async def test_a_server_that_does_not_answer_is_unavailable() -> None:
    """Timeouts, dropped connections and nobody there are worth a retry; after a restart the same instances work."""
    server = ScriptedOpenAI().start()
    access: Any = {"base_url": server.base_url, "max_retries": 0}
    chat, hasty = OpenAIChat("m", **access), OpenAIChat("m", timeout_seconds=0.3, **access)
    embedder = OpenAIEmbedder("m", **access)
    await chat.complete(ASK)  # what the first call costs is no part of the timeout below
    for reply in (Reply(delay_seconds=5), Reply(drop=True)):
        server.then(reply)
        with pytest.raises(LLMUnavailable):
            await hasty.complete(ASK)
    server.stop()
    with pytest.raises(LLMUnavailable):
        await chat.complete(ASK)
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed(["text"], purpose="query")
    server.start()
    assert (await chat.complete(ASK)).text == "{}"
    assert len(await embedder.embed(["text"], purpose="query")) == 1
    for one in (chat, hasty, embedder):
        await one.close()
    server.stop()


async def test_retries_are_the_settings(server: ScriptedOpenAI) -> None:
    chat = OpenAIChat("m", base_url=server.base_url, max_retries=1)
    server.then(Reply(status=500, text="no"), "yes")
    assert (await chat.complete(ASK)).text == "yes"
    await chat.close()


# --- credentials ---------------------------------------------------------------------------------------------
async def test_the_key_is_sent_but_never_told(chat: OpenAIChat, server: ScriptedOpenAI) -> None:
    """Even a server that repeats the key does not get it into an error or its cause."""
    server.then(Reply(status=401, text=f"wrong key: {KEY}"))
    with pytest.raises(LLMUnavailable) as caught:
        await chat.complete(ASK)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    error: BaseException | None = caught.value
    assert KEY not in str(error)
    assert error is not None
    assert error.__cause__ is None
    assert error.__suppress_context__


@pytest.mark.parametrize("repeated", ["ann:s3cr%40t", "ann:s3cr@t", "YW5uOnMzY3JAdA==", "s3cr@t"])
async def test_user_and_password_of_an_address_are_never_told(server: ScriptedOpenAI, repeated: str) -> None:
    """Nor in what servers make of them."""
    url = server.base_url.replace("://", "://ann:s3cr%40t@")
    chat = OpenAIChat("m", base_url=url, max_retries=0)
    server.then(Reply(status=401, text=f"nobody is {repeated} here"))
    with pytest.raises(LLMUnavailable) as caught:
        await chat.complete(ASK)
    assert "nobody is *** here" in str(caught.value)
    assert caught.value.__cause__ is None
    assert "s3cr" not in repr(MemoryConfig(openai_base_url=url))
    await chat.close()


async def test_a_server_of_ones_own_needs_no_key(
    server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a base_url, a missing key is no reason to fail, and a key of the environment stays at home."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    chat = OpenAIChat("m", base_url=server.base_url, max_retries=0)
    await chat.complete(ASK)
    assert KEY not in server.requests[0].headers["authorization"]
    await chat.close()


# --- every error of the package ------------------------------------------------------------------------------
def every_error(of: type[Exception]) -> set[type[Exception]]:
    return {of}.union(*(every_error(cls) for cls in of.__subclasses__()))


UNAVAILABLE = {
    *("APIConnectionError", "APITimeoutError", "AuthenticationError", "ConflictError", "InternalServerError"),
    *("NotFoundError", "OAuthError", "PermissionDeniedError", "RateLimitError"),
}
REFUSED = {
    *("APIError", "APIResponseValidationError", "APIStatusError", "BadRequestError"),
    *("ContentFilterFinishReasonError", "LengthFinishReasonError", "UnprocessableEntityError"),
}


def test_every_error_of_the_package_is_mapped() -> None:
    """Each class becomes the error that its name stands for; those of other APIs, and no credentials, one of the two."""
    import openai  # 20 MB, which a worker without these tests may do without

    errors = every_error(openai.OpenAIError)
    assert {cls.__name__ for cls in errors} >= UNAVAILABLE | REFUSED  # none was renamed
    for cls in errors:
        exc: Any = cls.__new__(cls, "text")
        exc.args = ("text",)
        default = {"InternalServerError": 500, "ConflictError": 409, "OAuthError": 401}.get(cls.__name__, 418)
        if issubclass(cls, openai.APIStatusError):
            exc.status_code = getattr(cls, "status_code", default)
            exc.code = None
        error = translate(exc, unavailable=LLMUnavailable, refused=LLMError)
        assert type(error) in (LLMUnavailable, LLMError)
        assert cls.__name__ not in UNAVAILABLE or type(error) is LLMUnavailable, cls
        assert cls.__name__ not in REFUSED or type(error) is LLMError, cls


# --- the embedder --------------------------------------------------------------------------------------------


UNEVEN = (
    "{}", '{"data": []}', '{"data": [{"index": 0, "embedding": [1, 2]}]}',
    '{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}',
    '{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}',
    '{"data": [{"index": 0, "embedding": [0, 0]}, {"index": 1, "embedding": [1, 2]}]}',
    '{"data": [{"index": 0}, {"index": 1}]}',
    '{"data": [{"index": 0, "embedding": ["a"]}, {"index": 1, "embedding": ["b"]}]}', "hello",
)  # fmt: skip


async def test_nonsense_embeddings_are_an_error(embedder: OpenAIEmbedder, server: ScriptedOpenAI) -> None:
    for nonsense in UNEVEN:
        bad = Reply(raw=nonsense)
        server.embed_fault = lambda body, bad=bad: bad if "a" in body["input"] else None
        with pytest.raises(EmbedderError):
            await embedder.embed(["a", "b"], purpose="query")
