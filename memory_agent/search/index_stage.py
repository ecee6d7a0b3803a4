"""The index stage: a search row in the document store for each turn, and what large users' candidates come from.

Idempotent: all is put by the turn's id. A turn that has a row already (its vectors failed to reach the vector
index, or that is being rebuilt) is not embedded again, unless another model made its vectors; the rest of the row is
made anew if other rules made its terms.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from memory_agent.domain import Scope, SearchRow
from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.ports import ahead_by, tokens_by
from memory_agent.search.embedding import embedded as embedded_by
from memory_agent.search.embedding import next_vectors
from memory_agent.search.row_scripts import unread
from memory_agent.text.features import features_of
from memory_agent.text.terms import count_terms, made_with
from memory_agent.text.writing import MULTILINGUAL
from memory_agent.together import together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memory_agent.domain import EmbedderMigration, NextVectors, Turn
    from memory_agent.ports import Clock, DocumentStore, Embedder
    from memory_agent.search.candidates import CandidateKeeper
    from memory_agent.search.embedders import Embedders
    from memory_agent.search.entities import EntitySpotter

log = logging.getLogger(__name__)

_LOOKED_EVERY: Final = 50
"""So many turns of a thread on, its language is looked at."""


class Indexer:
    """Makes turns searchable."""

    def __init__(
        self,
        store: DocumentStore,
        candidates: CandidateKeeper,
        embedders: Embedders,
        clock: Clock,
        spotter: EntitySpotter,
        *,
        language: str,
    ) -> None:
        self._spotter = spotter
        self._store = store
        self._candidates = candidates
        self._embedders = embedders
        self._clock = clock
        self._language = language

    @property
    def looks_ahead(self) -> bool:
        """True if the embedder takes turns that will come next."""
        return ahead_by(self._embedders.current) is not None

    async def index(self, turns: Sequence[Turn], ahead: Sequence[Turn] = ()) -> None:
        """Index turns of any users and threads, embedding them in one go. `ahead`: those that will come next.

        The rows are written before the vectors, so that while the vector index is away search still has them. Raises
        ModelNotFound while there is no embedding model; then nothing was written.
        """
        await self._embedders.refresh()
        # The same ones throughout, though a move to another model may end meanwhile: a row says whose its vectors are.
        models = _Models(self._embedders.current, self._embedders.next)
        # Beside the event loop, for it may have to look for its model first.
        await asyncio.to_thread(lambda: models.own.fingerprint)
        embedded: dict[str, SearchRow] = {}
        for found in await together(*(self._embedded(*each, models.own) for each in _by_user(turns).items())):
            embedded |= found
        language = made_with(self._language)
        rows = {turn_id: row for turn_id, row in embedded.items() if row.language == language}
        # Where some have vectors already a memory is rebuilt, and those that come next have them as well.
        ahead = () if embedded else ahead
        new = await self._make_rows([turn for turn in turns if turn.id not in rows], embedded, models, ahead)
        new |= await self._renamed([turn for turn in turns if turn.id in rows], rows)
        turns = await self._alive(turns)
        rows |= new
        users = _by_user(turns)
        await together(*(self._put(*each, new) for each in users.items()))
        # Only now, for what begins before the rows are there finds them.
        migration, *_ = await together(
            self._embedders.refresh(),
            *(
                self._candidates.take(user_id, [rows[turn.id] for turn in of])
                for user_id, of in users.items()
            ),
        )
        for user_id in {turn.user_id for turn in turns if turn.seq % _LOOKED_EVERY == 0 and turn.id in new}:
            await self._warn_of_language(Scope(user_id=user_id))
        if migration is not None:
            await self._keep_up(migration, [rows[turn.id] for turn in turns], turns)

    async def _keep_up(
        self, migration: EmbedderMigration, rows: Sequence[SearchRow], turns: Sequence[Turn]
    ) -> None:
        """Do with these rows what a move to another model, which has gone on meanwhile, did with all others."""
        target = migration.target.fingerprint
        lacking = {row.turn_id: row.user_id for row in rows if row.vectors_by(target) is None}
        if migration.phase == "moving":
            # Moved already, they go back to the old vectors until that is mended.
            for user_id in sorted({*lacking.values()}):
                await self._store.set_vector_pointer(user_id, "", now=self._clock.now())
            return
        for user_id in sorted({row.user_id for row in rows}):
            await self._end_move(user_id, [row for row in rows if row.user_id == user_id])
        made_by, now = {row.embedder for row in rows}, self._embedders.known_fingerprint
        if lacking and now == target and now not in made_by:
            await self.index([turn for turn in turns if turn.id in lacking])

    async def _end_move(self, user_id: str, rows: Sequence[SearchRow]) -> bool:
        """Let vectors of a move that ends go, or be the rows' own; whether there were any."""
        migration = self._embedders.migration
        if migration is None or migration.phase == "moving" or all(row.next is None for row in rows):
            return False
        if migration.phase in ("finishing", "finished"):
            await self._store.adopt_next_vectors(user_id, migration.target.fingerprint)
        else:
            await self._store.drop_next_vectors(user_id)
        return True

    async def _warn_of_language(self, scope: Scope) -> None:
        # Of scripts says so whoever reads the user's rows into memory; they hold no whole words, from which a language is told.
        _, language = await unread(self._store, scope, self._embedders.current)
        if language:
            log.warning(
                "a user's newest turns are in a language (%s) of which the embedding model hardly knows a word; %s",
                language,
                MULTILINGUAL,
            )

    async def _put(self, user_id: str, turns: Sequence[Turn], new: Mapping[str, SearchRow]) -> None:
        """Put the new rows among those of a user's turns."""
        if fresh := [new[turn.id] for turn in turns if turn.id in new]:
            await self._store.put_search_rows(user_id, fresh, now=self._clock.now())

    async def _embedded(
        self, user_id: str, turns: Sequence[Turn], embedder: Embedder
    ) -> dict[str, SearchRow]:
        """The rows of a user's turns that have this embedder's vectors already."""
        ids = [turn.id for turn in turns]
        stored = await self._store.search_rows(user_id, ids=ids)
        if await self._end_move(user_id, stored):  # of a process that died before it
            stored = await self._store.search_rows(user_id, ids=ids)
        seen = [row.seen_by(embedder.fingerprint) for row in stored]
        rows = [row for row in seen if not row.erased and row.embedder == embedder.fingerprint]
        return await self._with_tokens(user_id, rows, embedder)

    async def _with_tokens(
        self, user_id: str, rows: Sequence[SearchRow], embedder: Embedder
    ) -> dict[str, SearchRow]:
        """Rows as they were put, by turn id: stores read them without their tokens. None that lacks tokens which it shall have."""
        if not rows:
            return {}
        ids = [row.turn_id for row in rows]
        codes = await self._store.token_codes(user_id, ids, embedder=embedder.fingerprint)
        whole = {row.turn_id: replace(row, tokens=codes.get(row.turn_id, b"")) for row in rows}
        others = [row.next.embedder for row in rows if row.next is not None]
        for other in sorted({*others}):
            beside = await self._store.token_codes(user_id, ids, embedder=other)
            for turn_id, row in whole.items():
                if row.next is not None and row.next.embedder == other:
                    whole[turn_id] = replace(row, next=replace(row.next, tokens=beside.get(turn_id, b"")))
        if len(codes) == len(rows):
            return whole
        if await tokens_by(embedder, [], purpose="document") is None:
            return whole
        return {turn_id: row for turn_id, row in whole.items() if row.tokens}

    async def _renamed(self, turns: Sequence[Turn], rows: Mapping[str, SearchRow]) -> dict[str, SearchRow]:
        """Rows whose turns name other entities by now, for the dictionary changed; not embedded again."""
        changed = {}
        for turn, entities in zip(turns, await self._spotter.of_turns(turns), strict=True):
            row = rows[turn.id]
            words = {term: count for term, count in row.terms.items() if not term.startswith("@")}
            terms = words | {entity.term: 1 for entity in entities}
            if terms.keys() != row.terms.keys():
                changed[turn.id] = replace(row, terms=terms)
        return changed

    async def _alive(self, turns: Sequence[Turn]) -> list[Turn]:
        """Those that were not forgotten while they were embedded: nothing is put back for the others."""
        by_user = _by_user(turns).items()
        stored = await together(
            *(
                self._store.list_turns(Scope(user_id=user_id), ids=[turn.id for turn in of_user])
                for user_id, of_user in by_user
            )
        )
        alive = {turn.id for of_user in stored for turn in of_user}
        return [turn for turn in turns if turn.id in alive]

    async def _make_rows(
        self,
        turns: Sequence[Turn],
        embedded: Mapping[str, SearchRow],
        models: _Models,
        ahead: Sequence[Turn],
    ) -> dict[str, SearchRow]:
        """New rows of these turns, by turn id; one that `embedded` has a row of keeps its vectors."""
        fresh = [turn for turn in turns if turn.id not in embedded]
        # Not beside the embedding: for a whole batch that would keep the interpreter from whoever writes or asks meanwhile.
        made = await embedded_by(fresh, models.own, ahead=ahead)
        read = await asyncio.to_thread(
            lambda: [
                (count_terms(turn.searchable_text, self._language), features_of(turn.content))
                for turn in turns
            ]
        )
        named = await self._spotter.of_turns(turns)
        beside = await self._next_vectors(fresh, models.next) | {
            turn_id: row.next for turn_id, row in embedded.items()
        }
        made |= {row.turn_id: (row.vectors, row.tokens) for row in embedded.values()}
        return {
            turn.id: SearchRow.of(
                turn,
                words,
                entities,
                features,
                vectors=made[turn.id][0],
                tokens=made[turn.id][1],
                embedder=models.own.fingerprint,
                language=made_with(self._language),
                next=beside.get(turn.id),
            )
            for turn, (words, features), entities in zip(turns, read, named, strict=True)
        }

    async def _next_vectors(
        self, turns: Sequence[Turn], embedder: Embedder | None
    ) -> dict[str, NextVectors | None]:
        """By turn id, while users are moved to another model. None of those where that one fails: they are caught up with later."""
        if embedder is None or not turns:
            return {}
        try:
            return {**await next_vectors(turns, embedder)}
        except (EmbedderUnavailable, EmbedderError) as exc:
            log.warning(
                "%d turns have no vectors of the model that the memory moves to yet: %s", len(turns), exc
            )
            return {}


class _Models(NamedTuple):
    """The embedding models that a batch is indexed with."""

    own: Embedder
    next: Embedder | None
    """The one that users are being moved to."""


def _by_user(turns: Sequence[Turn]) -> dict[str, list[Turn]]:
    grouped: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        grouped[turn.user_id].append(turn)
    return grouped
