"""OpenAI's API, or any server that speaks it: a chat model and an embedder."""

from __future__ import annotations

import functools
import hashlib
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from memory_agent.domain import Completion, Message, Usage
from memory_agent.errors import EmbedderError, EmbedderUnavailable, LLMError, LLMUnavailable, ModelRefused
from memory_agent.models.batching import BatchingEmbedder, BatchLimits
from memory_agent.models.openai_errors import NoAnswer, answer_of, is_doubtful, retry_after, said, translate
from memory_agent.models.passages import Piece, cut_passages
from memory_agent.models.tokens import estimated_pieces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from openai import AsyncOpenAI
    from pydantic import SecretStr

    from memory_agent.errors import BackendError

Form = Literal["json_schema", "json_object", "words"]
"""How a server can be asked for JSON, best first."""

FORMS: Final[tuple[Form, ...]] = ("json_schema", "json_object", "words")

PASSAGE_TOKENS: Final = 480
"""Estimated tokens per passage: what compatible servers run often reads 512, and shorter passages are found better."""

OVERLAP_TOKENS: Final = 32

MAX_BATCH: Final = 512
"""Texts per request: OpenAI takes 300,000 tokens at most."""

_HARMLESS: Final = "Answer with {}"
"""What shows whether a refusal is about what was sent: a server that refuses this too refuses everything."""
_QUICK_SECONDS: Final = 5.0
"""A server that asks for a longer pause is not asked again by the same call."""
_NO_KEY: Final = "not-needed"


