"""The reminder of who the assistant is and how the conversation stands, so that a role does not drift. Pure.

Two parts, for a prompt's cache: who the assistant is, which does not change while a session lasts, and how the
conversation stands, which does. Together at most `max_tokens`, identity first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.context.budget import largest, usable
from memory_agent.context.render import one_line
from memory_agent.text.sentences import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory_agent.domain import Character, Tier
    from memory_agent.ports import TokenCounter

_TOPICS: Final = 4
_TITLE_CHARS: Final = 40
_IDENTITY_SHARE: Final = 0.6
"""Of the reminder: a long profile must leave room to say how things stand."""
_NAME_CHARS: Final = 80
"""A name up to this long is told whole if it fits; a longer one leaves half of the identity's room to the rest."""


_LINE_SHARE: Final = 0.6


@dataclass(frozen=True, kw_only=True, slots=True)
class Reminder:
    """Lines that say who the assistant is, and lines that say how the conversation stands."""

    identity: tuple[str, ...]
    state: tuple[str, ...]
    left: tuple[tuple[Tier, str], ...] = ()
    """Lines that there is no room for, by tier (`persona` or `state`)."""

    def __str__(self) -> str:
        return "\n".join((*self.identity, *self.state))


def remind(
    character: Character | None,
    topics: Sequence[str],
    *,
    counter: TokenCounter,
    max_tokens: int,
) -> Reminder:
    """The reminder in at most `max_tokens` tokens. `topics`: titles, the newest first.

    Lines that don't fit are cut at a word, or within a long one, as where no blanks part the words; they are left out
    where less than a few words would remain. The name is always told, shortened if need be, if a letter of it fits.
    Without a character only the state is told.
    """
    room = usable(max_tokens, counter)
    identity, no_identity = _identity(character, room, counter) if character else ((), ())
    state, no_state = _fit(_state(topics), room - _size(identity, counter), counter)
    left: list[tuple[Tier, str]] = [("persona", line) for line in no_identity]
    left += (("state", line) for line in no_state)
    return Reminder(identity=identity, state=state, left=tuple(left))


def _identity(
    character: Character, room: int, counter: TokenCounter
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The identity's lines that fit in its share of `room`, and those left out; the name may take more than the share."""
    share = int(room * _IDENTITY_SHARE)
    name = one_line(character.name)
    told = _name_line(name, share, room, counter)
    if not told:
        return (), (f"You are {name}.", *_nature(character))
    return _fit(_nature(character), share, counter, first=told)


def _name_line(name: str, share: int, room: int, counter: TokenCounter) -> str:
    """The name, whole or cut, in half of the identity's share or else in as much as it takes; empty if in none."""
    whole = f"You are {name}."
    if len(name) <= _NAME_CHARS and counter.count(whole) + 1 <= share:
        return whole
    for most in (share // 2, share, room):
        if counter.count(whole) + 1 <= most:
            return whole
        if fitting := _fitting(name, "You are ", "….", most - 1, counter):
            return f"You are {fitting}…."
    return ""


def _nature(character: Character) -> Iterator[str]:
    if character.personality:
        yield f"Personality: {one_line(character.personality)}"
    if character.traits:
        yield f"Traits: {', '.join(map(one_line, character.traits))}"
    if character.profile:
        yield f"Profile: {one_line(character.profile)}"


def _state(topics: Sequence[str]) -> Iterator[str]:
    """What was talked about. Moods and decisions are not guessed at: those who read the turns see them."""
    if topics:
        titles = (one_line(shortened(title, _TITLE_CHARS)) for title in topics[:_TOPICS])
        yield f"Talked about: {'; '.join(titles)}"


def _fit(
    lines: Iterator[str], room: int, counter: TokenCounter, *, first: str = ""
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`first`, if there is one, and as many lines as fit, and those left out; one that does not fit is cut, and those behind it are tried.

    None takes more than `_LINE_SHARE` of the room, so that a long one leaves some to the others.
    """
    kept: list[str] = [first] if first else []
    left: list[str] = []
    most = int(room * _LINE_SHARE)
    for line in lines:
        free = min(room - _size(kept, counter), most if kept else room)
        if counter.count(line) + 1 <= free:
            kept.append(line)
        elif cut := _cut(line, free - 1, counter):
            kept.append(cut)
        else:
            left.append(line)
    return tuple(kept), tuple(left)


def _size(lines: Sequence[str], counter: TokenCounter) -> int:
    """Of the lines with a line break each, which is no less than of the lines joined."""
    return sum(counter.count(line) + 1 for line in lines)


_FEW_WORDS: Final = 5
_FEW_CHARS: Final = 16
_LONG_WORD: Final = 24
"""In bytes of UTF-8: eight Chinese characters or Korean syllables, which say as much as a few words."""


def _cut(line: str, room: int, counter: TokenCounter) -> str:
    """As many words of `line` as fit with "…", of a long one its beginning; empty if these are too few to say anything."""
    words = line.split(" ")
    count = largest(len(words) - 1, lambda n: counter.count(" ".join(words[:n]) + " …") <= room)
    whole_words = " ".join(words[:count])
    if len(words[count].encode(errors="replace")) > _LONG_WORD:
        fitting = _fitting(line, "", "…", room, counter)
        if len(fitting) >= _FEW_CHARS and len(fitting) > len(whole_words):
            return f"{fitting}…"
    return f"{whole_words} …" if count >= _FEW_WORDS else ""


def _fitting(text: str, before: str, after: str, room: int, counter: TokenCounter) -> str:
    """The longest beginning of `text`, not the whole, that fits between `before` and `after`; empty if none does."""
    chars = largest(len(text) - 1, lambda n: counter.count(before + text[:n].rstrip() + after) <= room)
    return text[:chars].rstrip()
