"""A sentence-transformers model run by ONNX Runtime: tokens, one forward pass, pooling. No torch, no transformers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.errors import EmbedderError, UnsupportedModel
from memory_agent.models.batching import own_tokens
from memory_agent.models.local.folder import (
    PASSAGE_TOKENS,
    max_tokens,
    module_folder,
    pool,
    read_encoding,
    read_json,
    read_usage,
    tokenizer_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

    from memory_agent.models.batching import Hidden


RUN_TOKENS: Final = 256
"""Tokens of one forward pass at most, padding included. It bounds memory (about 30 MB for MiniLM), keeps a pass
within the processor's caches (longer ones are slower per token), and bounds how long a question shares its core."""

_NORMALISED: Final = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}

SLOWER_TOGETHER: Final = ["SkipLayerNormFusion"]
"""Steps that ONNX Runtime 1.31 would merge into one that takes four times as long on a processor."""

INLINE_CHARS: Final = 4_000
"""Texts of so many characters are cut into tokens on the calling thread, under the interpreter's lock: 1 ms at most."""

LEAST_FILLED: Final = 0.875
"""A text shares a pass with a longer one if it is at least this share of its length: padding costs as much as text."""


SHORT_RUN_TOKENS: Final = 64
"""Up to so many tokens, padding included, texts of any lengths share a pass: reading the weights costs more than padding."""

_IMPORTING: Final = threading.Lock()
"""tokenizers' package and modules import each other: where one thread comes in by the package and another by a module,
Python breaks the deadlock by handing out a module that is half there."""


def open_tokenizer(folder: Path) -> Tokenizer:
    """The model's tokenizer, neither truncating nor padding. Raises EmbedderError if there is no usable one."""
    tokenizer = read_tokenizer(tokenizer_file(folder))
    if read_usage(folder)["lower_case"]:
        from tokenizers.normalizers import Lowercase, Sequence

        own = [tokenizer.normalizer] if tokenizer.normalizer is not None else []
        tokenizer.normalizer = Sequence([Lowercase(), *own])
    return tokenizer


def read_tokenizer(file: Path) -> Tokenizer:
    """The tokenizer in `file`, neither truncating nor padding. Raises EmbedderError if it cannot be read."""
    with _IMPORTING:
        import tokenizers.normalizers  # noqa: F401
        from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as exc:  # the library raises Exception itself
        raise EmbedderError(f"{file} cannot be read: {exc}") from exc
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def refuse_disagreement(folder: Path) -> None:
    """Raise UnsupportedModel where transformers would not take tokenizer.json's word for how texts are normalised."""
    normalizer = read_tokenizer(tokenizer_file(folder)).normalizer
    said = read_json(tokenizer_file(folder).with_name("tokenizer_config.json"))
    for name, attribute in _NORMALISED.items():
        does = getattr(normalizer, attribute, None)
        if type(normalizer).__name__ == "BertNormalizer" and said.get(name, does) != does:
            said_and_done = f"says {name}={said[name]}, and tokenizer.json {attribute}={does}"
            remedy = "make them agree, or set embedding_backend=torch"
            raise UnsupportedModel(f"in {folder} tokenizer_config.json {said_and_done}; {remedy}")


def tokens_read(folder: Path) -> int:
    """Tokens of a text that are read at most, its special ones and the model's prompt included."""
    return min(max_tokens(folder), PASSAGE_TOKENS)


def plan_runs(lengths: Sequence[int]) -> list[list[int]]:
    """The batches of texts that share a forward pass: indices into `lengths`, each once, longest texts first.

    A pass has at most RUN_TOKENS tokens with its padding (a longer text has one for itself), and no text in it
    is shorter than LEAST_FILLED of the longest, unless it has SHORT_RUN_TOKENS at most.
    """
    runs: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True):
        tokens = (len(runs[-1]) + 1) * longest if runs else RUN_TOKENS + 1
        is_like = tokens <= SHORT_RUN_TOKENS or lengths[index] >= LEAST_FILLED * longest
        if tokens <= RUN_TOKENS and is_like:
            runs[-1].append(index)
        else:
            runs.append([index])
            longest = lengths[index]
    return runs


