"""Difference of the results of two embedding models, on turns of a memory that has the vectors of both."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.domain import MigrationReport, Scope
from memory_agent.errors import NotFound
from memory_agent.search.request import RowFilter, SearchRequest
from memory_agent.search.vectors import Vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memory_agent.domain import SearchRow, Turn
    from memory_agent.ports import DocumentStore, Embedder
    from memory_agent.search.embedders import Embedders
    from memory_agent.search.search import Searcher

_TOP: Final = 10
_RARE_WORDS: Final = 4
_LEAST_WORDS: Final = 8
"""A turn of fewer different words is no question that tells models apart."""
_EACH_USER: Final = 10
_ROWS: Final = 5_000
"""Rows of a user that are compared; of a larger one the oldest."""


async def compare(
    store: DocumentStore,
    embedders: Embedders,
    searcher_by: Callable[[str], Searcher],
    *,
    questions: int,
) -> MigrationReport:
    """See `MigrationReport`. Raises NotFound while no user is moved."""
    migration = await embedders.refresh()
    both = [] if migration is None else [migration.source.fingerprint, migration.target.fingerprint]
    models = [embedders.by(each) for each in both]
    if migration is None or migration.phase != "moving" or None in models:
        raise NotFound(
            "there is no move to another embedding model under way, so there is nothing to compare"
        )
    searchers = [searcher_by(each) for each in both]
    overlaps: list[float] = []
    found: list[list[bool]] = [[], []]
    after = ""
    while len(overlaps) < questions and (page := await store.stored_users(after=after, limit=100)):
        after = page[-1]
        for user_id in page:
            if len(overlaps) >= questions or await store.vector_pointer(user_id) != both[1]:
                continue
            rows = [row for row in await store.search_rows(user_id, limit=_ROWS) if not row.erased]
            sample = _sample(rows, min(_EACH_USER, questions - len(overlaps)))
            turns = await store.list_turns(Scope(user_id=user_id), ids=[row.turn_id for row in sample])
            overlaps += [await _overlap(searchers, turn) for turn in turns]
            for at, (fingerprint, embedder) in enumerate(zip(both, models, strict=True)):
                if embedder is not None and sample:
                    found[at] += await _found(rows, sample, fingerprint, embedder)
    if not overlaps:
        raise NotFound("no user with enough turns to compare is moved yet")
    return MigrationReport(
        questions=len(overlaps),
        overlap=float(np.mean(overlaps)),
        found_by_source=float(np.mean(found[0])),
        found_by_target=float(np.mean(found[1])),
    )


def _sample(rows: Sequence[SearchRow], most: int) -> list[SearchRow]:
    """So many of the user's own turns of some length, evenly spread."""
    asked = [row for row in rows if row.role == "user" and len(row.terms) >= _LEAST_WORDS]
    step = max(1, len(asked) // max(most, 1))
    return asked[::step][:most]


async def _overlap(searchers: Sequence[Searcher], turn: Turn) -> float:
    """The share of the first results that both agree on, the turn itself left out."""
    request = SearchRequest(
        scope=Scope(user_id=turn.user_id),
        query=turn.content,
        top_k=_TOP + 1,
        where=RowFilter(),
        now=datetime.now(UTC),
    )
    answers = [await searcher.search(request) for searcher in searchers]
    first, second = (
        [found.turn.id for found in answer.recollections if found.turn.id != turn.id][:_TOP]
        for answer in answers
    )
    return len({*first} & {*second}) / max(len(first), len(second), 1)


async def _found(
    rows: Sequence[SearchRow], sample: Sequence[SearchRow], fingerprint: str, embedder: Embedder
) -> list[bool]:
    """Whether each of the sampled turns is among the nearest of the user's to its own rarest words."""
    frequency: dict[str, int] = {}
    for row in rows:
        for term in row.terms:
            frequency[term] = frequency.get(term, 0) + 1
    questions = [
        " ".join(
            sorted((term for term in row.terms if term[:1] != "@"), key=lambda t: (frequency[t], t))[
                :_RARE_WORDS
            ]
        )
        for row in sample
    ]
    asked = await embedder.embed(questions, purpose="query")
    places = {row.turn_id: at for at, row in enumerate(rows)}
    vectors = Vectors(0)
    for row in rows:
        vectors.add(row.vectors_by(fingerprint), before=-1)
    every = np.arange(len(rows))
    nearest = [np.nan_to_num(vectors.nearest(vector, every), nan=-1.0) for vector in asked]
    return [
        bool((cosines > cosines[places[row.turn_id]]).sum() < _TOP)
        for row, cosines in zip(sample, nearest, strict=True)
    ]
