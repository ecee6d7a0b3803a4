"""Model fingerprint: a digest of the weights that is the same in every file format, and of how they are used.

safetensors and ONNX files name their tensors differently and exporters transpose matrices, so a tensor's digest is
that of its float32 values in one of its two orientations, and a model's is that of the set of its tensors' digests.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import uuid4

import numpy as np

from memory_agent.errors import EmbedderError, ModelNotFound
from memory_agent.models.local import folder as model_folder
from memory_agent.models.local.folder import SAMPLES
from memory_agent.models.local.tensors import FLOATS, onnx_tensors, safetensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

Precision = Literal["fp32", "int8"]

INT8_RECIPE: Final = 1
"""Raised when int8 weights are made differently, so that their vectors are told apart."""

_NOT_USED: Final = re.compile(r"(^|\.)(pooler|cls|lm_head)\.")
"""Heads for training that a saved model may carry along and that no embedding passes."""


def model_fingerprint(folder: Path, weights: Sequence[Path], *, precision: Precision, stamps: Path) -> str:
    """12 hex digits, equal for interchangeable vectors: of the same weights, used in the same way.

    `weights`: the safetensors files, the pickled ones, or the one fp32 ONNX file. fp32 has one fingerprint whatever
    runs it; int8 has another. Pickled weights are known by their bytes only, so that they match no ONNX file.
    `stamps`: a folder where what was read is noted, so that it is read once. Vectors are always normalised, so
    whether the model's own configuration does it makes no difference. Raises ModelNotFound without weights.
    """
    if not weights:
        raise ModelNotFound(f"the model's folder {folder} holds no weights")
    usage = model_folder.read_usage(folder)
    digest = hashlib.sha256(json.dumps(usage, sort_keys=True).encode())
    digest.update(_stamped(weights_digest, _with_what_lies_beside(weights), weights, stamps).encode())
    tokenizer = model_folder.tokenizer_path(folder)
    if tokenizer.is_file():
        digest.update(_stamped(tokenizer_digest, [tokenizer], [tokenizer], stamps).encode())
    if precision == "int8":
        digest.update(f"int8 recipe {INT8_RECIPE}".encode())
    return digest.hexdigest()[:12]


def tokenizer_digest(files: Sequence[Path]) -> str:
    """A digest of how the tokenizer in `files[0]` cuts texts: its vocabulary, and what it makes of the samples.

    Not of the file, which every library writes in its own way. Raises EmbedderError if it cannot be read.
    """
    from memory_agent.models.local.onnx import read_tokenizer

    tokenizer = read_tokenizer(files[0])
    vocabulary = sorted(tokenizer.get_vocab(with_added_tokens=True).items())
    ids = [encoded.ids for encoded in tokenizer.encode_batch_fast(list(SAMPLES))]
    return hashlib.sha256(json.dumps([vocabulary, ids]).encode()).hexdigest()


def weights_digest(files: Sequence[Path]) -> str:
    """The digest of the tensors in `files`, 64 hex digits. Raises EmbedderError for a file that cannot be read."""
    if files[0].suffix == ".bin":  # pickled: only torch could read it
        return _files_digest(files)
    if noted := _noted_weights(files[0]):
        return noted
    digests: set[bytes] = set()
    for file in files:
        try:
            tensors = onnx_tensors(file) if file.suffix == ".onnx" else _used_tensors(file)
            digests.update(_tensor_digest(tensor) for tensor in tensors)
        except (ValueError, KeyError, OSError, TypeError) as exc:
            raise EmbedderError(f"the weights in {file} cannot be read: {exc}") from exc
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def _used_tensors(file: Path) -> Iterator[NDArray[np.float32]]:
    """The float tensors of a safetensors file, but for heads for training."""
    for name, stored in safetensors(file).items():
        if stored.kind in FLOATS and not _NOT_USED.search(name) and np.prod(stored.shape) > 1:
            yield stored.read()


def _tensor_digest(tensor: NDArray[np.float32]) -> bytes:
    """Of a matrix that of the taller of its two orientations, or the lesser digest of both if it is square."""
    ways = [tensor]
    if tensor.ndim == 2 and tensor.shape[0] <= tensor.shape[1]:
        ways = [tensor.T] if tensor.shape[0] < tensor.shape[1] else [tensor, tensor.T]
    return min(hashlib.sha256(np.ascontiguousarray(way).data).digest() for way in ways)


def _files_digest(files: Sequence[Path]) -> str:
    total = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()


# --- which weights a file was exported from ------------------------------------------------------------------
def note_weights(file: Path, digest: str) -> None:
    """Note beside the ONNX file `file` that it was exported from weights of this digest.

    Its own tensors may be more than the weights: positions that were computed while exporting, for instance.
    """
    noted = {"weights": digest, "onnx": _files_digest(_written(file))}
    _note(file).write_text(json.dumps(noted), encoding="utf-8")


def weights_notes(file: Path) -> list[Path]:
    """The note beside the ONNX file `file`, if there is one."""
    return [_note(file)] if _note(file).is_file() else []


def _noted_weights(file: Path) -> str | None:
    noted = _read_note(_note(file)) if file.suffix == ".onnx" else {}
    # Of this very file: somebody may have put another in its place.
    is_of_it = noted.get("weights") and noted.get("onnx") == _files_digest(_written(file))
    return str(noted["weights"]) if is_of_it else None


def _written(file: Path) -> list[Path]:
    """The ONNX file `file`, and what of its weights `write_onnx` put beside it."""
    return [file, *file.parent.glob(f"{file.name}_data")]


def _note(file: Path) -> Path:
    return file.with_name(f"{file.name}.json")


# --- noting what was read ------------------------------------------------------------------------------------
def _with_what_lies_beside(files: Sequence[Path]) -> list[Path]:
    """`files`, and with an ONNX file all that lies in its folder: its weights may, under any name."""
    beside = files[0].parent.iterdir() if files[0].suffix == ".onnx" else ()
    return [*files, *sorted(file for file in beside if file.is_file())]


def _stamped(
    compute: Callable[[Sequence[Path]], str], seen_files: Sequence[Path], files: Sequence[Path], stamps: Path
) -> str:
    """`compute(files)`, noted under names, sizes and times of change of `seen_files`, so that it is done once."""
    seen = [[str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns] for file in seen_files]
    key = json.dumps([compute.__name__, seen])
    note = stamps / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    noted = _read_note(note)
    if noted.get("files") == seen and isinstance(noted.get("digest"), str):
        return str(noted["digest"])
    digest = compute(files)
    # Only a saving of time: where it cannot be noted, it is computed again.
    with contextlib.suppress(OSError):
        stamps.mkdir(parents=True, exist_ok=True)
        draft = note.with_name(f"{note.name}.{os.getpid()}.{uuid4().hex}")
        draft.write_text(json.dumps({"files": seen, "digest": digest}), encoding="utf-8")
        draft.replace(note)
    return digest


def _read_note(note: Path) -> dict[str, Any]:
    try:
        content = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # none yet, or one that was cut off
        return {}
    return content if isinstance(content, dict) else {}
