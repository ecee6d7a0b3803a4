"""The script of each row: which the embedder does not read, and which can share no word with a question in another."""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.ports import known_scripts, pieces_per_word
from memory_agent.text.identification import latin_language
from memory_agent.text.writing import is_read, main_script

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from memory_agent.domain import Scope
    from memory_agent.ports import Embedder, TurnStore
    from memory_agent.search.fusion import Signal
    from memory_agent.search.postings import WordScores

    Floats = NDArray[np.float32]

_NEWEST_TURNS: Final = 50
_SHARE: Final = 0.2
_IN_PIECES: Final = 1.35
"""all-MiniLM-L6-v2 makes 1.02 to 1.05 pieces of a word of English chat (1.19 at most in fifty turns), and 1.5 (Vietnamese) to 2.9 (Turkish) of other
languages'."""


async def unread(store: TurnStore, scope: Scope, embedder: Embedder) -> tuple[tuple[str, ...], str]:
    """The scripts, sorted, and the language of a user's newest turns that the embedder does not know.

    Scripts of which a fifth or more of the turns are; the language, as `latin_language` names it, of those in Latin letters.
    A language is known by the pieces that the model's vocabulary makes of its words. "": known, or not told: English, a model of more
    scripts than one, too little text.
    """
    read = known_scripts(embedder)
    if read is None:
        return (), ""
    turns = await store.list_turns(scope, limit=_NEWEST_TURNS, newest=True)
    texts = [turn.content for turn in turns if turn.role == "user"]
    others = Counter(main_script(text) for text in texts if not is_read(text, read))
    scripts = tuple(sorted(script for script, count in others.items() if count >= _SHARE * len(texts)))
    if read != {"LATIN"}:
        return scripts, ""
    language = await asyncio.to_thread(latin_language, texts)
    if language in ("", "en"):  # code and misspelt English are in pieces, too
        return scripts, ""
    pieces = await pieces_per_word(embedder, [text for text in texts if main_script(text) == "LATIN"])
    return scripts, language if pieces is not None and pieces > _IN_PIECES else ""


class RowScripts:
    """Scripts of rows, told from their words. `read`: those that the embedder reads, None for all."""

    def __init__(self, read: frozenset[str] | None) -> None:
        self.unread = 0
        """How many rows the embedder does not read."""
        self._read = read
        self._is_unread = array("B")
        self._script = array("B")
        self._number: dict[str, int] = {}

    def add(self, terms: Iterable[str]) -> None:
        """The next row."""
        words = " ".join(term for term in terms if term[:1] != "@")
        unread = not is_read(words, self._read)
        self._is_unread.append(unread)
        self.unread += unread
        self._script.append(self._number.setdefault(main_script(words), len(self._number)))

    def is_unread(self, position: int) -> bool:
        """True if the embedder does not read the row."""
        return bool(self._is_unread[position])

    def silenced(self, *cosines: Floats) -> tuple[Floats, ...]:
        """Cosines of all rows, unknown (NaN) where the embedder does not read the row."""
        if not self.unread:
            return cosines
        unread = np.array(self._is_unread, dtype=np.bool_)
        return tuple(np.where(unread, np.float32(np.nan), given) for given in cosines)

    def of_words(self, words: WordScores, script: str, terms: Iterable[str]) -> dict[Signal, Floats]:
        """The signals of words, unknown where a row in another script than `script` has none of the question's `terms`.

        An entity has a name in each: if the question names one, a row without it lacks it in any script.
        """
        values: dict[Signal, Floats] = {
            "words": words.turn,
            "words_around": words.around,
            "words_session": words.session,
        }
        named = any(term.startswith("@") for term in terms) and bool(words.turn.any())
        if not script or named or self._number.keys() <= {script, ""}:
            return values
        own = [number for name, number in self._number.items() if name in (script, "")]
        foreign = ~np.isin(np.array(self._script), own) & (words.turn == 0.0)
        return {name: np.where(foreign, np.float32(np.nan), given) for name, given in values.items()}
