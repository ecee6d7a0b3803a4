"""Kinds of moment, and emotions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

MomentKind = Literal[
    "emotional_peak",
    "conflict_resolution",
    "decision_made",
    "topic_introduction",
    "user_information",
    "character_defining",
    "question_asked",
    "humor_moment",
]
MOMENT_KINDS: Final[tuple[MomentKind, ...]] = get_args(MomentKind)
"""Every kind, the weightiest first."""

Emotion = Literal[
    "joy",
    "excitement",
    "gratitude",
    "pride",
    "hope",
    "love",
    "relief",
    "surprise",
    "sadness",
    "fear",
    "anger",
    "frustration",
    "disgust",
    "remorse",
]
"""Plutchik's and Ekman's basic emotions, with the finer ones of GoEmotions (Demszky et al. 2020) that a companion needs."""
EMOTIONS: Final[tuple[Emotion, ...]] = get_args(Emotion)


@dataclass(frozen=True, kw_only=True, slots=True)
class Feeling:
    """The strongest feeling that a turn's speaker shows; `intensity` in (0, 1]."""

    emotion: Emotion
    intensity: float


@dataclass(frozen=True, kw_only=True, slots=True)
class EmotionSpan:
    """A stretch of the emotional course: turns `first_seq` to `last_seq`, both included; `peak` in (0, 1]."""

    emotion: Emotion
    first_seq: int
    last_seq: int
    peak: float
