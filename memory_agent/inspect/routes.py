"""The addresses of the pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory_agent.inspect import ask, door, facts, health, people, topics, work
from memory_agent.inspect.page import endpoint

if TYPE_CHECKING:
    from collections.abc import Callable

_USER: Final = "/inspect/of/{tenant}/users/{user}"
_THREAD: Final = f"{_USER}/{{thread}}"
_READ: Final = ("GET", "HEAD")
_CHANGE: Final = ("POST",)

ROUTES: Final[tuple[tuple[str, Callable[..., Any], tuple[str, ...]], ...]] = (
    ("/inspect", door.front, _READ),
    ("/inspect/", endpoint(door.first), _READ),
    ("/inspect/sign-in", door.sign_in, (*_READ, *_CHANGE)),
    ("/inspect/sign-out", endpoint(door.sign_out, writes=False), _CHANGE),
    ("/inspect/enter", door.enter, _READ),
    ("/inspect/ticket", door.ticket, _CHANGE),
    ("/inspect/static/{name}", door.static, _READ),
    *(
        (f"{below}/{path}", endpoint(handler), methods)
        for below in ("/inspect", "/inspect/of/{tenant}")
        for path, handler, methods in (
            ("work", work.show, _READ),
            ("work/events", work.events, ("GET",)),
            ("work/retry", work.retry, _CHANGE),
            ("health", health.show, _READ),
        )
    ),
    ("/inspect/health/examine", endpoint(health.examine), _CHANGE),
    ("/inspect/of/{tenant}/users", endpoint(people.everybody), _READ),
    (_USER, endpoint(people.somebody), _READ),
    (f"{_USER}/export", endpoint(people.export), ("GET",)),
    (f"{_USER}/forget", endpoint(people.forget), _CHANGE),
    (f"{_THREAD}/ask", endpoint(ask.ask), _READ),
    (f"{_THREAD}/conversation", endpoint(people.timeline), _READ),
    (f"{_THREAD}/turns/{{seq}}", endpoint(people.turn), _READ),
    (f"{_THREAD}/facts", endpoint(facts.facts), _READ),
    (f"{_THREAD}/facts", endpoint(facts.change), _CHANGE),
    (f"{_THREAD}/topics", endpoint(topics.topics), _READ),
    (f"{_THREAD}/topics/{{topic}}", endpoint(topics.topic), _READ),
    (f"{_THREAD}/topics/{{topic}}", endpoint(topics.curate), _CHANGE),
    (f"{_THREAD}/retry", endpoint(people.retry), _CHANGE),
)
"""Path, handler and methods of each."""