class _Connection:
    """The client, made with the first request, and its errors as ours."""

    def __init__(
        self,
        *,
        api_key: SecretStr | None,
        base_url: str | None,
        timeout_seconds: float,
        max_retries: int,
        unavailable: type[BackendError],
        refused: type[BackendError],
    ) -> None:
        self._api_key = api_key
        self._base_url = base_url
        self._timeout_seconds = timeout_seconds
        self._max_retries = max_retries
        self._unavailable = unavailable
        self._refused = refused
        self._client: AsyncOpenAI | None = None

    @asynccontextmanager
    async def client(
        self, sent: str, harmless: Callable[[AsyncOpenAI], Awaitable[object]]
    ) -> AsyncIterator[AsyncOpenAI]:
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
            key = self._api_key.get_secret_value() if self._api_key else ""
            if key and key in f"{exc}{getattr(exc, 'body', '')}":
                # A server that repeats the key in its answer: the cause would carry it into the logs.
                raise type(error)(str(error).replace(key, "***")) from None
            raise error from exc

    async def _refuses_everything(
        self, client: AsyncOpenAI, sent: str, harmless: Callable[[AsyncOpenAI], Awaitable[object]]
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

        key = self._api_key.get_secret_value() if self._api_key else None
        return Client(
            # Servers of one's own need no key, but the client insists on one.
            api_key=key or (_NO_KEY if self._base_url else None),
            base_url=self._base_url,
            timeout=self._timeout_seconds,
            max_retries=self._max_retries,
        )


def _tokens(reply: Any, name: str) -> int:
    """A figure of the reply's `usage`; some compatible servers leave them out."""
    return getattr(getattr(reply, "usage", None), name, None) or 0


def _added(usage: Usage, reply: Any) -> Usage:
    return Usage(
        requests=usage.requests + 1,
        prompt_tokens=usage.prompt_tokens + _tokens(reply, "prompt_tokens"),
        completion_tokens=usage.completion_tokens + _tokens(reply, "completion_tokens"),
    )


class OpenAIChat:
    """`LLM` by the chat completions API.

    With `base_url` any compatible server is asked, and `api_key` may be missing. Retries (of connection errors,
    408, 409, 429 and 5xx, with growing pauses) are the client's own, `max_retries` of them.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: SecretStr | None = None,
        base_url: str | None = None,
        timeout_seconds: float = 60.0,
        max_retries: int = 2,
    ) -> None:
        self._model = model
        self._connection = _Connection(
            api_key=api_key,
            base_url=base_url,
            timeout_seconds=timeout_seconds,
            max_retries=max_retries,
            unavailable=LLMUnavailable,
            refused=LLMError,
        )
        # OpenAI's newer models refuse `max_tokens`; many compatible servers know nothing else.
        self._limit_name = "max_tokens" if base_url else "max_completion_tokens"
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
        harmless = functools.partial(self._ask_harmlessly, options)
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

        first_refusal: openai.APIStatusError | None = None
        for form in FORMS[FORMS.index(self._form) :]:
            try:
                completion = await self._ask(client, *_in_form(form, messages, schema, options))
            except openai.APIStatusError as exc:
                if exc.status_code not in (400, 404, 415, 422, 501) or exc.code == "context_length_exceeded":
                    raise
                first_refusal = first_refusal or exc
            else:
                self._form = form
                return completion
        if first_refusal is None:
            raise AssertionError("there is always a form to ask in")
        raise first_refusal

    async def _ask_harmlessly(self, options: Mapping[str, Any], client: AsyncOpenAI) -> None:
        """With the options of the call in question: they may be what no request may have, as too high a limit."""
        message: Any = {"role": "user", "content": _HARMLESS}
        _choice_of(await client.chat.completions.create(model=self._model, messages=[message], **options))

    async def _ask(
        self, client: AsyncOpenAI, messages: Sequence[Message], options: Mapping[str, Any]
    ) -> Completion:
        sent: Any = [{"role": message.role, "content": message.content} for message in messages]
        reply: Any = await client.chat.completions.create(model=self._model, messages=sent, **options)
        choice = _choice_of(reply)
        message = choice.message
        self._usage = _added(self._usage, reply)
        if not message.content and (said := getattr(message, "refusal", None)):
            raise ModelRefused(f"the model {self._model} refused to answer: {said[:200]}", reply=said)
        if not message.content and choice.finish_reason == "content_filter":
            raise ModelRefused(f"a filter of contents stopped the answer of {self._model}", reply="")
        return Completion(
            text=message.content or "",
            prompt_tokens=_tokens(reply, "prompt_tokens"),
            completion_tokens=_tokens(reply, "completion_tokens"),
            truncated=choice.finish_reason == "length",
        )


def _choice_of(reply: Any) -> Any:
    """The one choice of a chat completion. Raises NoAnswer if the reply is none."""
    choices = getattr(reply, "choices", None)
    choice = choices[0] if isinstance(choices, list) and choices else None
    if getattr(choice, "message", None) is None:
        raise NoAnswer(f"the server's answer is no chat completion: {said(str(reply))!r:.300}")
    return choice


def _in_form(
    form: Form, messages: Sequence[Message], schema: Mapping[str, object], options: Mapping[str, Any]
) -> tuple[list[Message], dict[str, Any]]:
    """Messages and options that ask for `schema` in `form`."""
    if form == "json_schema":
        # Not strict: a strict schema may have no free-form objects, which facts are.
        wanted = {"name": "reply", "schema": dict(schema), "strict": False}
        return list(messages), {**options, "response_format": {"type": "json_schema", "json_schema": wanted}}
    words = "Answer with one JSON object and nothing else, in the form of this JSON Schema:\n" + json.dumps(
        schema, ensure_ascii=False
    )
    told = list(messages)
    if told and told[0].role == "system":
        told[0] = Message(role="system", content=f"{told[0].content}\n\n{words}")
    else:
        told.insert(0, Message(role="system", content=words))
    if form == "json_object":
        return told, {**options, "response_format": {"type": "json_object"}}
    return told, dict(options)


class OpenAIEmbedder(BatchingEmbedder):
    """`Embedder` by the embeddings API."""

    def __init__(
        self,
        model: str,
        *,
        api_key: SecretStr | None = None,
        base_url: str | None = None,
        timeout_seconds: float = 60.0,
        max_retries: int = 2,
        batch_size: int = 64,
        cache_size: int = 2_048,
    ) -> None:
        super().__init__(BatchLimits(texts=min(batch_size, MAX_BATCH)), cache_size=cache_size)
        self._model = model
        self._size = 0
        self._connection = _Connection(
            api_key=api_key,
            base_url=base_url,
            timeout_seconds=timeout_seconds,
            max_retries=max_retries,
            unavailable=EmbedderUnavailable,
            refused=EmbedderError,
        )
        self._usage = Usage()

    @property
    def fingerprint(self) -> str:
        """See `Embedder.fingerprint`. By the model's name: all that such a server tells of its weights."""
        return hashlib.sha256(f"openai:{self._model}".encode()).hexdigest()[:12]

    @property
    def usage(self) -> Usage:
        """Requests answered and tokens used so far by this instance."""
        return self._usage

    async def split(self, text: str) -> list[str]:
        """See `Embedder.split`. By estimated tokens, which are more rather than less than the model's."""
        if len(text.encode()) <= PASSAGE_TOKENS:  # a token is at least a byte
            return [text]
        pieces = [Piece(*piece) for piece in estimated_pieces(text) if piece[2]]
        return cut_passages(text, pieces, window=PASSAGE_TOKENS, overlap=OVERLAP_TOKENS)

    async def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        async with self._connection.client("\n".join(texts), self._ask_harmlessly) as client:
            reply, rows = await self._asked(client, [text or " " for text in texts])  # the API refuses ""
        self._usage = _added(self._usage, reply)
        try:
            vectors = np.array(rows, dtype=np.float32)
        except (TypeError, ValueError) as exc:
            raise EmbedderError(
                f"the server's embeddings are no lists of numbers of one length: {exc}"
            ) from exc
        self._size = vectors.shape[-1]
        return vectors

    async def _asked(self, client: AsyncOpenAI, texts: list[str]) -> tuple[Any, list[Any]]:
        """The reply, and the embedding of each text as it came."""
        reply: Any = await client.embeddings.create(model=self._model, input=texts, encoding_format="float")
        data = getattr(reply, "data", None)
        if not isinstance(data, list) or sorted(item.index for item in data) != list(range(len(texts))):
            raise NoAnswer(
                f"the server's answer is no list of {len(texts)} embeddings: {said(str(reply))!r:.300}"
            )
        return reply, [item.embedding for item in sorted(data, key=lambda item: item.index)]

    async def _ask_harmlessly(self, client: AsyncOpenAI) -> None:
        await self._asked(client, ["hello"])

    async def _dimension(self) -> int:
        return self._size  # 0 before the first answer

    async def _release(self) -> None:
        await self._connection.close()
