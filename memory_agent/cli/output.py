"""Output of commands: for people with rich, for scripts as JSON. Errors and progress go to stderr."""

from __future__ import annotations

import dataclasses
import json
import unicodedata
from collections.abc import Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.tree import Tree

    from memory_agent.domain import ExtractionCost, MemoryStatus, Outage, Recollection, Turn, Usage

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

_UNWRAPPED: Final = 100_000


def complain(message: str) -> None:
    """One line on stderr, never wrapped, so that it can be searched for."""
    line = clean(message).replace("\n", " ")
    err.print(Text.assemble(("memory-agent: ", "bold red"), line), soft_wrap=True)


def note(message: str) -> None:
    """A remark on stderr, out of the way of what a script reads."""
    err.print(Text(clean(message), style="dim"), soft_wrap=True)


def _steers(char: str) -> bool:
    """True of what could steer a terminal, or reorder its line; emoji and some scripts need their joiners."""
    return char not in "\n\u200c\u200d" and unicodedata.category(char) in ("Cc", "Cf")


def clean(text: str) -> str:
    """`text` without control characters: what was remembered must not steer the terminal that shows it."""
    return "".join("\ufffd" if _steers(char) and char != "\t" else char for char in text)


def print_json(value: object) -> None:
    """Indented JSON of plain values, values of the domain and times; characters that could steer a terminal are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=_plain)
    typer.echo("".join(json.dumps(char)[1:-1] if _steers(char) else char for char in text))


def line(*parts: str | tuple[str, str]) -> Text:
    """A text of parts that may come from outside, with the styles of those that have one."""
    return Text.assemble(
        *(clean(part) if isinstance(part, str) else (clean(part[0]), part[1]) for part in parts)
    )


def say(*parts: str | tuple[str, str]) -> None:
    """Print parts as `line` does, in whole lines."""
    out.print(line(*parts), soft_wrap=True)


def print_whole(shown: Table | Tree) -> None:
    """Print with lines as wide as the terminal; where nobody looks they stay whole, so that they can be searched for."""
    console = out if out.is_terminal else Console(highlight=False, width=_UNWRAPPED)
    console.print(shown)


def print_table(
    names: Iterable[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    below: int = 0,
    first_width: int | None = None,
    folds: bool = False,
) -> None:
    """Print a table without a frame, with `below` blank lines after each row.

    A name that begins with ">" is of a column of numbers, one with "+" of one that may fold. `first_width`: of the
    first column at least. `folds`: to the console's width, also where nobody looks.
    """
    table = Table(box=None, padding=(0, 2, below, 0), pad_edge=False)
    for name in names:
        overflow: Literal["fold", "ellipsis"] = "fold" if name.startswith("+") else "ellipsis"
        justify: Literal["left", "right"] = "right" if name.startswith(">") else "left"
        table.add_column(name.lstrip(">+"), justify=justify, overflow=overflow, no_wrap=name[0] not in ">+")
    table.columns[0].min_width = first_width
    for row in rows:
        table.add_row(*(line(cell) if isinstance(cell, str) else cell for cell in row))
    (out.print if folds else print_whole)(table)


def when(time: datetime | None) -> str:
    """A time as people read it, in UTC; nothing for none."""
    return "" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"


def grid_of(rows: Iterable[tuple[str, str]]) -> Table:
    """Named values, a line each; empty ones are left out."""
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        if value:
            table.add_row(name, Text(clean(value), overflow="fold"))
    return table


def print_rows(rows: Iterable[tuple[str, str]]) -> None:
    """Print named values as `grid_of` lays them out."""
    out.print(grid_of(rows))


def many(count: int, name: str) -> str:
    """So many of them, as people say it: "1 turn", "72 turns"."""
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


def _plain(value: object) -> object:
    """JSON form of a value that JSON has no type for."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    return value.isoformat() if isinstance(value, datetime) else str(value)


