"""Output of facts: a tree with sources, a history; and JSON with stable keys."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rich.tree import Tree

from memory_agent.cli.output import (
    in_words,
    line,
    picked,
    print_whole,
    say,
    when,
)
from memory_agent.domain import UNNAMED
from memory_agent.text.sentences import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from memory_agent.domain import FactRecord, FactSource
    from memory_agent.facts.fold import Folded

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
    words = ["person"]
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
