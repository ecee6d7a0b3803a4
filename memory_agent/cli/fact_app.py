"""The commands `memory-agent facts …`, with their options and help texts."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

import json
import re
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from memory_agent.cli.options import (
    TENANT,
    THREAD,
    USER,
    AsJson,
    DataDir,
    MemoryTyper,
    Tenant,
    Thread,
    User,
    Where,
)
from memory_agent.cli.running import run, run_plain

app = MemoryTyper(
    name="facts",
    no_args_is_help=True,
    help="""See what is known about the user and where it comes from, and correct it.

Every change stays in the history and says how to undo it. A PATH is keys with dots between them, such as
preferences.meeting_time.

**Start with**: memory-agent facts show
""",
)

FactPath = Annotated[str, typer.Argument(help="Where the fact stands, such as preferences.meeting_time.")]
SomePath = Annotated[
    str | None, typer.Argument(help="Only at and below this path.", show_default="everything")
]
Value = Annotated[
    str, typer.Argument(help="Read as JSON if it is JSON, else as text. After -- it may begin with a dash.")
]
AsText = Annotated[
    bool, typer.Option("--text", help="Take VALUE as text, also if it is JSON, such as 0 or true.")
]


def _where(user: str, thread: str, tenant: str, data_dir: Path | None, as_json: bool) -> Where:
    return Where(user_id=user, thread_id=thread, tenant=tenant, data_dir=data_dir, as_json=as_json)


def _time(value: str | None, option: str, *, or_else: str = "") -> datetime | None:
    """A time with its zone. Raises BadParameter."""
    if value is None:
        return None
    example = "write it like 2026-05-07T19:45:00+02:00"
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        raise typer.BadParameter(f"{value} is no time{or_else}; {example}", param_hint=option) from None
    if time.utcoffset() is None:
        raise typer.BadParameter(f"{value} has no time zone; {example}", param_hint=option)
    return time


def fact_value(text: str, *, as_text: bool) -> Any:
    """What a VALUE means."""
    if as_text:
        return text

    def no_number(name: str) -> NoReturn:
        raise ValueError(name)  # JSON knows neither NaN nor Infinity

    try:
        return json.loads(text, parse_constant=no_number)
    except (ValueError, RecursionError):
        return text


@app.command()
def show(
    path: SomePath = None,
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    scope: Annotated[
        Literal["thread", "user"], typer.Option("--scope", help="This thread, or all threads of the user.")
    ] = "thread",
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", help="Only from what had been said by this time (ISO 8601 with a zone)."),
    ] = None,
    recorded_by: Annotated[
        str | None,
        typer.Option("--recorded-by", help="As it was known here at this time (ISO 8601 with a zone)."),
    ] = None,
    sources: Annotated[
        bool, typer.Option("--sources", help="With --json: the records with their sources, as a list.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is known about the user: each fact with its age, how often it was said, and by whom or in which words.

    With --json the plain document, or what stands at PATH (null: nothing).

    **Examples**

        memory-agent facts show --user ada --scope user

        memory-agent facts show preferences --as-of 2026-05-01T00:00:00Z

        memory-agent facts show --user ada --json | jq .preferences

        memory-agent facts show --json --sources | jq -r '.[].sources[].quote'
    """
    if sources and not as_json:
        raise typer.BadParameter("--sources is for --json: without it sources are shown anyway")
    until, recorded = _time(as_of, "--as-of"), _time(recorded_by, "--recorded-by")
    from memory_agent.cli import facts

    where = _where(user, thread, tenant, data_dir, as_json)
    run(facts.show(where, path, reach=scope, as_of=until, recorded_by=recorded, sources=sources))


