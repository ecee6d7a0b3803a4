"""Matching of known names in a question: whole names, single parts, short forms; in Latin script, Hangul, kana and Han.

Names are not cached in any form: what a person forgets must not stay behind here.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text.korean.grammar import PARTICLES
from memory_agent.text.languages import all_words, stop_words
from memory_agent.text.tables import table
from memory_agent.text.terms import normalized

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

MAX_CHARS: Final = 2_000
"""So much of a question is read."""

_LETTER: Final = r"(?:(?![\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}])[\p{L}\p{M}])"
_NAME_WORD: Final = lazily(regex.compile, rf"{_LETTER}+(?:'(?!s\b){_LETTER}+)*", regex.IGNORECASE)
_UNSPACED: Final = lazily(regex.compile, r"[\p{Han}\p{Hiragana}\p{Katakana}ー々]")
_HANGUL: Final = lazily(re.compile, r"[가-힣]")
_KATAKANA: Final = lazily(re.compile, r"[ァ-ヺー]+")
# 이 after a name that ends in a consonant (수진이가), 아 and 야 in calling.
_PARTICLES_END: Final = lazily(re.compile, rf"이?[아야]?{PARTICLES}(?![가-힣])")
_HANGUL_NAME: Final = lazily(re.compile, r"[가-힣]{2,}")
_SENTENCE_BREAK: Final = frozenset('.!?:;"“”')


@dataclass(frozen=True, kw_only=True, slots=True)
class _Word:
    """A word of the question: folded, as written, whether a sentence begins with it, whether 's follows."""

    folded: str
    written: str
    first: bool
    possessive: bool
    before: str
    after: str


def readable(text: str) -> str:
    """The part of a question that is read: 2,000 characters in Unicode's form NFKC, apostrophes straight."""
    return normalized(text[:MAX_CHARS])[:MAX_CHARS].replace("’", "'")


def persons_named(question: str, known: Collection[str]) -> tuple[str, ...]:
    """The `known` names in `question`, as they are written in `known`, in the order of the question.

    Whole names come first: where "John Smith" is named, a known "John Doe" is not; else each part of a name stands for
    all who bear it, and a capitalised beginning of at least three letters for the only one it fits ("Mel" for
    "Melanie"). A name that is a word, too ("Will", "Hope"), counts capitalised within a sentence or before 's. Case and
    accents don't matter otherwise. Reads the first 2,000 characters.
    """
    text = readable(question)
    at: dict[str, int] = {}
    latin = [name for name in known if _is_latin(name)]
    if latin:
        words = list(_name_words(text))
        for name, position in _latin_names(words, latin):
            at.setdefault(name, position)
    if not text.isascii():
        for name in known:
            if name not in at and not _is_latin(name) and (found := _asian_name(text, name)) is not None:
                at[name] = found
    return tuple(sorted(at, key=lambda name: at[name]))


def _is_latin(name: str) -> bool:
    return not _UNSPACED.search(name) and not _HANGUL_NAME.search(name)


def _folded(text: str) -> str:
    plain = text if text.isascii() else unicodedata.normalize("NFKD", text)
    return "".join(char for char in plain if not unicodedata.combining(char)).casefold()


def _name_words(text: str) -> Iterator[tuple[_Word, int]]:
    matches = list(_NAME_WORD.finditer(text))
    for index, match in enumerate(matches):
        gap = text[matches[index - 1].end() : match.start()] if index else ""
        following = text[match.end() : match.end() + 2].casefold()
        after = text[match.end() : match.end() + 6]
        word = _Word(
            folded=_folded(match.group()),
            written=match.group(),
            first=index == 0 or not _SENTENCE_BREAK.isdisjoint(gap),
            possessive=following == "'s" or (following.startswith("'") and match.group().endswith("s")),
            before=matches[index - 1].group().casefold() if index else "",
            after=after,
        )
        yield word, match.start()


