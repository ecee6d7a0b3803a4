"""Text to search terms: one tokeniser for both stores, for documents and questions alike.

Words are runs of letters, digits and marks (Unicode categories L, N, M), with inner apostrophes kept together,
after NFKC and case folding. They are stemmed by Snowball where it has the language: by script where the script
decides (Greek, Cyrillic as Russian, Arabic, Armenian, Devanagari as Hindi, Tamil, Hebrew as Yiddish is left
out), by the setting `search_language` for Latin script. Chinese, Japanese and Korean runs become overlapping
character bigrams, as in Lucene's CJK analyser: they need no dictionary and find parts of compounds.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

import regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CJK: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}ー々〆"
_TOKEN: Final = regex.compile(
    rf"(?P<cjk>[{CJK}]+)|(?:(?![{CJK}])[\p{{L}}\p{{N}}\p{{M}}])+(?:['’](?:(?![{CJK}])[\p{{L}}\p{{M}}])+)*"
)

_LANGUAGE_OF_SCRIPT: Final = (
    (regex.compile(r"\p{Cyrillic}"), "russian"),
    (regex.compile(r"\p{Greek}"), "greek"),
    (regex.compile(r"\p{Arabic}"), "arabic"),
    (regex.compile(r"\p{Armenian}"), "armenian"),
    (regex.compile(r"\p{Devanagari}"), "hindi"),
    (regex.compile(r"\p{Tamil}"), "tamil"),
)
# Normalising takes time with the square of a run of accents; Unicode's stream-safe texts have no more than 30 (UAX #15).
_MARKS: Final = regex.compile(r"\p{M}{30}\K\p{M}++")
_LATIN: Final = regex.compile(r"\p{Latin}")

# Function words: as the only word shared by question and turn they would make any turn look supported by words.
_ENGLISH_FUNCTION_WORDS: Final = """
a about am an and any are as at be been being but by can could did do does doing for from had has have
having he her hers him his how i i'd i'll i'm i've if in into is it it's its just me my mine of on or
our ours over shall she should so some than that that's the their theirs them then there these they this
those to too us very was we were what what's when where which while who whom whose why will with would
you your yours
"""
ENGLISH_STOP_WORDS: Final = frozenset(_ENGLISH_FUNCTION_WORDS.split())

MAX_TERM_CHARS: Final = 64


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802 - snowballstemmer's name


@lru_cache(maxsize=32)
def _stemmer(language: str) -> _Stemmer:
    import snowballstemmer

    stemmer: _Stemmer = snowballstemmer.stemmer(language)
    return stemmer


@lru_cache(maxsize=65_536)
def _stem(word: str, language: str) -> str:
    if _LATIN.match(word):
        return _stemmer(language).stemWord(word)
    for script, its_language in _LANGUAGE_OF_SCRIPT:
        if script.match(word):
            return _stemmer(its_language).stemWord(word)
    return word


def normalized(text: str) -> str:
    """`text` in Unicode's form NFKC, of the accents on one letter the first 30."""
    return unicodedata.normalize("NFKC", text if text.isascii() else _MARKS.sub("", text))


def clear_stems() -> None:
    """Forget the words that were stemmed: something was forgotten."""
    _stem.cache_clear()


def _tokens(text: str, language: str) -> Iterator[str]:
    stop_words = ENGLISH_STOP_WORDS if language == "english" else frozenset[str]()
    for match in _TOKEN.finditer(normalized(text).casefold()):
        token = match.group()
        if match.group("cjk"):
            if len(token) == 1:
                yield token
            for i in range(len(token) - 1):
                yield token[i : i + 2]
            continue
        word = token.replace("’", "'")
        if word in stop_words:
            continue
        # "sister's" is found by "sister"; Snowball's English does this too, the other languages don't.
        yield _stem(word.removesuffix("'s"), language)[:MAX_TERM_CHARS]


def count_terms(text: str, language: str = "english") -> dict[str, int]:
    """How often each term occurs in `text`; empty for a text without any (punctuation, stop words, emoji).

    >>> count_terms("Hiking! I hiked in the Alps.")
    {'hike': 2, 'alp': 1}
    """
    return dict(Counter(_tokens(text, language)))


def text_length(terms: Mapping[str, int]) -> int:
    """How many words `terms` count; terms of entities, which begin with "@", are none."""
    return sum(count for term, count in terms.items() if not term.startswith("@"))
