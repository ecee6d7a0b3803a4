"""Embeddings in this process: by ONNX Runtime where it can be had, else by torch."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import numpy as np

from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.models.batching import (
    BatchingEmbedder,
    BatchLimits,
    Piece,
    cut_passages,
    principal_directions,
    sample_texts,
    token_vectors,
)
from memory_agent.models.local import folder as model_folder
from memory_agent.models.local.atomic_build import Making
from memory_agent.models.local.choose import choose, mend, prepare
from memory_agent.models.local.find import SlowFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    from memory_agent.domain import TokenVectors
    from memory_agent.models.batching import Purpose
    from memory_agent.models.local.choose import Choice, ModelChoiceRequest
    from memory_agent.models.local.onnx import OnnxModel
    from memory_agent.models.local.sentence_transformers import TorchModel

    Model = OnnxModel | TorchModel

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

OVERLAP_TOKENS: Final = 32
"""What two neighbouring passages share, so that a sentence at a cut is whole in one of them."""

BATCH_CHARS: Final = 2_048
"""About as many tokens as one forward pass takes: a lane of documents is free for something else soon."""

QUESTION_PATIENCE_SECONDS: Final = 5.0
"""How long a question waits for a file that is being made; documents wait until it is there."""

MOST_THREADS: Final = 8
"""By default no more cores than this: what else an ingest does (writing rows and vectors) is then the slower part."""

_WORD: Final = re.compile(r"[^\W\d_]+")

_QUOTA_FILE: Final = Path("/sys/fs/cgroup/cpu.max")


def default_threads(cores: int) -> int:
    """Texts encoded at the same time, each on one core: one per core, at most MOST_THREADS."""
    return max(1, min(cores, MOST_THREADS))


def usable_cores() -> int:
    """Cores that this process may use: of its affinity, and of its container's quota (Linux)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota = quota_cores(_QUOTA_FILE.read_text(encoding="ascii"))
    except OSError:  # not in a container of this kind
        quota = None
    return min(cores, quota or cores)


