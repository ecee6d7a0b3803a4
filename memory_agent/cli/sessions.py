"""`memory-agent users`, `threads`, `session …` and `history`: who is remembered, and everything that was said."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import typer

from memory_agent.cli.ask import context_as_json, show_ledger
from memory_agent.cli.opening import agent_of, opened
from memory_agent.cli.options import (
    LARGEST_SEQ,
    PAGE,
    TENANT,
    MemoryTyper,
    TenantOptions,
    ThreadOptions,
    UserOptions,
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
from memory_agent.domain import Character
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

    from rich.text import Text

    from memory_agent.cli.opening import Agent
    from memory_agent.domain import CompressedContext, CompressionMetadata, HistoryPage, Session, Turn

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
    compressed: bool = flag("--compressed", "Instead: what stands for the thread's whole conversation."),
    as_of: int | None = option(
        "--as-of",
        "With --compressed: as it stood at the turn of this number.",
        min=1,
        max=LARGEST_SEQ,
        metavar="TURN",
    ),
    ledger: bool = flag(
        "--ledger", "With --compressed: what was considered for it, and why it is in or not."
    ),
) -> None:
    """Show a session: since when, how many turns, who took part, and the character; or the conversation compressed.

    The current one is that which a turn said now would belong to. Nothing is changed.

    Examples:
        memory-agent session show --user ada --thread salon
        memory-agent session show 01890a5d-ac96-774b-bcce-b302099a8057 --json
        memory-agent session show --compressed --as-of 120
        memory-agent session show --compressed --json | jq .metadata.tokens_saved
    """
    if compressed:
        if session_id is not None:
            raise typer.BadParameter("--compressed stands for the whole thread: leave the id away")
        await _show_compressed(where, as_of, ledger=ledger)
        return
    if as_of is not None or ledger:
        raise typer.BadParameter("--as-of and --ledger go with --compressed")
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


# --- the conversation compressed ----------------------------------------------------------------------------
async def _show_compressed(where: ThreadOptions, as_of: int | None, *, ledger: bool) -> None:
    async with agent_of(where) as agent:
        context = await agent.session_context(as_of)
        last = await agent.fetch_short_term(1)
    newest = last[-1].seq if last else 0
    if as_of is not None and as_of > newest:
        note(f"Thread {where.thread!r} goes up to turn {newest}: this is how it stands now.")
    if ledger:
        show_ledger(context.ledger, as_json=where.as_json)
        _note_sizes(context.metadata)
    elif where.as_json:
        print_json(_compressed_as_json(context))
    else:
        _print_compressed(where, context)


def _print_compressed(where: ThreadOptions, context: CompressedContext) -> None:
    if not context.metadata.original_turns:
        note(f"{where.whose} has no turns to stand for.")
        return
    say(str(context))
    _note_sizes(context.metadata)


def _note_sizes(about: CompressionMetadata) -> None:
    """Print the turns that the context stands for, the tokens it saves, and its summary's source."""
    saved = "nothing is saved yet"
    if about.tokens_saved > 0:
        saved = f"{about.tokens_saved:,} saved ({about.tokens_saved / about.tokens_before:.0%})"
    sizes = f"{about.tokens_before:,} tokens before, {about.tokens_after:,} after"
    note(f"{many(about.original_turns, 'turn')}: {sizes}; {saved}")
    if about.number:
        made = f"from compression {about.number}, up to turn {about.summary_through}, by {about.made_by}"
    elif about.made_by is None:
        made = "none; the conversation is shown whole"
    else:
        made = f"taken from the turns by {about.made_by}; nothing was compressed by then"
    note(f"summary: {made}")


def _compressed_as_json(context: CompressedContext) -> dict[str, Any]:
    metadata = {**dataclasses.asdict(context.metadata), "tokens_saved": context.metadata.tokens_saved}
    return {
        **context_as_json(context),
        "metadata": metadata,
        **picked(context, "reminder summary topics moments facts"),
        "preserved": [turn.id for turn in context.preserved],
        "recent": [turn.id for turn in context.recent],
    }


