"""OpenAI's API, or any server that speaks it: a chat model and an embedder."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import logging
import re
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict, Unpack
from urllib.parse import unquote, urlsplit

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
from memory_agent.models.tokens import EstimatedTokens, estimated_pieces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from openai import AsyncOpenAI
    from pydantic import SecretStr

    from memory_agent.errors import BackendError

    Harmless = Callable[[AsyncOpenAI], Awaitable[object]]

log = logging.getLogger(__name__)

MAX_ANSWER_CHARS: Final = 400
"""Of a server's own words, which are kept with what waits and shown by `status`."""

_UNAVAILABLE_STATUS: Final = frozenset({401, 402, 403, 404, 405, 407, 408, 409, 410, 425, 429})
_OF_WHAT_WAS_SENT: Final = re.compile(
    r"content_filter|string_above_max_length|\bn_(?:ctx|keep)\b|context.?(?:length|size|window)"
    r"|(?:prompt|inputs?|messages?) (?:is |are )?too long|\b(?:prompt|input)\b.{0,40}\bexceed",
    re.IGNORECASE,
)
"""In a refusal that is certainly about what was sent, mostly its length."""
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
    """Something else than what the API answers with, or an error (`body`, with its own `status_code`), sent as an answer."""

    def __init__(self, message: str, *, status_code: int = 0, body: object = None) -> None:
        self.status_code, self.body = status_code, body
        super().__init__(message)


def translate(
    exc: Exception, *, unavailable: type[BackendError], refused: type[BackendError], sent: str = ""
) -> BackendError:
    """`exc` of the openai package as one of ours. Credentials are an operator's to mend, so they are worth a wait.

    `sent`: what an error that outlives its request must not repeat.
    """
    import openai

    detail = _SECRETS.sub("***", f"{type(exc).__name__}: {exc}"[:_READ_CHARS])
    if status := _status_of(exc):
        about_sent = _OF_WHAT_WAS_SENT.search(_body_of(exc))
        if status in _UNAVAILABLE_STATUS or (status >= 500 and not about_sent):
            error = unavailable(f"the model's server answered {answer_of(exc, sent)}")
            if isinstance(error, Unavailable):
                error.retry_after = retry_after(getattr(exc, "response", None))
            return error
        if about_sent and about_sent[0] == "content_filter" and refused is LLMError:  # as Azure says it
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
    status = _status_of(exc)
    if not status:
        return isinstance(exc, ValueError)
    return status < 500 and status not in _UNAVAILABLE_STATUS and not _OF_WHAT_WAS_SENT.search(_body_of(exc))


def _status_of(exc: Exception) -> int:
    """The status of an error that the server answered; 0 for any other."""
    import openai

    return exc.status_code if isinstance(exc, (openai.APIStatusError, NoAnswer)) else 0


def _body_of(exc: Exception) -> str:
    """The whole of an error that the server answered, as far as it is looked at."""
    response, body = getattr(exc, "response", None), getattr(exc, "body", None)
    text = json.dumps(body, ensure_ascii=False, default=str) if response is None else str(response.text)
    return text[:_READ_CHARS]


def answer_of(exc: Exception, sent: str = "") -> str:
    """The server's answer in its own words: status and message, bounded, without secrets nor what was `sent`."""
    words = _SECRETS.sub("***", _message_of(exc))
    words = words if len(words) <= MAX_ANSWER_CHARS else f"{words[:MAX_ANSWER_CHARS]}…"
    if _echoes(words, sent):
        words = "(an answer that repeats what it was sent)"
    return f"{status}: {words}" if (status := _status_of(exc)) else words


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


PASSAGE_TOKENS: Final = 480
"""Estimated tokens per passage: what compatible servers run often reads 512, and shorter passages are found better."""

OVERLAP_TOKENS: Final = 32

_HARMLESS: Final = "Answer with {}"
"""What shows whether a refusal is about what was sent: a server that refuses this too refuses everything."""
_QUICK_SECONDS: Final = 5.0
"""A server that asks for a longer pause is not asked again by the same call."""


