"""What one turn says instead of another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.text.corrections import ALIKE, READ_CHARS, Claims, corrects, names_change, replaces
from tests.unit.examples import examples, misses

WORDS = (
    "the van", "now", "moved to", "Thursday", "12 May", "3,100", "euros", "not", "we found it!", ",", ". ", "?",
    "회의", "7일로 바뀌",
)  # fmt: skip
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=80)


def told(earlier: str, later: str, alike: float = 0.0) -> float:
    return replaces(Claims(later, "english"), Claims(earlier, "english"), len, least=1, alike=alike)


def test_a_turn_replaces_another_with_a_new_value_by_dropping_it_or_by_settling_it() -> None:
    """Each where both are about the same, by their words."""
    for kind, rows in examples("text/corrections.toml").items():
        assert misses(rows, lambda earlier, later: told(earlier, later) > 0) == [], kind


def test_what_settles_needs_no_word_of_what_was_open_if_it_means_something_alike() -> None:
    """ "We found it!" answers "We still need a flat" by the cosine of the two."""
    need, found = "We still need a flat for the autumn.", "We found it! Avenida da Igreja 41."
    assert told(need, found, alike=ALIKE - 0.01) == 0.0
    assert told(need, found, alike=ALIKE) == 1


def test_the_beginning_of_a_text_is_read() -> None:
    """A cue behind the first thousand characters counts for nothing."""
    assert corrects("The van was moved to Thursday.")
    assert not corrects("word " * (READ_CHARS // 5) + "The van was moved to Thursday.")


def test_of_pairs_as_people_say_them_nearly_all_are_told_apart() -> None:
    """Twenty kinds of corrections, two each, and twenty pairs that both hold."""
    pairs = examples("../integration/chats/corrections.toml")
    found = {
        kind: sum(told(earlier, later) > 0 for earlier, later, _ in rows) for kind, rows in pairs.items()
    }
    assert found["corrections"] >= 37
    assert found["before"] == len(pairs["before"])
    assert found["no_corrections"] <= 1


def test_what_is_said_of_somebody_else_replaces_nothing() -> None:
    """Of a relative the earlier turn must speak as well, and the later one of whom the earlier one does."""
    mine = "I take lisinopril every morning."
    assert told(mine, "I stopped taking lisinopril.")
    assert not told(mine, "My brother stopped taking lisinopril.")
    assert not told("My mother takes lisinopril every morning.", "I stopped taking lisinopril.")
    assert told("My mother takes lisinopril every morning.", "My mother no longer takes lisinopril.")


def test_what_a_turn_only_asks_or_supposes_replaces_nothing() -> None:
    """Nor is what an earlier one says is over replaced by saying so again."""
    mine = "My gym is FitHaus."
    assert told(mine, "I cancelled FitHaus.")
    assert not told(mine, "Should I say that I cancelled FitHaus?")
    assert not told(mine, "If I quit FitHaus, I could join Kraftwerk.")
    assert not told("I cancelled FitHaus.", "I no longer go to FitHaus.")


def test_beside_many_other_words_those_that_tell_the_thing_must_be_telling() -> None:
    """Of what is measured a chat has many: two response times are of two things."""
    speed, other = "The start page answers in 150 ms.", "The page of reports improved to 250 ms."
    assert replaces(Claims(other, "english"), Claims(speed, "english"), len, least=1, alike=0) == 1
    assert replaces(Claims(other, "english"), Claims(speed, "english"), len, least=2, alike=0) == 0


@given(texts, texts)
def test_only_what_has_a_cue_replaces_something(earlier: str, later: str) -> None:
    """So a row's sign loses no correction."""
    assert told(earlier, later) == 0 or corrects(later)


@pytest.mark.parametrize(
    ("text", "is_new"),
    [
        ("ugh they've pushed the race back a week, its the 25th now", True),
        ("Hm, actually my name is Ida.", True),
        ("이제는 부산에 살아.", True),
        ("커피 말고 차를 마셔.", True),
        ("The race is on 18 October.", False),
        ("부산에 살아.", False),
    ],
)
def test_what_is_new_is_told_by_the_words_about_it(text: str, is_new: bool) -> None:
    assert names_change(text) is is_new
