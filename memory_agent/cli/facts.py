"""`memory-agent facts …`: facts shown with their sources, and changed with a word on how to undo it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.tree import Tree

from memory_agent.cli.opening import agent_of, opened, say_if_unknown, tell_if_idle
from memory_agent.cli.options import (
    OK,
    SCOPE,
    TENANT,
    THREAD,
    UNFINISHED,
    USER,
    MemoryTyper,
    ThreadOptions,
    UserOptions,
    argument,
    flag,
    option,
    read_time,
)
from memory_agent.cli.output import in_words, line, many, note, picked, print_json, print_whole, say, when
from memory_agent.cli.status import NO_TIMEOUT, PATIENCE, settled, tell_what_is_owed
from memory_agent.domain import PERSON, UNNAMED, Reach, Scope  # Reach is read when the command is declared
from memory_agent.errors import TurnsParked
from memory_agent.facts.edits import typed_value
from memory_agent.facts.fold import Folded, document_of
from memory_agent.text.sentences import shortened

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from memory_agent.cli.opening import Agent
    from memory_agent.domain import FactRecord, FactSource

app = MemoryTyper(
    name="facts",
    no_args_is_help=True,
    help="""See what is known about the user and where it comes from, and correct it.

Every change stays in the history and says how to undo it. A PATH is keys with dots between them, such as
preferences.meeting_time.

