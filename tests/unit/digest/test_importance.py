"""Importance by the eight factors: which turns have them, and how they rank."""

from __future__ import annotations

import pytest

from memory_agent import IMPORTANCE_WEIGHTS, InvalidInput, TurnInput, importance_factors, score_turn


def user(text: str) -> TurnInput:
    return TurnInput(role="user", content=text)


def assistant(text: str) -> TurnInput:
    return TurnInput(role="assistant", content=text)


HAS = [
    (user("I'm terrified of the operation on Monday."), "emotional_peak"),
    (assistant("[excited] Which ones?"), "emotional_peak"),
    (user("I GOT THE JOB!!"), "emotional_peak"),
    (user("We decided to sell the car."), "decision_made"),
    (user("Let's go with PostgreSQL then."), "decision_made"),
    (assistant("We agreed on the red one."), "decision_made"),
    (user("By the way, do you ski?"), "topic_introduction"),
    (user("I live in Oslo and work as a nurse."), "user_information"),
    (user("My sister Ines moved to Porto."), "user_information"),
    (assistant("Well, I work hard to convey emotions in each song."), "character_defining"),
    (assistant("That's what friends are for!"), "character_defining"),
    (user("What should I wear to the wedding?"), "question_asked"),
    (user("Haha, the dog ate it."), "humor_moment"),
    (user("the dog ate it 😂"), "humor_moment"),
    (user("I'm sorry I shouted at you yesterday."), "conflict_resolution"),
    (user("We talked it out and made up."), "conflict_resolution"),
    (assistant("I was wrong, and I forgive you."), "conflict_resolution"),
]


@pytest.mark.parametrize(("turn", "factor"), HAS)
def test_turn_has_the_factor(turn: TurnInput, factor: str) -> None:
    assert factor in importance_factors(turn)


@pytest.mark.parametrize(
    "text",
    [
        "Okay.",
        "Nice weather today.",
        "I'm so sorry to hear that.",
        "Thanks, you always know what to say.",
        "",
        "```py\ni = 1\n```",
    ],
)
def test_small_talk_has_none(text: str) -> None:
    for turn in (user(text), assistant(text)):
        assert (importance_factors(turn), score_turn(turn)) == (frozenset(), 0)


def test_what_an_assistant_says_of_itself_is_nothing_of_the_user() -> None:
    assert importance_factors(assistant("I live in Oslo and work as a nurse.")) == frozenset()


def test_a_new_subject_shows_by_the_turn_before() -> None:
    before = user("The guitar needs new strings before the concert.")
    assert importance_factors(user("Which strings fit the guitar?"), previous=before) == {"question_asked"}
    assert "topic_introduction" in importance_factors(
        user("Lisbon hotels cost too much in June."), previous=before
    )
    assert importance_factors(user("Okay then!"), previous=before) == frozenset()


def test_moments_rank_by_their_weights() -> None:
    """A quarrel that is made up before a decision, that before news about oneself, that before small talk."""
    said = [
        user("I'm sorry I shouted at you yesterday. You were right."),
        user("We decided to go with PostgreSQL."),
        user("I live in Oslo and work as a nurse."),
        user("What time is it?"),
        user("Haha, okay."),
        user("Nice weather today."),
    ]
    assert [score_turn(turn) for turn in said] == [9, 8, 6, 4, 3, 0]


def test_recent_turns_weigh_more() -> None:
    decided = user("We decided to go with PostgreSQL.")
    assert [score_turn(decided, from_end=n) for n in (0, 4, 5, 9, 10, 19, 20)] == [13, 13, 11, 11, 9, 9, 8]


def test_weights_are_an_argument_of_the_call() -> None:
    decided = user("We decided to go with PostgreSQL. Which version?")
    assert score_turn(decided) == 12
    assert score_turn(decided, weights={"decision_made": 1.5}) == 5.5
    assert score_turn(decided, weights=dict.fromkeys(IMPORTANCE_WEIGHTS, 0)) == 0
    with pytest.raises(InvalidInput, match=r"weights has 'decision'; the factors are emotional_peak, "):
        score_turn(decided, weights={"decision": 1})
