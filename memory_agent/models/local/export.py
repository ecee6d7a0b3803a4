"""ONNX files made on this machine, once per model: exported from its weights, or made int8 from the fp32 file.

They are kept in a cache folder under the model's fingerprint, so that the same weights found elsewhere need no other.
A file appears there whole or not at all, also when several processes make it at once.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np

from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.models.local.find import torch_installed
from memory_agent.models.local.fingerprint import INT8_RECIPE, data_files
from memory_agent.models.local.folder import module_folder
from memory_agent.models.local.onnx import OnnxModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from memory_agent.models.local.choose import Choice

    Progress = Callable[[str], None]

log = logging.getLogger(__name__)

EXPORT_RECIPE: Final = 1
"""Raised when exporting changes so that older files should not be used any more."""

FILE_NAME: Final = "model.onnx"

LEAST_EQUAL: Final = 0.9999
"""Cosine of a vector by the exported file with sentence-transformers' own, at least."""

LEAST_LIKE: Final = 0.9
"""Cosine of an int8 vector with the fp32 one, at least; below, the model does not bear it and must stay fp32."""

SAMPLES: Final = (
    "",
    "ok",
    "Where did I leave the bicycle?",
    "I moved to Lisbon in March, and the flat has a view of the river.",
    "저는 서울에 살고 있고, 주말마다 산에 올라가요.",
    "Mañana tengo cita con el médico a las 9:30. ¿Puedes recordármelo?",
    "def add(a: int, b: int) -> int:\n    return a + b  # wraps never",
    "👍🏽 !!! https://example.org/a?b=c&d=1",
    "The quarterly report is due on Friday, and nobody has started on it yet. " * 12,
    "One sentence follows another until no model reads any further than this. " * 60,
)
"""Texts by which a new file is checked: of every length, alone and in a batch, in several scripts."""

SETTINGS_SUFFIXES: Final = (".json", ".txt", ".model")

_DONE: Final = "done"


def cached_file(cache: Path, fingerprint: str, precision: str) -> Path:
    """Where the ONNX file of the model with this fp32 fingerprint is kept, whether it is there or not."""
    recipe = EXPORT_RECIPE if precision == "fp32" else INT8_RECIPE
    return cache / "onnx" / fingerprint / f"{precision}-{recipe}" / FILE_NAME


def why_no_export() -> str | None:
    """What keeps this machine from exporting weights; None if nothing does. Nothing is imported to tell."""
    if not torch_installed():
        return "torch with sentence-transformers is not installed (`pip install memory-agent[local]`)"
    if importlib.util.find_spec("onnxscript") is None:
        return "onnxscript is not installed (`pip install memory-agent[local]`)"
    return None


def export_weights(folder: Path, target: Path, *, progress: Progress) -> None:
    """Export the weights in `folder` as the ONNX file `target`, unless it is there. Blocking; about 15 s for MiniLM.

    Torch does it in a process of its own, so that it is out of this one's memory afterwards and holds up nothing
    meanwhile. Raises EmbedderError if it fails, or if the file doesn't give sentence-transformers' vectors.
    """
    with _making(target, progress) as draft:
        if draft is None:
            return
        started = time.perf_counter()
        log.info("exporting the model in %s to ONNX; this is done once", folder)
        done = _run("export", folder, draft, progress)
        progress("checking the file against sentence-transformers")
        cosine = _check_equal(folder, draft, np.asarray(done["vectors"], dtype=np.float32))
        log.info("exported in %.1f s (least cosine %.6f)", time.perf_counter() - started, cosine)


def quantize_weights(folder: Path, source: Path, target: Path, *, progress: Progress) -> None:
    """Make the int8 file `target` of the fp32 ONNX file `source`, unless it is there. About 3 s for MiniLM.

    Raises EmbedderError if it fails, or if the model's vectors change too much by it.
    """
    with _making(target, progress) as draft:
        if draft is None:
            return
        _run("quantize", source, draft, progress)
        progress("checking the int8 weights against fp32")
        wanted = OnnxModel(folder, source).encode(SAMPLES)
        cosine = least_cosine(OnnxModel(folder, draft, one_by_one=True).encode(SAMPLES), wanted)
        if not cosine >= LEAST_LIKE:
            raise EmbedderError(
                f"int8 changes the vectors of the model in {folder} too much (cosine with fp32 {cosine:.3f}, at least"
                f" {LEAST_LIKE} is asked for); set embedding_precision=fp32"
            )
        log.info("made int8 (least cosine with fp32 %.4f)", cosine)


def remove_cached(cache: Path, file: Path | None) -> None:
    """Delete the ONNX file `file` if it is one of those made here, so that it is made again."""
    if file is not None and file.is_relative_to(cache):
        shutil.rmtree(file.parent, ignore_errors=True)


