"""Traits, notes and decisions of a turn, for the character's reminder. Pure.

Each returns words of the turn itself, trimmed. Like the rules for moments they would rather miss one than make one up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import lazily
from memory_agent.text.moments.detect import decision_in
from memory_agent.text.moments.rules import rules_for, rules_of_languages
from memory_agent.text.sentences import sentences_of, shortened

if TYPE_CHECKING:
    from memory_agent.text.sentences import Sentence

__all__ = ["MOST_TRAITS", "NOTE_CHARS", "TRAIT_CHARS", "decision_in", "observed_traits", "relationship_note"]

TRAIT_CHARS: Final = 60
NOTE_CHARS: Final = 80
MOST_TRAITS: Final = 4

_ACTION: Final = lazily(re.compile, r"(?<!\*)\*(?!\s|\*)([^*\n]{3,60})(?<!\s)\*(?!\*)")


def observed_traits(text: str, *, role: str) -> tuple[str, ...]:
    """Traits that a turn of the assistant shows or states: at most four phrases of up to 60 characters, mostly none.

    Statements that `character_defining` finds ("I never lie", "저는 솔직한 편이에요") and what it plays
    ("*laughs softly*"), in their order, without repeats.

    >>> observed_traits("*laughs softly* I never lie. What about you?", role="assistant")
    ('*laughs softly*', 'I never lie')
    """
    if role != "assistant":
        return ()
    traits: dict[str, None] = {}
    for sentence in sentences_of(text):
        for match in _ACTION.finditer(sentence.text):
            if any(rules.gesture.match(match.group(1).lower()) for rules in rules_of_languages()):
                traits[shortened(match.group(), TRAIT_CHARS)] = None
        said = _ACTION.sub(" ", sentence.text).strip()
        if said and _tells_who(sentence):
            traits[shortened(said.rstrip(".!~ "), TRAIT_CHARS)] = None
        if len(traits) >= MOST_TRAITS:
            break
    return tuple(traits)[:MOST_TRAITS]


def relationship_note(text: str, *, role: str) -> str | None:
    """The first sentence about the two who talk, up to 80 characters: "I trust you", "call me Ann", "넌 내 친구야".

    Of users and assistants only. Questions count only where they name the other ("can I call you Max?"); conditions and
    wishes don't.

    >>> relationship_note("Thanks. You're my best friend!", role="user")
    "You're my best friend!"
    """
    if role not in {"user", "assistant"}:
        return None
    for sentence in sentences_of(text):
        if any(rules.is_note(sentence) for rules in rules_for(sentence)):
            return shortened(sentence.text, NOTE_CHARS)
    return None


def _tells_who(sentence: Sentence) -> bool:
    return any(
        rule.kind == "character_defining" and rules.find(rule, sentence) is not None
        for rules in rules_for(sentence)
        for rule in rules.rules
    )
