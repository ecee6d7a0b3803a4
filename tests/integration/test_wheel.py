"""The wheel: it holds all that the package reads, and copies that pip installed tell what installs an extra."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_agent.installed import how_to_install

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "memory_agent"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]


def ran(command: Sequence[str | Path], **environment: str) -> str:
    how: Any = {"capture_output": True, "text": True, "timeout": 120, "check": False}
    done = subprocess.run([str(part) for part in command], cwd="/", env={**os.environ, **environment}, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout).strip()


def installed(folder: Path, *what: str | Path) -> Path:
    """A folder with the package alone, installed by pip; what it needs is found where the tests have it."""
    ran([*PIP, "install", "--quiet", "--no-deps", "--no-index", "--target", folder, *what])
    return folder


def told(folder: Path, *extras: str) -> list[str]:
    """The command that the copy in `folder` tells, as its words."""
    code = f"from memory_agent.installed import how_to_install\nprint(how_to_install(*{extras!r}))"
    return shlex.split(ran([sys.executable, "-c", code], PYTHONPATH=str(folder)))


def test_copy_from_a_wheel_tells_that_wheel_with_the_extra(tmp_path: Path, wheel: Path) -> None:
    """And pip takes the command as it is told."""
    command = told(installed(tmp_path / "here", wheel), "mcp", "server")
    assert command == [*PIP[:3], "install", f"memory-agent[mcp,server] @ {wheel.as_uri()}"]
    again = tmp_path / "again"
    ran([*command, "--quiet", "--no-deps", "--no-index", "--target", again])
    assert (again / "memory_agent" / "installed.py").is_file()


def test_copy_that_cannot_be_had_again_by_an_address_tells_what_the_extra_needs(
    tmp_path: Path, wheel: Path
) -> None:
    """From an index, or a wheel that is gone: by the names that this package's authors wrote down, never by its own."""
    moved = tmp_path / wheel.name
    moved.write_bytes(wheel.read_bytes())
    gone = installed(tmp_path / "gone", moved)
    moved.unlink()
    for folder in (gone, installed(tmp_path / "here", "--find-links", wheel.parent, "memory-agent")):
        command = told(folder, "server")
        assert command[:4] == [*PIP[:3], "install"]
        assert "fastapi>=0.115" in command
        assert not any("memory-agent" in word or "extra" in word for word in command)


def test_copy_from_a_repository_tells_its_address_and_commit(tmp_path: Path, wheel: Path) -> None:
    """As pip notes it in direct_url.json (PEP 610); a copy that nothing is known of names no package."""
    folder = installed(tmp_path / "here", wheel)
    (note,) = folder.glob("memory_agent-*.dist-info/direct_url.json")
    vcs = {"vcs": "git", "commit_id": "0b53cd7"}
    note.write_text(json.dumps({"url": "https://git.example.org/memory_agent.git", "vcs_info": vcs}))
    address = "git+https://git.example.org/memory_agent.git@0b53cd7"
    assert told(folder, "mcp")[-1] == f"memory-agent[mcp] @ {address}"
    for known in folder.glob("memory_agent-*.dist-info/*"):
        if known.is_file():
            known.unlink()
    assert " ".join(told(folder, "mcp")) == "install it again with the extra mcp, as it was installed"


def test_clone_tells_itself_with_the_extra() -> None:
    assert shlex.split(how_to_install("mcp"))[-2:] == ["-e", f"{ROOT}[mcp]"]


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


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    """Modules, and what they read: the dictionary, the demo's conversation, the mark that types are given."""
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("memory_agent/")}
    ours = {
        file.relative_to(ROOT).as_posix()
        for file in PACKAGE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert packed == ours
    assert {"memory_agent/models/entities.yaml", "memory_agent/py.typed"} <= packed


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
