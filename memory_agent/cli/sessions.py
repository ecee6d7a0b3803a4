"""`memory-agent session …` and `history`: a thread's sittings, and everything that was said in them."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from memory_agent.cli.opening import agent_of
from memory_agent.cli.output import clean, note, out, print_json, turn_as_json
from memory_agent.cli.running import OK
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from memory_agent.cli.opening import Agent
    from memory_agent.cli.options import Where
    from memory_agent.domain import Character, Session, Turn

_ID_CHARS: Final = 36
_ALL_PAGE: Final = 1_000
"""Turns that are read at once where all are printed."""


# --- sessions ------------------------------------------------------------------------------------------------
async def start(
    where: Where,
    *,
    character: Character | None,
    participants: Sequence[str],
    metadata: Mapping[str, Any] | None,
) -> int:
    """Begin a session, and print it."""
    async with agent_of(where, new=True) as agent:
        session = await agent.start_session(character, participants, metadata)
    if where.as_json:
        print_json(session_as_json(session, current=True))
    else:
        as_whom = f" with {session.character.name!r}" if session.character is not None else ""
        line = f"Session {session.number} of thread {session.thread_id!r} is open{as_whom}: {session.id}"
        out.print(Text(clean(line)), soft_wrap=True)
    return OK


async def show_all(where: Where) -> int:
    """Print the thread's sessions, oldest first."""
    async with agent_of(where) as agent:
        sessions = await agent.sessions()
        current = await agent.current_session()
    current_id = None if current is None else current.id
    if where.as_json:
        print_json([session_as_json(session, current=session.id == current_id) for session in sessions])
    elif sessions:
        out.print(_table(sessions, current_id))
    else:
        note(f"Thread {where.thread_id!r} of user {where.user_id!r} has no sessions.")
    return OK


async def show(where: Where, session_id: str | None) -> int:
    """Print one session, by default the current one. Raises InvalidInput if there is none such."""
    async with agent_of(where) as agent:
        current = await agent.current_session()
        session = current if session_id is None else await _found(where, agent, session_id)
    if session is None:
        raise InvalidInput(
            f"thread {where.thread_id!r} of user {where.user_id!r} has no current session: the next turn opens one;"
            f" `{where.command('session list')}` lists those it had"
        )
    is_current = current is not None and session.id == current.id
    if where.as_json:
        print_json(session_as_json(session, current=is_current))
    else:
        _print(session, current=is_current)
    return OK


async def _found(where: Where, agent: Agent, session_id: str) -> Session:
    for session in await agent.sessions():
        if session.id == session_id:
            return session
    raise _unknown(where, session_id)


def _unknown(where: Where, session_id: str) -> InvalidInput:
    return InvalidInput(
        f"thread {where.thread_id!r} of user {where.user_id!r} has no session {session_id!r:.80};"
        f" `{where.command('session list')}` lists them"
    )


def _table(sessions: Sequence[Session], current_id: str | None) -> Table:
    """Three lines a session, which fit eighty columns with the id whole, so that it can be copied."""
    table = Table(box=None, padding=(0, 2, 1, 0), pad_edge=False)
    table.add_column("session\nid\nstate · character · participants", min_width=_ID_CHARS, overflow="fold")
    table.add_column("began\nlast activity\n", no_wrap=True)
    table.add_column("turns\ncompressions\n")
    for session in sessions:
        who = ["" if session.character is None else session.character.name, ", ".join(session.participants)]
        about = [_state(current=session.id == current_id), *filter(None, who)]
        head = Text(f"{session.number}", style="bold").append(f"\n{session.id}", style="not bold")
        head.append(f"\n{clean(' · '.join(about))}", style="not bold dim")
        table.add_row(
            head,
            f"{_when(session.started_at)}\n{_last_activity(session)}",
            f"{session.total_turns:,}\n{session.compression_count:,}",
        )
    return table


def _print(session: Session, *, current: bool) -> None:
    character = session.character
    table = Table.grid(padding=(0, 2))
    rows = [
        ("session", f"{session.number}"),
        ("id", session.id),
        ("state", _state(current=current)),
        ("began", f"{_when(session.started_at)}, {'by hand' if session.explicit else 'with its first turn'}"),
        ("last activity", _last_activity(session)),
        ("turns", f"{session.total_turns:,}"),
        ("compressions", f"{session.compression_count:,}"),
        ("participants", ", ".join(session.participants)),
        ("character", "" if character is None else character.name),
        ("personality", "" if character is None else character.personality),
        ("profile", "" if character is None else character.profile),
        ("traits", "" if character is None else ", ".join(character.traits)),
        ("metadata", json.dumps(dict(session.metadata), ensure_ascii=False) if session.metadata else ""),
    ]
    for name, value in rows:
        if value:
            table.add_row(name, Text(clean(value), overflow="fold"))
    out.print(table)


def _state(*, current: bool) -> str:
    return "current" if current else "closed"


def _when(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"


def _last_activity(session: Session) -> str:
    return "" if session.last_activity is None else _when(session.last_activity)


def session_as_json(session: Session, *, current: bool) -> dict[str, Any]:
    """A session with stable keys. `current`: whether a turn said now would belong to it."""
    return {
        "id": session.id,
        "number": session.number,
        "current": current,
        "explicit": session.explicit,
        "started_at": session.started_at.isoformat(),
        "last_activity": None if session.last_activity is None else session.last_activity.isoformat(),
        "after_seq": session.after_seq,
        "total_turns": session.total_turns,
        "compression_count": session.compression_count,
        "participants": list(session.participants),
        "character": None if session.character is None else dataclasses.asdict(session.character),
        "metadata": dict(session.metadata),
    }


# --- history -------------------------------------------------------------------------------------------------
async def history(where: Where, session_id: str | None, *, after: int, limit: int | None) -> int:
    """Print the turns after `after`, oldest first: at most `limit`, or (None) all that there are."""
    following: int | None = after
    turns: list[Turn] = []
    count = 0
    async with agent_of(where) as agent:
        if session_id is not None:
            await _found(where, agent, session_id)
        while following is not None:
            page = await agent.history(session_id, after=following, limit=limit or _ALL_PAGE)
            following, count = page.next, count + len(page.turns)
            if where.as_json:
                turns += page.turns
            else:
                _print_turns(page.turns)
            if limit is not None:
                break
    if where.as_json:
        print_json({"turns": [_turn_as_json(turn) for turn in turns], "next": following})
    elif following is not None:
        options = [] if session_id is None else ["--session", session_id]
        more = where.command("history", *options, "--after", str(following), "--limit", str(limit))
        note(f"More turns follow; go on after {following}: {more}")
    elif not count:
        _note_nothing(where, session_id, after)
    return OK


def _note_nothing(where: Where, session_id: str | None, after: int) -> None:
    what = f"Thread {where.thread_id!r} of user {where.user_id!r}"
    if session_id is not None:
        what = f"Session {session_id}"
    note(f"{what} has no turns{f' after {after}' if after else ''}.")


def _print_turns(turns: Sequence[Turn]) -> None:
    for turn in turns:
        line = Text(f"{turn.seq:>4}  ", style="bold")
        line.append(clean(f"{_when(turn.timestamp)}  {turn.speaker or turn.role}: "), style="not bold dim")
        line.append(clean(turn.content), style="not bold")
        out.print(line, soft_wrap=True)


def _turn_as_json(turn: Turn) -> dict[str, Any]:
    return {
        **turn_as_json(turn),
        "session": turn.session_id,
        "importance": turn.importance,
        "entities": [{"kind": entity.kind, "name": entity.name} for entity in turn.entities],
    }
