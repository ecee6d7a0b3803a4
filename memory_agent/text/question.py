"""Analysis of a question to long-term memory: its kinds, the persons named, and if it is one at all.

By the tables `questions` of the languages; the times that it names are in `text.times`. All pure, for signals that raise a score: a question that no rule understands has no kinds and names nobody.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, get_args

from memory_agent.text.languages import languages_with, plain_any_of
from memory_agent.text.names import persons_named, readable
from memory_agent.text.sentences import bounds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from memory_agent.text.tables import Table

__all__ = ["Kind", "Question", "gist_of", "persons_named", "read_question"]

Kind = Literal["when", "who", "where", "name", "how_many", "how_long"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """`kinds`: what is asked for, as far as a turn can show it at a glance (`text.features`); `names`: the known names
    in it, and `persons`: the speakers whom they stand for; `about_user`: speaks of the asker; `about_assistant`: of what
    the assistant said; `tells`: goes on with a conversation (it tells something, answers or asks
    for something to be done) rather than asking what was said; `refers`: only what was said before shows what is meant; `formerly`: asks what was so before.
    """

    kinds: frozenset[Kind]
    names: tuple[str, ...] = ()
    persons: tuple[str, ...]
    about_user: bool
    about_assistant: bool
    tells: bool = False
    refers: bool = False
    formerly: bool = False


def read_question(
    question: str, *, known: Collection[str] = (), called: Mapping[str, str] = MappingProxyType({})
) -> Question:
    """Analyse `question`; `known`: names of speakers, as in `persons_named`; `called`: those whom other names stand for
    ("": the user).

    Reads the first 2,000 characters.

    >>> read_question("What does Kate do?", known=["emi_42"], called={"Kate": "emi_42"}).persons
    ('emi_42',)
    """
    text = readable(question)
    low = _NO_QUESTION.sub(" _ ", text).casefold()
    names = persons_named(question, {**called, **dict.fromkeys(known)})
    persons = dict.fromkeys(name if name in known else called[name] for name in names)
    about_assistant = _SAYS["about_assistant"].search(low) is not None
    tells = not about_assistant and _tells(low)
    # A time in a message is seldom when something was said, and "which" in it seldom asks for a name.
    return Question(
        kinds=frozenset(() if tells else _kinds(low)),
        names=names,
        persons=tuple(filter(None, persons)),
        about_user="" in persons or _SAYS["about_user"].search(_SAYS["courtesy"].sub(" _ ", low)) is not None,
        about_assistant=about_assistant,
        tells=tells,
        refers=_SAYS["refers"].search(low) is not None,
        formerly=_SAYS["formerly"].search(low) is not None,
    )


def _tells(low: str) -> bool:
    """True if a message, in lower case and without what it quotes, does not ask what was said.

    It answers the one who spoke before, opens with what its speaker does or has, or tells something before it asks.
    """
    if _SAYS["recalls"].search(low):
        return False
    rest = _LEADS.sub("", _SAYS["courtesy"].sub(" ", low)).lstrip()
    if _ANSWERS.match(rest) or _SAYS["own"].match(rest):
        return True
    first = next((rest[start:end] for start, end in bounds(rest)), rest)
    return (
        _INITIAL < len(first) < len(rest)
        and not _SAYS["asks_first"].match(first)
        and not first.endswith(_QUESTION_MARKS)
    )


def gist_of(question: str, persons: Collection[str]) -> str:
    """The rest of `question` without its question word and the names of `persons`, which other signals stand for.

    The question itself where nothing would be left.

    >>> gist_of("When did Ann Lee adopt the cat?", ["Ann Lee"])
    'adopt the cat'
    """
    left = readable(question)
    for name in sorted({part for person in persons for part in (person, *person.split())}, key=len)[::-1]:
        left = _without_name(left, name)
    left = " ".join(_OPENING.sub("", left.strip(), count=1).split()).strip(" ?.!")
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


_OPENING: Final = plain_any_of("questions", "question.opening", re.IGNORECASE)


# What is quoted (titles), and the country that would look like "us".
_NO_QUESTION: Final = plain_any_of(
    "questions",
    "question.no_word",
    within=r"\"[^\"]{1,120}\"|“[^”]{1,120}”|「[^」]{1,120}」|『[^』]{1,120}』|《[^》]{1,120}》|(?<!\w)'[^'\n]{1,120}'(?!\w)|%s",
)


def _kinds(low: str) -> Iterator[Kind]:
    """The kinds of a question, in lower case and without what it quotes, by each language that has some."""
    for each in languages_with("questions", "kinds"):
        found = {kind for kind in _KINDS if _pattern_of_kind(each.questions, kind).search(low)}
        if "when" in found and _SAYS["clause_of_when"].search(low):
            found.discard("when")
        instead = each.questions.items("instead")
        yield from found - {other for kind, other in instead.items() if kind in found}


@cache
def _pattern_of_kind(its: Table, kind: Kind) -> re.Pattern[str]:
    return its.plain_pattern(f"kinds.{kind}")


_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_SAYS: Final = {
    key: plain_any_of("questions", f"question.{key}")
    for key in (
        *("clause_of_when", "courtesy", "about_user", "about_assistant"),
        *("recalls", "own", "refers", "asks_first", "formerly"),
    )
}
_LEADS: Final = plain_any_of("questions", "question.leads", within=r"\A(?:\W*(?:%s)(?!\w))*\W*")
_ANSWERS: Final = plain_any_of("questions", "question.answers", within=r"(?:%s)(?!\w)")
_INITIAL: Final = 3
"""A sentence of so few characters is the initial of a name."""
_QUESTION_MARKS: Final = ("?", "？", "؟")
