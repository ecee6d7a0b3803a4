"""Compression of a conversation that the caller holds: no store, no user, only messages.

`HybridMemoryStrategy` keeps the last messages whole, the few of the older that matter most, and one summary of the
rest, within a budget of tokens. Another way of choosing plugs in by implementing `ContextStrategy`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import regex
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from memory_agent.adapters import load_redactor, make_counter, make_embedder
from memory_agent.config import MemoryConfig, impossible_values, nearest
from memory_agent.context.budget import ROLLING_SUMMARY_TOKENS, largest, usable
from memory_agent.context.ledger import MESSAGE_OVERHEAD
from memory_agent.context.passages import without_middle
from memory_agent.context.render import as_data
from memory_agent.conversations.older_messages import (
    LIKENESS,
    MessageSummaries,
    MessageSummary,
    OlderMessages,
    choose_important,
    message_score,
    shared_with,
)
from memory_agent.domain import ContextBlock, ContextLine, prompt_text
from memory_agent.errors import ConfigError
from memory_agent.messages import InvokedModel, PlainMessage, read_messages, read_prompt
from memory_agent.text.code.lines import canonical_language, is_found, programming_language, talks_of_code

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from memory_agent.ports import LLM, Embedder, Redactor, TokenCounter

log = logging.getLogger(__name__)

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


@asynccontextmanager
async def open_embedder(cfg: MemoryConfig | None = None) -> AsyncIterator[Embedder]:
    """The embedding model that the settings name, for a strategy; closed at the end.

    `cfg`: default `MemoryConfig()`, which reads the environment. The model is loaded by the first call that needs it.
    """
    async with AsyncExitStack() as stack:
        yield make_embedder(cfg or MemoryConfig(), stack)


def _compiling(patterns: Any) -> Any:
    for pattern in patterns.values() if isinstance(patterns, Mapping) else patterns:
        try:
            regex.compile(pattern)
        except regex.error as exc:
            raise ValueError(f"the pattern {pattern!r:.80} is no regular expression: {exc}") from None
    return patterns


_Priority = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class StrategyConfig(BaseModel):
    """Settings of `HybridMemoryStrategy`. Neither the environment nor a file is read.

    `code_retention_priority`: what code adds to a message's score, `language_priorities` the same by programming language
    ({"sql": 3.0}). `code_patterns`: regular expressions of what is code besides what the rules find, as a list, or by
    language. `adaptive`: the recent messages, the code's priority and the threshold of summaries follow what share of the
    conversation has code: from 8, 1.5 and 15 in a chat to 15, 3.0 and 25 where a third has.

    Raises ConfigError naming an unknown or impossible setting.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_context_tokens: Annotated[int, Field(ge=1, le=10_000_000)] = 4_000
    recent_messages_count: Annotated[int, Field(ge=1, le=1_000)] = 10
    code_retention_priority: _Priority = 2.0
    summarization_threshold: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    code_patterns: Annotated[Mapping[str, str] | tuple[str, ...], AfterValidator(_compiling)] = ()
    language_priorities: Mapping[str, _Priority] = {}
    adaptive: bool = False

    def __init__(self, **settings: Any) -> None:
        known = type(self).model_fields
        for name in settings.keys() - known.keys():
            meant = f"did you mean {' or '.join(guesses)}? " if (guesses := nearest(name, known)) else ""
            raise ConfigError(f"{name} is no setting; {meant}a StrategyConfig has {', '.join(known)}")
        try:
            super().__init__(**settings)
        except ValidationError as exc:
            raise ConfigError(impossible_values(exc, known, secret=())) from None

    def adapted(self, code_share: float) -> StrategyConfig:
        """These settings for a conversation of which such a share of the messages has code."""
        if not self.adaptive:
            return self
        part = min(code_share / _MUCH_CODE, 1.0)
        settled = {name: chat + part * (code - chat) for name, (chat, code) in _ADAPTED.items()}
        priority = settled.pop("code_retention_priority")
        whole = {name: round(value) for name, value in settled.items()}
        return self.model_copy(update={"code_retention_priority": round(priority, 2), **whole})


