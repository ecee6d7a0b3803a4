"""What a question put to long-term memory asks for: its kinds, whom it names, whether the latest counts.

Rules for English and Korean, of whom and when it speaks for Japanese and Chinese as well; the times that it names are in
`text.times`. All pure, for signals that raise a score: a question that no rule understands has no kinds and names nobody.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from memory_agent.lazily import lazily
from memory_agent.text.english import question as english
from memory_agent.text.korean import question as korean
from memory_agent.text.names import persons_named, readable
from memory_agent.text.tables import alternatives, pattern_of

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["Kind", "Question", "gist_of", "persons_named", "read_question"]

Kind = Literal["when", "who", "where", "name", "how_many", "how_long"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """`kinds`: what is asked for, as far as a turn can show it at a glance (`text.features`); `persons`: the known names
    in it; `about_user`: speaks of the asker; `about_assistant`: of what the assistant said; `latest`: wants the latest
    state.
    """

    kinds: frozenset[Kind]
    persons: tuple[str, ...]
    about_user: bool
    about_assistant: bool
    latest: bool


def read_question(question: str, *, known: Collection[str] = ()) -> Question:
    """What `question` asks; `known`: names of speakers, as in `persons_named`. Reads the first 2,000 characters."""
    text = readable(question)
    low = _asked_words(text)
    return Question(
        kinds=_kinds(low),
        persons=persons_named(question, known),
        about_user=_ABOUT_USER.search(english.COURTESY.sub(" _ ", low)) is not None,
        about_assistant=_ABOUT_ASSISTANT.search(low) is not None,
        latest=_asks_latest(low),
    )


def gist_of(question: str, persons: Collection[str]) -> str:
    """What is left of `question` without its question word and the names of `persons`, which other signals stand for.

    The question itself where nothing would be left.

    >>> gist_of("When did Ann Lee adopt the cat?", ["Ann Lee"])
    'adopt the cat'
    """
    left = readable(question)
    for name in sorted({part for person in persons for part in (person, *person.split())}, key=len)[::-1]:
        left = _without_name(left, name)
    left = " ".join(_QUESTION_WORDS.sub("", left.strip(), count=1).split()).strip(" ?.!")
    return left or question


def _without_name(text: str, name: str) -> str:
    """`text` with a blank for each `name` that stands as a word, and for its 's.

    Not by a pattern of it: `re` keeps those, and what a person forgets must not stay behind there.
    """
    kept, begin, at = [], 0, text.find(name)
    while name and at >= 0:
        end = at + len(name)
        if text[end : end + 2] in ("'s", "’s") and not _is_in_word(text[end + 2 : end + 3]):
            end += 2
        if _is_in_word(text[at - 1 : at]) or _is_in_word(text[end : end + 1]):
            at = text.find(name, at + 1)
            continue
        kept.append(text[begin:at])
        begin, at = end, text.find(name, end)
    return " ".join([*kept, text[begin:]])


def _is_in_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_QUESTION_WORDS: Final = lazily(
    re.compile,
    r"\W*(?:(?:what|when|where|who|whom|whose|why|how|which)(?:['’]s)?\b(?:\s+(?:many|much|long|often|old|kinds?|types?|of)\b){0,3})?"
    r"\s*(?:(?:is|are|was|were|do|does|did|has|have|had|can|could|would|will|might|should)\b\s*)?",
    re.IGNORECASE,
)


def _asked_words(text: str) -> str:
    """In lower case, without what is quoted (titles) and the country that would look like "us"."""
    return _NO_QUESTION.sub(" _ ", text).casefold()


_NO_QUESTION: Final = lazily(
    re.compile,
    r"\"[^\"]{1,120}\"|“[^”]{1,120}”|「[^」]{1,120}」|『[^』]{1,120}』|《[^》]{1,120}》|(?<!\w)'[^'\n]{1,120}'(?!\w)|\bUSA?\b",
)


def _kinds(low: str) -> frozenset[Kind]:
    """The kinds of a question, in lower case and without what it quotes."""
    found: set[Kind] = {kind for kind in _KINDS if english.KINDS[kind].search(low)}
    if "when" in found and english.CLAUSE_OF_WHEN.search(low):
        found.discard("when")
    if low.isascii():
        return frozenset(found)
    told: set[Kind] = {kind for kind in _KINDS if kind in korean.KINDS and korean.KINDS[kind].search(low)}
    if "how_long" in told:
        told.discard("when")
    if "when" in told:
        told.discard("how_many")
    return frozenset(found | told)


_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_ABOUT_USER: Final = pattern_of(
    r"""
    <english>
    <korean>
    私|僕|俺|わたし|あたし|ぼく|自分|うちの
    我|咱
    """,
    english=english.ABOUT_USER,
    korean=alternatives(korean.ABOUT_USER),
)
_ABOUT_ASSISTANT: Final = pattern_of(
    r"""
    <english>
    <korean>
    (?:あなた|君|きみ)(?:が|は).{0,40}(?:言っ|勧め|すすめ|教え|提案|説明|おすすめ)
    (?:教えて|勧めて|すすめて|提案して|説明して)くれた
    [你您](?:之前|以前|上次|刚才|剛才|曾经|昨天|给我|給我|对我|跟我)?.{0,6}
      (?:说过|說過|说的|說的|推荐(?:过|的|了)|推薦|建议(?:过|的|了)|建議|告诉|告訴|提到|提过|解释|介绍)
    """,
    english=alternatives(english.ABOUT_ASSISTANT),
    korean=alternatives(korean.ABOUT_ASSISTANT),
)
_LATEST: Final = pattern_of(
    r"""
    <english>
    <korean>
    今(?!日|年|月|週|度|回|朝|晩|夜|天|后|後|晚)|現在|最近|最新|まだ|最後に
    現时|现在|目前|如今|还在|還在|仍然|最后一次|当前
    """,
    english=alternatives(english.LATEST),
    korean=korean.LATEST,
)
# "Where did she currently live in May 2022": the latest of then, not of now.
_DATED: Final = pattern_of(rf"{english.DATED}|(?:19|20)\d{{2}} ?[年년]")


def _asks_latest(low: str) -> bool:
    return _LATEST.search(english.NOT_LATEST.sub(" _ ", low)) is not None and _DATED.search(low) is None
