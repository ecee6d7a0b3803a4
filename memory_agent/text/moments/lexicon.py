"""Words that show a feeling, as the languages list them: each with its emotion and its strength in (0, 1].

Strengths are in three steps that `moments.emotions` builds on: about 0.3 a mild word, 0.5 a plain one, 0.8 and more a word
that is strong without any help. Chosen by hand; they are no measurement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from memory_agent.domain.moments import Emotion

Shown = tuple["Emotion", float]

# How much more or less of a feeling a word of degree makes it, in any language.
DEGREE: Final = 1.4
ONE_MORE: Final = 1.1
SLIGHT: Final = 0.5


def by_strength(emotion: Emotion, *groups: tuple[float, str]) -> dict[str, Shown]:
    """The words of each group with the emotion and the group's strength."""
    return {word: (emotion, strength) for strength, words in groups for word in words.split()}
