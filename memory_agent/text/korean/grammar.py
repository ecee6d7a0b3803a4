"""Grammar of Korean statements about the speaker: beginnings, endings, sentences without a subject."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import regex

    from memory_agent.text.cues import Sentence


_ADVERBIAL: Final = (
    "에서부터|에게서|에서|에게|에다가|에다|에|께|한테서|한테|더러|으로부터|로부터|으로서|로서|으로써|로써|으로|로|와|과|이랑|랑"
    "|하고|처럼|같이|만큼|보다|까지|부터|대로|마다|조차|마저|밖에|뿐|만|끼리|말고|때문에"
)
_CLOSING: Final = (
    "은커녕|는커녕|커녕|은|는|이|가|께서는|께서도|께서|을|를|의|도|이나마|나마|이나|나|이라도|라도|이야말로|야말로|이든[지가]?|든[지가]?|이라든[지가]|라든[지가]|하면"
    "|에선|에겐|한텐|엔|으론|론|보단|까진|부턴|처럼은"
)
# Endings of the copula 이다 that do without 이 after a vowel.
_ENDINGS: Final = (
    "다|야|죠|지요?|지만|고요?|며|면서?|니까?|네요?|군요?|구나|거든요?|자|라|라고(?:는|도|요)?|라는(?:데|게|건|거)?|라서|라면|라며|라던데|래요?|란"
    "|에요|예요"
)
_COPULA: Final = (
    f"이?(?:{_ENDINGS})|(?:이었|였)(?:다|어요?|습니다|던|는데요?|고|지만|으면|을까요?|네요?)|이?여서|이어서"
    "|입니다만?|입니까|인데요?|인가요?|인지(?:는|도|를)?|인|일까요?|일지도?|일|임"
)
_COPULA_AFTER_PARTICLE: Final = f"(?:까지|부터|에서|처럼|대로|만큼|마다|보다|뿐|만)(?:이(?:{_ENDINGS})|이었(?:다|어요?|습니다)|예요|입니다|입니까|인데요?|인가요?|인지)"

PARTICLES: Final = (
    f"(?:씨|님)?들?(?:{_COPULA_AFTER_PARTICLE}|(?:{_COPULA})|(?:{_ADVERBIAL}){{0,3}}(?:{_CLOSING})?요?)"
)
"""Matches the empty string, too. To be followed by a look that the word ends there."""


_TABLE: Final = table("korean", "facts")
_GRAMMAR: Final = _TABLE.patterns("grammar")
_ANIMALS, _NOT_ITSELF, _NO_AND = (_TABLE.words(f"words.{key}") for key in ("animals", "not_itself", "no_and"))


def may_be_speakers(own: Sequence[Sentence], sentence: Sentence, match: regex.Match[str]) -> bool:
    """True if a match names the speaker as its subject, or nobody, and no sentence before speaks of somebody else.

    Without a subject and a polite ending it may as well be a question.
    """
    said = match.groupdict()
    if said.get("who"):
        return True
    if said.get("plain") or _GRAMMAR["topic"].search(sentence.plain[: match.start()]):
        return False
    for before in reversed(own[: sentence.number]):
        if _GRAMMAR["other"].search(before.plain):
            return False
        if _GRAMMAR["speaker"].search(before.plain):
            break
    return True


# --- words ---------------------------------------------------------------------------------------------------
ENDS_LIKE_SUBJECT: Final = _TABLE.words("words.ends_like_subject")
_NAME_SYLLABLES, _NO_GIVEN = _TABLE.words("words.name_syllables"), _TABLE.words("words.no_given")
_OF_NOUNS: Final = _TABLE.words("words.of_nouns")
_AFTER_CONSONANT: Final = frozenset(
    {"을", "이", "은", "과", "이랑", "이라고", "이라는", "이에요", "이예요", "이야"}
)
_AFTER_VOWEL: Final = frozenset(
    {"를", "가", "는", "와", "랑", "라고", "라는", "예요", "에요", "야", "라서", "라", "고", "거든요"}
)
_MOST_WORDS, _MOST_CHARS = 4, 40


def noun_phrase(text: str) -> bool:
    """True if `text` means something by itself and holds no particle of a subject."""
    words = text.split()
    if not 0 < len(words) <= _MOST_WORDS or len(text) > _MOST_CHARS:
        return False
    doing = len(words) > 2 and words[-1] == "것"  # "영화 보는 것"
    if _NOT_ITSELF & set(words[:-1] if doing else words):
        return False
    if len(words) > 1 and words[0] == "전":
        return False  # somebody's former one
    return not any(
        (_GRAMMAR["subject_mark"].fullmatch(word) and word not in ENDS_LIKE_SUBJECT)
        or (_GRAMMAR["others"].fullmatch(word) and word not in _ANIMALS)
        or (_GRAMMAR["no_phrase_word"].fullmatch(word) and word not in _OF_NOUNS)
        for word in words[:-1]
    )


def fits(word: str, ending: str) -> bool:
    """True if a particle or copula (을, 를, 이, 가, 이에요, 예요 …) has the form that the sound before it asks for."""
    if not word or not "가" <= word[-1] <= "힣":
        return True
    consonant = (ord(word[-1]) - ord("가")) % 28 != 0
    return ending not in (_AFTER_VOWEL if consonant else _AFTER_CONSONANT)


def given_name(name: str, *, marked: bool) -> bool:
    """True if a noun beside a relative is surely a name. `marked`: it has the 이 that names take after a consonant."""
    if marked:
        return len(name) == 2 and not fits(name, "가")
    return len(name) == 2 and set(name) <= _NAME_SYLLABLES and name not in _NO_GIVEN


def listed(text: str) -> list[str]:
    """The nouns of "커피와 빵이랑 과일"."""
    parts, start = [], 0
    for match in _GRAMMAR["and"].finditer(text):
        if match["and"] and (match[0] in _NO_AND or not fits(match["word"], match["and"])):
            continue
        parts.append(text[start : match.end("word") if match["and"] else match.start()])
        start = match.end()
    return [part.strip(" ,") for part in (*parts, text[start:])]
