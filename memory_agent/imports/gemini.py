"""Gemini's activity log of Google Takeout: one record per exchange, which only some records say the conversation of."""

from __future__ import annotations

import html
import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from memory_agent.imports.values import Conversation, Unreadable, text_in, time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_GAP: Final = timedelta(minutes=30)
"""A longer pause begins another conversation, where no record says so."""
_PROMPTED: Final = "Prompted "
_TAG: Final = re.compile(r"<(?:br|/p|/li|/h\d|/div)[^>]*>")
_ANY_TAG: Final = re.compile(r"<[^>]+>")


def conversations(items: Iterable[tuple[str, Any]]) -> Iterator[Conversation | Unreadable]:
    """The exchanges of a `MyActivity.json`, by the conversation that their address names, or by pauses between them.

    The log runs backwards, so all of it is read before the first one is given.
    """
    read: list[tuple[datetime, dict[str, Any]]] = []
    others = Conversation(source="gemini", id="activity")
    for where, item in items:
        time = time_of(item.get("time")) if isinstance(item, dict) else None
        if time is None:
            yield Unreadable(where=where, reason="is no activity with a time")
        elif not str(item.get("title", "")).startswith(_PROMPTED):
            others.left_out["activities other than prompts"] += 1
        else:
            read.append((time, item))
    found: dict[str, Conversation] = {}
    before, last = None, ""
    for time, item in sorted(read, key=lambda one: one[0]):
        named = re.search(r"/app/(\w+)", str(item.get("titleUrl", "")))
        if named:
            key = named[1]
        else:
            key = last if before is not None and time - before <= _GAP else f"at-{time:%Y%m%dT%H%M%S}"
            before, last = time, key
        conversation = found.setdefault(key, Conversation(source="gemini", id=key, started=time))
        _take(conversation, time, item)
    yield from found.values()
    if others.left_out:
        yield others


def _take(found: Conversation, time: datetime, item: dict[str, Any]) -> None:
    request, response = _exchange(item)
    stamp = f"{time:%Y%m%dT%H%M%S.%f}"
    found.add(
        f"{stamp}-user", "user", request or str(item["title"]).removeprefix(_PROMPTED), time.isoformat()
    )
    if response:
        found.add(f"{stamp}-assistant", "assistant", response, time.isoformat())
    else:
        found.left_out["answers that the log doesn't hold"] += 1


def _exchange(item: dict[str, Any]) -> tuple[str | None, str | None]:
    """What was asked and answered, in whichever of the log's forms there is."""
    said: dict[str, Any] = {
        str(one.get("name")): one.get("value") for one in item.get("details") or [] if isinstance(one, dict)
    }
    for one in item.get("userInteractions") or []:
        inner = one.get("userInteraction") or {}
        said |= {name.capitalize(): _plain(inner.get(name)) for name in ("request", "response")}
    pages = [text_in(one, "html") or "" for one in item.get("safeHtmlItem") or [] if isinstance(one, dict)]
    shown = "\n".join(html.unescape(_ANY_TAG.sub("", _TAG.sub("\n", page))) for page in pages)
    return text_in(said, "Request"), text_in(said, "Response") or shown.strip() or None


def _plain(value: object) -> str | None:
    """The text in a JSON string such as {"text": "…"}; the string itself if it is none."""
    try:
        inner = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return str(value)
    if isinstance(inner, dict):
        return text_in(inner, "text", "prompt", "content")
    return inner if isinstance(inner, str) else None
