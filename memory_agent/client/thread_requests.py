"""Requests of a MemoryClient: addresses of its thread, lists a page at a time, waiting in slices."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from memory_agent.checks import checked_id, checked_timeout
from memory_agent.client.connection import Call, encoded
from memory_agent.client.replies import Reply, value_of, value_or_none
from memory_agent.domain import new_id
from memory_agent.errors import InvalidInput, ServiceError, SettleTimeout
from memory_agent.wire.base import Items
from memory_agent.wire.pages import Page
from memory_agent.wire.paths import quoted_segment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from memory_agent.client.connection import Connection
    from memory_agent.client.service import ServiceClient
    from memory_agent.domain import MemoryStatus, Scope
    from memory_agent.wire.base import Answer, Request

Value = TypeVar("Value")
Waited = TypeVar("Waited")

PAGE: Final = 1_000
"""Items that are asked for at once: the most that a service gives."""
WAIT_SECONDS: Final = 20.0
"""That one request waits within the service; whoever waits longer asks again."""
LONG: Final = 20
"""Times the timeout of an ordinary call: what a call may take whose work grows with the thread, or that asks a language model."""
_WATCHED_SLICE_SECONDS: Final = 1.0
_SHORTEST_SLICE_SECONDS: Final = 0.1


class Requests(Protocol):
    """The connection and address of a ServiceClient's requests."""

    connection: Connection
    timeout: float


def call_to(
    service: Requests,
    method: str,
    *segments: str,
    params: dict[str, Any] | None = None,
    body: Request | None = None,
    repeatable: bool = True,
    long: bool = False,
    waits: float = 0.0,
    **options: Any,
) -> Call:
    """A request to the address of these segments. `waits`: seconds that the service is asked to wait before it answers.

    `options`: others of Call.
    """
    return Call(
        method=method,
        path="/".join(("/api", *map(quoted_segment, segments))),
        params=written(params or {}),
        body=None if body is None else encoded(body),
        repeatable=repeatable,
        seconds=service.timeout * (LONG if long else 1) + waits,
        **options,
    )


async def answered(service: Requests, call: Call, model: type[Answer[Value]]) -> Value:
    """The value that a request is answered with."""
    return value_of(await service.connection.send(call), model).domain()


class Asking:
    """Requests of a MemoryClient's methods."""

    scope: Scope
    _service: ServiceClient

    async def _get(self, model: type[Answer[Value]], *segments: str, **params: Any) -> Value:
        return value_of(await self._send("GET", segments, params=params), model).domain()

    async def _get_or_none(self, model: type[Answer[Value]], *segments: str, **options: Any) -> Value | None:
        """`options`: those of `_call`; the method is GET if none is named."""
        found = value_or_none(await self._send(options.pop("method", "GET"), segments, **options), model)
        return None if found is None else found.domain()

    async def _post(self, model: type[Answer[Value]], *segments: str, **options: Any) -> Value:
        """`options`: those of `_call`."""
        return value_of(await self._send("POST", segments, **options), model).domain()

    async def _send(self, method: str, segments: tuple[str, ...], **options: Any) -> Reply:
        return await self._service.connection.send(self._call(method, *segments, **options))

    def _call(
        self,
        method: str,
        *segments: str,
        key: str | None = None,
        repeatable: bool | None = None,
        **options: Any,
    ) -> Call:
        """A request about the thread. `options`: those of `call_to`.

        Calls that are not `repeatable` (by default those without a key that are no GET) are sent again only if the service
        has not begun with them.
        """
        by_itself = method == "GET" or key is not None
        return call_to(
            self._service,
            method,
            *("threads", self.scope.tenants_user_id, self.scope.thread_id or "", *segments),
            idempotency_key=key,
            repeatable=by_itself if repeatable is None else repeatable,
            tenant=self.scope.tenant,
            **options,
        )

    async def _list(self, model: type[Answer[Value]], *segments: str, **params: Any) -> list[Value]:
        """A list that comes whole."""
        reply = await self._send("GET", segments, params=params)
        return [item.domain() for item in value_of(reply, listed(Items, model)).items]

    async def _all(self, model: type[Answer[Value]], *segments: str, **params: Any) -> list[Value]:
        """A list, page after page."""
        items: list[Value] = []
        cursor: str | None = None
        while True:
            asked = {"limit": PAGE, "cursor": cursor, **params}
            page = value_of(await self._send("GET", segments, params=asked), listed(Page, model))
            items += [item.domain() for item in page.items]
            if page.next_cursor is None:
                return items
            if page.next_cursor == cursor:
                raise ServiceError("the service gave the same page again; its list has no end")
            cursor = page.next_cursor


