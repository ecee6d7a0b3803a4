"""Korean lexicon of emotions, by stems; the rules that weigh it are those of `moments.emotions`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import lazily
from memory_agent.text.moments.emotions import DEGREE, ONE_MORE, SLIGHT, shown
from memory_agent.text.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.text.moments.emotions import Shown
    from memory_agent.text.sentences import Sentence

_TABLE: Final = table("korean", "feelings")
_SHOWN: Final = shown(_TABLE, "stems")
_STEMS: Final = {stem.replace("_", ""): found for stem, found in _SHOWN.items()}
_STEM: Final = lazily(
    re.compile, "|".join(stem.replace("_", " ?") for stem in sorted(_SHOWN, key=len, reverse=True))
)
_WHOLE: Final = _TABLE.words("words.whole")
_PATTERNS: Final = (
    "degree", "twice", "slight", "to_death", "not_before", "not_after", "others_after", "person_before", "me",
)  # fmt: skip
_DEGREE, _TWICE, _SLIGHT, _TO_DEATH, _NOT_BEFORE, _NOT_AFTER, _OTHERS_AFTER, _PERSON_BEFORE, _ME = (
    _TABLE.plain_pattern(f"patterns.{name}") for name in _PATTERNS
)
_OTHERS_STATE: Final = frozenset("워퍼뻐러려")


def feelings(sentence: Sentence) -> Iterator[Shown]:
    """Each feeling that the sentence shows, by the stem of a word."""
    low = sentence.low
    if sentence.asks and not _ME.search(low):
        return
    for match in _STEM.finditer(low):
        before, after = low[max(0, match.start() - 16) : match.start()], low[match.end() : match.end() + 14]
        stem = match.group().replace(" ", "")
        if stem[-1] in _OTHERS_STATE and after[:1] in {"하", "해", "했", "합"}:
            continue  # 슬퍼해요: somebody else shows it
        if stem not in _WHOLE and (
            _NOT_BEFORE.search(before)
            or _NOT_AFTER.match(after)
            or _OTHERS_AFTER.match(after)
            or (not stem.startswith("자랑") and _PERSON_BEFORE.search(before))
        ):
            continue
        emotion, strength = _STEMS[stem]
        if _SLIGHT.search(before):
            strength *= SLIGHT
        elif _TWICE.search(before):
            strength *= DEGREE * ONE_MORE
        elif _DEGREE.search(before) or _TO_DEATH.match(after):
            strength *= DEGREE
        yield emotion, min(1.0, strength)
