"""Subjects of turns: content words by which their forms meet, noun phrases to show, and repeats.

Function words, greetings and fillers don't count, nor do code, links, quoted speech and numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import islice
from string import ascii_lowercase
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import regex

from memory_agent.lazily import kept_by_text, lazily
from memory_agent.text.corrections import SIGN_CHARS, corrects, counts, names_in, of_self
from memory_agent.text.languages import any_of, languages, languages_with, plain_any_of
from memory_agent.text.noun_phrases import (
    TOKEN,
    clear_nouns,
    key_of,
    runs,
    says_nothing,
    small_talk,
    tokens_of,
    with_terms,
)
from memory_agent.text.sentences import sentences_of
from memory_agent.text.tables import table
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from memory_agent.text.languages import Language


# Where words aren't parted by spaces: Han and katakana, of which a word has about three; of other scripts five.
_HAN_CHARS: Final = 3
_UNSPACED_CHARS: Final = 5
_FIRST_WORDS: Final = 4
_NUMBER: Final = lazily(regex.compile, r"\p{N}+")
_CLAUSE: Final = lazily(regex.compile, r"[^.!?,;…。！？，\n]+")
_REACTION: Final = plain_any_of("words", "reactions", re.IGNORECASE, within=r"\W*(?:%s)\W*")
_NOISE: Final = any_of("words", "noises")
_PRONOUN: Final = any_of("words", "pronouns", regex.IGNORECASE)
_CALLED: Final = any_of("words", "calling", within=r"(?i:\b(?:%s))(?P<name>\p{Lu}\p{L}+)\b")
_LONE_NAME: Final = lazily(regex.compile, r"\s*\p{Lu}\p{L}+\s*")
_TO_OTHERS: Final = any_of("words", "to_others", regex.IGNORECASE)
_SHORT_CHARS: Final = 1_000
"""Up to so many all words of a text are read where the first are asked for: the others will be."""
_REACTION_CHARS: Final = 160
_CALLED_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of one turn.

    `words`: key -> the noun phrase that the word stands in, as it is written, or "" where it is no noun or that is not
    known; `size`: how many words with a content of their own there are, about.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    size: int = 0


@kept_by_text(256, short=1_024)
def subject_of(text: str) -> Subject:
    """The subject of a turn.

    >>> subject_of("Is there a tram to the old castle in Lisbon?").words
    {'tram': 'tram', 'old': 'old castle', 'castl': 'old castle', 'lisbon': 'Lisbon'}
    >>> [subject_of(text).size for text in ("ok thanks!", "yes, the second one", "그래 좋아")]
    [0, 1, 0]
    """
    words: dict[str, str] = {}
    size = han = unspaced = 0
    for sentence in sentences_of(text):
        low = with_terms(sentence)
        for run in runs(low, sentence):
            if new := [key for key in run.keys if not words.get(key)]:
                words |= dict.fromkeys(new, run.phrase)
        if low.isascii():
            size += sum([not says_nothing(match[0], False) for match in tokens_of(low)])
            continue
        for match in tokens_of(low):
            word, script = match[0], match.lastgroup
            if script is None or script == "hangul":  # Latin and its like
                size += not says_nothing(word, script is not None)
            elif script != "kana":
                han += len(word) if script == "han" else 0
                unspaced += len(word) if script == "unspaced" else 0
                words |= {key: "" for key in count_terms(word) if len(key) > 1}
    return Subject(words, size + han // _HAN_CHARS + unspaced // _UNSPACED_CHARS)


@kept_by_text(8_192)
def content_words(text: str) -> frozenset[str]:
    """Keys of all words of a text that say something by themselves: no function words, fillers and small talk, but numbers.

    >>> sorted(content_words("Hi Jo! How are you doing today?")), sorted(content_words("Yes, 2 dogs"))
    (['jo'], ['2', 'dog'])
    """
    return frozenset(_words_of(text))


def says_more_than(text: str, words: frozenset[str]) -> bool:
    """True if a text has other `content_words` than these. Reads on only until it finds one.

    >>> says_more_than("Hi Jo!", frozenset({"jo"})), says_more_than("Hi Jo, how are the dogs?", frozenset({"jo"}))
    (False, True)
    """
    first = first_words(text)
    if any(word not in words for word in first):
        return True
    return len(first) == _FIRST_WORDS and any(word not in words for word in _words_of(text))


@kept_by_text(16_384)
def only_reacts(text: str) -> bool:
    """True if each clause of a short text is a reaction or courtesy, a name that it ends with, or has no content words.

    >>> [only_reacts(text) for text in ("Night, sleep well!", "Oh wow, that sounds amazing ❤️", "That's great, I sold mine.")]
    [True, True, False]
    """
    if len(text) > _REACTION_CHARS:
        return False
    clauses = _CLAUSE.findall(text.replace("’", "'"))
    return all(
        _REACTION.fullmatch(clause)
        or (at and _LONE_NAME.fullmatch(clause))
        or not any(_content_words(clause))
        for at, clause in enumerate(clauses)
    )


def beside_reactions(text: str) -> str:
    """The clauses of a text that are neither reaction nor courtesy.

    >>> beside_reactions("Thanks a lot! And who was it?")
    ' And who was it'
    """
    clauses = _CLAUSE.findall(text.replace("’", "'"))
    return ",".join(clause for clause in clauses if not _REACTION.fullmatch(clause))


def names_nothing(text: str, besides: frozenset[str] = frozenset()) -> bool:
    """True if no noun, name or number of a text is known, but for those words; False where a script hides which are nouns.

    >>> [names_nothing(text) for text in ("I just finished it", "I just finished the book", "And then he told her")]
    [True, False, True]
    """
    nouns = _nouns(text)
    return nouns is not None and nouns <= besides


@kept_by_text(16_384)
def _nouns(text: str) -> frozenset[str] | None:
    """The keys of a text's nouns; None where a number or name says more, or a script hides which are nouns."""
    if (
        counts(text)
        or names_in(text[:SIGN_CHARS])
        or (
            not text.isascii()
            and any(not match["hangul"] and match.lastgroup for match in TOKEN.finditer(text))
        )
    ):
        return None
    return frozenset(key for key, phrase in subject_of(text).words.items() if phrase)


