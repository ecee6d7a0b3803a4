"""The changes of a thread: made, put in order, which of them count, and their events step by step. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import PERSON, UNNAMED, FactChange
from memory_agent.facts.people import person_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import ChangeKind, FactEvent, Place, Turn
    from memory_agent.facts.tree import Leaf


def place_of(seq: int) -> str:
    """The place of a turn in the fold, by its number in the thread: what was acknowledged later speaks later.

    >>> place_of(12) < place_of(12) + "~" < place_of(13)
    True
    """
    return f"{seq:012d}"


def change_key(turn: Turn, generation: str = "") -> str:
    """The key of a turn's change, of one generation."""
    return f"{turn.id}:facts:{generation}" if generation else f"{turn.id}:facts"


def change_of(turn: Turn, *, extractor: str, now: datetime, generation: str = "", **more: Any) -> FactChange:
    """A change of the turn, extracted `now`: without events, and with itself alone in view, unless `more` has them."""
    given: dict[str, Any] = {"turns": (turn.id,), **more}
    return FactChange(
        key=change_key(turn, generation),
        kind="extraction",
        at=place_of(turn.seq),
        turn_id=turn.id,
        said_at=turn.timestamp,
        recorded_at=now,
        extractor=extractor,
        generation=generation,
        thread_id=turn.thread_id,
        **given,
    )


def change_by_person(key: str, kind: ChangeKind, at: str, *, now: datetime, **more: Any) -> FactChange:
    """A change that people make, now."""
    return FactChange(
        key=key,
        kind=kind,
        at=at,
        turn_id=None,
        turns=(),
        said_at=now,
        recorded_at=now,
        extractor=PERSON,
        **more,
    )


def overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """True if one path is the other, or above or below it."""
    return all(a == b for a, b in zip(one, other, strict=False))


_STAND_IN: Final = ":facts:meanwhile"


def stand_in_key(turn_id: str) -> str:
    """The key of what patterns found in a turn while the language model stayed away."""
    return f"{turn_id}{_STAND_IN}"


def is_stand_in(change: FactChange) -> bool:
    """True if it counts only until the model has looked at the turn."""
    return change.kind == "extraction" and change.key.endswith(_STAND_IN)


def order(changes: Iterable[FactChange]) -> list[FactChange]:
    """`changes` of one thread in the order of the fold."""
    return sorted(changes, key=lambda change: (change.at, change.seq))


def applied_generations(changes: Iterable[FactChange]) -> list[str]:
    """The generations that count, newest first."""
    applied: list[str] = []
    for change in sorted(changes, key=lambda change: change.seq):
        if change.kind == "replay":
            applied.append(change.generation)
        elif change.kind == "undo" and change.generation in applied:
            applied.remove(change.generation)
    return applied[::-1]


def unfinished_generations(changes: Sequence[FactChange]) -> list[str]:
    """The generations that have never counted, in the order of `changes`."""
    marked = {change.generation for change in changes if change.kind == "replay"}
    return list(
        dict.fromkeys(change.generation for change in changes if change.generation not in {"", *marked})
    )


def counting(changes: Sequence[FactChange]) -> list[FactChange]:
    """Those of one thread's changes that count, in the order of the fold."""
    applied = applied_generations(changes)
    ranks = {generation: place for place, generation in enumerate(applied)} | {"": len(applied)}
    best: dict[str, int] = {}

    def rank(change: FactChange) -> int | None:
        """The lower, the sooner it counts; None: not at all."""
        if change.kind != "extraction" or change.generation not in ranks:
            return None
        return len(ranks) if is_stand_in(change) else ranks[change.generation]

    for change in changes:
        if (own := rank(change)) is not None:
            best[change.at] = min(own, best.get(change.at, own))
    return order(
        change
        for change in changes
        if change.kind == "edit" or ((own := rank(change)) is not None and own == best[change.at])
    )


# --- step by step --------------------------------------------------------------------------------------------
Mark = tuple[str, int, int]
"""Thread, `seq` of the change, number of the event within it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One event of one change in its place; of a revert, over several threads, also values that go and come back."""

    said_at: datetime
    place: Place
    mark: Mark
    change: FactChange
    event: FactEvent
    """Its path begins with whose it is."""
    gone: frozenset[Mark] = frozenset()
    has: frozenset[Mark] = frozenset()
    back: tuple[Leaf[Mark], ...] = ()
    corrects: bool = False
    """It is only about the values that go and come back."""


def places(counted: Sequence[FactChange]) -> Iterator[tuple[Place, datetime, FactEvent]]:
    """Every event of one thread's counting changes: its place, from when on it counts, and the event; in order.

    The path of each begins with whose it is, as `person_key` tells it.
    """
    for step in steps_of(counted, None):
        yield step.place, step.said_at, step.event


def steps_of(changes: Sequence[FactChange], as_of: datetime | None) -> Iterator[Step]:
    """The events of one thread's counting changes, each said no earlier than the one before it.

    A turn that was stored after another speaks after it, whatever its timestamp says.
    """
    counted = [change for change in changes if as_of is None or change.said_at <= as_of]
    usual, said_at = _usual(counted), None
    for change in counted:
        said_at = max(said_at or change.said_at, change.said_at)
        for number, event in enumerate(change.events):
            place, mark = (change.at, change.seq, number), (change.thread_id, change.seq, number)
            key = usual if of_nobody(change, event) else person_key(event.subject)
            branch = dataclasses.replace(event, path=(key, *event.path))
            yield Step(said_at=said_at, place=place, mark=mark, change=change, event=branch)


def of_nobody(change: FactChange, event: FactEvent) -> bool:
    """True of an edit that people made before anybody was known."""
    return not event.subject and change.turn_id is None


def _usual(counted: Sequence[FactChange]) -> str:
    """The key of whom edits are about that were made before anybody was known: who spoke first, else the user.

    If people have named somebody before that, they mean somebody else by nobody.
    """
    for change in counted:
        for event in change.events:
            if event.op in _STATING and not of_nobody(change, event):
                return UNNAMED if change.turn_id is None else person_key(event.subject)
    return UNNAMED


_STATING: Final = ("set", "add")


def names_of(steps: Iterable[Step], known: Mapping[str, str] | None = None) -> dict[str, str]:
    """The name of each person of whom something was stated, by key, as it was spelled first."""
    names = dict(known or {})
    for step in steps:
        if step.event.op in _STATING:
            key = step.event.path[0]
            names[key] = names.get(key) or step.event.subject
    return {key: UNNAMED if key == UNNAMED else name for key, name in names.items()}


def when(step: Step) -> tuple[datetime, Place, Mark]:
    return step.said_at, step.place, step.mark
