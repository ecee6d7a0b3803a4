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
        if sentence.asks or (_GRAMMAR["somebodys"].search(sentence.plain) and not past_is_meant):
            return
        # Overlapped: what does not fit from the sentence's beginning may from its second clause.
        for match in pattern.finditer(sentence.plain, overlapped=True):
            groups = match.groupdict()
            # Without a subject and a polite ending it may as well be a question.
            if not groups.get("subject") and (
                groups.get("plain")
                or self._others
                or _GRAMMAR["topic"].search(sentence.plain[: match.start()])
            ):
                continue
            if not _GRAMMAR["doubt"].search(sentence.plain, 0, min(len(sentence.plain), match.end() + 10)):
                yield match


def since_now(match: regex.Match[str]) -> Op:
    """Operation of a statement on the list of facts: with "이제" it replaces the one before."""
    return "update" if "이제" in match[0] or "이젠" in match[0] else "add"


# --- words ---------------------------------------------------------------------------------------------------
ENDS_LIKE_SUBJECT: Final = _TABLE.words("words.ends_like_subject")
_OF_NOUNS: Final = _TABLE.words("words.of_nouns")
_AFTER_CONSONANT: Final = frozenset(
    {"을", "이", "은", "과", "이랑", "이라고", "이라는", "이에요", "이예요", "이야"}
)
_AFTER_VOWEL: Final = frozenset({"를", "가", "는", "와", "랑", "라고", "라는", "예요", "에요", "야"})
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


def listed(text: str) -> list[str]:
    """The nouns of "커피와 빵이랑 과일"."""
    parts, start = [], 0
    for match in _GRAMMAR["and"].finditer(text):
        if match["and"] and (match[0] in _NO_AND or not fits(match["word"], match["and"])):
            continue
        parts.append(text[start : match.end("word") if match["and"] else match.start()])
        start = match.end()
    return [part.strip(" ,") for part in (*parts, text[start:])]
