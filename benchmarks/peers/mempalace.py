"""MemPalace as it is installed: each turn a drawer as its live integrations file them, searched by its own `search_memories`.

That takes the nearest 4 × n drawers and ranks them by .6 × similarity + .4 × BM25 among them, its defaults.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, Final

from benchmarks.peers.base import document, sayable
from benchmarks.recall_sets import read_date

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from benchmarks.peers.base import Embedder
    from benchmarks.recall_sets import Corpus, Question

WING: Final = "conversation"
BATCH: Final = 1_000


class MemPalace:
    """One palace per corpus."""

    name: ClassVar[str] = "mempalace-package"
    package: ClassVar[str] = "mempalace"
    settings: ClassVar[Mapping[str, Any]] = {
        "drawers": "file_conversation_exchange, a turn each",
        "search": "search_memories, candidate_strategy='vector', .6 vector + .4 BM25",
    }

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        # It keeps a configuration in the home folder, which is nobody's while this lasts.
        self._home = os.environ.get("HOME", "")
        os.environ["HOME"] = str(folder)
        os.environ["MEMPALACE_EMBEDDING_DEVICE"] = "cpu"
        os.environ["MEMPALACE_EMBEDDING_MODEL"] = "minilm"
        from mempalace import embedding, palace  # type: ignore[import-not-found]  # in the peers' environment

        # Its own cache of embedding functions: it would otherwise download the same model's files.
        embedding._EF_CACHE["minilm", ("CPUExecutionProvider",)] = _function(embedder)
        self._palace = str(folder / "palace")
        self._drawers = palace.get_collection(self._palace, create=True)
        self._turn_of: dict[str, str] = {}

    def remember(self, corpus: Corpus) -> None:
        """One drawer per turn."""
        from mempalace.convo_miner import file_conversation_exchange  # type: ignore[import-not-found]

        waiting = _Waiting()
        for turn in sayable(corpus):
            said = read_date(turn.date)
            drawer = file_conversation_exchange(
                waiting,
                wing=WING,
                room=turn.session,
                text=document(turn),
                source_file=turn.session,
                agent="benchmark",
                authored_at=said.isoformat() if said else None,
            )
            self._turn_of[drawer] = turn.id
        waiting.flush(self._drawers)

    def search(self, question: Question, depth: int) -> list[str]:
        """The drawers that its search returns."""
        from mempalace.searcher import search_memories  # type: ignore[import-not-found]

        found = search_memories(question.text, self._palace, wing=WING, n_results=depth)
        if "error" in found:
            raise RuntimeError(found["error"])
        return [self._turn_of[hit["drawer_id"]] for hit in found["results"]]

    def close(self) -> None:
        """It closes its clients itself as the process ends."""
        os.environ["HOME"] = self._home


class _Waiting:
    """Takes drawers one by one, and hands them on many at a time."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str, dict[str, Any]]] = []

    def upsert(self, *, ids: list[str], documents: list[str], metadatas: list[dict[str, Any]]) -> None:
        self._rows += zip(ids, documents, metadatas, strict=True)

    def flush(self, drawers: Any) -> None:
        for start in range(0, len(self._rows), BATCH):
            ids, documents, metadatas = zip(*self._rows[start : start + BATCH], strict=True)
            drawers.upsert(ids=list(ids), documents=list(documents), metadatas=list(metadatas))


def _function(embedder: Embedder) -> Any:
    """The embedder as Chroma's embedding function, under the name that MemPalace gives its own."""
    from chromadb.api.types import EmbeddingFunction

    class Shared(EmbeddingFunction[list[str]]):
        def __init__(self) -> None:
            pass

        @staticmethod
        def name() -> str:
            return "default"

        def __call__(self, input: list[str]) -> Any:  # noqa: A002 - Chroma's name
            return list(embedder.embed(input))

    return Shared()
