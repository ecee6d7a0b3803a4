"""Cutting a long text into passages that a model reads whole. Pure functions of the text and its pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Piece(NamedTuple):
    """One token, or a few that belong together: `text[start:end]` weighs `weight` tokens."""

    start: int
    end: int
    weight: int = 1


def cut_passages(text: str, pieces: Sequence[Piece], *, window: int, overlap: int) -> list[str]:
    """`text` in passages of at most `window` tokens, in order; each begins about `overlap` tokens before the last's end.

    Every character is in some passage. A passage ends where a sentence does if one does in its last quarter, else
    between words if it can, else between any two pieces. No piece may weigh more than `window`.
    """
    if sum(piece.weight for piece in pieces) <= window:
        return [text]
    passages = []
    first, begin = 0, 0
    while True:
        stop = _fill(pieces, first, window)
        if stop == len(pieces):
            passages.append(text[begin:])
            return passages
        stop = _good_end(text, pieces, first, stop)
        end = pieces[stop].start
        passages.append(text[begin:end])
        back = _step_back(text, pieces, stop, overlap, floor=first + 1)
        first, begin = back, pieces[back].start


def _fill(pieces: Sequence[Piece], first: int, window: int) -> int:
    """The first piece that no longer fits into a window beginning with piece `first`."""
    weight, stop = 0, first
    while stop < len(pieces) and weight + pieces[stop].weight <= window:
        weight += pieces[stop].weight
        stop += 1
    return max(stop, first + 1)


def _good_end(text: str, pieces: Sequence[Piece], first: int, stop: int) -> int:
    earliest = max(first + 1, stop - max(1, (stop - first) // 4))
    between_words = None
    for candidate in range(stop, earliest - 1, -1):
        gap = text[pieces[candidate - 1].end : pieces[candidate].start]
        last = text[pieces[candidate - 1].end - 1 : pieces[candidate - 1].end]
        if "\n" in gap or last in "。！？" or (gap and last in ".!?…"):
            return candidate
        if gap and between_words is None:
            between_words = candidate
    return between_words or stop


def _step_back(text: str, pieces: Sequence[Piece], stop: int, overlap: int, *, floor: int) -> int:
    """The piece with which the next passage begins: about `overlap` tokens before `stop`, between words if it can."""
    back, weight = stop, 0
    while back > floor and weight + pieces[back - 1].weight <= overlap:
        back -= 1
        weight += pieces[back].weight
    for candidate in range(back, stop):
        if pieces[candidate].start > pieces[candidate - 1].end:
            return candidate
    return stop if back < stop and pieces[stop].start > pieces[stop - 1].end else back
