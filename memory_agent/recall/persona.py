"""The reminder of who the assistant is and how the conversation stands, so that a role does not drift. Pure.

Two parts, for a prompt's cache: who the assistant is, which does not change while a session lasts, and how the
conversation stands, which does. Together at most `max_tokens`, identity first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.recall.budget import usable
from memory_agent.recall.emotions import describe_course
from memory_agent.recall.render import one_line
from memory_agent.recall.sentences import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.domain import Character
    from memory_agent.ports import TokenCounter
    from memory_agent.recall.digest import Digest

_SHOWN: Final = 3
"""Decisions, traits and notes in the reminder: the newest."""
_TOPICS: Final = 4
_TITLE_CHARS: Final = 40
_MOOD_TURNS: Final = 100
"""How long a mood is thought to last after the last turn that showed it."""
_IDENTITY_SHARE: Final = 0.6
"""Of the reminder: a long profile must leave room to say how things stand."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reminder:
    """Lines that say who the assistant is, and lines that say how the conversation stands."""

    identity: tuple[str, ...]
    state: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((*self.identity, *self.state))


def remind(
    character: Character | None,
    digest: Digest,
    topics: Sequence[str],
    *,
    counter: TokenCounter,
    max_tokens: int,
) -> Reminder:
    """The reminder in at most `max_tokens` tokens. `topics`: titles, the newest first.

    Lines that don't fit are cut at a word, and left out where less than a few words would remain. Without a character
    only the state is told.
    """
    room = usable(max_tokens, counter)
    identity = _fit(_identity(character), int(room * _IDENTITY_SHARE), counter) if character else ()
    used = _size(identity, counter)
    state = _fit(_state(digest, topics), room - used, counter) if digest.turns else ()
    return Reminder(identity=identity, state=state)


def _identity(character: Character) -> Iterator[str]:
    yield f"You are {one_line(character.name)}."
    if character.personality:
        yield f"Personality: {one_line(character.personality)}"
    if character.traits:
        yield f"Traits: {', '.join(map(one_line, character.traits))}"
    if character.profile:
        yield f"Profile: {one_line(character.profile)}"


def _state(digest: Digest, topics: Sequence[str]) -> Iterator[str]:
    yield f"The conversation is at turn {digest.through}."
    if digest.course:
        last = digest.course[-1]
        if digest.through - last.last_seq <= _MOOD_TURNS:
            yield f"The user's mood now: {last.emotion} (since turn {last.first_seq})."
        else:
            yield f"The user's mood when last shown: {last.emotion} (turn {last.last_seq})."
    if digest.decisions:
        yield f"Decided: {_listed([note.text for note in digest.decisions[-_SHOWN:]])}"
    if topics:
        yield f"Talked about: {_listed([shortened(title, _TITLE_CHARS) for title in topics[:_TOPICS]])}"
    if digest.relationship:
        yield f"Between you and the user: {_listed([note.text for note in digest.relationship[-_SHOWN:]])}"
    if digest.traits:
        yield f"You have shown: {_listed([note.text for note in digest.traits[-_SHOWN:]])}"
    if len(digest.course) > 1:
        yield f"Emotional course: {describe_course(digest.course)}"


def _listed(texts: Sequence[str]) -> str:
    return "; ".join(one_line(text) for text in texts)


def _fit(lines: Iterator[str], room: int, counter: TokenCounter) -> tuple[str, ...]:
    """As many lines as fit; the one that does not is cut, and those behind it are tried."""
    kept: list[str] = []
    for line in lines:
        left = room - _size(kept, counter)
        if counter.count(line) + 1 <= left:
            kept.append(line)
        elif cut := _cut(line, left - 1, counter):
            kept.append(cut)
    return tuple(kept)


def _size(lines: Sequence[str], counter: TokenCounter) -> int:
    """Of the lines with a line break each, which is no less than of the lines joined."""
    return sum(counter.count(line) + 1 for line in lines)


_FEW_WORDS: Final = 5


def _cut(line: str, room: int, counter: TokenCounter) -> str:
    """As many whole words of `line` as fit with "…"; empty if these are too few to say anything."""
    words = line.split(" ")
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if counter.count(" ".join(words[:middle]) + " …") <= room:
            low = middle
        else:
            high = middle - 1
    return " ".join(words[:low]) + " …" if low >= _FEW_WORDS else ""