def _secrets_in(url: str) -> list[str]:
    """User and password of an address, in all forms in which a server may repeat them, the longest first."""
    named = urlsplit(url)
    if named.password is None:
        return []
    user, password = unquote(named.username or ""), unquote(named.password)
    both = [named.netloc.rpartition("@")[0], f"{user}:{password}"]
    coded = [base64.b64encode(each.encode()).decode() for each in both]
    return sorted({*both, *coded, named.password, password}, key=len, reverse=True)


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
        self._secrets = [*filter(None, [self._key]), *_secrets_in(access.get("base_url") or "")]
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
            said = f"{exc}{exc.__cause__ or ''}{getattr(exc, 'body', '')}{error}"
            if repeated := [secret for secret in self._secrets if secret in said]:
                # A server that repeats the key in its answer: the cause would carry it into the logs.
                words = functools.reduce(
                    lambda text, secret: text.replace(secret, "***"), repeated, str(error)
                )
                raise type(error)(words) from None
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
            """Leaves a long wait, and what should be asked in another way, to whoever asks."""

            def _should_retry(self, response: Any) -> bool:
                named = named_in(response.status_code, response.text)
                wait = retry_after(response) or 0
                return not named and wait <= _QUICK_SECONDS and super()._should_retry(response)

        base_url = self._access.get("base_url")
        return Client(
            # Servers of one's own need no key, but the client insists on one.
            api_key=self._key or ("not-needed" if base_url else None),
            base_url=base_url,
            timeout=self._access.get("timeout_seconds", 60.0),
            max_retries=self._access.get("max_retries", 2),
        )


# --- ways to ask ---------------------------------------------------------------------------------------------
class Way(NamedTuple):
    """How a model is asked: for each part of a request the step that is taken, from 0, the best."""

    temperature: int = 0
    """Of 0; not said."""
    limit: int = 0
    """By the one name; by the other; none."""
    roles: int = 0
    """A system message; its text in the user's."""
    form: int = 0
    """A JSON Schema; a JSON object, the schema in words; words alone."""

    def told(self, limits: Sequence[str]) -> str:
        """What is not as at first, in words."""
        told = (
            ("without a temperature" if self.temperature else ""),
            (f"with {name}" if (name := limits[self.limit]) else "without a limit") if self.limit else "",
            ("with the instructions in the user's message" if self.roles else ""),
            ("", "for a JSON object", "for JSON in words alone")[self.form],
        )
        return ", ".join(filter(None, told))


SIMPLEST: Final = Way(temperature=1, limit=2, roles=1, form=2)
_NAMED: Final = {
    "temperature": re.compile("temperature", re.IGNORECASE),
    "limit": re.compile(
        r"max[_ ]?(?:(?:completion|new|output)[_ ])?tokens|num_predict|\d in the completion|\boutput tokens",
        re.IGNORECASE,
    ),
    "roles": re.compile(r"\broles?\b|\b(?:system|developer) (?:message|prompt|instruction)", re.IGNORECASE),
    "form": re.compile(r"response.?format|json(?! body)|schema|grammar|structured.output", re.IGNORECASE),
}
"""What the text of a refusal names where a part of the request is not taken, by the part."""
_KEY: Final = re.compile(r"""["']\w+["']\s*:""")
"""Of a body that repeats the request; what it is about stands in its values."""
_NEVER_OF_THE_WAY: Final = frozenset({401, 402, 407, 408, 429})
_UNNAMED: Final = frozenset({400, 404, 415, 422, 501})
"""Such a refusal may be of the form, whatever its words, where it is not of what was sent."""


def named_in(status: int, body: str) -> list[str]:
    """The parts of a request that a refusal names; none if it is about something else, or no API's."""
    if status < 400 or status in _NEVER_OF_THE_WAY or _PAGE.match(body):
        return []
    words = _KEY.sub("", body[:_READ_CHARS])
    return [part for part, pattern in _NAMED.items() if pattern.search(words)]


@dataclass
class Learned:
    """What this process found out about a model at an endpoint. `cut`: the tokens that its server cuts a prompt to.

    0: it does not, whatever it counts; None: not known.
    """

    way: Way
    cut: int | None = None


LEARNED: Final[dict[tuple[str, str], Learned]] = {}
"""By endpoint and model."""

_REMEDY: Final = "raise num_ctx (OLLAMA_CONTEXT_LENGTH), or lower llm_request_tokens"
_LEAST_CUT: Final = 500
"""No server is set to fewer tokens; a figure below counts what was not in its cache, or nothing at all."""
_CUT_SHARES: Final = (0.8, 0.45)
"""Of the estimated tokens; below, the prompt may have been cut: to a whole context or the half of one and two, or to anything.

Tokenizers of models count more than 0.8 of the estimate.
"""


