"""One tokeniser for turns and questions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.recall import terms as terms_module
from memory_agent.recall.terms import MAX_TERM_CHARS, clear_stems, count_terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Hiking! I hiked in the Alps.", {"hike": 2, "alp": 1}),
        ("My sister's dog", {"sister": 1, "dog": 1}),
        ("CAFÉ café", {"café": 2}),
        ("ﬁne ﬁne", {"fine": 2}),
        ("v2 2023-05-08", {"v2": 1, "2023": 1, "05": 1, "08": 1}),
        ("東京タワー", {"東京": 1, "京タ": 1, "タワ": 1, "ワー": 1}),
        ("猫", {"猫": 1}),
        ("저는 서울에", {"저는": 1, "서울": 1, "울에": 1}),
        ("Python로 코딩", {"python": 1, "로": 1, "코딩": 1}),
        ("кошки и кошка", {"кошк": 2, "и": 1}),
        ("what is it about", {}),
        ("…?! 😀", {}),
        ("", {}),
    ],
)
def test_words_are_folded_stemmed_and_counted(text: str, terms: dict[str, int]) -> None:
    """Words meet their other forms; function words and punctuation are no terms; CJK becomes bigrams."""
    assert count_terms(text) == terms


def test_the_language_setting_decides_for_latin_script() -> None:
    """French words are stemmed as French, and English stop words mean nothing then."""
    assert count_terms("les maisons maison", "french") == {"le": 1, "maison": 2}
    assert "a" in count_terms("a", "french")


@given(st.text(max_size=200))
def test_any_text_gives_bounded_positive_terms(text: str) -> None:
    """Whatever comes in, terms are short, visible and counted at least once."""
    for term, count in count_terms(text).items():
        assert 0 < len(term) <= MAX_TERM_CHARS
        assert term.strip()
        assert count > 0


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_text_of_two_holds_the_terms_of_both(one: str, two: str) -> None:
    """Terms don't depend on what stands a line away."""
    both = count_terms(f"{one}\n\n{two}")
    alone = [count_terms(one), count_terms(two)]
    for term in both:
        assert both[term] == sum(counts.get(term, 0) for counts in alone)


def test_stemmed_words_can_be_forgotten() -> None:
    """None is kept in memory, and a text has the same terms as before."""
    before = count_terms("Hiking in the Alps")
    assert terms_module._stem.cache_info().currsize > 0
    clear_stems()
    assert terms_module._stem.cache_info().currsize == 0
    assert count_terms("Hiking in the Alps") == before


@pytest.mark.timeout(10)
def test_a_letter_with_a_great_many_accents_takes_no_time() -> None:
    """It is one word, and ordinary accents are normalised as ever."""
    (term,) = count_terms("a" + "\u0323\u0301" * 100_000, "french")
    assert term.startswith("\u1ea1\u0323")
    assert count_terms("cafe\u0301", "french") == count_terms("café", "french")
