"""Embeddings by sentence-transformers in this process."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.errors import EmbedderError
from memory_agent.models import model_folder
from memory_agent.models.batching import BatchingEmbedder
from memory_agent.models.passages import Piece, cut_passages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

OVERLAP_TOKENS: Final = 32
"""What two neighbouring passages share, so that a sentence at a cut is whole in one of them."""

INLINE_CHARS: Final = 4_000
"""Texts up to here are cut on the event loop (about 2 ms); longer ones in a thread."""


class SentenceTransformerEmbedder(BatchingEmbedder):
    """`Embedder` by a sentence-transformers bi-encoder; `model` is a folder or a name (see `find_model`).

    torch is imported and the weights are loaded with the first text to embed, in the embedder's own thread; torch
    keeps its own default number of threads (one per core). `fingerprint` and `split` need neither.
    """

    def __init__(self, model: str, *, batch_size: int = 64, cache_size: int = 2_048) -> None:
        super().__init__(batch_size=batch_size, cache_size=cache_size)
        self._name = model
        self._lock = threading.RLock()
        self._executor: ThreadPoolExecutor | None = None
        self._loaded: Any = None

    @property
    def fingerprint(self) -> str:
        """See `Embedder.fingerprint`. Blocking: finds the model (downloading it if it must) and reads its weights."""
        return model_folder.fingerprint(self._find())

    async def split(self, text: str) -> list[str]:
        """See `Embedder.split`. Cut at the offsets of the model's own tokens."""
        if len(text) <= INLINE_CHARS and "_tokenizer" in self.__dict__:
            return self._split(text)
        return await asyncio.to_thread(self._split, text)

    def _split(self, text: str) -> list[str]:
        tokenizer, window = self._tokenizer
        offsets = tokenizer.encode(text, add_special_tokens=False).offsets
        if len(offsets) <= window:
            return [text]
        pieces = [Piece(start, end) for start, end in offsets]
        passages = cut_passages(text, pieces, window=window, overlap=OVERLAP_TOKENS)
        # A word cut in two can have more tokens than its halves had inside it; then cut that passage once more.
        return [
            part for passage in passages for part in (self._split(passage) if passage != text else [passage])
        ]

    async def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder")
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._encode_now, list(texts))

    def _encode_now(self, texts: list[str]) -> NDArray[np.float32]:
        if self._loaded is None:
            self._loaded = _load(self._find())
        try:
            vectors = self._loaded.encode(
                texts,
                batch_size=len(texts),
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        except (RuntimeError, ValueError, TypeError, IndexError) as exc:  # torch's and the tokenizer's
            raise EmbedderError(f"the model {self._name} failed on {len(texts)} texts: {exc}") from exc
        return np.asarray(vectors, dtype=np.float32)

    async def _dimension(self) -> int:
        return await asyncio.to_thread(lambda: model_folder.dimension(self._find()))

    async def _release(self) -> None:
        executor, self._executor = self._executor, None
        self._loaded = None
        if executor is not None:
            executor.shutdown()

    def _find(self) -> Path:
        with self._lock:  # asked from several threads at once, it must not download twice
            return self._folder

    @cached_property
    def _folder(self) -> Path:
        return model_folder.find_model(self._name)

    @cached_property
    def _tokenizer(self) -> tuple[Any, int]:
        """The model's tokenizer, and how many of a text's own tokens it reads."""
        from tokenizers import Tokenizer

        folder = self._find()
        tokenizer = Tokenizer.from_file(str(model_folder.tokenizer_file(folder)))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer, model_folder.max_tokens(folder) - tokenizer.num_special_tokens_to_add(is_pair=False)


def _load(folder: Path) -> Any:
    """The model with its weights. Imports torch: 8 to 12 seconds on a small machine."""
    try:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging as transformers_logging
    except ImportError as exc:
        raise EmbedderError(
            f"sentence-transformers cannot be imported ({exc}); `pip install memory-agent[local]`, or use "
            "use_local_embeddings=false with openai_api_key or openai_base_url"
        ) from exc
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        return SentenceTransformer(str(folder), local_files_only=True)
    except (OSError, ValueError, RuntimeError, KeyError) as exc:
        raise EmbedderError(f"the model in {folder} cannot be loaded: {exc}") from exc
    finally:
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
