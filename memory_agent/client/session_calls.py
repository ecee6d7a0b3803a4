"""The part of MemoryClient that is about sessions, the whole history, compression, and entities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from memory_agent.agent.arguments import check_page, checked_through, reach
from memory_agent.checks import checked_id, checked_metadata
from memory_agent.client.replies import value_of, value_or_none
from memory_agent.client.thread_requests import PAGE, Asking, given, own_key
from memory_agent.conversations.sessions import checked_character, checked_participants
from memory_agent.domain import HistoryPage
from memory_agent.errors import ServiceError
from memory_agent.wire import context, sessions, work
from memory_agent.wire.base import Items
from memory_agent.wire.pages import Page, encode_cursor
from memory_agent.wire.requests import NewSession
from memory_agent.wire.turns import Turn, page_to_history

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memory_agent.domain import Character, CompressedContext, Compression, EntityCount, Session
    from memory_agent.domain import Turn as StoredTurn


class SessionCalls(Asking):
    """What MemoryClient knows of its thread's sittings, and what it makes of a long conversation."""

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

        A repeat with the same `idempotency_key` starts none and returns the first one, as it stands now. Without one the
        client makes its own, which the session then shows.
        """
        body = NewSession.of(
            **given(
                character=None if character is None else _portrait(character),
                participants=checked_participants(participants) or None,
                metadata=checked_metadata(metadata) or None,
            )
        )
        reply = await self._post(sessions.Session, "sessions", body=body, key=own_key(idempotency_key))
        return reply.domain()

    async def current_session(self) -> Session | None:
        """The session that a turn said now would belong to; None if that would open one."""
        found = await self._get_or_none(sessions.Session, "sessions", "current")
        return None if found is None else found.domain()

    async def sessions(self) -> list[Session]:
        """This thread's sessions, oldest first."""
        return [session.domain() for session in await self._all(Page[sessions.Session], "sessions")]

    async def history(
        self, session_id: str | None = None, *, after: int = 0, limit: int = 100
    ) -> HistoryPage:
        """A page of all turns of this thread (or of one session), oldest first, compressed ones included.

        `after`: the `next` of the page before; `limit`: turns a page, 1 to 10,000, asked for in requests of at most 1,000.
        Raises NotFound for an unknown session.
        """
        check_page(after, limit)
        if session_id is not None:
            checked_id("session_id", session_id)
        turns: list[StoredTurn] = []
        place: int | None = after
        while place is not None and len(turns) < limit:
            page = page_to_history(
                await self._get(
                    Page[Turn],
                    "turns",
                    session_id=session_id,
                    limit=min(limit - len(turns), PAGE),
                    cursor=encode_cursor(place) if place else None,
                )
            )
            if page.next is not None and page.next <= place:
                raise ServiceError("the service gave the same page again; its history has no end")
            turns += page.turns
            place = page.next
        return HistoryPage(turns=tuple(turns), next=place)

    # --- compression -----------------------------------------------------------------------------------------
    async def session_context(self, through: int | None = None) -> CompressedContext:
        """What stands for the whole conversation now, or as it stood at turn `through` (its `seq`). Changes nothing."""
        return (
            await self._get(context.CompressedContext, "context", through=checked_through(through))
        ).domain()

    async def compress(self) -> CompressedContext:
        """Sum the conversation up to now, record it, and return what stands for it. The history is untouched.

        Without turns since the last compression nothing is recorded. Raises LLMUnavailable or LLMError if the model that
        summarises fails.
        """
        reply = await self._send("POST", ("compress",), long=True)
        return value_of(reply, context.CompressedContext).domain()

    async def compress_if_needed(self) -> CompressedContext | None:
        """`compress`, if the conversation has grown enough for it; else None."""
        reply = await self._send("POST", ("compress",), params={"if_needed": True}, long=True)
        found = value_or_none(reply, context.CompressedContext)
        return None if found is None else found.domain()

    async def compressions(self) -> list[Compression]:
        """Every compression of this thread, oldest first, with its tokens before and after."""
        return [one.domain() for one in await self._all(Page[context.Compression], "compressions")]

    # --- entities --------------------------------------------------------------------------------------------
    async def entities(self, *, scope: Literal["thread", "user"] = "thread") -> list[EntityCount]:
        """What the turns of this thread (or of all the user's threads) name, by first mention, each once.

        `by_kind(await memory.entities())` gives the names by kind.
        """
        reach(self.scope, scope)
        found = await self._get(Items[work.EntityCount], "entities", scope=scope)
        return [one.domain() for one in found.items]


def _portrait(character: Character) -> dict[str, Any]:
    """The character as a request holds it. Raises InvalidInput naming the field."""
    checked = checked_character(character)
    return {
        "name": checked.name,
        "personality": checked.personality,
        "profile": checked.profile,
        "traits": checked.traits,
    }
