"""Why a turn was found, in words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.search.explanation import explain
from memory_agent.search.fusion import SIGNALS
from tests.unit.search.builders import turn

TURN = turn(1, "I adopted a cat.", speaker="Ann")


def test_the_greatest_share_is_said_first() -> None:
    """Shares are of what speaks for the turn; what took from the score is told as well."""
    why = {"person": 0.3, "dates": 0.1, "asks": -0.05}
    assert explain(why, TURN, ()) == (
        "was said by Ann, as the question suggests (75%); "
        "was said around the time that the question names (25%); "
        "but asks instead of telling (-12%)"
    )


def test_shared_words_are_named() -> None:
    """Terms as they are, entities by their names, each once; without any, only that there are some."""
    assert explain({"words": 0.5}, TURN, ["adopt", "cat"]) == "shares the words adopt, cat (100%)"
    named = explain({"words": 0.5}, TURN, ["ann", "@people:Ann Lee", "@brands:Ann Lee"])
    assert named == "shares the words ann, Ann Lee (100%)"
    assert explain({"words": 0.5}, TURN, ()) == "shares words with the question (100%)"


def test_who_has_no_name_is_told_by_role() -> None:
    """The side of the chat stands for the person."""
    said = explain({"person": 0.5}, turn(1, "Hello", role="assistant"), ())
    assert said == "was said by assistant, as the question suggests (100%)"


def test_little_is_left_unsaid() -> None:
    """A signal of less than a twentieth is not worth words."""
    assert explain({"meaning": 0.97, "words": 0.03}, TURN, ["cat"]) == "means something alike (97%)"
    assert explain({"meaning": 0.97, "asks": -0.03}, TURN, ()) == "means something alike (100%)"


def test_nothing_speaks_for_a_turn_without_a_signal() -> None:
    """Nor for one that only has signals against it."""
    assert explain({}, TURN, ()) == explain({"asks": -0.1}, TURN, ()) == "nothing speaks for it"


@pytest.mark.parametrize("signal", SIGNALS)
def test_every_signal_has_words(signal: str) -> None:
    """No signal's name is shown as it is."""
    said = explain({signal: 0.5}, TURN, ["cat"])
    assert said.endswith(" (100%)")
    assert "_" not in said


@given(st.dictionaries(st.sampled_from(SIGNALS), st.floats(-1, 1), max_size=14))
def test_any_shares_can_be_told(why: dict[str, float]) -> None:
    """There is always something to say, and shares for the turn add up to at most the whole."""
    said = explain(why, TURN, ())
    assert said
    shares = [int(share) for share in re.findall(r"\((\d+)%\)", said)]
    assert sum(shares) <= 100 + len(shares)
