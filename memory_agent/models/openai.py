"""OpenAI's API, or any server that speaks it: a chat model and an embedder."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack

import numpy as np

from memory_agent.domain import Completion, Message, Usage
from memory_agent.errors import (
    EmbedderError,
    EmbedderUnavailable,
    LLMError,
    LLMUnavailable,
    ModelRefused,
    Unavailable,
)
from memory_agent.models.batching import BatchingEmbedder, BatchLimits, Piece, cut_passages
from memory_agent.models.tokens import estimated_pieces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from openai import AsyncOpenAI
    from pydantic import SecretStr

    from memory_agent.errors import BackendError

    Harmless = Callable[[AsyncOpenAI], Awaitable[object]]


MAX_ANSWER_CHARS: Final = 400
"""Of a server's own words, which are kept with what waits and shown by `status`."""

_UNAVAILABLE_STATUS: Final = frozenset({401, 402, 403, 404, 405, 407, 408, 409, 410, 425, 429})
_CONTENT_CODES: Final = frozenset({"context_length_exceeded", "content_filter", "string_above_max_length"})
"""`code` of a refusal that is certainly about what was sent."""
_READ_CHARS: Final = 10_000
"""Of an answer that is looked at: whole pages come from servers that are no API."""
_ECHO_CHARS: Final = 20
"""As many characters in a row of what was sent, in an answer, are no coincidence."""
_SECRETS: Final = re.compile(
    r"Bearer\s+\S+|\b(?:sk|pk|rk|ma|gsk|hf|xai|nvapi)[-_][\w.*-]{3,}|\bAIza[\w-]{10,}"
    r"|\b(?=\w*\d)[a-z0-9]{32,}\b|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)",
    re.IGNORECASE,
)
"""What looks like a key, whole or in part: a proxy that refuses one likes to show it."""
_PAGE: Final = re.compile(r"\s*(?:<!doctype html|<html)\b", re.IGNORECASE)
_UNSEEN: Final = re.compile(r"<(script|style)\b.{0,5000}?</\1>|<[^<>]{0,1000}>", re.IGNORECASE | re.DOTALL)


class NoAnswer(ValueError):
    """Something else than what the API answers with, sent as if it were that."""


def translate(
    exc: Exception, *, unavailable: type[BackendError], refused: type[BackendError], sent: str = ""
) -> BackendError:
    """`exc` of the openai package as one of ours. Credentials are an operator's to mend, so they are worth a wait.

    `sent`: what an error that outlives its request must not repeat.
    """
    import openai

    detail = _SECRETS.sub("***", f"{type(exc).__name__}: {exc}"[:_READ_CHARS])
    if isinstance(exc, openai.APIStatusError):
        if exc.status_code >= 500 or exc.status_code in _UNAVAILABLE_STATUS:
            error = unavailable(f"the model's server answered {answer_of(exc, sent)}")
            if isinstance(error, Unavailable):
                error.retry_after = retry_after(getattr(exc, "response", None))
            return error
        if exc.code == "content_filter" and refused is LLMError:  # as Azure says it
            return ModelRefused(f"the model's server let nothing pass: {answer_of(exc)}", reply="")
        return refused(f"the model's server refused the request: {answer_of(exc)}")
    if isinstance(exc, (openai.APIConnectionError, OSError)):
        return unavailable(f"the model's server cannot be reached: {detail}")
    if isinstance(exc, NoAnswer):
        return refused(_SECRETS.sub("***", str(exc)))
    of_the_reply = (openai.APIError, openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError)
    if not isinstance(exc, (*of_the_reply, ValueError)):
        return unavailable(f"the model's server cannot be asked: {detail}")  # no key, or no way to get one
    return refused(f"the model's server gave no usable answer: {detail}")


def retry_after(response: Any) -> float | None:
    """The seconds that an answer asks to be left alone for; None if it doesn't say."""
    try:
        seconds = float(response.headers.get("retry-after"))
    except (AttributeError, TypeError, ValueError):  # no answer, no header, or a date
        return None
    return seconds if 0 < seconds < float("inf") else None


