"""Importance of one turn by eight factors, whose weights a call may change. Pure, by rules."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from memory_agent.digest.fold import recency_bonus
from memory_agent.errors import InvalidInput
from memory_agent.lazily import lazily
from memory_agent.text.languages import plain_any_of
from memory_agent.text.quotes import LEAST_TELLING, quotes_of, terms_of
from memory_agent.text.sentences import sentences_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memory_agent.domain import Turn, TurnInput

IMPORTANCE_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "emotional_peak": 10.0,
        "conflict_resolution": 9.0,
        "decision_made": 8.0,
        "topic_introduction": 7.0,
        "user_information": 6.0,
        "character_defining": 5.0,
        "question_asked": 4.0,
        "humor_moment": 3.0,
    }
)
"""What each factor adds to a turn's importance."""

_DECIDES, _FEELS = (plain_any_of("words", f"settled.{key}") for key in ("decides", "feels"))
_OWN: Final = plain_any_of("words", "self_told")
_INTRODUCES, _TRAIT, _HUMOUR, _RECONCILES = (
    plain_any_of("words", f"moments.{key}") for key in ("introduces", "trait", "humour", "reconciles")
)
_STAGED: Final = plain_any_of("words", "moments.staged")
_LOUD: Final = lazily(re.compile, r"[!?]!|!\?|[A-Z]{4,}.*!")
_LEAST_TERMS: Final = 3
"""Of a turn that may open a topic: "Okay!" shares no word with anything."""


def importance_factors(turn: Turn | TurnInput, *, previous: Turn | TurnInput | None = None) -> frozenset[str]:
    """The factors of `IMPORTANCE_WEIGHTS` that a turn has.

    `previous`: the turn before, by which a new topic shows.

    >>> from memory_agent.domain import TurnInput
    >>> sorted(importance_factors(TurnInput(role="user", content="We decided to move to Porto. By the way, do you ski?")))
    ['decision_made', 'question_asked', 'topic_introduction']
    """
    text = turn.content
    sentences = sentences_of(text)

    def says(pattern: re.Pattern[str]) -> bool:
        return any(pattern.search(sentence.low) for sentence in sentences)

    found = {
        "emotional_peak": says(_FEELS) or bool(_LOUD.search(text) or _STAGED.search(text.lower())),
        "conflict_resolution": says(_RECONCILES),
        "decision_made": says(_DECIDES),
        "topic_introduction": says(_INTRODUCES) or (previous is not None and _changes(turn, previous)),
        "user_information": turn.role == "user" and _tells_of_oneself(text),
        "character_defining": turn.role == "assistant" and says(_TRAIT),
        "question_asked": any(sentence.asks for sentence in sentences),
        "humor_moment": bool(_HUMOUR.search(text.lower())),
    }
    return frozenset(name for name, has in found.items() if has)


def score_turn(
    turn: Turn | TurnInput,
    *,
    previous: Turn | TurnInput | None = None,
    from_end: int | None = None,
    weights: Mapping[str, float] | None = None,
) -> float:
    """The importance of a turn: the weights of its factors, and a bonus if it is recent.

    `from_end`: 0 for the newest turn, 1 for the one before (5 more for the last 5, 3 for the last 10, 1 for the last 20).
    `weights`: those that differ from `IMPORTANCE_WEIGHTS`. Raises InvalidInput for one of no factor.

    >>> from memory_agent.domain import TurnInput
    >>> said = TurnInput(role="user", content="We decided to move to Porto.")
    >>> score_turn(said), score_turn(said, from_end=0), score_turn(said, weights={"decision_made": 1})
    (8.0, 13.0, 1.0)
    """
    if unknown := (weights or {}).keys() - IMPORTANCE_WEIGHTS.keys():
        raise InvalidInput(
            f"weights has {', '.join(map(repr, sorted(unknown)))}; the factors are {', '.join(IMPORTANCE_WEIGHTS)}"
        )
    weighed = {**IMPORTANCE_WEIGHTS, **(weights or {})}
    score = sum(weighed[name] for name in importance_factors(turn, previous=previous))
    return score + (0.0 if from_end is None else recency_bonus(from_end))


def _tells_of_oneself(text: str) -> bool:
    """True if a sentence tells of its speaker, and not of what was decided or made up."""
    return any(
        quote.weight >= LEAST_TELLING
        and _OWN.search(low)
        and not (_DECIDES.search(low) or _RECONCILES.search(low))
        for quote in quotes_of(text)
        if (low := quote.text.lower().replace("’", "'"))
    )


def _changes(turn: Turn | TurnInput, previous: Turn | TurnInput) -> bool:
    """True if a user's turn shares no word with the one before."""
    terms = terms_of(turn.content)
    return turn.role == "user" and len(terms) >= _LEAST_TERMS and not terms & terms_of(previous.content)