class OnnxModel:
    """A loaded model. It may be called from several threads at once; each call uses the core it runs on.

    `file`: the ONNX file of the model in `folder`. `one_by_one`: each text has a forward pass of its own, which
    int8 needs: the range of its activations is taken over a whole pass, so that a text's vector would depend on
    what else is in it.
    """

    def __init__(self, folder: Path, file: Path, *, one_by_one: bool = False) -> None:
        self._encoding = read_encoding(folder)
        refuse_disagreement(folder)
        self._tokenizer = open_tokenizer(folder)
        self._tokenizer.enable_truncation(tokens_read(folder))
        settings = read_json(module_folder(folder, "Transformer") / "config.json")
        self._pad = int(settings.get("pad_token_id") or 0)
        self._token_dimension = self._encoding.dimension // len(self._encoding.pooling)
        self._one_by_one = one_by_one
        self._file = file
        self._session = _open_session(file)
        self._inputs, self._output = self._inputs_and_output()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of `texts`, shape (len(texts), dimension), not normalised. What is past the window is not read."""
        return self.encode_tokens(texts)[0]

    def encode_tokens(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], list[Hidden]]:
        """The vectors of `texts`, as `encode` gives them, and of each text's own tokens, before pooling."""
        encoded = self._tokens(texts)
        vectors = np.empty((len(texts), self._encoding.dimension), dtype=np.float32)
        prompt = len(self._encoding.prompt)
        own = [own_tokens(e.offsets, e.special_tokens_mask, prompt=prompt) for e in encoded]
        hidden_of = [np.empty((0, self._token_dimension), dtype=np.float32)] * len(texts)
        for run, hidden, mask in self._runs([e.ids or [self._pad] for e in encoded]):
            vectors[run] = pool(hidden, mask, self._encoding.pooling)
            for row, text in enumerate(run):
                hidden_of[text] = hidden[row, own[text][0]]
        return vectors, [(spans, of_text) for (_, spans), of_text in zip(own, hidden_of, strict=True)]

    def _tokens(self, texts: Sequence[str]) -> list[Encoding]:
        prompted = [self._encoding.prompt + text for text in texts]
        if sum(map(len, prompted)) <= INLINE_CHARS:
            return [self._tokenizer.encode(text) for text in prompted]
        # Lets other threads run meanwhile, but wakes threads of its own: 0.8 ms more for one question.
        return self._tokenizer.encode_batch(prompted)

    def _runs(
        self, ids: Sequence[Sequence[int]]
    ) -> Iterator[tuple[list[int], NDArray[np.float32], NDArray[np.int64]]]:
        """Forward passes: which of `ids` share one, the vectors of its tokens, and 1 for tokens, 0 for padding."""
        lengths = [len(of_text) for of_text in ids]
        for run in [[i] for i in range(len(ids))] if self._one_by_one else plan_runs(lengths):
            yield run, *self._run([ids[i] for i in run])

    def _run(self, ids: Sequence[Sequence[int]]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        length = max(len(of_text) for of_text in ids)
        padded = np.full((len(ids), length), self._pad, dtype=np.int64)
        mask = np.zeros_like(padded)
        for row, of_text in enumerate(ids):
            padded[row, : len(of_text)] = of_text
            mask[row, : len(of_text)] = 1
        given = {"input_ids": padded, "attention_mask": mask, "token_type_ids": np.zeros_like(padded)}
        try:
            (hidden,) = self._session.run(self._output, {name: given[name] for name in self._inputs})
        except _runtime_errors() as exc:
            raise EmbedderError(f"the model {self._file} failed on {len(ids)} texts: {exc}") from exc
        if hidden.shape != (*mask.shape, self._token_dimension):
            texts = f"{mask.shape[0]} texts of {length} tokens"
            asked = f"the model's settings say {self._token_dimension} numbers for each token"
            gives = f"{self._file} gives vectors of shape {hidden.shape} for {texts}"
            raise EmbedderError(f"{gives}; {asked}: the file is not of this model")
        return hidden, mask

    def _inputs_and_output(self) -> tuple[list[str], list[str]]:
        """Inputs by name, and the output with the vectors of the tokens: by the name that exporters give it, or the first."""
        inputs = [given.name for given in self._session.get_inputs()]
        if unknown := sorted(set(inputs) - {"input_ids", "attention_mask", "token_type_ids"}):
            raise EmbedderError(f"{self._file} asks for {', '.join(unknown)}, which no text model should")
        outputs = [given.name for given in self._session.get_outputs()]
        known = [name for name in ("token_embeddings", "last_hidden_state") if name in outputs]
        return inputs, (known or outputs)[:1]


def _open_session(file: Path) -> Any:
    import onnxruntime

    onnxruntime.disable_telemetry_events()  # of Windows; elsewhere it is `memory_agent/__init__.py` that keeps it quiet
    options = onnxruntime.SessionOptions()
    # Several texts at a time, each on one core, come out faster than one text on several.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Every length of text would reserve memory of its own size, and keep it.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"], disabled_optimizers=SLOWER_TOGETHER
        )
    except _runtime_errors() as exc:
        remedy = "replace it, or delete it if its weights are here to export"
        raise EmbedderError(f"the ONNX file {file} cannot be loaded ({exc}); {remedy}") from exc


def _runtime_errors() -> tuple[type[Exception], ...]:
    """ONNX Runtime's exceptions: a class for each of its status codes, without a common base."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    own = [kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    return (*own, RuntimeError, ValueError, OSError)