def is_doubtful(exc: Exception) -> bool:
    """True if `exc` may be about what was sent, or about how the server is set up: a refusal, or no answer at all."""
    import openai

    return isinstance(exc, ValueError) or (
        isinstance(exc, openai.APIStatusError)
        and 400 <= exc.status_code < 500
        and exc.status_code not in _UNAVAILABLE_STATUS
        and exc.code not in _CONTENT_CODES
    )


def answer_of(exc: Exception, sent: str = "") -> str:
    """The server's answer in its own words: status and message, bounded, without secrets nor what was `sent`."""
    words = _SECRETS.sub("***", _message_of(exc))
    words = words if len(words) <= MAX_ANSWER_CHARS else f"{words[:MAX_ANSWER_CHARS]}…"
    if _echoes(words, sent):
        words = "(an answer that repeats what it was sent)"
    status = getattr(exc, "status_code", None)
    return f"{status}: {words}" if status else words


def _message_of(exc: Exception) -> str:
    """The message of the error body, in any of the usual forms; else the body; else what the package says."""
    found: Any = getattr(exc, "body", None)
    while isinstance(found, dict):
        inner = next((found[key] for key in ("error", "message", "detail") if found.get(key)), None)
        found = json.dumps(found, ensure_ascii=False) if inner is None else inner
    words = found if isinstance(found, str) else "" if found is None else str(found)
    return said(words if words.strip() else str(exc))


def said(words: str) -> str:
    """`words` in one line, bounded; of a page for people what they would read, and what it being one suggests."""
    words = words[:_READ_CHARS]
    if _PAGE.match(words):
        text = " ".join(_UNSEEN.sub(" ", words).split())[:100]
        return f"a web page ({text}); is openai_base_url the address of an API? Often it ends in /v1"
    return " ".join(words.split())


def _echoes(words: str, sent: str) -> bool:
    """True if `words` repeat some of `sent`; then they must not outlive it."""
    said = " ".join(sent.split())
    return bool(said) and any(
        words[start : start + _ECHO_CHARS] in said for start in range(len(words) - _ECHO_CHARS + 1)
    )


Form = Literal["json_schema", "json_object", "words"]
FORMS: Final[tuple[Form, ...]] = ("json_schema", "json_object", "words")
"""How a server can be asked for JSON, best first."""

PASSAGE_TOKENS: Final = 480
"""Estimated tokens per passage: what compatible servers run often reads 512, and shorter passages are found better."""

OVERLAP_TOKENS: Final = 32

_HARMLESS: Final = "Answer with {}"
"""What shows whether a refusal is about what was sent: a server that refuses this too refuses everything."""
_QUICK_SECONDS: Final = 5.0
"""A server that asks for a longer pause is not asked again by the same call."""


class Access(TypedDict, total=False):
    """The server, and how it is asked: OpenAI's unless `base_url` names another, which may do without a key.

    Retries (of connection errors, 408, 409, 429 and 5xx, with growing pauses) are the client's own, `max_retries` of them.
    """

    api_key: SecretStr | None
    base_url: str | None
    timeout_seconds: float
    max_retries: int


