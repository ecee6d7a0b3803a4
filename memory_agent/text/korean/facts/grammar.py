"""Grammar of Korean statements about the speaker: beginnings, endings, sentences without a subject."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_agent.text.korean.facts.words import ANIMALS, NOT_ITSELF, ends_in_consonant
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import regex

    from memory_agent.text.patterns.common import Sentence

_TABLE: Final = table("korean", "facts")
_DOUBT: Final = _TABLE.pattern("grammar.doubt")
_SOMEBODYS: Final = _TABLE.pattern("grammar.somebodys")
_OTHER: Final = _TABLE.pattern("grammar.other")
_SPEAKER: Final = _TABLE.pattern("grammar.speaker")
_TOPIC: Final = _TABLE.pattern("grammar.topic")


class Speaker:
    """State that tells if a sentence without a subject may be about the speaker, from the sentences before it."""

    def __init__(self) -> None:
        self._others = False

    def heard(self, sentence: Sentence) -> None:
        """Take note of whom `sentence` is about."""
        if _OTHER.search(sentence.plain):
            self._others = True
        elif _SPEAKER.search(sentence.plain):
            self._others = False

    def claims(
        self, pattern: regex.Pattern[str], sentence: Sentence, *, past_is_meant: bool = False
    ) -> Iterator[regex.Match[str]]:
        """Matches of `pattern` that are the speaker's own and stated as a fact."""
        if sentence.asks or (_SOMEBODYS.search(sentence.plain) and not past_is_meant):
            return
        # Overlapped: what does not fit from the sentence's beginning may from its second clause.
        for match in pattern.finditer(sentence.plain, overlapped=True):
            groups = match.groupdict()
            named = bool(groups.get("subject"))
            if groups.get("plain") and not named:
                continue  # without a subject and a polite ending it may as well be a question
            before = sentence.plain[: match.start()]
            if not named and (self._others or _TOPIC.search(before)):
                continue
            if not _DOUBT.search(sentence.plain, 0, min(len(sentence.plain), match.end() + 10)):
                yield match


# --- words ---------------------------------------------------------------------------------------------------
_NO_PHRASE_WORD: Final = _TABLE.pattern("grammar.no_phrase_word")
_SUBJECT_MARK: Final = _TABLE.pattern("grammar.subject_mark")
ENDS_LIKE_SUBJECT: Final = _TABLE.words("words.ends_like_subject")
_OTHERS: Final = _TABLE.pattern("grammar.others")


def noun_phrase(text: str, *, longest: int = 4) -> str | None:
    """`text` if it means something by itself and holds no particle of a subject; None otherwise."""
    words = text.split()
    doing = len(words) > 2 and words[-1] == "것"  # "영화 보는 것"
    if (
        not words
        or len(words) > longest
        or NOT_ITSELF & set(words[:-1] if doing else words)
        or len(text) > 40
    ):
        return None
    if len(words) > 1 and words[0] == "전":
        return None  # somebody's former one
    for word in words[:-1]:
        if _SUBJECT_MARK.fullmatch(word) and word not in ENDS_LIKE_SUBJECT:
            return None
        if _OTHERS.fullmatch(word) and word not in ANIMALS:
            return None
        if _NO_PHRASE_WORD.fullmatch(word) and word not in {"보는", "듣는", "읽는", "하는", "타는", "가는", "만드는", "먹는", "마시는", "걷는", "치는", "작은", "맛있는"}:  # fmt: skip
            return None
    return text


def fits(word: str, particle: str) -> bool:
    """True if `particle` (을, 를, 이, 가, 과, 와 …) has the form that the sound before it asks for."""
    if not word or not "가" <= word[-1] <= "힣":
        return True
    if particle in {"을", "이", "은", "과", "이랑", "이라고", "이라는"}:
        return ends_in_consonant(word)
    if particle in {"를", "가", "는", "와", "랑", "라고", "라는"}:
        return not ends_in_consonant(word)
    return True


_AND: Final = _TABLE.pattern("grammar.and")
_NO_AND: Final = _TABLE.words("words.no_and")


def listed(text: str) -> list[str]:
    """The nouns of "커피와 빵이랑 과일"."""
    parts, start = [], 0
    for match in _AND.finditer(text):
        if match["and"]:
            if match[0] in _NO_AND or not fits(match["word"], match["and"]):
                continue
            parts.append(text[start : match.end("word")])
        else:
            parts.append(text[start : match.start()])
        start = match.end()
    return [part.strip(" ,") for part in (*parts, text[start:])]


def copula_fits(noun: str, copula: str) -> bool:
    """`이에요` and `이야` follow a consonant, `예요` and `야` a vowel; the written forms either."""
    if not noun or not "가" <= noun[-1] <= "힣":
        return True
    if copula in {"이에요", "이예요", "이야", "이라고"}:
        return ends_in_consonant(noun)
    if copula in {"예요", "에요", "야", "라고"}:
        return not ends_in_consonant(noun)
    return True
