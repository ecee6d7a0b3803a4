"""Checks of one thread: what is derived against the turns. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from memory_agent.facts.fold import fold_facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.domain import (
        Compression,
        FactChange,
        FactsDocument,
        Scope,
        SearchRow,
        Session,
        ThreadRemains,
        Topic,
        Turn,
    )

Repair: TypeAlias = Literal["index", "embed", "sweep", "facts", "topics", "retry", "vectors", ""]
"""How a finding is mended: rows made again, embedded again, orphans swept, facts folded again, topics made again, parked turns retried,
vectors of nobody deleted; "": by a person."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A difference. `ids`: of the turns, topics or changes that it is about; `wrong`: False for what is only worth knowing."""

    what: str
    scope: Scope | None = None
    ids: tuple[str, ...] = ()
    repair: Repair = ""
    wrong: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadView:
    """Everything that is stored of a thread."""

    scope: Scope
    turns: Sequence[Turn]
    sessions: Sequence[Session]
    topics: Sequence[Topic]
    changes: Sequence[FactChange]
    compressions: Sequence[Compression]
    rows: Sequence[SearchRow]
    document: FactsDocument
    remains: ThreadRemains


def findings_of(view: ThreadView) -> Iterator[Finding]:
    """The differences within a thread."""
    for check in (_numbers, _rows, _vectors, _topics, _sessions, _facts, _compressions, _parked):
        yield from check(view)


def _found(
    view: ThreadView, what: str, ids: Sequence[str], repair: Repair = "", *, wrong: bool = True
) -> Iterator[Finding]:
    if ids:
        yield Finding(
            what=f"{len(ids):,} {what}", scope=view.scope, ids=tuple(ids), repair=repair, wrong=wrong
        )


def _numbers(view: ThreadView) -> Iterator[Finding]:
    numbers = [turn.seq for turn in view.turns]
    twice = [turn.id for turn, before in zip(view.turns[1:], numbers, strict=False) if turn.seq <= before]
    yield from _found(view, "turns whose number is not above the one before", twice)
    above = [turn.id for turn in view.turns if turn.seq > view.remains.last_seq]
    yield from _found(view, "turns above the last number that was given", above)


def _rows(view: ThreadView) -> Iterator[Finding]:
    rows = {row.turn_id: row for row in view.rows}
    there = {turn.id: turn for turn in view.turns}
    settled = [turn for turn in view.turns if "index" not in turn.pending]
    missing = [turn.id for turn in settled if turn.id not in rows or rows[turn.id].erased]
    yield from _found(view, "turns without a search row", missing, "index")
    orphans = [row.turn_id for row in view.rows if not row.erased and row.turn_id not in there]
    yield from _found(view, "search rows of turns that are gone", orphans, "sweep")
    moved = [
        row.turn_id
        for row in view.rows
        if not row.erased and row.turn_id in there and not _is_at(row, there[row.turn_id])
    ]
    yield from _found(
        view, "search rows that say another place, role or time than their turns", moved, "embed"
    )


def _is_at(row: SearchRow, turn: Turn) -> bool:
    return (row.seq, row.role, row.timestamp) == (turn.seq, turn.role, turn.timestamp)


def _vectors(view: ThreadView) -> Iterator[Finding]:
    sizes: dict[str, set[int]] = {}
    for row in view.rows:
        if row.vectors.size:
            sizes.setdefault(row.embedder, set()).add(row.vectors.shape[1])
    bad = [
        row.turn_id
        for row in view.rows
        if row.vectors.size
        and (
            not np.isfinite(row.vectors).all()
            or row.vectors.shape[1] != max(sizes[row.embedder])
            or not row.vectors.any()
        )
    ]
    yield from _found(view, "search rows with vectors that can be none", bad, "embed")


def _topics(view: ThreadView) -> Iterator[Finding]:
    known: set[str] = set()
    for topic in view.topics:
        known |= {topic.id, *topic.absorbed}
    lost = {turn.topic_id for turn in view.turns if turn.topic_id is not None} - known
    yield from _found(
        view, "topics that turns belong to and that are missing", sorted(filter(None, lost)), "topics"
    )
    ahead = [topic.id for topic in view.topics if topic.through > view.remains.last_seq]
    yield from _found(view, "topics that are made of more turns than there were", ahead, "topics")
    unassigned = [
        turn.id
        for turn in view.turns
        if turn.topic_id is None and not turn.pending and view.topics and turn.role == "user"
    ]
    yield from _found(view, "turns of users without a topic that owe none", unassigned, wrong=False)


def _sessions(view: ThreadView) -> Iterator[Finding]:
    known = {session.id for session in view.sessions}
    lost = [turn.id for turn in view.turns if turn.session_id is not None and turn.session_id not in known]
    yield from _found(view, "turns of a session that is missing", lost)


def _facts(view: ThreadView) -> Iterator[Finding]:
    there = {turn.id for turn in view.turns}
    blind = [
        change.key
        for change in view.changes
        if not there.issuperset([*change.turns, *([change.turn_id] if change.turn_id else [])])
    ]
    yield from _found(view, "changes of facts by turns that are gone", blind, "sweep")
    last = max((change.seq for change in view.changes), default=0)
    if view.document.revision is None or view.document.through not in (0, last):
        if view.document.through > last:
            yield from _found(view, "facts folded from changes that are missing", ["document"], "facts")
        return
    folded = fold_facts(view.changes).people if view.document.through else {}
    if dict(view.document.facts) != folded:
        yield from _found(
            view, "document of facts that is not the fold of its changes", ["document"], "facts"
        )


def _compressions(view: ThreadView) -> Iterator[Finding]:
    there = {turn.id for turn in view.turns}
    blind = [one.id for one in view.compressions if not there.issuperset(one.covers)]
    yield from _found(view, "compressions of turns that are gone", blind, "sweep")
    numbers = [one.number for one in view.compressions]
    if numbers != list(range(1, len(numbers) + 1)):
        yield from _found(
            view, "compressions that do not follow each other", [one.id for one in view.compressions], "sweep"
        )


def _parked(view: ThreadView) -> Iterator[Finding]:
    parked = [turn for turn in view.turns if turn.parked]
    if parked:
        last = parked[-1].last_error or "without an error"
        yield from _found(view, f"parked turns ({last:.120})", [turn.id for turn in parked], "retry")
