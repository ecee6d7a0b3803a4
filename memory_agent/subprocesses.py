"""Starting a module of this package in a process of its own."""

from __future__ import annotations

import os
import sys


def command(module: str, *arguments: str) -> list[str]:
    """The command line that runs `module`. The current folder is not imported from: anybody's files may be there."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """This process's environment, with what can be imported here importable there."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