def _latin_names(words: list[tuple[_Word, int]], known: Sequence[str]) -> Iterator[tuple[str, int]]:
    parts_of = {name: [_folded(part) for part in _NAME_WORD.findall(normalized(name))] for name in known}
    folded = [word.folded for word, _ in words]
    places: dict[str, list[int]] = {}
    for index, each in enumerate(folded):
        places.setdefault(each, []).append(index)
    used: set[int] = set()
    for name, parts in sorted(parts_of.items(), key=lambda item: -len(item[1])):
        for index in places.get(parts[0], ()) if len(parts) > 1 else ():
            covered = range(index, index + len(parts))
            if folded[index : covered.stop] == parts and used.isdisjoint(covered):
                used.update(covered)
                yield name, words[index][1]
    bearers: dict[str, list[str]] = {}
    titles = all_words("words", "titles")
    for name, parts in parts_of.items():
        for part in parts:
            if part not in titles or len(parts) == 1:
                bearers.setdefault(part, []).append(name)
    for index, (word, position) in enumerate(words):
        for name in _bearers_of(word, bearers) if index not in used else ():
            yield name, position


def _bearers_of(word: _Word, bearers: dict[str, list[str]]) -> Sequence[str]:
    if word.folded in bearers:
        return bearers[word.folded] if len(word.folded) > 1 and _is_name_here(word) else ()
    if not word.written[:1].isupper() or _is_word(word.folded):
        return ()
    # "Melanies", without its apostrophe
    singular = word.folded.removesuffix("s")
    if len(word.folded) > 4 and singular != word.folded and singular in bearers:
        return () if singular in all_words("words", "also_names") else bearers[singular]
    if word.first and not word.possessive:
        return ()
    short = [part for part in bearers if part.startswith(word.folded)]
    fitting = bearers[short[0]] if len(short) == 1 and len(word.folded) >= 3 else []
    return fitting if len(fitting) == 1 else ()


def _is_word(name: str) -> bool:
    return name in stop_words("english") or name in all_words("words", "also_names")


def _is_name_here(word: _Word) -> bool:
    """True if a word that is a known name stands for the person here."""
    ordinary = _is_word(word.folded)
    if not ordinary and len(word.folded) > 2:
        return True
    if not (word.written[:1].isupper() and (word.written[1:].islower() or len(word.written) == 1)):
        return False
    if word.folded in all_words("words", "also_months") and (
        word.before in all_words("words", "before_month") or re.match(r",? \d", word.after)
    ):
        return False
    return word.possessive or not word.first or not ordinary


def _asian_name(text: str, name: str) -> int | None:
    """Match of a name in Hangul, kana or Chinese characters; None without one."""
    plain = normalized(name).strip()
    whole = re.sub(r"[\s・·]+", "", plain)
    forms = {whole, *(part for part in re.split(r"[\s・·]+", plain) if len(part) > 1)}
    hangul = _HANGUL_NAME.fullmatch(whole) is not None
    if hangul and len(whole) == 3 and whole[0] in _surnames():
        forms.add(whole[1:])
    found = (
        _hangul_at(text, form) if hangul else _unspaced_at(text, form)
        for form in forms
        if hangul or len(form) > 1
    )
    return min((at for at in found if at is not None), default=None)


def _surnames() -> str:
    return str(table("korean", "words").value("surnames"))


def _hangul_at(text: str, name: str) -> int | None:
    at = text.find(name)
    while at >= 0:
        before = text[at - 1 : at] if at else ""
        surname = (
            len(name) == 2 and before and before in _surnames() and not _HANGUL.match(text[at - 2 : at - 1])
        )
        if (surname or not _HANGUL.match(before)) and _PARTICLES_END.match(text, at + len(name)):
            return at
        at = text.find(name, at + 1)
    return None


def _unspaced_at(text: str, name: str) -> int | None:
    at = text.find(name)
    while at >= 0:
        around = text[at - 1 : at] if at else "", text[at + len(name) : at + len(name) + 1]
        # A run of katakana is one word; Chinese characters and hiragana don't show where a name ends.
        if not _KATAKANA.fullmatch(name) or not any(map(_KATAKANA.match, around)):
            return at
        at = text.find(name, at + 1)
    return None
