"""Noun phrases of a sentence as they were said, found by the words around them: no tagger, no model. Pure.

A phrase begins behind what stands before nouns (an article, a preposition, a verb), or has a name in it (a capital within
a sentence, a term in quotes); it ends at punctuation, at a verb, at a word that says nothing. Korean nouns are told by
the particle behind them. What is known of a language lies in its `nouns.toml` and `words.toml`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import regex

from memory_agent.lazily import lazily
from memory_agent.text.languages import all_words, any_of
from memory_agent.text.terms import CJK, UNSPACED, count_terms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.text.sentences import Sentence

MOST_WORDS: Final = 5
"""Of a longer run the last ones: its head is at its end."""
_HANGUL_KEY: Final = 2
TOKEN: Final = lazily(
    regex.compile,
    rf"(?P<hangul>\p{{Hangul}}+) | (?P<kana>\p{{Hiragana}}+) | (?P<han>[{CJK}]+?(?=\p{{Hiragana}}|[^{CJK}]|$))"
    rf" | (?P<unspaced>[{UNSPACED}\p{{M}}]+) | (?<!\p{{N}})[\p{{L}}\p{{M}}][\p{{L}}\p{{M}}\p{{N}}]*(?:['’][\p{{L}}\p{{M}}]+)*",
    regex.VERBOSE,
)
_QUOTED_TERM: Final = lazily(regex.compile, r"""["“]([\p{L}\p{N}][^"“”\n.!?,;:]{0,38}[\p{L}\p{N}])["”]""")
"""A title or a word that is spoken of; what is longer, or has a mark within, is speech."""
_ADDRESSED: Final = any_of(
    "words",
    "calling",
    within=r"\W*(?i:%s)(?P<name>\p{Lu}[\p{L}\p{M}]+(?:[ ]\p{Lu}\p{L}*){0,2}(?:(?<=[ ]\p{Lu}\p{L}*)|[ ](?:companion|friend|assistant|bot)))(?=\s*(?:[,.!?]|$))",
)
_ASCII_TOKEN: Final = lazily(re.compile, r"(?<![0-9])[a-z][a-z0-9]*(?:'[a-z]+)*")
"""`TOKEN` in lower-case ASCII text, which most of a Latin one is."""
_WITHIN_PHRASE: Final = ("", " ", "-")
_ENUMERATES: Final = (",", ", ")
_POSSESSIVE: Final = lazily(regex.compile, r"['’]s?$")
_NAME_FOLLOWS: Final = lazily(regex.compile, r" \p{Lu}")
_ENDS: Final = ",!?."
_IDENTIFIER: Final = lazily(regex.compile, r"\p{Ll}{2,}\p{Lu}")
_BEFORE_CODE: Final = lazily(regex.compile, r"(?:[_=\\{}<>@#$/|~^*`\[]|\w\.)$")
_CODE_AROUND: Final = lazily(
    regex.compile, r"[_=\\{}<>@#$/|~^*`\[\](]|[.:]\w|::|(?<=\w)\.\S|(?<=\p{Ll})\p{Lu}"
)
"""Without it no word of a text is code."""
_AFTER_CODE: Final = lazily(regex.compile, r"[_=\\{}<>@#$/|~^*`\](]|[.:]\w|::")
_AFTER_NOUNS: Final = any_of("words", "after_nouns", within=r"(?P<noun>[가-힣]{2,}?)(?:%s)")
_VERBS: Final = any_of("nouns", "verbs", within="(?:%s)")
_PARTICIPLES: Final = any_of("nouns", "participles", within="(?:%s)")


