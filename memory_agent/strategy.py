"""Compression of a conversation that the caller holds: no store, no user, only messages.

`HybridMemoryStrategy` keeps the last messages whole, the few of the older that matter most, and one summary of the
rest, within a budget of tokens. Another way of choosing plugs in by implementing `ContextStrategy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from memory_agent.adapters import load_redactor, make_counter
from memory_agent.config import MemoryConfig
from memory_agent.context.budget import ROLLING_SUMMARY_TOKENS, usable
from memory_agent.context.ledger import MESSAGE_OVERHEAD
from memory_agent.context.render import as_data
from memory_agent.conversations.older_messages import MessageSummaries, MessageSummary, OlderMessages
from memory_agent.domain import ContextBlock, ContextLine, prompt_text
from memory_agent.errors import ConfigError
from memory_agent.messages import InvokedModel, read_messages, read_prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

    from memory_agent.messages import PlainMessage
    from memory_agent.ports import LLM, Embedder, Redactor, TokenCounter

_CHARS_PER_TOKEN: Final = 3
_LEAST_SUMMARY_CHARS: Final = 80

_NO_ROOM: Final = "no room in the budget"
_NO_ROOM_FOR_SUMMARY: Final = "older, less important, and no room for a summary"
_LESS_IMPORTANT: Final = "older and less important"
_BLANK: Final = "has no text"


class ContextStrategy(Protocol):
    """A way to choose what of a conversation a model is shown."""

    async def prepare_context(self, messages: Sequence[object], new_prompt: object) -> list[tuple[str, str]]:
        """(role, content) of what to send: of `messages` (oldest first), then `new_prompt` whole and last.

        Roles are "user", "assistant", "system" and "tool". Raises InvalidInput for what is no message.
        """

    async def should_summarize(self, messages: Sequence[object]) -> bool:
        """True if so many messages call for a summary."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedContext:
    """The messages sent, and what became of each; every position of the history stands in one of the three.

    `messages`: (role, content), the new prompt last. `kept`: positions of those shown word for word, rising;
    `summarized`: of those that the summary stands for; `left`: of all others, with the reason. `tokens`: of all of
    it, `MESSAGE_OVERHEAD` a message included. `degraded`: what was down: "llm", which could not make the summary, "embedder".
    """

    messages: tuple[tuple[str, str], ...]
    kept: tuple[int, ...]
    summarized: tuple[int, ...] = ()
    left: Mapping[int, str]
    tokens: int
    degraded: tuple[str, ...] = ()


