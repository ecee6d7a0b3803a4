"""Histories of a thread as they come about: turns that are extracted at once or late, edits, reverts, extraction again."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from memory_agent.domain import FactChange, FactEvent, Place
from memory_agent.facts.fold import applied_generations, counting, fold, steps_of
from tests.unit.facts.builders import EVENTS, PATHS, change

_EVENTS = st.lists(EVENTS, max_size=3).map(tuple)
_COMMANDS = st.one_of(
    st.tuples(st.just("turn"), _EVENTS),
    st.tuples(st.just("turn at once"), _EVENTS),
    st.tuples(st.just("extract"), st.integers(0, 5)),
    st.tuples(st.just("edit"), EVENTS),
    st.tuples(st.just("revert"), PATHS | st.just(()), st.integers(0, 9)),
    st.tuples(st.just("again"), st.lists(st.tuples(st.integers(0, 9), _EVENTS), max_size=3)),
    st.tuples(st.just("undo"), st.integers(0, 2)),
)


class Thread:
    """A thread in the making. Its clock ticks one minute with every command; ids are made by the clock."""

    def __init__(self, name: str = "work", *, start: int = 0, step: int = 1) -> None:
        self.name = name
        self.now = start
        self.step = step
        self.changes: list[FactChange] = []
        self.waiting: list[tuple[str, float, tuple[FactEvent, ...]]] = []
        self.extracted: list[tuple[str, float, str]] = []

    def do(self, command: Any, speaker: str = "") -> None:
        self.now += self.step
        name, *given = command
        if name in ("turn", "turn at once"):
            self.waiting.append((f"t{self.now:04d}", self.now, _of(speaker, given[0])))
            if name == "turn at once":
                self._extract(len(self.waiting) - 1)
        elif name == "extract" and self.waiting:
            self._extract(given[0] % len(self.waiting))
        elif name == "edit":
            self._append(turn=f"t{self.now:04d}", kind="edit", events=_of(speaker, given))
        elif name == "revert":
            path, back = given
            self.revert(path, self.place(back), speaker)
        elif name == "again" and self.extracted:
            self._again(given[0])
        elif name == "undo" and applied_generations(self.changes):
            generations = applied_generations(self.changes)
            self._append(kind="undo", generation=generations[given[0] % len(generations)])

    def place(self, back: int) -> Place:
        """The place of one of the newest events that count, or the one before all."""
        newest = [step.place for step in steps_of(counting(self.changes))][::-1]
        return newest[back] if back < len(newest) else ("", 0, 0)

    def revert(self, path: tuple[str, ...], to: Place, speaker: str = "") -> None:
        event = FactEvent(op="revert", path=path, to=to, subject=speaker)
        self._append(turn=f"t{self.now:04d}", kind="edit", events=(event,))

    def _extract(self, number: int) -> None:
        turn, said, events = self.waiting.pop(number)
        self.extracted.append((turn, said, next((event.subject for event in events), "")))
        self._append(turn=turn, said=said, events=events)

    def _again(self, found: list[tuple[int, tuple[FactEvent, ...]]]) -> None:
        generation = f"g{self.now:04d}"
        for number, events in dict(found).items():
            if number < len(self.extracted):
                turn, said, speaker = self.extracted[number]
                self._append(turn=turn, said=said, events=_of(speaker, events), generation=generation)
        self._append(kind="replay", generation=generation)

    def _append(self, *, events: tuple[FactEvent, ...] = (), said: float | None = None, **more: Any) -> None:
        seq = len(self.changes) + 1
        said = self.now if said is None else said
        made = change(seq, *events, recorded=self.now, said=said, thread=self.name, **more)
        self.changes.append(made)


@st.composite
def threads(
    draw: st.DrawFn,
    *,
    name: str = "work",
    start: int = 0,
    step: int = 1,
    without: tuple[str, ...] = (),
    max_size: int = 14,
    speakers: tuple[str, ...] = ("",),
) -> Thread:
    """A thread after some commands of these speakers; `without` some kinds of them."""
    thread = Thread(name, start=start, step=step)
    commands = st.tuples(_COMMANDS, st.sampled_from(speakers))
    for command, speaker in draw(st.lists(commands, max_size=max_size)):
        if command[0] not in without:
            thread.do(command, speaker)
    return thread


def _of(speaker: str, events: Iterable[FactEvent]) -> tuple[FactEvent, ...]:
    return tuple(dataclasses.replace(event, subject=speaker) for event in events)


def value_at(document: Any, path: tuple[str, ...]) -> Any:
    """What a document holds at a path; None for nothing."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document or None if not path else document


def as_it_was(changes: list[FactChange], to: Place) -> dict[str, Any]:
    """The document once everything up to and including a place had happened, and nothing after it."""
    kept = []
    for made in counting(changes):
        events = tuple(event for number, event in enumerate(made.events) if (made.at, made.seq, number) <= to)
        kept.append(dataclasses.replace(made, generation="", events=events))
    return fold(kept)
