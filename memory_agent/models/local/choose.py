"""Which model runs a local embedding model: the folder, the ONNX file or torch, and the reason. Loads nothing."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import platformdirs

from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.models.local.export import cached_file, export_weights, quantize_weights, why_no_export
from memory_agent.models.local.find import fetch_onnx, find_model, not_found, torch_installed
from memory_agent.models.local.fingerprint import model_fingerprint
from memory_agent.models.local.folder import onnx_file, read_encoding, tokenizer_file, weight_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from memory_agent.models.local.fingerprint import Precision

log = logging.getLogger(__name__)

Backend = Literal["onnx", "torch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the settings ask for."""

    model: str
    """A folder, or a name (see `find_model`)."""
    backend: Literal["auto", "onnx", "torch"] = "auto"
    precision: Precision = "fp32"
    cache: Path = field(default_factory=lambda: platformdirs.user_cache_path("memory-agent"))
    """Where files made here are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What serves."""

    folder: Path
    backend: Backend
    precision: Precision
    fingerprint: str
    why: str
    file: Path | None
    """The ONNX file that is loaded; it may still have to be made. None with torch."""
    source: Path | None
    """The fp32 ONNX file, in the model's folder or the cache; it may still have to be exported. None with torch."""

    @property
    def ready(self) -> bool:
        """Whether nothing must be made first."""
        return self.file is None or self.file.is_file()


def choose(wanted: Wanted) -> Choice:
    """Find the model and decide what runs it. Blocking: may download, reads the weights once; makes nothing.

    `auto` takes ONNX where it can be had: the file in the model's folder, one exported before, an export by torch,
    the hub's file; else torch. Raises ModelNotFound or UnsupportedModel.
    """
    if wanted.backend == "torch":
        return _with_torch(wanted, "embedding_backend=torch")
    folder = find_model(wanted.model)
    try:
        return _with_onnx(wanted, folder)
    except EmbedderError as exc:
        if wanted.backend == "onnx" or wanted.precision == "int8" or not torch_installed():
            raise
        choice = _with_torch(wanted, str(exc))
        log.warning("embedding by torch, which is slower: %s", exc)
        return choice


def prepare(choice: Choice, wanted: Wanted, *, progress: Callable[[str], None]) -> Choice:
    """Make the files that `choice` lacks and return what to load. Blocking: seconds, once per model.

    With `auto` torch serves where the export fails. Raises EmbedderError, or EmbedderUnavailable if a file cannot be
    kept.
    """
    if choice.file is None or choice.source is None or choice.ready:
        return choice
    try:
        if not choice.source.is_file():
            export_weights(choice.folder, choice.source, progress=progress)
    except (EmbedderError, EmbedderUnavailable) as exc:
        if wanted.backend == "onnx" or wanted.precision == "int8":
            raise
        log.warning("embedding by torch, which is slower: %s", exc)
        return _with_torch(wanted, str(exc))
    if choice.precision == "int8":
        quantize_weights(choice.folder, choice.source, choice.file, progress=progress)
    return choice


def _with_onnx(wanted: Wanted, folder: Path) -> Choice:
    read_encoding(folder)
    tokenizer_file(folder)
    no_export = why_no_export()
    own, weights = _files(wanted, folder, may_export=no_export is None)
    fp32 = _fingerprint(wanted, folder, weights, "fp32")
    source = own or cached_file(wanted.cache, fp32, "fp32")
    if own is not None:
        why = "the ONNX file in the model's folder"
    elif source.is_file():
        why = "exported from the weights before"
    elif no_export is None:
        why = "to be exported from the weights, once"
    else:
        fetched = fetch_onnx(wanted.model)
        if isinstance(fetched, str):
            raise not_found(wanted.model, f"{folder} has no ONNX file; {no_export}; {fetched}")
        # Another folder, perhaps of another revision: everything is told from it.
        return _with_onnx(wanted, fetched)
    int8 = wanted.precision == "int8"
    return Choice(
        folder=folder,
        backend="onnx",
        precision=wanted.precision,
        fingerprint=_fingerprint(wanted, folder, weights, wanted.precision),
        why=why,
        file=cached_file(wanted.cache, fp32, "int8") if int8 else source,
        source=source,
    )


def _with_torch(wanted: Wanted, why: str) -> Choice:
    folder = find_model(wanted.model, weights=True)
    return Choice(
        folder=folder,
        backend="torch",
        precision="fp32",
        fingerprint=_fingerprint(wanted, folder, weight_files(folder), "fp32"),
        why=why,
        file=None,
        source=None,
    )


def _files(wanted: Wanted, folder: Path, *, may_export: bool) -> tuple[Path | None, list[Path]]:
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
    log.warning(
        "%s is not of the weights beside it, but serves: there is no torch to run or export those", own
    )
    return own, [own]


def _fingerprint(wanted: Wanted, folder: Path, weights: Sequence[Path], precision: Precision) -> str:
    return model_fingerprint(folder, weights, precision=precision, stamps=_stamps(wanted))


def _stamps(wanted: Wanted) -> Path:
    return wanted.cache / "fingerprints"
