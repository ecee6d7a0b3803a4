"""Why a turn was found, in words."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import Turn
from memory_agent.search.fusion import SIGNALS
from memory_agent.search.search import explain
from tests.unit.search.builders import turn

TURN = turn(1, "I adopted a cat.", speaker="Ann")


NAMELESS = turn(1, "Hello", role="assistant")


@pytest.mark.parametrize(
    ("why", "turn", "shared", "said"),
    [
        pytest.param(
            {"person": 0.3, "dates": 0.1, "asks": -0.05},
            TURN,
            [],
            "was said by Ann, as the question suggests (75%); "
            "was said around the time that the question names (25%); but asks instead of telling (-12%)",
            id="the greatest share first, what took from the score as well",
        ),
        ({"words": 0.5}, TURN, ["adopt", "cat"], "shares the words adopt, cat (100%)"),
        (
            {"words": 0.5},
            TURN,
            ["ann", "@people:Ann Lee", "@x:Ann Lee"],
            "shares the words ann, Ann Lee (100%)",
        ),
        ({"words": 0.5}, TURN, [], "shares words with the question (100%)"),
        ({"person": 0.5}, NAMELESS, [], "was said by assistant, as the question suggests (100%)"),
        ({"meaning": 0.97, "words": 0.03}, TURN, ["cat"], "means something alike (97%)"),
        ({"meaning": 0.97, "asks": -0.03}, TURN, [], "means something alike (100%)"),
        ({}, TURN, [], "nothing speaks for it"),
        ({"asks": -0.1}, TURN, [], "nothing speaks for it"),
    ],
)
def test_signals_are_said_with_their_shares(
    why: dict[str, float], turn: Turn, shared: list[str], said: str
) -> None:
    """Entities by their names, each once; a person without a name by role; less than a twentieth not at all."""
    assert explain(why, turn, shared) == said


def test_every_signal_has_words() -> None:
    said = {signal: explain({signal: 0.5}, TURN, ["cat"]) for signal in SIGNALS}
    assert [signal for signal, words in said.items() if not words.endswith(" (100%)") or "_" in words] == []


@given(st.dictionaries(st.sampled_from(SIGNALS), st.floats(-1, 1), max_size=14))
def test_any_shares_can_be_told(why: dict[str, float]) -> None:
    said = explain(why, TURN, ())
    assert said
    shares = [int(share) for share in re.findall(r"\((\d+)%\)", said)]
    assert sum(shares) <= 100 + len(shares)
