"""Output of facts: a tree with sources, a history, changes; and JSON with stable keys."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from memory_agent.cli.output import clean, cost_as_json, cost_text, in_words, note, out, picked, when
from memory_agent.facts.compare import leaves
from memory_agent.facts.tree import fact_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from memory_agent.domain import ExtractionCost, FactRecord, FactSource
    from memory_agent.facts.compare import FactDifference
    from memory_agent.facts.replay import FactProposal

Path = tuple[str, ...]

_QUOTE_CHARS: Final = 160
_UNWRAPPED: Final = 100_000
_SIGNS: Final = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """Changes of an extraction, made or previewed."""

    extractor: str
    turns: int
    differences: tuple[FactDifference, ...]
    refused: tuple[FactRecord, ...]
    failed: tuple[tuple[str, str], ...]
    cost: ExtractionCost

    @classmethod
    def of(cls, proposal: FactProposal) -> Overview:
        """The changes that applying the proposal would make."""
        return cls(**picked(proposal, "extractor turns differences refused failed cost"))


# --- words ---------------------------------------------------------------------------------------------------
def path_text(path: Path) -> str:
    """A path as people write it.

    >>> path_text(("preferences", "meeting_time")), path_text(())
    ('preferences.meeting_time', 'everything')
    """
    return ".".join(path) or "everything"


def value_text(value: Any) -> str:
    """A value on one line: texts as they are, all else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _one_line(text)


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())


def _quoted(text: str) -> str:
    line = _one_line(text)
    return f'"{line if len(line) <= _QUOTE_CHARS else line[: _QUOTE_CHARS - 1] + "…"}"'


def _origin(source: FactSource, *, threads: bool = False) -> list[str]:
    """A fact's source: a person, or the words of a turn."""
    words = ["person"]
    if source.turn_id is not None:
        words = [*([_quoted(source.quote)] if source.quote else []), f"turn {source.turn_id}"]
    return [*words, *([f"thread {source.thread_id!r}"] if threads else [])]


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count:,} times"


# --- what is known -------------------------------------------------------------------------------------------
def at_path(document: Any, path: Path) -> Any:
    """The value at `path` of a document; None if there is none."""
    node = document
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def source_record(path: Path, value: Any, standing: Iterable[FactRecord]) -> FactRecord | None:
    """The record that a leaf, or an element of a list, stands by: its own, or that of what a person set around it."""
    around = [
        record
        for record in standing
        if record.path == path[: len(record.path)] and _holds(record, path[len(record.path) :], value)
    ]
    return max(around, key=lambda record: len(record.path), default=None)


def _holds(record: FactRecord, below: Path, value: Any) -> bool:
    if fact_json(record.value) == fact_json(value) and not below:
        return True
    said = leaves(record.value) if record.op == "set" else ()
    return any(path == below and fact_json(part) == fact_json(value) for path, part, _ in said)


def print_known(
    title: str, document: Any, path: Path, standing: Sequence[FactRecord], *, now: datetime, threads: bool
) -> None:
    """A tree of what stands at `path`: each value with its age, how often it was said and by whom."""
    tree = Tree(Text(clean(title), style="bold"), guide_style="dim")

    def grow(branch: Tree, node: dict[str, Any], above: Path) -> None:
        for key, value in node.items():
            where, name = (*above, key), Text(clean(key), style="bold cyan")
            if isinstance(value, dict):
                grow(branch.add(name), value, where)
            elif isinstance(value, list):
                elements = branch.add(name)
                for element in value:
                    elements.add(leaf(Text(), where, element))
            else:
                branch.add(leaf(name.append(": "), where, value))

    def leaf(line: Text, where: Path, value: Any) -> Text:
        line.append(value_text(value), style="not bold default")
        record = source_record(where, value, standing)
        about = "" if record is None else f"  ({_about(record, now=now, threads=threads)})"
        return line.append(about, style="not bold default dim")

    grow(tree, {path[-1]: at_path(document, path)} if path else document, path[:-1])
    # Where nobody looks, lines stay whole, so that they can be searched for.
    console = out if out.is_terminal else Console(highlight=False, width=_UNWRAPPED)
    console.print(tree)


def _about(record: FactRecord, *, now: datetime, threads: bool) -> str:
    newest = max(record.sources, key=lambda source: source.said_at)
    words = [
        f"{in_words((now - record.last_seen).total_seconds())} ago",
        f"said {_times(len(record.sources))}",
    ]
    words += _origin(newest, threads=threads)
    if record.valid_from is not None:
        words.append(f"since {clean(record.valid_from)}")
    if record.confidence < 1:
        words.append(f"confidence {record.confidence:.2f}")
    return clean(" · ".join(words))


