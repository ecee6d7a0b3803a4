"""A chat with a model of Ollama's that stays within its context, by Ollama's own API over HTTP.

`OllamaModel` is an `LLM` for whatever takes one; `OllamaAdapter` holds a conversation and sends of it what its strategy keeps.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final, Self

import httpx

from memory_agent.domain import Completion, Usage
from memory_agent.errors import InvalidInput, LLMError, LLMUnavailable
from memory_agent.llm.replies import without_thinking
from memory_agent.strategy import HybridMemoryStrategy

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
    from types import TracebackType

    from memory_agent.config import MemoryConfig
    from memory_agent.domain import Message
    from memory_agent.ports import Embedder
    from memory_agent.strategy import ContextStrategy, StrategyConfig

BASE_URL: Final = "http://localhost:11434"
_TIMEOUT: Final = httpx.Timeout(300, connect=5)  # a large model takes minutes until it is loaded
_OF_THE_REQUEST: Final = frozenset({"format", "keep_alive", "think", "logprobs", "top_logprobs"})
"""Parameters that stand beside `options` in a request."""
_NOT_TAKEN: Final = frozenset({"model", "messages", "stream", "tools", "options"})
_ANSWER_TOKENS: Final = 2_048
"""Room for an answer beside the context, where `num_predict` says no other."""
_SHOWN_CHARS: Final = 300


class OllamaModel:
    """`LLM` by Ollama's `/api/chat`.

    `last`: what Ollama said of its last reply: counts, durations, why it ended.
    """

    def __init__(self, model: str, base_url: str = BASE_URL, params: Mapping[str, Any] | None = None) -> None:
        """`params`: of every request, such as temperature, num_ctx, keep_alive or think."""
        self.model = model
        self.base_url = base_url.rstrip("/")
        self.usage = Usage()
        self.last: Mapping[str, Any] = {}
        self.params = _checked(params or {})
        self._client = httpx.AsyncClient(timeout=_TIMEOUT)

    async def stream(self, messages: Sequence[tuple[str, str]], **params: Any) -> AsyncGenerator[str, None]:
        """The reply to `messages` piece by piece as it is written, without the model's thinking.

        `messages`: (role, content). `params` go over those of every request. Raises LLMUnavailable, also where the reply breaks off, or LLMError.
        """
        params = {**self.params, **_checked(params)}
        body = {
            "model": self.model,
            "messages": [{"role": role, "content": content} for role, content in messages],
            "stream": True,
            **{name: params.pop(name) for name in _OF_THE_REQUEST & params.keys()},
            "options": params,
        }
        started = time.monotonic()
        told: dict[str, Any] = {}
        async for told in self._answered(body):
            if piece := (told.get("message") or {}).get("content"):
                yield piece
        if not told.get("done"):
            raise LLMUnavailable(f"Ollama at {self.base_url} broke off in the middle of a reply")
        self.last = {name: value for name, value in told.items() if name != "message"}
        self.usage += Usage(
            requests=1,
            prompt_tokens=told.get("prompt_eval_count") or 0,
            completion_tokens=told.get("eval_count") or 0,
            seconds=time.monotonic() - started,
        )

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, object] | None = None,
        max_tokens: int | None = None,
    ) -> Completion:
        """See `LLM.complete`."""
        params: dict[str, Any] = {} if schema is None else {"format": schema}
        if max_tokens is not None:
            params["num_predict"] = max_tokens
        pairs = [(message.role, message.content) for message in messages]
        text = "".join([piece async for piece in self.stream(pairs, **params)])
        return Completion(
            text=text,
            prompt_tokens=self.last.get("prompt_eval_count") or 0,
            completion_tokens=self.last.get("eval_count") or 0,
            truncated=self.last.get("done_reason") == "length",
        )

    async def close(self) -> None:
        """See `LLM.close`."""
        await self._client.aclose()

    async def _answered(self, body: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The objects of an answer, one a line."""
        try:
            async with self._client.stream("POST", f"{self.base_url}/api/chat", json=body) as response:
                if response.status_code != httpx.codes.OK:
                    await response.aread()
                    raise self._refusal(response.status_code, response.text)
                rest = b""
                # Not httpx's lines: they end at U+0085 too, which JSON may hold.
                async for part in response.aiter_bytes():
                    *lines, rest = (rest + part).split(b"\n")
                    for line in lines:
                        yield self._read(line)
                if rest.strip():
                    yield self._read(rest)
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise LLMUnavailable(
                f"Ollama at {self.base_url} does not answer ({type(exc).__name__}); start it with `ollama serve`,"
                f" or pass the base_url where it listens, such as {BASE_URL}"
            ) from exc

    def _read(self, line: bytes) -> dict[str, Any]:
        try:
            told = json.loads(line or b"{}")
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise LLMError(
                f"what answers at {self.base_url} is not Ollama: {line.decode(errors='replace')!r:.80}"
            )
        if error := told.get("error"):
            raise LLMError(f"Ollama ended a reply with an error: {str(error)[:_SHOWN_CHARS]}")
        return told

    def _refusal(self, status: int, text: str) -> LLMError | LLMUnavailable:
        try:
            error = str(json.loads(text)["error"])
        except (ValueError, KeyError, TypeError):
            error = text
        error = error[:_SHOWN_CHARS]
        if status == httpx.codes.NOT_FOUND:
            return LLMUnavailable(
                f"Ollama at {self.base_url} answered 404: {error}; get the model with `ollama pull {self.model}`"
            )
        if status >= httpx.codes.INTERNAL_SERVER_ERROR:
            return LLMUnavailable(f"Ollama at {self.base_url} answered {status}: {error}")
        return LLMError(f"Ollama refused the request with {status}: {error}")


