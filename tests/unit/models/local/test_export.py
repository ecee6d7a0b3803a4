"""ONNX files made here: once, whole, and equal to what they are made of."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import psutil
import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import numpy_helper

from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.installed import how_to_install
from memory_agent.models.local.atomic_build import Making, MakingStopped
from memory_agent.models.local.choose import ModelChoiceRequest, choose, made_here
from memory_agent.models.local.export import (
    LEAST_LIKE,
    cached_file,
    check_batches,
    export_weights,
    least_cosine,
    quantize_weights,
    why_no_export,
    write_folder,
)
from memory_agent.models.local.fingerprint import note_weights, weights_digest, weights_notes
from memory_agent.models.local.onnx import OnnxModel
from memory_agent.models.local.samples import SAMPLES
from memory_agent.models.local.sentence_transformers import TorchModel
from tests.unit.models.local.conftest import WITHOUT_TORCH, linked, python, start_export

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tests.unit.models.local.conftest import Together


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


# --- writing
WRITTEN = ["writing the ONNX file from the weights", "checking the file"]


def test_a_file_is_written_from_the_weights_without_torch(tiny: Path, tmp_path: Path) -> None:
    """It could not be imported here; each stage is told."""
    ask = f"""
import sys
from pathlib import Path
from memory_agent.models.local.export import export_weights
from memory_agent.models.local.atomic_build import Making
export_weights(Path({str(tiny)!r}), Path({str(tmp_path / "f" / "model.onnx")!r}), Making(progress=print))
"""
    done = python(WITHOUT_TORCH + ask, dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == WRITTEN
    assert names(tmp_path / "f") == ["model.onnx", "model.onnx.json"]


def test_what_was_written_is_what_sentence_transformers_gives(tiny: Path, tiny_onnx: Path) -> None:
    """Texts of every kind, by both ways of running."""
    cosine = least_cosine(OnnxModel(tiny, tiny_onnx).encode(SAMPLES), TorchModel(tiny).encode(SAMPLES))
    assert cosine >= 0.99999


def test_a_file_that_reads_padding_is_refused(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """What is written is checked before it is used: here the mask has no weight."""
    assert check_batches(tiny, tiny_onnx) >= 0.9999
    model = onnx.load(str(tiny_onnx))
    (lowest,) = (tensor for tensor in model.graph.initializer if tensor.name == "lowest")
    lowest.CopyFrom(numpy_helper.from_array(np.zeros((), dtype=np.float32), lowest.name))
    onnx.save(model, str(tmp_path / "careless.onnx"))
    with pytest.raises(EmbedderError, match=r"gives other vectors for texts in a batch \(cosine 0\.\d+\)"):
        check_batches(tiny, tmp_path / "careless.onnx")


# --- by torch
def test_two_processes_make_one_file(together: Together, foreign_onnx: Path) -> None:
    """Both succeed, one of them by waiting; nothing but the file and its lock is left, and neither has imported torch.

    Who makes it is told what is going on, from importing torch to checking the file.
    """
    done = together.processes
    assert [process.returncode for process in done] == [0, 0], [process.stderr for process in done]
    waits = "waiting for another process that makes the same file"
    (maker,) = (process for process in done if "exporting to ONNX" in process.stdout)
    (other,) = (process for process in done if waits in process.stdout)
    assert other is not maker
    assert maker.stdout.splitlines() == [
        "importing torch",
        "loading the weights",
        "exporting to ONNX",
        "checking the file against sentence-transformers",
        "torch here: False",
    ]
    assert other.stdout.splitlines()[-1] == "torch here: False"
    assert foreign_onnx.is_relative_to(together.cache)
    assert names(foreign_onnx.parent) == ["model.onnx", "model.onnx.json"]
    assert names(foreign_onnx.parent.parent) == ["fp32-1", "fp32-1.lock"]


def test_an_export_is_done_once(tiny: Path, tiny_onnx: Path) -> None:
    """A second call makes nothing and reports no stage."""
    before = tiny_onnx.stat()
    export_weights(tiny, tiny_onnx, Making(progress=pytest.fail))
    after = tiny_onnx.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_killed_export_leaves_nothing_behind(foreign: Path, foreign_onnx: Path, tmp_path: Path) -> None:
    """After a kill in the middle there is no file; the next call clears away what is left and makes one."""
    target = choose(ModelChoiceRequest(model=str(foreign), backend="onnx", cache=tmp_path)).file
    assert target is not None
    process = start_export(foreign, tmp_path)
    assert process.stdout is not None
    while process.stdout.readline().strip() != "loading the weights":
        assert process.poll() is None
    (exporter,) = psutil.Process(process.pid).children()
    (draft,) = target.parent.parent.glob("fp32-1.draft-*")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not target.exists()
    stages: list[str] = []
    export_weights(foreign, target, Making(progress=stages.append))
    assert stages[0] == "importing torch"
    assert not draft.exists()
    assert names(target.parent.parent) == ["fp32-1", "fp32-1.lock"]
    vectors = OnnxModel(foreign, target).encode(SAMPLES)
    assert least_cosine(vectors, OnnxModel(foreign, foreign_onnx).encode(SAMPLES)) > 0.999999
    exporter.wait(30)  # what the killed process had started ends by itself
    assert names(target.parent) == ["model.onnx", "model.onnx.json"]


def test_a_folder_without_its_file_is_replaced(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """What somebody left half deleted is no file made before."""
    target = cached_file(tmp_path, "abc", "int8")
    target.parent.mkdir(parents=True)
    (target.parent / "model.onnx_data").write_text("left over")
    (target.parent.parent / "int8-1.draft-old").mkdir()
    (target.parent.parent / "int8-1.draft-old" / "model.onnx").write_text("half")
    quantize_weights(tiny, tiny_onnx, target, Making(progress=lambda _: None))
    assert names(target.parent) == ["model.onnx"]
    assert names(target.parent.parent) == ["int8-1", "int8-1.lock"]


def test_a_failed_export_is_told_with_its_last_words(foreign: Path, tmp_path: Path) -> None:
    """Weights that torch can't load: the error has the reason it gave, and no file is left."""
    folder = linked(foreign, tmp_path / "model", weights=False)
    (folder / "model.safetensors").write_bytes((foreign / "model.safetensors").read_bytes()[:100_000])
    target = cached_file(tmp_path / "cache", "abc", "fp32")
    with pytest.raises(EmbedderError) as caught:
        export_weights(folder, target, Making(progress=lambda _: None))
    assert f"export of {folder} to ONNX failed: " in str(caught.value)
    assert "SafetensorError" in str(caught.value)
    assert not target.exists()
    assert names(target.parent.parent) == ["fp32-1.lock"]