@app.command()
def history(
    path: SomePath = None,
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    scope: Annotated[
        Literal["thread", "user"], typer.Option("--scope", help="This thread, or all threads of the user.")
    ] = "thread",
    refused: Annotated[
        bool,
        typer.Option(
            "--refused", help="Also what an extractor stated and was not believed, with the reason."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List every event at, above or below a path, oldest first: what it changed, who said so, what superseded it.

    The number in front is the event's id, for `facts revert --to`.

    **Examples**

        memory-agent facts history occupation --user ada

        memory-agent facts history --refused

        memory-agent facts history --json | jq '.[] | select(.stands)'
    """
    from memory_agent.cli import facts

    run(facts.history(_where(user, thread, tenant, data_dir, as_json), path, refused=refused, reach=scope))


@app.command("set")
def set_(
    path: FactPath,
    value: Value,
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Say yourself what holds at a path, whatever stood there.

    It outranks what was extracted from earlier turns; the user may say otherwise in a later one.

    **Examples**

        memory-agent facts set preferences.meeting_time morning --user ada

        memory-agent facts set preferences.drinks '["tea", "mate"]'

        memory-agent facts set address.postcode 3511 --text
    """
    said = fact_value(value, as_text=as_text)
    from memory_agent.cli import facts

    run(facts.set_fact(_where(user, thread, tenant, data_dir, as_json), path, said))


@app.command()
def add(
    path: FactPath,
    value: Value,
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Say yourself that a value is one more element of the list at a path.

    **Examples**

        memory-agent facts add preferences.likes jazz --user ada
    """
    said = fact_value(value, as_text=as_text)
    from memory_agent.cli import facts

    run(facts.add_fact(_where(user, thread, tenant, data_dir, as_json), path, said))


@app.command()
def retract(
    path: FactPath,
    value: Annotated[
        str | None,
        typer.Argument(help="Only this element of the list at PATH.", show_default="all that is there"),
    ] = None,
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Say yourself that what is known at a path holds no more. Its history stays; `memory-agent forget` erases.

    A fact of another thread of the user may be retracted here as well.

    **Examples**

        memory-agent facts retract occupation --user ada

        memory-agent facts retract preferences.likes jazz
    """
    said = None if value is None else fact_value(value, as_text=as_text)
    if value is not None and said is None:
        raise typer.BadParameter("null is no element of a list; --text takes it as text", param_hint="VALUE")
    from memory_agent.cli import facts

    run(facts.retract(_where(user, thread, tenant, data_dir, as_json), path, said))


@app.command()
def revert(
    path: Annotated[
        str | None,
        typer.Argument(
            help='Where ("": everything). With --replay the id of a replay.',
            metavar="PATH|ID",
            show_default=False,
        ),
    ] = None,
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="An event's id, or a time (ISO 8601 with a zone): how it was then.",
            show_default="before its last event",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole document.")] = False,
    replay_: Annotated[
        bool, typer.Option("--replay", help="Instead: take back a replay (by default the newest).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a path what it was before its last event, after an event, or at a time; or take back a replay.

    Reverting is an event too, and can be reverted.

    **Examples**

        memory-agent facts revert occupation --user ada

        memory-agent facts revert preferences --to 12.0

        memory-agent facts revert --all --to 2026-05-07T19:45:00+02:00

        memory-agent facts revert --replay
    """
    if replay_ and (to is not None or everything):
        raise typer.BadParameter("--replay takes back a whole replay: leave --to and --all out")
    if not replay_ and (path is None) != everything:
        raise typer.BadParameter("give a PATH, or --all for the whole document (not both), or --replay")
    is_id = to is not None and re.fullmatch(r"\d+\.\d+", to)
    then = to if is_id else _time(to, "--to", or_else=" and no id of an event (`facts history` shows them)")
    from memory_agent.cli import facts

    where = _where(user, thread, tenant, data_dir, as_json)
    run(facts.undo_replay(where, path or None) if replay_ else facts.revert(where, path or "", then))


@app.command()
def extract(
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change; nothing does.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--every", help="Also from turns that brought about no fact yet.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Extract facts from the turns that wait for it, parked ones too, and show what that changed.

    A dry run asks the language model as well, if one is configured. Leaves with exit code 3 if turns are parked.

    **Examples**

        memory-agent facts extract --dry-run --user ada

        memory-agent facts extract --every --json | jq '.differences | length'
    """
    from memory_agent.cli import facts

    where = _where(user, thread, tenant, data_dir, as_json)
    run(facts.preview(where, every=every) if dry_run else facts.extract(where, every=every))


@app.command()
def replay(
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="Another chat model of the server.", show_default="fact_extraction_model"
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change; nothing does.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Apply it without asking.")] = False,
    again: Annotated[
        str | None,
        typer.Option(
            "--again", help="Instead: apply the replay of this id again, which was taken back.", metavar="ID"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Extract all facts of a thread anew from its turns, show what would change, and apply that once you say so.

    What people set, retracted or reverted themselves stays. It is applied wholly or not at all, and can be taken
    back. With a language model this asks it about every turn of the user. Without a terminal to ask on, and with
    --json, pass --yes or --dry-run. Leaves with exit code 3 if the replies about some turns could not be read.

    **Examples**

        memory-agent facts replay --dry-run --user ada

        memory-agent facts replay --model gpt-4o --yes --json | jq -r .undo
    """
    if again is not None:
        from memory_agent.cli import facts

        if model is not None or dry_run or yes:
            raise typer.BadParameter("--again applies a replay as it was: it goes with no other option")
        run(facts.replay_again(_where(user, thread, tenant, data_dir, as_json), again))
    if dry_run and yes:
        raise typer.BadParameter("--yes applies it and --dry-run doesn't: choose one")
    if not (dry_run or yes) and (as_json or not sys.stdin.isatty()):
        why = "--json doesn't ask" if as_json else "standard input is no terminal to ask on"
        raise typer.BadParameter(f"{why}: pass --yes to apply what is found, or --dry-run to look at it")
    from memory_agent.cli import facts

    where = _where(user, thread, tenant, data_dir, as_json)
    run_plain(lambda: facts.replay(where, model=model, dry_run=dry_run, yes=yes))