def _checked(params: Mapping[str, Any]) -> dict[str, Any]:
    if wrong := sorted(_NOT_TAKEN & params.keys()):
        raise InvalidInput(
            f"{', '.join(wrong)} cannot be set; parameters are what a model takes (temperature, num_ctx, …) and"
            f" {', '.join(sorted(_OF_THE_REQUEST))}"
        )
    return dict(params)


class OllamaAdapter:
    """A conversation with a model of Ollama's. An async context manager.

    `history`: (role, content) of what was said, oldest first; yours to fill, to shorten and to save.
    `memory_strategy`: chooses what of it a prompt sees; None sends all of it.
    """

    def __init__(
        self,
        model: str = "qwen3:30b-a3b",
        base_url: str = BASE_URL,
        default_params: Mapping[str, Any] | None = None,
        use_hybrid_memory: bool = True,
        memory_config: StrategyConfig | MemoryConfig | Mapping[str, Any] | None = None,
        *,
        embedder: Embedder | None = None,
    ) -> None:
        """`default_params`: of every request, such as temperature, keep_alive or think.

        Where they have no `num_ctx`, Ollama is asked for the strategy's budget and room for an answer: it cuts longer prompts
        without a word. `memory_config`, `embedder`: see `HybridMemoryStrategy`; the same model makes its summaries.
        """
        self.client = OllamaModel(model, base_url, default_params)
        self.memory_strategy: ContextStrategy | None = None
        if use_hybrid_memory:
            strategy = HybridMemoryStrategy(memory_config, self.client, embedder=embedder)
            room = max(self.client.params.get("num_predict", 0), _ANSWER_TOKENS)
            # For summaries too: Ollama loads the model again for another size.
            self.client.params.setdefault("num_ctx", strategy.config.max_context_tokens + room)
            self.memory_strategy = strategy
        self.history: list[tuple[str, str]] = []

    async def send_prompt_async(self, prompt: str, **params: Any) -> str:
        """The model's answer to `prompt`, which joins the history with it. `params`: of this request alone.

        Raises LLMUnavailable or LLMError; the history is then as it was.
        """
        return without_thinking(
            "".join([piece async for piece in self.stream_prompt_async(prompt, **params)])
        )

    async def stream_prompt_async(self, prompt: str, **params: Any) -> AsyncGenerator[str, None]:
        """The same, piece by piece. What is not read to its end does not join the history."""
        messages = [*self.history, ("user", prompt)]
        if self.memory_strategy is not None:
            messages = await self.memory_strategy.prepare_context(list(self.history), prompt)
        pieces = []
        async for piece in self.client.stream(messages, **params):
            pieces.append(piece)
            yield piece
        self.history += [("user", prompt), ("assistant", without_thinking("".join(pieces)))]

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()
