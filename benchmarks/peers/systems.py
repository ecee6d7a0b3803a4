"""The peers: each remembers and searches in its own way. What one needs is imported when it is made."""

from __future__ import annotations

import calendar
import os
import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from benchmarks.peers.base import DIMENSIONS, document, model_folder, sayable
from benchmarks.recall_sets import read_date

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from benchmarks.peers.base import Embedder, Peer
    from benchmarks.recall_sets import Corpus, Question

BATCH: Final = 1_000


def _client(folder: Path) -> Any:
    import chromadb
    from chromadb.config import Settings

    return chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False))


def _add(collection: Any, ids: Sequence[str], texts: Sequence[str], embedder: Embedder) -> None:
    for start in range(0, len(ids), BATCH):
        some = list(texts[start : start + BATCH])
        collection.add(ids=list(ids[start : start + BATCH]), documents=some, embeddings=embedder.embed(some))


class Chroma:
    """A persistent client with its defaults but for the metric, nearest by cosine."""

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


# --- others -------------------------------------------------------------------------------------------------
class Mem0:
    """mem0 without a language model: messages stored as they are (`infer=False`), a memory per turn, searched by `user_id`.

    Its vector store is Chroma, with which mem0 searches by meaning alone: it mixes in BM25 only on stores that search by words.
    """

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
            added = self._memory.add([{"role": role, "content": document(turn)}], user_id="user", infer=False)
            self._turn_of |= {memory["id"]: turn.id for memory in added["results"]}

    def search(self, question: Question, depth: int) -> list[str]:
        """The best memories of the user."""
        found = self._memory.search(question.text, top_k=depth, filters={"user_id": "user"})
        return [self._turn_of[memory["id"]] for memory in found["results"]]

    def close(self) -> None:
        """Close its history and its store."""
        self._memory.close()
        self._memory.vector_store.client.close()


class LangGraph:
    """LangGraph's `InMemoryStore` with an index, which is what LangMem's tools search: nearest by cosine within a namespace."""

    package: ClassVar[str] = "langgraph"
    settings: ClassVar[Mapping[str, Any]] = {
        "store": "InMemoryStore",
        "index": {"dims": DIMENSIONS, "fields": ["text"]},
    }

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        from langgraph.store.memory import InMemoryStore

        self._embedder = embedder
        self._store = InMemoryStore(index={"embed": embedder.lists, "dims": DIMENSIONS, "fields": ["text"]})

    def remember(self, corpus: Corpus) -> None:
        """One item per turn."""
        turns = sayable(corpus)
        self._embedder.embed([document(turn) for turn in turns])  # the model is faster with many at once
        for turn in turns:
            self._store.put(("user", "turns"), turn.id, {"text": document(turn)})

    def search(self, question: Question, depth: int) -> list[str]:
        """The nearest items."""
        found = self._store.search(("user", "turns"), query=question.text, limit=depth)
        return [item.key for item in found]

    def close(self) -> None:
        """Nothing is open."""


class MemPalace:
    """MemPalace as it is installed: each turn a drawer as its live integrations file them, searched by `search_memories`.

    That takes the nearest 4 × n drawers and ranks them by .6 × similarity + .4 × BM25 among them, its defaults.
    """

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
                wing="conversation",
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

        found = search_memories(question.text, self._palace, wing="conversation", n_results=depth)
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


PEERS: Final[Mapping[str, type[Peer]]] = {
    "chroma": Chroma,
    "mem0": Mem0,
    "langgraph": LangGraph,
    "mempalace-package": MemPalace,
    "mempalace-hybrid": MemPalaceHybrid,
}
