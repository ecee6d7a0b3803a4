"""Models that a process loads once, however many services in it ask: each load takes a second of processor time and 100 MB.

A loaded model keeps no state between calls, so whoever shares one sees no more than that it is there at once. It is known by its
file: one that was made again, or that has another name, is another model.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory_agent.models.local.choose import ModelChoiceRequest
from memory_agent.models.local.embedder import LocalEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable

_LEAST_BYTES: Final = 10_000_000
"""A smaller file is a test's own model, which costs nothing to load."""


def sharing(load: Callable[[LocalEmbedder], Any]) -> Callable[[LocalEmbedder], Any]:
    """`LocalEmbedder._load` that gives what it loaded before from the same file. An int8 model is not kept: it is large."""
    loaded: dict[object, Any] = {}

    def shared(embedder: LocalEmbedder) -> Any:
        file = embedder.choice.file
        if file is None or not file.is_file() or embedder.choice.precision != "fp32":
            return load(embedder)
        seen = file.stat()
        if seen.st_size < _LEAST_BYTES:
            return load(embedder)
        key = (file, seen.st_mtime_ns, seen.st_size)
        if key not in loaded:
            loaded.clear()
            loaded[key] = load(embedder)
        return loaded[key]

    return shared


def load_default() -> None:
    """Load the default model now, for all that will be forked from this process. No thread stays."""
    LocalEmbedder._load = sharing(LocalEmbedder._load)  # type: ignore[method-assign, assignment]
    wanted = ModelChoiceRequest(model="all-MiniLM-L6-v2")
    if cache := os.environ.get("MEMORY_AGENT_MODEL_CACHE_DIR"):
        wanted = replace(wanted, cache=Path(cache))
    model, _ = LocalEmbedder(wanted)._loaded()
    model.encode(["The first pass reads the weights."])
