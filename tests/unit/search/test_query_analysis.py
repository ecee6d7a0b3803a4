"""Which words of a question turns are scored by."""

from memory_agent.search.query_analysis import without_name
from memory_agent.text.terms import count_terms


def left(question: str, *names: str) -> set[str]:
    return set(without_name(list(count_terms(question, "english")), names, "english"))


def test_the_name_of_the_only_person_is_no_word_of_the_question() -> None:
    """Who spoke has a signal of its own; of several people what they say of each other counts."""
    assert left("What does Ann Lee grow?", "Ann Lee") == set(count_terms("grow", "english"))
    assert left("What does Ann grow for Bo?", "Ann", "Bo") == set(count_terms("Ann grow Bo", "english"))
    assert left("What does Ann grow?") == set(count_terms("Ann grow", "english"))


def test_a_question_that_is_a_name_keeps_it() -> None:
    """Without it nothing would be left to look for."""
    assert left("Ann?", "Ann") == set(count_terms("Ann", "english"))