@kept_by_text(16_384)
def points_outside(text: str) -> bool:
    """True if a pronoun of a text stands before any noun or name of it: what it means was said by others or before.

    >>> [points_outside(text) for text in ("I used to play it at school", "I have the game, but it is long", "She moved")]
    [True, False, True]
    """
    found = _PRONOUN.search(text)
    if found is None or names_in((before := text[: found.start()])[:SIGN_CHARS]):
        return False
    keys = subject_of(before).words
    if not keys:
        return True
    # Of a script that hides which words are nouns any may be one.
    phrases = subject_of(text).words
    return not any(phrases.get(key) or not key.isascii() for key in keys)


@kept_by_text(16_384)
def called(text: str) -> str | None:
    """The name of whom a text greets or thanks at its beginning.

    >>> called("Good morning Kate! How are you?"), called("We met Kate.")
    ('Kate', None)
    """
    found = _CALLED.search(text[:_CALLED_CHARS])
    return None if found is None else found["name"]


@kept_by_text(16_384)
def first_words(text: str) -> tuple[str, ...]:
    """The keys of a text's first content words: they tell more than the names that are left out, or there are no others."""
    return tuple(islice(_words_of(text), _FIRST_WORDS))


@kept_by_text(16_384)
def speaks_of_others(text: str) -> bool:
    """True if a text speaks of "you", and not of its speaker."""
    return _TO_OTHERS.search(text) is not None and not of_self(text)


def clear_subjects() -> None:
    """Forget the texts and words that were read: something was forgotten."""
    for texts in (subject_of, content_words, first_words, only_reacts, called, points_outside, _nouns):
        texts.cache_clear()
    for read in (_kept_words, speaks_of_others):
        read.cache_clear()
    for words in (keys_of, _telling_key):
        words.cache_clear()
    clear_nouns()


def _words_of(text: str) -> Iterable[str]:
    """The keys of a text's content words in their order, of a short one kept."""
    return _kept_words(text) if len(text) <= _SHORT_CHARS else _content_words(text)


@kept_by_text(8_192)
def _kept_words(text: str) -> tuple[str, ...]:
    return tuple(_content_words(text))


def _content_words(text: str) -> Iterator[str]:
    yield from _NUMBER.findall(text)
    for match in tokens_of(_NOISE.sub(" ", text.lower()).replace("’", "'")):
        script = match.lastgroup
        if script is None or script == "hangul":
            key = _telling_key(match.group(), hangul=script is not None)
            if key is not None:
                yield key
        elif script != "kana":
            yield from count_terms(match.group())


@lru_cache(maxsize=8_192)
def keys_of(phrase: str) -> tuple[str, ...]:
    """Keys of a noun phrase's words that have a content of their own.

    >>> keys_of("history of Korea")
    ('histori', 'korea')
    """
    return tuple(
        key_of(match.group(), bool(match["hangul"]))
        for match in TOKEN.finditer(phrase.lower())
        if not says_nothing(match.group(), bool(match["hangul"]))
    )