**Start with**: memory-agent facts show
""",
)

PATH: Final[Any] = argument("Where the fact stands, such as preferences.meeting_time.")
SOME_PATH: Final[Any] = argument("Only at and below this path.", None, shown="everything")
VALUE: Final[Any] = argument("Read as JSON if it is JSON, else as text. After -- it may begin with a dash.")
ABOUT: Final[Any] = option("--about", "Whose facts: the name of one of several speakers.", metavar="NAME")
AS_TEXT: Final[Any] = flag("--text", "Take VALUE as text, also if it is JSON, such as 0 or true.")
_TICK: Final = timedelta(milliseconds=1)
"""What times are kept to."""


async def known_facts(agent: Agent, reach: Reach, **which: Any) -> Folded:
    """The facts of each person with the records that they come from. `which`: as `fetch_facts` takes it."""
    document = await agent.fetch_facts(scope=reach, **which)
    records = await agent.fact_history(scope=reach, **which)
    stated = (record for record in records if record.refused is None and record.op in ("set", "add"))
    names = list(dict.fromkeys(record.subject for record in stated)) or [UNNAMED]
    people: dict[str, dict[str, Any]]
    people = {names[0]: document} if len(names) == 1 else {name: document.get(name, {}) for name in names}
    return Folded(people=people, records=tuple(records))


def _keys(path: str | None) -> tuple[str, ...]:
    """The keys of a path; () for the whole document."""
    from memory_agent.facts.edits import checked_path  # the rules of words behind it take a moment

    return checked_path(path) if path else ()


# --- looking -------------------------------------------------------------------------------------------------
@app.command()
async def show(
    where: ThreadOptions,
    path: str | None = SOME_PATH,
    scope: Reach = SCOPE,
    about: str | None = ABOUT,
    as_of: str | None = option(
        "--as-of", "Only from what had been said by this time (ISO 8601 with a zone)."
    ),
    recorded_by: str | None = option(
        "--recorded-by", "As it was known here at this time (ISO 8601 with a zone)."
    ),
    sources: bool = flag("--sources", "With --json: the records with their sources, as a list."),
) -> None:
    """Show what is known about the user: each fact with its age, how often it was said, and by whom or in which words.

    Where facts of several speakers are known, each person's under their name. With --json the plain document, or what
    stands at PATH (null: nothing).

    Examples:
        memory-agent facts show --user ada --scope thread
        memory-agent facts show preferences --as-of 2026-05-01T00:00:00Z
        memory-agent facts show --user ada --json | jq .preferences
        memory-agent facts show --json --sources | jq -r '.[].sources[].quote'
    """
    if sources and not where.as_json:
        raise typer.BadParameter("--sources is for --json: without it sources are shown anyway")
    until, recorded = read_time(as_of, "--as-of"), read_time(recorded_by, "--recorded-by")
    keys = _keys(path)
    async with agent_of(where, reach=scope) as agent:
        known = await known_facts(agent, scope, about=about, as_of=until, recorded_by=recorded)
        waiting = 0 if where.as_json or until or recorded else (await agent.status()).pending.get("facts", 0)
    parts = {name: at_path(facts, keys) for name, facts in known.people.items()}
    several = len(parts) > 1
    found = {name: part for name, part in parts.items() if part} if several else next(iter(parts.values()))
    if where.as_json and sources:
        there = {id(one.record) for one in known.values if one.path[: len(keys)] == keys}
        print_json([record_as_json(record) for record in known.standing() if id(record) in there])
    elif where.as_json:
        print_json(found)
    elif found:
        title = _title(where, scope, until, recorded)
        print_known(title, known, keys, now=datetime.now(UTC), here=where.thread)
    else:
        _note_nothing(where, keys, scope, then=until is not None or recorded is not None)
    if waiting:
        note(f"{many(waiting, 'turn')} of this thread are still to be read for facts.")


@app.command()
async def extract(
    where: ThreadOptions,
    text: str = argument("What a user says; or messages, each behind `User:` or `Assistant:`."),
) -> None:
    """Say what would be noted of a text as facts. Nothing is stored.

    Examples:
        memory-agent facts extract "I'm John, a developer"
        memory-agent facts extract "User: I live in Oslo." | jq .location
    """
    async with opened(where.data_dir, new=True) as service:
        print_json(await where.agent(service).extract_facts(text))


def _title(where: ThreadOptions, reach: Reach, as_of: datetime | None, recorded_by: datetime | None) -> str:
    title = f"Known about user {where.user!r}"
    title += f" from thread {where.thread!r}" if reach == "thread" else " from all threads"
    if as_of is not None:
        title += f", as of {as_of.isoformat()}"
    if recorded_by is not None:
        title += f", as recorded by {recorded_by.isoformat()}"
    return title


def _note_nothing(where: ThreadOptions, path: tuple[str, ...], reach: Reach, *, then: bool) -> None:
    at = f" at {path_text(path)}" if path else ""
    thread = f" from thread {where.thread!r}; --scope user looks at all threads" if reach == "thread" else ""
    known = "were known" if then else "are known"
    note(f"No facts {known} about user {where.user!r}{at}{' then' if then else ' yet'}{thread}.")


@app.command()
async def history(
    where: ThreadOptions,
    path: str | None = SOME_PATH,
    scope: Reach = SCOPE,
    about: str | None = ABOUT,
    refused: bool = flag("--refused", "Also what an extractor stated and was not believed, with the reason."),
) -> None:
    """List every event at, above or below a path, oldest first: what it changed, who said so, what superseded it.

    The number in front is the event's id, for `facts revert --to`.

    Examples:
        memory-agent facts history occupation --user ada
        memory-agent facts history --refused
        memory-agent facts history --json | jq '.[] | select(.stands)'
    """
    async with agent_of(where, reach=scope) as agent:
        records = await agent.fact_history(path or None, scope=scope, about=about)
    shown = [record for record in records if refused or record.refused is None]
    if where.as_json:
        print_json([record_as_json(record) for record in shown])
    else:
        print_history(shown)
    if not shown:
        at = f" at {path_text(_keys(path))}" if path else ""
        whose = f"thread {where.thread!r} of " if scope == "thread" else ""
        note(f"The history of {whose}user {where.user!r} holds no fact{at}.")
    if left_out := len(records) - len(shown):
        note(f"{left_out:,} refused item(s) left out; --refused shows them with the reason")


# --- changing ------------------------------------------------------------------------------------------------
@app.command("set")
async def set_(
    where: ThreadOptions,
    path: str = PATH,
    value: str = VALUE,
    as_text: bool = AS_TEXT,
    about: str | None = ABOUT,
) -> None:
    """Say yourself what holds at a path, whatever stood there.

    It outranks what was extracted from earlier turns; the user may say otherwise in a later one.

    Examples:
        memory-agent facts set preferences.meeting_time morning --user ada
        memory-agent facts set preferences.drinks '["tea", "mate"]'
        memory-agent facts set address.postcode 3511 --text
    """
    said = fact_value(value, as_text=as_text)
    await _edit(where, path, lambda agent: agent.set_fact(path, said, about=about), about=about, new=True)


@app.command()
async def add(
    where: ThreadOptions,
    path: str = PATH,
    value: str = VALUE,
    as_text: bool = AS_TEXT,
    about: str | None = ABOUT,
) -> None:
    """Say yourself that a value is one more element of the list at a path.

    Examples:
        memory-agent facts add preferences.likes jazz --user ada
    """
    said = fact_value(value, as_text=as_text)
    await _edit(where, path, lambda agent: agent.add_fact(path, said, about=about), about=about, new=True)


@app.command()
async def retract(
    where: ThreadOptions,
    path: str = PATH,
    value: str | None = argument("Only this element of the list at PATH.", None, shown="all that is there"),
    as_text: bool = AS_TEXT,
    about: str | None = ABOUT,
) -> None:
    """Say yourself that what is known at a path holds no more. Its history stays; `memory-agent forget` erases.

    A fact of another thread of the user may be retracted here as well.

    Examples:
        memory-agent facts retract occupation --user ada
        memory-agent facts retract preferences.likes jazz
    """
    said = None if value is None else fact_value(value, as_text=as_text)
    if value is not None and said is None:
        raise typer.BadParameter("null is no element of a list; --text takes it as text", param_hint="VALUE")
    await _edit(
        where, path, lambda agent: agent.retract_fact(path, said, about=about), about=about, element=said
    )


@app.command()
async def revert(
    where: ThreadOptions,
    path: str | None = argument('Where ("": everything).', None, shown=False),
    to: str | None = option(
        "--to",
        "An event's id, or a time (ISO 8601 with a zone): how it was then.",
        shown="before its last event",
    ),
    everything: bool = flag("--all", "The whole document."),
    about: str | None = ABOUT,
) -> None:
    """Make a path what it was before its last event, after an event, or at a time.

    Reverting is an event too, and can be reverted.

    Examples:
        memory-agent facts revert occupation --user ada
        memory-agent facts revert preferences --to 12.0
        memory-agent facts revert --all --to 2026-05-07T19:45:00+02:00
    """
    if (path is None) != everything:
        raise typer.BadParameter("give a PATH, or --all for the whole document (not both)")
    then: str | datetime | None = to
    if to is None or not re.fullmatch(r"(?:.+/)?\d+\.\d+", to):
        then = read_time(to, "--to", or_else=" and no id of an event (`facts history` shows them)")
    await _edit(
        where, path or "", lambda agent: agent.revert_fact(path or "", then, about=about), about=about
    )


async def _edit(
    where: ThreadOptions,
    path: str,
    edit: Callable[[Agent], Awaitable[FactRecord]],
    *,
    about: str | None,
    element: Any = None,
    new: bool = False,
) -> None:
    """Make an edit; print what it changed at its path, and the command that undoes it."""
    keys = _keys(path)
    async with agent_of(where, new=new) as agent:
        before, user_before = await known_facts(agent, "thread"), await known_facts(agent, "user")
        record = await edit(agent)
        after, user_after = await known_facts(agent, "thread"), await known_facts(agent, "user")

    def told(known: Folded) -> Any:
        return at_path(document_of(known.people, record.subject), keys)

    here, everywhere = (told(before), told(after)), (told(user_before), told(user_after))
    whose = [] if about is None else ["--about", about]
    undo = None
    if _differ(*here):
        undo = _revert_command(where, keys, whose, before.records, record)
    elif _differ(*everywhere):  # a fact of another thread, which reverting this one doesn't bring back
        here, undo = everywhere, _say_again_command(where, keys, whose, everywhere[0], element)
    if where.as_json:
        changed = {"path": ".".join(keys), "before": here[0], "after": here[1], "undo": undo}
        print_json({**changed, "record": record_as_json(record)})
    elif undo is None:
        say(f"Nothing changed: {path_text(keys)} is {_value(here[1])}.")
    else:
        say(f"{path_text(keys)}: {_value(here[0])} → {_value(here[1])}. Undo: {undo}")


def _value(value: Any) -> str:
    return "(nothing)" if value in (None, {}) else value_text(value)


def _revert_command(
    where: ThreadOptions,
    path: tuple[str, ...],
    whose: Sequence[str],
    earlier: Sequence[FactRecord],
    edit: FactRecord,
) -> str:
    """The command that restores `path` as it was before `edit`, also after later turns."""
    before = edit.recorded_at - _TICK
    counted = [record for record in earlier if record.refused is None]
    # Turns may be dated ahead of us; then only the event itself names the moment.
    ahead = counted and max(record.last_seen for record in counted) > before
    to = counted[-1].id if ahead else before.isoformat()
    return where.command("facts revert", *([".".join(path)] if path else ["--all"]), *whose, "--to", to)


def _say_again_command(
    where: ThreadOptions, path: tuple[str, ...], whose: Sequence[str], value: Any, element: Any
) -> str:
    verb, said = ("facts set", value) if element is None else ("facts add", element)
    return where.command(verb, *whose, ".".join(path), "--", json.dumps(said, ensure_ascii=False))


def _differ(one: Any, other: Any) -> bool:
    """True if two values differ; 1 differs from true."""
    return json.dumps(one) != json.dumps(other)


# --- extracted again -----------------------------------------------------------------------------------------
@app.command()
async def reextract(
    where: UserOptions,
    thread: str | None = option("--thread -t", "Of which conversation.", shown="all"),
    everybody: bool = flag(
        "--all", "Everybody's, some users after the other; interrupted, the next one goes on."
    ),
    patience: float = PATIENCE,
) -> int:
    """Extract facts again from all stored turns of a user, a thread or everybody, and wait until it is done.

    After a change of the model, or of what finds facts. What is known counts until a thread's turns are all read;
    then what they state now does. What people set, retracted or reverted stays. Interrupted, it goes on with the next
    worker, or with this command again. Leaves with exit code 3 while a part is down or turns are parked.

    Examples:
        memory-agent facts reextract --user ada
        memory-agent facts reextract --user ada --thread work
        memory-agent facts reextract --all
    """
    if everybody and (where.user, where.tenant, thread) != (USER, TENANT, None):
        raise typer.BadParameter("--all is for everybody; leave out --user, --thread and --tenant")
    scope = None if everybody else Scope.of(where.user, thread, tenant=where.tenant)
    turns = users = 0
    left = None
    async with opened(where.data_dir, works=True) as service:
        if not everybody:
            await say_if_unknown(
                service.agent(where.user, thread or THREAD, tenant=where.tenant),
                reach="user" if thread is None else "thread",
            )
        while left is None:
            step = await service.reextract_facts(scope)
            turns, users = turns + step.turns, step.users
            await tell_if_idle(service)
            try:
                left = await settled(
                    service,
                    lambda moved: service.settle(NO_TIMEOUT, scope=scope, progress=moved),
                    patience=patience,
                    show=not where.as_json,
                    scope=scope,
                )
            except TurnsParked:
                if step.done >= step.users:
                    raise  # not before: nobody else's need wait for a turn that fails
            if everybody and step.users:
                note(f"{step.done:,} of {many(step.users, 'user')} done")
            if step.done >= step.users:
                break
    if where.as_json:
        print_json({"turns": turns, "users": users, "done": left is None})
    elif left is None:
        say(f"Facts were extracted again from {many(turns, 'turn')}.")
    else:
        tell_what_is_owed(left, where.data_dir)
    return OK if left is None else UNFINISHED


# --- what is typed ------------------------------------------------------------------------------------------
def fact_value(text: str, *, as_text: bool) -> Any:
    """The value of a VALUE argument: JSON, or text."""
    return text if as_text else typed_value(text)


Path = tuple[str, ...]

_QUOTE_CHARS: Final = 160


# --- words ---------------------------------------------------------------------------------------------------
def path_text(path: Path, subject: str = UNNAMED) -> str:
    """A path as people write it, after the name of whose fact it is, if there is one.

    >>> path_text(("preferences", "meeting_time")), path_text((), "Ann")
    ('preferences.meeting_time', 'Ann, everything')
    """
    whose = "" if subject == UNNAMED else f"{_one_line(subject)}, "
    return whose + (".".join(path) or "everything")


def value_text(value: Any) -> str:
    """A value on one line: texts as they are, all else as JSON."""
    return _one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _origin(sources: Iterable[FactSource], *, here: str | None = None) -> list[str]:
    """The newest of a fact's sources: a person, or the words of a turn; and its thread, unless that is `here` or it is None."""
    source = max(sources, key=lambda source: source.said_at)
    words = ["person" if source.extractor == PERSON else "a turn that is gone"]
    if source.turn_id is not None:
        quote = shortened(source.quote or "", _QUOTE_CHARS)
        words = [*([f'"{quote}"'] if quote else []), f"turn {source.turn_id}"]
    return [*words, *([] if here in (None, source.thread_id) else [f"thread {source.thread_id!r}"])]