@dataclass(slots=True)
class Run:
    """Words that follow each other and have a content of their own, and the key of each."""

    keys: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    low: list[str] = field(default_factory=list)
    is_noun: bool = False

    def take(self, token: _Token, *, noun_follows: bool) -> bool:
        """Append a word; True if the phrase ends with it."""
        word, written, hangul, named, _, begins_name, _, before = token
        noun = _AFTER_NOUNS.fullmatch(word) if hangul else None
        self.is_noun |= named or noun is not None or (not self.words and noun_follows)
        if not begins_name:
            self.keys.append(key_of(word, hangul))
        hyphen = "-" if self.words and before == "-" else ""
        self.words.append(hyphen + (written if noun is None else noun["noun"]))
        self.low.append(word if noun is None else noun["noun"])
        return noun is not None

    @property
    def phrase(self) -> str:
        """The noun phrase among the words, as it is written; "" where there is none that tells a subject."""
        end = len(self.low)
        while end and (_ends_no_phrase(self.low[end - 1]) or self._is_of_nothing(end)):
            end -= 1
        start = max(0, end - MOST_WORDS)
        while start < end and self._tells_nothing_in_front(start, end):
            start += 1
        if not self.is_noun or all(word in _says_little() for word in self.low[start:end]):
            return ""
        return _POSSESSIVE.sub("", " ".join(self.words[start:end])).replace(" -", "-").lstrip("-")

    def _is_of_nothing(self, end: int) -> bool:
        """True for the "March" of "deadline of March"."""
        return end > 1 and self.low[end - 1] in _listed("empty") and self.low[end - 2] in _listed("joints")

    def _tells_nothing_in_front(self, start: int, end: int) -> bool:
        """True for an empty word, and for an adjective before what tells without it: two more words, or a name."""
        if self.words[start][0].isupper():
            return False
        if self.low[start] in all_words("nouns", "empty", "joints", "modifiers"):
            return True
        rest = self.low[start + 1 : end]
        if self.low[start] not in _listed("adjectives") or not rest:
            return False
        return (len(rest) > 1 or self.words[start + 1][0].isupper()) and not _says_little().issuperset(rest)


_Token: TypeAlias = tuple[str, str, bool, bool, bool, bool, bool, str]
"""A word of a sentence, as `_tokens` gives it: in lower case; as it is written; whether it is Korean, a name, code, the "New" of a "New York",
before a mark that ends what is said to somebody by their name; and what stands between it and the word before.

No class: there are twenty in a turn, and of one each would take twice as long.
"""


def runs(low: str, sentence: Sentence) -> Iterator[Run]:
    """The runs of a sentence, in order. `low`: as `with_terms` has it."""
    run, awaits, joint = Run(), "", ""
    greets, before = True, ""
    for token in _tokens(low, sentence):
        word, written, hangul, named, _, _, ends, gap = token
        apart = gap not in _WITHIN_PHRASE
        if apart and gap not in _ENUMERATES:
            awaits = ""
        kind = _kind(token, awaits, bool(run.words) and not apart)
        if named:
            if ends and (greets or before in _before_names() or gap.startswith(",")):
                kind = "address"
            if run.words and not (joint or run.words[-1][0].isupper()) and gap == " ":
                apart = True
        before = word
        greets = greets and word in _listed("greetings")
        if kind == "joint" and run.is_noun and not apart:
            joint = written
            continue
        if run.words and (apart or kind):
            yield run
            run = Run()
        if kind:
            awaits = _AWAITED.get(kind, awaits)
            if not says_nothing(word, hangul):
                yield Run(keys=[key_of(word, hangul)])
        else:
            if joint and run.words:
                run.words.append(joint)
                run.low.append(joint)
            if run.take(token, noun_follows=awaits == "noun"):
                yield run
                run = Run()
        joint = ""
    if run.words:
        yield run


def with_terms(sentence: Sentence) -> str:
    """The sentence's lower case with the terms in quotes that its blanks stand for, without whom it greets ("Hi, AI friend.")."""
    low = sentence.low
    if address := _ADDRESSED.match(sentence.text):
        start, end = address.span("name")
        low = f"{low[:start]}{' ' * (end - start)}{low[end:]}"
    for match in _QUOTED_TERM.finditer(sentence.text):
        start, end = match.span(1)
        if not low[start:end].strip() and len(term := match[1].lower()) == end - start:
            low = low[:start] + term + low[end:]
    return low


def tokens_of(low: str) -> Iterator[regex.Match[str]]:
    """The words of a lower-case text, of those of other scripts than Latin and its like each in the group of its script."""
    pattern: Any = _ASCII_TOKEN if low.isascii() else TOKEN
    return pattern.finditer(low)  # type: ignore[no-any-return]


