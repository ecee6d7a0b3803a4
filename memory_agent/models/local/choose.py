"""The backend for a local embedding model: the file that runs, made here if need be, and why that one.

Encoders of BERT's family are written, without torch; what else there is, torch runs where it is installed.
Files are kept in a cache folder under the model's fingerprint, so that the same weights found elsewhere need no other.

safetensors and ONNX files name their tensors differently and exporters transpose matrices, so a tensor's digest is
that of its float32 values in one of its two orientations, and a model's is that of the set of its tensors' digests.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import uuid4

import numpy as np
import platformdirs

from memory_agent.errors import EmbedderError, EmbedderUnavailable, ModelNotFound, UnsupportedModel
from memory_agent.models.local import folder as model_folder
from memory_agent.models.local.atomic_build import MakingStopped, run_child, whole_folder
from memory_agent.models.local.find import fetch_onnx, find_model, not_found, torch_installed
from memory_agent.models.local.folder import (
    SAMPLES,
    module_folder,
    onnx_file,
    read_encoding,
    refuse_foreign_code,
    tokenizer_file,
    weight_files,
)
from memory_agent.models.local.graph import open_encoder, write_onnx
from memory_agent.models.local.onnx import OnnxModel
from memory_agent.models.local.tensors import FLOATS, data_files, onnx_tensors, safetensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from memory_agent.models.local.atomic_build import Making


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


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoiceRequest:
    """The model that the settings ask for, a folder or a name (see `find_model`); files made here are kept in `cache`."""

    model: str
    backend: Literal["auto", "onnx", "torch"] = "auto"
    precision: Precision = "fp32"
    cache: Path = field(default_factory=lambda: platformdirs.user_cache_path("memory-agent"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The model that was found, and how it runs.

    `file`: the ONNX file that is loaded. `source`: the fp32 one, in the model's folder or the cache. Either may still have to be
    made, and is None with torch.
    """

    folder: Path
    backend: Literal["onnx", "torch"]
    precision: Precision
    fingerprint: str
    why: str
    file: Path | None = None
    source: Path | None = None

    @property
    def ready(self) -> bool:
        """True if nothing must be made first."""
        return self.file is None or self.file.is_file()


def choose(wanted: ModelChoiceRequest) -> Choice:
    """Find the model and decide what runs it. Blocking: may download, reads the weights once; makes nothing.

    `auto` takes ONNX where it can be had: the file in the model's folder, one made before, one to be made of the weights,
    the hub's file; else torch. Raises ModelNotFound or UnsupportedModel.
    """
    if wanted.backend == "torch":
        if wanted.precision != "fp32":
            raise EmbedderError(f"torch runs no {wanted.precision}; choose fp32, or ONNX")
        return _with_torch(wanted, "embedding_backend=torch")
    folder = find_model(wanted.model)
    try:
        return _with_onnx(wanted, folder)
    except (EmbedderError, ModelNotFound) as exc:
        return _instead(wanted, exc)


def prepare(choice: Choice, wanted: ModelChoiceRequest, making: Making) -> Choice:
    """Make the files that `choice` lacks and return what to load. Blocking: seconds, once per model.

    With `auto` torch serves where that fails. Raises EmbedderError, or EmbedderUnavailable if a file cannot be kept
    or making it was stopped.
    """
    if choice.file is None or choice.source is None or (choice.ready and not making.again):
        return choice
    try:
        if made_here(choice.source, wanted):
            # What is to be made again is the file of this choice: int8 is made of the fp32 file that is there.
            of_source = making if choice.precision == "fp32" else replace(making, again=False)
            export_weights(choice.folder, choice.source, of_source)
        if choice.precision == "int8":
            quantize_weights(choice.folder, choice.source, choice.file, making)
    except MakingStopped:
        raise
    except (EmbedderError, EmbedderUnavailable) as exc:
        return _instead(wanted, exc)
    return choice


def mend(choice: Choice, wanted: ModelChoiceRequest, error: EmbedderError, making: Making) -> Choice:
    """The fallback where the file of `choice` cannot be loaded: the same made again if it is of ours, or torch with `auto`.

    Raises `error` if there is neither.
    """
    if choice.file is not None and made_here(choice.file, wanted):
        log.warning("%s; it is made again", error)
        return prepare(choice, wanted, replace(making, again=True))
    return _instead(wanted, error)