def listed(kind: Any, model: type[Answer[Any]]) -> Any:
    """The model of a list, `Page` or `Items`, of such answers."""
    return kind[model]


def written(params: dict[str, Any]) -> dict[str, str]:
    """Query parameters of an address, without those that are None.

    >>> written({"archived": True, "limit": 10, "cursor": None})
    {'archived': 'true', 'limit': '10'}
    """
    return {name: _written(value) for name, value in params.items() if value is not None}


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def given(**values: Any) -> dict[str, Any]:
    """The values that are not None: a request holds what was passed alone."""
    return {name: value for name, value in values.items() if value is not None}


def own_key(idempotency_key: str | None) -> str:
    """The caller's key, or one of our own, so that a request that is sent again counts once. Raises InvalidInput."""
    if idempotency_key is None:
        return new_id()
    checked_id("idempotency_key", idempotency_key)
    if idempotency_key != idempotency_key.strip(" \t"):
        raise InvalidInput(
            f"idempotency_key is {idempotency_key!r:.80}; a header keeps no blanks around it, take them away"
        )
    return idempotency_key


async def settled(
    ask: Callable[[float, float | None], Awaitable[None]],
    status: Callable[[], Awaitable[MemoryStatus]],
    timeout: float | None,
    progress: Callable[[MemoryStatus], None] | None,
) -> None:
    """Wait until nothing is owed: `ask` waits in the service, `progress` is told the `status` before each and at the end.

    Raises what `ask` raises, but SettleTimeout only after `timeout` seconds.
    """
    if progress is None:
        await in_slices(ask, timeout)
        return

    async def watched(seconds: float, deadline: float | None) -> None:
        progress(await status())
        await ask(seconds, deadline)

    await in_slices(watched, timeout, slice_seconds=_WATCHED_SLICE_SECONDS)
    progress(await status())


async def in_slices(
    ask: Callable[[float, float | None], Awaitable[Waited]],
    timeout: float | None,
    *,
    slice_seconds: float = WAIT_SECONDS,
) -> Waited:
    """Call `ask(seconds, deadline)` until it does not raise SettleTimeout any more; its result.

    `seconds` is how long the service is to wait; `deadline`, by the monotonic clock, until when there is time. Raises
    SettleTimeout after `timeout` seconds (None: never), InvalidInput for a timeout that is no number.
    """
    seconds = checked_timeout(timeout)
    began = time.monotonic()
    deadline = None if seconds is None else began + seconds
    left = slice_seconds if seconds is None else max(min(slice_seconds, seconds), 0.0)
    is_first = True
    while True:
        try:
            return await ask(left, deadline)
        except SettleTimeout as exc:
            if deadline is not None and time.monotonic() >= deadline:
                if is_first:
                    raise
                raise SettleTimeout(f"after {seconds:g} s in all; the last answer was: {exc}") from exc
        # A service that waits less than it was asked to must not be asked without a pause.
        await asyncio.sleep(max(began + min(_SHORTEST_SLICE_SECONDS, left) - time.monotonic(), 0.0))
        is_first, began = False, time.monotonic()
        left = slice_seconds if deadline is None else max(min(slice_seconds, deadline - began), 0.0)