class _Connection:
    """The client, made with the first request, and its errors as ours."""

    def __init__(
        self, access: Access, *, unavailable: type[BackendError], refused: type[BackendError]
    ) -> None:
        key = access.get("api_key")
        self._key = key.get_secret_value() if key else ""
        self._access = access
        self._unavailable = unavailable
        self._refused = refused
        self._client: AsyncOpenAI | None = None

    @asynccontextmanager
    async def client(self, sent: str, harmless: Harmless) -> AsyncIterator[AsyncOpenAI]:
        """The client, with errors translated. `harmless` asks the same model for something that nobody can object to.

        A refusal of all that it is asked is not about what was `sent`, whatever words a server has for that.
        """
        import openai

        try:
            if self._client is None:
                self._client = self._connect()
            yield self._client
        except (openai.OpenAIError, TimeoutError, OSError, ValueError) as exc:
            error = translate(exc, unavailable=self._unavailable, refused=self._refused, sent=sent)
            if self._client is not None and is_doubtful(exc):
                error = await self._refuses_everything(self._client, sent, harmless) or error
            if self._key and self._key in f"{exc}{getattr(exc, 'body', '')}":
                # A server that repeats the key in its answer: the cause would carry it into the logs.
                raise type(error)(str(error).replace(self._key, "***")) from None
            raise error from exc

    async def _refuses_everything(
        self, client: AsyncOpenAI, sent: str, harmless: Harmless
    ) -> BackendError | None:
        """The error that says so, in the words for the harmless request; None if that is answered."""
        import openai

        try:
            await harmless(client)
        except openai.APIStatusError as exc:
            return self._unavailable(f"the model's server refuses every request: {answer_of(exc, sent)}")
        except ValueError as exc:  # another server than was meant, or a part of one
            return self._unavailable(f"the model's server answers nothing as asked: {answer_of(exc, sent)}")
        except (openai.OpenAIError, TimeoutError, OSError) as exc:
            return translate(exc, unavailable=self._unavailable, refused=self._refused)
        return None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _connect(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        class Client(AsyncOpenAI):
            """Leaves a long wait to whoever asks: the worker says what it waits for, and does other work meanwhile."""

            def _should_retry(self, response: Any) -> bool:
                return (retry_after(response) or 0) <= _QUICK_SECONDS and super()._should_retry(response)

        base_url = self._access.get("base_url")
        return Client(
            # Servers of one's own need no key, but the client insists on one.
            api_key=self._key or ("not-needed" if base_url else None),
            base_url=base_url,
            timeout=self._access.get("timeout_seconds", 60.0),
            max_retries=self._access.get("max_retries", 2),
        )


def _tokens(reply: Any, name: str) -> int:
    """A figure of the reply's `usage`; some compatible servers leave them out."""
    return getattr(getattr(reply, "usage", None), name, None) or 0


class OpenAIChat:
    """`LLM` by the chat completions API."""

    def __init__(self, model: str, **access: Unpack[Access]) -> None:
        self._model = model
        self._connection = _Connection(access, unavailable=LLMUnavailable, refused=LLMError)
        # OpenAI's newer models refuse `max_tokens`; many compatible servers know nothing else.
        self._limit_name = "max_tokens" if access.get("base_url") else "max_completion_tokens"
        self._form: Form = "json_schema"
        self._usage = Usage()

    @property
    def model(self) -> str:
        """See `LLM.model`."""
        return self._model

    @property
    def usage(self) -> Usage:
        """See `LLM.usage`."""
        return self._usage

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object] | None = None,
        max_tokens: int | None = None,
    ) -> Completion:
        """See `LLM.complete`. An empty reply is a Completion with the text "".

        A model that the server doesn't know, or a request that it refuses whatever it holds, is LLMUnavailable: an
        operator mends it, and then the same call works.
        """
        options = {} if max_tokens is None else {self._limit_name: max_tokens}
        sent = "\n".join(message.content for message in messages)

        async def harmless(client: AsyncOpenAI) -> None:
            # With the options of this call: they may be what no request may have, as too high a limit.
            await self._choice(client, [Message(role="user", content=_HARMLESS)], options)

        async with self._connection.client(sent, harmless) as client:
            if schema is None:
                return await self._ask(client, messages, options)
            return await self._ask_for_json(client, messages, schema, options)

    async def close(self) -> None:
        """See `LLM.close`."""
        await self._connection.close()

    async def _ask_for_json(
        self,
        client: AsyncOpenAI,
        messages: Sequence[Message],
        schema: Mapping[str, object],
        options: dict[str, Any],
    ) -> Completion:
        """Ask in the best form that the server takes, and remember which one that is.

        Servers refuse a form they don't know in their own ways, so any refusal is tried once more in the next
        form; only if that is answered was the form to blame.
        """
        import openai

        refusals: list[openai.APIStatusError] = []
        for form in FORMS[FORMS.index(self._form) :]:
            try:
                completion = await self._ask(client, *_in_form(form, messages, schema, options))
            except openai.APIStatusError as exc:
                if exc.status_code not in (400, 404, 415, 422, 501) or exc.code == "context_length_exceeded":
                    raise
                refusals.append(exc)
            else:
                self._form = form
                return completion
        raise refusals[0]

    async def _ask(
        self, client: AsyncOpenAI, messages: Sequence[Message], options: Mapping[str, Any]
    ) -> Completion:
        reply, choice = await self._choice(client, messages, options)
        cost = {name: _tokens(reply, name) for name in ("prompt_tokens", "completion_tokens")}
        self._usage += Usage(requests=1, **cost)
        message = choice.message
        if not message.content and (said := getattr(message, "refusal", None)):
            raise ModelRefused(f"the model {self._model} refused to answer: {said[:200]}", reply=said)
        if not message.content and choice.finish_reason == "content_filter":
            raise ModelRefused(f"a filter of contents stopped the answer of {self._model}", reply="")
        return Completion(
            text=message.content or "",
            **cost,
            truncated=choice.finish_reason == "length",
        )

    async def _choice(
        self, client: AsyncOpenAI, messages: Sequence[Message], options: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """The reply, and the one choice in it. Raises NoAnswer if it has none."""
        sent: Any = [{"role": message.role, "content": message.content} for message in messages]
        reply: Any = await client.chat.completions.create(model=self._model, messages=sent, **options)
        choices = getattr(reply, "choices", None)
        choice = choices[0] if isinstance(choices, list) and choices else None
        if getattr(choice, "message", None) is None:
            raise NoAnswer(f"the server's answer is no chat completion: {said(str(reply))!r:.300}")
        return reply, choice


def _in_form(
    form: Form, messages: Sequence[Message], schema: Mapping[str, object], options: Mapping[str, Any]
) -> tuple[list[Message], dict[str, Any]]:
    """Messages and options that ask for `schema` in `form`."""
    if form == "json_schema":
        # Not strict: a strict schema may have no free-form objects, which facts are.
        wanted = {"name": "reply", "schema": dict(schema), "strict": False}
        return list(messages), {**options, "response_format": {"type": "json_schema", "json_schema": wanted}}
    written = json.dumps(schema, ensure_ascii=False)
    words = f"Answer with one JSON object and nothing else, in the form of this JSON Schema:\n{written}"
    has_system = bool(messages) and messages[0].role == "system"
    system = f"{messages[0].content}\n\n{words}" if has_system else words
    told = [Message(role="system", content=system), *messages[has_system:]]
    return told, dict(options, response_format={"type": form}) if form == "json_object" else dict(options)


class OpenAIEmbedder(BatchingEmbedder):
    """`Embedder` by the embeddings API."""

    def __init__(self, model: str, *, cache_size: int = 2_048, **access: Unpack[Access]) -> None:
        super().__init__(BatchLimits(), cache_size=cache_size)
        self._model = model
        self._size = 0
        self._connection = _Connection(access, unavailable=EmbedderUnavailable, refused=EmbedderError)

    @property
    def fingerprint(self) -> str:
        """See `Embedder.fingerprint`. By the model's name: all that such a server tells of its weights."""
        return hashlib.sha256(f"openai:{self._model}".encode()).hexdigest()[:12]

    async def split(self, text: str) -> list[str]:
        """See `Embedder.split`. By estimated tokens, which are more rather than less than the model's."""
        if len(text.encode()) <= PASSAGE_TOKENS:  # a token is at least a byte
            return [text]
        pieces = [Piece(*piece) for piece in estimated_pieces(text) if piece[2]]
        return cut_passages(text, pieces, window=PASSAGE_TOKENS, overlap=OVERLAP_TOKENS)

    async def _encode(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], None]:
        async with self._connection.client("\n".join(texts), lambda c: self._asked(c, ["hello"])) as client:
            rows = await self._asked(client, [text or " " for text in texts])  # the API refuses ""
        try:
            vectors = np.array(rows, dtype=np.float32)
        except (TypeError, ValueError) as exc:
            wrong = "are no lists of numbers of one length"
            raise EmbedderError(f"the server's embeddings {wrong}: {exc}") from exc
        self._size = vectors.shape[-1]
        return vectors, None

    async def _asked(self, client: AsyncOpenAI, texts: list[str]) -> list[Any]:
        """The embedding of each text as it came."""
        reply: Any = await client.embeddings.create(model=self._model, input=texts, encoding_format="float")
        data = getattr(reply, "data", None)
        if not isinstance(data, list) or sorted(item.index for item in data) != list(range(len(texts))):
            raise NoAnswer(
                f"the server's answer is no list of {len(texts)} embeddings: {said(str(reply))!r:.300}"
            )
        return [item.embedding for item in sorted(data, key=lambda item: item.index)]

    async def _dimension(self) -> int:
        return self._size  # 0 before the first answer

    async def _release(self) -> None:
        await self._connection.close()
