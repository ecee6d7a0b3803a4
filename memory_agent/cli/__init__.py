"""The command line. `app` declares the commands, one module each does what is more than a few lines."""

from __future__ import annotations

import os


def main() -> None:
    """The entry point `memory-agent`."""
    # Before numpy is loaded. A question's product with one user's vectors is too small to be shared: a second thread of
    # OpenBLAS only waits for it, and doubles the processor time of a search (docs/benchmarks.md).
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from memory_agent.cli.app import app

    app()
