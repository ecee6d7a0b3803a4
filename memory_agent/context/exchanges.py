"""Who answers whom: what a turn goes back to, and what answers it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import regex

from memory_agent.context.render import QUOTED_LETTERS
from memory_agent.lazily import lazily
from memory_agent.text.corrections import asks
from memory_agent.text.languages import any_of
from memory_agent.text.sentences import only_asks
from memory_agent.text.subjects import content_words, first_words, names_nothing, only_reacts, points_outside
from memory_agent.text.terms import as_letters

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from memory_agent.domain import Turn

LOOKED_BACK: Final = 5
"""Turns before it: in a chat one says in several what another answers."""
_CROWD: Final = 3
"""People from which on it is told who is spoken to, and talks run across each other."""
# Who is spoken to, as in channels: "ann: try that", "@ann, …".
_SPOKEN_TO: Final = lazily(regex.compile, r"\s*@?([\p{L}\p{N}][^\s:,]*)[:,](?=\s)")
_POINTS_BACK: Final = any_of("words", "points_back", regex.IGNORECASE)
_ANSWERS_NOTHING: Final = any_of("words", "answers_nothing", regex.IGNORECASE)


def answered(turn: Turn, before: Sequence[Turn]) -> Turn | None:
    """The turn that `turn` answers, of what was said before it, the last first; None if that isn't sure.

    An assistant answers what a person said last. A person answers what another said last, whatever reaction of one's own
    lies between: the turn with a word of the answer, or else the very last if it asks and `turn` asks nothing itself. A "Yes" or
    "That's why" answers what another said in one turn. A greeting or reaction alone answers nothing, nor does "Hey, have you heard of …?".
    """
    if turn.role == "assistant":
        same = (other for other in before if other.session_id == turn.session_id)
        return next((other for other in same if other.role == "user"), None)
    if _ANSWERS_NOTHING.match(turn.said):
        return None
    said = _said_last(turn, _heard(turn, before))
    question = asks(turn.said)
    words = content_words(turn.said) - content_words(" ".join({turn.speaker or "", *_speakers(said)}))

    def fits(position: int) -> tuple[bool, bool, int]:
        other = said[position]
        shares = not words.isdisjoint(content_words(other.said))
        asked = asks(other.said) and any(map(str.isalpha, other.said))
        return shares, asked and not question and not position, -position

    best = max(range(len(said)), key=fits, default=None)
    if best is None or any(fits(best)[:2]):
        return None if best is None else said[best]
    return said[0] if len(said) == 1 and _POINTS_BACK.match(turn.said) else None


def spoken_of(turn: Turn, before: Sequence[Turn]) -> Turn | None:
    """The last turn before one that names nothing, or whose "it" was named elsewhere, that names something: what "it" may be.

    Of the same session.
    """
    if not (names_nothing(turn.said) or points_outside(turn.said)) or only_reacts(turn.said):
        return None
    said = (other for other in _heard(turn, before) if other.session_id == turn.session_id)
    return next((other for other in said if _names_a_thing(other.said)), None)


def _heard(turn: Turn, before: Sequence[Turn]) -> Sequence[Turn]:
    """Of what was said before, what may be part of the talk that `turn` is in.

    Among several people, not what others say to somebody else; where the turn says whom it speaks to, or its speaker is
    spoken to, of others only what they say to its speaker.
    """
    people = {name.casefold() for name in _speakers(each for each in (turn, *before) if each.role == "user")}
    if len(people) < _CROWD:
        return before
    who, to = (turn.speaker or turn.role).casefold(), _spoken_to(turn, people)
    named = to or any(_spoken_to(other, people) == who for other in before)
    heard = {who} if named else {who, ""}
    return [
        other
        for other in before
        if (other.speaker or other.role).casefold() in {who, to} or _spoken_to(other, people) in heard
    ]


def _spoken_to(turn: Turn, people: Collection[str]) -> str:
    """Who of these people is spoken to, "" if nobody by name."""
    found = _SPOKEN_TO.match(turn.said)
    return found[1].casefold() if found is not None and found[1].casefold() in people else ""


def _names_a_thing(text: str) -> bool:
    return len(first_words(text)) > 1 and not names_nothing(text) and not only_reacts(text)


def _said_last(turn: Turn, before: Sequence[Turn]) -> list[Turn]:
    """The turns in a row that another said in the same session, the last first."""
    said: list[Turn] = []
    for other in before:
        own = (other.role, other.speaker) == (turn.role, turn.speaker)
        if other.session_id != turn.session_id or (said and _speakers([other]) != _speakers(said)):
            break
        if own and content_words(other.said):
            break
        if not own:
            said.append(other)
    return said


def _speakers(turns: Iterable[Turn]) -> set[str]:
    return {turn.speaker or turn.role for turn in turns}


def only_a_question(turn: Turn) -> bool:
    """True if a turn asks and does nothing else, so briefly that the turn that answers it quotes it whole, and counts for it."""
    return as_letters(turn.said) <= QUOTED_LETTERS and only_asks(turn.said)


def answer_to(question: Turn, after: Sequence[Turn]) -> Turn | None:
    """The turn that answers `question`: the first of those `after` it that another says, unless that only asks back."""
    who = (question.role, question.speaker)
    said = (turn for turn in after if turn.session_id == question.session_id)
    first = next((turn for turn in said if (turn.role, turn.speaker) != who and turn.role != "tool"), None)
    return None if first is None or only_asks(first.said) else first
