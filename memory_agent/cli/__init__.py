"""The command line. `app` declares the commands, one module each does what is more than a few lines."""

from __future__ import annotations


def main() -> None:
    """The entry point `memory-agent`."""
    from memory_agent.cli.app import app

    app()