# --- how it came about ---------------------------------------------------------------------------------------
def print_history(records: Iterable[FactRecord]) -> None:
    """One event after the other: what it did, below it who said so and what became of it."""
    for record in records:
        out.print(_event_line(record), soft_wrap=True)
        for source in record.sources:
            said = f"said {when(source.said_at)} by {source.extractor}"
            words = _origin(source) if source.turn_id is not None else []
            out.print(_detail(" · ".join([said, *words])), soft_wrap=True)
        if record.refused is not None:
            out.print(_detail(f"refused: {_one_line(record.refused)}"), soft_wrap=True)
        elif record.superseded_by is not None:
            out.print(_detail(f"superseded by {record.superseded_by}"), soft_wrap=True)


def _event_line(record: FactRecord) -> Text:
    line = Text(record.id, style="bold")
    op = record.op if record.refused is None else "refused"
    line.append(f"  {when(record.said_at)}  {op:<7}  ", style="not bold")
    withheld = record.refused is not None and not record.path
    line.append("(withheld)" if withheld else clean(path_text(record.path)), style="cyan")
    if record.value is not None and not withheld:
        line.append(f": {value_text(record.value)}", style="not bold")
    if record.old is not None and record.op != "remove":
        line.append(f"  (was {value_text(record.old)})", style="not bold dim")
    if record.stands:
        line.append("  stands", style="not bold green")
    return line


def _detail(words: str) -> Text:
    return Text(f"      {clean(words)}", style="dim")


# --- what changed --------------------------------------------------------------------------------------------
def print_overview(overview: Overview) -> None:
    """Differences by path with sources, what was refused and what failed; last the counts and the price."""
    print_differences(overview.differences)
    for record in overview.refused:
        line = Text("! ", style="magenta")
        line.append(clean(f"{path_text(record.path)}: {value_text(record.value)}"), style="default")
        reason = _one_line(record.refused or "")
        about = " · ".join([f"refused: {reason}", *_origin(record.sources[0])])
        out.print(line.append(clean(f"  ({about})"), style="default dim"), soft_wrap=True)
    for turn_id, reason in overview.failed:
        line = Text("! ", style="red").append(f"turn {clean(turn_id)} failed: ", style="default")
        out.print(line.append(_one_line(reason), style="default dim"), soft_wrap=True)
    counts = (
        f"{overview.turns:,} turn(s) looked at by {overview.extractor}: {len(overview.differences):,} "
        f"difference(s), {len(overview.refused):,} refused, {len(overview.failed):,} failed."
    )
    out.print(Text(clean(counts)), soft_wrap=True)
    if overview.cost.requests:
        note(f"language model: {cost_text(overview.cost)}")


def print_differences(differences: Iterable[FactDifference]) -> None:
    """A line each: + what came, - what went, ~ what became of what; with who says so."""
    for difference in differences:
        sign, style = _SIGNS[difference.kind]
        line = Text(f"{sign} ", style=style)
        line.append(clean(f"{path_text(difference.path)}: "), style="bold default")
        line.append(_change(difference), style=f"not bold {style}")
        sources = difference.sources_before if difference.kind == "removed" else difference.sources_after
        if sources:
            newest = max(sources, key=lambda source: source.said_at)
            line.append(clean(f"  ({' · '.join(_origin(newest))})"), style="not bold default dim")
        out.print(line, soft_wrap=True)


def _change(difference: FactDifference) -> str:
    if difference.kind == "changed":
        return f"{value_text(difference.before)} → {value_text(difference.after)}"
    return value_text(difference.after if difference.kind == "added" else difference.before)


# --- JSON ----------------------------------------------------------------------------------------------------
def record_as_json(record: FactRecord) -> dict[str, Any]:
    """An event with stable keys."""
    about = "old by sources confidence valid_from said_at recorded_at last_seen stands superseded_by refused"
    return {
        **picked(record, "id thread_id op"),
        "path": ".".join(record.path),
        **picked(record, f"value {about}"),
    }


def difference_as_json(difference: FactDifference) -> dict[str, Any]:
    """A difference with stable keys."""
    return {
        "kind": difference.kind,
        "path": ".".join(difference.path),
        **picked(difference, "before after sources_before sources_after"),
    }


def overview_as_json(
    overview: Overview, *, applied: bool, replay: str | None = None, undo: str | None = None
) -> dict[str, Any]:
    """An extraction's changes as JSON, with stable keys."""
    return {
        "applied": applied,
        "replay": replay,
        "undo": undo,
        **picked(overview, "extractor turns"),
        "differences": [difference_as_json(difference) for difference in overview.differences],
        "refused": [record_as_json(record) for record in overview.refused],
        "failed": [{"turn_id": turn_id, "reason": reason} for turn_id, reason in overview.failed],
        "cost": cost_as_json(overview.cost),
    }