def picked(value: object, names: str) -> dict[str, Any]:
    """The attributes that are named, for `print_json`; those of another name here are written `name=attribute`.

    >>> picked(3 + 4j, "real height=imag")
    {'real': 3.0, 'height': 4.0}
    """
    pairs = (name.partition("=") for name in names.split())
    return {name: getattr(value, attribute or name) for name, _, attribute in pairs}


def in_words(seconds: float) -> str:
    """About how long, in one unit."""
    for unit, word in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= unit:
            return many(int(seconds // unit), word)
    return "< 1 minute"


def turn_as_json(turn: Turn) -> dict[str, Any]:
    """A turn with stable keys."""
    return picked(turn, "id thread=thread_id seq role speaker topic=topic_id timestamp content metadata")


def recollection_as_json(found: Recollection) -> dict[str, Any]:
    """A recollection with stable keys."""
    return {
        **picked(found, "score confidence why similarity explanation replaced_by"),
        "turn": turn_as_json(found.turn),
    }


def print_facts(facts: Mapping[str, Any], *, indent: int = 0) -> None:
    """The facts document as an indented list."""
    for name, value in facts.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        say(" " * indent, (f"{name}: ", "bold"), "" if isinstance(value, dict) else shown)
        if isinstance(value, dict):
            print_facts(value, indent=indent + 2)


def cost_as_json(cost: ExtractionCost) -> dict[str, Any]:
    """An extraction's cost as JSON, with stable keys."""
    return picked(cost, "turns requests prompt_tokens completion_tokens tokens_per_turn seconds")


def cost_text(cost: ExtractionCost) -> str:
    return f"{usage_text(cost)}, {cost.tokens_per_turn:,.0f} tokens a turn"


def usage_text(used: ExtractionCost | Usage) -> str:
    tokens = f"{used.prompt_tokens:,} + {used.completion_tokens:,} tokens"
    return f"{used.requests:,} request(s), {tokens}, {used.seconds:,.1f} s"


def outage_text(outage: Outage) -> Text:
    """An outage in one line: the stage, the part, since when, and its last answer."""
    return Text.assemble(
        (f"{outage.stage} waits for the {outage.part}", "bold yellow"),
        f" since {outage.since:%Y-%m-%d %H:%M:%S} UTC: {clean(outage.error)}",
    )


class CountColumn(ProgressColumn):
    """Progress column: the count done, and the total once it is known."""

    def render(self, task: Task) -> Text:
        of = "" if task.total is None else f" of {task.total:,.0f}"
        return Text(f"{task.completed:,.0f}{of}")


@contextmanager
def progress_bar(label: str, total: int | None = None, *, show: bool) -> Iterator[Callable[..., None]]:
    """A bar on stderr, silent where nobody looks. Call what this yields with how much is done (and of how much)."""
    columns = (TextColumn("{task.description}"), BarColumn(), CountColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, disable=not (show and err.is_terminal)) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done, of=None: progress.update(task, completed=done, total=of)


@contextmanager
def settle_bar(*, show: bool, turns: int | None = None) -> Iterator[Callable[..., None]]:
    """Two bars that count turns: those that search finds, and those that nothing is owed to any more.

    What this yields is called with every status seen, for `settle(progress=…)`, and for a thread with `of` of the turns
    with that and with how many are done `before` it in others. `turns`: how many there are in all, if that is known.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} turns"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, disable=not (show and err.is_terminal)) as progress:
        labels = ("Making searchable", "Topics, facts, summaries")
        bars = [progress.add_task(label, total=turns or 0, visible=False) for label in labels]
        most = [0, 0]

        def moved(status: MemoryStatus, *, before: int = 0, of: int | None = None) -> None:
            for place, owed in enumerate((status.pending.get("index", 0), status.owed_count)):
                most[place] = max(most[place], owed)
                total, done = most[place], most[place] - owed
                if turns is not None and of is not None:  # others may be owed to the thread as well
                    total, done = turns, before + max(of - owed, 0)
                progress.update(bars[place], total=total, completed=done, visible=total > 0)

        yield moved