def test_weights_that_cannot_be_read_are_told(tiny: Path, tmp_path: Path) -> None:
    """Without torch as well: which tensor of which model, and no file is left."""
    folder = linked(tiny, tmp_path / "model", weights=False)
    (folder / "model.safetensors").write_bytes((tiny / "model.safetensors").read_bytes()[:100_000])
    target = cached_file(tmp_path / "cache", "abc", "fp32")
    with pytest.raises(EmbedderError, match=f"of the model in {folder} cannot be read"):
        export_weights(folder, target, Making(progress=lambda _: None))
    assert names(target.parent.parent) == ["fp32-1.lock"]


def test_a_cache_that_cannot_be_written_is_told(tiny: Path, tmp_path: Path) -> None:
    """The error says which setting names another folder."""
    (tmp_path / "file").write_text("no folder")
    target = cached_file(tmp_path / "file" / "cache", "abc", "fp32")
    with pytest.raises(EmbedderUnavailable) as caught:
        export_weights(tiny, target, Making(progress=pytest.fail))
    assert str(target.parent) in str(caught.value)
    assert "set model_cache_dir to a folder that can be written" in str(caught.value)


def test_what_keeps_a_machine_from_making_the_file_is_named(tiny: Path, foreign: Path) -> None:
    """Here nothing does; elsewhere what isn't understood of the model is named with the part that is missing for it."""
    assert why_no_export(tiny) is None
    assert why_no_export(foreign) is None
    ask = f"from pathlib import Path\nfrom memory_agent.models.local.export import why_no_export\nfor model in ({str(tiny)!r}, {str(foreign)!r}): print(why_no_export(Path(model)))"
    for lacking, before in (
        ("torch with sentence-transformers", WITHOUT_TORCH),
        ("onnxscript", "import sys; sys.modules['onnxscript'] = None\n"),
    ):
        own, of_torch = python(before + ask, dict(os.environ)).stdout.splitlines()
        assert own == "None"
        assert of_torch == (
            "its ONNX file can be made by torch alone, for its hidden_act is 'silu', and"
            f" {lacking} is not installed (`{how_to_install('local')}`)"
        )


def test_every_model_and_precision_has_its_own_place(tmp_path: Path) -> None:
    """Files in the cache never meet."""
    places = {cached_file(tmp_path, print_, kind) for print_ in ("abc", "def") for kind in ("fp32", "int8")}
    assert len(places) == 4
    assert len({place.parent for place in places}) == 4