class HybridMemoryStrategy:
    """The last messages whole, the most important older ones, and a summary of the rest. A `ContextStrategy`.

    Of the n messages before the last `recent_messages_count`, at most min(5, max(1, n // 2)) are kept, those with the
    highest `message_score`: each at least 0.5 where code is among them, else 1.0. Where the new prompt is about code, code
    comes first, what shares most words with the prompt before the rest. Above `summarization_threshold` messages the others
    are summarised, by `llm` or, without one, in sentences of theirs. Messages without text (calls of tools) are passed over
    and don't count.

    To fit into `max_context_tokens` the summary goes first, then the important from the lowest score, then the
    recent from the oldest. The new prompt never goes: larger than the budget, it is sent alone.
    """

    def __init__(
        self,
        config: MemoryConfig | Mapping[str, Any] | None = None,
        llm: LLM | Any = None,
        *,
        embedder: Embedder | None = None,
        counter: TokenCounter | None = None,
        redact: Redactor | None = None,
        **settings: Any,
    ) -> None:
        """`config`: settings, as an object or by name; `settings`: single ones, over those of `config`.

        With None or a mapping, settings that are not named have their defaults: neither the environment nor a file is
        read. `llm`: this package's, or a LangChain chat model; `embedder`: adds likeness to the new prompt to the
        score. Neither is closed, nor made from the settings. `counter`: the model's own tokens, where they can be
        counted. `redact`: applied to what `llm` is shown; without it the function that the setting `redactor` names.
        Raises ConfigError naming an unknown or impossible setting, or an `llm` that cannot be asked.
        """
        self._cfg = _settings(config, settings)
        self._counter = counter or make_counter()
        redact = redact or load_redactor(self._cfg)
        size = ROLLING_SUMMARY_TOKENS
        self._summaries = MessageSummaries(
            _llm(llm), _picker(size), self._counter, max_tokens=size, redact=redact
        )
        self._older = OlderMessages(embedder)
        self.degraded: tuple[str, ...] = ()
        """What was down when the last context was prepared: "llm", "embedder", both or nothing."""

    async def should_summarize(self, messages: Sequence[object]) -> bool:
        """True if more than `summarization_threshold` messages have text. Raises InvalidInput."""
        return self._calls_for_summary(_with_text(read_messages(messages)))

    async def prepare_context(self, messages: Sequence[object], new_prompt: object) -> list[tuple[str, str]]:
        """(role, content) of what to send: summary, important, recent, new prompt. See the class.

        `messages`: the history, oldest first, without `new_prompt`: dicts, (role, content) pairs, messages of
        LangChain or of this package. `new_prompt`: text, or one message. Raises InvalidInput for anything else.
        """
        return list((await self.prepare(messages, new_prompt)).messages)

    async def prepare(self, messages: Sequence[object], new_prompt: object) -> PreparedContext:
        """`prepare_context` with an account of every message."""
        given = read_messages(messages)
        prompt = read_prompt(new_prompt)
        packing = _Packing.around(prompt, self._cfg.max_context_tokens, self._counter)
        said = _with_text(given)
        older, recent = _split(said, self._cfg.recent_messages_count)
        chosen, packing.degraded = await self._older.choose(
            [message.content for message in older], prompt.content
        )
        important = [older[i] for i in chosen]
        packing.keep_in_order([*reversed(recent), *important])
        kept = {message.position for message in important}
        rest = [message for message in older if message.position not in kept]
        if self._calls_for_summary(said):
            await self._add_summary(packing, rest)
        else:
            packing.leave(rest, _LESS_IMPORTANT)
        packing.leave([message for message in given if message.blank], _BLANK)
        self.degraded = packing.degraded
        return packing.prepared()

    def _calls_for_summary(self, said: Sequence[PlainMessage]) -> bool:
        return len(said) > self._cfg.summarization_threshold

    async def _add_summary(self, packing: _Packing, rest: Sequence[PlainMessage]) -> None:
        """Summarise `rest` if there is room for it: a summary that could not be shown is not asked for."""
        if not rest or not packing.has_room(_summary_text("…", len(rest))):
            packing.leave(rest, _NO_ROOM_FOR_SUMMARY)
            return
        summary = await self._summaries.summary_of([message.pair for message in rest])
        packing.add_summary(summary, rest)


