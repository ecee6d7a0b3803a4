"""mem0 without a language model: messages stored as they are (`infer=False`), searched by `user_id`.

Its vector store is Chroma, with which mem0 searches by meaning alone: it mixes in BM25 only on stores that search by words.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, Final

from benchmarks.peers.base import document, model_folder, sayable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from benchmarks.peers.base import Embedder
    from benchmarks.recall_sets import Corpus, Question

USER: Final = "user"


class Mem0:
    """`Memory.from_config`, one memory per turn."""

    name: ClassVar[str] = "mem0"
    package: ClassVar[str] = "mem0ai"
    settings: ClassVar[Mapping[str, Any]] = {
        "vector_store": "chroma",
        "embedder": "huggingface",
        "infer": False,
        "threshold": "0.1, its default",
    }

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        # Read when mem0 is imported.
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ["MEM0_DIR"] = str(folder)
        from mem0 import Memory  # type: ignore[import-not-found]  # in the peers' environment

        self._memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "chroma",
                    "config": {"collection_name": "turns", "path": str(folder / "chroma")},
                },
                "embedder": {"provider": "huggingface", "config": {"model": str(model_folder())}},
                # It is made, and never asked.
                "llm": {"provider": "openai", "config": {"api_key": "none"}},
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._embedder = embedder
        self._memory.embedding_model.model = embedder  # the same model, which remembers its vectors
        self._turn_of: dict[str, str] = {}

    def remember(self, corpus: Corpus) -> None:
        """One call per turn, as a conversation comes."""
        turns = sayable(corpus)
        self._embedder.embed([document(turn) for turn in turns])  # the model is faster with many at once
        for turn in turns:
            # It stores no system messages; the sets have none.
            role = "user" if turn.speaker else turn.role
            added = self._memory.add([{"role": role, "content": document(turn)}], user_id=USER, infer=False)
            self._turn_of |= {memory["id"]: turn.id for memory in added["results"]}

    def search(self, question: Question, depth: int) -> list[str]:
        """The best memories of the user."""
        found = self._memory.search(question.text, top_k=depth, filters={"user_id": USER})
        return [self._turn_of[memory["id"]] for memory in found["results"]]

    def close(self) -> None:
        """Close its history and its store."""
        self._memory.close()
        self._memory.vector_store.client.close()
