"""`memory-agent session …` and `history`: a thread's sittings, and everything that was said in them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from rich.text import Text

from memory_agent.cli.opening import agent_of
from memory_agent.cli.options import LARGEST_SEQ, MemoryTyper, ThreadOptions
from memory_agent.cli.output import (
    clean,
    columns,
    note,
    out,
    picked,
    print_json,
    print_rows,
    say,
    turn_as_json,
    when,
)
from memory_agent.domain import Character
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from memory_agent.cli.opening import Agent
    from memory_agent.domain import Session, Turn

app = MemoryTyper()
group = MemoryTyper(
    name="session",
    no_args_is_help=True,
    help="""Begin a sitting of a thread, and look at those it had.

None has to be begun by hand: a session opens with the first turn, and with the first after one closed
(max_session_hours, max_turns_per_session, session_idle_seconds), with the same people and the same character.

**Start with**: memory-agent session list
""",
)
app.add_typer(group)

CharacterFile = Annotated[
    Path | None,
    typer.Option(
        "--character-file",
        help="The assistant's role: a .json or .toml file with name, personality, profile and traits.",
        exists=True,
        dir_okay=False,
    ),
]
_CHARACTER_KEYS = ("name", "personality", "profile", "traits")


_ID_CHARS: Final = 36
_PAGE: Final = 100
_MAX_PAGE: Final = 10_000
_ALL_PAGE: Final = 1_000
"""Turns that are read at once where all are printed."""


# --- sessions ------------------------------------------------------------------------------------------------
@group.command()
async def start(
    where: ThreadOptions,
    character_file: CharacterFile = None,
    name: Annotated[str | None, typer.Option("--name", help="Or its name here …")] = None,
    personality: Annotated[str | None, typer.Option("--personality", help="… how it is …")] = None,
    profile: Annotated[str | None, typer.Option("--profile", help="… who it is …")] = None,
    trait: Annotated[
        list[str] | None, typer.Option("--trait", help="… and a trait of it (may be repeated).")
    ] = None,
    participant: Annotated[
        list[str] | None, typer.Option("--participant", help="Who takes part (may be repeated).")
    ] = None,
    metadata: Annotated[
        str | None, typer.Option("--metadata", help="Whatever else is to be kept, as a JSON object.")
    ] = None,
) -> None:
    """Begin a new session now; the turns that follow belong to it.

    The session before is closed. What is said of the character comes first in every context.

    **Examples**

        memory-agent session start --user ada --thread salon --name Yuna --trait warm --trait curious

        memory-agent session start --character-file yuna.toml --participant Ada --metadata '{"channel": "web"}'
    """
    character = _character(character_file, name, personality, profile, trait)
    kept = None if metadata is None else _object(metadata)
    async with agent_of(where, new=True) as agent:
        session = await agent.start_session(character, participant or [], kept)
    if where.as_json:
        print_json(session_as_json(session, current=True))
    else:
        as_whom = f" with {session.character.name!r}" if session.character is not None else ""
        line = f"Session {session.number} of thread {session.thread_id!r} is open{as_whom}: {session.id}"
        say(line)


@group.command("list")
async def list_(where: ThreadOptions) -> None:
    """List the thread's sessions, oldest first.

    Below each number stands the id that `session show` and `history --session` take.

    **Examples**

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
        out.print(_table(sessions, current_id))
    else:
        note(f"Thread {where.thread_id!r} of user {where.user_id!r} has no sessions.")


@group.command()
async def show(
    where: ThreadOptions,
    session_id: Annotated[
        str | None, typer.Argument(help="Id of a session.", show_default="the current one")
    ] = None,
) -> None:
    """Show a session: since when, how many turns, who took part, and the character.

    The current one is that which a turn said now would belong to.

    **Examples**

        memory-agent session show --user ada --thread salon

        memory-agent session show 01890a5d-ac96-774b-bcce-b302099a8057 --json
    """
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


async def _found(where: ThreadOptions, agent: Agent, session_id: str) -> Session:
    for session in await agent.sessions():
        if session.id == session_id:
            return session
    raise _unknown(where, session_id)


def _unknown(where: ThreadOptions, session_id: str) -> InvalidInput:
    return InvalidInput(
        f"thread {where.thread_id!r} of user {where.user_id!r} has no session {session_id!r:.80};"
        f" `{where.command('session list')}` lists them"
    )


def _table(sessions: Sequence[Session], current_id: str | None) -> Table:
    """Three lines a session, which fit eighty columns with the id whole, so that it can be copied."""
    names = (
        "+session\nid\nstate · character · participants",
        "began\nlast activity\n",
        "turns\ncompressions\n",
    )
    table = columns(*names, below=1)
    table.columns[0].min_width = _ID_CHARS
    for session in sessions:
        who = ["" if session.character is None else session.character.name, ", ".join(session.participants)]
        about = [_state(current=session.id == current_id), *filter(None, who)]
        head = Text(f"{session.number}", style="bold").append(f"\n{session.id}", style="not bold")
        head.append(f"\n{clean(' · '.join(about))}", style="not bold dim")
        table.add_row(
            head,
            f"{when(session.started_at)}\n{when(session.last_activity)}",
            f"{session.total_turns:,}\n{session.compression_count:,}",
        )
    return table


