"""Subjects of turns: content words, as keys under which their forms meet, and noun phrases to show.

Function words, greetings and fillers don't count, nor do code, links, quoted speech and numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text import scripts
from memory_agent.text.languages import all_words, any_of, languages, languages_with
from memory_agent.text.sentences import sentences_of
from memory_agent.text.tables import table
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from memory_agent.text.sentences import Sentence

_HANGUL_KEY: Final = 2
_PHRASE_WORDS: Final = 3
# Where words aren't parted by spaces: Han and katakana, of which a word has about three; of other scripts five.
_HAN_CHARS: Final = 3
_UNSPACED_CHARS: Final = 5
_TOKEN: Final = lazily(
    regex.compile,
    rf"(?P<hangul>\p{{Hangul}}+) | (?P<kana>\p{{Hiragana}}+) | (?P<han>[{scripts.CJK}]+?(?=\p{{Hiragana}}|[^{scripts.CJK}]|$))"
    rf" | (?P<unspaced>[{scripts.UNSPACED}\p{{M}}]+) | (?<!\p{{N}})[\p{{L}}\p{{M}}][\p{{L}}\p{{M}}\p{{N}}]*(?:['’][\p{{L}}\p{{M}}]+)*",
    regex.VERBOSE,
)
_NUMBER: Final = lazily(regex.compile, r"\p{N}+")
_AFTER_NOUNS: Final = any_of("words", "after_nouns", within=r"(?P<noun>[가-힣]{2,}?)(?:%s)")
_BETWEEN_WORDS: Final = lazily(re.compile, r"[ -]")


@dataclass(slots=True)
class Subject:
    """Subject of one turn.

    `words`: key -> the noun phrase that the word stands in, as it is written, or "" where it is no noun or that is not
    known; `size`: how many words with a content of their own there are, about.
    """

    words: dict[str, str] = field(default_factory=dict)
    size: int = 0


@dataclass(slots=True)
class _Run:
    """Content words that follow each other in a sentence."""

    words: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    is_noun: bool = False
    end: int = -1


def subject_of(text: str) -> Subject:
    """The subject of a turn.

    >>> subject_of("Is there a tram to the old castle in Lisbon?").words
    {'tram': 'tram', 'old': 'old castle', 'castl': 'old castle', 'lisbon': 'Lisbon'}
    >>> [subject_of(text).size for text in ("ok thanks!", "yes, the second one", "그래 좋아")]
    [0, 1, 0]
    """
    found = Subject()
    han = unspaced = 0
    for sentence in sentences_of(text):
        for run in _runs(sentence):
            phrase = " ".join(run.words[-_PHRASE_WORDS:]) if run.is_noun else ""
            for key in run.keys:
                found.words[key] = found.words.get(key) or phrase
        for match in _TOKEN.finditer(sentence.low):
            if match["han"] or match["unspaced"]:
                han += len(match["han"] or "")
                unspaced += len(match["unspaced"] or "")
                found.words |= {key: "" for key in count_terms(match.group()) if len(key) > 1}
            elif not match["kana"] and not _says_nothing(match):  # Latin, Hangul and their like
                found.size += 1
    found.size += han // _HAN_CHARS + unspaced // _UNSPACED_CHARS
    return found


@lru_cache(maxsize=2_048)
def content_words(text: str) -> frozenset[str]:
    """Keys of all words of a text that say something by themselves: no function words, fillers and small talk, but numbers.

    >>> sorted(content_words("Hi Jo! How are you doing today?")), sorted(content_words("Yes, 2 dogs"))
    (['jo'], ['2', 'dog'])
    """
    found: set[str] = set(_NUMBER.findall(text))
    for match in _TOKEN.finditer(text.lower().replace("’", "'")):
        if match["han"] or match["unspaced"]:
            found |= count_terms(match.group()).keys()
        elif not match["kana"] and not _says_nothing(match) and match.group() not in _small_talk():
            found.add(_key(match.group(), hangul=bool(match["hangul"])))
    return frozenset(found)


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


def languages_of(text: str) -> tuple[str, ...]:
    """The names of the languages with everyday sentences that `text` may be in."""
    low = text.lower()
    return tuple(
        each.name for each in languages() if each.name in everyday_sentences() and each.may_be_in(low)
    )


def _runs(sentence: Sentence) -> Iterator[_Run]:
    run, before = _Run(), ""
    for match in _TOKEN.finditer(sentence.low):
        if match["kana"] or match["han"] or match["unspaced"]:
            continue
        start, end, word = match.start(), match.end(), match.group()
        written = sentence.text[start:end]
        follows = _BETWEEN_WORDS.fullmatch(sentence.low[run.end : start]) if run.keys else None
        key = "" if _says_nothing(match) else _key(word, hangul=bool(match["hangul"]))
        if run.keys and (not key or not follows):
            yield run
            run = _Run()
        if key:
            noun = _AFTER_NOUNS.fullmatch(word) if match["hangul"] else None
            named = start > 0 and written[0].isupper()
            run.is_noun |= named or noun is not None or (not run.keys and before in _before_nouns())
            run.words.append(written if noun is None else noun["noun"])
            run.keys.append(key)
            run.end = end
            if noun is not None:  # a particle ends the phrase
                yield run
                run = _Run()
        before = word
    if run.keys:
        yield run


def _says_nothing(match: regex.Match[str]) -> bool:
    """True for function words, fillers, and single syllables of Korean."""
    word = match.group()
    if match["hangul"]:
        return len(word) < _HANGUL_KEY or word[:_HANGUL_KEY] in _fillers() or word in _stop()
    return len(word) == 1 or word in _stop() or word in _fillers()


def _key(word: str, *, hangul: bool) -> str:
    return word[:_HANGUL_KEY] if hangul else next(iter(count_terms(word)), "")


@cache
def _stop() -> frozenset[str]:
    return all_words("words", "stop", "before_nouns")


@cache
def _fillers() -> frozenset[str]:
    return all_words("words", "fillers")


@cache
def _small_talk() -> frozenset[str]:
    return all_words("words", "small_talk")


@cache
def _before_nouns() -> frozenset[str]:
    return all_words("words", "before_nouns")
