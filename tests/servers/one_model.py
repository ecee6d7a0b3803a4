"""Models that a process loads once, however many services in it ask: each load of the default one takes half a second of processor
time and 50 MB.

A loaded model keeps no state between calls, so whoever shares one sees no more than that it is there at once. It is known by its
file: one that was made again is another one.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

from memory_agent import MemoryConfig, MemoryService
from memory_agent.models.local.choose import ModelChoiceRequest
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.ports import known_fingerprint
from memory_agent.testing import HashEmbedder
from memory_agent.text.subjects import everyday_sentences

_KEPT: Final = 2
"""Tokenizers of 6 MB each."""
_LARGE: Final = 20_000_000
"""Bytes of a large model's files: the default one stays while small ones come and go."""
_WANTED: Final = ModelChoiceRequest(model="all-MiniLM-L6-v2")


def sharing(load: Callable[[LocalEmbedder], Any]) -> Callable[[LocalEmbedder], Any]:
    """`LocalEmbedder._load` that gives what it loaded last from the same file, of large ones and of small ones. An int8 model is not kept."""
    loaded: dict[bool, tuple[tuple[Path, int, int], Any]] = {}

    def shared(embedder: LocalEmbedder) -> Any:
        file = embedder.choice.file
        if file is None or not file.is_file() or embedder.choice.precision != "fp32":
            return load(embedder)
        size = sum(
            one.stat().st_size for one in file.parent.glob(f"{file.name}*")
        )  # large weights lie beside it
        key = (file, file.stat().st_mtime_ns, size)
        known, model = loaded.get(size > _LARGE, (None, None))
        if known != key:
            loaded.pop(size > _LARGE, None)
            model = load(embedder)
            if embedder.choice.file == file:  # else it fell back to another one
                loaded[size > _LARGE] = key, model
        return model

    return shared


def sharing_tokenizers(open_tokenizer: Callable[[LocalEmbedder], Any]) -> Callable[[LocalEmbedder], Any]:
    """`LocalEmbedder._open_tokenizer` that gives what it opened before for the same model; to read one takes 40 ms."""
    opened: dict[object, Any] = {}

    def shared(embedder: LocalEmbedder) -> Any:
        key = embedder.choice.folder, embedder.choice.fingerprint
        if key not in opened:
            if len(opened) >= _KEPT:
                opened.clear()
            opened[key] = open_tokenizer(embedder)
        return opened[key]

    return shared


def sharing_everyday(embed: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """`LocalEmbedder.embed` that embeds once for all services the sentences that the first search of each compares with: 0.2 s."""
    sentences, vectors = [*chain.from_iterable(everyday_sentences().values())], dict[str, Any]()

    async def shared(embedder: LocalEmbedder, texts: Sequence[str], **options: Any) -> Any:
        if texts != sentences:
            return await embed(embedder, texts, **options)
        if (found := vectors.get(known_fingerprint(embedder))) is None:
            found = vectors[known_fingerprint(embedder)] = await embed(embedder, texts, **options)
        return found

    return shared


def warm_up() -> None:
    """Remember and recall once, so that what is forked from this process finds its patterns compiled and its tables read."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_remember(folder))


async def _remember(folder: str) -> None:
    cfg = MemoryConfig(data_dir=folder, mongo_uri=None, chroma_host=None, chat_model=None)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        memory = service.agent("ann", "chat")
        await memory.update_memory(
            "My name is Ada, and I moved to Lisbon last May. Where is the train?", "def f(x):\n    return x"
        )
        await memory.settle(timeout=60)
        await memory.compress()
        await memory.fetch_memory("Which train did I take to Lisbon on Monday?")


def load_default() -> None:
    """Load the default model now, for all that will be forked from this process. No thread stays."""
    LocalEmbedder._load = sharing(LocalEmbedder._load)  # type: ignore[method-assign, assignment]
    LocalEmbedder.embed = sharing_everyday(LocalEmbedder.embed)  # type: ignore[method-assign, assignment]
    cache = os.environ.get("MEMORY_AGENT_MODEL_CACHE_DIR")
    wanted = replace(_WANTED, cache=Path(cache)) if cache else _WANTED
    asyncio.run(_embed(LocalEmbedder(wanted)))


async def _embed(embedder: LocalEmbedder) -> None:
    await embedder.embed([*chain.from_iterable(everyday_sentences().values())], purpose="document")
    await embedder.close()