def _print(session: Session, *, current: bool) -> None:
    character = session.character
    rows = [
        ("session", f"{session.number}"),
        ("id", session.id),
        ("state", _state(current=current)),
        ("began", f"{when(session.started_at)}, {'by hand' if session.explicit else 'with its first turn'}"),
        ("last activity", when(session.last_activity)),
        ("turns", f"{session.total_turns:,}"),
        ("compressions", f"{session.compression_count:,}"),
        ("participants", ", ".join(session.participants)),
        ("character", "" if character is None else character.name),
        ("personality", "" if character is None else character.personality),
        ("profile", "" if character is None else character.profile),
        ("traits", "" if character is None else ", ".join(character.traits)),
        ("metadata", json.dumps(dict(session.metadata), ensure_ascii=False) if session.metadata else ""),
    ]
    print_rows(rows)


def _state(*, current: bool) -> str:
    return "current" if current else "closed"


def session_as_json(session: Session, *, current: bool) -> dict[str, Any]:
    """A session with stable keys. `current`: whether a turn said now would belong to it."""
    return {
        "id": session.id,
        "number": session.number,
        "current": current,
        **picked(
            session,
            "explicit started_at last_activity after_seq total_turns compression_count participants character"
            " metadata",
        ),
    }


# --- history -------------------------------------------------------------------------------------------------
@app.command()
async def history(
    where: ThreadOptions,
    session: Annotated[
        str | None, typer.Option("--session", help="Only of the session of this id.", metavar="ID")
    ] = None,
    after: Annotated[
        int, typer.Option("--after", min=0, max=LARGEST_SEQ, help="Only turns after this number.")
    ] = 0,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, max=_MAX_PAGE, help="Turns at most.", show_default=str(_PAGE)),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="To the end, however many.")] = False,
) -> None:
    """Show what was said, word for word, oldest first, compressed turns as well.

    A page at a time: where more follows, the command that goes on is named. The number in front of a turn is the one
    that --after and `compressed --as-of` take.

    **Examples**

        memory-agent history --user ada --thread work

        memory-agent history --after 100 --limit 20

        memory-agent history --all --json | jq -r '.turns[].content'
    """
    if everything and limit is not None:
        raise typer.BadParameter("--all prints every turn and --limit so many: choose one")
    most = None if everything else limit or _PAGE
    following: int | None = after
    turns: list[Turn] = []
    count = 0
    async with agent_of(where) as agent:
        if session is not None:
            await _found(where, agent, session)
        while following is not None:
            page = await agent.history(session, after=following, limit=most or _ALL_PAGE)
            following, count = page.next, count + len(page.turns)
            if where.as_json:
                turns += page.turns
            else:
                _print_turns(page.turns)
            if most is not None:
                break
    if where.as_json:
        print_json({"turns": [_turn_as_json(turn) for turn in turns], "next": following})
    elif following is not None:
        options = [] if session is None else ["--session", session]
        more = where.command("history", *options, "--after", str(following), "--limit", str(most))
        note(f"More turns follow; go on after {following}: {more}")
    elif not count:
        _note_nothing(where, session, after)


def _note_nothing(where: ThreadOptions, session_id: str | None, after: int) -> None:
    what = f"Thread {where.thread_id!r} of user {where.user_id!r}"
    if session_id is not None:
        what = f"Session {session_id}"
    note(f"{what} has no turns{f' after {after}' if after else ''}.")


def _print_turns(turns: Sequence[Turn]) -> None:
    for turn in turns:
        line = Text(f"{turn.seq:>4}  ", style="bold")
        line.append(clean(f"{when(turn.timestamp)}  {turn.speaker or turn.role}: "), style="not bold dim")
        line.append(clean(turn.content), style="not bold")
        out.print(line, soft_wrap=True)


def _turn_as_json(turn: Turn) -> dict[str, Any]:
    return {**turn_as_json(turn), **picked(turn, "session=session_id importance entities")}


def _character(
    file: Path | None,
    name: str | None,
    personality: str | None,
    profile: str | None,
    traits: list[str] | None,
) -> Character | None:
    """The character that the options describe. Raises BadParameter where they don't fit together."""
    others = (personality, profile, traits)
    if file is not None:
        if name is not None or any(value is not None for value in others):
            raise typer.BadParameter(
                "--character-file says all of the character: leave the other options out"
            )
        return read_character(file)
    if name is None:
        if any(value is not None for value in others):
            raise typer.BadParameter("a character needs a name: give --name as well")
        return None
    return Character(
        name=name, personality=personality or "", profile=profile or "", traits=tuple(traits or ())
    )


def read_character(file: Path) -> Character:
    """The character of a .json or .toml file; its texts are checked when it is stored. Raises BadParameter."""

    def refused(why: str) -> NoReturn:
        raise typer.BadParameter(f"{file} {why}", param_hint="--character-file")

    kind = file.suffix.lower()
    if kind not in (".json", ".toml"):
        refused("is neither a .json nor a .toml file")
    values: Any = None
    try:
        text = file.read_text("utf-8-sig")
        values = json.loads(text) if kind == ".json" else tomllib.loads(text)
    except OSError as exc:
        refused(f"cannot be read: {exc.strerror}")
    except (ValueError, RecursionError) as exc:
        refused(f"is not {kind[1:].upper()}: {exc}")
    if not isinstance(values, dict):
        refused(f"holds a {type(values).__name__}; it must hold an object of {', '.join(_CHARACTER_KEYS)}")
    for key in values:
        if key not in _CHARACTER_KEYS:
            refused(f"has the key {key!r:.80}; known are {', '.join(_CHARACTER_KEYS)}")
    if "name" not in values:
        refused("has no name, which a character needs")
    return Character(**values)


def _object(text: str) -> dict[str, Any]:
    """A JSON object, as --metadata takes it. Raises BadParameter."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{text:.80} is no JSON object", param_hint="--metadata")
    return value
