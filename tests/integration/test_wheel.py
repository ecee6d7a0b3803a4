"""The wheel: it holds all that the package reads, and nothing tells to install a stranger's."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path, PurePath

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "memory_agent"


def test_nothing_tells_to_install_this_package_by_its_name_alone() -> None:
    """Whoever registers the name on an index first would decide what that brings."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "memory_agent").rglob("*.py")]
    for page in pages:
        for line in page.read_text("utf-8").splitlines():
            if "pip install" in line and "memory-agent" in line:
                assert "@ file:" in line, f"{page}: {line}"


# --- used from a folder of its own ---------------------------------------------------------------------------
USE = """
import asyncio, tempfile
import memory_agent
from memory_agent import MemoryConfig, MemoryService, by_kind
from memory_agent.demo import conversation
from memory_agent.testing import HashEmbedder

async def main():
    cfg = MemoryConfig(data_dir=tempfile.mkdtemp(dir="."), mongo_uri=None, chroma_host=None)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        memory = service.agent("ann", "chat")
        await memory.add_user_message("Is the cpi of 라네즈 above its hhi?")
        print(by_kind(await memory.entities()))

print(memory_agent.__file__)
print(len(conversation()) > 0)
asyncio.run(main())
"""


def test_the_pages_add_less_than_300_kilobytes_to_the_wheel(wheel: Path) -> None:
    sizes = {file.filename: file.compress_size for file in zipfile.ZipFile(wheel).infolist()}
    pages = [size for name, size in sizes.items() if name.startswith("memory_agent/inspect/")]
    assert len(pages) > 30
    assert sum(pages) < 300_000


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    """Modules, and what they read: the dictionary, the demo's conversation, the mark that types are given."""
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("memory_agent/")}
    ours = {
        file.relative_to(ROOT).as_posix()
        for file in PACKAGE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    suite = {name for name in packed if name.startswith("memory_agent/conformance/suite/")}
    assert packed - suite == ours
    assert {PurePath(name).stem.removeprefix("test_document_store_") for name in suite} >= {
        "turns",
        "work",
        "meta",
        "test_llm",
    }
    assert all((ROOT / "tests" / "conformance" / PurePath(name).name).is_file() for name in suite)
    assert {"memory_agent/models/entities.toml", "memory_agent/py.typed"} <= packed


def test_the_installed_package_knows_the_example_dictionary(package: Path, tmp_path: Path) -> None:
    """In a folder without any file of ours, acronyms in small letters included."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_AGENT_")}
    used = subprocess.run(
        [sys.executable, "-c", USE],
        cwd=tmp_path,
        env={**own, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert used.returncode == 0, used.stderr
    where, demo, found = used.stdout.splitlines()
    assert Path(where).is_relative_to(package)
    assert demo == "True"
    assert found == "{'indicators': ['CPI', 'HHI'], 'brands': ['LANEIGE']}"
