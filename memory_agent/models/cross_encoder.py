"""A cross-encoder on this machine: one forward pass over a question and a text together, by sentence-transformers."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.errors import RerankerError, RerankerUnavailable
from memory_agent.models.local.find import SlowFailure, find_cross_encoder
from memory_agent.models.local.folder import PASSAGE_TOKENS
from memory_agent.models.local.sentence_transformers import load_model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

BATCH_SIZE: Final = 32
"""Pairs of one forward pass."""


class CrossEncoderReranker:
    """`Reranker` by any cross-encoder that sentence-transformers loads and that has one score per pair.

    `model`: a folder, or a name in the hub's cache or on the hub (see `find_cross_encoder`). Nothing is loaded before
    the first texts. Calls run one after the other, in a thread of their own, on as many cores as torch takes.
    """

    def __init__(self, model: str) -> None:
        self._name = model
        self._executor: ThreadPoolExecutor | None = None
        self._model: Any = None
        self._no_model = SlowFailure()
        self._closed = threading.Event()

    async def rerank(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `Reranker.rerank`. Logits; a pair longer than the model's window, or 512 tokens, is cut.

        Raises RerankerError, naming the setting, if the model cannot be had or loaded.
        """
        self._refuse_if_closed()
        if not texts:
            return np.empty(0, dtype=np.float32)
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reranker")
        pairs = [(query, text) for text in texts]
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._score, pairs)

    async def close(self) -> None:
        """See `Reranker.close`. What still waits its turn is refused."""
        self._closed.set()
        executor, self._executor = self._executor, None
        if executor is not None:
            await asyncio.to_thread(executor.shutdown)
        self._model = None

    def _refuse_if_closed(self) -> None:
        if self._closed.is_set():
            raise RerankerUnavailable("the reranker was closed; make a new one")

    # --- in the thread ---------------------------------------------------------------------------------------
    def _score(self, pairs: list[tuple[str, str]]) -> NDArray[np.float32]:
        self._refuse_if_closed()
        if self._model is None:
            self._model = self._no_model.or_else(lambda: _load(find_cross_encoder(self._name)))
        from torch.nn import Identity

        try:
            # As they are: a sigmoid, which is many a model's default, makes all good texts equal to 1.
            scores = self._model.predict(
                pairs, batch_size=BATCH_SIZE, activation_fn=Identity(), show_progress_bar=False
            )
        except (RuntimeError, ValueError, TypeError, IndexError) as exc:  # torch's and the tokenizer's
            wrong = f"failed on {len(pairs)} texts: {exc}"
            raise RerankerError(f"the cross-encoder {self._name} {wrong}") from exc
        found = np.asarray(scores, dtype=np.float32)
        if found.shape != (len(pairs),) or not np.isfinite(found).all():
            raise RerankerError(
                f"the cross-encoder {self._name} gave no finite score for each of {len(pairs)} texts (shape {found.shape})"
            )
        return found


def _load(folder: Path) -> Any:
    instead = "leave cross_encoder_model unset"
    model = load_model("CrossEncoder", folder, refused=RerankerError, instead=instead)
    if model.num_labels != 1:
        raise RerankerError(
            f"the model in {folder} tells {model.num_labels} classes apart; cross_encoder_model must be one with a single"
            " score per pair, such as cross-encoder/ms-marco-MiniLM-L6-v2"
        )
    # A tokenizer without a limit of its own says 10**30.
    windows = (model.max_seq_length, getattr(model.config, "max_position_embeddings", None), PASSAGE_TOKENS)
    model.max_seq_length = min(window for window in windows if window)
    return model
