"""LangGraph's store with an index, which is what LangMem's tools search: nearest by cosine within a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from benchmarks.peers.base import DIMENSIONS, document, sayable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from benchmarks.peers.base import Embedder
    from benchmarks.recall_sets import Corpus, Question

NAMESPACE: Final = ("user", "turns")


class LangGraph:
    """`InMemoryStore`, an item per turn."""

    name: ClassVar[str] = "langgraph"
    package: ClassVar[str] = "langgraph"
    settings: ClassVar[Mapping[str, Any]] = {
        "store": "InMemoryStore",
        "index": {"dims": DIMENSIONS, "fields": ["text"]},
    }

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        from langgraph.store.memory import (
            InMemoryStore,
        )

        self._embedder = embedder
        self._store = InMemoryStore(index={"embed": embedder.lists, "dims": DIMENSIONS, "fields": ["text"]})

    def remember(self, corpus: Corpus) -> None:
        """One item per turn."""
        turns = sayable(corpus)
        self._embedder.embed([document(turn) for turn in turns])  # the model is faster with many at once
        for turn in turns:
            self._store.put(NAMESPACE, turn.id, {"text": document(turn)})

    def search(self, question: Question, depth: int) -> list[str]:
        """The nearest items."""
        found = self._store.search(NAMESPACE, query=question.text, limit=depth)
        return [item.key for item in found]

    def close(self) -> None:
        """Nothing is open."""
