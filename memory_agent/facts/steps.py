"""The events of a thread's counting changes in their order, each at the path that begins with whose it is. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.domain import UNNAMED
from memory_agent.facts.people import person_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import FactChange, FactEvent, Place
    from memory_agent.facts.tree import Leaf

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
