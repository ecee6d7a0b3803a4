"""The summary without a language model: whole sentences that people said, and what always holds."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_agent.errors import InvalidInput
from memory_agent.text.quotes import MIN_CHARS, extractive_summary

PLANNING = [
    ("Ines", "Hi Tomasz! How are you doing?"),
    ("Tomasz", "Hey! Good, thanks. How was the meeting?"),
    ("Ines", "Long! We decided to move the bakery to Harbour Street on 14 March. Wow, finally."),
    ("Tomasz", "Great! What does the new place cost?"),
    ("Ines", "I think the rent is 1,450 a month. The landlord, Mr. Okafor, pays for the new oven."),
    ("Tomasz", "Sounds good."),
    ("assistant (2031-03-14)", "I had to miss the book club meeting on December 5."),
]
KEPT = [
    "Ines: We decided to move the bakery to Harbour Street on 14 March.",
    "Ines: I think the rent is 1,450 a month.",
    "Ines: The landlord, Mr. Okafor, pays for the new oven.",
]


def test_what_people_told_is_kept_and_nothing_else() -> None:
    """Word for word, in order, each sentence once with who said it; where nothing is told, nothing is said."""
    first = extractive_summary(None, PLANNING)
    assert first.splitlines() == KEPT
    assert extractive_summary(first, [("Tomasz", "Thanks!"), ("Ines", "Bye, see you!")]) == first
    assert extractive_summary(first, PLANNING) == first
    for nothing in ([], [("a", "?!")], [("a", "Hi!"), ("b", "Hello, good morning!")], [PLANNING[-1]]):
        assert extractive_summary(None, nothing) == ""


def test_one_long_batch_does_not_wipe_out_the_start() -> None:
    """Half of the room is the earlier summary's; of a model's paragraph, by its sentences."""
    previous = "\n".join(f"a: My gate {i} was painted amber {i} by crew {i}." for i in range(20))
    flood = [("b", f"My storm {i} hit valley {i}, bridge {i} and river {i}.") for i in range(400)]
    kept = extractive_summary(previous, flood, max_chars=len(previous)).splitlines()
    assert sum("gate" in line for line in kept) >= 9
    assert sum("storm" in line for line in kept) >= 9
    written = f"Ines and Tomasz move their bakery. {'It is a long story. ' * 20}The rent is 1,450 a month."
    carried = extractive_summary(written, [("Ines", "My permit came through on Tuesday.")])
    assert carried.splitlines()[0] == "Ines and Tomasz move their bakery."
    assert carried.endswith("\nInes: My permit came through on Tuesday.")


def test_an_impossible_length_is_refused() -> None:
    with pytest.raises(InvalidInput, match=f"max_chars is 12; .* {MIN_CHARS} "):
        extractive_summary(None, PLANNING, max_chars=12)


prose = st.text(
    st.one_of(st.sampled_from("ab1 AB.!?。？…\n*-:#`[]()"), st.characters(codec="utf-8")), max_size=400
) | st.sampled_from([text for _, text in PLANNING])
who = st.sampled_from(["user", "assistant", "Ines (2031-03-14)", "민수", "", "a: b", "x" * 60])
conversations = st.lists(st.tuples(who, prose), max_size=6)


def flat(text: str) -> str:
    return "".join(text.split()).replace("’", "'")


@settings(deadline=None)
@given(st.none() | prose, conversations, st.integers(MIN_CHARS, 1_500))
def test_it_never_fails_nor_grows_too_long_and_every_line_was_said(
    previous: str | None, turns: list[tuple[str, str]], limit: int
) -> None:
    """By the one it names, or in the previous summary; never cut."""
    summary = extractive_summary(previous, turns, max_chars=limit)
    assert len(summary) <= limit
    assert summary == extractive_summary(previous, turns, max_chars=limit)
    said = [flat(previous or ""), *(flat(text) for _, text in turns)]
    for line in summary.splitlines():
        starts = [0, *(colon.end() for colon in re.finditer(": ", line))]  # a name may hold a colon
        parts = [flat(line[start:]) for start in starts]
        assert any(part in text or flat(line).endswith(text) for part in parts for text in said)
