"""What a command loads: whoever doesn't search waits for neither the vector index nor a model's runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import profiles

SEARCHES = {"chromadb", "onnxruntime", "onnx", "tokenizers", "huggingface_hub.hf_api", "torch"}
SET = "facts set name Ada"
LOOKING = (
    "status",
    "users",
    "threads",
    "history",
    "facts show",
    "topics",
    "session list",
    "keys list",
    "keys create --tenant acme",
)
SCRIPT = """
import sys
from memory_agent.cli.app import app
for words in {commands!r}:
    app([*words.split(), "--data-dir", "memory"], standalone_mode=False)
    sys.stderr.write("\\nloaded: " + " ".join(sys.modules))
"""


def loaded_by(folder: Path, *commands: str) -> list[set[str]]:
    """The modules that a fresh process has loaded after each of these commands on a memory in `folder`."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_AGENT_")}
    finished = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(commands=commands)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env=own,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return [set(line.split()) for line in finished.stderr.split("\nloaded: ")[1:]]


def test_commands_that_look_load_no_vector_index_and_no_model(tmp_path: Path) -> None:
    """`status` has some 800 modules; with Chroma they were 1,218, and another library of that size goes beyond the limit.

    A chat, which lets other processes in, loads the service for them once one of them comes.
    """
    _, after_status, *_, loaded, after_chat = loaded_by(tmp_path, SET, *LOOKING, "chat")
    assert not loaded & SEARCHES
    assert "memory_agent.stores.sqlite" in loaded  # they did look
    assert len(after_status) < 1_000
    assert "memory_agent.server.run" in after_chat
    assert not after_chat & {"fastapi", "mcp"}


ENTRY = """
import os, sys
from memory_agent.cli import main
assert "numpy" not in sys.modules
sys.argv = ["memory-agent", "--version"]
try:
    main()
finally:
    print("threads:", os.environ["OPENBLAS_NUM_THREADS"])
"""


@pytest.mark.parametrize(("given", "used"), profiles.by_day((None, "1"), ("4", "4")))
def test_products_are_shared_among_threads_only_where_asked_for(given: str | None, used: str) -> None:
    """The command line sets the number of OpenBLAS's threads before numpy reads it; what the environment says stands."""
    own = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    env = own if given is None else {**own, "OPENBLAS_NUM_THREADS": given}
    finished = subprocess.run(
        [sys.executable, "-c", ENTRY], capture_output=True, text=True, timeout=120, env=env, check=False
    )
    assert finished.stdout.rpartition("threads: ")[2].strip() == used, finished.stderr
