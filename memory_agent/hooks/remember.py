"""Transcripts remembered: what is new in them, through an agent's public calls. A repeat changes nothing."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory_agent.errors import IdempotencyKeyReused, InvalidInput, NotFound, TurnForgotten
from memory_agent.hooks import run
from memory_agent.hooks.transcripts import forked_from, read_turns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memory_agent.agent.agent import MemoryAgent
    from memory_agent.client.memory import MemoryClient
    from memory_agent.client.service import ServiceClient
    from memory_agent.hooks.transcripts import TranscriptTurn
    from memory_agent.service import MemoryService

_PAUSES: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds for the agent to write down its last answer, which it may do after it has run the hook."""
_MOST_BYTES: Final = 64_000_000
"""Of a transcript at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A session of a coding agent. Its transcript is remembered up to the byte `done`, and its last answer ends at `until`.

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
    """The sessions that are known, the one that was last at work first. Those whose transcript is gone are dropped."""
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
