"""The part of MemoryClient that is about sessions, the whole history, compression, and entities."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal

from memory_agent.agent.agent import MemoryAgent
from memory_agent.agent.arguments import check_page, checked_through, reach
from memory_agent.checks import checked_id, checked_metadata
from memory_agent.client.documented import documented_as
from memory_agent.client.replies import value_of
from memory_agent.client.thread_requests import PAGE, Asking, given, own_key
from memory_agent.conversations.sessions import checked_character, checked_participants
from memory_agent.domain import HistoryPage
from memory_agent.errors import ServiceError
from memory_agent.wire import context, sessions, work
from memory_agent.wire.pages import Page, encode_cursor
from memory_agent.wire.requests import NewSession
from memory_agent.wire.turns import Turn, page_to_history

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memory_agent.domain import Character, CompressedContext, Compression, EntityCount, Session
    from memory_agent.domain import Turn as StoredTurn


@documented_as(MemoryAgent)
class SessionCalls(Asking):
    """MemoryClient's calls about its thread's sessions and the compressed conversation."""

    # --- sessions --------------------------------------------------------------------------------------------
    async def start_session(
        self,
        character: Character | None = None,
        participants: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Session:
        """Without a key the client makes its own, which the session then shows."""
        body = NewSession.of(
            **given(
                character=None if character is None else _portrait(character),
                participants=checked_participants(participants) or None,
                metadata=checked_metadata(metadata) or None,
            )
        )
        return await self._post(sessions.Session, "sessions", body=body, key=own_key(idempotency_key))

    async def current_session(self) -> Session | None:
        return await self._get_or_none(sessions.Session, "sessions", "current")

    async def sessions(self) -> list[Session]:
        return await self._all(sessions.Session, "sessions")

    async def history(
        self, session_id: str | None = None, *, after: int = 0, limit: int = 100
    ) -> HistoryPage:
        """More than 1,000 turns are asked for in several requests."""
        check_page(after, limit)
        if session_id is not None:
            checked_id("session_id", session_id)
        turns: list[StoredTurn] = []
        place: int | None = after
        while place is not None and len(turns) < limit:
            params = {
                "session_id": session_id,
                "limit": min(limit - len(turns), PAGE),
                "cursor": encode_cursor(place) if place else None,
            }
            page = page_to_history(value_of(await self._send("GET", ("turns",), params=params), Page[Turn]))
            if page.next is not None and page.next <= place:
                raise ServiceError("the service gave the same page again; its history has no end")
            turns += page.turns
            place = page.next
        return HistoryPage(turns=tuple(turns), next=place)

    # --- compression -----------------------------------------------------------------------------------------
    async def session_context(self, through: int | None = None) -> CompressedContext:
        return await self._get(context.CompressedContext, "context", through=checked_through(through))

    async def compress(self) -> CompressedContext:
        return await self._post(context.CompressedContext, "compress", long=True)

    async def compress_if_needed(self) -> CompressedContext | None:
        params = {"if_needed": True}
        return await self._get_or_none(
            context.CompressedContext, "compress", method="POST", params=params, long=True
        )

    async def compressions(self) -> list[Compression]:
        return await self._all(context.Compression, "compressions")

    # --- entities --------------------------------------------------------------------------------------------
    async def entities(self, *, scope: Literal["thread", "user"] = "thread") -> list[EntityCount]:
        reach(self.scope, scope)
        return await self._list(work.EntityCount, "entities", scope=scope)


def _portrait(character: Character) -> dict[str, Any]:
    """The character as a request holds it. Raises InvalidInput naming the field."""
    return dataclasses.asdict(checked_character(character))
