"""Plain Chroma, a document per turn in one collection, and MemPalace's published recipe over the same."""

from __future__ import annotations

import calendar
import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

import chromadb
from chromadb.config import Settings

from benchmarks.peers.base import document, sayable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from benchmarks.peers.base import Embedder
    from benchmarks.recall_sets import Corpus, Question

BATCH: Final = 1_000


def _client(folder: Path) -> Any:
    return chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False))


def _add(collection: Any, ids: Sequence[str], texts: Sequence[str], embedder: Embedder) -> None:
    for start in range(0, len(ids), BATCH):
        some = list(texts[start : start + BATCH])
        collection.add(ids=list(ids[start : start + BATCH]), documents=some, embeddings=embedder.embed(some))


class Chroma:
    """A persistent client with its defaults but for the metric, nearest by cosine."""

    name: ClassVar[str] = "chroma"
    package: ClassVar[str] = "chromadb"
    settings: ClassVar[Mapping[str, Any]] = {"hnsw:space": "cosine", "document": "speaker: text"}

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        self._embedder = embedder
        self._client = _client(folder)
        self._turns: Any = self._client.create_collection(
            "turns", metadata={"hnsw:space": "cosine"}, embedding_function=None
        )

    def remember(self, corpus: Corpus) -> None:
        """One document per turn."""
        turns = sayable(corpus)
        _add(self._turns, [turn.id for turn in turns], list(map(document, turns)), self._embedder)

    def search(self, question: Question, depth: int) -> list[str]:
        """The nearest documents."""
        found = self._turns.query(
            query_embeddings=self._embedder.embed([question.text]), n_results=depth, include=[]
        )
        return list(found["ids"][0])

    def close(self) -> None:
        """Stop the client."""
        self._client.close()


# --- MemPalace's published recipe ----------------------------------------------------------------------------
_STOPS: Final = """
what when where who how which did do was were have has had is are the a an my me i you your their it its in on at to for of
with by from ago last that this there about get got give gave buy bought made make
"""
_NO_NAMES_EITHER: Final = """
our can could would should will shall may might and but these those previously recently also just very more said speaker
person time date year day
"""
_STOP_WORDS: Final = frozenset(_STOPS.split())
_NO_NAMES: Final = frozenset(
    (*_STOP_WORDS, *_NO_NAMES_EITHER.split(), *map(str.lower, (*calendar.day_name, *calendar.month_name)))
)
_KEYWORD: Final = re.compile(r"\b[a-z]{3,}\b")
_NAME: Final = re.compile(r"\b[A-Z][a-z]{2,15}\b")
_QUOTED: Final = (re.compile(r"'([^']{3,60})'"), re.compile(r'"([^"]{3,60})"'))
_CANDIDATES: Final = 50


class MemPalaceHybrid:
    """MemPalace's published recipe without a language model, by turn, after its own description.

    Described in its benchmarks folder: BENCHMARKS.md and HYBRID_MODE.md of March 2026, and the runners longmemeval_bench.py as of
    commit 14dce2b and locomo_bench.py as of 0948696. It takes verbatim text in a Chroma collection with its default metric and
    shortens the distances of the nearest candidates, d · Π (1 - weight · share), where shares are of the question's keywords, names
    and quoted phrases that occur in the document: with weights .5 for keywords that are no names, .6 for quotes, .2 for names (v5,
    three times as many candidates as are asked for), or .3 for keywords alone where speakers have no names (v1, of LongMemEval).
    Documents are 'NAME said, "TEXT"' for speakers with names; else the user's turns alone.
    """

    name: ClassVar[str] = "mempalace-hybrid"
    package: ClassVar[str] = "chromadb"
    settings: ClassVar[Mapping[str, Any]] = {
        "description": "MemPalace/mempalace benchmarks, commits 14dce2b and 0948696",
        "recipe": "hybrid v5, v1 for LongMemEval",
    }

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        self._embedder = embedder
        self._client = _client(folder)
        self._turns: Any = self._client.create_collection("main", embedding_function=None)
        self._named = False

    def remember(self, corpus: Corpus) -> None:
        """One document per turn."""
        turns = sayable(corpus)
        self._named = any(turn.speaker for turn in turns)
        said = turns if self._named else [turn for turn in turns if turn.role == "user"]
        shown = [f'{turn.speaker} said, "{turn.text}"' if turn.speaker else turn.text for turn in said]
        _add(self._turns, [turn.id for turn in said], shown, self._embedder)

    def search(self, question: Question, depth: int) -> list[str]:
        """The least of the shortened distances first."""
        found = self._turns.query(
            query_embeddings=self._embedder.embed([question.text]),
            n_results=3 * depth if self._named else max(_CANDIDATES, depth),
            include=["distances", "documents"],
        )
        near = zip(found["ids"][0], found["documents"][0], found["distances"][0], strict=True)
        shortened = [(self._shortened(question.text, text, distance), turn) for turn, text, distance in near]
        return [turn for _, turn in sorted(shortened, key=lambda one: one[0])][:depth]

    def close(self) -> None:
        """Stop the client."""
        self._client.close()

    def _shortened(self, question: str, text: str, distance: float) -> float:
        names = {name for name in _NAME.findall(question) if name.lower() not in _NO_NAMES}
        words = [word for word in _KEYWORD.findall(question.lower()) if word not in _STOP_WORDS]
        quotes = [quote.strip() for pattern in _QUOTED for quote in pattern.findall(question)]
        if not self._named:
            return distance * (1.0 - 0.3 * _share(words, text))
        spoken = {name.lower() for name in names}
        plain = [word for word in words if word not in spoken]
        for weight, wanted in ((0.5, plain), (0.6, quotes), (0.2, names)):
            distance *= 1.0 - weight * _share(wanted, text)
        return distance


def _share(wanted: Collection[str], text: str) -> float:
    """The share of `wanted` that `text` holds, whatever the case; 0 if nothing is wanted."""
    folded = text.lower()
    return sum(one.lower() in folded for one in wanted) / len(wanted) if wanted else 0.0
