"""Closed lists of English words: where a list is closed, a rule can be certain."""

from __future__ import annotations

from typing import Final

from memory_agent.text.tables import table

_TABLE: Final = table("english", "facts")

NO_MODIFIER: Final = _TABLE.alternatives("lists.no_modifier")

NO_NAME: Final = _TABLE.words("words.no_name")

RELATIONS: Final = {word: name for word, name in table("english", "words").items("kin").items() if name}
_TIMES: Final = table("english", "times")
NO_PLACE: Final = _TABLE.words("words.no_place") | {
    name.capitalize() for key in ("months", "weekdays") for name in _TIMES.items(key)
}
