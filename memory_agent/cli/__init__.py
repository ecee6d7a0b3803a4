"""The command line. `app` declares the commands, one module each does what is more than a few lines."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """The entry point `memory-agent`."""
    from memory_agent.cli.app import app

    try:
        app()
    finally:
        _flush()


def _flush() -> None:
    """Write out what is printed; whoever reads it may have had enough (`| head`), which Python would complain of."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
