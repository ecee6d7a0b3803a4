"""Closed lists of Korean words, and what a word's last sound decides."""

from __future__ import annotations

from typing import Final

from memory_agent.text.tables import table

_TABLE: Final = table("korean", "facts")

JOBS: Final = _TABLE.words("words.jobs")
NO_TITLE_START: Final = _TABLE.words("words.no_title_start")

PLACES: Final = _TABLE.words("words.places")
NO_PLACE: Final = _TABLE.words("words.no_place")
COMPANIES: Final = _TABLE.words("words.companies")

ANIMALS: Final = _TABLE.words("words.animals")
RELATIONS: Final = {word: name for word, name in table("korean", "words").items("kin").items() if name}
SUBJECTS: Final = _TABLE.items("subjects")
"""The names that English statements give these favourites, so that either language replaces the other's."""
OCCASIONS: Final = _TABLE.items("occasions")

NOT_ITSELF: Final = _TABLE.words("words.not_itself")


_NATIVE_TENS: Final = {"스물": 20, "스무": 20, "서른": 30, "마흔": 40, "쉰": 50, "예순": 60, "일흔": 70, "여든": 80, "아흔": 90}  # fmt: skip
_NATIVE_ONES: Final = {"": 0, "한": 1, "두": 2, "세": 3, "네": 4, "다섯": 5, "여섯": 6, "일곱": 7, "여덟": 8, "아홉": 9}  # fmt: skip


def native_number(text: str) -> int | None:
    """The number that "서른두" says; None if it says none."""
    for tens, value in _NATIVE_TENS.items():
        if text.startswith(tens):
            ones = _NATIVE_ONES.get(text[len(tens) :].strip())
            return None if ones is None else value + ones
    return None


def ends_in_consonant(word: str) -> bool:
    """True if the last syllable has a final consonant, on which the form of a particle depends."""
    last = word[-1:]
    return "가" <= last <= "힣" and (ord(last) - ord("가")) % 28 != 0
