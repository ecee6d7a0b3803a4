"""Words that show a feeling, as the languages list them: each with its emotion and its strength in (0, 1].

Strengths are in three steps that `moments.emotions` builds on: about 0.3 a mild word, 0.5 a plain one, 0.8 and more a word
that is strong without any help. Chosen by hand; they are no measurement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast, get_args

from memory_agent.domain.moments import Emotion
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from memory_agent.text.tables import Table

Shown = tuple[Emotion, float]

# How much more or less of a feeling a word of degree makes it, in any language.
DEGREE: Final = 1.4
ONE_MORE: Final = 1.1
SLIGHT: Final = 0.5


def by_strength(emotion: Emotion, *groups: tuple[float, str]) -> dict[str, Shown]:
    """The words of each group with the emotion and the group's strength."""
    return {word: (emotion, strength) for strength, words in groups for word in words.split()}


def shown(table: Table, key: str) -> dict[str, Shown]:
    """The words of a part of a language's table: each emotion with pairs of a strength and the words that have it."""
    found: dict[str, Shown] = {}
    for emotion, groups in table.items(key).items():
        found |= by_strength(_known(emotion, table), *groups)
    return found


def emotion_of(part: Table) -> Emotion:
    """The emotion that a phrase shows."""
    return _known(part.value("emotion"), part)


def _known(emotion: str, table: Table) -> Emotion:
    if emotion not in get_args(Emotion):
        raise InvalidInput(f"{table.name}: no emotion {emotion!r}; one of: {', '.join(get_args(Emotion))}")
    return cast("Emotion", emotion)
