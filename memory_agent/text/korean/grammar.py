"""Grammar of Korean statements about the speaker: beginnings, endings, sentences without a subject."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import regex

    from memory_agent.text.patterns import Op, Sentence

_TABLE: Final = table("korean", "facts")
_GRAMMAR: Final = _TABLE.patterns("grammar")
_ANIMALS, _NOT_ITSELF, _NO_AND = (_TABLE.words(f"words.{key}") for key in ("animals", "not_itself", "no_and"))


class Speaker:
    """State that tells if a sentence without a subject may be about the speaker, from the sentences before it."""

    def __init__(self) -> None:
        self._others = False

    def heard(self, sentence: Sentence) -> None:
        """Take note of whom `sentence` is about."""
        if _GRAMMAR["other"].search(sentence.plain):
            self._others = True
        elif _GRAMMAR["speaker"].search(sentence.plain):
            self._others = False

    def claims(
        self, pattern: regex.Pattern[str], sentence: Sentence, *, past_is_meant: bool = False
    ) -> Iterator[regex.Match[str]]:
        """Matches of `pattern` that are the speaker's own and stated as a fact."""
        if _GRAMMAR["somebodys"].search(sentence.plain) and not past_is_meant:
            return
        # Overlapped: what does not fit from the sentence's beginning may from its second clause.
        for match in pattern.finditer(sentence.plain, overlapped=True):
            if asked(sentence, match):
                continue
            groups = match.groupdict()
            # Without a subject and a polite ending it may as well be a question.
            if not groups.get("subject") and (
                groups.get("plain")
                or self._others
                or _GRAMMAR["topic"].search(sentence.plain[: match.start()])
            ):
                continue
            if not doubtful(sentence, match):
                yield match


def asked(sentence: Sentence, match: regex.Match[str]) -> bool:
    """True if a match belongs to what a question asks, not to a clause that leads to it."""
    leads = match.end() < len(sentence.plain) and _GRAMMAR["connects"].search(match[0])
    return sentence.asks and not leads


def doubtful(sentence: Sentence, match: regex.Match[str]) -> bool:
    """True if the clause of a match supposes, wishes or reports what it says."""
    ends = _GRAMMAR["clause_end"].finditer(sentence.plain, 0, match.start() + 1)
    began = max((end.end() for end in ends), default=0)
    return _GRAMMAR["doubt"].search(sentence.plain, min(began, match.start()), match.end() + 10) is not None


def since_now(match: regex.Match[str]) -> Op:
    """Operation of a statement on the list of facts: with "이제" it replaces the one before."""
    return "update" if "이제" in match[0] or "이젠" in match[0] else "add"


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
