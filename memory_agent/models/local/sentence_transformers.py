"""A sentence-transformers model run by sentence-transformers itself, on torch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_agent.errors import EmbedderError
from memory_agent.models.local.folder import PASSAGE_TOKENS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray


class TorchModel:
    """A loaded model; calls of `encode` from several threads run one after the other. torch keeps its own default number of threads (one per core)."""

    def __init__(self, folder: Path) -> None:
        """Imports torch: 8 to 12 seconds on a small machine."""
        self._folder = folder
        self._lock = threading.Lock()  # its tokenizer is not for several threads at once
        self._model = _load(folder)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of `texts`, shape (len(texts), dimension). What is past the window is not read."""
        try:
            with self._lock:
                vectors = self._model.encode(
                    list(texts), batch_size=len(texts), convert_to_numpy=True, show_progress_bar=False
                )
        except (RuntimeError, ValueError, TypeError, IndexError) as exc:  # torch's and the tokenizer's
            raise EmbedderError(f"the model in {self._folder} failed on {len(texts)} texts: {exc}") from exc
        return np.asarray(vectors, dtype=np.float32)


def _load(folder: Path) -> Any:
    try:
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging as transformers_logging
    except ImportError as exc:
        raise EmbedderError(
            f"sentence-transformers cannot be imported ({exc}); `pip install memory-agent[local]`, or use"
            " use_local_embeddings=false with openai_api_key or openai_base_url"
        ) from exc
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        # float32 also of weights saved in half precision: the fingerprint promises it.
        options = {"dtype": torch.float32}
        model = SentenceTransformer(str(folder), local_files_only=True, model_kwargs=options)
    except (OSError, ValueError, RuntimeError, KeyError) as exc:
        raise EmbedderError(f"the model in {folder} cannot be loaded: {exc}") from exc
    finally:
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    model.max_seq_length = min(model.max_seq_length or PASSAGE_TOKENS, PASSAGE_TOKENS)
    return model
