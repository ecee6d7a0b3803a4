"""Arguments of MemoryAgent, checked as MemoryClient does too, and the thread they are about.

Each returns what it was given. Raises InvalidInput that names the argument, its value, and what to pass instead.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, get_args

from memory_agent.checks import (
    MAX_CONTENT_CHARS,
    MAX_ID_CHARS,
    at_offset,
    checked_id,
    checked_tag,
    checked_text,
    checked_time,
    is_number,
    is_whole,
    time_and_offset,
)
from memory_agent.conversations.people import checked_limit, find_thread, list_threads
from memory_agent.domain import CHARACTER_ID, MAX_SEQ, ROLES, Detail, Preset, Reach, RecallPrice, role_of
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
    from datetime import datetime, tzinfo
    from types import TracebackType

    from memory_agent.domain import MemoryEvent, Role, Scope, ThreadsPage, ThreadSummary
    from memory_agent.service import MemoryService
    from memory_agent.wiring import Core


MAX_PAGE: Final = 10_000
MAX_COUNT: Final = 2**53 - 1
"""Above it neither every store nor every reader of JSON keeps whole numbers apart."""
PRESET_NAMES: Final[tuple[Preset, ...]] = get_args(Preset)
_CHOICES: Final = {"preset": PRESET_NAMES, "price": get_args(RecallPrice), "scope": get_args(Reach)}

Choice = TypeVar("Choice", bound=str)


def checked_choice(name: str, value: Choice) -> Choice:
    """One of the values that the argument of this name has."""
    choices = _CHOICES[name]
    if value not in choices:
        raise InvalidInput(f"{name} is {value!r:.80}; use one of {', '.join(choices)}, or None")
    return value


def checked_include(include: Collection[Detail]) -> list[Detail]:
    """What is sent of a context besides its text."""
    if not isinstance(include, list | tuple | set | frozenset) or any(
        one not in get_args(Detail) for one in include
    ):
        raise InvalidInput(
            f"include is {include!r:.80}; pass a list of {', '.join(get_args(Detail))}, or none of them"
        )
    return list(dict.fromkeys(include))


def checked_flag(name: str, value: bool) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} is {value!r:.40}; pass True or False")
    return value


def checked_count(name: str, value: object) -> int:
    """A whole number from 0 to `MAX_COUNT`."""
    if not is_whole(value, 0):
        raise InvalidInput(f"{name} is {value!r:.80}; pass a whole number from 0 on")
    if value > MAX_COUNT:
        raise InvalidInput(f"{name} is {value!r:.80}; pass a whole number of at most {MAX_COUNT:,}")
    return value


def checked_about(about: str | None) -> str | None:
    """A person's name; None for everybody."""
    return None if about is None else checked_text("about", about, max_chars=MAX_ID_CHARS)


def checked_times(**times: datetime | None) -> dict[str, datetime]:
    """Those of the times that are given, by the names of their arguments."""
    return {name: checked_time(name, time) for name, time in times.items() if time is not None}


def checked_now(now: datetime | None, clocks: datetime, zone: tzinfo | None) -> datetime:
    """When something is asked (None: `clocks`), by the clock of who asks: in UTC that of `zone`, if there is one."""
    return at_offset(*time_and_offset("now", clocks if now is None else now, zone))


def checked_query(query: object, role: object) -> Role | None:
    """The role to search among, None for all, of a question that can be asked."""
    checked_text("query", query, max_chars=MAX_CONTENT_CHARS)
    found = role_of(role)
    if role is not None and found is None:
        raise InvalidInput(f"role is {role!r:.80}; use one of {', '.join(ROLES)}, or None for all")
    return found


def check_page(after: object, limit: object) -> None:
    """A page of the history: where it begins, and how many turns it has."""
    if not is_whole(limit, 1, MAX_PAGE):
        raise InvalidInput(f"limit is {limit!r:.80}; pass a whole number from 1 to {MAX_PAGE:,}")
    if not is_whole(after, 0, MAX_SEQ):
        raise InvalidInput(f"after is {after!r:.80}; pass the `next` of the page before, or 0")


def checked_through(through: int | None) -> int | None:
    """A turn's `seq` as of which something is asked; None: as of now."""
    if through is not None and not is_whole(through, 1, MAX_SEQ):
        raise InvalidInput(f"through is {through!r:.80}; pass the seq of a turn, from 1 on, or None for now")
    return through


