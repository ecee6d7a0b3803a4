"""MemoryClient: one user's thread in a service. What an agent loop calls before and after its model answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from memory_agent.agent.agent import MemoryAgent
from memory_agent.agent.arguments import checked_count, checked_preset
from memory_agent.checks import MAX_CONTENT_CHARS, checked_id, checked_text, checked_time
from memory_agent.client.documented import documented_as
from memory_agent.client.event_calls import EventCalls
from memory_agent.client.fact_calls import FactCalls
from memory_agent.client.people_calls import PeopleCalls
from memory_agent.client.replies import value_of
from memory_agent.client.search_calls import SearchCalls
from memory_agent.client.service import TIMEOUT_SECONDS, ServiceClient
from memory_agent.client.session_calls import SessionCalls
from memory_agent.client.thread_requests import PAGE, given, own_key, settled
from memory_agent.client.topic_calls import TopicCalls
from memory_agent.domain import DEFAULT_TENANT, Scope, TurnInput
from memory_agent.errors import RequestTooLarge
from memory_agent.wire import context, turns, work
from memory_agent.wire.base import Items
from memory_agent.wire.requests import AddTurn, AddTurns, Fetch, Forget, Settle, Update
from memory_agent.work.admit import admit
from memory_agent.work.forget import checked_turn_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    import httpx

    from memory_agent.domain import (
        Entity,
        ForgetReceipt,
        GivenRole,
        MemoryContext,
        MemoryStatus,
        Preset,
        Turn,
        TurnDraft,
        UpdateReceipt,
    )


@documented_as(MemoryAgent)
class MemoryClient(SearchCalls, TopicCalls, FactCalls, SessionCalls, PeopleCalls, EventCalls):
    """The memory of one thread of one user, kept by a service: MemoryAgent's methods over HTTP.

    From a ServiceClient: `service.agent(user_id, thread_id)`. Alone, as an async context manager with connections of its
    own: `async with MemoryClient("user", "thread", base_url="http://127.0.0.1:8080") as memory:`.

    All methods return what MemoryAgent's do and raise the same errors; besides, ServiceUnavailable if the service cannot be
    reached or does not answer in time, AccessDenied, RateLimited, RequestTooLarge, and ServiceError for an answer that is
    none. What can be repeated without harm is repeated; every write carries an idempotency key, so that it counts once.
    What is not passed is as the service's settings say. Calls whose work grows with the thread, or that ask a language
    model, may take 20 times `timeout`.
    """

    def __init__(
        self,
        user_id: str,
        thread_id: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        max_retries: int = 2,
        http: httpx.AsyncClient | None = None,
        service: ServiceClient | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> None:
        """For the values from `base_url` on see ServiceClient; they are not looked at with a `service`.

        `tenant`: whose user, for a key for all tenants; `default` is the key's own.
        """
        self.scope = Scope.of(user_id, checked_id("thread_id", thread_id), tenant=tenant)
        self._owns_service = service is None
        self._service = service or ServiceClient(
            base_url, api_key=api_key, timeout=timeout, max_retries=max_retries, http=http
        )

    async def __aenter__(self) -> Self:
        if self._owns_service:
            await self._service.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns_service:
            await self._service.__aexit__(kind, error, trace)

    # --- remember --------------------------------------------------------------------------------------------
    async def update_memory(
        self,
        user_msg: str,
        assistant_msg: str,
        *,
        timestamp: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        importance: float | None = None,
        idempotency_key: str | None = None,
    ) -> UpdateReceipt:
        said = [
            TurnInput(role=role, content=text, timestamp=timestamp, metadata=metadata, importance=importance)
            for role, text in (("user", user_msg), ("assistant", assistant_msg))
        ]
        sent = _sent(said[1], _admitted(said, idempotency_key)[1])
        for name in ("role", "content"):
            del sent[name]
        body = Update.of(user_msg=user_msg, assistant_msg=assistant_msg, **sent)
        return await self._post(turns.UpdateReceipt, "update", body=body, key=own_key(idempotency_key))

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
        turn = TurnInput(
            role=role,
            content=content,
            speaker=speaker,
            timestamp=timestamp,
            metadata=metadata,
            importance=importance,
            entities=entities,
        )
        body = AddTurn.of(**_sent(turn, _admitted([turn], idempotency_key)[0]))
        return await self._post(turns.Turn, "turns", body=body, key=own_key(idempotency_key))

    async def add_user_message(self, text: str, importance: float | None = None, **options: Any) -> Turn:
        return await self.add_turn("user", text, importance=importance, **options)

    async def add_assistant_message(self, text: str, **options: Any) -> Turn:
        return await self.add_turn("assistant", text, **options)

    async def add_turns(
        self, turns: Sequence[TurnInput | Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> list[Turn]:
        """They go in one request: RequestTooLarge is raised, and nothing stored, if that is more than the
        service takes at once (the setting `server_max_body_bytes`, 8 MB by default).
        """
        drafts = _admitted(turns, idempotency_key)
        if not drafts:
            return []
        body = AddTurns.of(turns=[_sent(turn, draft) for turn, draft in zip(turns, drafts, strict=True)])
        key = own_key(idempotency_key)
        try:
            reply = await self._send("POST", ("turns", "bulk"), body=body, key=key, long=True)
        except RequestTooLarge as exc:
            raise RequestTooLarge(
                f"{exc} Pass the turns in several calls of add_turns, each with an idempotency key of its own."
            ) from exc
        return [turn.domain() for turn in value_of(reply, _TURNS).items]

    # --- recall ----------------------------------------------------------------------------------------------
    async def fetch_memory(
        self,
        user_message: str,
        *,
        max_tokens: int | None = None,
        now: datetime | None = None,
        preset: Preset | None = None,
    ) -> MemoryContext:
        """Without the service there is nothing to answer from: ServiceUnavailable is raised."""
        checked_text("user_message", user_message, max_chars=MAX_CONTENT_CHARS)
        body = Fetch.of(
            user_message=user_message,
            **given(
                max_tokens=None if max_tokens is None else checked_count("max_tokens", max_tokens),
                now=None if now is None else checked_time("now", now),
                preset=None if preset is None else checked_preset(preset),
            ),
        )
        return await self._post(context.MemoryContext, "fetch", body=body, repeatable=True)

    async def fetch_short_term(self, limit: int | None = None) -> list[Turn]:
        """Above a `limit` of 1,000 all turns are read for it."""
        if limit is not None and checked_count("limit", limit) > PAGE:
            return await self._last(limit)
        return await self._list(turns.Turn, "turns", "recent", limit=limit)

    async def _last(self, limit: int) -> list[Turn]:
        last: list[Turn] = []
        after: int | None = 0
        while after is not None:
            page = await self.history(after=after, limit=PAGE)
            last = [*last, *page.turns][-limit:]
            after = page.next
        return last

    # --- look after ------------------------------------------------------------------------------------------
    async def settle(
        self, timeout: float | None = None, *, progress: Callable[[MemoryStatus], None] | None = None
    ) -> None:
        """Asks in requests of at most 20 seconds (1 with `progress`, which is called with the status before
        each and at the end), and without `timeout` goes on however long a part is down.
        """

        async def ask(seconds: float, deadline: float | None) -> None:
            body = Settle.of(timeout=seconds)
            await self._send("POST", ("settle",), body=body, repeatable=True, waits=seconds, until=deadline)

        await settled(ask, self.status, timeout, progress)

    async def status(self) -> MemoryStatus:
        return await self._get(work.MemoryStatus, "stats")

    async def forget(self, turn_ids: Sequence[str], *, missing_ok: bool = True) -> ForgetReceipt:
        """If the request had to be sent again, the receipt may count less than was erased."""
        ids = checked_turn_ids(turn_ids)
        body = Forget.of(turn_ids=ids) if missing_ok else Forget.of(turn_ids=ids, missing_ok=False)
        # Sent again, it would not find what the first request erased.
        return await self._post(work.ForgetReceipt, "forget", body=body, repeatable=missing_ok, long=True)

    async def clear(self) -> ForgetReceipt:
        """For the receipt see `forget`."""
        reply = await self._send("DELETE", (), repeatable=True, long=True)
        return value_of(reply, work.ForgetReceipt).domain()


_TURNS = Items[turns.Turn]


class _NoCounter:
    """The service counts tokens; here turns are only checked."""

    margin = 0.0

    def count(self, text: str) -> int:
        return 0


def _admitted(turns: Sequence[TurnInput | Mapping[str, Any]], idempotency_key: str | None) -> list[TurnDraft]:
    """The turns as the service's door would let them in. Raises InvalidInput as it would."""
    return admit(
        turns, now=datetime.now(UTC), counter=_NoCounter(), idempotency_key=idempotency_key, stages=()
    )


def _sent(turn: TurnInput | Mapping[str, Any], draft: TurnDraft) -> dict[str, Any]:
    """A turn in the form of a request."""
    timestamp = turn.timestamp if isinstance(turn, TurnInput) else turn.get("timestamp")
    entities = tuple({"kind": entity.kind, "name": entity.name} for entity in draft.entities)
    return given(
        role=draft.role,
        content=draft.content,
        speaker=draft.speaker,
        timestamp=None if timestamp is None else draft.timestamp,
        metadata=dict(draft.metadata) or None,
        importance=draft.importance,
        entities=entities or None,
    )