# --- what is known -------------------------------------------------------------------------------------------
def at_path(document: Any, path: Path) -> Any:
    """The value at `path` of a document; None if there is none."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def print_known(title: str, known: Folded, path: Path, *, now: datetime, here: str) -> None:
    """A tree of what stands at `path`, of several people under their names: each value with its age, how often it was
    said and by whom. `here`: the thread that need not be named.
    """
    several = len(known.people) > 1
    branches: dict[Path, Tree] = {(): Tree(line((title, "bold")), guide_style="dim")}

    def branch(keys: Path) -> Tree:
        if keys not in branches:
            style = "bold" if several and len(keys) == 1 else "bold cyan"
            branches[keys] = branch(keys[:-1]).add(line((keys[-1], style)))
        return branches[keys]

    for one in known.values:
        if one.path[: len(path)] == path:
            whose = (_one_line(one.subject),) if several else ()
            keys = (*whose, *one.path[max(len(path) - 1, 0) :])
            name = "" if one.in_list else f"{keys[-1]}: "
            about = "" if one.record is None else f"  ({_about(one.record, now=now, here=here)})"
            leaf = line((name, "bold cyan"), value_text(one.value), (about, "dim"))
            branch(keys if one.in_list else keys[:-1]).add(leaf)
    print_whole(branches[()])


def _about(record: FactRecord, *, now: datetime, here: str) -> str:
    times = {1: "once", 2: "twice"}.get(len(record.sources), f"{len(record.sources):,} times")
    words = [f"{in_words((now - record.last_seen).total_seconds())} ago", f"said {times}"]
    words += _origin(record.sources, here=here)
    if record.valid_from is not None:
        words.append(f"since {record.valid_from}")
    if record.confidence < 1:
        words.append(f"confidence {record.confidence:.2f}")
    return " · ".join(words)


# --- how it came about ---------------------------------------------------------------------------------------
def print_history(records: Iterable[FactRecord]) -> None:
    """One event after the other: what it did, below it who said so and what became of it."""
    for record in records:
        _print_event(record)
        for source in record.sources:
            words = _origin([source]) if source.turn_id is not None else []
            _detail(" · ".join([f"said {when(source.said_at)} by {source.extractor}", *words]))
        if record.refused is not None:
            _detail(f"refused: {_one_line(record.refused)}")
        elif record.superseded_by is not None:
            _detail(f"superseded by {record.superseded_by}")


def _print_event(record: FactRecord) -> None:
    withheld = record.refused is not None and not record.path
    shown = record.value is not None and not withheld
    was = record.old is not None and record.op != "remove"
    say(
        (record.id, "bold"),
        f"  {when(record.said_at)}  {record.op if record.refused is None else 'refused':<7}  ",
        ("(withheld)" if withheld else path_text(record.path, record.subject), "cyan"),
        f": {value_text(record.value)}" if shown else "",
        (f"  (was {value_text(record.old)})" if was else "", "dim"),
        ("  stands" if record.stands else "", "green"),
    )


def _detail(words: str) -> None:
    say((f"      {words}", "dim"))


# --- JSON ----------------------------------------------------------------------------------------------------
def record_as_json(record: FactRecord) -> dict[str, Any]:
    """An event with stable keys."""
    about = "old by sources confidence valid_from said_at recorded_at last_seen stands superseded_by refused"
    path = ".".join(record.path)
    return {**picked(record, "id thread_id op subject"), "path": path, **picked(record, f"value {about}")}