# --- int8
def test_an_int8_file_gives_nearly_the_same_vectors(packaged: Path, exported: Path, tmp_path: Path) -> None:
    """MiniLM's int8 file is much smaller, its vectors are near those of fp32 but not equal; it is made once."""
    target = cached_file(tmp_path, "abc", "int8")
    stages: list[str] = []
    quantize_weights(packaged, exported, target, Making(progress=stages.append))
    assert stages == ["making the weights int8", "checking the int8 weights against fp32"]
    assert target.stat().st_size < 0.5 * exported.stat().st_size
    cosine = least_cosine(
        OnnxModel(packaged, target, one_by_one=True).encode(SAMPLES),
        OnnxModel(packaged, exported).encode(SAMPLES),
    )
    assert 0.97 < cosine < 0.99999
    quantize_weights(packaged, exported, target, Making(progress=pytest.fail))
    assert names(target.parent) == ["model.onnx"]


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
        quantize_weights(tiny, tmp_path / "drowned.onnx", target, Making(progress=lambda _: None))
    assert f"at least {LEAST_LIKE} is asked for" in str(caught.value)
    assert not target.exists()
    assert names(target.parent.parent) == ["int8-1.lock"]


def test_an_fp32_file_that_cannot_be_read_is_told(tiny: Path, tmp_path: Path) -> None:
    """What int8 can't be made of is named, and nothing is left."""
    source = tmp_path / "model.onnx"
    source.write_bytes(b"no protobuf at all")
    target = cached_file(tmp_path, "abc", "int8")
    with pytest.raises(EmbedderError, match=rf"quantize of {source} to ONNX failed: \S+"):
        quantize_weights(tiny, source, target, Making(progress=lambda _: None))
    assert not target.exists()


