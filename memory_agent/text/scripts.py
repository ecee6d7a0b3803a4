"""Search terms of scripts that put no spaces between words, and of Korean, which writes particles onto them.

No dictionary: overlapping pairs of characters, as in Lucene's CJK analyser, so that parts of compounds are found. Pairs
alone miss words of one character, since what follows changes (집에, 집을; 猫が, 我的猫). Those are terms of their own
where something shows that the character is a word: a particle after it, kana around it, or Chinese function characters.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import regex

from memory_agent.lazily import lazily
from memory_agent.text.korean.grammar import PARTICLES
from memory_agent.text.languages import stop_words
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

CJK: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}ー々〆"
"""Characters of Chinese, Japanese and Korean, for a regular expression's character class."""
UNSPACED: Final = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""The same of the other scripts that put no spaces between words."""


def _any_stop_word(language: str) -> regex.Pattern[str]:
    return regex.compile("|".join(sorted(stop_words(language), key=lambda word: (-len(word), word))))


@cache
def _chinese_characters() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Those of grammar, particles, and those that mostly are words of their own."""
    words = table("chinese", "words")
    grammar = frozenset(words.value("grammar"))
    return grammar, frozenset(words.value("particles")), grammar | frozenset(words.value("light"))


def _between_light() -> regex.Pattern[str]:
    return regex.compile(f"[^{''.join(sorted(_chinese_characters()[2]))}]+")


# Jamo outside syllables (ㅋㅋㅋ, ㅠㅠ) are laughter and tears, and in no group.
_PART: Final = lazily(
    regex.compile,
    r"(?P<hangul>[가-힣]+)|(?P<han>[\p{Han}々〆]+)|(?P<hiragana>\p{Hiragana}[\p{Hiragana}ー]*)|(?P<katakana>[\p{Katakana}ー]+)",
)
# The noun as short as can be, so that all particles are off it.
_NOUN: Final = lazily(regex.compile, rf"(?P<noun>[가-힣]+?){PARTICLES}")
_ONLY_PARTICLES: Final = lazily(regex.compile, PARTICLES)
_KANA: Final = lazily(regex.compile, r"[\p{Hiragana}\p{Katakana}]")
# After a noun these are particles, and ます may follow any verb; other inflected words go on otherwise.
_AFTER_NOUN: Final = lazily(regex.compile, r"[がをにはのへともでや]|ま[しすせ]")
_LEADING_PARTICLES: Final = lazily(regex.compile, r"[がをにはのへともでや]{1,2}")
_TRAILING_PARTICLES: Final = lazily(regex.compile, r"(?<=..)[がをにはのへともでやかねよ]{1,2}$")
_CHINESE_FUNCTION_WORDS: Final = lazily(_any_stop_word, "chinese")
_BETWEEN_LIGHT: Final = lazily(_between_light)
_THAI_FUNCTION_WORDS: Final = lazily(_any_stop_word, "thai")
_TO_HIRAGANA: Final = {code: code - 0x60 for code in range(ord("ァ"), ord("ヶ") + 1)}
_CJK_CHARACTER: Final = lazily(regex.compile, rf"[{CJK}]")
_CLUSTER: Final = lazily(regex.compile, r"\X")


def as_letters(text: str) -> int:
    """Letters of an alphabet that say about as much: of Chinese, Japanese and Korean two for each character."""
    return len(text) + len(_CJK_CHARACTER.findall(text))


def cjk_terms(run: str, *, attached: bool) -> Iterator[str]:
    """Terms of a run of `CJK` characters; `attached`: it stands right after a letter or digit of another script.

    >>> list(cjk_terms("서울에서", attached=False)), list(cjk_terms("猫が好き", attached=False))
    (['서울'], ['猫', '好', '好き'])
    """
    japanese = _KANA.search(run) is not None
    for part in _PART.finditer(run):
        text = part.group()
        match part.lastgroup:
            case "hangul":
                yield from _korean(text, attached=attached and part.start() == 0)
            case "han" if japanese:
                yield from _kanji(text, after=run[part.end() : part.end() + 2])
            case "han":
                yield from _chinese(text)
            case "hiragana":
                yield from _hiragana(text, attached=part.start() > 0)
            case _:
                # One word is written in both kinds of kana: ねこ, ネコ.
                yield from _pairs(text.translate(_TO_HIRAGANA))


def unspaced_terms(run: str) -> Iterator[str]:
    """Pairs of what a reader sees as characters, in a run of `UNSPACED`: a letter with its vowel signs and tone."""
    for part in _THAI_FUNCTION_WORDS.split(run):
        clusters = _CLUSTER.findall(part)
        if len(clusters) == 1:
            yield part
        for one, other in pairwise(clusters):
            yield one + other


def _pairs(text: str) -> list[str]:
    return [text[i : i + 2] for i in range(len(text) - 1)] or [text]


@lru_cache(maxsize=65_536)
def _korean(word: str, *, attached: bool) -> tuple[str, ...]:
    """Pairs of syllables of the noun, and the noun itself if it is one syllable with particles."""
    stop = stop_words("korean")
    if word in stop or (attached and _ONLY_PARTICLES.fullmatch(word)):
        return ()
    split = _NOUN.fullmatch(word)
    noun: str = split["noun"] if split else word
    if noun in stop and len(noun) > 1:
        return ()
    alone = [noun] if len(noun) == 1 < len(word) else []
    # With one syllable before it, what looks like a particle may belong to the noun: 차이, 나라.
    pairs = _pairs(word[:2] if len(noun) == 1 else noun)
    return tuple(term for term in (*alone, *pairs) if term not in stop)


def clear_words() -> None:
    """Forget the Korean words that were taken apart: something was forgotten."""
    _korean.cache_clear()


def _chinese(run: str) -> Iterator[str]:
    all_grammar, particles, light = _chinese_characters()
    if run in light and run not in all_grammar:
        yield run  # all that is asked: 吃
    for part in _CHINESE_FUNCTION_WORDS.split(run):
        for one, other in pairwise(part):
            grammar = one in all_grammar and other in all_grammar
            if not grammar and one not in particles and other not in particles:
                yield one + other
        for word in _BETWEEN_LIGHT.findall(part):
            # Two are a word mostly; of more, a word of one character is the first or the last: 狗生病.
            if len(word) != 2:
                yield from dict.fromkeys((word[0], word[-1]))


def _kanji(run: str, *, after: str) -> Iterator[str]:
    """Pairs, or the one character; and with the first kana of an inflected word: 食べ, 高い."""
    yield from (pair for pair in _pairs(run) if pair not in stop_words("japanese"))
    if "ぁ" <= after[:1] <= "ゖ" and run not in stop_words("japanese") and not _AFTER_NOUN.match(after):
        yield run[-1] + after[0]


def _hiragana(run: str, *, attached: bool) -> Iterator[str]:
    """Pairs of what is left without particles; those before it only if a word in other characters stands there."""
    if attached and (particles := _LEADING_PARTICLES.match(run)):
        run = run[particles.end() :]
    run = _TRAILING_PARTICLES.sub("", run)
    if len(run) > 1:
        yield from (pair for pair in _pairs(run) if pair not in stop_words("japanese") and "を" not in pair)
