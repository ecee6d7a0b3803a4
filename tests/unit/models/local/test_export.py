"""ONNX files made here: once, whole, and equal to what they are made of."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest
from filelock import FileLock
from onnx import numpy_helper

from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.models.local.atomic_build import Making, MakingStopped
from memory_agent.models.local.choose import (
    LEAST_LIKE,
    ModelChoiceRequest,
    cached_file,
    check_file,
    choose,
    export_weights,
    least_cosine,
    note_weights,
    quantize_weights,
    weights_digest,
    weights_notes,
    write_folder,
)
from memory_agent.models.local.folder import SAMPLES
from memory_agent.models.local.onnx import OnnxModel
from tests.unit.models.local.conftest import ROOT, TORCH, Elsewhere, linked


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def quietly(*, again: bool = False) -> Making:
    return Making(progress=lambda _: None, again=again)


# --- writing
def test_a_file_is_written_from_the_weights_without_torch(
    tiny: Path, tiny_onnx: Path, tmp_path: Path, elsewhere: Elsewhere
) -> None:
    """It could not be imported here; each stage is told. A second call makes nothing."""
    target = tmp_path / "f" / "model.onnx"
    ask = f"""
from pathlib import Path
from memory_agent.models.local.choose import export_weights
from memory_agent.models.local.atomic_build import Making
export_weights(Path({str(tiny)!r}), Path({str(target)!r}), Making(progress=print))
"""
    said, error, _ = elsewhere.run(ask, tmp_path, without=TORCH)
    assert (said, error) == (["writing the ONNX file from the weights", "checking the file"], "")
    assert names(tmp_path / "f") == ["model.onnx", "model.onnx.json"]
    before = tiny_onnx.stat()
    export_weights(tiny, tiny_onnx, Making(progress=pytest.fail))
    after = tiny_onnx.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_file_that_gives_other_vectors_is_refused(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    assert check_file(tiny, tiny_onnx) >= 0.9999
    model = onnx.load(str(tiny_onnx))
    (lowest,) = (tensor for tensor in model.graph.initializer if tensor.name == "lowest")
    lowest.CopyFrom(numpy_helper.from_array(np.zeros((), dtype=np.float32), lowest.name))
    onnx.save(model, str(tmp_path / "careless.onnx"))
    with pytest.raises(EmbedderError, match=r"gives other vectors for texts in a batch \(cosine 0\.\d+\)"):
        check_file(tiny, tmp_path / "careless.onnx")


def test_weights_that_cannot_be_read_and_places_that_cannot_be_written_are_told(
    tiny: Path, tmp_path: Path
) -> None:
    """Which tensor of which model, and no file is left; or which setting names another folder."""
    folder = linked(tiny, tmp_path / "model", weights=False)
    (folder / "model.safetensors").write_bytes((tiny / "model.safetensors").read_bytes()[:100_000])
    target = cached_file(tmp_path / "cache", "abc", "fp32")
    with pytest.raises(EmbedderError, match=f"of the model in {folder} cannot be read"):
        export_weights(folder, target, quietly())
    assert names(target.parent.parent) == ["fp32-2.lock"]
    (tmp_path / "file").write_text("no folder")
    target = cached_file(tmp_path / "file" / "cache", "abc", "fp32")
    with pytest.raises(EmbedderUnavailable) as caught:
        export_weights(tiny, target, Making(progress=pytest.fail))
    assert str(target.parent) in str(caught.value)
    assert "set model_cache_dir to a folder that can be written" in str(caught.value)


QUANTIZE = """
from pathlib import Path
from memory_agent.models.local.choose import quantize_weights
from memory_agent.models.local.atomic_build import Making
tell = lambda stage: print(stage, flush=True)
quantize_weights(Path({folder!r}), Path({source!r}), Path({target!r}), Making(progress=tell))
"""


def start_quantizing(folder: Path, source: Path, target: Path, place: Path) -> subprocess.Popen[str]:
    code = QUANTIZE.format(folder=str(folder), source=str(source), target=str(target))
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def test_a_killed_process_leaves_nothing_behind(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """After a kill in the middle there is no file; the next call clears away what is left and makes one.

    Whatever lies where the service was started is not imported by the process that makes files.
    """
    (tmp_path / "random.py").write_text("raise SystemExit('random.py of the user ran')")
    target = cached_file(tmp_path, "abc", "int8")
    process = start_quantizing(tiny, tiny_onnx, target, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "making the weights int8"
    (maker,) = psutil.Process(process.pid).children()
    (draft,) = target.parent.parent.glob("int8-1.draft-*")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not target.exists()
    process = start_quantizing(tiny, tiny_onnx, target, tmp_path)
    said, errors = process.communicate(timeout=120)
    assert said.splitlines()[0] == "making the weights int8", errors
    assert not draft.exists()
    maker.wait(30)  # what the killed process had started ends by itself
    assert names(target.parent.parent) == ["int8-1", "int8-1.lock"]
    assert names(target.parent) == ["model.onnx"]


# --- int8
@pytest.mark.nightly  # it takes 130 MB for a moment; whoever makes such a file compares it with the model's own by itself
def test_an_int8_file_gives_nearly_the_same_vectors(packaged: Path, exported: Path, int8: Path) -> None:
    small, large = (sum(part.stat().st_size for part in file.parent.iterdir()) for file in (int8, exported))
    assert small < 0.5 * large
    vectors = OnnxModel(packaged, int8, one_by_one=True).encode(SAMPLES)
    assert 0.97 < least_cosine(vectors, OnnxModel(packaged, exported).encode(SAMPLES)) < 0.99999


def test_an_int8_file_is_made_once_and_whole(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """Of links to a graph and its weights, as the hub's cache keeps them; what is left half deleted is replaced.

    Made again, it stays as it was until the new one is done; test_embedder.py makes a corrupt one again.
    """
    blobs, place = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    place.mkdir()
    apart = {"save_as_external_data": True, "location": "model.onnx_data", "size_threshold": 1_024}
    onnx.save(onnx.load(str(tiny_onnx)), str(blobs / "model.onnx"), **apart)  # type: ignore[arg-type]
    for i, name in enumerate(("model.onnx", "model.onnx_data")):
        (blobs / name).rename(blobs / f"blob{i}")
        (place / name).symlink_to(blobs / f"blob{i}")
    target = cached_file(tmp_path / "cache", "abc", "int8")
    for left in (target.with_name("model.onnx_data"), target.parent.parent / "int8-1.draft-old" / "half"):
        left.parent.mkdir(parents=True)
        left.write_text("left over")
    stages: list[str] = []
    quantize_weights(tiny, place / "model.onnx", target, Making(progress=stages.append))
    assert stages == ["making the weights int8", "checking the int8 weights against fp32"]
    assert names(target.parent) == ["model.onnx"]
    assert names(target.parent.parent) == ["int8-1", "int8-1.lock"]
    assert OnnxModel(tiny, target, one_by_one=True).encode(["hello"]).shape == (1, 32)
    quantize_weights(tiny, tiny_onnx, target, Making(progress=pytest.fail))
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no protobuf at all")
    target.write_bytes(b"before")
    with pytest.raises(EmbedderError, match=rf"the int8 file of {broken} cannot be made: \S+"):
        quantize_weights(tiny, broken, target, quietly(again=True))
    assert target.read_bytes() == b"before"


def test_a_model_that_does_not_bear_int8_is_refused(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """Where the vectors change too much, no file is kept and the error says which setting to take."""
    model = onnx.load(str(tiny_onnx))
    for tensor in model.graph.initializer:
        if tensor.name.endswith("embeddings.LayerNorm.weight"):  # one of its numbers drowns all others
            values = numpy_helper.to_array(tensor).copy()
            values[3] = 1e5
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    onnx.save(model, str(tmp_path / "drowned.onnx"))
    target = cached_file(tmp_path, "abc", "int8")
    with pytest.raises(EmbedderError, match="set embedding_precision=fp32") as caught:
        quantize_weights(tiny, tmp_path / "drowned.onnx", target, quietly())
    assert f"at least {LEAST_LIKE} is asked for" in str(caught.value)
    assert names(target.parent.parent) == ["int8-1.lock"]


# --- copies
def test_a_written_folder_is_the_same_model_without_weights(
    tiny: Path, tiny_cache: Path, tiny_onnx: Path, tmp_path: Path
) -> None:
    """It needs no torch and nothing made, and has the fingerprint of what it was written from: a cache, or its own file."""
    own = linked(tiny, tmp_path / "own")
    shutil.copyfile(tiny_onnx, own / "model.onnx")
    for name, folder, cache in (("copy", tiny, tiny_cache), ("another", own, tmp_path / "cache")):
        choice = choose(ModelChoiceRequest(model=str(folder), cache=cache))
        write_folder(choice, tmp_path / name)
        assert not list((tmp_path / name).rglob("*.safetensors"))
        asked = ModelChoiceRequest(model=str(tmp_path / name), cache=tmp_path / "cache", backend="onnx")
        copied = choose(asked)
        assert copied.file == tmp_path / name / "onnx" / "model.onnx"
        assert copied.fingerprint == choice.fingerprint
    assert not list(tmp_path.glob("*.draft-*"))
    assert (own / "model.onnx").is_file()


def test_what_is_to_stop_is_not_made(tiny: Path, tmp_path: Path) -> None:
    """A file that is given up, and one that another process makes, leave nothing, and are no error of the model's."""
    target = cached_file(tmp_path, "abc", "fp32")
    stages = list[str]()

    def making() -> Making:
        stop = threading.Event()

        def told(stage: str) -> None:
            stages.append(stage)
            stop.set()

        return Making(progress=told, stop=stop)

    with pytest.raises(MakingStopped, match="was ended before it was done"):
        export_weights(tiny, target, making())
    assert names(target.parent.parent) == ["fp32-2.lock"]
    stages.clear()
    with (
        FileLock(target.parent.with_name("fp32-2.lock")),
        pytest.raises(MakingStopped, match="while another"),
    ):
        export_weights(tiny, target, making())
    assert stages == ["waiting for another process that makes the same file"]


def test_the_note_beside_an_exported_file_says_of_which_weights_it_is(
    tiny: Path, tiny_onnx: Path, tmp_path: Path
) -> None:
    """An exported file with more tensors than its weights has their digest all the same; another file has its own."""
    copy = tmp_path / "model.onnx"
    model = onnx.load(str(tiny_onnx))
    model.graph.initializer.append(numpy_helper.from_array(np.arange(8, dtype=np.float32), "inv_freq"))
    onnx.save(model, str(copy))
    assert weights_digest([copy]) != weights_digest([tiny / "model.safetensors"])
    note_weights(copy, weights_digest([tiny / "model.safetensors"]))
    assert weights_digest([copy]) == weights_digest([tiny / "model.safetensors"])
    assert weights_notes(tiny_onnx) == [tiny_onnx.with_name("model.onnx.json")]
    copy.with_name("model.onnx_data").write_bytes(b"other weights beside it")
    assert weights_digest([copy]) != weights_digest([tiny / "model.safetensors"])
    copy.with_name("model.onnx_data").unlink()
    model.graph.doc_string = "another"
    onnx.save(model, str(copy))
    assert weights_digest([copy]) != weights_digest([tiny / "model.safetensors"])