# --- packing -------------------------------------------------------------------------------------------------
@dataclass(kw_only=True, slots=True)
class _Packing:
    """Greedy packing state. After the first message that does not fit, all less important ones are dropped too."""

    prompt: PlainMessage
    counter: TokenCounter
    room: int
    tokens: int
    shut: bool = False
    kept: list[PlainMessage] = field(default_factory=list)
    summary: str | None = None
    summarized: tuple[int, ...] = ()
    left: dict[int, str] = field(default_factory=dict)
    degraded: tuple[str, ...] = ()

    @classmethod
    def around(cls, prompt: PlainMessage, budget: int, counter: TokenCounter) -> _Packing:
        """Nothing but the prompt, in whatever room it leaves of `budget` tokens."""
        tokens = _cost(prompt.content, counter)
        return cls(prompt=prompt, counter=counter, room=usable(budget, counter) - tokens, tokens=tokens)

    def keep_in_order(self, messages: Sequence[PlainMessage]) -> None:
        """Keep `messages`, those that matter most first, up to the first that does not fit."""
        for position, message in enumerate(messages):
            if not self._take(message.content):
                self.leave(messages[position:], _NO_ROOM)
                return
            self.kept.append(message)

    def has_room(self, content: str) -> bool:
        """True if a message of that content would fit."""
        return not self.shut and _cost(content, self.counter) <= self.room

    def add_summary(self, summary: MessageSummary, rest: Sequence[PlainMessage]) -> None:
        """Take the summary of `rest` if it fits."""
        self.degraded += ("llm",) if summary.degraded else ()
        text = _summary_text(summary.text, len(rest))
        if not summary.text.strip():
            self.leave(rest, _LESS_IMPORTANT)
        elif self._take(text):
            self.summary, self.summarized = text, tuple(message.position for message in rest)
        else:
            self.leave(rest, _NO_ROOM_FOR_SUMMARY)

    def leave(self, messages: Sequence[PlainMessage], reason: str) -> None:
        """Note why `messages` are not shown."""
        self.left.update((message.position, reason) for message in messages)

    def prepared(self) -> PreparedContext:
        """The messages to send: the summary, those kept as they were said, the new prompt."""
        kept = sorted(self.kept, key=lambda message: message.position)
        summary = [] if self.summary is None else [("system", self.summary)]
        return PreparedContext(
            messages=(*summary, *(message.pair for message in kept), self.prompt.pair),
            kept=tuple(message.position for message in kept),
            summarized=self.summarized,
            left=MappingProxyType(dict(sorted(self.left.items()))),
            tokens=self.tokens,
            degraded=self.degraded,
        )

    def _take(self, content: str) -> bool:
        cost = 0 if self.shut else _cost(content, self.counter)
        if self.shut or cost > self.room:
            self.shut = True
            return False
        self.room -= cost
        self.tokens += cost
        return True


def _cost(content: str, counter: TokenCounter) -> int:
    return counter.count(content) + MESSAGE_OVERHEAD


def _summary_text(summary: str, count: int) -> str:
    """A summary as the model reads it, marked as data, which it cannot end."""
    what = (
        f"{count} earlier messages of this conversation that are"
        if count != 1
        else "an earlier message that is"
    )
    line = ContextLine(body=f"Summary of {what} not shown:\n{as_data(summary)}")
    return prompt_text([ContextBlock(tier="summary", lines=(line,))])


# --- what comes in -------------------------------------------------------------------------------------------
class _Given(MemoryConfig):
    """Settings that come from the caller alone."""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Neither the environment nor a file."""
        return (init_settings,)


def _settings(config: object, keywords: Mapping[str, Any]) -> MemoryConfig:
    if isinstance(config, MemoryConfig):
        if not keywords:
            return config
        config = {name: getattr(config, name) for name in config.model_fields_set}
    elif config is not None and not isinstance(config, Mapping):
        raise ConfigError(
            f"config is a {type(config).__name__}; pass a MemoryConfig, a mapping of setting names, or None"
        )
    return _Given(**{**(config or {}), **keywords})


def _llm(given: Any) -> LLM | None:
    if given is None or hasattr(given, "complete"):
        return given  # type: ignore[no-any-return]  # whatever it is called by, it is asked as an LLM
    if hasattr(given, "ainvoke"):
        return InvokedModel(given)
    raise ConfigError(
        f"llm is a {type(given).__name__} with neither complete nor ainvoke; pass an LLM of memory_agent.ports,"
        " a LangChain chat model, or None"
    )


def _with_text(messages: Sequence[PlainMessage]) -> list[PlainMessage]:
    return [message for message in messages if not message.blank]


def _split(
    said: Sequence[PlainMessage], recent: int
) -> tuple[Sequence[PlainMessage], Sequence[PlainMessage]]:
    """The older messages and the last `recent` ones."""
    border = max(len(said) - recent, 0)
    return said[:border], said[border:]


def _picker(max_tokens: int) -> Callable[[Sequence[tuple[str, str]]], str]:
    """Sentences out of messages, about as long as a model's summary."""
    from memory_agent.text.quotes import extractive_summary

    return partial(
        extractive_summary, None, max_chars=max(_LEAST_SUMMARY_CHARS, max_tokens * _CHARS_PER_TOKEN)
    )
