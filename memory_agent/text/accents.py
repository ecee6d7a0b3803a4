"""Words without the marks that people leave out when they type: accents, points of vowels, dialects' letter forms.

What is folded is what Unicode's collation calls a secondary difference, with exceptions where the mark makes another
letter: the dakuten of kana, й, ї and ќ, and the vowel signs and tones of Indic and South-East Asian scripts stay.
"""

from __future__ import annotations

import unicodedata
from typing import Final

import regex

from memory_agent.lazily import lazily

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