def test_a_file_with_its_weights_beside_it_is_made_int8(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """Also of links, as the hub's cache keeps a graph and its weights."""
    blobs, place = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    place.mkdir()
    onnx.save(
        onnx.load(str(tiny_onnx)),
        str(blobs / "model.onnx"),
        save_as_external_data=True,
        location="model.onnx_data",
        size_threshold=1_024,  # shapes stay in the graph, as with every exporter
    )
    for i, name in enumerate(("model.onnx", "model.onnx_data")):
        (blobs / name).rename(blobs / f"blob{i}")
        (place / name).symlink_to(blobs / f"blob{i}")
    target = cached_file(tmp_path / "cache", "abc", "int8")
    quantize_weights(tiny, place / "model.onnx", target, Making(progress=lambda _: None))
    assert OnnxModel(tiny, target, one_by_one=True).encode(["hello"]).shape == (1, 32)


# --- the cosine that decides
VECTORS = hnp.arrays(np.float32, (4, 5), elements=st.floats(-100, 100, width=32)).filter(
    lambda rows: bool((np.linalg.norm(rows, axis=1) > 0.1).all())
)


@given(VECTORS, st.floats(0.01, 100))
def test_the_cosine_is_one_for_the_same_directions(rows: NDArray[np.float32], factor: float) -> None:
    """How long vectors are makes no difference; turned round, they are as unlike as can be."""
    assert least_cosine(rows, rows * np.float32(factor)) == pytest.approx(1, abs=1e-5)
    assert least_cosine(rows, -rows) == pytest.approx(-1, abs=1e-5)


@given(VECTORS, VECTORS, st.permutations(range(4)))
def test_the_cosine_is_that_of_the_worst_row(
    some: NDArray[np.float32], others: NDArray[np.float32], order: list[int]
) -> None:
    """The least of all rows counts, in whatever order they are, and it is a cosine."""
    least = least_cosine(some, others)
    assert least == min(least_cosine(some[i : i + 1], others[i : i + 1]) for i in range(4))
    assert least_cosine(some[order], others[order]) == least
    assert -1 - 1e-9 <= least <= 1 + 1e-9


# --- copies
@pytest.fixture
def own_file(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> Iterator[Path]:
    """A model whose ONNX file lies beside its settings and weights."""
    folder = linked(tiny, tmp_path / "model")
    shutil.copyfile(tiny_onnx, folder / "model.onnx")
    yield folder
    assert (folder / "model.onnx").is_file()


def test_a_written_folder_is_the_same_model_without_weights(
    tiny: Path, tiny_cache: Path, tmp_path: Path
) -> None:
    """It needs no torch and nothing made, and has the fingerprint of what it was written from."""
    choice = choose(ModelChoiceRequest(model=str(tiny), cache=tiny_cache))
    write_folder(choice, tmp_path / "copy")
    assert not list((tmp_path / "copy").rglob("*.safetensors"))
    copied = choose(
        ModelChoiceRequest(model=str(tmp_path / "copy"), cache=tmp_path / "cache", backend="onnx")
    )
    assert copied.file == tmp_path / "copy" / "onnx" / "model.onnx"
    assert copied.fingerprint == choice.fingerprint
    assert names(tmp_path) == sorted(["copy", "cache", *(["hub"] if (tmp_path / "hub").exists() else [])])


def test_a_folder_written_from_one_with_its_own_file_has_no_weights(own_file: Path, tmp_path: Path) -> None:
    """Wherever the ONNX file lies in the model's folder, the weights beside it aren't copied."""
    choice = choose(ModelChoiceRequest(model=str(own_file), cache=tmp_path / "cache"))
    write_folder(choice, tmp_path / "copy")
    assert not list((tmp_path / "copy").rglob("*.safetensors"))
    assert names(tmp_path / "copy" / "onnx") == ["model.onnx"]


def test_only_files_made_here_are_made_again(tmp_path: Path) -> None:
    """A file of the cache is one of ours; a model's own file is not, even where its folder lies in the cache folder."""
    asked = ModelChoiceRequest(model="any", cache=tmp_path)
    assert made_here(cached_file(tmp_path, "abc", "fp32"), asked)
    assert made_here(cached_file(tmp_path, "abc", "int8"), asked)
    assert not made_here(tmp_path / "minilm" / "model.onnx", asked)
    assert not made_here(tmp_path / "minilm" / "onnx" / "model.onnx", asked)
    assert not made_here(tmp_path / "onnx" / "model.onnx", asked)
    assert not made_here(Path("/minilm/model.onnx"), asked)  # near the root, as in a container


def test_making_again_replaces_the_file_only_when_it_is_done(
    tiny: Path, tiny_onnx: Path, tmp_path: Path
) -> None:
    """A file that can't be made again stays as it was; one that can is another one afterwards."""
    target = cached_file(tmp_path, "abc", "int8")
    target.parent.mkdir(parents=True)
    target.write_bytes(b"before")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no protobuf at all")
    again = Making(progress=lambda _: None, again=True)
    with pytest.raises(EmbedderError, match="quantize of"):
        quantize_weights(tiny, broken, target, again)
    assert target.read_bytes() == b"before"
    quantize_weights(tiny, tiny_onnx, target, again)
    assert OnnxModel(tiny, target, one_by_one=True).encode(["hello"]).shape == (1, 32)


@pytest.mark.parametrize(
    ("model", "words"), [("foreign", "ended by signal 15"), ("tiny", "was ended before it was done")]
)
def test_what_is_to_stop_is_not_made(
    request: pytest.FixtureRequest, tmp_path: Path, model: str, words: str
) -> None:
    """A file that is given up leaves nothing, and is no error of the model's."""
    stop = threading.Event()
    target = cached_file(tmp_path, "abc", "fp32")
    folder: Path = request.getfixturevalue(model)
    with pytest.raises(MakingStopped, match=words):
        export_weights(folder, target, Making(progress=lambda _: stop.set(), stop=stop))
    assert names(target.parent.parent) == ["fp32-1.lock"]


def test_whoever_waits_for_another_process_can_be_stopped(tiny: Path, tmp_path: Path) -> None:
    """Waiting for a lock ends when the embedder is closed."""
    target = cached_file(tmp_path, "abc", "fp32")
    target.parent.parent.mkdir(parents=True)
    stop, stages = threading.Event(), list[str]()

    def told(stage: str) -> None:
        stages.append(stage)
        stop.set()

    with (
        FileLock(target.parent.with_name("fp32-1.lock")),
        pytest.raises(MakingStopped, match="while another process"),
    ):
        export_weights(tiny, target, Making(progress=told, stop=stop))
    assert stages == ["waiting for another process that makes the same file"]


def test_a_file_in_the_current_folder_is_not_run(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """Whatever lies where the service was started: the process that makes files does not import it."""
    (tmp_path / "random.py").write_text("raise SystemExit('random.py of the user ran')")
    target = tmp_path / "cache" / "onnx" / "abc" / "int8-1" / "model.onnx"
    code = f"""
from pathlib import Path
from memory_agent.models.local.export import quantize_weights
from memory_agent.models.local.atomic_build import Making
quantize_weights(Path({str(tiny)!r}), Path({str(tiny_onnx)!r}), Path({str(target)!r}), Making(progress=print))
"""
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert target.is_file()


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
    model.graph.doc_string = "another"
    onnx.save(model, str(copy))
    assert weights_digest([copy]) != weights_digest([tiny / "model.safetensors"])
