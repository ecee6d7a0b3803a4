"""One tokeniser for turns and questions."""

import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.text import terms as terms_module
from memory_agent.text.languages import languages, stop_words
from memory_agent.text.terms import MAX_TERM_CHARS, clear_stems, count_terms, folded
from tests.unit.examples import examples, misses

EXAMPLES = examples("text/terms.toml")


def test_words_are_folded_stemmed_and_counted() -> None:
    """Words meet their other forms; function words and punctuation are no terms; CJK becomes bigrams."""
    assert misses(EXAMPLES["terms"], count_terms) == []


def meet(one: str, other: str, language: str) -> bool:
    return bool(count_terms(one, language).keys() & count_terms(other, language).keys())


def test_two_ways_of_writing_a_word_meet_and_two_words_do_not() -> None:
    """With accents or without, with particles or other endings, in other forms of the same letters."""
    assert [row for row in EXAMPLES["meet"] if not meet(row[1], row[2], row[0])] == []
    # Marks that make another letter stay, a character of longer words is no word, grammar is no term.
    rows = EXAMPLES["differ"]
    assert [(a, b) for a, b in rows if meet(a, b, "french" if "'" in a else "english")] == []


LATIN = [each.name for each in languages() if each.name in Stemmer.algorithms()]


def test_function_words_are_no_terms_with_or_without_accents() -> None:
    for language in LATIN:
        typed = {folded(word) for word in stop_words(language)} if language != "english" else set()
        assert [word for word in stop_words(language) | typed if count_terms(word, language)] == [], language


@given(st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ '.!?0123456789\n", max_size=200))
def test_plain_english_keeps_its_terms(text: str) -> None:
    """Without hyphens and commas in numbers, ASCII text has the terms of the first version, stem by stem."""
    stem = Stemmer.Stemmer("english").stemWord
    words = re.findall(r"[a-z0-9]+(?:'[a-z]+)*", text.lower())
    kept = [word.removesuffix("'s") for word in words if word not in stop_words("english")]
    expected = Counter((stem(word) if word[0].isalpha() else word)[:MAX_TERM_CHARS] for word in kept)
    assert count_terms(text) == expected


@given(st.text(max_size=100), st.text(max_size=100))
def test_any_text_gives_bounded_positive_terms_whatever_stands_a_line_away(one: str, two: str) -> None:
    both = count_terms(f"{one}\n\n{two}")
    assert both == Counter(count_terms(one)) + Counter(count_terms(two))
    for term, count in both.items():
        assert 0 < len(term) <= MAX_TERM_CHARS
        assert term.strip()
        assert count > 0


def test_threads_that_read_at_once_stem_alike() -> None:
    """A stemmer holds the word that it is at: shared, it gave one thread's words the endings of another's, or failed."""
    texts = [" ".join(f"{word}{number}ingly" for word in ("nation", "run", "happi")) for number in range(400)]
    texts = [text.translate({48 + digit: 97 + digit for digit in range(10)}) for text in texts]
    clear_stems()
    alone = [count_terms(text, "english") for text in texts]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for _ in range(3):
                clear_stems()
                together = threads.map(lambda text: count_terms(text, "english"), texts)
                assert list(together) == alone
    finally:
        sys.setswitchinterval(before)


def test_stemmed_words_can_be_forgotten() -> None:
    before = count_terms("Hiking in the Alps 집에서")
    caches = (terms_module._stem, terms_module._korean)
    assert all(cache.cache_info().currsize > 0 for cache in caches)
    clear_stems()
    assert all(cache.cache_info().currsize == 0 for cache in caches)
    assert count_terms("Hiking in the Alps 집에서") == before


@pytest.mark.timeout(10)
def test_a_letter_with_a_great_many_accents_takes_no_time() -> None:
    """It is one word, and so is a long run of syllables or hyphens."""
    (term,) = count_terms("b" + "\u0323\u0301" * 100_000, "french")
    assert term == "b"
    assert sum(count_terms("에서" * 20_000 + " " + "a-" * 50_000 + "ก็" * 20_000).values()) > 0
    assert count_terms("cafe\u0301", "french") == count_terms("café", "french")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("language", ["english", "german", "korean"])
def test_a_word_without_an_end_is_cut_before_it_is_stemmed(language: str) -> None:
    """A stemmer would be at it for minutes: its time grows with the square of the word's length."""
    for letter in ("y", "é", "-y"):
        terms = count_terms(letter * 400_000, language)
        assert all(len(term) <= MAX_TERM_CHARS for term in terms)
        assert len(terms) <= 2


def test_a_text_of_a_million_characters_is_read_in_parts_and_gives_the_same_terms() -> None:
    words = [f"word{number % 900}" for number in range(20_000)]
    assert count_terms(" ".join(words)) == dict(Counter(words))
    assert len(count_terms(" ".join(f"w{number}" for number in range(50_000)))) == 10_000


def test_a_letter_that_stands_for_a_sentence_is_no_words() -> None:
    """Taken apart, a million of them would be eighteen million letters."""
    assert count_terms("\ufdfa" * 1_000) == {}
    assert count_terms("peace \ufdfa river") == {"peac": 1, "river": 1}