def made_here(file: Path, wanted: ModelChoiceRequest) -> bool:
    """True if `file` is, or will be, one of those made by this package, and may be made again."""
    return file.parent.parent.parent == wanted.cache / "onnx"


def _instead(wanted: ModelChoiceRequest, error: EmbedderError | EmbedderUnavailable) -> Choice:
    if wanted.backend != "auto" or wanted.precision != "fp32" or not torch_installed():
        raise error
    choice = _with_torch(wanted, str(error))
    log.warning("embedding by torch, which is slower: %s", error)
    return choice


def _with_onnx(wanted: ModelChoiceRequest, folder: Path) -> Choice:
    read_encoding(folder)
    tokenizer_file(folder)
    no_export = why_no_export(folder)
    own, weights = _files(wanted, folder, may_export=no_export is None)
    fp32 = _fingerprint(wanted, folder, weights, "fp32")
    source = own or cached_file(wanted.cache, fp32, "fp32")
    if own is None and no_export is not None and not source.is_file():
        fetched = fetch_onnx(wanted.model)
        if isinstance(fetched, str):
            raise not_found(wanted.model, f"{folder} has no ONNX file; {no_export}; {fetched}")
        # Another folder, perhaps of another revision: everything is told from it.
        return _with_onnx(wanted, fetched)
    made = "made of the weights before" if source.is_file() else "to be made of the weights, once"
    return Choice(
        folder=folder,
        backend="onnx",
        precision=wanted.precision,
        fingerprint=_fingerprint(wanted, folder, weights, wanted.precision),
        why="the ONNX file in the model's folder" if own else made,
        file=cached_file(wanted.cache, fp32, "int8") if wanted.precision == "int8" else source,
        source=source,
    )


def _with_torch(wanted: ModelChoiceRequest, why: str) -> Choice:
    folder = find_model(wanted.model, weights=True)
    refuse_foreign_code(folder)
    tokenizer_file(folder)  # texts are cut by it
    return Choice(
        folder=folder,
        backend="torch",
        precision="fp32",
        fingerprint=_fingerprint(wanted, folder, weight_files(folder), "fp32"),
        why=why,
    )


def _files(wanted: ModelChoiceRequest, folder: Path, *, may_export: bool) -> tuple[Path | None, list[Path]]:
    """The folder's ONNX file, if it is the one to use, and the files that say which model it is."""
    own, weights = onnx_file(folder), weight_files(folder)
    if own is None:
        return None, weights
    if not weights or weights[0].suffix == ".bin":
        return own, [own]
    of_weights = _fingerprint(wanted, folder, weights, "fp32")
    if _fingerprint(wanted, folder, [own], "fp32") == of_weights:
        return own, weights
    # The weights may have been trained on since the file was made.
    if may_export or cached_file(wanted.cache, of_weights, "fp32").is_file():
        log.warning("%s is not of the weights beside it, and is passed over", own)
        return None, weights
    why = "no ONNX file can be made of those"
    log.warning("%s is not of the weights beside it, but serves: %s", own, why)
    return own, [own]


def _fingerprint(
    wanted: ModelChoiceRequest, folder: Path, weights: Sequence[Path], precision: Precision
) -> str:
    return model_fingerprint(folder, weights, precision=precision, stamps=wanted.cache / "fingerprints")


EXPORT_RECIPE: Final = 2
"""Raised when exporting changes so that older files should not be used any more."""

LEAST_EQUAL: Final = 0.9999
"""Cosine of a text's vector in a batch with its vector alone, at least."""

LEAST_LIKE: Final = 0.9
"""Cosine of an int8 vector with the fp32 one, at least; below, the model does not bear it and must stay fp32."""

PROCESS: Final = "memory_agent.models.local.quantize_process"


def cached_file(cache: Path, fingerprint: str, precision: str) -> Path:
    """Path of the ONNX file of the model with this fp32 fingerprint, whether it exists or not."""
    recipe = EXPORT_RECIPE if precision == "fp32" else INT8_RECIPE
    return cache / "onnx" / fingerprint / f"{precision}-{recipe}" / "model.onnx"


def why_no_export(folder: Path) -> str | None:
    """The obstacle to making an ONNX file of the weights in `folder`; None if there is none. No weight is read."""
    try:
        open_encoder(folder)
    except UnsupportedModel as exc:
        return f"no ONNX file can be made of its weights, for {exc}"
    return None


