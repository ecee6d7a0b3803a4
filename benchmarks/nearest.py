"""What candidates by meaning of a large user cost: `python -m benchmarks.nearest [--rows 50000 200000] [--chroma]`.

Search rows of one user with random vectors, in a store of each kind; then the 500 nearest to random vectors, through
`RowStore.nearest_turns`: milliseconds, and bytes a row. `--chroma`: the same vectors in Chroma's own embedded client, with our
collections' configuration and every query filtered by the user, as an index beside the rows would be asked: milliseconds, share of the
true nearest that it finds, bytes a row besides, and how long a row takes to get in. Printed as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.measure import machine, percentiles
from memory_agent.domain import Scope, SearchRow, new_id
from memory_agent.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEAREST: Final = 500
DIMENSION: Final = 384
QUERIES: Final = 15
_BATCH: Final = 1_000
_EMBEDDER: Final = "ab12cd34ef56"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[50_000, 200_000])
    parser.add_argument("--chroma", action="store_true", help="beside Chroma's embedded client")
    arguments = parser.parse_args()
    found = [asyncio.run(measured(rows, chroma=arguments.chroma)) for rows in arguments.rows]
    print(json.dumps({"machine": machine(), "nearest": NEAREST, "sizes": found}, indent=2))


async def measured(count: int, *, chroma: bool) -> dict[str, Any]:
    """The figures at one size."""
    made = np.random.default_rng(1)
    vectors = _unit(made.standard_normal((count, DIMENSION)).astype(np.float32))
    asked = _unit(made.standard_normal((QUERIES, DIMENSION)).astype(np.float32))
    ids = [new_id() for _ in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        figures: dict[str, Any] = {"rows": count, "sqlite": await _rows(Path(folder), ids, vectors, asked)}
        if chroma:
            true = [{ids[place] for place in np.argsort(-(vectors @ one))[:NEAREST]} for one in asked]
            figures["chroma"] = _chroma(Path(folder) / "chroma", ids, vectors, asked, true)
    return figures


async def _rows(
    folder: Path, ids: list[str], vectors: NDArray[np.float32], asked: NDArray[np.float32]
) -> dict[str, Any]:
    store = SqliteStore(folder / "rows.sqlite3")
    await store.open()
    try:
        for start in range(0, len(ids), _BATCH):
            rows = [
                _row(turn_id, start + place, vectors[start + place])
                for place, turn_id in enumerate(ids[start : start + _BATCH])
            ]
            await store.put_search_rows("one", rows, now=datetime.now(UTC))
        scope, took = Scope(user_id="one"), []
        for one in asked:
            began = time.perf_counter()
            await store.nearest_turns(scope, one, embedder=_EMBEDDER, limit=NEAREST)
            took.append(time.perf_counter() - began)
    finally:
        await store.close()
    return {"query_ms": percentiles(took), "bytes_a_row": _size(folder) // len(ids)}


def _row(turn_id: str, seq: int, vector: NDArray[np.float32]) -> SearchRow:
    return SearchRow(
        turn_id=turn_id,
        user_id="one",
        thread_id="t",
        seq=seq + 1,
        role="user",
        timestamp=datetime(2026, 1, 1, tzinfo=UTC),
        vectors=vector[None, :],
        terms={"a": 1},
        length=1,
        embedder=_EMBEDDER,
        language="english/2",
    )


def _chroma(
    folder: Path,
    ids: list[str],
    vectors: NDArray[np.float32],
    asked: NDArray[np.float32],
    true: list[set[str]],
) -> dict[str, Any]:
    import chromadb
    from chromadb.config import Settings

    from memory_agent.stores.chroma import HNSW

    client = chromadb.PersistentClient(folder, settings=Settings(anonymized_telemetry=False))
    collection = client.create_collection("one", configuration=HNSW, embedding_function=None)
    began = time.perf_counter()
    for start in range(0, len(ids), _BATCH):
        some = ids[start : start + _BATCH]
        owners: list[Any] = [{"user_id": "one", "thread_id": "t", "turn_id": turn_id} for turn_id in some]
        collection.upsert(ids=some, embeddings=vectors[start : start + _BATCH], metadatas=owners)
    filled = time.perf_counter() - began
    took, hits = [], 0
    for one, nearest in zip(asked, true, strict=True):
        began = time.perf_counter()
        answer = collection.query(
            query_embeddings=[one], n_results=2 * NEAREST, where={"user_id": "one"}, include=["distances"]
        )
        took.append(time.perf_counter() - began)
        hits += len(nearest.intersection(answer["ids"][0][:NEAREST]))
    return {
        "query_ms": percentiles(took),
        "found": round(hits / (NEAREST * len(asked)), 3),
        "bytes_a_row": _size(folder) // len(ids),
        "fill_ms_a_row": round(1_000 * filled / len(ids), 3),
    }


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