class OpenAIChat:
    """`LLM` by the chat completions API."""

    def __init__(self, model: str, **access: Unpack[Access]) -> None:
        self._model = model
        self._connection = _Connection(access, unavailable=LLMUnavailable, refused=LLMError)
        self._endpoint = access.get("base_url") or ""
        # OpenAI's newer models refuse `max_tokens`; many compatible servers know nothing else.
        first, second = ("max_tokens", "max_completion_tokens")[:: 1 if self._endpoint else -1]
        self._limits = (first, second, "")
        self._usage = Usage()

    @property
    def model(self) -> str:
        """See `LLM.model`."""
        return self._model

    @property
    def usage(self) -> Usage:
        """See `LLM.usage`."""
        return self._usage

    @property
    def warning(self) -> str:
        """What somebody should mend about the server, as far as this process knows; "" for nothing."""
        if not (cut := self._learned.cut):
            return ""
        return f"the server of {self._model} cuts prompts to {cut:,} tokens; {_REMEDY}"

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object] | None = None,
        max_tokens: int | None = None,
    ) -> Completion:
        """See `LLM.complete`. An empty reply, if the model gives it twice, is a Completion with the text "".

        A model that the server doesn't know, or a request that it refuses whatever it holds, is LLMUnavailable: an
        operator mends it, and then the same call works.
        """
        sent = "\n".join(message.content for message in messages)

        async def harmless(client: AsyncOpenAI) -> None:
            # With the limit of this call: it may be what no request may have.
            await self._answered(client, [Message(role="user", content=_HARMLESS)], None, max_tokens)

        async with self._connection.client(sent, harmless) as client:
            completion = await self._answered(client, messages, schema, max_tokens)
            cut = await self._cut_to(client, messages, completion.prompt_tokens)
        if cut:
            raise LLMError(f"the server cut the prompt to {cut:,} tokens; {_REMEDY}")
        return completion

    async def close(self) -> None:
        """See `LLM.close`."""
        await self._connection.close()

    @property
    def _learned(self) -> Learned:
        return LEARNED.setdefault((self._endpoint, self._model), Learned(Way()))

    async def _answered(
        self,
        client: AsyncOpenAI,
        messages: Sequence[Message],
        schema: Mapping[str, object] | None,
        max_tokens: int | None,
    ) -> Completion:
        """Ask in the best way that the server takes, each time in a simpler one, and remember which one that is."""
        import openai

        way, asked_again = self._learned.way, False
        request_in = functools.partial(self._request, messages, schema, max_tokens)

        def simpler(*parts: str) -> Way | None:
            """With the next step of the first of these parts that has one in this request."""
            for part in parts:
                step = getattr(way, part) + 1
                next_way = way._replace(**{part: step}) if step <= getattr(SIMPLEST, part) else way
                if request_in(next_way) != request_in(way):
                    return next_way
            return None

        while True:
            try:
                completion = await self._ask(client, request_in(way), wants_json=schema is not None)
            except (openai.APIStatusError, NoAnswer) as exc:
                body, status = _body_of(exc), _status_of(exc)
                if isinstance(exc.body, dict) and (text := exc.body.get("failed_generation")):
                    return Completion(text=str(text), prompt_tokens=0, completion_tokens=0)  # as Groq says it
                unnamed = status in _UNNAMED and not _OF_WHAT_WAS_SENT.search(body)
                if (next_way := simpler(*named_in(status, body), *["form"] * unnamed)) is None:
                    raise
                way = next_way
                continue
            if asked_again or completion.text.strip() or completion.truncated:
                break
            asked_again, way = True, simpler("form") or way
        if completion.text.strip():
            self._learn(way)
        return completion

    def _learn(self, way: Way) -> None:
        """Ask in this way from now on."""
        learned = self._learned
        way = Way(*map(max, way, learned.way))
        if way != learned.way:
            learned.way = way
            where = _SECRETS.sub("***", self._endpoint or "OpenAI")
            log.info("%s at %s is asked %s from now on", self._model, where, way.told(self._limits))

    def _request(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, object] | None,
        max_tokens: int | None,
        way: Way,
    ) -> dict[str, Any]:
        """The body of a request in this way."""
        request: dict[str, Any] = {} if way.temperature else {"temperature": 0}
        if max_tokens is not None and (limit := self._limits[way.limit]):
            request[limit] = max_tokens
        system = [message.content for message in messages[:1] if message.role == "system"]
        rest = [{"role": message.role, "content": message.content} for message in messages[len(system) :]]
        if schema is not None:
            if way.form == 0:
                # Not strict: a strict schema may have no free-form objects, which facts are.
                wanted = {"name": "reply", "schema": dict(schema), "strict": False}
                request["response_format"] = {"type": "json_schema", "json_schema": wanted}
            else:
                written = json.dumps(schema, ensure_ascii=False)
                system.append(
                    f"Answer with one JSON object and nothing else, in the form of this JSON Schema:\n{written}"
                )
            if way.form == 1:
                request["response_format"] = {"type": "json_object"}
        if system and not way.roles:
            rest.insert(0, {"role": "system", "content": "\n\n".join(system)})
        elif system:
            first = rest.pop(0)["content"] if rest and rest[0]["role"] == "user" else ""
            rest.insert(0, {"role": "user", "content": "\n\n".join(filter(None, [*system, first]))})
        return {"model": self._model, "messages": rest, **request}

    async def _ask(self, client: AsyncOpenAI, request: dict[str, Any], *, wants_json: bool) -> Completion:
        started = time.monotonic()
        answer = await client.chat.completions.with_raw_response.create(**request)
        seconds = time.monotonic() - started
        reply, choice = _choice_in(answer.content.decode())
        counts = usage if isinstance(usage := reply.get("usage"), dict) else {}
        prompt, completion = (counts.get(f"{of}_tokens") or 0 for of in ("prompt", "completion"))
        self._usage += Usage(requests=1, prompt_tokens=prompt, completion_tokens=completion, seconds=seconds)
        message, finish = choice["message"], choice.get("finish_reason")
        text = _text_in(message, wants_json=wants_json, cut_off=finish == "length")
        if not text and (declined := message.get("refusal")):
            said = f"the model {self._model} refused to answer: {declined[:200]}"
            raise ModelRefused(said, reply=declined)
        if not text and finish == "content_filter":
            raise ModelRefused(f"a filter of contents stopped the answer of {self._model}", reply="")
        return Completion(
            text=text,
            prompt_tokens=prompt,
            completion_tokens=completion,
            truncated=finish == "length",
            seconds=seconds,
        )

    async def _cut_to(self, client: AsyncOpenAI, messages: Sequence[Message], counted: int) -> int:
        """The tokens that the server has cut the prompt to, as Ollama does without a word; 0 if it took all of it.

        Servers count in their own ways, some without what is in their cache. So one that counts far too few is asked about a
        longer prompt, once: only one that cuts counts the same again.
        """
        import openai

        learned, limit = self._learned, self._limits[self._learned.way.limit]
        if counted < _LEAST_CUT or learned.cut == 0 or not limit:
            return 0
        contents = [message.content for message in messages]
        share = counted / EstimatedTokens().count("\n".join(contents))
        if share >= _CUT_SHARES[counted % 256 not in (0, 2)]:
            return 0
        if learned.cut != counted:
            longer = [*messages[:-1], Message(role=messages[-1].role, content="\n".join(contents[-1:] * 3))]
            request = {**self._request(longer, None, None, learned.way), limit: 1}
            try:
                again = await self._ask(client, request, wants_json=False)
            except (openai.OpenAIError, NoAnswer, ModelRefused):
                return 0  # nothing can be told from that
            learned.cut = counted if again.prompt_tokens == counted else 0
            if learned.cut:
                log.warning("%s", self.warning)
        return learned.cut


