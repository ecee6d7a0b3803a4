"""`memory-agent embedder …` as real processes, and the default embedder as a new user meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers.forks import forks

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


def test_the_packaged_model_needs_neither_torch_nor_a_network(tmp_path: Path) -> None:
    """Also with an empty cache: its ONNX file is made on the way."""
    cache = {"MEMORY_AGENT_MODEL_CACHE_DIR": str(tmp_path / "cache")}
    text, _, _ = script(REMEMBER, tmp_path, **cache)
    assert "behind the bakery" in text
    assert len(list((tmp_path / "cache").rglob("model.onnx"))) == 1


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
