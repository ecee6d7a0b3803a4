"""Conversations as readers give them, and what their files' texts and times become."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from memory_agent.checks import MAX_CONTENT_CHARS, has_visible
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from memory_agent.domain import Role

_MILLISECONDS_FROM: Final = 1e11
"""Seconds since 1970 reach it in the year 5138, milliseconds did in 1973."""
_CITATIONS: Final = re.compile(r"\ue200[^\ue201]*\ue201|【\d+[^】]*†[^】]*】")
"""ChatGPT's marks of sources, which it shows as buttons."""
_SHOWN_OF_A_PROBLEM: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedMessage:
    """A message of a conversation. `id` is its source's, or one that stays the same in a later export."""

    id: str
    role: Role
    content: str
    timestamp: datetime | None


@dataclass(kw_only=True, slots=True)
class Conversation:
    """A conversation as it was last shown. `left_out`: how many of its messages were not taken, by reason."""

    source: str
    id: str
    title: str | None = None
    started: datetime | None = None
    """Its own time, which messages without one get."""
    kind: str = "conversation"
    """Or "saved memories": sentences about the user, which stand in no conversation."""
    messages: list[ImportedMessage] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, message_id: str, role: Role, content: str, time: object = None) -> None:
        """Take a message, or count it as left out if there is nothing to see in it, or too much to store."""
        text = clean(content)
        if not has_visible(text):
            self.left_out["empty"] += 1
        elif len(text) > MAX_CONTENT_CHARS:
            self.left_out[f"longer than {MAX_CONTENT_CHARS:,} characters"] += 1
        else:
            said_at = time_of(time) or self.started
            self.messages.append(ImportedMessage(id=message_id, role=role, content=text, timestamp=said_at))


@dataclass(frozen=True, kw_only=True, slots=True)
class Unreadable:
    """A file or a conversation that could not be read: where it stands, and why."""

    where: str
    reason: str


def clean(text: str) -> str:
    """The text without marks of sources and with � for halves of characters, which no store can keep."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _CITATIONS.sub("", whole).strip()


def time_of(value: object) -> datetime | None:
    """A time in seconds or milliseconds since 1970, or in ISO 8601 (UTC without a zone); None for anything else, and for 0."""
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value)
            return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
        if isinstance(value, int | float) and value > 0:
            seconds = value / 1000 if value >= _MILLISECONDS_FROM else value
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def digest(*texts: str) -> str:
    """A short name for texts, to know them again by."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()[:24]


def text_in(given: dict[str, Any], *names: str) -> str | None:
    """The first of these fields that is a text with something in it."""
    return next((found for name in names if isinstance(found := given.get(name), str) and found), None)


def each(
    items: Iterable[tuple[str, Any]], read: Callable[[Any], Conversation | None]
) -> Iterator[Conversation | Unreadable]:
    """Read items one by one (`read` gives None for one that is to be passed over); one that is wrong stops none of the others."""
    for where, item in items:
        try:
            found = read(item)
        # Somebody else's file may be wrong in any place and way.
        except (InvalidInput, LookupError, TypeError, AttributeError, ValueError, RecursionError) as exc:
            said = str(exc) if isinstance(exc, InvalidInput) else f"{type(exc).__name__}: {exc}"
            yield Unreadable(where=where, reason=said[:_SHOWN_OF_A_PROBLEM])
        else:
            if found is not None:
                yield found
