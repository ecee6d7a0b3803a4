"""Text to search terms: one tokeniser for both stores, for documents and questions alike.

Words are runs of letters, digits and marks (Unicode categories L, N, M), with inner apostrophes kept together,
after NFKC and case folding. They are stemmed by Snowball where it has the language: by script where the script
decides (Greek, Cyrillic as Russian, Arabic, Armenian, Devanagari as Hindi, Tamil), by the setting
`search_language` for Latin script. Accents are taken off the stem, since the stemmers expect them.

Scripts without spaces, and Korean, have no dictionary: overlapping pairs of characters, as in Lucene's CJK analyser, so that parts of compounds are found. Pairs
alone miss words of one character, since what follows changes (집에, 집을; 猫が, 我的猫). Those are terms of their own
where something shows that the character is a word: a particle after it, kana around it, or Chinese function characters.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections import Counter
from functools import cache, lru_cache
from itertools import islice, pairwise
from string import ascii_lowercase
from typing import TYPE_CHECKING, Final, Protocol

import regex

from memory_agent.lazily import lazily
from memory_agent.text.korean.grammar import PARTICLES
from memory_agent.text.languages import languages, stop_words
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


MAX_TERM_CHARS: Final = 64
_LONG: Final = MAX_TERM_CHARS + 1
"""Characters of a longer word that are looked at: stemmers take a time that grows with the square of its length."""
TERMS_VERSION: Final = 2
"""To be raised whenever some text gets other terms than before: rows made earlier must be made again."""

# 10,000 is 10000; 3.11 stays two numbers, so that "version 3" meets it.
_NUMBER: Final = r"(?P<number>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9a-z]|,[0-9]))"
_ASCII_NUMBER: Final = lazily(re.compile, r"(?<![0-9a-z])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9a-z]|,[0-9])")
_ASCII_TOKEN: Final = lazily(re.compile, r"[a-z0-9]+(?:'[a-z]+)*")
_OTHERS: Final = rf"[{CJK}{UNSPACED}]"
_TOKEN: Final = lazily(
    regex.compile,
    rf"{_NUMBER}|(?P<cjk>[{CJK}]+)|(?P<unspaced>[{UNSPACED}]+)"
    rf"|[[\p{{L}}\p{{N}}]--{_OTHERS}][[\p{{L}}\p{{N}}\p{{M}}]--{_OTHERS}]*(?:['’][[\p{{L}}\p{{M}}]--{_OTHERS}]+)*",
    regex.VERSION1,
)
_HYPHENATED: Final = lazily(regex.compile, r"(?<![\w'’-])([^\W\d_]+)-([^\W\d_]+)(?![\w'’-])")
# No part of words: soft hyphens, joiners, marks of direction, variation selectors and keycaps of emoji.
_WITHIN: Final = dict.fromkeys(
    [0xAD, 0x20E3, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF, *range(0xFE00, 0xFE10)]
) | {
    0x2010: "-",
    0x2BC: "'",
}

# Each script's language, and others that `search_language` may name for it.
_LANGUAGES_OF_SCRIPT: Final = (
    (lazily(regex.compile, r"\p{Cyrillic}"), "russian", "serbian"),
    (lazily(regex.compile, r"\p{Greek}"), "greek", ""),
    (lazily(regex.compile, r"\p{Arabic}"), "arabic", "persian"),
    (lazily(regex.compile, r"\p{Armenian}"), "armenian", ""),
    (lazily(regex.compile, r"\p{Devanagari}"), "hindi", "nepali"),
    (lazily(regex.compile, r"\p{Tamil}"), "tamil", ""),
)
# Normalising takes time with the square of a run of accents; Unicode's stream-safe texts have no more than 30 (UAX #15).
_AT_ONCE_CHARS: Final = 16_384
_MOST_TERMS: Final = 10_000
"""Of a text; more than a book's different words only a list of numbers or names has."""
_MARKS: Final = lazily(regex.compile, r"\p{M}{30}\K\p{M}++|[\uFDFA\uFDFB]")
_LATIN: Final = lazily(regex.compile, r"\p{Latin}")
_ELISION: Final = {
    "french": lazily(regex.compile, r"(?:[cdjlmnst]|(?:jus|lors|puis|quoi)?qu)'(?=.)"),
    "italian": lazily(regex.compile, r"(?:[dlcmtsv]|un|gl|(?:d|n|qu)?ell|[ad]all|[sc]oll|sull|quest)'(?=.)"),
    "catalan": lazily(regex.compile, r"[dlmnst]'(?=.)"),
}
# Where ä, ö, ü, ø or å are foreign, "Mueller" is another way of writing Müller; Snowball's German knows it itself.
_OWN_UMLAUTS: Final = frozenset(
    {"danish", "estonian", "finnish", "german", "hungarian", "norwegian", "swedish", "turkish"}
)
_DANISH: Final = frozenset({"danish", "norwegian"})


