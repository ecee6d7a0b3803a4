"""MemoryAgent: one user's thread. What an agent loop calls before and after its model answers."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, Final, Self

from memory_agent.agent.arguments import (
    ThreadCalls,
    check_page,
    check_tags,
    checked_choice,
    checked_count,
    checked_flag,
    checked_importance,
    checked_include,
    checked_now,
    checked_through,
    reaching,
    with_character_id,
)
from memory_agent.agent.facts import FactCalls
from memory_agent.agent.search import SearchCalls
from memory_agent.checks import MAX_CONTENT_CHARS, as_asked, checked_id, checked_text, checked_turn_ids
from memory_agent.domain import (
    DEFAULT_TENANT,
    HistoryPage,
    ParkedTurn,
    Scope,
    Tombstone,
    Turn,
    TurnInput,
    UpdateReceipt,
    said_otherwise,
)
from memory_agent.errors import (
    IdempotencyKeyReused,
    InvalidInput,
    NotFound,
    NotOpen,
    SettleTimeout,
    TurnForgotten,
    TurnsParked,
)
from memory_agent.llm.redact import redacted_drafts
from memory_agent.work.admit import admit, exchange
from memory_agent.work.pending import Looks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from memory_agent.config import MemoryConfig
    from memory_agent.domain import (
        Character,
        CompressedContext,
        Compression,
        Detail,
        Entity,
        EntityCount,
        ForgetReceipt,
        GivenRole,
        MemoryContext,
        MemoryStatus,
        Preset,
        Reach,
        RecallPrice,
        Session,
        Stage,
        TurnDraft,
    )
    from memory_agent.service import MemoryService
    from memory_agent.topics.stats import TopicStats
    from memory_agent.wiring import Core


class TopicCalls(ThreadCalls):
    """Calls about the topics of a thread."""

    async def turn_topic(self, turn_id: str, timeout: float | None = 30.0) -> TopicStats | None:
        """The topic of a turn of this thread, once it is known; None for a turn that belongs to none.

        An assistant's turn before the first user's belongs to none. Raises NotFound for an unknown turn,
        SettleTimeout after `timeout` seconds (None: never), TurnsParked if its topic can't be found out.
        """
        checked_id("turn_id", turn_id)
        looks = Looks(timeout)
        self._core.worker.wake()
        while True:
            moved = self._core.worker.moved
            turn = await self._turn(turn_id)
            if "topics" not in turn.pending:
                return None if turn.topic_id is None else await self.topic_stats(turn.topic_id)
            if turn.parked:
                raise TurnsParked([ParkedTurn.of(turn)])
            if looks.is_over:
                down = ", ".join(sorted(self._core.worker.down)) or "none known to this process"
                raise SettleTimeout(
                    f"after {looks.seconds:g} s turn {turn_id} has no topic; parts that are down: {down}"
                )
            await looks.pause(moved)

    async def _turn(self, turn_id: str) -> Turn:
        found = await self._core.store.list_turns(self.scope, ids=[turn_id])
        if not found:
            raise NotFound(
                f"turn_id is {turn_id!r:.80}, and thread {self.scope.thread_id!r} has no such turn"
            )
        return found[0]

    async def topics(self, include_archived: bool = False, *, tag: str | None = None) -> list[TopicStats]:
        """This thread's topics, highest priority first, archived ones last. Merged topics are one.

        `tag`: only those that carry it, compared as it is.
        """
        return await self._core.topic_reader.topics(self.scope, include_archived=include_archived, tag=tag)

    async def topic_stats(self, topic_id: str | None = None) -> TopicStats:
        """Statistics of a topic (default: the current one). Raises NotFound if there is no such topic."""
        return await self._core.topic_reader.stats(self.scope, topic_id)

    async def topic_context(
        self, topic_id: str | None = None, *, max_tokens: int | None = None
    ) -> list[dict[str, str]]:
        """Messages for a model to go on with a topic (default: the current one): `[{"role", "content"}, …]`.

        A system message with its title, then its whole history. Of one that has more than `max_tokens` tokens (default:
        the setting `max_context_tokens`) the last turns, and the system message has a summary of the others.
        """
        budget = self._token_budget(max_tokens)
        return await self._core.topic_reader.context(self.scope, topic_id, budget)

    def _token_budget(self, max_tokens: int | None) -> int:
        cfg = self._service.cfg
        return cfg.max_context_tokens if max_tokens is None else checked_count("max_tokens", max_tokens)

    async def topic_history(
        self, topic_id: str | None = None, include_compressed: bool = True
    ) -> list[dict[str, Any]]:
        """All of a topic's turns in order, word for word: `[{"role", "content", "timestamp"}, …]`."""
        return await self._core.topic_reader.history(
            self.scope, topic_id, include_compressed=include_compressed
        )

    async def merge_topics(self, topic_id: str, into: str) -> TopicStats:
        """Make `topic_id` a part of `into`, whose id stays; the phrases of both title it.

        `split_topic(topic_id)` undoes it, but for the tags that were taken over.
        """
        merged = await self._core.curator.merge(self.scope, topic_id, into)
        self._core.worker.wake()
        return await self.topic_stats(merged.id)

    async def split_topic(self, topic_id: str) -> TopicStats:
        """Take `topic_id` out of the topic it was merged into, with the turns that were its own."""
        split = await self._core.curator.split(self.scope, topic_id)
        self._core.worker.wake()
        return await self.topic_stats(split.id)

    async def tag_topic(
        self, topic_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> TopicStats:
        """Add and remove tags of a topic."""
        check_tags(add, remove)
        await self._core.curator.tag(self.scope, topic_id, add=add, remove=remove)
        return await self.topic_stats(topic_id)

    async def set_topic_importance(self, topic_id: str, importance: float | None) -> TopicStats:
        """Set a topic's importance, 0 to 1; None: as its turns say."""
        await self._core.curator.weigh(self.scope, topic_id, checked_importance(importance))
        return await self.topic_stats(topic_id)

    async def feedback(self, turn_or_topic: str, useful: bool) -> TopicStats:
        """Say that a topic, or a turn of it, was useful or not: one vote for the topic's importance.

        It stays within [0, 1], and the opposite vote undoes it.
        """
        topic = await self._core.curator.vote(
            self.scope, turn_or_topic, useful=checked_flag("useful", useful)
        )
        return await self.topic_stats(topic.id)

    async def restore_topic(self, topic_id: str) -> TopicStats:
        """Bring an archived topic back into matching, as if it had been accessed now."""
        await self._core.curator.restore(self.scope, topic_id)
        return await self.topic_stats(topic_id)

    async def archive_topic(self, topic_id: str) -> TopicStats:
        """Take a topic out of matching and compress it, as the sweep does with faded ones."""
        await self._core.curator.archive(self.scope, topic_id)
        return await self.topic_stats(topic_id)


class SessionCalls(ThreadCalls):
    """Calls about the sittings of a thread, and the compression of a long conversation."""

    # --- sessions --------------------------------------------------------------------------------------------
    async def start_session(
        self,
        character: Character | None = None,
        participants: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        *,
        character_id: int | str | None = None,
        idempotency_key: str | None = None,
    ) -> Session:
        """Begin a new sitting of this thread; the turns that follow belong to it.

        `character`: the role that the assistant plays; `participants`: names of those who take part (each turn names its
        speaker). Not needed: without it a session opens with the first turn, and with the first after one closed
        (after a day, 1,000 turns, or `session_idle_seconds` without a turn), with the same people and character.
        `character_id`: the application's own, as `session.character_id` gives it back; it is kept in the metadata.

        A repeat with the same `idempotency_key` starts none and returns the first one, as it stands now. Raises
        IdempotencyKeyReused if that was asked for otherwise, TurnForgotten if it was forgotten since.
        """
        return await self._core.sessions.start(
            self.scope,
            character=character,
            participants=participants,
            metadata=with_character_id(metadata, character_id),
            idempotency_key=idempotency_key,
        )

    async def current_session(self) -> Session | None:
        """The session that a turn said now would belong to; None if that would open one."""
        return await self._core.sessions.current(self.scope)

    async def sessions(self) -> list[Session]:
        """This thread's sessions, oldest first."""
        return await self._core.store.sessions(self.scope)

    async def history(
        self, session_id: str | None = None, *, after: int = 0, limit: int = 100
    ) -> HistoryPage:
        """A page of all turns of this thread (or of one session), oldest first, compressed ones included.

        `after`: the `next` of the page before; `limit`: turns a page, 1 to 10,000. Raises NotFound for an unknown
        session.
        """
        check_page(after, limit)
        store = self._core.store
        if session_id is not None:
            checked_id("session_id", session_id)
            if not await store.sessions(self.scope, ids=[session_id]):
                raise NotFound(
                    f"session_id is {session_id!r:.80}, and thread {self.scope.thread_id!r} has no such session"
                )
        # One more than asked for tells whether anything follows.
        found = await store.list_turns(self.scope, session_id=session_id, after_seq=after, limit=limit + 1)
        turns = tuple(found[:limit])
        return HistoryPage(turns=turns, next=turns[-1].seq if len(found) > limit else None)

    # --- compression -----------------------------------------------------------------------------------------
    async def session_context(self, through: int | None = None, *, whole: bool = True) -> CompressedContext:
        """The compressed context of the conversation now, or as it stood at turn `through` (its `seq`).

        A short conversation is shown whole, unless `whole` is False: then in sections, as `compress` gives it. Changes nothing.
        Raises InvalidInput for a turn below 1.
        """
        return await self._core.compressor.context(self.scope, through=checked_through(through), whole=whole)

    async def compress(self) -> CompressedContext:
        """Sum the conversation up to now, record it, and return what stands for it. The history is untouched.

        Its sections: the character's reminder, summary, key moments, emotional journey and decisions (these two with a
        language model), facts, preserved and recent turns. Nothing is recorded without turns since the last compression.
        An extract stands in where the language model is away or gives nothing usable (`Compression.made_by` says so).
        """
        return await self._core.compressor.compress(self.scope)

    async def compress_if_needed(self) -> CompressedContext | None:
        """`compress`, if the conversation has grown enough for it (the worker looks by itself, too); else None."""
        return await self._core.compressor.compress_if_due(self.scope)

    async def compressions(self) -> list[Compression]:
        """Every compression of this thread, oldest first, with its tokens before and after."""
        return await self._core.store.compressions(self.scope)

    # --- entities --------------------------------------------------------------------------------------------
    async def entities(self, *, scope: Reach | None = None) -> list[EntityCount]:
        """The entities that the turns of all the user's threads (or of this one) name, by first mention, each once.

        `scope` (default: the setting `memory_scope`): "user" or "thread".

        `by_kind(await memory.entities())` gives the names by kind.
        """
        return await self._core.entity_counter.count(self._reach(scope))


MANY_TURNS: Final = 256
_LONG_CHARS: Final = 50_000
"""In one call; what is more is checked, and its tokens are counted, in a thread."""


@reaching
class MemoryAgent(SearchCalls, TopicCalls, FactCalls, SessionCalls):
    """The memory of one thread of one user.

    From a service: `service.agent(user_id, thread_id)`. Alone it opens a service with its first call, or takes the one that others in
    this process have of the same stores, until `close()`: `async with MemoryAgent("user", "thread") as memory:` does that. All
    methods raise InvalidInput for values that cannot be stored, NotOpen once it or its service is closed, and, but for `fetch_memory`, StoreUnavailable while the document
    store is down.
    """

    def __init__(
        self,
        user_id: str,
        thread_id: str,
        cfg: MemoryConfig | None = None,
        *,
        service: MemoryService | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> None:
        # A missing thread would silently mean all of the user's threads.
        self.scope = Scope.of(user_id, checked_id("thread_id", thread_id), tenant=tenant)
        self._owns_service = service is None
        self._alone: MemoryConfig | None = None
        if service is None:
            from memory_agent.service import MemoryService

            service = MemoryService(cfg)
            self._alone = service.cfg
        self._service = service
        self._is_closed = False

    async def __aenter__(self) -> Self:
        """Open the service, if this is alone."""
        self._is_closed = False
        await self._reached()
        return self

    async def close(self) -> None:
        """Let go of the service, if this was made alone; the last one that does closes it."""
        self._is_closed = True
        if self._alone is not None:
            await self._service.let_go(self)

    async def _reached(self) -> Any:
        """This, or a client of the process that holds the folder. Raises NotOpen if it was closed."""
        if self._alone is not None and self._is_closed:
            raise NotOpen("this MemoryAgent was closed; use it in `async with`, or make another one")
        if self._alone is not None and not self._service.is_open:
            from memory_agent.service import shared_service

            self._service = await shared_service(self._alone, self)
        there = self._service.elsewhere
        if there is None:
            return self
        return there.agent(self.scope.tenants_user_id, self.scope.thread_id or "", tenant=self.scope.tenant)

    # --- remember --------------------------------------------------------------------------------------------
    async def update_memory(
        self,
        user_msg: str | None,
        assistant_msg: str | None,
        *,
        speaker: str | None = None,
        timestamp: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        importance: float | None = None,
        idempotency_key: str | None = None,
    ) -> UpdateReceipt:
        """Remember one exchange.

        Durable when it returns; searching by meaning and facts follow in the background. A message without text (None or "":
        an image, a call of a tool) leaves the other one's turn alone.

        `speaker`: the user's name where several take part. `timestamp`: when it was said (default: now); `importance`: 0 to 1.
        A repeat with the same
        `idempotency_key` changes nothing and returns the first receipt; another exchange under that key raises IdempotencyKeyReused.
        Raises Busy, with nothing stored, while more than a million turns, of everybody together, owe work.
        """
        turns = exchange(
            user_msg,
            assistant_msg,
            speaker=speaker,
            timestamp=timestamp,
            metadata=metadata,
            importance=importance,
        )
        stored = await self._append(turns, idempotency_key, numbered=False)
        ids = tuple(turn.turn_id if isinstance(turn, Tombstone) else turn.id for turn in stored)
        return UpdateReceipt(turn_ids=ids, seq=stored[-1].seq)

    async def add_turn(
        self,
        role: GivenRole,
        content: str,
        *,
        speaker: str | None = None,
        timestamp: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        importance: float | None = None,
        idempotency_key: str | None = None,
        entities: Sequence[Entity | Mapping[str, str]] = (),
    ) -> Turn:
        """Remember one message. `speaker`: a person's name where several take part.

        `entities`: what it is about besides what the dictionary finds, such as `[{"kind": "brands", "name": "COSRX"}]`.
        Raises TurnForgotten if the idempotency key's turn was forgotten since, IdempotencyKeyReused if it says something else.
        """
        turn = TurnInput(
            role=role,
            content=content,
            speaker=speaker,
            timestamp=timestamp,
            metadata=metadata,
            importance=importance,
            entities=entities,
        )
        return (await self.add_turns([turn], idempotency_key=idempotency_key))[0]

    async def add_user_message(self, text: str, importance: float | None = None, **options: Any) -> Turn:
        """`add_turn("user", text, …)`. `importance`: 0 to 1 (default: 0.5), which its topic takes over.

        `turn_topic(turn.id)` waits for the topic.
        """
        return await self.add_turn("user", text, importance=importance, **options)

    async def add_assistant_message(self, text: str, **options: Any) -> Turn:
        """`add_turn("assistant", text, …)`."""
        return await self.add_turn("assistant", text, **options)

    async def add_turns(
        self, turns: Sequence[TurnInput | Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> list[Turn]:
        """Remember many messages in order (dicts with `role` and `content` will do), at most 10,000 a call.

        All are checked before any is stored. On MongoDB a crash may leave the first part of a call that was not
        acknowledged; a repeat with the same idempotency key completes it.
        """
        stored = await self._append(turns, idempotency_key)
        for turn in stored:
            if isinstance(turn, Tombstone):
                raise TurnForgotten(
                    f"the turn {turn.turn_id} of idempotency key {idempotency_key!r} was forgotten since; "
                    "use a new key to remember it again"
                )
        return [turn for turn in stored if isinstance(turn, Turn)]

    async def _append(
        self,
        turns: Sequence[TurnInput | Mapping[str, Any]],
        idempotency_key: str | None,
        *,
        numbered: bool = True,
    ) -> list[Turn | Tombstone]:
        core: Core = self._core
        checked = functools.partial(
            admit,
            turns,
            now=self._service.clock.now(),
            counter=core.counter,
            idempotency_key=idempotency_key,
            stages=self._service.cfg.stages,
            zone=self._service.cfg.zone,
            numbered=numbered,
        )
        # So much takes so long that nobody else on this event loop should have to wait for it.
        drafts = await asyncio.to_thread(checked) if _are_many(turns) or _is_long(turns) else checked()
        if not drafts:
            return []
        if core.redact is not None and self._service.cfg.redact_before_storing:
            drafts = await redacted_drafts(core.redact, drafts, core.counter)
        drafts = await core.spotter.named(drafts)
        await core.backlog.check_room()
        placement = await core.sessions.place(self.scope, drafts)
        try:
            stored = await core.store.append_turns(self.scope, placement.drafts)
        except InvalidInput:
            await core.sessions.discard(self.scope, placement.opened)
            raise
        await core.sessions.confirm(self.scope, placement, stored)
        if idempotency_key is not None and (other := _of_another_call(placement.drafts, stored)):
            raise IdempotencyKeyReused.of(idempotency_key, other)
        core.worker.wake(*drafts[0].pending[:1])
        return stored

    # --- recall ----------------------------------------------------------------------------------------------
    async def fetch_memory(
        self,
        user_message: str,
        *,
        max_tokens: int | None = None,
        now: datetime | None = None,
        preset: Preset | None = None,
        price: RecallPrice | None = None,
        window: bool = True,
        top_k: int | None = None,
        scope: Reach | None = None,
        tags: Sequence[str] = (),
        include: Collection[Detail] = ("ledger", "items"),
    ) -> MemoryContext:
        """The context that the model needs to answer `user_message`; `str(context)` is the prompt text.

        Holds at most `max_tokens` tokens (default: the setting `max_context_tokens`). Searches what was said
        before `now` (default: everything). `preset` (default: the setting `context_preset`): how the budget is divided.
        `price` (default: the setting `recall_price`): "thrifty" shows only what the message surely needs, "thorough" what it may
        need. `window`: False leaves out the running conversation, for who sends that to the model anyway. `top_k` (default: the
        setting `top_k_memories` where it was set, else no bound): at most so many recollections.
        `scope` (default: the setting `memory_scope`): "user" reaches the facts and turns of all the user's threads, where
        a turn of another one is marked as such; "thread" this one alone. `tags`: only turns of topics that carry one of these are recalled. A source that is down is left out and named in `context.degraded`;
        `context.ledger` says of everything that was considered whether it is in, and why.

        `include`: what a service sends besides the text, of which it is most: the ledger, and the values (facts, turns, …). Without
        them they are empty there; in the process of the memory they are at hand anyway.
        """
        cfg, core = self._service.cfg, self._core
        checked_text("user_message", user_message, max_chars=MAX_CONTENT_CHARS)
        budget = self._token_budget(max_tokens)
        asked_at = checked_now(now, self._service.clock.now(), cfg.zone)
        checked_include(include)
        check_tags(tags, ())
        # Facts of the latest turns are still to be extracted, or their vectors to be made, while it is down.
        missing = sorted(core.worker.down & {"embedder", "llm"})
        return await core.contexts.read(
            self.scope,
            as_asked(user_message),
            budget=budget,
            preset=None if preset is None else checked_choice("preset", preset),
            price=cfg.recall_price if price is None else checked_choice("price", price),
            window=checked_flag("window", window),
            top_k=cfg.most_recollections if top_k is None else checked_count("top_k", top_k),
            now=asked_at,
            until=None if now is None else asked_at,
            reach=self._reach(scope),
            tags=[tag.strip() for tag in tags],
            missing=missing,
        )

    async def fetch_short_term(self, limit: int | None = None) -> list[Turn]:
        """The last `limit` turns (default: the setting `short_term_window`), oldest first."""
        wanted = self._service.cfg.short_term_window if limit is None else checked_count("limit", limit)
        return await self._core.contexts.last_turns(self.scope, wanted)

    # --- look after ------------------------------------------------------------------------------------------
    async def settle(
        self,
        timeout: float | None = None,
        *,
        without: Collection[Stage] = (),
        progress: Callable[[MemoryStatus], None] | None = None,
    ) -> None:
        """Wait until nothing is owed to this thread's turns, but for the stages in `without`.

        `without=["facts"]` waits for all that needs no language model. Raises TurnsParked if turns are parked, SettleTimeout after `timeout` seconds, or without one after a minute in
        which nothing moved because a part is down.
        """
        await self._service.settle(timeout, scope=self.scope, without=without, progress=progress)

    async def status(self) -> MemoryStatus:
        """Counts of this thread: turns, owed stages, parked turns with their last error, lag."""
        return await self._service.status(self.scope)

    async def forget(self, turn_ids: Sequence[str], *, missing_ok: bool = True) -> ForgetReceipt:
        """Erase these turns of this thread from every tier, index and cache.

        Unknown ids are passed over; with `missing_ok=False` NotFound names them, and nothing is erased.
        """
        ids = checked_turn_ids(turn_ids)
        return await self._core.forgetter.forget(self.scope, ids, missing_ok=missing_ok)

    async def clear(self) -> ForgetReceipt:
        """Erase all turns of this thread, and what was derived from them."""
        return await self._core.forgetter.forget(self.scope, None)


def _are_many(turns: object) -> bool:
    return isinstance(turns, list | tuple) and len(turns) > MANY_TURNS


def _is_long(turns: object) -> bool:
    """True if one of the turns is a long text; whatever they are otherwise is checked later."""
    if not isinstance(turns, list | tuple):
        return False
    texts = (
        turn.get("content") if isinstance(turn, dict) else getattr(turn, "content", "") for turn in turns
    )
    return any(isinstance(text, str) and len(text) > _LONG_CHARS for text in texts)


def _of_another_call(drafts: Sequence[TurnDraft], stored: Sequence[Turn | Tombstone]) -> str | None:
    """What shows that `stored` came by a call that said something else than `drafts`; None if it is theirs."""
    return said_otherwise(drafts, stored) or ("number of turns" if len(drafts) != len(stored) else None)