def export_weights(folder: Path, target: Path, making: Making) -> None:
    """Make the ONNX file `target` of the weights in `folder`, unless it is there. Blocking; 2 s for MiniLM.

    Raises EmbedderError if it fails, or if the file doesn't give the vectors that it should; EmbedderUnavailable if it
    cannot be kept or was stopped.
    """
    with whole_folder(target, making) as draft:
        if draft is None:
            return
        encoder = open_encoder(folder)
        making.progress("writing the ONNX file from the weights")
        write_onnx(encoder, draft)
        if making.stop.is_set():
            raise MakingStopped(f"making {target} was ended before it was done")
        making.progress("checking the file")
        log.debug("made %s (least cosine %.6f)", target, check_file(folder, draft))
        note_weights(draft, weights_digest(weight_files(folder)))
    for number in range(1, EXPORT_RECIPE):  # what an earlier release made, 90 MB of MiniLM
        shutil.rmtree(target.parent.with_name(f"fp32-{number}"), ignore_errors=True)


def quantize_weights(folder: Path, source: Path, target: Path, making: Making) -> None:
    """Make the int8 file `target` of the fp32 ONNX file `source`, unless it is there. About 3 s for MiniLM.

    Raises EmbedderError if it fails, or if the model's vectors change too much by it; EmbedderUnavailable if it
    cannot be kept or was stopped.
    """
    with whole_folder(target, making) as draft:
        if draft is None:
            return
        run_child(PROCESS, source, draft, making)
        making.progress("checking the int8 weights against fp32")
        wanted = OnnxModel(folder, source).encode(SAMPLES)
        cosine = least_cosine(OnnxModel(folder, draft, one_by_one=True).encode(SAMPLES), wanted)
        if not cosine >= LEAST_LIKE:
            asked = f"cosine with fp32 {cosine:.3f}, at least {LEAST_LIKE} is asked for"
            changed = f"int8 changes the vectors of the model in {folder} too much"
            raise EmbedderError(f"{changed} ({asked}); set embedding_precision=fp32")
        log.info("made int8 (least cosine with fp32 %.4f)", cosine)


def write_folder(choice: Choice, target: Path) -> None:
    """A copy of the chosen model as the folder `target`: its settings and its fp32 ONNX file, without the weights.

    `target` is new or empty. Raises EmbedderError if it cannot be written.
    """
    target = target.resolve()
    draft = target.with_name(f"{target.name}.draft-{uuid4().hex}")
    try:
        if choice.source is None:
            raise EmbedderError(f"{choice.folder} is run by torch; there is no ONNX file to write")
        for file in sorted(choice.folder.rglob("*")):
            # Not the settings beside files of other frameworks, in folders of their names.
            name = file.relative_to(choice.folder)
            if file.suffix in (".json", ".txt", ".model") and name.parts[0] not in ("onnx", "openvino"):
                (draft / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, draft / name)
        place = draft / module_folder(choice.folder, "Transformer").relative_to(choice.folder) / "onnx"
        place.mkdir(parents=True)
        for file in (choice.source, *data_files(choice.source), *weights_notes(choice.source)):
            shutil.copyfile(file, place / file.name)
        if target.is_dir():  # empty, as the caller made sure; somebody may stand in it
            for part in draft.iterdir():
                part.replace(target / part.name)
        else:
            draft.replace(target)
    except OSError as exc:
        raise EmbedderError(f"the model folder {target} cannot be written: {exc}") from exc
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def least_cosine(some: NDArray[np.float32], others: NDArray[np.float32]) -> float:
    """The smallest cosine of two rows of the same number."""
    a, b = some.astype(np.float64), others.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(((a * b).sum(axis=1) / lengths).min())


def check_file(folder: Path, file: Path) -> float:
    """The least cosine of the samples in a batch with themselves alone.

    Raises EmbedderError if it is too small: then padding makes a difference.
    """
    model = OnnxModel(folder, file)
    alone = np.concatenate([model.encode([text]) for text in SAMPLES])
    cosine = least_cosine(model.encode(SAMPLES), alone)
    if not cosine >= LEAST_EQUAL:
        found = f"gives other vectors for texts in a batch (cosine {cosine:.5f})"
        raise EmbedderError(f"the ONNX file of the model in {folder} {found}; replace the model")
    return cosine