# --- what a reply may be -------------------------------------------------------------------------------------
def _choice_in(answer: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The reply, and the one choice in it. Raises NoAnswer if it has none, or an error instead."""
    reply = json.loads(answer) if not _PAGE.match(answer) else None
    found = reply if isinstance(reply, dict) else {}
    choice = choices[0] if isinstance(choices := found.get("choices"), list) and choices else None
    choice = choice if isinstance(choice, dict) else {}
    if error := found.get("error") or choice.get("error"):
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 400
        raise NoAnswer(f"the server answered with an error: {error}", status_code=status, body=error)
    if not isinstance(choice.get("message"), dict):
        raise NoAnswer(f"the server's answer is no chat completion: {said(answer)!r:.300}")
    return found, choice


def _text_in(message: Mapping[str, Any], *, wants_json: bool, cut_off: bool) -> str:
    """The answer's text: the content, or what the model called a tool with, or what it thought where it wrote nothing else."""
    content = _plain(message.get("content"))
    if content.strip():
        return content
    calls = [call.get("function") for call in message.get("tool_calls") or () if isinstance(call, dict)]
    given = [
        call.get("arguments") for call in (*calls, message.get("function_call")) if isinstance(call, dict)
    ]
    if arguments := "\n".join(filter(None, map(_plain, given))):
        return arguments
    for name in ("reasoning_content", "reasoning", "thinking"):
        thought = "" if cut_off else _plain(message.get(name))
        if thought.strip() and ("{" in thought or not wants_json):
            return thought
    return content


def _plain(value: object) -> str:
    """A text that servers send as such, as a list of parts (those of thinking are left out) or as an object."""
    if isinstance(value, list):
        return "".join(map(_plain, value))
    if not isinstance(value, dict):
        return value if isinstance(value, str) else ""
    if re.search("think|reason", str(value.get("type"))):
        return ""
    return text if isinstance(text := value.get("text"), str) else json.dumps(value, ensure_ascii=False)


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
