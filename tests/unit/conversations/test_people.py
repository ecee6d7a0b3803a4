"""The nearest names to one that isn't there."""

import pytest

from memory_agent.conversations.people import nearest


@pytest.mark.parametrize(
    ("wanted", "known", "expected"),
    [
        ("adda", ["bo", "ada", "eve"], ["ada"]),
        ("ADA", ["bo", "ada", "Ada"], ["ada", "Ada"]),
        ("user_132", ["user_123", "user_999", "someone"], ["user_123", "user_999"]),
        ("hollidays", ["work", "holidays 2", "holidays"], ["holidays", "holidays 2"]),
        ("main", ["holidays", "work"], []),
        ("x", [], []),
        ("ａda", ["ada"], ["ada"]),
        ("지은", ["지은이", "민수"], ["지은이"]),
    ],
)
def test_the_likest_come_first_and_others_not_at_all(
    wanted: str, known: list[str], expected: list[str]
) -> None:
    assert nearest(wanted, known) == expected


def test_at_most_three_are_named() -> None:
    assert len(nearest("user", [f"user{n}" for n in range(9)])) == 3


@pytest.mark.timeout(60)
def test_names_that_programs_made_long_are_left_out_and_cost_no_time() -> None:
    long = ["ab" * 250 + f"{number:03}" for number in range(500)]
    assert nearest("ab" * 256, [*long, "abab"]) == []
