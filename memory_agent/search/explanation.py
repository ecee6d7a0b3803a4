"""Explanation of a search result, in words."""

from __future__ import annotations

import re
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from memory_agent.domain import Entity
from memory_agent.lazily import lazily
from memory_agent.search.fusion import contributions
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.domain import Recollection, Turn
    from memory_agent.search.fusion import Signal

    Floats = NDArray[np.float32]

_WORDS: Final[Mapping[str, str]] = {
    "meaning": "means something alike",
    "meaning_around": "means something alike, alone or with the turn before it",
    "words": "shares words with the question",
    "words_around": "shares words with the question, together with the turns beside it",
    "words_session": "was said in a conversation that shares words with the question",
    "person": "was said by whom the question suggests",
    "dates": "was said around the time that the question names",
    "tells_when": "tells a time, which is asked for",
    "counts": "gives a number, which is asked for",
    "names": "names something, which is asked for",
    "of_self": "tells of its speaker",
    "asks": "asks instead of telling",
    "here": "was said in this conversation",
    "detail": "matches the question word by word",
}
_WORD: Final = lazily(re.compile, r"\w[\w'’-]*")
_FORMS: Final = 2
"""Terms of one word at most: its stem, and that of it without accents."""
_LEAST_SHARE: Final = 0.05
"""A signal that made up less of the score is left unsaid."""


class Explanations:
    """Explanations of the results of one search, made when they are first asked for: prompts do without them.

    `values`: the signals of all candidates, of which the results are those at `positions`; `heard`: see `heard_weights`;
    `shared`: terms of the question, by the id of a turn that has them; `query` is in `language`.
    """

    def __init__(
        self,
        values: Mapping[Signal, Floats],
        heard: Mapping[Signal, float],
        positions: Sequence[int],
        shared: Mapping[str, Sequence[str]],
        *,
        query: str,
        language: str,
    ) -> None:
        # Not the whole arrays, which somebody who keeps an answer would keep with it.
        self._values = {signal: values[signal][positions] for signal in heard}
        self._heard, self._results, self._shared = heard, range(len(positions)), shared
        self._query, self._language = query, language

    def of(self, found: Recollection, number: int) -> Recollection:
        """The recollection, which is the result of that number, as one that asks here for what is said of it."""
        return found.made_later(partial(self._said, number, found.turn), "why", "explanation")

    def _said(self, number: int, turn: Turn, field: str) -> dict[str, float] | str:
        if field == "why":
            return self._whys[number]
        words = [self._as_asked.get(term, term) for term in self._shared.get(turn.id, ())]
        return explain(self._whys[number], turn, words)

    @cached_property
    def _whys(self) -> list[dict[str, float]]:
        return contributions(self._values, self._heard, self._results)

    @cached_property
    def _as_asked(self) -> dict[str, str]:
        return words_of(self._query, self._language)


def explain(why: Mapping[str, float], turn: Turn, shared: Sequence[str]) -> str:
    """The signals of `why` (see `Recollection.why`) in words with their shares, the greatest first.

    `shared`: terms of the question that the turn has; those of entities are told by their names.
    """
    whole = sum(share for share in why.values() if share > 0.0)
    if whole <= 0.0:
        return "nothing speaks for it"
    said = []
    for signal, share in why.items():
        part = share / whole
        if part >= _LEAST_SHARE:
            said.append(f"{_in_words(signal, turn, shared)} ({part:.0%})")
        elif part <= -_LEAST_SHARE:
            said.append(f"but {_in_words(signal, turn, shared)} (-{-part:.0%})")
    return "; ".join(said) or "a little of everything"


def _in_words(signal: str, turn: Turn, shared: Sequence[str]) -> str:
    if signal == "words" and shared:
        words = list(dict.fromkeys(map(_shown, shared)))
        return f"shares the word{'s' if len(words) > 1 else ''} {', '.join(words)}"
    if signal == "person":
        return f"was said by {turn.speaker or turn.role}, as the question suggests"
    return _WORDS[signal]


def _shown(term: str) -> str:
    entity = Entity.from_term(term)
    return term if entity is None else entity.name


def words_of(query: str, language: str) -> dict[str, str]:
    """The question's own word for each of its terms; a run without blanks (Chinese, Japanese) is no word."""
    words: dict[str, str] = {}
    for word in _WORD.findall(query):
        terms = count_terms(word, language)
        if len(terms) <= _FORMS:
            words |= {term: word for term in terms if term not in words}
    return words
