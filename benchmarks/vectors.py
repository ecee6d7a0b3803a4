"""Vectors kept from run to run: one SQLite file, `vectors.db`, in a folder that benchmarks and peers share.

A vector is known again by its model's fingerprint and the SHA-256 of its text; no text is written. Several processes may use the
file at once. It needs nothing of `memory_agent`, for peers are measured in an environment of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import TokenVectors
    from memory_agent.ports import Embedder

    Floats = NDArray[np.float32]
    TokenArrays = tuple[NDArray[np.int32], NDArray[np.float16] | Floats]
    """Spans and vectors of a text's tokens."""

_AT_ONCE: Final = 500
_PAGE_BYTES: Final = 16_384
"""A vector takes 1.5 KB, of which two would leave a quarter of a usual page empty."""
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS vectors (model TEXT, key BLOB, vector BLOB NOT NULL, PRIMARY KEY (model, key));
CREATE TABLE IF NOT EXISTS tokens (model TEXT, key BLOB, spans BLOB NOT NULL, vectors BLOB NOT NULL, PRIMARY KEY (model, key));
"""


def cache_option(parser: ArgumentParser) -> None:
    """Add `--cache FOLDER`; by default a folder of the user's cache, so that a second run is quick without a word."""
    import platformdirs

    folder = platformdirs.user_cache_path("memory-agent") / "benchmarks"
    about = "a folder that keeps vectors for the next run (default: %(default)s)"
    parser.add_argument("--cache", type=Path, default=folder, metavar="FOLDER", help=about)


class KeptVectors:
    """The vectors of texts by model, float32. `folder`: where the file is or will be; None keeps them in memory."""

    def __init__(self, folder: Path | None) -> None:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        name = ":memory:" if folder is None else folder / "vectors.db"
        self._rows = sqlite3.connect(name, timeout=60, check_same_thread=False)
        self._rows.execute(f"PRAGMA page_size={_PAGE_BYTES}")
        self._rows.execute("PRAGMA journal_mode=WAL")
        self._rows.execute("PRAGMA synchronous=OFF")  # what a crash of the machine takes is embedded again
        self._rows.executescript(_TABLES)

    def find(self, model: str, texts: Iterable[str]) -> dict[str, Floats]:
        """The vectors that are kept of these texts, by text."""
        rows = self._read("vector FROM vectors", model, texts)
        return {text: np.frombuffer(vector, np.float32) for text, vector in rows}

    def find_tokens(self, model: str, texts: Iterable[str]) -> dict[str, TokenArrays]:
        """The spans and vectors of tokens that are kept of these texts, by text."""
        found: dict[str, TokenArrays] = {}
        for text, spans, vectors in self._read("spans, vectors FROM tokens", model, texts):
            of_text = np.frombuffer(spans, np.int32).reshape(-1, 2)
            shape = len(of_text), -1 if len(of_text) else 0
            found[text] = of_text, np.frombuffer(vectors, np.float16).reshape(shape)
        return found

    def _read(self, columns: str, model: str, texts: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        by_key = {_key(text): text for text in texts}
        keys = list(by_key)
        for start in range(0, len(keys), _AT_ONCE):
            these = keys[start : start + _AT_ONCE]
            marks = ",".join("?" * len(these))
            for key, *values in self._rows.execute(
                f"SELECT key, {columns} WHERE model = ? AND key IN ({marks})", (model, *these)
            ):
                yield by_key[key], *values

    def keep(self, model: str, vectors: Mapping[str, Floats]) -> None:
        """Write vectors by text, where they are for whoever looks next."""
        rows = [(model, _key(text), vector.astype(np.float32).tobytes()) for text, vector in vectors.items()]
        with self._rows:
            self._rows.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def keep_tokens(self, model: str, tokens: Mapping[str, TokenArrays]) -> None:
        """Write the spans and vectors of tokens by text: some 136 bytes a token."""
        rows = [
            (model, _key(text), spans.astype(np.int32).tobytes(), vectors.astype(np.float16).tobytes())
            for text, (spans, vectors) in tokens.items()
        ]
        with self._rows:
            self._rows.executemany("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, ?)", rows)

    def close(self) -> None:
        """Close the file."""
        self._rows.close()


class KnowingEmbedder:
    """`Embedder` that asks another one only for what it doesn't know: what `kept` has, and what `learn` was given.

    `seconds`: how long at least one call was with the other. What it was asked for goes into `kept`, where there is one.
    """

    def __init__(self, embedder: Embedder, kept: KeptVectors | None = None) -> None:
        self._embedder = embedder
        self._kept = kept
        # Tokens as tuples of arrays, which the garbage collector passes over: it must not take longer for what a benchmark keeps.
        self._vectors: dict[str, Floats] = {}
        self._tokens: dict[str, TokenArrays] = {}
        self._in_hand, self._began, self._seconds = 0, 0.0, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)  # fingerprint, scripts, split, clear_cache

    @property
    def seconds(self) -> float:
        """See the class."""
        return self._seconds + (time.perf_counter() - self._began if self._in_hand else 0.0)

    async def learn(self, texts: Sequence[str]) -> float:
        """Embed what is new of these documents as a worker would; seconds of the other for each of them, 0 for none."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        began = time.perf_counter()
        for start in range(0, len(new), _AT_ONCE):
            some = new[start : start + _AT_ONCE]
            self._vectors |= zip(some, await self.embed(some, purpose="document"), strict=True)
            for text, its in zip(some, await self.embed_tokens(some, purpose="document") or (), strict=False):
                self._tokens[text] = its.spans, its.vectors
        return (time.perf_counter() - began) / len(new) if new else 0.0

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "document"]) -> Floats:
        """See `Embedder.embed`."""
        found = {text: self._vectors[text] for text in texts if text in self._vectors}
        if self._kept is not None:
            found |= self._kept.find(self.fingerprint, texts)
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing or not texts:
            with self._working():
                computed = await self._embedder.embed(missing, purpose=purpose)
            if not texts:
                return computed
            made = dict(zip(missing, computed, strict=True))
            if self._kept is not None:
                self._kept.keep(self.fingerprint, made)
            found |= made
        return np.stack([found[text] for text in texts])

    async def embed_tokens(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> list[TokenVectors] | None:
        """See `Embedder.embed_tokens`."""
        from memory_agent.domain import TokenVectors

        found = {text: self._tokens[text] for text in texts if text in self._tokens}
        if self._kept is not None:
            found |= self._kept.find_tokens(self.fingerprint, texts)
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing or not texts:
            with self._working():
                computed = await self._embedder.embed_tokens(missing, purpose=purpose)
            if computed is None:
                return None
            made = {text: (its.spans, its.vectors) for text, its in zip(missing, computed, strict=True)}
            if self._kept is not None:
                self._kept.keep_tokens(self.fingerprint, made)
            found |= made
        return [TokenVectors(spans=found[text][0], vectors=found[text][1]) for text in texts]

    def embed_ahead(self, texts: Sequence[str]) -> None:
        """See `ahead_by` of the ports; of what is not known, and only where nothing is kept."""
        new = [text for text in texts if text not in self._vectors]
        if new and self._kept is None and (begin := getattr(self._embedder, "embed_ahead", None)):
            begin(new)

    async def close(self) -> None:
        """See `Embedder.close`."""
        await self._embedder.close()
        if self._kept is not None:
            self._kept.close()

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        if not self._in_hand:
            self._began = time.perf_counter()
        self._in_hand += 1
        try:
            yield
        finally:
            self._in_hand -= 1
            if not self._in_hand:
                self._seconds += time.perf_counter() - self._began


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
