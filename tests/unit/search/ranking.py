"""Search rows made up, and what they are scored by, worked out by loops."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from memory_agent.domain import SearchRow
from memory_agent.search.fusion import K1, B
from memory_agent.search.postings import CollectionStatistics
from memory_agent.search.request import AnalysedQuery
from memory_agent.stores.codec import pack_vectors, unpack_vectors
from memory_agent.text.question import Question

Floats = NDArray[np.float32]

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
WORDS: Final = ["apple", "bear", "cloud", "door", "egg", "@people:Ann"]
DIMENSION: Final = 8


def unit(values: Floats) -> Floats:
    scaled: Floats = values / np.linalg.norm(values, axis=-1, keepdims=True)
    return scaled.astype(np.float32)


def a_vector(seed: int) -> Floats:
    """A direction that follows from `seed`."""
    return unit(np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32))


def make_row(
    number: int, *, passages: int = 1, terms: dict[str, int] | None = None, thread: str = "t", **fields: Any
) -> SearchRow:
    """A row whose vectors follow from its number, which is its `seq`, too; `fields` are those of SearchRow."""
    terms = terms or {}
    vectors = np.random.default_rng(number).normal(size=(passages, DIMENSION)).astype(np.float32)
    values: dict[str, Any] = {
        "turn_id": f"turn{number}",
        "user_id": "u",
        "thread_id": thread,
        "seq": number,
        "role": "user",
        "timestamp": START + timedelta(hours=number),
        "vectors": unpack_vectors(*pack_vectors(unit(vectors))) if passages else np.empty((0, 0), np.float32),
        "terms": terms,
        "length": sum(count for term, count in terms.items() if term[:1] != "@"),
        "embedder": "model",
        "language": "english",
        "index_seq": number + 1,
    }
    return SearchRow(**(values | fields))


def asked(terms: Sequence[str] = (), *, kinds: Any = (), spans: Any = (), **fields: Any) -> AnalysedQuery:
    """A question for `terms`; `fields`: its vectors and `with_assistant`, or fields of Question."""
    own = ("query", "gist", "with_assistant", "script")
    vectors = {name: fields.pop(name) for name in own if name in fields}
    told: dict[str, Any] = {"persons": (), "about_user": False, "about_assistant": False}
    question = Question(kinds=frozenset(kinds), **(told | fields))
    return AnalysedQuery(question=question, terms=terms, spans=spans, **vectors)


@st.composite
def _some_rows(draw: st.DrawFn) -> list[SearchRow]:
    told = draw(
        st.lists(
            st.tuples(
                st.sampled_from("ab"),
                st.sampled_from([None, "s1", "s2"]),
                st.integers(0, 3),
                st.dictionaries(st.sampled_from(WORDS), st.integers(1, 4), max_size=4),
            ),
            min_size=1,
            max_size=20,
        )
    )
    rows = [
        make_row(number, passages=passages, terms=terms, thread=thread, session_id=session)
        for number, (thread, session, passages, terms) in enumerate(told)
    ]
    return draw(st.permutations(rows))


some_rows: Final = _some_rows()
"""Rows of two threads and some sessions, in any order; with several passages or without vectors."""

some_terms: Final = st.lists(st.sampled_from([*WORDS, "nowhere"]), unique=True)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The signals of one row. NaN: none."""

    words: float
    around: float
    session: float
    similarity: float
    meaning: float
    meaning_around: float


def before_of(row: SearchRow, rows: Sequence[SearchRow], *, whole: bool = True) -> SearchRow | None:
    """The row with the next lower `seq` of the thread, if it is of the same session; numbered next to it if not `whole`."""
    earlier = [other for other in rows if other.thread_id == row.thread_id and other.seq < row.seq]
    before = max(earlier, key=lambda other: other.seq, default=None)
    if before is None or before.session_id != row.session_id or not (whole or before.seq == row.seq - 1):
        return None
    return before


def reference(
    rows: Sequence[SearchRow],
    terms: Sequence[str],
    query: Floats,
    gist: Floats,
    *,
    statistics: CollectionStatistics | None = None,
    whole: bool = True,
) -> dict[str, Reference]:
    """What each row is scored by, by turn id. `statistics`: of the whole collection, if `rows` are some of it (not `whole`)."""
    before = {row.turn_id: before_of(row, rows, whole=whole) for row in rows}
    after = {other.turn_id: row for row in rows if (other := before[row.turn_id]) is not None}
    turns = {row.turn_id: [row] for row in rows}
    windows = {
        row.turn_id: [one for one in (before[row.turn_id], row, after.get(row.turn_id)) if one is not None]
        for row in rows
    }
    sessions: dict[Any, list[SearchRow]] = {}
    for row in rows:
        sessions.setdefault((row.thread_id, row.session_id), []).append(row)
    frequency = Counter(term for row in rows for term in row.terms)
    in_sessions = Counter(
        term for held in sessions.values() for term in {t for row in held for t in row.terms}
    )
    count, mean = len(rows), None
    if statistics is not None:
        count, mean, frequency = statistics.rows, statistics.mean_length, Counter(statistics.frequency)
    words = bm25(turns, terms, count, frequency, mean=mean)
    around = bm25(windows, terms, count, frequency)
    by_session = bm25(sessions, terms, len(sessions), in_sessions)
    answer = {}
    for row in rows:
        own = row.vectors.astype(np.float32)
        of_session = by_session[row.thread_id, row.session_id] if len(sessions) > 1 else 0.0
        answer[row.turn_id] = Reference(
            words=words[row.turn_id],
            around=around[row.turn_id],
            session=of_session,
            similarity=max((float(vector @ query) for vector in own), default=math.nan),
            meaning=max((float(vector @ gist) for vector in own), default=math.nan),
            meaning_around=cosine_around(row, before[row.turn_id], gist),
        )
    return answer


def bm25(
    documents: dict[Any, list[SearchRow]],
    terms: Sequence[str],
    count: int,
    frequency: Counter[str],
    *,
    mean: float | None = None,
) -> dict[Any, float]:
    """BM25 of each document (rows taken together) for `terms`, each held by `frequency` of `count`.

    `mean`: words of a document; as these have, if not given.
    """
    length = {name: sum(row.length for row in rows) for name, rows in documents.items()}
    mean = max(mean or sum(length.values()) / len(length), 1e-9)
    scores = dict.fromkeys(documents, 0.0)
    for name, rows in documents.items():
        for term in terms:
            held = sum(row.terms.get(term, 0) for row in rows)
            if held:
                idf = math.log(1 + (count - frequency[term] + 0.5) / (frequency[term] + 0.5))
                scores[name] += idf * held * (K1 + 1) / (held + K1 * (1 - B + B * length[name] / mean))
    return scores


def cosine_around(row: SearchRow, before: SearchRow | None, gist: Floats) -> float:
    """The highest cosine of `gist` with a passage of `row`, with it, and with the sum of its and `before`'s directions."""
    own = direction(row)
    if own is None:
        return math.nan
    other = None if before is None else direction(before)
    together = own if other is None else unit(own + other)
    best = max(float(passage @ gist) for passage in row.vectors.astype(np.float32))
    return max(best, float(own @ gist), float(together @ gist))


def direction(row: SearchRow) -> Floats | None:
    """The mean of its passages at unit length."""
    return unit(row.vectors.astype(np.float32).mean(axis=0)) if len(row.vectors) else None