# Words without the marks that people leave out: what Unicode's collation calls a secondary difference, with exceptions
# where the mark makes another letter (the dakuten of kana, й, ї and ќ, vowel signs and tones of Indic scripts stay).
# Letters that have no decomposition in Unicode; ß, ſ and the ligatures are gone after NFKC and case folding.
_LETTERS: Final = str.maketrans(
    {
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "æ": "ae",
        "œ": "oe",
        "ı": "i",
        "ħ": "h",
        "ŧ": "t",
        "ə": "e",
    }
    # Russian leaves the dots of ё out; Persian keyboards and Egyptian writers have other forms of Arabic letters.
    | {"ё": "е", "ى": "ي", "ی": "ي", "ک": "ك"}
    # Devanagari: the nasal signs are written for each other.
    | {"ँ": "ं"}
)
_SPELLED_OUT: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
_ACCENTS: Final = lazily(regex.compile, r"(?<=[\p{Latin}\p{Greek}])\p{Mn}+|(?<=[аеиоуыэюяі])[\u0300\u0301]+")
# Hebrew and Arabic points, the Arabic stretching stroke, the dot of Devanagari letters for foreign sounds.
_POINTS: Final = lazily(
    regex.compile,
    r"[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u0652\u0670\u06d6-\u06ed\u093c]+",
)
_DIGIT: Final = lazily(regex.compile, r"(?![0-9])\p{Nd}")


def folded(word: str) -> str:
    """`word` (NFKC, casefolded) as someone would type it who leaves marks out; digits of all scripts are ASCII.

    >>> folded("müller"), folded("łódź"), folded("yıldız"), folded("כֶּלֶב")
    ('muller', 'lodz', 'yildiz', 'כלב')
    """
    if word.isascii():
        return word
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", word))
    composed = unicodedata.normalize("NFC", bare).translate(_LETTERS)
    return _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit.group())), _POINTS.sub("", composed))


def spelled_out(word: str) -> str:
    """`word` with the two letters that stand for an umlaut, ø or å where keyboards lack them.

    >>> spelled_out("müller"), spelled_out("århus")
    ('mueller', 'aarhus')
    """
    return word if word.isascii() else word.translate(_SPELLED_OUT)


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802 - PyStemmer's name


class _Unstemmed:
    """Stands for the stemmer of a language that has none: each word is its own stem."""

    def stemWord(self, word: str) -> str:  # noqa: N802 - PyStemmer's name
        return word


class _Stemmers(threading.local):
    """The stemmers of one thread: while it stems, one holds the word that it is at."""

    def __init__(self) -> None:
        self.of: dict[str, _Stemmer] = {}


_STEMMERS: Final = _Stemmers()


def _stemmer(language: str) -> _Stemmer:
    found = _STEMMERS.of.get(language)
    if found is None:
        import Stemmer

        known = language in Stemmer.algorithms()
        # Without a cache of its own: what was forgotten would stay in it.
        found = _STEMMERS.of[language] = Stemmer.Stemmer(language, 0) if known else _Unstemmed()
    return found


def search_languages() -> tuple[str, ...]:
    """Languages that `search_language` may name: Snowball's stemmers, and those with Latin letters that have a folder."""
    import Stemmer

    latin = (each.name for each in languages() if each.may_be_in(ascii_lowercase))
    return tuple(sorted({*Stemmer.algorithms(), *latin}))


@lru_cache(maxsize=16)
def _bare_stop_words(language: str) -> frozenset[str]:
    """The language's function words, with and without their accents."""
    words = stop_words(language)
    return words | {folded(word) for word in words}


