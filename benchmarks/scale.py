"""What a search costs by the size of a user: `python -m benchmarks.scale [--sizes 10 1000 10000 50000]`.

Fills a resident index with made-up rows (words by Zipf's law, random vectors, sessions of 20 turns), and prints for each size
the time of scoring every row with all signals and of ranking the first 50 (what `fetch_long_term` does after the question is
embedded and before texts are read), the time of taking in one more row, and the memory that the index says it takes. Signals
that need statistics of the user (neighbours, sessions, frequencies) are kept up by each new row; the last column shows that
a row that comes in at the end costs about the same however many there are.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.measure import machine, percentiles
from memory_agent.domain import SearchRow, TurnFeatures
from memory_agent.search.fusion import DEFAULT_WEIGHTS, best_first, fuse, normalised
from memory_agent.search.request import AnalysedQuery, RowFilter
from memory_agent.search.user_index import ResidentIndex, behind_repeats
from memory_agent.text.question import read_question
from memory_agent.text.times import time_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SIZES: Final = (10, 1_000, 10_000, 50_000)
DIMENSION: Final = 384
VOCABULARY: Final = 20_000
WORDS: Final = 15
SESSION: Final = 20
STARTED: Final = datetime(2023, 1, 1, tzinfo=UTC)
QUESTION: Final = "When did Ann tell me about the wedding in May 2023?"


def unit(random: np.random.Generator, count: int) -> NDArray[np.float32]:
    """`count` random directions, shape (count, DIMENSION)."""
    vectors = random.normal(size=(count, DIMENSION)).astype(np.float32)
    directions: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return directions


def rows(count: int, *, seed: int = 7) -> Iterator[SearchRow]:
    """Rows of one thread, one every ten minutes."""
    random = np.random.default_rng(seed)
    vectors = unit(random, count).astype(np.float16)
    for number in range(count):
        words = random.zipf(1.2, WORDS) % VOCABULARY
        terms: dict[str, int] = {}
        for word in words.tolist():
            terms[f"w{word}"] = terms.get(f"w{word}", 0) + 1
        yield SearchRow(
            turn_id=f"{number:08d}",
            user_id="user",
            thread_id="thread",
            seq=number + 1,
            role="user" if number % 2 else "assistant",
            timestamp=STARTED + timedelta(minutes=10 * number),
            vectors=vectors[number : number + 1],
            terms=terms,
            length=WORDS,
            embedder="made up",
            language="english",
            session_id=f"session {number // SESSION}",
            speaker="Ann" if number % 2 else "Bob",
            signs=TurnFeatures.unpacked(number % 64),
            index_seq=number + 1,
        )


def search(index: ResidentIndex, asked: AnalysedQuery) -> None:
    """The first stage of one search."""
    scored = index.score(asked, where=RowFilter(thread_id="thread"))
    scores = fuse(normalised(scored.values), DEFAULT_WEIGHTS)
    behind_repeats(best_first(scores), scored.turn_ids, index, most=100)


def measure(size: int, searches: int) -> dict[str, Any]:
    """The figures of one size."""
    made = list(rows(size + 100))
    index = ResidentIndex(embedder="made up")
    began = time.perf_counter()
    index.extend(made[:size])
    filled = time.perf_counter() - began
    random = np.random.default_rng(1)
    question = read_question(QUESTION, known=("Ann", "Bob"))
    spans = time_spans(QUESTION, now=STARTED + timedelta(days=400))
    times = []
    for _ in range(searches):
        query, gist = unit(random, 2)
        terms = [f"w{word}" for word in (random.zipf(1.2, 8) % VOCABULARY).tolist()]
        asked = AnalysedQuery(
            question=question, terms=list(dict.fromkeys(terms)), query=query, gist=gist, spans=spans
        )
        began = time.perf_counter()
        search(index, asked)
        times.append(time.perf_counter() - began)
    one_more = []
    for row in made[size:]:
        began = time.perf_counter()
        index.extend([row])
        one_more.append(time.perf_counter() - began)
    return {
        "turns": size,
        "search": percentiles(times),
        "fill_ms_per_row": round(1_000 * filled / size, 4),
        "one_more_row_ms": round(1_000 * float(np.median(one_more)), 4),
        "index_mb": round(index.nbytes / 1e6, 1),
    }


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="turns of the user")
    parser.add_argument("--searches", type=int, default=100, help="at each size (default %(default)s)")
    arguments = parser.parse_args()
    report = {
        "machine": machine(),
        "sizes": [measure(size, arguments.searches) for size in arguments.sizes],
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
