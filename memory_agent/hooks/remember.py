"""Transcripts remembered: what is new in them, through an agent's public calls.

A repeat changes nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import re
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from memory_agent.domain import said_in
from memory_agent.errors import IdempotencyKeyReused, InvalidInput, NotFound, TurnForgotten
from memory_agent.hooks import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Entry = Mapping[str, Any]
    Read = tuple[str, str, str | None] | None
    """Role, text and id of an entry; None for one that is no turn."""
    from collections.abc import Mapping

    from memory_agent.agent.agent import MemoryAgent
    from memory_agent.client.memory import MemoryClient
    from memory_agent.client.service import ServiceClient
    from memory_agent.service import MemoryService

# --- transcripts as turns ------------------------------------------------------------------------------------
_NOT_SAID: Final = re.compile(
    r"<(system-reminder|system_reminder|command-[a-z]+|local-command-[a-z]+|task-notification"
    r"|user-prompt-submit-hook|hook_output|bash-[a-z]+|ide_[a-z_]+"
    r"|attached_files|open_and_recently_viewed_files)\b[^>]*>.*?</\1>",
    re.DOTALL,
)
_INTERRUPTED: Final = "[Request interrupted by user"
_USER_QUERY: Final = re.compile(r"<user_query>(.*?)</user_query>", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class TranscriptTurn:
    """A turn in a transcript, in which its line ends at `end`.

    `id`: the same whenever the transcript is read, and in copies of it if `is_unique`.
    """

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
        text = said_in(_NOT_SAID.sub("", text)).strip()
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


# --- what is new in them -------------------------------------------------------------------------------------
_PAUSES: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds for the agent to write down its last answer, which it may do after it has run the hook."""
_MOST_BYTES: Final = 64_000_000
"""Of a transcript at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A session of a coding agent.

    Its transcript is remembered up to the byte `done`, and its last answer ends at `until`.

    What lies behind that was said on the way to an answer that is still to come.
    """

    session: str
    transcript: str
    project: str
    done: int = 0
    until: int = 0

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Session:
        """From what the hook hands on. Raises InvalidInput if that doesn't tell the transcript."""
        values = {name: said.get(name) for name in ("session", "transcript", "project")}
        missing = [name for name, value in values.items() if not isinstance(value, str) or not value]
        if missing:
            raise InvalidInput(f"the agent did not tell its {missing[0]}")
        return cls(**values)  # type: ignore[arg-type]

    def file_in(self, folder: Path) -> Path:
        name = hashlib.sha256(self.session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return folder / f"{name}.json"


def sessions_in(folder: Path) -> list[Session]:
    """The sessions that are known, the one that was last at work first.

    Those whose transcript is gone are dropped.
    """
    found = []
    for file in folder.glob("*.json"):
        try:
            session = Session(**json.loads(file.read_text(encoding="utf-8")))
            if Path(session.transcript).exists():
                found.append((file.stat().st_mtime, session))
            else:
                file.unlink(missing_ok=True)
        except (
            OSError,
            ValueError,
            TypeError,
        ):  # another hook is at it, or somebody wrote something else there
            continue
    return [session for _, session in sorted(found, key=lambda each: each[0], reverse=True)]


def known(session: Session, folder: Path) -> Session:
    """The session as it stands in the folder, where it is written down if it is new."""
    for one in sessions_in(folder):
        if one.session == session.session:
            session = replace(session, done=one.done, until=one.until)
    _write(session, folder)
    return session


async def answered(session: Session, folder: Path, *, last: str | None, host: str) -> Session:
    """The session with its answer noted, once its transcript has the agent's last words, or after a few seconds.

    Behind them the next prompt may stand already, and words on the way to its answer.
    """
    for pause in _PAUSES:
        data, start = _new_in(session)
        turns, until = read_turns(host, data, start)
        if last is None:
            break
        ends = [
            turn.end for turn in turns if turn.role == "assistant" and turn.content.endswith(last.strip())
        ]
        if ends:
            until = ends[-1]
            break
        await asyncio.sleep(pause)
    session = replace(session, until=until, done=min(session.done, start))
    _write(session, folder)
    return session


async def remember(
    service: MemoryService | ServiceClient,
    session: Session,
    folder: Path,
    *,
    host: str,
    user: str,
    tenant: str,
) -> int:
    """Remember what is new in the transcript up to the last answer, and note how far that is; the number of its turns.

    The thread is the project. Raises what storing raises, with nothing noted, but for a turn that cannot be stored: that is left out, and logged.
    """
    data, start = _answered_in(session)
    turns, done = read_turns(host, data, start)
    if start == 0 and (source := forked_from(host, data)):
        turns = turns[_copied(turns, source, folder, host) :]
    memory: MemoryAgent | MemoryClient = service.agent(user, session.project, tenant=tenant)
    for turn in turns:
        try:
            await memory.add_turn(
                turn.role,
                turn.content,
                timestamp=turn.timestamp,
                metadata={"host": host, "session": session.session},
                idempotency_key=turn.key(host, session.session),
            )
        except NotFound:
            raise
        except (IdempotencyKeyReused, TurnForgotten):
            continue
        except InvalidInput as exc:  # it never can be stored, and is not to hold up what follows it
            run.log(str(folder.parent / "settings.json"), f"remember: left out turn {turn.id}: {exc}")
    if done != session.done:
        until = 0 if start < session.done else session.until  # of a transcript that is gone
        _write(replace(session, done=done, until=until), folder)
    return len(turns)


def _copied(turns: list[TranscriptTurn], source: str, folder: Path, host: str) -> int:
    """How many of the turns are a copy of what another session has told, or will tell.

    A prompt that got another answer there is none.
    """
    for one in sessions_in(folder):
        if one.session == source:
            told, _ = read_turns(host, *_answered_in(replace(one, done=0)))
            pairs = zip(turns, told, strict=False)
            same = list(itertools.takewhile(lambda pair: _says(pair[0]) == _says(pair[1]), pairs))
            return len(same) - (bool(same) and same[-1][0].role == "user")
    return 0


def _says(turn: TranscriptTurn) -> tuple[str, str]:
    return turn.role, turn.content


def behind(session: Session) -> int:
    """Bytes of the transcript up to its last answer that are not remembered yet."""
    return _answered_in(session)[0].rfind(b"\n") + 1


def is_late(session: Session) -> bool:
    """True if `remember` has anything to do: tell what is new, or note that the transcript has become shorter."""
    return bool(behind(session)) or _new_in(session)[1] < session.done


def _answered_in(session: Session) -> tuple[bytes, int]:
    """What is new up to the last answer: nothing, where the transcript has become shorter since and another hook has not told of one."""
    data, start = _new_in(session)
    end = max(session.until - start, 0)
    return (data[:end] if end <= len(data) or len(data) == _MOST_BYTES else b""), start


def _new_in(session: Session) -> tuple[bytes, int]:
    """The rest of the transcript, and where that begins: at its start again if it has become shorter."""
    try:
        with open(session.transcript, "rb") as file:
            is_shorter = max(session.done, session.until) > os.fstat(file.fileno()).st_size
            start = 0 if is_shorter else session.done
            file.seek(start)
            return file.read(_MOST_BYTES), start
    except OSError:
        return b"", session.done


def _write(session: Session, folder: Path) -> None:
    file = session.file_in(folder)
    half = file.with_suffix(f".{os.getpid()}")
    half.write_text(json.dumps(asdict(session)), encoding="utf-8")
    half.replace(file)
