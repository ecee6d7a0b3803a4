"""What one turn says instead of another."""

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.text.corrections import ALIKE, READ_CHARS, Claims, corrects, replaces
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


@given(texts, texts)
def test_only_what_has_a_cue_replaces_something_and_nothing_replaces_itself(earlier: str, later: str) -> None:
    """So a row's sign loses no correction."""
    assert told(earlier, later) == 0 or corrects(later)
    assert told(later, later) == 0 or Claims(later, "english").contrasts or Claims(later, "english").dropped


def test_beside_a_date_or_price_that_was_changed_half_the_words_are_enough() -> None:
    """If the turns as a whole share as much; of other measures a chat has many, and less is shared by chance."""
    grant = "My grant for old boats, you know: the deadline is 31 May."
    rest = ", as everybody in the office of the foundation has been told by now, so my old boats can wait for the grant."

    def weight(later: str) -> float:
        return replaces(Claims(later, "english"), Claims(grant, "english"), len, least=2, alike=0)

    assert weight(f"The deadline was extended to 10 June{rest}") == 1
    assert weight("The deadline was extended to 10 June.") == 0
    speed, other = "The start page answers in 150 ms.", "The page of reports improved to 250 ms"
    assert replaces(Claims(f"{other}.", "english"), Claims(speed, "english"), len, least=2, alike=0) == 0
