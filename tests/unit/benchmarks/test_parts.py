"""Profiles by part lose no time, give libraries' to who calls them, and count statements by table."""

from __future__ import annotations

import cProfile
import sqlite3
import time
from pathlib import Path

import pytest

import memory_agent
from benchmarks.parts import LOOP, Counts, Spent, part_of
from memory_agent.text.terms import count_terms

PACKAGE = Path(memory_agent.__file__).parent


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("context/ledger.py", "context"),
        ("text/english/words.py", "text"),
        ("stores/sqlite/turns.py", "stores/sqlite"),
        ("stores/chroma.py", "stores/chroma"),
        ("service.py", "service"),
        ("../benchmarks/parts.py", None),
    ],
)
def test_a_part_is_a_folder_of_the_package_and_each_adapter_one_of_its_own(
    file: str, part: str | None
) -> None:
    assert part_of(str((PACKAGE / file).resolve())) == part


def test_no_time_is_lost_and_a_library_s_is_that_of_the_part_that_calls_it() -> None:
    count_terms("what is compiled when it is first used", language="english")
    profile = cProfile.Profile(time.thread_time)
    before, after = Spent(), Spent()
    profile.enable()
    _work()
    before.add(profile.getstats())
    _work()
    profile.disable()
    after.add(profile.getstats())
    spent = after.since(before)
    parts = spent.by_part()
    assert set(parts) <= {"text", "lazily", LOOP}
    assert all(seconds >= 0 for seconds in parts.values())
    assert sum(parts.values()) == pytest.approx(sum(spent.inside.values()))
    of_text = sum(
        seconds
        for code, seconds in spent.inside.items()
        if not isinstance(code, str) and part_of(code.co_filename) == "text"
    )
    assert parts["text"] > of_text  # with the patterns and stemmers that it calls
    assert parts[LOOP] > 0


def _work() -> None:
    for number in range(300):
        count_terms(f"the quick brown foxes were jumping over {number} lazy dogs", language="english")
        sorted(str(one) for one in range(100))  # nobody's of the package


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
