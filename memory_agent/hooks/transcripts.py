"""Transcripts of coding agents as turns: what the user said and what the agent answered at last. Pure.

Left out are tools, thoughts, what the agent says between them, summaries, and whatever was put into a message without the
user: the memory that was recalled, reminders, the output of commands.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Entry = Mapping[str, Any]
    Read = tuple[str, str, str | None] | None
    """Role, text and id of an entry; None for one that is no turn."""

_NOT_SAID: Final = re.compile(
    r"<(memory_context|system-reminder|system_reminder|command-[a-z]+|local-command-[a-z]+|task-notification"
    r"|user-prompt-submit-hook|hook_output|bash-[a-z]+|ide_[a-z_]+"
    r"|attached_files|open_and_recently_viewed_files)\b[^>]*>.*?</\1>",
    re.DOTALL,
)
_INTERRUPTED: Final = "[Request interrupted by user"
_USER_QUERY: Final = re.compile(r"<user_query>(.*?)</user_query>", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class TranscriptTurn:
    """A turn in a transcript, in which its line ends at `end`. `id`: the same whenever the transcript is read, and in copies of it if `is_unique`."""

    id: str
    is_unique: bool
    role: Literal["user", "assistant"]
    content: str
    timestamp: datetime | None
    end: int

    def key(self, host: str, session: str) -> str:
        """The idempotency key of the turn: a session that goes on from a copy of another one's transcript doesn't tell it again."""
        return f"{host} {self.id}" if self.is_unique else f"{host} {session} {self.id}"


def read_turns(host: str, data: bytes, start: int) -> tuple[list[TranscriptTurn], int]:
    """The turns in `data`, which stands at `start` in the transcript, and where the next look begins.

    Lines that are no JSON are passed over; one that is still being written is left for the next look.
    """
    whole = data[: data.rfind(b"\n") + 1]
    found: list[TranscriptTurn] = []
    for at, end, entry in _entries(whole, start):
        read = _READERS[host](entry)
        if read is None:
            continue
        role, text, name = read
        text = _NOT_SAID.sub("", text).strip()
        if not text or text.startswith(_INTERRUPTED):
            continue
        turn = TranscriptTurn(
            id=name or f"{entry.get('timestamp') or at} {_digest(text)}",
            is_unique=name is not None,
            role="assistant" if role == "assistant" else "user",
            content=text,
            timestamp=_time(entry.get("timestamp")),
            end=end,
        )
        if found and found[-1].role == turn.role == "assistant":
            found.pop()  # it said more afterwards
        found.append(turn)
    return found, start + len(whole)


def forked_from(host: str, data: bytes) -> str | None:
    """The session of which a transcript of Codex begins with a copy, whose messages are numbered and timed anew."""
    first = next((entry for _, _, entry in _entries(data[: data.find(b"\n") + 1], 0)), {})
    about = first.get("payload")
    source = about.get("forked_from_id") if host == "codex" and isinstance(about, dict) else None
    return source if isinstance(source, str) else None


def _entries(data: bytes, start: int) -> Iterator[tuple[int, int, Entry]]:
    for line in data.splitlines(keepends=True):
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if isinstance(entry, dict):
            yield start, start + len(line), entry
        start += len(line)


def _claude_code(entry: Entry) -> Read:
    if entry.get("type") not in ("user", "assistant") or any(
        entry.get(mark) for mark in ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage")
    ):
        return None
    message = entry.get("message")
    text = _text_in(message)
    if text is None:
        return None
    fork = entry.get("forkedFrom")  # a copy, which may have an id of its own
    name = fork.get("messageUuid") if isinstance(fork, dict) else None
    return entry["type"], text, name or entry.get("uuid")


def _codex(entry: Entry) -> Read:
    said = entry.get("payload")
    if not isinstance(said, dict):
        return None
    if entry.get("type") == "event_msg" and said.get("type") == "user_message":
        return "user", str(said.get("message") or ""), None
    if entry.get("type") != "response_item" or said.get("role") != "assistant":
        return None  # as items, messages of the user hold what Codex has put before them as well
    text = _text_in(said)
    return None if text is None else ("assistant", text, None)


def _cursor(entry: Entry) -> Read:
    text = _text_in(entry.get("message"))
    if text is None or entry.get("role") not in ("user", "assistant"):
        return None
    queries = _USER_QUERY.findall(text) if entry["role"] == "user" else ()
    return entry["role"], "\n\n".join(query.strip() for query in queries) or text, None


_READERS: Final[Mapping[str, Callable[[Entry], Read]]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "cursor": _cursor,
}


def _text_in(message: object) -> str | None:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    blocks = [block for block in content if isinstance(block, dict)]
    texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    return "\n\n".join(texts) if texts else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _time(value: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return time if time.tzinfo else None
