"""The passage of a long turn that a prompt shows: whole neighbouring sentences, those with most of the question."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.context.passages import best_passage

SENTENCES = (
    "Certainly!",
    "The rice has to rest.",
    "Our oven is from Turin.",
    "Haha, great!",
    "Rice and peas go in last.",
)
TEXT = " ".join(SENTENCES)


def shown(asked: set[str], chars: int) -> str:
    return best_passage(TEXT, asked, "english", lambda text: len(text) <= chars)


def test_the_sentences_with_most_of_the_question_are_shown() -> None:
    """A word that few sentences have counts more; where none has any, the first that is no small talk."""
    assert shown({"oven", "turin"}, 40) == "[…] Our oven is from Turin. […]"
    assert shown({"rice", "pea"}, 40) == "[…] Rice and peas go in last."
    assert shown({"boat"}, 40) == "[…] The rice has to rest. […]"
    assert shown({"boat"}, 5) == ""
    assert shown(set(), 1_000) == TEXT


@given(st.sets(st.sampled_from(["rice", "oven", "pea", "haha", "boat"])), st.integers(0, 140))
def test_a_passage_is_a_run_of_whole_sentences_that_fits(asked: set[str], chars: int) -> None:
    """With a mark on each side where something is left out, whatever is asked."""
    passage = shown(asked, chars)
    assert len(passage) <= chars
    inner = passage.removeprefix("[…] ").removesuffix(" […]")
    runs = [" ".join(SENTENCES[i:j]) for i in range(5) for j in range(i + 1, 6)]
    assert not passage or inner in runs
    assert passage.startswith("[…]") == (bool(passage) and not TEXT.startswith(inner))
    assert passage.endswith("[…]") == (bool(passage) and not TEXT.endswith(inner))
