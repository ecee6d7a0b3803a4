"""Google ADK's memory service over a memory."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from memory_agent.errors import IdempotencyKeyReused, InvalidInput, TurnForgotten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from google.adk.events.event import Event
    from google.adk.sessions.session import Session

    from memory_agent.domain import GivenRole, Recollection
    from memory_agent.integrations.shared import Memory, Service


_WITHOUT_SESSION: Final = "memories"
"""The thread of what belongs to no session."""


class AdkMemoryService(BaseMemoryService):
    """Sessions of ADK in a memory: `Runner(…, memory_service=AdkMemoryService(service))`.

    The user `ada` of the application `trips` is the memory's user `trips/ada`, a session a thread, and an event with text a
    turn. An event is known by its id: a session may be added again and again as it grows, also by several at once, and an event
    that was deleted stays deleted.
    """

    def __init__(self, service: Service, *, top_k: int = 5) -> None:
        """`top_k`: how many memories a search gives at most."""
        self._service, self._top_k = service, top_k

    # --- remember ----------------------------------------------------------------------------------------
    async def add_session_to_memory(self, session: Session) -> None:
        """Remember those of the session's events that are not yet remembered."""
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember the events that say anything, in their order; calls of tools, thoughts and parts of a stream are left out."""
        memory = self._service.agent(_user(app_name, user_id), session_id or _WITHOUT_SESSION)
        said = [(event, text) for event in events if not event.partial and (text := _text(event.content))]
        known = {turn.metadata.get("event") for turn in await memory.fetch_short_term(len(said))}
        for event, text in said:
            if event.id not in known:
                await _add(
                    memory,
                    text,
                    event.author,
                    key=event.id,
                    timestamp=datetime.fromtimestamp(event.timestamp, UTC),
                    metadata={"event": event.id, "custom": dict(custom_metadata or {})},
                )

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember texts that belong to no session. One with an id is remembered once."""
        memory = self._service.agent(_user(app_name, user_id), _WITHOUT_SESSION)
        for entry in memories:
            if text := _text(entry.content):
                await _add(
                    memory,
                    text,
                    entry.author or "user",
                    key=entry.id,
                    timestamp=_time(entry.timestamp),
                    metadata={"custom": {**entry.custom_metadata, **(custom_metadata or {})}},
                )

    # --- recall ------------------------------------------------------------------------------------------
    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Find what of all the user's sessions in this application answers the query, best first."""
        if not query.strip():
            return SearchMemoryResponse()
        found = await self._service.search(_user(app_name, user_id), query, self._top_k)
        return SearchMemoryResponse(memories=[_entry(each) for each in found])

    # --- forget ------------------------------------------------------------------------------------------
    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Erase what `search_memory` gave under this id, in every tier, for good.

        Nothing happens for None or an unknown id.
        """
        turn_id, _, thread_id = (memory_id or "").partition("/")
        if turn_id and thread_id:
            await self._service.agent(_user(app_name, user_id), thread_id).forget([turn_id])


def _user(app_name: str, user_id: str) -> str:
    if not app_name or "/" in app_name:
        raise InvalidInput(f"app_name is {app_name!r:.80}; pass a name without a slash")
    return f"{app_name}/{user_id}"


async def _add(memory: Memory, text: str, author: str, *, key: str | None, **turn: Any) -> None:
    role: GivenRole = "user" if author == "user" else "assistant"
    turn["metadata"] |= {"author": author}
    with contextlib.suppress(TurnForgotten, IdempotencyKeyReused):  # it was deleted, or is remembered already
        await memory.add_turn(role, text, idempotency_key=None if key is None else f"adk {key}", **turn)


def _text(content: types.Content | None) -> str:
    """The words in a content, without thoughts."""
    parts = content.parts or [] if content else []
    return "\n".join(part.text for part in parts if part.text and not part.thought).strip()


def _time(given: str | None) -> datetime | None:
    """A time in ISO format, in UTC where it names no zone; None for others."""
    try:
        time = datetime.fromisoformat(given or "")
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _entry(found: Recollection) -> MemoryEntry:
    turn = found.turn
    return MemoryEntry(
        id=f"{turn.id}/{turn.thread_id}",
        content=types.Content(
            role="user" if turn.role == "user" else "model", parts=[types.Part(text=turn.shown)]
        ),
        author=turn.metadata.get("author", turn.role),
        timestamp=turn.timestamp.isoformat(),
        custom_metadata={**turn.metadata.get("custom", {}), "confidence": found.confidence},
    )
