"""A sentence-transformers model run by sentence-transformers itself, on torch."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_agent.errors import EmbedderError
from memory_agent.models.batching import own_tokens
from memory_agent.models.local.folder import PASSAGE_TOKENS, read_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from memory_agent.models.batching import Hidden


class TorchModel:
    """A loaded model; calls from several threads run one after the other. torch keeps its own default number of threads (one per core)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._prompt: str = read_usage(folder)["prompt"]
        self._lock = threading.Lock()  # its tokenizer is not for several threads at once
        self._model = _load_model(folder)
        self._model.max_seq_length = min(self._model.max_seq_length or PASSAGE_TOKENS, PASSAGE_TOKENS)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of `texts`, shape (len(texts), dimension), not normalised. What is past the window is not read."""
        return self.encode_tokens(texts)[0]

    def encode_tokens(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[Hidden]]:
        """The vectors of `texts`, as `encode` gives them, and of each text's own tokens, before pooling."""
        with self._translated(texts):
            made = self._model.encode(
                list(texts),
                # Also of a model whose own configuration has no prompt and that was trained with one.
                prompt=self._prompt or None,
                batch_size=len(texts),
                show_progress_bar=False,
                output_value=None,
            )
            encoded = self._model.tokenizer(
                [self._prompt + text for text in texts],
                truncation=True,
                max_length=self._model.max_seq_length,
                return_offsets_mapping=True,
                return_special_tokens_mask=True,
            )
        vectors = np.stack([of_text["sentence_embedding"].cpu().numpy() for of_text in made])
        found = []
        for n, of_text in enumerate(made):
            offsets, special = encoded["offset_mapping"][n], encoded["special_tokens_mask"][n]
            hidden = of_text["token_embeddings"].cpu().numpy().astype(np.float32)
            # Padding stands behind the tokens, or before them.
            hidden = hidden[of_text["attention_mask"].cpu().numpy().astype(bool)]
            if len(hidden) < len(offsets):
                counts = f"{len(hidden)} vectors for {len(offsets)} tokens"
                raise EmbedderError(f"the model in {self._folder} gives {counts}")
            kept, spans = own_tokens(offsets, special, prompt=len(self._prompt))
            found.append((spans, hidden[kept]))
        return vectors.astype(np.float32), found

    @contextmanager
    def _translated(self, texts: Sequence[str]) -> Iterator[None]:
        """Take the lock, and translate exceptions of torch and the tokenizer into EmbedderError."""
        try:
            with self._lock:
                yield
        except (RuntimeError, ValueError, TypeError, IndexError, KeyError) as exc:
            raise EmbedderError(f"the model in {self._folder} failed on {len(texts)} texts: {exc}") from exc


def _load_model(folder: Path) -> Any:
    """The model in `folder`. Imports torch: 8 to 12 seconds on a small machine.

    float32 also of weights saved in half precision: the fingerprint promises it, and processors compute those slowly.
    Raises EmbedderError, also if sentence-transformers is not installed.
    """
    try:
        import sentence_transformers
        import torch
        from safetensors import SafetensorError
        from transformers.utils import logging as transformers_logging
    except ImportError as exc:
        raise EmbedderError(
            f"sentence-transformers cannot be imported ({exc}); install memory_agent with its extra `local`, or use"
            " use_local_embeddings=false with openai_api_key or openai_base_url"
        ) from exc
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        options = {"dtype": torch.float32}
        return sentence_transformers.SentenceTransformer(
            str(folder), local_files_only=True, model_kwargs=options
        )
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, SafetensorError) as exc:
        raise EmbedderError(f"the model in {folder} cannot be loaded: {exc}") from exc
    finally:
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
