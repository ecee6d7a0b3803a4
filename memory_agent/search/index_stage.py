"""The index stage: a search row in the document store for each turn, and what large users' candidates come from.

Idempotent: all is put by the turn's id. A turn that has a row already (its vectors failed to reach the vector
index, or that is being rebuilt) is not embedded again, unless another model made its vectors; the rest of the row is
made anew if other rules made its terms.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.concurrency import together
from memory_agent.domain import Scope, SearchRow
from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.ports import ahead_by, known_scripts, tokens_by
from memory_agent.search.late_interaction import is_readable, packed, word_vectors
from memory_agent.search.user_index import unread
from memory_agent.text.corrections import features_of
from memory_agent.text.terms import count_terms, made_with
from memory_agent.text.times import told_days
from memory_agent.text.writing import MULTILINGUAL, is_read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import Entity, Turn
    from memory_agent.ports import Clock, DocumentStore, Embedder
    from memory_agent.search.candidates import CandidateKeeper
    from memory_agent.search.entities import EntitySpotter
    from memory_agent.search.filler import VectorFiller


async def embedded_by(
    turns: Sequence[Turn], embedder: Embedder, *, ahead: Sequence[Turn] = ()
) -> dict[str, tuple[NDArray[np.float32], bytes]]:
    """The vectors of each turn's passages, shape (passages, dimension), and the codes of its first tokens, by turn id.

    `ahead`: turns that will be asked for next. Where the embedder takes them, it is at them while these here are made use of.
    """
    if not turns:
        return {}
    passages = await _passages(turns, embedder)
    flat = [passage for of_turn in passages for passage in of_turn]
    if ahead and (embed_ahead := ahead_by(embedder)):
        with contextlib.suppress(EmbedderError, EmbedderUnavailable):  # told once it is their turn
            later = [passage for of_turn in await _passages(ahead, embedder) for passage in of_turn]
            # Once those that are waited for are admitted.
            asyncio.get_running_loop().call_soon(embed_ahead, later)
    vectors = await embedder.embed(flat, purpose="document")
    cuts = np.cumsum([len(of_turn) for of_turn in passages])[:-1]
    codes = await _codes([of_turn[0] for of_turn in passages], embedder)
    return {
        turn.id: (of_turn, code)
        for turn, of_turn, code in zip(turns, np.split(vectors, cuts), codes, strict=True)
    }


async def _passages(turns: Sequence[Turn], embedder: Embedder) -> list[list[str]]:
    return await together(*(embedder.split(turn.searchable_text) for turn in turns))


async def _codes(texts: Sequence[str], embedder: Embedder) -> list[bytes]:
    """The packed token vectors of each text, which were made with its vector; none if the model has none."""
    tokens = await tokens_by(embedder, texts, purpose="document")
    if tokens is None:
        return [b""] * len(texts)
    read = known_scripts(embedder)

    def work() -> list[bytes]:
        return [
            packed(word_vectors(text, of_text)) if is_read(text, read) else b""
            for text, of_text in zip(texts, tokens, strict=True)
        ]

    return await asyncio.to_thread(work)


log = logging.getLogger(__name__)

_LOOKED_EVERY: Final = 50
"""So many turns of a thread on, its language is looked at."""


class Indexer:
    """Makes turns searchable."""

    def __init__(
        self,
        store: DocumentStore,
        candidates: CandidateKeeper,
        filler: VectorFiller | None,
        embedder: Embedder,
        clock: Clock,
        spotter: EntitySpotter,
        *,
        language: str,
    ) -> None:
        self._spotter = spotter
        self._store = store
        self._candidates, self._filler = candidates, filler
        self._embedder = embedder
        self._clock = clock
        self._language = language

    @property
    def looks_ahead(self) -> bool:
        """True if the embedder takes turns that will come next."""
        return ahead_by(self._embedder) is not None

    async def index(self, turns: Sequence[Turn], ahead: Sequence[Turn] = ()) -> None:
        """Index turns of any users and threads, embedding them in one go. `ahead`: those that will come next.

        The rows are written before the vectors, so that while the vector index is away search still has them. Raises
        ModelNotFound while there is no embedding model; then nothing was written.
        """
        # Beside the event loop, for it may have to look for its model first.
        await asyncio.to_thread(lambda: self._embedder.fingerprint)
        embedded: dict[str, SearchRow] = {}
        for found in await together(*(self._embedded(*each) for each in _by_user(turns).items())):
            embedded |= found
        language = made_with(self._language)
        rows = {turn_id: row for turn_id, row in embedded.items() if row.language == language}
        # Where some have vectors already a memory is rebuilt, and those that come next have them as well.
        ahead = () if embedded else ahead
        named = dict(zip((turn.id for turn in turns), await self._spotter.of_turns(turns), strict=True))
        new = await self._make_rows([turn for turn in turns if turn.id not in rows], named, embedded, ahead)
        new |= _renamed(named, rows)
        turns = await self._alive(turns)
        rows |= new
        users = _by_user(turns)
        await together(*(self._put(*each, new, named) for each in users.items()))
        # Only now, for what begins before the rows are there finds them.
        await together(
            *(
                self._candidates.take(user_id, [rows[turn.id] for turn in of])
                for user_id, of in users.items()
            ),
            *([self._filler.want(users)] if self._filler and users else []),
        )
        for user_id in {turn.user_id for turn in turns if turn.seq % _LOOKED_EVERY == 0 and turn.id in new}:
            await self._warn_of_language(Scope(user_id=user_id))

    async def _warn_of_language(self, scope: Scope) -> None:
        # Of scripts says so whoever reads the user's rows into memory; they hold no whole words, from which a language is told.
        _, language = await unread(self._store, scope, self._embedder)
        if language:
            log.warning(
                "a user's newest turns are in a language (%s) of which the embedding model hardly knows a word; %s",
                language,
                MULTILINGUAL,
            )

    async def _put(
        self,
        user_id: str,
        turns: Sequence[Turn],
        new: Mapping[str, SearchRow],
        named: Mapping[str, tuple[Entity, ...]],
    ) -> None:
        """Put the new rows among those of a user's turns, and say what the turns name where they don't yet."""
        otherwise = {turn.id: named[turn.id] for turn in turns if turn.entities != named[turn.id]}
        await self._store.name_entities(user_id, otherwise)
        if fresh := [new[turn.id] for turn in turns if turn.id in new]:
            await self._store.put_search_rows(user_id, fresh, now=self._clock.now())

    async def _embedded(self, user_id: str, turns: Sequence[Turn]) -> dict[str, SearchRow]:
        """The rows of a user's turns that have the embedder's vectors already."""
        stored = await self._store.search_rows(user_id, ids=[turn.id for turn in turns])
        made_by = self._embedder.fingerprint
        return await self._with_tokens(
            user_id, [row for row in stored if not row.erased and row.embedder == made_by]
        )

    async def _with_tokens(self, user_id: str, rows: Sequence[SearchRow]) -> dict[str, SearchRow]:
        """Rows as they were put, by turn id: stores read them without their tokens. None that lacks tokens which it shall have."""
        if not rows:
            return {}
        ids = [row.turn_id for row in rows]
        stored = await self._store.token_codes(user_id, ids, embedder=self._embedder.fingerprint)
        codes = {turn_id: kept for turn_id, kept in stored.items() if is_readable(kept)}
        whole = {row.turn_id: replace(row, tokens=codes.get(row.turn_id, b"")) for row in rows}
        if len(codes) == len(rows):
            return whole
        if await tokens_by(self._embedder, [], purpose="document") is None:
            return whole
        return {turn_id: row for turn_id, row in whole.items() if row.tokens}

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
        named: Mapping[str, tuple[Entity, ...]],
        embedded: Mapping[str, SearchRow],
        ahead: Sequence[Turn],
    ) -> dict[str, SearchRow]:
        """New rows of these turns, by turn id; one that `embedded` has a row of keeps its vectors."""
        fresh = [turn for turn in turns if turn.id not in embedded]
        # Not beside the embedding: for a whole batch that would keep the interpreter from whoever writes or asks meanwhile.
        made = await embedded_by(fresh, self._embedder, ahead=ahead)
        read = await asyncio.to_thread(
            lambda: [
                (
                    count_terms(turn.searchable_text, self._language),
                    features_of(turn.said),
                    told_days(turn.said, turn.local_time),
                )
                for turn in turns
            ]
        )
        made |= {row.turn_id: (row.vectors, row.tokens) for row in embedded.values()}
        return {
            turn.id: SearchRow.of(
                turn,
                words,
                named[turn.id],
                features,
                days,
                vectors=made[turn.id][0],
                tokens=made[turn.id][1],
                embedder=self._embedder.fingerprint,
                language=made_with(self._language),
            )
            for turn, (words, features, days) in zip(turns, read, strict=True)
        }


def _renamed(named: Mapping[str, tuple[Entity, ...]], rows: Mapping[str, SearchRow]) -> dict[str, SearchRow]:
    """Rows whose turns name other entities by now, for the dictionary changed; not embedded again."""
    changed = {}
    for turn_id, row in rows.items():
        words = {term: count for term, count in row.terms.items() if not term.startswith("@")}
        terms = words | {entity.term: 1 for entity in named[turn_id]}
        if terms.keys() != row.terms.keys():
            changed[turn_id] = replace(row, terms=terms)
    return changed


def _by_user(turns: Sequence[Turn]) -> dict[str, list[Turn]]:
    grouped: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        grouped[turn.user_id].append(turn)
    return grouped