@lru_cache(maxsize=65_536)
def _stem(word: str, language: str) -> tuple[str, ...]:
    """None for a function word; more than one if it may be written without its accents in another way."""
    word = word.replace("’", "'")
    if word in stop_words(language):
        return ()
    # "sister's" is found by "sister"; Snowball's English does this too, the other languages don't.
    word = word.removesuffix("'s")
    if len(word) == _LONG:
        return tuple(dict.fromkeys(folded(way)[:MAX_TERM_CHARS] for way in (word, spelled_out(word))))
    latin = _LATIN.match(word)
    terms = _latin_terms(word, language) if latin else (_stem_by_script(folded(word), language),)
    return tuple(dict.fromkeys(term[:MAX_TERM_CHARS] for term in terms if term))


def _latin_terms(word: str, language: str) -> tuple[str, ...]:
    stem = _stemmer(language).stemWord
    if language == "english":
        # English stems are made of plain letters: "cafés" is "cafes" before "cafe".
        if word.isascii():
            return (stem(word),)
        return tuple(stem(folded(way)) for way in (word, spelled_out(word)))
    if language in _ELISION:
        word = _ELISION[language].sub("", word, count=1) if "'" in word else word
    plain = folded(word)
    if plain in _bare_stop_words(language):
        return ()
    # A word typed without accents may be stemmed otherwise (anné, anne), and meets here.
    ways = [folded(stem(word)), folded(stem(plain))]
    if language not in _OWN_UMLAUTS:
        ways.append(folded(stem(folded(spelled_out(word)))))
    if language in _DANISH:
        ways = [way.replace("aa", "a").replace("oe", "o") for way in ways]
    return tuple(ways)


def _stem_by_script(word: str, language: str) -> str:
    for script, usual, other in _LANGUAGES_OF_SCRIPT:
        if script.match(word):
            return _stemmer(other if language == other else usual).stemWord(word)
    return word


def normalized(text: str) -> str:
    """`text` in Unicode's form NFKC, with at most 30 accents a letter and no letter for a sentence (ﷺ)."""
    return unicodedata.normalize("NFKC", text if text.isascii() else _MARKS.sub("", text))


def clear_stems() -> None:
    """Forget the words that were stemmed: something was forgotten."""
    _stem.cache_clear()
    clear_words()


def made_with(language: str) -> str:
    """A search row's record of its terms' making: `language` and the version of this module's terms."""
    return f"{language}/{TERMS_VERSION}"


def _tokens(text: str, language: str) -> Iterator[str]:
    if len(text) > _AT_ONCE_CHARS:
        # A pattern that goes through a million characters keeps all other threads from running.
        for part in _pieces(text):
            yield from _tokens(part, language)
        return
    if text.isascii():
        text = text.lower()
        whole = (
            _ASCII_NUMBER.sub(lambda number: f"{number[0].replace(',', '')} ", text) if "," in text else text
        )
        for token in _ASCII_TOKEN.findall(whole):
            yield from _stem(token[:_LONG], language)
        if "-" in text:
            yield from _joined(text, language)
        return
    text = normalized(text).translate(_WITHIN).casefold()
    for match in _TOKEN.finditer(text):
        token = match.group()
        match match.lastgroup:
            case None:
                yield from _stem(token[:_LONG], language)
            case "number":
                yield token.replace(",", "")
            case "cjk":
                attached = text[match.start() - 1 : match.start()].isalnum()
                yield from cjk_terms(token, attached=attached)
            case _:
                yield from (term[:MAX_TERM_CHARS] for term in unspaced_terms(token))
    if "-" in text:
        yield from _joined(text, language)


def _pieces(text: str) -> Iterator[str]:
    """The text in parts of at most `_AT_ONCE_CHARS`, parted at a blank where there is one."""
    start = 0
    while start < len(text):
        end = start + _AT_ONCE_CHARS
        blank = text.rfind(" ", start, end) if end < len(text) else -1
        end = blank if blank > start else end
        yield text[start:end]
        start = end


def _joined(text: str, language: str) -> Iterator[str]:
    """ "e-mail" and "follow-up" as people write them in one word, too."""
    for match in _HYPHENATED.finditer(text):
        one, other = match.groups()
        if min(len(one), len(other)) <= 2:
            yield from _stem((one + other)[:_LONG], language)


def count_terms(text: str, language: str = "english") -> dict[str, int]:
    """Term frequencies of `text`, of the first 10,000 different ones; empty for stop words and emoji.

    >>> count_terms("Hiking! I hiked in the Alps.")
    {'hike': 2, 'alp': 1}
    """
    return dict(islice(Counter(_tokens(text, language)).items(), _MOST_TERMS))
