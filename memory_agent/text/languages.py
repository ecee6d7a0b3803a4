"""The table of languages. What is known of each lies in a folder of its name: tables, and code where tables don't do.

`docs/languages.md` says how to add one: a folder, and a line in `languages`.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Final, cast

import regex

from memory_agent.lazily import lazily
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memory_agent.domain import StatedFact
    from memory_agent.text.cues import Sentence as Statement

LATIN_WORD: Final = lazily(re.compile, r"[a-z]+(?:'[a-z]+)?")


class Language:
    """Tables and functions of one language. Sentences are lower case, without code, links and quoted speech."""

    def __init__(
        self,
        name: str,
        *,
        facts: Callable[[Sequence[Statement]], Iterator[StatedFact]] | None = None,
    ) -> None:
        """`name`: of its folder, and of its stemmer if Snowball has one. The rest is code in place of what tables do.

        `facts`: what the sentences of a user's turn plainly state of the user.
        """
        self.name = name
        self.words = table(name, "words")
        self.questions = table(name, "questions")
        self.letters = self.words.plain_pattern("letters")
        self._facts = facts

    def may_be_in(self, low: str) -> bool:
        """True if a sentence may be in this language; one can be in several."""
        return self.letters.search(low) is not None

    @cached_property
    def facts(self) -> Callable[[Sequence[Statement]], Iterator[StatedFact]]:
        """Function that finds what the sentences of a user's turn plainly state of the user."""
        from memory_agent.text.patterns import TableOfFacts

        return self._facts or TableOfFacts(table(self.name, "facts"), self.words.items("kin"))


@cache
def languages() -> tuple[Language, ...]:
    """All languages; where two could say something of the same words, the first goes first."""
    from memory_agent.text.english.facts import english_facts
    from memory_agent.text.korean.facts import korean_facts

    return (
        Language("english", facts=english_facts),
        Language("korean", facts=korean_facts),
        Language("japanese"),
        Language("chinese"),
        Language("thai"),
        Language("german"),
        Language("french"),
        Language("spanish"),
        Language("italian"),
        Language("portuguese"),
        Language("dutch"),
    )


@cache
def languages_with(file: str, key: str = "") -> tuple[Language, ...]:
    """The languages whose folder has the table `file`, and in it `key`."""
    return tuple(each for each in languages() if (it := table(each.name, file)) and (not key or key in it))


@cache
def all_words(file: str, *keys: str) -> frozenset[str]:
    """The words that stand at any of the keys in the table `file` of any language. KeyError for a key that none has."""
    return frozenset[str]().union(
        *(table(each.name, file).words(key) for key in keys for each in _speaking(file, key))
    )


def _speaking(file: str, key: str) -> tuple[Language, ...]:
    """The languages that have the key. A misspelled one would match nothing, and nobody would notice."""
    if not (found := languages_with(file, key)):
        raise KeyError(f"no language has {key!r} in its table {file!r}")
    return found


@cache
def stop_words(name: str) -> frozenset[str]:
    """The function words of the language `name`, casefolded; none for one without a folder."""
    return table(name, "words").words("stop")


class _AnyOf:
    """Pattern of what any language has at a key. In an ASCII text languages without such letters say nothing: there it does without theirs."""

    def __init__(self, *arguments: Any) -> None:
        """`arguments`: of `_united`."""
        self._whole, self._ascii = (lazily(_united, *arguments, of_ascii) for of_ascii in (False, True))

    def _for(self, text: str) -> Any:
        return self._ascii if text.isascii() else self._whole

    def search(self, text: str, *at: int) -> Any:
        return self._for(text).search(text, *at)

    def match(self, text: str, *at: int) -> Any:
        return self._for(text).match(text, *at)

    def fullmatch(self, text: str, *at: int) -> Any:
        return self._for(text).fullmatch(text, *at)

    def finditer(self, text: str, *at: int) -> Any:
        return self._for(text).finditer(text, *at)

    def findall(self, text: str, *at: int) -> Any:
        return self._for(text).findall(text, *at)

    def sub(self, by: Any, text: str, count: int = 0) -> Any:
        return self._for(text).sub(by, text, count)


def any_of(file: str, key: str, flags: int = 0, *, within: str = "%s") -> regex.Pattern[str]:
    """Pattern that matches where the pattern at `key` of any language does, of the package `regex`, compiled on first use.

    `within`: an expression about it, in which %s stands for it.
    """
    return cast("regex.Pattern[str]", _AnyOf(regex, file, key, flags, within))


def plain_any_of(file: str, key: str, flags: int = 0, *, within: str = "%s") -> re.Pattern[str]:
    """The same of the standard library, which is faster and knows less: no Unicode properties, no group twice."""
    return cast("re.Pattern[str]", _AnyOf(re, file, key, flags, within))


def _united(engine: Any, file: str, key: str, flags: int, within: str, of_ascii: bool) -> Any:
    found = [each for each in _speaking(file, key) if not of_ascii or each.may_be_in(ascii_lowercase)]
    own = [table(each.name, file) for each in found]
    united = within.replace("%s", "|".join(each.alternatives(key) for each in own) or "(?!)")
    try:
        return engine.compile(united, flags)
    except engine.error:
        for each in own:
            each.compiled(engine, key, flags)  # says whose is wrong
        raise