def quota_cores(text: str) -> int | None:
    """Whole cores, rounded up, that a cgroup's `cpu.max` ("microseconds period", or "max period") allows; None: all."""
    quota, _, period = text.strip().partition(" ")
    if not (quota.isdigit() and period.isdigit()) or not int(period):
        return None
    return max(1, -(-int(quota) // int(period)))


class LocalEmbedder(BatchingEmbedder):
    """`Embedder` by a sentence-transformers bi-encoder on this machine; see `choose` for what runs it.

    Nothing is loaded before the first text to embed; then, if the model has no ONNX file yet, one is made.
    `fingerprint` and `split` need no loaded model. `threads`: texts encoded at the
    same time, each on one core, in lanes of documents and in as many of questions; None: `default_threads`.
    """

    gives_tokens: ClassVar[bool] = True

    def __init__(
        self,
        wanted: ModelChoiceRequest,
        *,
        threads: int | None = None,
        batch_size: int = 64,
        cache_size: int = 2_048,
    ) -> None:
        self.threads = threads or default_threads(usable_cores())
        limits = BatchLimits(
            texts=batch_size, chars=BATCH_CHARS, question_lanes=self.threads, document_lanes=self.threads
        )
        super().__init__(limits, cache_size=cache_size)
        self._wanted = wanted
        self._making = Making(progress=log.info)
        # Two locks: who asks which model it is must not wait until it is loaded.
        self._choosing = threading.RLock()
        self._loading = threading.Lock()
        self._no_choice, self._no_model = SlowFailure(EmbedderError), SlowFailure(EmbedderError)
        self._chosen: Choice | None = None
        self._scripts: frozenset[str] | None = None
        self._model: tuple[Model, NDArray[np.float32]] | None = None
        self._tokenizer: tuple[Tokenizer, int] | None = None
        self._executor: ThreadPoolExecutor | None = None

    @property
    def choice(self) -> Choice:
        """The encoder of the model. Blocking: finds it (downloading it if it must) and reads its weights."""
        if self._chosen is None:
            with self._choosing:  # asked from several threads at once, it must not download twice
                if self._chosen is None:
                    chosen = self._no_choice.or_else(lambda: choose(self._wanted))
                    self._scripts = model_folder.scripts(chosen.folder)
                    self._chosen = chosen
        return self._chosen

    @property
    def fingerprint(self) -> str:
        """See `Embedder.fingerprint`. Blocking, as `choice` is. Raises ModelNotFound while there is none."""
        return self.choice.fingerprint

    @property
    def scripts(self) -> frozenset[str] | None:
        """See `Embedder.scripts`. Told from the model's vocabulary once the model is found."""
        return None if self._chosen is None else self._scripts

    @property
    def known_fingerprint(self) -> str:
        """See `known_fingerprint` of the ports: nothing is looked for."""
        return "" if self._chosen is None else self._chosen.fingerprint

    async def split(self, text: str) -> list[str]:
        """See `Embedder.split`. Cut at the offsets of the model's own tokens."""
        # No tokenizer makes more tokens of ASCII text than it has characters, but for one at the beginning.
        if self._tokenizer is not None and text.isascii() and len(text) < self._tokenizer[1]:
            return [text]
        return await asyncio.to_thread(self._split, text)

    def _split(self, text: str) -> list[str]:
        tokenizer, window = self._opened_tokenizer()
        # encode_batch rather than encode: it lets other threads run meanwhile.
        (encoded,) = tokenizer.encode_batch([text], add_special_tokens=False)
        if len(encoded.offsets) <= window:
            return [text]
        pieces = [Piece(start, end) for start, end in encoded.offsets]
        passages = cut_passages(text, pieces, window=window, overlap=OVERLAP_TOKENS)
        # A word cut in two can have more tokens than its halves had inside it; then cut that passage once more.
        return [
            part for passage in passages for part in (self._split(passage) if passage != text else [passage])
        ]

    def pieces_per_word(self, texts: Sequence[str]) -> float | None:
        """See `pieces_per_word` of the ports. Nothing is looked for: None until the model was found."""
        words = [word for text in texts for word in _WORD.findall(text)]
        if self._chosen is None or not words:
            return None
        tokenizer, _ = self._opened_tokenizer()
        pieces = tokenizer.encode_batch(words, add_special_tokens=False)
        return sum(len(encoded.ids) for encoded in pieces) / len(words)

    async def embed(self, texts: Sequence[str], *, purpose: Purpose) -> NDArray[np.float32]:
        """See `Embedder.embed`. While a model's file is made, questions are refused after QUESTION_PATIENCE_SECONDS."""
        return await self._patiently(super().embed(texts, purpose=purpose), purpose)

    async def embed_tokens(self, texts: Sequence[str], *, purpose: Purpose) -> list[TokenVectors] | None:
        """See `Embedder.embed_tokens`: the model's last hidden state. Questions are refused as by `embed`."""
        return await self._patiently(super().embed_tokens(texts, purpose=purpose), purpose)

    async def _patiently(self, asked: Coroutine[object, object, Answer], purpose: Purpose) -> Answer:
        if purpose == "document" or self._model is not None:
            return await asked
        call = asyncio.ensure_future(asked)
        try:
            await asyncio.wait({call}, timeout=QUESTION_PATIENCE_SECONDS)
            if not call.done() and (self._chosen is None or not self._chosen.ready):
                is_made = "ONNX file is still being made, which its first use does"
                state = (
                    "the model is still being looked for"
                    if self._chosen is None
                    else f"the model's {is_made}"
                )
                raise EmbedderUnavailable(f"{state}; until then search is by words")
            return await call
        finally:
            call.cancel()

    async def close(self) -> None:
        """See `Embedder.close`. A file that is being made is given up; whoever needs it next makes it."""
        self._making.stop.set()
        await super().close()

    async def _encode(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[TokenVectors]]:
        return await self._in_thread(lambda: self._encoded(texts))

    def _encoded(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[TokenVectors]]:
        model, directions = self._loaded()
        vectors, tokens = model.encode_tokens(texts)
        return vectors, [token_vectors(spans, hidden, directions) for spans, hidden in tokens]

    async def _in_thread(self, work: Callable[[], Answer]) -> Answer:
        if self._executor is None:
            workers = self._limits.question_lanes + self._limits.document_lanes
            self._executor = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="embedder")
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _loaded(self) -> tuple[Model, NDArray[np.float32]]:
        """The model, and the directions by which the vectors of its tokens are told."""
        with self._loading:
            if self._model is None:
                self._model = self._no_model.or_else(self._load)
            return self._model

    def _load(self) -> tuple[Model, NDArray[np.float32]]:
        choice = prepare(self.choice, self._wanted, self._making)
        try:
            model = self._open(choice)
        except EmbedderError as exc:
            choice = mend(choice, self._wanted, exc, self._making)
            model = self._open(choice)
        self._chosen = choice
        pieces = self._open_tokenizer()[0].get_vocab()
        _, tokens = model.encode_tokens(sample_texts(sorted(pieces, key=pieces.__getitem__)))
        return model, principal_directions(np.concatenate([hidden for _, hidden in tokens]))

    def _open(self, choice: Choice) -> Model:
        if choice.file is None:
            from memory_agent.models.local.sentence_transformers import TorchModel

            # It runs one batch at a time on all cores: a second lane of documents would only stand before a question.
            self._limits = replace(self._limits, question_lanes=1, document_lanes=1)
            return TorchModel(choice.folder)
        from memory_agent.models.local.onnx import OnnxModel

        return OnnxModel(choice.folder, choice.file, one_by_one=choice.precision == "int8")

    async def _dimension(self) -> int:
        return await asyncio.to_thread(lambda: model_folder.dimension(self.choice.folder))

    async def _release(self) -> None:
        executor, self._executor = self._executor, None
        self._model = None
        if executor is not None:
            executor.shutdown()

    def _opened_tokenizer(self) -> tuple[Tokenizer, int]:
        with self._choosing:
            self._tokenizer = self._tokenizer or self._open_tokenizer()
            return self._tokenizer

    def _open_tokenizer(self) -> tuple[Tokenizer, int]:
        """The model's tokenizer, and how many of a text's own tokens it reads."""
        from memory_agent.models.local.onnx import open_tokenizer, tokens_read

        folder = self.choice.folder
        tokenizer = open_tokenizer(folder)
        prompt = tokenizer.encode(model_folder.read_usage(folder)["prompt"], add_special_tokens=False)
        special = tokenizer.num_special_tokens_to_add(is_pair=False)
        return tokenizer, tokens_read(folder) - special - len(prompt.ids)
