"""ONNX files made on this machine, once per model: written from its weights, or made int8.

Encoders of BERT's family are written, without torch; what else there is, torch runs where it is installed.
Files are kept in a cache folder under the model's fingerprint, so that the same weights found elsewhere need no other.
"""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import numpy as np

from memory_agent.errors import EmbedderError, UnsupportedModel
from memory_agent.models.local.atomic_build import MakingStopped, run_child, whole_folder
from memory_agent.models.local.fingerprint import INT8_RECIPE, note_weights, weights_digest, weights_notes
from memory_agent.models.local.folder import SAMPLES, module_folder, weight_files
from memory_agent.models.local.graph import open_encoder, write_onnx
from memory_agent.models.local.onnx import OnnxModel
from memory_agent.models.local.tensors import data_files

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from memory_agent.models.local.atomic_build import Making
    from memory_agent.models.local.choose import Choice

log = logging.getLogger(__name__)

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
