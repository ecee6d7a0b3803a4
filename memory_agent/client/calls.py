"""Calls over HTTP: each method has the signature and docstring of what it stands for, and says only what it sends."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from memory_agent.agent import arguments
from memory_agent.checks import (
    MAX_CONTENT_CHARS,
    at_offset,
    checked_id,
    checked_metadata,
    checked_retention,
    checked_tag,
    checked_text,
    checked_time,
    checked_timeout,
    checked_turn_ids,
    time_and_offset,
)
from memory_agent.client.connection import Call, encoded, value_of, value_or_none
from memory_agent.conversations.sessions import checked_participants
from memory_agent.domain import checked_tenant, new_id, stages_but
from memory_agent.errors import InvalidInput, ServiceError, SettleTimeout
from memory_agent.wire.base import Items, quoted_segment
from memory_agent.wire.pages import Page
from memory_agent.wire.requests import Settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection

    from memory_agent.client.connection import Reply
    from memory_agent.client.service import ServiceClient
    from memory_agent.domain import MemoryStatus, Stage
    from memory_agent.wire.base import Answer, Request

P = ParamSpec("P")
Value = TypeVar("Value")
Method = Callable[Concatenate[Any, P], Coroutine[Any, Any, Value]]
Asked = dict[str, Any]
"""Arguments by name."""
Prepare = Callable[[Any, Asked], Asked]
"""What a client makes of the arguments of a call that are not sent as they are."""

PAGE: Final = 1_000
"""Items that are asked for at once: the most that a service gives."""
LONG: Final = 20
"""Times the timeout of an ordinary call: what a call may take whose work grows with the thread, or that asks a language model."""
_WAIT_SECONDS: Final = 20.0
"""That one request waits within the service; whoever waits longer asks again."""
_WATCHED_SLICE_SECONDS: Final = 1.0
_SHORTEST_SLICE_SECONDS: Final = 0.1

_IDS: Final = ("user_id", "thread_id", "session_id", "turn_id", "topic_id", "turn_or_topic", "into")
_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    **{name: partial(checked_id, name) for name in _IDS},
    **{name: partial(checked_time, name) for name in ("as_of", "recorded_by", "since", "until")},
    "now": lambda now: at_offset(*time_and_offset("now", now, None)),
    **{name: partial(arguments.checked_count, name) for name in ("top_k", "max_tokens")},
    **{name: partial(arguments.checked_choice, name) for name in ("preset", "price", "scope")},
    **{
        name: partial(arguments.checked_flag, name)
        for name in ("useful", "window", "whole", "dry_run", "forget_facts")
    },
    **dict.fromkeys(("archived", "include_compressed"), bool),
    "user_message": partial(checked_text, "user_message", max_chars=MAX_CONTENT_CHARS),
    "tag": checked_tag,
    "retention_days": checked_retention,
    "metadata": checked_metadata,
    "participants": checked_participants,
    "turn_ids": checked_turn_ids,
    "through": arguments.checked_through,
    "importance": arguments.checked_importance,
}
"""By the name of an argument, whichever call it is of: what refuses impossible values before anything is sent."""


# --- one request ---------------------------------------------------------------------------------------------
class Asking:
    """Requests to a service, below an address that all of them have in common."""

    _service: ServiceClient
    _below: tuple[str, ...] = ()

    def _call(
        self,
        route: str,
        asked: Asked | None = None,
        body: type[Request] | None = None,
        *,
        repeatable: bool | None = None,
        long: bool = False,
        waits: float = 0.0,
        **options: Any,
    ) -> Call:
        """The request of a route such as "POST topics/{topic_id}/merge"; an address that begins with '/' is below no other, and
        what stands behind '?' is true.

        Of what is `asked` some fills the route or is a header, the rest makes the `body`, or the query. Calls that are not
        `repeatable` (by default those without a key that are no GET) are sent again only if the service has not begun with
        them. `waits`: seconds that the service is asked to wait before it answers. `options`: others of Call.
        """
        method, _, path = route.partition(" ")
        values = dict(asked or {})
        if "idempotency_key" in values:
            options["idempotency_key"] = own_key(values.pop("idempotency_key"))
        if "tenant" in values:
            options["tenant"] = checked_tenant(values.pop("tenant"))
        below = () if path.startswith("/") else self._below
        path, _, flag = path.partition("?")
        if flag:
            values[flag] = True
        segments = [self._segment(part, values) for part in path.split("/") if part]
        required = [name for name, field in body.model_fields.items() if field.is_required()] if body else []
        given = _given(values, required)
        by_itself = method == "GET" or "idempotency_key" in options
        return Call(
            method=method,
            path="/".join(("/api", *map(quoted_segment, (*below, *segments)))),
            params={} if body else written(given),
            body=encoded(body.of(**given)) if body else None,
            repeatable=by_itself if repeatable is None else repeatable,
            seconds=self._service.timeout * (LONG if long else 1) + waits,
            **options,
        )

    def _segment(self, part: str, asked: Asked) -> str:
        """A part of a route: as it stands, or the argument that it names."""
        return self._named(part[1:-1], asked) if part.startswith("{") else part

    def _named(self, name: str, asked: Asked) -> str:
        segment: str = _CHECKS[name](asked.pop(name))
        return segment

    async def _ask(self, route: str, asked: Asked | None = None, *body: Any, **options: Any) -> Reply:
        return await self._service.connection.send(self._call(route, asked, *body, **options))


def _given(values: Asked, required: Collection[str]) -> Asked:
    """The values, checked, of which a request holds what was passed alone."""
    return {
        name: _CHECKS.get(name, _unchanged)(value)
        for name, value in values.items()
        if value is not None or name in required
    }


def _unchanged(value: Any) -> Any:
    return value


def written(params: Asked) -> dict[str, str]:
    """Query parameters of an address.

    >>> written({"archived": True, "limit": 10})
    {'archived': 'true', 'limit': '10'}
    """
    return {name: _written(value) for name, value in params.items()}


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def own_key(idempotency_key: str | None) -> str:
    """The caller's key, or one of our own, so that a request that is sent again counts once.

    Raises InvalidInput.
    """
    if idempotency_key is None:
        return new_id()
    checked_id("idempotency_key", idempotency_key)
    if idempotency_key != idempotency_key.strip(" \t"):
        raise InvalidInput(
            f"idempotency_key is {idempotency_key!r:.80}; a header keeps no blanks around it, take them away"
        )
    return idempotency_key


# --- methods -------------------------------------------------------------------------------------------------
def documented(original: Any, note: str | None) -> str:
    """The docstring of what a method stands for, and after it what is different over HTTP."""
    return "\n\n".join(filter(None, (inspect.getdoc(original), note and inspect.cleandoc(note))))


def stands_for(
    original: Method[P, Value],
) -> Callable[[Callable[[Any, Asked], Coroutine[Any, Any, Value]]], Method[P, Value]]:
    """A decorator that gives a method of the arguments, by name, the signature and the docstring of `original`."""
    signature = inspect.signature(original)

    def standing(send: Callable[[Any, Asked], Coroutine[Any, Any, Value]]) -> Method[P, Value]:
        @functools.wraps(original)
        async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Value:
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            return await send(self, {name: bound.arguments[name] for name in list(bound.arguments)[1:]})

        call.__doc__ = documented(original, send.__doc__)
        return call

    return standing


def one(model: type[Answer[Value]]) -> Callable[[Reply], Value]:
    """A reader of answers: the value that is the answer."""
    return lambda reply: value_of(reply, model).domain()


def maybe(model: type[Answer[Any]]) -> Callable[[Reply], Any]:
    """A reader of answers: the value, or None for the answer that there is none."""

    def read(reply: Reply) -> Any:
        found = value_or_none(reply, model)
        return None if found is None else found.domain()

    return read


def many(model: type[Answer[Value]]) -> Callable[[Reply], list[Value]]:
    """A reader of answers: the values of a list that comes whole."""
    listed: Any = Items
    return lambda reply: [item.domain() for item in value_of(reply, listed[model]).items]


def sends(
    original: Method[P, Value],
    route: str,
    read: Callable[[Reply], Value],
    body: type[Request] | None = None,
    *,
    prepare: Prepare | None = None,
    note: str | None = None,
    **options: Any,
) -> Method[P, Value]:
    """The method that sends a route's request and returns what is read of the answer.

    `options`: those of `_call`.
    """

    async def send(self: Asking, asked: Asked) -> Value:
        return read(await self._ask(route, prepare(self, asked) if prepare else asked, body, **options))

    send.__doc__ = note
    return stands_for(original)(send)


def pages(
    original: Method[P, list[Value]],
    route: str,
    item: type[Answer[Value]],
    *,
    prepare: Prepare | None = None,
) -> Method[P, list[Value]]:
    """The method that returns a list that comes page after page."""
    listed: Any = Page

    async def send(self: Asking, asked: Asked) -> list[Value]:
        items: list[Value] = []
        values = prepare(self, asked) if prepare else asked
        cursor: str | None = None
        while True:
            reply = await self._ask(route, {"limit": PAGE, "cursor": cursor, **values})
            page = value_of(reply, listed[item])
            items += [found.domain() for found in page.items]
            if page.next_cursor is None:
                return items
            if page.next_cursor == cursor:
                raise ServiceError("the service gave the same page again; its list has no end")
            cursor = page.next_cursor

    return stands_for(original)(send)


# --- waits ---------------------------------------------------------------------------------------------------
async def settled(
    client: Asking,
    route: str,
    about: Asked,
    status: Callable[[], Awaitable[MemoryStatus]],
    timeout: float | None,
    without: Collection[Stage],
    progress: Callable[[MemoryStatus], None] | None,
) -> None:
    """Wait in the service until nothing is owed but the stages in `without`; `progress` is told the `status` before each request and at the end.

    Raises SettleTimeout only after `timeout` seconds.
    """
    stages_but(without)

    async def ask(seconds: float, deadline: float | None) -> None:
        if progress is not None:
            progress(await status())
        asked = {**about, "timeout": seconds, "without": list(without) or None}
        await client._ask(route, asked, Settle, repeatable=True, waits=seconds, until=deadline)

    await in_slices(ask, timeout, slice_seconds=_WAIT_SECONDS if progress is None else _WATCHED_SLICE_SECONDS)
    if progress is not None:
        progress(await status())


async def in_slices(
    ask: Callable[[float, float | None], Awaitable[Value]],
    timeout: float | None,
    *,
    slice_seconds: float = _WAIT_SECONDS,
) -> Value:
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
