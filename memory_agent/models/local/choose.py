"""Choice of the backend for a local embedding model: the folder, the ONNX file or torch, and the reason. Loads nothing."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import platformdirs

from memory_agent.errors import EmbedderError, EmbedderUnavailable, ModelNotFound
from memory_agent.models.local.atomic_build import MakingStopped
from memory_agent.models.local.export import cached_file, export_weights, quantize_weights, why_no_export
from memory_agent.models.local.find import fetch_onnx, find_model, not_found, torch_installed
from memory_agent.models.local.fingerprint import model_fingerprint
from memory_agent.models.local.folder import (
    onnx_file,
    read_encoding,
    refuse_foreign_code,
    tokenizer_file,
    weight_files,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from memory_agent.models.local.atomic_build import Making
    from memory_agent.models.local.fingerprint import Precision

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
