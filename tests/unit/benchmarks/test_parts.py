"""Profiles by part lose no time, give libraries' to who calls them, and count statements by table."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memory_agent
from benchmarks.parts import LOOP, Counts, Spent

if TYPE_CHECKING:
    from benchmarks.parts import Place

PACKAGE = Path(memory_agent.__file__).parent
CODES = [
    *((str(PACKAGE / part / "one.py"), 1, "one") for part in ("facts", "text")),
    *(("copy.py", 1, name) for name in "abcd"),
]
SECONDS = st.floats(min_value=0, max_value=100)


def test_a_library_s_functions_that_call_each_other_in_a_circle_are_their_caller_s() -> None:
    ours, copied, inner, waited = CODES[0], CODES[2], CODES[3], CODES[4]
    spent = Spent(
        inside={ours: 1.0, copied: 2.0, inner: 4.0, waited: 8.0},
        calls={(copied, ours): 6.0, (inner, copied): 5.0, (copied, inner): 5.0},
    )
    assert spent.by_part() == {"facts": 7.0, LOOP: 8.0}


@given(
    inside=st.dictionaries(st.sampled_from(CODES), SECONDS),
    calls=st.dictionaries(st.tuples(st.sampled_from(CODES), st.sampled_from(CODES)), SECONDS),
)
def test_whoever_calls_whom_all_time_is_somebody_s_once(
    inside: dict[Place, float], calls: dict[tuple[Place, Place], float]
) -> None:
    parts = Spent(inside, calls).by_part()
    assert sum(parts.values()) == pytest.approx(sum(inside.values()))
    assert set(parts) <= {"facts", "text", LOOP}
    for part, code in zip(("facts", "text"), CODES[:2], strict=True):
        assert parts.get(part, 0.0) >= inside.get(code, 0.0) * (1 - 1e-9)


def test_statements_are_counted_by_table_and_by_whether_they_write() -> None:
    counts = Counts()
    with counts.statements_counted(), sqlite3.connect(":memory:", isolation_level=None) as db:
        db.execute("CREATE TABLE turns (id TEXT)")
        counts.clear()
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO turns VALUES ('a')")
        db.execute("UPDATE turns SET id = 'b'")
        db.execute("SELECT * FROM turns").fetchall()
        db.execute("COMMIT")
        db.execute("DELETE FROM turns")
    assert dict(counts.statements) == {("turns", "write"): 3, ("turns", "read"): 1}
    with sqlite3.connect(":memory:") as db:
        db.execute("SELECT 1")
    assert sum(counts.statements.values()) == 4, "no longer counted"
