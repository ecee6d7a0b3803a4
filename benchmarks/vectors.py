"""Vectors kept from run to run: one SQLite file, `vectors.db`, in a folder that benchmarks and peers share.

A vector is known again by its model's fingerprint and the SHA-256 of its text; no text is written. Several processes may use the
file at once. It needs nothing of `memory_agent`, for peers are measured in an environment of their own.
"""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import TokenVectors
    from memory_agent.ports import Embedder

    TokenArrays = tuple[NDArray[np.int32], NDArray[np.float16] | NDArray[np.float32]]
    """Spans and vectors of a text's tokens."""

FILE: Final = "vectors.db"
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

    parser.add_argument(
        "--cache",
        type=Path,
        default=platformdirs.user_cache_path("memory-agent") / "benchmarks",
        metavar="FOLDER",
        help="a folder that keeps vectors for the next run (default: %(default)s)",
    )


class KeptVectors:
    """The vectors of texts by model, float32. `folder`: where the file is or will be; None keeps them in memory."""

    def __init__(self, folder: Path | None) -> None:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        name = ":memory:" if folder is None else folder / FILE
        self._rows = sqlite3.connect(name, timeout=60, check_same_thread=False)
        self._rows.execute(f"PRAGMA page_size={_PAGE_BYTES}")
        self._rows.execute("PRAGMA journal_mode=WAL")
        self._rows.execute("PRAGMA synchronous=OFF")  # what a crash of the machine takes is embedded again
        self._rows.executescript(_TABLES)

    def find(self, model: str, texts: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors that are kept of these texts, by text."""
        rows = self._read("vector FROM vectors", model, texts)
        return {text: np.frombuffer(vector, np.float32) for text, vector in rows}

    def find_tokens(self, model: str, texts: Iterable[str]) -> dict[str, TokenArrays]:
        """The spans and vectors of tokens that are kept of these texts, by text."""
        rows = self._read("spans, vectors FROM tokens", model, texts)
        return {text: _token_arrays(*packed) for text, *packed in rows}

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

    def keep(self, model: str, vectors: Mapping[str, NDArray[np.float32]]) -> None:
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


class CachingEmbedder:
    """`Embedder` that asks another one only for vectors that are not kept. `computed`: texts it asked for so far."""

    def __init__(self, embedder: Embedder, kept: KeptVectors) -> None:
        self._embedder = embedder
        self._kept = kept
        self.computed = 0

    @property
    def fingerprint(self) -> str:
        """See `Embedder.fingerprint`."""
        return self._embedder.fingerprint

    @property
    def scripts(self) -> frozenset[str] | None:
        """See `Embedder.scripts`."""
        return self._embedder.scripts

    async def split(self, text: str) -> list[str]:
        """See `Embedder.split`."""
        return await self._embedder.split(text)

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> NDArray[np.float32]:
        """See `Embedder.embed`."""
        model = self.fingerprint
        found = self._kept.find(model, texts)
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing or not texts:
            computed = await self._embedder.embed(missing, purpose=purpose)
            if not texts:
                return computed
            made = dict(zip(missing, computed, strict=True))
            self._kept.keep(model, made)
            self.computed += len(made)
            found |= made
        return np.stack([found[text] for text in texts])

    async def embed_tokens(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> list[TokenVectors] | None:
        """See `Embedder.embed_tokens`."""
        from memory_agent.domain import TokenVectors

        model = self.fingerprint
        found = self._kept.find_tokens(model, texts)
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing or not texts:
            computed = await self._embedder.embed_tokens(missing, purpose=purpose)
            if computed is None:
                return None
            made = {text: (its.spans, its.vectors) for text, its in zip(missing, computed, strict=True)}
            self._kept.keep_tokens(model, made)
            found |= made
        return [TokenVectors(spans=found[text][0], vectors=found[text][1]) for text in texts]

    def clear_cache(self) -> None:
        """See `Embedder.clear_cache`; the file stays."""
        self._embedder.clear_cache()

    async def close(self) -> None:
        """See `Embedder.close`."""
        await self._embedder.close()
        self._kept.close()


def _token_arrays(spans: bytes, vectors: bytes) -> TokenArrays:
    of_text = np.frombuffer(spans, np.int32).reshape(-1, 2)
    return of_text, np.frombuffer(vectors, np.float16).reshape(len(of_text), -1 if len(of_text) else 0)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
