"""Order of a thread's changes, and which of them count. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memory_agent.domain import FactChange


def place_of(seq: int) -> str:
    """The place of a turn in the fold, by its number in the thread: what was acknowledged later speaks later.

    >>> place_of(12) < place_of(12) + "~" < place_of(13)
    True
    """
    return f"{seq:012d}"


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
