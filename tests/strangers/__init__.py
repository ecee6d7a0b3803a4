"""Programs of other people that talk to ours: where `make test` puts them, and how one is called."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
FOLDER: Final = ROOT / ".strangers"
"""An environment of their own: what they depend on is at odds with what the project depends on."""

HAS_NPM: Final = shutil.which("npm") is not None
SECONDS: Final = 120


def program(name: str) -> str:
    """The path of a Python program of theirs. Fails with what to do if it isn't there."""
    return _there(FOLDER / "bin" / name)


def inspector() -> list[str]:
    """The command line of MCP Inspector."""
    return ["node", _there(FOLDER / "node_modules/@modelcontextprotocol/inspector/cli/build/cli.js"), "--cli"]


def _there(path: Path) -> str:
    assert path.exists(), f"{path} is missing: `make strangers` installs it"
    return str(path)


def call(
    command: list[str], *, folder: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in `folder` to its end."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
