"""`memory-agent session …` and `history`: a thread's sittings, and everything that was said in them."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003 - read when the command is declared
from typing import TYPE_CHECKING, Any, Final

import typer

from memory_agent.cli.opening import agent_of
from memory_agent.cli.options import (
    LARGEST_SEQ,
    PAGE,
    MemoryTyper,
    ThreadOptions,
    argument,
    flag,
    option,
    page_size,
)
from memory_agent.cli.output import (
    line,
    many,
    note,
    picked,
    print_json,
    print_rows,
    print_table,
    say,
    turn_as_json,
    when,
)
from memory_agent.cli.report import new_report
from memory_agent.domain import Character
from memory_agent.errors import InvalidInput
from memory_agent.exports.files import check_new

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from rich.text import Text

    from memory_agent.cli.opening import Agent
    from memory_agent.domain import HistoryPage, Session, Turn

app = MemoryTyper()
group = MemoryTyper(
    name="session",
    no_args_is_help=True,
    help="""Look at the sittings of a thread.

A session opens with the first turn, and with the first after one closed
(after a day, 1,000 turns, or session_idle_seconds without a turn), with the same people and the same character. Beginning one by hand is for programs (`start_session`).

**Start with**: memory-agent session list
""",
)
app.add_typer(group)

_ID_CHARS: Final = 36
_MAX_PAGE: Final = 10_000
_ALL_PAGE: Final = 1_000
"""Turns that are read at once where all are printed."""


# --- sessions ------------------------------------------------------------------------------------------------
@group.command("list")
async def list_(where: ThreadOptions) -> None:
    """List the thread's sessions, oldest first.

    Below each number stands the id that `session show` and `history --session` take.

    Examples:
        memory-agent session list --user ada --thread salon
        memory-agent session list --json | jq -r '.[] | select(.current) | .id'
    """
    async with agent_of(where) as agent:
        sessions = await agent.sessions()
        current = await agent.current_session()
    current_id = None if current is None else current.id
    if where.as_json:
        print_json([session_as_json(session, current=session.id == current_id) for session in sessions])
    elif sessions:
        # Three lines a session, which fit eighty columns with the id whole, so that it can be copied.
        about = "+session\nid\nstate · character · participants"
        names = (about, "began\nlast activity\n", "turns\ncompressions\n")
        rows = [_row(session, current=session.id == current_id) for session in sessions]
        print_table(names, rows, below=1, first_width=_ID_CHARS, folds=True)
    else:
        note(f"{where.whose} has no sessions.")


@group.command()
async def show(
    where: ThreadOptions,
    session_id: str | None = argument("Id of a session.", None, shown="the current one"),
) -> None:
    """Show a session: since when, how many turns, who took part, and the character.

    The current one is that which a turn said now would belong to.

    Examples:
        memory-agent session show --user ada --thread salon
        memory-agent session show 01890a5d-ac96-774b-bcce-b302099a8057 --json
    """
    async with agent_of(where) as agent:
        current = await agent.current_session()
        session = current if session_id is None else _found(where, await agent.sessions(), session_id)
    if session is None:
        raise InvalidInput(
            f"thread {where.thread!r} of user {where.user!r} has no current session: the next turn opens one;"
            f" `{where.command('session list')}` lists those it had"
        )
    is_current = current is not None and session.id == current.id
    if where.as_json:
        print_json(session_as_json(session, current=is_current))
    else:
        _print(session, current=is_current)


def _found(where: ThreadOptions, sessions: Iterable[Session], session_id: str) -> Session:
    for session in sessions:
        if session.id == session_id:
            return session
    raise InvalidInput(
        f"thread {where.thread!r} of user {where.user!r} has no session {session_id!r:.80};"
        f" `{where.command('session list')}` lists them"
    )


def _row(session: Session, *, current: bool) -> list[Text | str]:
    who = ["" if session.character is None else session.character.name, ", ".join(session.participants)]
    about = " · ".join([_state(current=current), *filter(None, who)])
    return [
        line((f"{session.number}", "bold"), f"\n{session.id}", (f"\n{about}", "dim")),
        f"{when(session.started_at)}\n{when(session.last_activity)}",
        f"{session.total_turns:,}\n{session.compression_count:,}",
    ]


def _print(session: Session, *, current: bool) -> None:
    character = session.character or Character(name="")
    print_rows(
        [
            ("session", f"{session.number}"),
            ("id", session.id),
            ("state", _state(current=current)),
            (
                "began",
                f"{when(session.started_at)}, {'by hand' if session.explicit else 'with its first turn'}",
            ),
            ("last activity", when(session.last_activity)),
            ("turns", f"{session.total_turns:,}"),
            ("compressions", f"{session.compression_count:,}"),
            ("participants", ", ".join(session.participants)),
            ("character", character.name),
            ("personality", character.personality),
            ("profile", character.profile),
            ("traits", ", ".join(character.traits)),
            ("metadata", json.dumps(dict(session.metadata), ensure_ascii=False) if session.metadata else ""),
        ]
    )


def _state(*, current: bool) -> str:
    return "current" if current else "closed"


def session_as_json(session: Session, *, current: bool) -> dict[str, Any]:
    """A session with stable keys. `current`: whether a turn said now would belong to it."""
    about = "explicit started_at last_activity after_seq total_turns compression_count participants character"
    return {**picked(session, "id number"), "current": current, **picked(session, f"{about} metadata")}


# --- history -------------------------------------------------------------------------------------------------
@app.command()
async def history(
    where: ThreadOptions,
    session: str | None = option("--session", "Only of the session of this id.", metavar="ID"),
    after: int = option("--after", "Only turns after this number.", 0, min=0, max=LARGEST_SEQ),
    limit: int | None = option("--limit", "Turns at most.", min=1, max=_MAX_PAGE, shown=str(PAGE)),
    everything: bool = flag("--all", "To the end, however many."),
    html: Path | None = option(
        "--html", "Write it into this new file instead, as a page to send to somebody.", metavar="FILE"
    ),
) -> None:
    """Show what was said, word for word, oldest first, compressed turns as well.

    A page at a time: where more follows, the command that goes on is named. The number in front of a turn is the one
    that --after and `compressed --as-of` take. With --html everything goes into one file, what is known and the topics of
    the thread too; it has no script and loads nothing.

    Examples:
        memory-agent history --user ada --thread work
        memory-agent history --after 100 --limit 20
        memory-agent history --user ada --html ada.html
        memory-agent history --all --json | jq -r '.turns[].content'
    """
    if html is not None and where.as_json:
        raise typer.BadParameter("--html writes a page and --json prints for programs: choose one")
    if html is not None:
        check_new(html)
    most = page_size(limit, everything or (html is not None and limit is None), "every turn")
    following: int | None = None
    turns: list[Turn] = []
    count = 0
    async with agent_of(where) as agent:
        if session is not None:
            _found(where, await agent.sessions(), session)
        pages = _pages(agent, session, after, most)
        if html is not None:
            pages = _into_report(html, where, agent, pages)
        async for page in pages:
            following, count = page.next, count + len(page.turns)
            if where.as_json:
                turns += page.turns
            elif html is None:
                for turn in page.turns:
                    who = (f"{when(turn.timestamp)}  {turn.speaker or turn.role}: ", "dim")
                    say((f"{turn.seq:>4}  ", "bold"), who, turn.content)
    if html is not None and count:
        note(f"Wrote {many(count, 'turn')} into {html}. Whoever has the file can read them.")
    if where.as_json:
        more_of = "session=session_id importance entities"
        print_json(
            {"turns": [turn_as_json(turn) | picked(turn, more_of) for turn in turns], "next": following}
        )
    elif following is not None:
        options = [] if session is None else ["--session", session]
        if html is not None:
            options += ["--html", str(html.with_stem(f"{html.stem}-{following}"))]
        more = where.command("history", *options, "--after", str(following), "--limit", str(most))
        note(f"More turns follow; go on after {following}: {more}")
    elif not count:
        whose = where.whose if session is None else f"Session {session}"
        note(f"{whose} has no turns{f' after {after}' if after else ''}.")


async def _pages(
    agent: Agent, session: str | None, after: int, most: int | None
) -> AsyncGenerator[HistoryPage, None]:
    """The page of `most` turns, or (None) one after the other to the end."""
    following: int | None = after
    while following is not None:
        page = await agent.history(session, after=following, limit=most or _ALL_PAGE)
        yield page
        following = page.next if most is None else None


async def _into_report(
    file: Path, where: ThreadOptions, agent: Agent, pages: AsyncGenerator[HistoryPage, None]
) -> AsyncGenerator[HistoryPage, None]:
    """The pages, each once it is written; none makes no file."""
    first = await anext(pages)
    if first.turns:
        sessions, topics = await agent.sessions(), await agent.topics(include_archived=True)
        facts = await agent.fetch_facts(scope="thread")
        with new_report(file, where, sessions=sessions, topics=topics, facts=facts) as write:
            write(first.turns)
            yield first
            async for page in pages:
                write(page.turns)
                yield page
