"""Storage of users and their threads."""

from typing import Final

from pydantic import JsonValue

from memory_agent import domain as values
from memory_agent.checks import checked_id
from memory_agent.wire.base import Answer
from memory_agent.wire.pages import Places

UserSummary = Answer[values.UserSummary]
ThreadSummary = Answer[values.ThreadSummary]


def _is_id(place: JsonValue) -> bool:
    return isinstance(place, str) and checked_id("cursor", place) == place


USERS: Final[Places[values.UsersPage, str]] = Places(
    of="users or threads", value=values.UsersPage, items="users", model=UserSummary, is_place=_is_id
)
"""Pages of `MemoryService.users`; a place is an id."""
THREADS: Final[Places[values.ThreadsPage, str]] = Places(
    of="users or threads", value=values.ThreadsPage, items="threads", model=ThreadSummary, is_place=_is_id
)
"""Pages of `MemoryService.threads`."""
