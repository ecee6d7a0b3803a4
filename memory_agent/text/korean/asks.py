"""Detection of Korean questions and requests by their endings, with or without a question mark."""

from __future__ import annotations

import re
from typing import Final

from memory_agent.lazily import lazily
from memory_agent.text.tables import table

_READ: Final = 120
_END_CHARS: Final = 12
_TABLE: Final = table("korean", "questions")
_LAST, _NO_QUESTION_BEFORE_NAYO = (
    frozenset(_TABLE.value("asks.last")),
    frozenset(_TABLE.value("asks.before_nayo")),
)
_REQUEST_CUES: Final = _TABLE.words("asks.request_cues")
_REQUEST, _WHY, _NO_WHY = (_TABLE.plain_pattern(f"asks.{key}") for key in ("request", "why", "no_why"))
_TAIL: Final = lazily(re.compile, r"[^가-힣a-z0-9]+$")
# The place of a final consonant among the 28 of a Hangul syllable (Unicode 3.12).
_BIEUP, _RIEUL, _NIEUN = 17, 8, 4
_ENDINGS: Final = frozenset(
    f"{stem.replace('_', ' ')}{end.replace('_', ' ')}"
    for part in _TABLE.parts("ending")
    for stem in part.value("stems").split() or ("",)
    for end in part.value("ends").split()
)
_ENDING_CHARS: Final = range(2, 1 + max(len(ending) for ending in _ENDINGS))


def asks(low: str) -> bool:
    """True if a sentence without a question mark asks: by its ending (-까요, -나요, -니, -냐) or a request."""
    plain = low[-_READ:]
    if not "가" <= plain[-1:] <= "힣":
        plain = _TAIL.sub("", plain)
    if not plain:
        return False
    end = plain[-_END_CHARS:]
    if end[-1] in _LAST and (_formal_or_deliberating(plain) or _ends_asking(end)):
        return True
    if any(cue in plain for cue in _REQUEST_CUES) and _REQUEST.search(plain):
        return True
    return _WHY.match(plain) is not None and not _NO_WHY.search(plain)


def _ends_asking(end: str) -> bool:
    if end.endswith("나요"):
        return len(end) > 2 and end[-3] not in _NO_QUESTION_BEFORE_NAYO
    if end.endswith("냐"):
        return not end.endswith(("케냐", "루냐"))
    return any(end[-size:] in _ENDINGS for size in _ENDING_CHARS)


def _formal_or_deliberating(plain: str) -> bool:
    """-ㅂ니까, -ㄹ까(요), -ㄴ가요: told from -니까 (because) by the final consonant before them."""
    for ending, final in (("니까", _BIEUP), ("까", _RIEUL), ("까요", _RIEUL), ("가요", _NIEUN)):
        if plain.endswith(ending) and len(plain) > len(ending):
            before = ord(plain[-len(ending) - 1])
            # "친한가요" asks; "인가요" is a copula; a noun before the verb "to go" is parted by a space or a particle.
            if 0xAC00 <= before <= 0xD7A3 and (before - 0xAC00) % 28 == final:
                return True
    return False
