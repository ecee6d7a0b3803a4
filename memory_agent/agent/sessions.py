"""The part of MemoryAgent that is about sessions, the whole history, compression, and entities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory_agent.agent.arguments import check_page, checked_through
from memory_agent.agent.thread import ThreadCalls
from memory_agent.checks import checked_id
from memory_agent.domain import HistoryPage
from memory_agent.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memory_agent.domain import (
        Character,
        CompressedContext,
        Compression,
        EntityCount,
        Reach,
        Session,
    )


class SessionCalls(ThreadCalls):
    """Calls about the sittings of a thread, and the compression of a long conversation."""

    # --- sessions --------------------------------------------------------------------------------------------
    async def start_session(
        self,
        character: Character | None = None,
        participants: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Session:
        """Begin a new sitting of this thread; the turns that follow belong to it.

        `character`: the role that the assistant plays; `participants`: names of those who take part (each turn names its
        speaker). Not needed: without it a session opens with the first turn, and with the first after one closed
        (after a day, 1,000 turns, or `session_idle_seconds` without a turn), with the same people and character.

        A repeat with the same `idempotency_key` starts none and returns the first one, as it stands now. Raises
        IdempotencyKeyReused if that was asked for otherwise, TurnForgotten if it was forgotten since.
        """
        return await self._core.sessions.start(
            self.scope,
            character=character,
            participants=participants,
            metadata=metadata,
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
    async def session_context(self, through: int | None = None) -> CompressedContext:
        """The compressed context of the whole conversation now, or as it stood at turn `through` (its `seq`).

        Changes nothing. Raises InvalidInput for a turn below 1.
        """
        return await self._core.compressor.context(self.scope, through=checked_through(through))

    async def compress(self) -> CompressedContext:
        """Sum the conversation up to now, record it, and return what stands for it. The history is untouched.

        Nothing is recorded without turns since the last compression, or where the conversation is short and shown whole.
        Raises LLMUnavailable or LLMError if the model that summarises fails; if its answer cannot be read, an extract stands in (`Compression.made_by` says so).
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