def with_character_id(
    metadata: Mapping[str, Any] | None, character_id: int | str | None
) -> Mapping[str, Any] | None:
    """A session's metadata, with the application's own id of its character."""
    if character_id is None:
        return metadata
    if not is_whole(character_id, -MAX_COUNT, MAX_COUNT):
        checked_id("character_id", character_id)
    return {**(metadata or {}), CHARACTER_ID: character_id}


def checked_importance(importance: float | None) -> float | None:
    """A topic's importance; None: as its turns say."""
    if importance is None:
        return None
    if not is_number(importance, 0, 1):
        raise InvalidInput(f"importance is {importance!r:.80}; pass a number from 0 to 1, or None")
    return float(importance)


def check_tags(add: Sequence[str], remove: Sequence[str]) -> None:
    """Lists of tags."""
    if not isinstance(add, list | tuple) or not isinstance(remove, list | tuple):
        raise InvalidInput(f"tags are {add!r:.40} and {remove!r:.40}; pass lists of tags")
    for tag in (*add, *remove):
        checked_tag(tag)


class OnService:
    """A thread of a service that it opens and closes with itself, if it was made alone."""

    scope: Scope
    _service: Any
    _owns_service: bool

    async def __aenter__(self) -> Self:
        if self._owns_service:
            await self._service.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the service, if this was made alone; the last one that does closes it."""
        if self._owns_service:
            await self._service.__aexit__(None, None, None)


Class = TypeVar("Class", bound=type)


def reaching(cls: Class) -> Class:
    """Have every call of an agent's reach its memory first: opened if it is alone, or asked elsewhere."""
    for name in [name for name in dir(cls) if not name.startswith("_") and name != "close"]:
        method = getattr(cls, name)
        if inspect.isasyncgenfunction(method):
            setattr(cls, name, _reaching_events(name, method))
        elif inspect.iscoroutinefunction(method):
            setattr(cls, name, _reaching_call(name, method))
    return cls


def _reaching_call(name: str, method: Any) -> Any:
    @functools.wraps(method)
    async def call(self: Any, *args: Any, **options: Any) -> Any:
        there = await self._reached()
        return await (
            method(self, *args, **options) if there is self else getattr(there, name)(*args, **options)
        )

    return call


def _reaching_events(name: str, method: Any) -> Any:
    @functools.wraps(method)
    async def events(self: Any, *args: Any, **options: Any) -> Any:
        there = await self._reached()
        told = method(self, *args, **options) if there is self else getattr(there, name)(*args, **options)
        async with contextlib.aclosing(told):
            async for event in told:
                yield event

    return events


class ThreadCalls(OnService):
    """One thread of an open service: itself among its user's threads, and what happens to it."""

    _service: MemoryService

    @property
    def _core(self) -> Core:
        """Every part of the service. Raises NotOpen outside `async with`."""
        return self._service.core

    def _reach(self, scope: Reach | None) -> Scope:
        """The thread, or all of its user's; None: as the setting `memory_scope` says. Raises InvalidInput."""
        reach = self._service.cfg.memory_scope if scope is None else checked_choice("scope", scope)
        return self.scope if reach == "thread" else self.scope.user

    async def threads(self, *, after: str | None = None, limit: int = 100) -> ThreadsPage:
        """The threads of this user, by rising id, at most `limit`; none if nothing is remembered of the user yet.

        `after`: only those above it, such as the `next` of the page before.
        """
        above = None if after is None else checked_id("after", after)
        return await list_threads(self._core.store, self.scope, after=above, limit=checked_limit(limit))

    async def thread_summary(self) -> ThreadSummary:
        """The number of this thread's turns, and when the last one was said.

        Raises NotFound with the nearest names if nothing is remembered of the thread, or of the user: a look at
        whether a name was misspelt. Nothing else raises for that, since every memory begins empty.
        """
        return await find_thread(self._core.store, self.scope)

    async def events(self, after: str | None = None) -> AsyncGenerator[MemoryEvent, None]:
        """The events of this thread's memory from now on, or (`after`: an event's `id`) since that event; without end.

        Whoever stops before closes it: `async with contextlib.aclosing(memory.events()) as events:`. Raises EventsLost if
        what followed `after` is not kept any more, EventsUnsupported where the document store tells no events.
        """
        async with self._core.store.watch(self.scope, after=after) as events:
            async for event in events:
                yield event
