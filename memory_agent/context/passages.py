"""The passage of a long turn that answers a question best. Pure."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from memory_agent.text.sentences import bounds
from memory_agent.text.subjects import content_words
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


_SMALL_TALK: Final = -0.5
"""Worth of a sentence that tells nothing: less than that of one without a term of the question."""


def best_passage(text: str, asked: Collection[str], language: str, fits: Callable[[str], bool]) -> str:
    """Neighbouring sentences of `text` with most of the `asked` terms that fit, "[…]" where others are left out.

    A term counts the less the more of the sentences hold it. Of equally good ones the first, and with no term in any the
    first that is no small talk. Empty if not even one sentence fits.
    """
    spans = list(bounds(text))
    held = [set(asked) & count_terms(text[start:end], language).keys() for start, end in spans]
    common = Counter(term for terms in held for term in terms)
    worth = [
        sum(1 / common[term] for term in terms) or (0.0 if content_words(text[start:end]) else _SMALL_TALK)
        for terms, (start, end) in zip(held, spans, strict=True)
    ]
    best = max(range(len(spans)), key=lambda at: (worth[at], -at), default=None)
    if best is None:
        return ""

    def shown(first: int, last: int) -> str:
        before = "[…] " if first else ""
        behind = " […]" if last + 1 < len(spans) else ""
        return f"{before}{text[spans[first][0] : spans[last][1]]}{behind}"

    first = last = best
    found = ""
    while fits(shown(first, last)):
        found = shown(first, last)
        # towards the side with more of the question in it; else on, for what follows explains
        ahead = worth[last + 1] if last + 1 < len(spans) else -math.inf
        back = worth[first - 1] if first else -math.inf
        if ahead == back == -math.inf:
            break
        first, last = (first, last + 1) if ahead >= back else (first - 1, last)
    return found
