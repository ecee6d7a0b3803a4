"""The compress stage: now and then the older part of a conversation is summed up, and the event recorded.

The turns stay as they are. What is recorded is derived from them: a summary, key moments, which turns to keep word for
word. Each compression builds on the one before, and can be looked at as of any turn.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.concurrency import COSTLY_TRIES, Tries, overtaken
from memory_agent.context.budget import SUMMARY_TOKENS
from memory_agent.context.render import summary_line
from memory_agent.context.state import NONE, Extract
from memory_agent.domain import Compression, SummaryItem, new_id
from memory_agent.errors import MalformedReply, ModelRefused
from memory_agent.llm.summaries import Draft, ModelOrExtract, as_said, fitting, in_order
from memory_agent.text.quotes import (
    LEAST_TELLING,
    PICKED_UP,
    answer_in,
    as_answer,
    is_picked_up,
    question_in,
    quotes_of,
    says_again,
    terms_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.context.state import ConversationReader
    from memory_agent.domain import CompressedContext, CompressionReason, Scope, Turn
    from memory_agent.llm.summaries import Summarizer, SummaryWriter
    from memory_agent.ports import Clock, DocumentStore, TokenCounter

    ConversationSummarizer = Summarizer[Sequence[SummaryItem], tuple[SummaryItem, ...]]
    """Its items come by rising first turn, not yet limited to any number of tokens."""


EXTRACT_VERSION: Final = "2"
MAX_IMPORTANCE: Final = 10.0


class LLMConversationSummarizer:
    """Asks a language model, with the summary so far and as many turns as fit into one call."""

    def __init__(self, writer: SummaryWriter) -> None:
        self._writer = writer
        self.name = writer.name

    async def summarize(
        self, previous: Sequence[SummaryItem], turns: Sequence[Turn]
    ) -> tuple[SummaryItem, ...]:
        """See `ConversationSummarizer`. Of several calls, quotes stand in for one that gave nothing.

        Raises MalformedReply or ModelRefused, with the reply, if nothing can be kept of any.
        """
        draft = Draft(items=tuple(previous))
        pieces = await self._writer.pieces(as_said(turns))
        failed = 0
        for piece in pieces:
            try:
                draft = await self._writer.write(draft, piece)
            except (MalformedReply, ModelRefused):
                failed += 1
                if failed == len(pieces):
                    raise
                read = {one.number for one in piece}
                quotes = quoted([turn for turn in turns if turn.seq in read], before=draft.items)
                draft = Draft(items=in_order([*draft.items, *quotes]))
        return draft.items


class ExtractiveConversationSummarizer:
    """Quotes the sentences of users that tell most; the fallback without a language model."""

    name = f"extractive:quotes-{EXTRACT_VERSION}"

    async def summarize(
        self, previous: Sequence[SummaryItem], turns: Sequence[Turn]
    ) -> tuple[SummaryItem, ...]:
        """See `ConversationSummarizer`."""
        if not turns:
            return tuple(previous)
        return await asyncio.to_thread(self._items, previous, turns)  # up to half a millisecond a sentence

    def _items(self, previous: Sequence[SummaryItem], turns: Sequence[Turn]) -> tuple[SummaryItem, ...]:
        return in_order([*previous, *quoted(turns, before=previous)])


_ANSWERS: Final = 2
"""Turns after one in which its words may be taken up."""
_REPLY: Final = LEAST_TELLING / 2
"""Importance of what an assistant answers: whatever people tell comes first."""


def quoted(turns: Sequence[Turn], *, before: Sequence[SummaryItem] = ()) -> list[SummaryItem]:
    """Quotes of what users tell in `turns`, and of who answers a question, with that question.

    Nothing that is said already, there or in the items `before`. `importance` is how much it tells (`text.quotes`).
    """
    said = [terms_of(item.text) for item in before]
    terms = functools.cache(lambda place: terms_of(turns[place].said))  # most turns' words nobody asks for
    items: list[SummaryItem] = []

    def add(turn: Turn, text: str, weight: float) -> bool:
        words = terms_of(text)
        if says_again(words, said):
            return False
        said.append(words)
        items.append(
            SummaryItem(
                kind="fact",
                text=text,
                first_seq=turn.seq,
                last_seq=turn.seq,
                participants=(turn.speaker or turn.role,),
                importance=round(min(weight, MAX_IMPORTANCE), 2),
                said_at=turn.timestamp,
            )
        )
        return True

    for place, turn in enumerate(turns):
        after = range(place + 1, min(place + 1 + _ANSWERS, len(turns)))
        who = (turn.role, turn.speaker)
        answers = [i for i in after if (turns[i].role, turns[i].speaker) != who]
        tells = False
        for quote in quotes_of(turn.said) if turn.role == "user" else ():
            if quote.weight + PICKED_UP < LEAST_TELLING:
                continue
            weight = quote.weight + PICKED_UP * is_picked_up(terms_of(quote.text), map(terms, answers))
            tells |= weight >= LEAST_TELLING and add(turn, quote.text, weight)
        asker = turns[place - 1] if place else turn
        asked = question_in(asker.said) if (asker.role, asker.speaker) != who and not tells else ""
        if asked and (answer := answer_in(turn.said)):
            add(turn, as_answer(asked, answer), LEAST_TELLING if turn.role == "user" else _REPLY)
    return items


def within(items: Sequence[SummaryItem], counter: TokenCounter, max_tokens: int) -> tuple[SummaryItem, ...]:
    """The most important items that a prompt shows in at most `max_tokens` tokens, in their order."""
    return fitting(items, max_tokens, lambda item: counter.count(summary_line(item).shown()))


TRIGGER_SHARE: Final = 0.75
"""Of `context_limit_tokens`: what is said until the compression is done still has room."""
_LONGEST_GAP_TURNS: Final = 100
"""Between two compressions: turns beyond the last one are looked through each time a context is made."""
_READ_AHEAD_TURNS: Final = 4 * _LONGEST_GAP_TURNS
"""Of a backlog, of which several are due: read once for all of these."""
_OWED_LOOKED_AT: Final = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class CompressSettings:
    """Thresholds of compression; units in the names, reasons in `config/memory.toml`."""

    context_limit_tokens: int
    recent_messages_count: int
    enable_compression: bool = True
    """Whether conversations are compressed by themselves; when asked they always are."""

    @property
    def trigger_tokens(self) -> int:
        """Tokens of a prompt from which on it is compressed."""
        return int(self.context_limit_tokens * TRIGGER_SHARE)

    @property
    def most_tokens(self) -> int:
        """Tokens of a compressed context: so that as much again can be said before the next one is due."""
        return self.trigger_tokens * 2 // 3


@dataclass(frozen=True, kw_only=True, slots=True)
class DueStep:
    """A compression that is due: up to which turn, and why."""

    turn: Turn
    reason: CompressionReason


def first_due(turns: Sequence[Turn], *, tokens_after: int, settings: CompressSettings) -> DueStep | None:
    """The first of `turns`, which follow the last compression, at which one falls due; None if there is none.

    `tokens_after`: of the last one's context (0 without one). As many turns as are kept whole anyway bring about no
    compression of their own.
    """
    tokens = tokens_after
    for count, turn in enumerate(turns, start=1):
        tokens += turn.tokens
        if count >= _LONGEST_GAP_TURNS:
            return DueStep(turn=turn, reason="turns")
        if count > settings.recent_messages_count and tokens >= settings.trigger_tokens:
            return DueStep(turn=turn, reason="tokens")
    return None


class Compressor:
    """Runs the compress stage, compresses when asked, and tells how a conversation stood at any turn."""

    def __init__(
        self,
        store: DocumentStore,
        summarizer: ConversationSummarizer,
        states: ConversationReader,
        clock: Clock,
        counter: TokenCounter,
        settings: CompressSettings,
    ) -> None:
        self._store = store
        self._extract = ExtractiveConversationSummarizer()
        self.summaries = ModelOrExtract(summarizer, self._extract)
        self._states = states
        self._clock = clock
        self._counter = counter
        self._settings = settings

    # --- the stage -------------------------------------------------------------------------------------------
    async def due(self, turns: Sequence[Turn]) -> list[Turn]:
        """The last of these turns of one thread, if its conversation is to be compressed by then; else none.

        None while a turn is parked for the same: that it cannot be summarised is known, and shown.
        """
        if not self._settings.enable_compression:
            return []
        scope = turns[0].scope
        last = await self._states.last(scope)
        since = await self._since(scope, last, turns[-1].seq, limit=_LONGEST_GAP_TURNS)
        step = self._first_due(since, last)
        owed = await self._store.owed_turns(scope, "compress", limit=_OWED_LOOKED_AT) if step else []
        failed = any(turn.parked and turn.pending[:1] == ("compress",) for turn in owed)
        return [] if step is None or failed else [turns[-1]]

    async def work(self, turns: Sequence[Turn]) -> None:
        """Compress up to the last of these turns of one thread, step by step."""
        await self._advance(turns[-1].scope, turns[-1].seq)

    async def _since(
        self, scope: Scope, last: Compression | None, through: int | None, *, limit: int
    ) -> list[Turn]:
        after = 0 if last is None else last.through
        return await self._store.list_turns(scope, after_seq=after, through=through, limit=limit)

    def _first_due(self, since: Sequence[Turn], last: Compression | None) -> DueStep | None:
        tokens = 0 if last is None else last.tokens_after
        return first_due(since, tokens_after=tokens, settings=self._settings)

    # --- compressing -----------------------------------------------------------------------------------------
    async def compress(self, scope: Scope, *, through: int | None = None) -> CompressedContext:
        """Compress the thread up to turn `through` (default: its newest), and return its context as of then.

        In sections, however short the conversation. Without new turns since the last compression nothing is recorded. What was forgotten meanwhile is left out.
        """
        async for _ in Tries(COSTLY_TRIES):
            made = await self._advance(scope, through)
            last = await self._states.last(scope)
            newest = await self._store.list_turns(scope, through=through, limit=1, newest=True)
            if not newest or (last is not None and last.through >= newest[-1].seq):
                if made is not None and newest and made.metadata.compressed_at == newest[-1].seq:
                    return made
                return await self.context(scope, through=through, whole=False)
            context = await self._compress(scope, last, newest[-1], "asked")
            if context is not None:
                return context
        raise overtaken("the thread while it was compressed")

    async def compress_if_due(self, scope: Scope) -> CompressedContext | None:
        """Compress the thread as far as that has fallen due, and return its context now; None if it has not."""
        made = await self._advance(scope, None)
        return None if made is None else await self.context(scope)

    async def _advance(self, scope: Scope, through: int | None) -> CompressedContext | None:
        """Record every compression that fell due up to `through`, in order; the context of the last, None without any.

        One after the other, so that what is done stays done if the model fails, and each can be looked at later.
        """
        made: CompressedContext | None = None
        since: list[Turn] = []
        reached = 0
        tries = Tries(COSTLY_TRIES)
        async for _ in tries:
            last = await self._states.last(scope)
            # Were it another one, turns that it does not cover could be missing: it goes less far once one of them is forgotten.
            since = [turn for turn in since if turn.seq > reached] if last and last.through == reached else []
            step = self._first_due(since, last)
            if step is None:
                since = await self._since(scope, last, through, limit=_READ_AHEAD_TURNS)
                step = self._first_due(since, last)
            if step is None:
                return made
            context = await self._compress(scope, last, step.turn, step.reason, since=since)
            if context is not None:
                made, reached = context, step.turn.seq
                tries.won()
            else:
                since = []
        raise overtaken("the thread while it was compressed")

    async def _compress(
        self,
        scope: Scope,
        last: Compression | None,
        newest: Turn,
        reason: CompressionReason,
        *,
        since: Sequence[Turn] | None = None,
    ) -> CompressedContext | None:
        """None if what it was made of changed meanwhile.

        `since`: the turns since the last one, at least up to `newest`, where they were read already.
        """
        digest, new = await self._states.digest_since(scope, last, through=newest.seq, since=since)
        items, made_by = await self.summaries.summarize(() if last is None else last.summary, new)
        summary = within(items, self._counter, SUMMARY_TOKENS)
        made = Compression(
            id=new_id(),
            user_id=scope.user_id,
            thread_id=newest.thread_id,
            session_id=newest.session_id,
            number=1 if last is None else last.number + 1,
            at=self._clock.now(),
            reason=reason,
            after_seq=0 if last is None else last.through,
            through=newest.seq,
            turns=digest.turns,
            tokens_before=digest.tokens,
            tokens_after=0,
            made_by=made_by,
            summary=summary,
            moments=digest.moments,
            topics=digest.topics,
            preserved=(),
            covers=tuple(turn.id for turn in new),
        )
        context = await self._states.context(
            scope, made, digest, through=newest.seq, as_of=None, sections=reason == "asked"
        )
        if last is not None and await self._replaced(last):
            return None
        ids = context.metadata.preserved_ids
        made = dataclasses.replace(made, tokens_after=context.tokens, preserved=ids)
        return context if await self._store.append_compression(made) else None

    async def _replaced(self, last: Compression) -> bool:
        """True if this one is gone. The store would not see it where another of its number goes just as far.

        That may be one made anew since, without the words of a forgotten turn that this one still has.
        """
        stands = await self._states.last(last.scope, last.through)
        return stands is None or stands.id != last.id

    async def _extracted(self, turns: Sequence[Turn]) -> Extract:
        """The summary that a first compression of these turns would have without a model."""
        items = within(await self._extract.summarize((), turns), self._counter, SUMMARY_TOKENS)
        return Extract(items=items, made_by=self._extract.name)

    # --- how it stands ---------------------------------------------------------------------------------------
    async def context(
        self, scope: Scope, *, through: int | None = None, whole: bool = True
    ) -> CompressedContext:
        """The compressed context now, or as it stood at turn `through` (a `seq`).

        As of a turn: from the compressions, turns and facts of then. A short conversation is shown `whole`, unless it is asked for
        in sections. Before the first compression the summary is an extract, whatever makes summaries: nobody waits for a model
        to read how things stand.
        """
        last = await self._states.last(scope, through)
        digest, new = await self._states.digest_since(scope, last, through=through)
        if whole:
            short = await self._states.whole(scope, last, digest, through=through, as_of=through)
            if short is not None:
                return short
        extract = await self._extracted(new) if last is None else NONE
        return await self._states.context(
            scope, last, digest, through=through, as_of=through, extract=extract, sections=not whole
        )