_MUCH_CODE: Final = 1 / 3
_ADAPTED: Final = {
    "recent_messages_count": (8, 15),
    "code_retention_priority": (1.5, 3.0),
    "summarization_threshold": (15, 25),
}
"""What `adaptive` settles: of a chat, and of a conversation about code."""
_PATTERN_SECONDS: Final = 1.0
"""A pattern of the caller's that takes longer on one text is stopped, and counts as not matching there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StrategyMetrics:
    """What a strategy has done so far.

    `tokens`: of all that it sent; `degraded`: contexts without a part that was down.
    """

    contexts: int = 0
    messages: int = 0
    kept: int = 0
    summarized: int = 0
    left: int = 0
    tokens: int = 0
    degraded: int = 0
    seconds: float = 0.0

    def after(self, prepared: PreparedContext, seconds: float) -> StrategyMetrics:
        """These with one more context."""
        kept, summarized, left = len(prepared.kept), len(prepared.summarized), len(prepared.left)
        return StrategyMetrics(
            contexts=self.contexts + 1,
            messages=self.messages + kept + summarized + left,
            kept=self.kept + kept,
            summarized=self.summarized + summarized,
            left=self.left + left,
            tokens=self.tokens + prepared.tokens,
            degraded=self.degraded + bool(prepared.degraded),
            seconds=self.seconds + seconds,
        )


class HybridMemoryStrategy:
    """The last messages whole, the most important older ones, and a summary of the rest. A `ContextStrategy`.

    Of the n messages before the last `recent_messages_count`, at most min(5, max(1, n // 2)) are kept, those with the
    highest score: each at least 0.5 where code is among them, else 1.0. Where the new prompt is about code, code comes
    first, what shares most words with the prompt before the rest. Above `summarization_threshold` messages the others
    are summarised, by `llm` or, without one, in sentences of theirs. Messages without text (calls of tools) are passed over
    and don't count.

    To fit into `max_context_tokens` the summary goes first, then the important from the lowest score, then the
    recent from the oldest. The new prompt never goes: larger than the budget, it is sent alone.

    A subclass may say otherwise what is code (`contains_code`) and what a message is worth (`calculate_score`).
    """

    def __init__(
        self,
        config: StrategyConfig | MemoryConfig | Mapping[str, Any] | None = None,
        llm: LLM | Any = None,
        *,
        embedder: Embedder | None = None,
        counter: TokenCounter | None = None,
        redact: Redactor | None = None,
        **settings: Any,
    ) -> None:
        """`config`: settings, as an object or by name; `settings`: single ones, over those of `config`.

        Of a `MemoryConfig` those count that `StrategyConfig` has too. `llm`: this package's, or a LangChain chat model;
        `embedder`: adds likeness to the new prompt to the score. Neither is closed, nor made from the settings. `counter`:
        the model's own tokens, where they can be counted. `redact`: applied to what `llm` is shown; without it the function
        that a `MemoryConfig` names as `redactor`. Raises ConfigError naming an unknown or impossible setting, or an `llm`
        that cannot be asked.
        """
        self.config: Final = _settings(config, settings)
        self._counter = counter or make_counter()
        if redact is None and isinstance(config, MemoryConfig):
            redact = load_redactor(config)
        size = ROLLING_SUMMARY_TOKENS
        self._summaries = MessageSummaries(
            _llm(llm), _picker(size), self._counter, max_tokens=size, redact=redact
        )
        self._older = OlderMessages(self._language_of_code, embedder)
        patterns = self.config.code_patterns
        by_language = patterns.items() if isinstance(patterns, Mapping) else (("", one) for one in patterns)
        self._patterns = [
            (canonical_language(language), regex.compile(pattern, regex.MULTILINE))
            for language, pattern in by_language
        ]
        self._priorities = {
            canonical_language(language): bonus for language, bonus in self.config.language_priorities.items()
        }
        self.degraded: tuple[str, ...] = ()
        """What was down when the last context was prepared: "llm", "embedder", both or nothing."""
        self.metrics = StrategyMetrics()

    # --- what a message is worth ---
    def contains_code(self, text: str) -> bool:
        """True if there is code in `text`, by the rules or by one of `code_patterns`."""
        return self._pattern_in(text) is not None or is_found(text)

    def calculate_score(self, message: object, config: StrategyConfig | None = None) -> float:
        """What `message` is worth: the code's bonus + min(characters / 1000, 1).

        `config`: the settings in force, where they are not this strategy's own.
        """
        read = message if isinstance(message, PlainMessage) else read_messages([message])[0]
        config, language = config or self.config, self._older.code_in(read.content)
        bonus = 0.0 if language is None else self._priorities.get(language, config.code_retention_priority)
        return message_score(len(read.content), code_bonus=bonus)

    def select_important_messages(self, messages: Sequence[Any]) -> list[Any]:
        """Of older `messages` those that are kept, the highest score first."""
        said = _with_text(read_messages(messages))
        scores = [self.calculate_score(message) for message in said]
        code = [self._older.code_in(message.content) is not None for message in said]
        return [messages[said[i].position] for i in choose_important(scores, code)]

    def _pattern_in(self, text: str) -> str | None:
        """The language of the first of the caller's patterns that matches ("" if it has none), or None."""
        for language, pattern in self._patterns:
            try:
                if pattern.search(text, timeout=_PATTERN_SECONDS):
                    return language
            except TimeoutError:
                log.warning("the code pattern %.80r took longer than a second on a text", pattern.pattern)
        return None

    def _language_of_code(self, text: str) -> str | None:
        """The language of the code in `text`, "" if nothing tells it, None without code."""
        if not self.contains_code(text):
            return None
        return self._pattern_in(text) or (programming_language(text) if self._priorities else "")

    # --- tokens ---
    def estimate_tokens(self, text: str) -> int:
        """The tokens of `text` by this strategy's counter; 0 for the empty text."""
        return self._counter.count(text)

    def trim_to_token_limit(
        self, context: Sequence[tuple[str, str]], max_tokens: int | None = None
    ) -> list[tuple[str, str]]:
        """The end of `context` that fits into `max_tokens` (default: `max_context_tokens`).

        The last message always stays; one that is too large by itself loses its middle.
        """
        room = self.config.max_context_tokens if max_tokens is None else max_tokens
        kept: list[tuple[str, str]] = []
        for role, content in reversed(context):
            if not kept and self.estimate_tokens(content) > room:
                content = self._cut(content, room)
            room -= self.estimate_tokens(content)
            if kept and room < 0:
                break
            kept.append((role, content))
        return kept[::-1]

    def _cut(self, content: str, room: int) -> str:
        chars = largest(
            len(content), lambda chars: self.estimate_tokens(without_middle(content, chars)) <= room
        )
        return without_middle(content, chars)

    # --- a context ---
    async def should_summarize(self, messages: Sequence[object]) -> bool:
        """True if more than `summarization_threshold` messages have text. Raises InvalidInput."""
        said = _with_text(read_messages(messages))
        return len(said) > (await self._settings_for(said)).summarization_threshold

    async def prepare_context(self, messages: Sequence[object], new_prompt: object) -> list[tuple[str, str]]:
        """(role, content) of what to send: summary, important, recent, new prompt. See the class.

        `messages`: the history, oldest first, without `new_prompt`: dicts, (role, content) pairs, messages of
        LangChain or of this package. `new_prompt`: text, or one message. Raises InvalidInput for anything else.
        """
        return list((await self.prepare(messages, new_prompt)).messages)

    async def prepare(self, messages: Sequence[object], new_prompt: object) -> PreparedContext:
        """`prepare_context` with an account of every message."""
        started = time.monotonic()
        given = read_messages(messages)
        prompt = read_prompt(new_prompt)
        packing = _Packing.around(prompt, self.config.max_context_tokens, self._counter)
        said = _with_text(given)
        settings = await self._settings_for(said)
        older, recent = _split(said, settings.recent_messages_count)
        important = await self._important(older, prompt, settings, packing)
        packing.keep_in_order([*reversed(recent), *important])
        kept = {message.position for message in important}
        rest = [message for message in older if message.position not in kept]
        if len(said) > settings.summarization_threshold:
            await self._add_summary(packing, rest)
        else:
            packing.leave(rest, _LESS_IMPORTANT)
        packing.leave([message for message in given if message.blank], _BLANK)
        self.degraded = packing.degraded
        prepared = packing.prepared()
        self.metrics = self.metrics.after(prepared, time.monotonic() - started)
        log.debug(
            "%d messages: %d kept, %d summarised, %d left out; %d tokens",
            *(len(given), len(prepared.kept), len(prepared.summarized), len(prepared.left), prepared.tokens),
        )
        return prepared

    async def _settings_for(self, said: Sequence[PlainMessage]) -> StrategyConfig:
        """The settings for this conversation."""
        if not self.config.adaptive or not said:
            return self.config
        code = await self._older.code_of([message.content for message in said])
        return self.config.adapted(sum(one is not None for one in code) / len(said))

    async def _important(
        self,
        older: Sequence[PlainMessage],
        prompt: PlainMessage,
        settings: StrategyConfig,
        packing: _Packing,
    ) -> list[PlainMessage]:
        """The older messages to keep for the prompt, best first."""
        if not older:
            return []
        contents = [message.content for message in older]
        code = [language is not None for language in await self._older.code_of(contents)]
        likeness, packing.degraded = await self._older.likeness_to(prompt.content, contents)
        scores = [
            round(self.calculate_score(message, settings) + LIKENESS * near, 2)
            for message, near in zip(older, likeness, strict=True)
        ]
        is_about_code = talks_of_code(prompt.content) or self.contains_code(prompt.content)
        shared = shared_with(prompt.content, contents, code) if is_about_code else ()
        return [older[i] for i in choose_important(scores, code, shared)]

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
def _settings(config: object, keywords: Mapping[str, Any]) -> StrategyConfig:
    own = StrategyConfig.model_fields
    if isinstance(config, StrategyConfig | MemoryConfig):
        config = {name: getattr(config, name) for name in config.model_fields_set if name in own}
    elif config is not None and not isinstance(config, Mapping):
        raise ConfigError(
            f"config is a {type(config).__name__}; pass a StrategyConfig, a MemoryConfig, a mapping of setting names, or None"
        )
    return StrategyConfig(**{**(config or {}), **keywords})


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