def write_folder(choice: Choice, target: Path) -> None:
    """A copy of the chosen model as the folder `target`: its settings and its fp32 ONNX file, without the weights.

    Raises EmbedderError if it cannot be written; then there is no `target`.
    """
    draft = target.with_name(f"{target.name}.draft-{uuid4().hex}")
    try:
        if choice.source is None:
            raise EmbedderError(f"{choice.folder} is run by torch; there is no ONNX file to write")
        for file in sorted(choice.folder.rglob("*")):
            # Not the settings beside files of other frameworks, in folders of their names.
            name = file.relative_to(choice.folder)
            if file.suffix in SETTINGS_SUFFIXES and name.parts[0] not in ("onnx", "openvino"):
                (draft / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, draft / name)
        place = draft / module_folder(choice.folder, "Transformer").relative_to(choice.folder) / "onnx"
        place.mkdir(parents=True)
        for file in (choice.source, *data_files(choice.source)):
            shutil.copyfile(file, place / (FILE_NAME if file == choice.source else file.name))
        if target.is_dir():
            target.rmdir()  # empty, as the caller made sure
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


# --- one writer, whole files ---------------------------------------------------------------------------------
@contextlib.contextmanager
def _making(target: Path, progress: Progress) -> Iterator[Path | None]:
    """A file to write instead of `target`, which takes its place when the block ends well; None if it is there.

    A folder is moved rather than a file: weights of more than 2 GB lie beside the graph, in a file of their own.
    """
    from filelock import FileLock, Timeout

    place = target.parent
    lock = FileLock(place.with_name(f"{place.name}.lock"))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress("waiting for another process that makes the same file")
            lock.acquire()
    except OSError as exc:
        raise _unwritable(place, exc) from exc
    try:
        if target.is_file():
            yield None
            return
        # Whoever left these was killed: the lock is ours.
        for left in place.parent.glob(f"{place.name}.draft-*"):
            shutil.rmtree(left, ignore_errors=True)
        draft = place.with_name(f"{place.name}.draft-{uuid4().hex}")
        try:
            draft.mkdir()
            yield draft / target.name
            _flush(draft)
            shutil.rmtree(place, ignore_errors=True)  # an incomplete folder, without its main file
            draft.replace(place)
        except OSError as exc:
            raise _unwritable(place, exc) from exc
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    finally:
        lock.release()


def _flush(folder: Path) -> None:
    """To the disk before the folder gets its name: a name must not outlive what it stands for in a power cut."""
    for file in folder.iterdir():
        with file.open("rb+") as stream:
            os.fsync(stream.fileno())


def _unwritable(place: Path, exc: OSError) -> EmbedderUnavailable:
    # Worth another try: a full disk, or rights that somebody mends.
    return EmbedderUnavailable(
        f"the ONNX file cannot be kept in {place}: {exc}; set model_cache_dir to a folder that can be written and"
        " has room for it, or embedding_backend=torch"
    )


# --- the process that does it --------------------------------------------------------------------------------
def _run(what: str, source: Path, draft: Path, progress: Progress) -> dict[str, Any]:
    """Run `export_process` and return its last report. Raises EmbedderError with its last words if it fails."""
    command = [
        sys.executable,
        "-m",
        "memory_agent.models.local.export_process",
        what,
        str(source),
        str(draft),
    ]
    last: dict[str, Any] = {}
    with tempfile.TemporaryFile() as said:
        # stdin is closed: whatever asks for an answer there must not wait for one.
        with subprocess.Popen(  # noqa: S603  (this interpreter, a module of ours and two paths)
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said
        ) as process:
            assert process.stdout is not None  # noqa: S101  (asked for above)
            for line in process.stdout:
                last = _event(line) or last
                if last.get("stage") != _DONE:
                    progress(str(last.get("stage")))
        said.seek(0)
        words = said.read().decode(errors="replace").strip()
    if process.returncode or last.get("stage") != _DONE:
        log.debug("the words of %s:\n%s", " ".join(command), words)
        why = words.splitlines()[-1] if words else f"exit code {process.returncode}"
        raise EmbedderError(f"{what} of {source} to ONNX failed: {why}")
    return last


def _check_equal(folder: Path, file: Path, wanted: NDArray[np.float32]) -> float:
    """The least cosine with sentence-transformers' vectors, texts in a batch and alone. Raises if it is too small."""
    model = OnnxModel(folder, file)
    alone = np.concatenate([model.encode([text]) for text in SAMPLES])
    cosine = min(least_cosine(model.encode(SAMPLES), wanted), least_cosine(alone, wanted))
    if not cosine >= LEAST_EQUAL:
        raise EmbedderError(
            f"the model in {folder} gives other vectors by ONNX (cosine {cosine:.5f}); set embedding_backend=torch"
        )
    return cosine


def _event(line: bytes) -> dict[str, Any]:
    """A line of the export's report; what else is printed there by a library is passed over."""
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) and "stage" in event else {}