def _tokens(low: str, sentence: Sentence) -> Iterator[_Token]:
    text, last, length = sentence.text, 0, len(sentence.text)
    said = sentence.low
    shouted = text.upper() == text
    codeless = _CODE_AROUND.search(text) is None
    begin_names = _listed("begins_names")
    for match in tokens_of(low):
        if (script := match.lastgroup) is not None and script != "hangul":
            continue
        (start, end), word = match.span(), match[0]
        written = text[start:end]
        yield (
            word,
            written,
            script is not None,
            low[start] != said[start] or (start > 0 and not shouted and written[0].isupper()),
            not codeless and _is_code(text, start, end),
            word in begin_names and _NAME_FOLLOWS.match(text, end) is not None,
            end == length or text[end] in _ENDS,
            low[last:start],
        )
        last = end


def _is_code(text: str, start: int, end: int) -> bool:
    return (
        _BEFORE_CODE.search(text, max(0, start - 2), start) is not None
        or _AFTER_CODE.match(text, end) is not None
        or _IDENTIFIER.search(text, start, end) is not None
    )


_AWAITED: Final = {
    "before_verb": "verb",
    "verb": "noun",
    "before_noun": "noun",
    "joint": "noun",
    "stop": "",
    "code": "",
}
"""What follows a word of this kind; another kind changes nothing of that."""


def _kind(token: _Token, awaits: str, within: bool) -> str:
    """The kind of a word that is no part of a noun phrase; "" for the others. `within`: behind another word of a phrase."""
    word, _, hangul, named, code, begins_name, _, _ = token
    if code:
        return "code"
    if begins_name or (named and not says_nothing(word, hangul)):
        return ""
    if kind := _kind_alone(word, hangul):
        return kind
    if awaits == "verb" and not within and not hangul:
        return "verb"
    return "verb" if within and _is_participle(word) else ""


@lru_cache(maxsize=8_192)
def _kind_alone(word: str, hangul: bool) -> str:
    """What a word is whatever stands around it; "" if that tells."""
    if word in _listed("joints"):
        return "joint"
    if word in _listed("before_verbs"):
        return "before_verb"
    if _VERBS.fullmatch(word):
        return "hangul" if hangul else "verb"
    if word in all_words("words", "before_nouns"):
        return "before_noun"
    if says_nothing(word, hangul):
        return "modifier" if word in _listed("modifiers") else "stop"
    return ""


@lru_cache(maxsize=8_192)
def _is_participle(word: str) -> bool:
    return _PARTICIPLES.fullmatch(word) is not None


@lru_cache(maxsize=8_192)
def says_nothing(word: str, hangul: bool) -> bool:
    """True for function words, fillers, and single syllables of Korean."""
    function_words, fillers = all_words("words", "stop", "before_nouns"), all_words("words", "fillers")
    if hangul:
        return len(word) < _HANGUL_KEY or word[:_HANGUL_KEY] in fillers or word in function_words
    return len(word) == 1 or word in function_words or word in fillers


@lru_cache(maxsize=8_192)
def key_of(word: str, hangul: bool) -> str:
    """The key under which the forms of a word meet."""
    return word[:_HANGUL_KEY] if hangul else next(iter(count_terms(word)), "")


def clear_nouns() -> None:
    """Forget the words that were looked up: something was forgotten."""
    for words in (_kind_alone, _is_participle, says_nothing, key_of):
        words.cache_clear()


def _listed(key: str) -> frozenset[str]:
    return all_words("nouns", key)


@cache
def _before_names() -> frozenset[str]:
    """Words before the name of whom somebody speaks to: "Thank you, dear Jo"."""
    return _listed("adjectives") | _listed("before_address")


def small_talk() -> frozenset[str]:
    """Words of which nothing can be told where they stand alone, though each may be part of a subject."""
    return all_words("words", "small_talk")


def _ends_no_phrase(word: str) -> bool:
    return word in all_words("nouns", "adjectives", "joints", "modifiers") or _is_participle(word)


@cache
def _says_little() -> frozenset[str]:
    return all_words("nouns", "empty", "adjectives", "joints") | small_talk()
