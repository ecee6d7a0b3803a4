"""Rows that may correct a result, and what else these may replace, against plain loops; also as the index grows."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import SearchRow, TurnFeatures
from memory_agent.search.request import RowFilter
from memory_agent.search.user_index import ResidentIndex
from tests.unit.search.ranking import START, make_row

MOST = 3


@st.composite
def conversations(draw: st.DrawFn) -> list[SearchRow]:
    """Rows of two threads as they were indexed: now and then one that was said before others, or without a vector."""
    rows = []
    for number in range(draw(st.integers(0, 14))):
        given_fields: dict[str, Any] = {
            "seq": draw(st.sampled_from([number + 100, max(number - 3, 0)])) * 20 + number,
            "timestamp": START + timedelta(hours=draw(st.sampled_from([number, number, number // 2]))),
            "role": draw(st.sampled_from(["user", "user", "assistant"])),
            "speaker": draw(st.sampled_from([None, "Ann", "Bo"])),
            "signs": TurnFeatures(corrects=draw(st.booleans())),
        }
        thread = draw(st.sampled_from(["t", "t2"]))
        rows.append(
            make_row(number, thread=thread, passages=draw(st.sampled_from([0, 1, 1, 2])), **given_fields)
        )
    return rows


def said_before(other: SearchRow, row: SearchRow) -> bool:
    if other.thread_id == row.thread_id:
        return other.seq < row.seq
    return other.timestamp < row.timestamp


def may_replace(row: SearchRow, other: SearchRow) -> bool:
    people = row.role == other.role == "user"
    return people and row.speaker == other.speaker and said_before(other, row)


def check(index: ResidentIndex, rows: Sequence[SearchRow], asked: Sequence[str]) -> None:
    """What the index says of these rows is what loops over them say."""
    by_id = {row.turn_id: row for row in rows}
    expected = {
        row.turn_id: [old for old in asked if old in by_id and may_replace(row, by_id[old])]
        for row in rows
        if row.signs.corrects
    }
    found = index.corrections_of(asked, RowFilter())
    assert {new: list(olds) for new, olds in found.items()} == {
        new: olds for new, olds in expected.items() if olds
    }
    for new, olds in found.items():
        [vector] = index.vectors_of([new])
        for old, cosine in olds.items():
            alike = float(index.vectors_of([old])[0] @ vector)
            assert cosine == pytest.approx(alike, abs=1e-5) if alike else np.isnan(cosine)
    rivals = index.rivals_of(found, most=MOST)
    for new, others in rivals.items():
        earlier = [row for row in rows if may_replace(by_id[new], row) and len(row.vectors)]
        assert set(others) <= {row.turn_id for row in earlier}
        assert len(others) == (min(MOST, len(earlier)) if len(by_id[new].vectors) else len(others))
    fresh = ResidentIndex(rows, embedder="model").rivals_of(found, most=MOST)
    assert {new: list(others) for new, others in rivals.items()} == {
        new: list(others) for new, others in fresh.items()
    }


@given(conversations(), st.integers(0, 14))
def test_corrections_are_those_that_loops_find(rows: list[SearchRow], first: int) -> None:
    index = ResidentIndex(rows[:first], embedder="model")
    asked = [*(row.turn_id for row in rows), "unknown"]
    check(index, rows[:first], asked)
    assert index.extend(rows[first:])
    check(index, rows, asked)