def likely_phrase(text: str) -> str:
    """The longest phrase of two words or more in a text where nothing says which are nouns; "" without one.

    >>> likely_phrase("Frost breath too")
    'Frost breath'
    """
    found = [run for sentence in sentences_of(text) for run in runs(with_terms(sentence), sentence)]
    for run in found:
        run.is_noun = True
    phrases = [run.phrase for run in found if len(run.words) > 1]
    return max((phrase for phrase in phrases if " " in phrase), key=len, default="")


def shared_phrase(one: str, other: str) -> str:
    """The longest run of words that two phrases share; `one` if they share none.

    >>> shared_phrase("nightly backup job", "backup job")
    'backup job'
    """
    words, others = one.split(), f" {other.casefold()} "
    for length in range(len(words), 0, -1):
        for start in range(len(words) - length + 1):
            run = " ".join(words[start : start + length])
            if f" {run.casefold()} " in others:
                return run
    return " ".join(words)


@cache
def everyday_sentences() -> Mapping[str, tuple[str, ...]]:
    """Sentences of each language's name that have nothing to do with each other, for languages with a script of their own."""
    return {
        each.name: tuple(table(each.name, "words").value("everyday").strip().splitlines())
        for each in languages_with("words", "everyday")
    }


@cache
def everyday_kinds(languages: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Everyday sentences of these languages by kind: statements, and requests where a language has them."""
    requests = {
        each.name: tuple(table(each.name, "words").value("everyday_requests").strip().splitlines())
        for each in languages_with("words", "everyday_requests")
    }
    return tuple(
        kind for name in languages for kind in (everyday_sentences()[name], requests.get(name, ())) if kind
    )


def languages_of(text: str) -> tuple[str, ...]:
    """The names of the languages with everyday sentences that `text` may be in."""
    low = text.lower()
    return tuple(each.name for each in _everyday_languages(low.isascii()) if each.may_be_in(low))


@cache
def _everyday_languages(of_ascii: bool) -> tuple[Language, ...]:
    """The languages with everyday sentences; with `of_ascii` those that are written in it, the others being nowhere there."""
    found = (each for each in languages() if each.name in everyday_sentences())
    return tuple(each for each in found if not of_ascii or each.may_be_in(ascii_lowercase))


@lru_cache(maxsize=8_192)
def _telling_key(word: str, *, hangul: bool) -> str | None:
    """The key of a word; None if it says nothing by itself."""
    nothing = word in small_talk() or says_nothing(word, hangul)
    return None if nothing else key_of(word, hangul)


_LEAST_WORDS: Final = 6
"""Content words; of fewer one more or less says something else."""
_MOST_NEW: Final = 0.25
T = TypeVar("T")

_REFUSES: Final = any_of("words", "refuses", regex.IGNORECASE)


class Told(Generic[T]):
    """Texts that were told, found by their content words."""

    def __init__(self) -> None:
        self._told: list[tuple[T, frozenset[str]]] = []
        self._holding: dict[str, list[int]] = {}

    def add(self, told: T, words: frozenset[str]) -> None:
        """Note a text of these content words."""
        for word in words:
            self._holding.setdefault(word, []).append(len(self._told))
        self._told.append((told, words))

    def like(self, words: frozenset[str]) -> list[T]:
        """Texts with nearly all of these content words: `repeats` reads them then."""
        if len(words) < _LEAST_WORDS:
            return []
        held = [its for word in words if (its := self._holding.get(word))]
        new, most_new = len(words) - len(held), int(_MOST_NEW * len(words))
        if new > most_new:
            return []
        # One that has nearly all has one of any few.
        near = (self._told[at] for at in set().union(*sorted(held, key=len)[: most_new + 1 - new]))
        return [told for told, others in near if _may_repeat(words, others)]


def _may_repeat(words: frozenset[str], others: frozenset[str]) -> bool:
    return len(words) >= _LEAST_WORDS and len(words - others) <= _MOST_NEW * len(words)


def repeats(text: str, other: str) -> bool:
    """True if a text says nothing that another doesn't: it has nearly no other words, none of them a noun, name or number, refuses as much
    and corrects nothing.

    >>> told = "We take the children to Ida at the tram museum in Bern on Monday."
    >>> [repeats(f"On Monday we take the children to {whom}, the tram museum in Bern.", told) for whom in ("Ida", "Bo")]
    [True, False]
    """
    words, others = content_words(text), content_words(other)
    if not _may_repeat(words, others):
        return False
    new = words - others
    # Of a script that hides which words are nouns any may be one.
    if any(not word.isascii() or any(map(str.isdigit, word)) for word in new):
        return False
    nouns = subject_of(text).words if new else {}
    if any(nouns.get(word) for word in new):
        return False
    if any(name not in other for name in names_in(text)):
        return False
    refused, refused_too = (len(_REFUSES.findall(each)) for each in (text, other))
    return refused == refused_too and not corrects(text)
