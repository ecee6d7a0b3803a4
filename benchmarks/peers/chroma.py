"""Plain Chroma: a document per turn in one collection, nearest by cosine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import chromadb
from chromadb.config import Settings

from benchmarks.peers.base import document, sayable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from benchmarks.peers.base import Embedder
    from benchmarks.recall_sets import Corpus, Question

BATCH: Final = 1_000


class Chroma:
    """A persistent client with its defaults but for the metric."""

    name: ClassVar[str] = "chroma"
    package: ClassVar[str] = "chromadb"
    ranks: ClassVar[Literal["turns", "sessions"]] = "turns"
    settings: ClassVar[Mapping[str, Any]] = {"hnsw:space": "cosine", "document": "speaker: text"}

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        self._embedder = embedder
        self._client: Any = chromadb.PersistentClient(
            path=str(folder), settings=Settings(anonymized_telemetry=False)
        )
        self._turns = self._client.create_collection(
            "turns", metadata={"hnsw:space": "cosine"}, embedding_function=None
        )

    def remember(self, corpus: Corpus) -> None:
        """One document per turn."""
        turns = sayable(corpus)
        for start in range(0, len(turns), BATCH):
            batch = turns[start : start + BATCH]
            texts = [document(turn) for turn in batch]
            self._turns.add(
                ids=[turn.id for turn in batch], documents=texts, embeddings=self._embedder.embed(texts)
            )

    def search(self, question: Question, depth: int) -> list[str]:
        """The nearest documents."""
        found = self._turns.query(
            query_embeddings=self._embedder.embed([question.text]), n_results=depth, include=[]
        )
        return list(found["ids"][0])

    def close(self) -> None:
        """Stop the client."""
        self._client.close()
