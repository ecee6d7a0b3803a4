"""Which of a thread's changes count, and in which order. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memory_agent.domain import FactChange


def place_of(seq: int) -> str:
    """The place of a turn in the fold, by its number in the thread: what was acknowledged later speaks later.

    >>> place_of(12) < place_of(12) + "~" < place_of(13)
    True
    """
    return f"{seq:012d}"


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
    best: dict[str, int] = {}
    rank = {generation: place for place, generation in enumerate(applied)} | {"": len(applied)}
    for change in changes:
        if change.kind == "extraction" and change.generation in rank:
            best[change.at] = min(rank[change.generation], best.get(change.at, len(rank)))
    return order(
        change
        for change in changes
        if change.kind == "edit"
        or (
            change.kind == "extraction"
            and change.generation in rank
            and rank[change.generation] == best[change.at]
        )
    )
