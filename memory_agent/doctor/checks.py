"""Checks of one thread: what is derived against the turns. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from memory_agent.doctor.findings import Finding
from memory_agent.domain import stored_at
from memory_agent.facts.fold import fold_facts
from memory_agent.topics.merged import unmerged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
    from datetime import datetime

    from numpy.typing import NDArray

    from memory_agent.domain import (
        Compression,
        CopiedTurn,
        FactChange,
        FactsDocument,
        Scope,
        SearchRow,
        Session,
        ThreadRemains,
        TopicHead,
    )


FAR: Final = timedelta(days=1)
"""Longer than any lease, and than any pause before a retry."""
_SKEW: Final = timedelta(minutes=5)


class RowView(NamedTuple):
    """Search row, as far as it is compared. `dimension`: of its vectors, 0 without any, -1 of such as can be none."""

    turn_id: str
    seq: int
    role: str
    timestamp: datetime
    embedder: str
    dimension: int
    erased: bool

    @classmethod
    def of(cls, row: SearchRow) -> RowView:
        return cls(
            row.turn_id,
            row.seq,
            row.role,
            row.timestamp,
            row.embedder,
            _dimension(row.vectors),
            row.erased,
        )


def _dimension(vectors: NDArray[np.floating[Any]]) -> int:
    if not vectors.size:
        return 0
    return vectors.shape[1] if np.isfinite(vectors).all() and vectors.any(axis=1).all() else -1


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadView:
    """All that is stored of a thread, without texts. `dimensions`: of the user's vectors by their embedder."""

    scope: Scope
    turns: Sequence[CopiedTurn]
    sessions: Sequence[Session]
    topics: Sequence[TopicHead]
    changes: Sequence[FactChange]
    compressions: Sequence[Compression]
    rows: Sequence[RowView]
    dimensions: Mapping[str, int]
    document: FactsDocument
    remains: ThreadRemains
    now: datetime
    elsewhere: Set[str] = frozenset()
    """Of the turns that changes had in view, those that are in other threads of the user."""


def seen_by(change: FactChange) -> set[str]:
    """The turns that a change had in view, its own among them."""
    return {*change.turns, *([change.turn_id] if change.turn_id else [])}


def findings_of(view: ThreadView) -> Iterator[Finding]:
    """The differences within a thread."""
    for check in (_turns, _rows, _topics, _sessions, _facts, _compressions):
        for kind, ids, *detail in check(view):
            if found := tuple(ids):
                yield Finding(kind=kind, scope=view.scope, ids=found, detail=detail[0] if detail else "")


_Found = tuple[str, "Iterable[str]"] | tuple[str, "Iterable[str]", str]


def _turns(view: ThreadView) -> Iterator[_Found]:
    yield "text_lost", [copied.turn.id for copied in view.turns if not copied.readable]
    turns = [copied.turn for copied in view.turns]
    parked = [turn for turn in turns if turn.parked]
    if parked:
        errors = {turn.last_error for turn in parked if turn.last_error}
        more = f", and {len(errors) - 1} other errors" if len(errors) > 1 else ""
        yield "parked", [turn.id for turn in parked], f"{parked[-1].last_error or 'no error':.120}{more}"
    never = view.now + FAR
    yield (
        "stuck",
        [turn.id for turn in turns if turn.pending and not turn.parked and (turn.due_at or never) >= never],
    )
    yield "clock", [turn.id for turn in turns[-1:] if stored_at(turn.id) > view.now + _SKEW]


def _rows(view: ThreadView) -> Iterator[_Found]:
    rows = {row.turn_id: row for row in view.rows if not row.erased}
    turns = {copied.turn.id: copied.turn for copied in view.turns}
    yield (
        "row_missing",
        [turn.id for turn in turns.values() if "index" not in turn.pending and turn.id not in rows],
    )
    yield "row_orphan", rows.keys() - turns.keys()
    there = [(row, turns[turn_id]) for turn_id, row in rows.items() if turn_id in turns]
    yield (
        "row_false",
        [
            turn.id
            for row, turn in there
            if (row.seq, row.role, row.timestamp) != (turn.seq, turn.role, turn.timestamp)
        ],
    )
    yield (
        "vectors_false",
        [
            turn.id
            for row, turn in there
            if row.dimension < 0 or row.dimension not in (0, view.dimensions.get(row.embedder, row.dimension))
        ],
    )


def _topics(view: ThreadView) -> Iterator[_Found]:
    """Of turns that owe their topic nothing is said yet."""
    home = {turn_topic: topic for topic in unmerged(view.topics) for turn_topic in topic.turns_of}
    last: dict[str, int] = {}
    done: dict[str, int] = {}
    lost: set[str] = set()
    topicless: list[str] = []
    before = False
    for turn in (copied.turn for copied in view.turns):
        owes = "topics" in turn.pending
        if turn.topic_id is None:
            # Before the first question there is nothing that an assistant's turn could follow; without any topic they were switched off.
            if not owes and view.topics and (before or turn.role == "user"):
                topicless.append(turn.id)
            continue
        before = True
        topic = home.get(turn.topic_id)
        if topic is None:
            lost |= set() if owes else {turn.topic_id}
            continue
        last[topic.id] = max(turn.seq, last.get(topic.id, 0))
        if not owes:
            done[topic.id] = max(turn.seq, done.get(topic.id, 0))
    yield "topic_missing", sorted(lost)
    fresh = [topic for topic in view.topics if not topic.stale]
    yield (
        "topic_false",
        [
            topic.id
            for topic in fresh
            if topic.id in last and not done.get(topic.id, 0) <= topic.through <= last[topic.id]
        ],
    )
    carried = {copied.turn.topic_id for copied in view.turns}
    yield "topic_empty", [topic.id for topic in fresh if topic.through and carried.isdisjoint(topic.turns_of)]
    yield "topicless", topicless


def _sessions(view: ThreadView) -> Iterator[_Found]:
    known = {session.id for session in view.sessions}
    yield (
        "session_missing",
        sorted({copied.turn.session_id for copied in view.turns if copied.turn.session_id} - known),
    )


def _facts(view: ThreadView) -> Iterator[_Found]:
    there = {copied.turn.id for copied in view.turns} | view.elsewhere
    yield "change_orphan", [change.key for change in view.changes if not there >= seen_by(change)]
    through = view.document.through
    # One that is behind is right as far as it goes, and carried on by whoever reads it next.
    folded = fold_facts([change for change in view.changes if change.seq <= through])
    if through > view.remains.last_change or dict(view.document.facts) != folded.people:
        yield "facts_false", ["document"]


def _compressions(view: ThreadView) -> Iterator[_Found]:
    there = {copied.turn.id for copied in view.turns}
    false = {one.id for one in view.compressions if not there.issuperset(one.covers)}
    if view.compressions and view.compressions[0].number != 1:
        false.add(view.compressions[0].id)
    false |= {
        after.id
        for before, after in pairwise(view.compressions)
        if (after.number, after.after_seq) != (before.number + 1, before.through)
    }
    if view.compressions:  # of which the last tells how many turns there are
        last = view.compressions[-1]
        if last.turns != sum(copied.turn.seq <= last.through for copied in view.turns):
            false.add(last.id)
    yield "compression_false", sorted(false)
