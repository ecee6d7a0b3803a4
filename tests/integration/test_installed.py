"""What installs an extra, as told by copies of this package that pip installed in different ways."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from memory_agent.installed import how_to_install

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]


def ran(command: Sequence[str | Path], **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd="/",
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This package as a wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    ran([*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT])
    (built,) = folder.iterdir()
    return built


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


@pytest.mark.parametrize("way", ["from an index", "from a wheel that is gone"])
def test_copy_that_cannot_be_had_again_by_an_address_tells_what_the_extra_needs(
    tmp_path: Path, wheel: Path, way: str
) -> None:
    """By the names that this package's authors wrote down, never by this package's own."""
    if way == "from an index":
        folder = installed(tmp_path / "here", "--find-links", wheel.parent, "memory-agent")
    else:
        moved = tmp_path / wheel.name
        moved.write_bytes(wheel.read_bytes())
        folder = installed(tmp_path / "here", moved)
        moved.unlink()
    command = told(folder, "server")
    assert command[:4] == [*PIP[:3], "install"]
    assert "fastapi>=0.115" in command
    assert not any("memory-agent" in word or "extra" in word for word in command)


def test_copy_from_a_repository_tells_its_address_and_commit(tmp_path: Path, wheel: Path) -> None:
    """As pip notes it in direct_url.json (PEP 610)."""
    folder = installed(tmp_path / "here", wheel)
    (note,) = folder.glob("memory_agent-*.dist-info/direct_url.json")
    vcs = {"vcs": "git", "commit_id": "0b53cd7"}
    note.write_text(json.dumps({"url": "https://git.example.org/memory_agent.git", "vcs_info": vcs}))
    address = "git+https://git.example.org/memory_agent.git@0b53cd7"
    assert told(folder, "ner")[-1] == f"memory-agent[ner] @ {address}"


def test_copy_that_nothing_is_known_of_names_no_package(tmp_path: Path, wheel: Path) -> None:
    folder = installed(tmp_path / "here", wheel)
    for known in folder.glob("memory_agent-*.dist-info/*"):
        if known.is_file():
            known.unlink()
    told_words = " ".join(told(folder, "ner"))
    assert told_words == "install it again with the extra ner, as it was installed"


def test_clone_tells_itself_with_the_extra() -> None:
    assert shlex.split(how_to_install("ner"))[-2:] == ["-e", f"{ROOT}[ner]"]


def test_nothing_tells_to_install_this_package_by_its_name_alone() -> None:
    """Whoever registers the name on an index first would decide what that brings."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "memory_agent").rglob("*.py")]
    for page in pages:
        for line in page.read_text("utf-8").splitlines():
            if "pip install" in line and "memory-agent" in line:
                assert "@ file:" in line, f"{page}: {line}"