# --- history -------------------------------------------------------------------------------------------------
@app.command()
async def history(
    where: ThreadOptions,
    session: str | None = option("--session", "Only of the session of this id.", metavar="ID"),
    after: int = option("--after", "Only turns after this number.", 0, min=0, max=LARGEST_SEQ),
    limit: int | None = option("--limit", "Turns at most.", min=1, max=_MAX_PAGE, shown=str(PAGE)),
    everything: bool = flag("--all", "To the end, however many."),
) -> None:
    """Show what was said, word for word, oldest first, compressed turns as well.

    A page at a time: where more follows, the command that goes on is named. The number in front of a turn is the one
    that --after and `session show --as-of` take.

    Examples:
        memory-agent history --user ada --thread work
        memory-agent history --after 100 --limit 20
        memory-agent history --all --json | jq -r '.turns[].content'
    """
    most = page_size(limit, everything, "every turn")
    following: int | None = None
    turns: list[Turn] = []
    count = 0
    async with agent_of(where) as agent:
        if session is not None:
            _found(where, await agent.sessions(), session)
        async for page in _pages(agent, session, after, most):
            following, count = page.next, count + len(page.turns)
            if where.as_json:
                turns += page.turns
            else:
                for turn in page.turns:
                    who = (f"{when(turn.timestamp)}  {turn.speaker or turn.role}: ", "dim")
                    say((f"{turn.seq:>4}  ", "bold"), who, turn.content)
    if where.as_json:
        more_of = "session=session_id importance entities"
        print_json(
            {"turns": [turn_as_json(turn) | picked(turn, more_of) for turn in turns], "next": following}
        )
    elif following is not None:
        options = [] if session is None else ["--session", session]
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


# --- users and threads ---------------------------------------------------------------------------------------
_MAX_LISTED: Final = 1_000
_AFTER: Final[Any] = option("--after", "Only those that sort after this one.", metavar="ID")
_LIMIT: Final[Any] = option("--limit", "How many at most.", min=1, max=_MAX_LISTED, shown=str(PAGE))
_ALL: Final[Any] = flag("--all", "To the end, however many.")


@app.command()
async def users(
    where: TenantOptions, after: str | None = _AFTER, limit: int | None = _LIMIT, everything: bool = _ALL
) -> None:
    """List who is remembered: each user's threads, turns, and when the last one was said.

    By id, a page at a time: where more follows, the command that goes on is named.

    Examples:
        memory-agent users
        memory-agent users --all --json | jq -r '.users[].user'
    """
    most = page_size(limit, everything)
    async with opened(where.data_dir) as service:
        found, following = await _listed(partial(service.users, tenant=where.tenant), "users", after, most)
    if where.as_json:
        shown = [picked(user, "user=user_id threads turns last_activity") for user in found]
        print_json({"users": shown, "next": following})
    elif found:
        rows = [(u.user_id, f"{u.threads:,}", f"{u.turns:,}", when(u.last_activity)) for u in found]
        print_table(("+user", ">threads", ">turns", "last activity"), rows)
        _note_more(where, "users", following, most)
    else:
        whose = "" if where.tenant == TENANT else f" under tenant {where.tenant!r}"
        note(f"Nobody is remembered{whose} yet.")


@app.command()
async def threads(
    where: UserOptions, after: str | None = _AFTER, limit: int | None = _LIMIT, everything: bool = _ALL
) -> None:
    """List a user's threads: how many turns each has, and when the last one was said.

    Of an unknown user the nearest names are told, with exit code 1.

    Examples:
        memory-agent threads --user ada
        memory-agent threads --user ada --json | jq -r '.threads[] | select(.turns > 100) | .thread'
    """
    most = page_size(limit, everything)
    async with opened(where.data_dir) as service:
        ask = partial(service.threads, where.user, tenant=where.tenant)
        found, following = await _listed(ask, "threads", after, most)
    if where.as_json:
        shown = [picked(thread, "thread=thread_id turns last_activity") for thread in found]
        print_json({"user": where.user, "threads": shown, "next": following})
    else:
        rows = [(thread.thread_id, f"{thread.turns:,}", when(thread.last_activity)) for thread in found]
        print_table(("+thread", ">turns", "last activity"), rows)
        _note_more(where, "threads", following, most)


async def _listed(
    ask: Callable[..., Awaitable[Any]], what: str, after: str | None, most: int | None
) -> tuple[list[Any], str | None]:
    """A page of at most so many, or (None) all of them; and what the next one is to follow."""
    page = await ask(after=after, limit=most or _MAX_LISTED)
    found = [*getattr(page, what)]
    while page.next is not None and most is None:
        page = await ask(after=page.next, limit=_MAX_LISTED)
        found += getattr(page, what)
    return found, page.next


def _note_more(where: ThreadOptions, what: str, after: str | None, limit: int | None) -> None:
    if after is not None:
        options = ["--after", after, *([] if limit is None else ["--limit", str(limit)])]
        note(f"More {what} follow; go on: {where.command(what, *options)}")
