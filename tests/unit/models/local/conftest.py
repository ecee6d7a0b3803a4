"""Models on disk: the installed one, its ONNX file, a tiny one of random weights, and a hub on loopback."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_agent.models.local.atomic_build import Making
from memory_agent.models.local.choose import ModelChoiceRequest, choose, prepare
from tests.servers.hub import Hub
from tests.tiny_models import change, packaged_model, tiny_model

ROOT = Path(__file__).parents[4]

TORCH = ("torch", "sentence_transformers", "transformers")
"""What is hidden from a snippet that runs without torch."""


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No test in this process asks a hub, and the hub's cache is an empty folder of its own."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    cache = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    return cache


@pytest.fixture(scope="session")
def packaged() -> Path:
    """The folder of all-MiniLM-L6-v2 in the installed package: settings and safetensors, no ONNX file."""
    return packaged_model()


def _prepared(**wanted: Any) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        asked = ModelChoiceRequest(model="all-MiniLM-L6-v2", backend="onnx", **wanted)
        choice = prepare(choose(asked), asked, Making(progress=print))
    assert choice.file is not None
    return choice.file


@pytest.fixture(scope="session")
def exported() -> Path:
    """The ONNX file of all-MiniLM-L6-v2 in the user's own cache; made by the first test on a fresh machine."""
    return _prepared()


@pytest.fixture(scope="session")
def int8(exported: Path) -> Path:
    """The int8 file of all-MiniLM-L6-v2, kept there as well."""
    return _prepared(precision="int8")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers and 32 numbers with random weights and MiniLM's tokenizer: 4 MB."""
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def foreign(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tiny` with an activation that only torch is asked to run."""
    folder = linked(tiny, tmp_path_factory.mktemp("models") / "foreign")
    change(folder / "config.json", hidden_act="silu")
    return folder


@pytest.fixture(scope="session")
def tiny_cache(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that holds the ONNX file of `tiny`."""
    cache = tmp_path_factory.mktemp("cache")
    wanted = ModelChoiceRequest(model=str(tiny), backend="onnx", cache=cache)
    prepare(choose(wanted), wanted, Making(progress=print))
    return cache


@pytest.fixture(scope="session")
def tiny_onnx(tiny: Path, tiny_cache: Path) -> Path:
    file = choose(ModelChoiceRequest(model=str(tiny), backend="onnx", cache=tiny_cache)).source
    assert file is not None
    return file


# --- a hub, and a process that asks it
@pytest.fixture(scope="session")
def hub_process() -> Iterator[Hub]:
    server = Hub().start()
    yield server
    server.stop()


@pytest.fixture
def hub(hub_process: Hub) -> Hub:
    """A hub without repositories."""
    hub_process.reset()
    return hub_process


SERVER = """
import contextlib, io, json, logging, os, sys
from huggingface_hub import constants
for line in sys.stdin:
    asked, said, log = json.loads(line), io.StringIO(), io.StringIO()
    constants.HF_HUB_CACHE, constants.HF_HUB_OFFLINE = asked["cache"], False
    os.environ["HF_HUB_OFFLINE"] = "1" if asked["offline"] else ""
    hidden = {name: sys.modules.get(name) for name in asked["without"]}
    sys.modules.update(dict.fromkeys(hidden))
    logging.basicConfig(stream=log, level="WARNING", force=True)
    error = ""
    try:
        with contextlib.redirect_stdout(said):
            exec(asked["code"], {})
    except Exception as exc:
        error = f"{type(exc).__name__}: {exc}"
    for name, module in hidden.items():
        del sys.modules[name]
        sys.modules.update({name: module} if module else {})
    loaded = [name for name in ("torch", "transformers") if name in sys.modules]
    print(json.dumps([said.getvalue().splitlines(), error, log.getvalue(), loaded]), flush=True)
"""


class Elsewhere:
    """A process of its own that may ask the hub, and runs snippets: what this one has imported makes no difference to them."""

    def __init__(self, hub: Hub, home: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=hub.environment(home),
        )

    def run(
        self, code: str, home: Path, *, offline: bool = False, without: tuple[str, ...] = ()
    ) -> tuple[list[str], str, str]:
        """What `code` printed, its error if there was one, and what it logged; `home` is for the hub's cache.

        `without`: modules that are not installed there. None may load torch.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"code": code, "cache": str(home / "hub"), "offline": offline, "without": without}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        said, error, log, loaded = json.loads(self._process.stdout.readline())
        assert loaded == []
        return said, error, log

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="session")
def elsewhere_process(hub_process: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    process = Elsewhere(hub_process, tmp_path_factory.mktemp("elsewhere"))
    yield process
    process.close()


@pytest.fixture
def elsewhere(elsewhere_process: Elsewhere, hub: Hub) -> Elsewhere:
    """The process, before a hub without repositories."""
    return elsewhere_process


# --- making models
def linked(source: Path, target: Path, *, onnx: Path | None = None, weights: bool = True) -> Path:
    """A copy whose weights are links, as the hub's cache keeps them; with `onnx` as its ONNX file."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.safetensors"))
    for file in source.glob("*.safetensors") if weights else ():
        (target / file.name).symlink_to(file)
    if onnx is not None:
        (target / "onnx").mkdir()
        for file in (onnx, *onnx.parent.glob("model.onnx_data")):
            (target / "onnx" / file.name).symlink_to(file)
    return target


def in_cache(cache: Path, source: Path, **how: Any) -> Path:
    """The snapshot in the hub's cache, made by `linked`, of all-MiniLM-L6-v2."""
    place = cache / "models--sentence-transformers--all-MiniLM-L6-v2"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0" * 40)
    return linked(source, place / "snapshots" / ("0" * 40), **how)


def add_module(folder: Path, kind: str, *, at: int | None = None, path: str = "9_Dense") -> Path:
    """The folder with one more module: before that one of its modules, or as its last."""
    file = folder / "modules.json"
    modules = json.loads(file.read_text())
    module = {"idx": 9, "name": "9", "path": path, "type": f"sentence_transformers.models.{kind}"}
    modules.insert(len(modules) if at is None else at, module)
    file.unlink()  # it may be a link
    file.write_text(json.dumps(modules))
    return folder


def python(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process of its own, which has half a minute."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=30,
    )
