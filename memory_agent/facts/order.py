"""The changes of a thread: made, put in order, and which of them count. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import PERSON, FactChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from memory_agent.domain import ChangeKind, Turn


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
    """The replays that count, newest first."""
    applied: list[str] = []
    for change in sorted(changes, key=lambda change: change.seq):
        if change.kind == "replay":
            applied.append(change.generation)
        elif change.kind == "undo" and change.generation in applied:
            applied.remove(change.generation)
    return applied[::-1]


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
