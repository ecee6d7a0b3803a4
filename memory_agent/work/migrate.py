"""The move of a memory to another embedding model, user by user, in the background.

A user's rows get vectors of the new model beside their own. When all have them, the user's pointer is set, and from then on the
user is searched by the new ones alone: wholly by the one or wholly by the other at any moment. Nothing of the old ones
goes before `finish`. Each step is idempotent, and what is left to do is read from the rows, so that a kill costs one batch.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memory_agent.domain import EmbedderMigration, MigrationPlan, NextVectors, Scope
from memory_agent.errors import EmbedderError, InvalidInput, NotFound, StoreUnavailable, Unavailable
from memory_agent.search.candidates import passages_of
from memory_agent.search.embedding import next_vectors
from memory_agent.together import together

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import timedelta

    from memory_agent.domain import EmbedderModel, Turn
    from memory_agent.ports import Clock, DocumentStore, Embedder
    from memory_agent.search.embedders import Embedders

log = logging.getLogger(__name__)

_LEASE: Final = "embedder migration"
_BATCH_TURNS: Final = 64
_USERS: Final = 200
"""Users looked at side by side, and taken back or finished in one step."""
_LOOK_AGAIN_SECONDS: Final = 5.0
"""After which users that came since are looked for; longer where a look takes long."""
_LOOKS_COST: Final = 20.0
_LONGEST_REST_SECONDS: Final = 1.0
_STATE_TRIES: Final = 100
_TRY_AGAIN_SECONDS: Final = 0.1
_SAMPLED_USERS: Final = 8
_SAMPLED_TURNS: Final = 8


class Migrator:
    """Moves users to another embedding model while they are searched and written to."""

    def __init__(
        self,
        store: DocumentStore,
        embedders: Embedders,
        clock: Clock,
        *,
        lease: timedelta,
    ) -> None:
        self._store, self._embedders, self._clock = store, embedders, clock
        self._lease = lease
        self._waiting: list[str] = []
        self._known = 0
        self._after = ""
        self._ended = 0
        self._look_at = 0.0

    # --- what an operator asks for ---------------------------------------------------------------------------
    async def state(self) -> EmbedderMigration | None:
        """The move that is under way, or the last one; None if there was none."""
        return await self._embedders.progress()

    async def plan(self, name: str, settings: Mapping[str, Any]) -> MigrationPlan:
        """Estimate what a move to this model would take; nothing is changed. Raises InvalidInput for the model that the memory has."""
        target, embedder = await self._target(name, settings)
        users = await all_users(self._store)
        turns = (await self._store.status(None, now=self._clock.now())).turns
        sample: list[Turn] = []
        for user_id in users[:_SAMPLED_USERS]:
            sample += await self._store.list_turns(Scope(user_id=user_id), limit=_SAMPLED_TURNS, newest=True)
        await embedder.embed(["."], purpose="document")  # it is loaded by then
        began = time.perf_counter()
        made = await next_vectors(sample, embedder)
        took = time.perf_counter() - began
        size = sum(each.vectors.size + len(each.vectors) * 4 + len(each.tokens) for each in made.values())
        each = turns / max(len(sample), 1)
        return MigrationPlan(
            source=await self._source(),
            target=target,
            users=len(users),
            turns=turns,
            seconds=2 * took * each,  # it rests as long as it works
            disk_bytes=round(size * each),
        )

    async def start(self, name: str, settings: Mapping[str, Any]) -> EmbedderMigration:
        """Begin the move, which goes on in the background, or go on with the one that is under way to this model.

        Raises InvalidInput for the model that the memory has, and while a move to another one is under way.
        """
        target, _ = await self._target(name, settings)
        async with self._alone():
            now = await self._embedders.refresh()
            if now is not None and not now.is_over:
                if now.phase == "moving" and now.target.fingerprint == target.fingerprint:
                    return now
                raise InvalidInput(_under_way(now, target))
            left = frozenset() if now is None else now.left_with_it
            begun = EmbedderMigration(
                source=await self._source(),
                target=target,
                phase="moving",
                started_at=self._clock.now(),
                left=tuple(sorted(left - {target.fingerprint})),
            )
            await self._put(begun)
        return begun

    async def roll_back(self) -> EmbedderMigration:
        """Let everybody be searched by the old vectors again, user by user in the background, and the new ones be dropped.

        Raises InvalidInput if the move was finished, NotFound if there was none.
        """
        async with self._alone():
            migration = await self._needed()
            if migration.phase in ("finishing", "finished"):
                raise InvalidInput(
                    f"the move to {migration.target.name} was finished, and the vectors of {migration.source.name} are gone;"
                    f" `memory-agent embedder migrate --to {migration.source.name}` moves back"
                )
            if migration.phase == "moving":
                await self._put(replace(migration, phase="back"))
        return replace(migration, phase="back") if migration.phase == "moving" else migration

    async def finish(self) -> EmbedderMigration:
        """End the move: the old vectors are dropped, in the background.

        Raises InvalidInput while users are left to be moved, or if it was rolled back; NotFound if there was none.
        """
        async with self._alone():
            migration = await self._needed()
            if migration.phase in ("back", "rolled back"):
                raise InvalidInput(
                    f"the move to {migration.target.name} was rolled back; there is none to finish"
                )
            if migration.phase == "moving":
                left = [
                    each for each in await all_users(self._store) if not await self._is_whole(each, migration)
                ]
                if left:
                    self._look_at = 0.0
                    raise InvalidInput(
                        f"{len(left):,} users are still to be moved to {migration.target.name}; finish when"
                        " `memory-agent embedder migrate` shows none left"
                    )
                await self._put(replace(migration, phase="finishing"))
        return replace(migration, phase="finishing") if migration.phase == "moving" else migration

    async def _needed(self) -> EmbedderMigration:
        migration = await self._embedders.refresh()
        if migration is None:
            raise NotFound("this memory was never moved to another embedding model")
        return migration

    async def _put(self, migration: EmbedderMigration) -> None:
        now = await self.state()
        users = 0 if now is None else now.users
        is_over = migration.is_over
        # Before the phase: of one that has begun nobody may see the counts of the one before.
        await self._embedders.put_progress(users, users if is_over else 0, looked=is_over)
        await self._embedders.put(migration)
        self._waiting, self._after, self._ended, self._look_at = [], "", 0, 0.0

    async def _source(self) -> EmbedderModel:
        return await asyncio.to_thread(lambda: self._embedders.model)

    async def _target(self, name: str, settings: Mapping[str, Any]) -> tuple[EmbedderModel, Embedder]:
        (target, embedder), source = await self._embedders.open_other(name, settings), await self._source()
        if target.fingerprint == source.fingerprint:
            raise InvalidInput(
                f"{name} is the model that this memory has (fingerprint {target.fingerprint}); there is nothing to move"
            )
        return target, embedder

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Nobody else moves users, or changes how far it is. Raises StoreUnavailable if somebody does not leave off."""
        holder = f"operator {id(self)} {time.monotonic_ns()}"
        for _ in range(_STATE_TRIES):
            now = self._clock.now()
            if await self._store.acquire_leases([_LEASE], holder, now=now, until=now + self._lease):
                break
            await asyncio.sleep(_TRY_AGAIN_SECONDS)
        else:
            raise StoreUnavailable(
                "another process is at work on the move to another model; try again in a minute"
            )
        try:
            yield
        finally:
            await self._store.release_leases([_LEASE], holder)

    # --- what the worker does ----------------------------------------------------------------------------------
    async def work_off(self, holder: str) -> bool:
        """One batch of the move, if there is one under way; whether there was anything to do."""
        migration = await self._embedders.refresh()
        if migration is None or migration.is_over or time.monotonic() < self._look_at:
            return False
        began, now = time.monotonic(), self._clock.now()
        if not await self._store.acquire_leases([_LEASE], holder, now=now, until=now + self._lease):
            return False
        try:
            migration = await self._needed()
            worked = await (self._move(migration) if migration.phase == "moving" else self._end(migration))
        except (Unavailable, EmbedderError) as exc:
            if isinstance(exc, StoreUnavailable):
                raise
            log.warning("the move to another embedding model waits: %s", exc)
            self._look_at = time.monotonic() + _LOOK_AGAIN_SECONDS
            return False
        finally:
            await self._store.release_leases([_LEASE], holder)
        if worked:  # and leave the processor to whoever asks and tells
            await asyncio.sleep(min(time.monotonic() - began, _LONGEST_REST_SECONDS))
        return worked

    async def _move(self, migration: EmbedderMigration) -> bool:
        embedder = self._embedders.next
        if embedder is None:
            raise EmbedderError(f"the embedding model {migration.target.name} cannot be opened here")
        if not self._waiting and not await self._look(migration):
            return False
        user_id = self._waiting[0]
        ids = await self._store.turns_without(user_id, migration.target.fingerprint, limit=_BATCH_TURNS)
        if ids:
            await self._embed(user_id, ids, embedder)
            return True
        await self._store.set_vector_pointer(user_id, migration.target.fingerprint, now=self._clock.now())
        if not await self._is_whole(user_id, migration):
            return True  # a row was written meanwhile by somebody who did not know of the move yet
        self._waiting.pop(0)
        await self._embedders.put_progress(self._known, self._known - len(self._waiting))
        return True

    async def _is_whole(self, user_id: str, migration: EmbedderMigration) -> bool:
        """True if the user is moved, and all rows have the new vectors; a pointer to what they have not is taken away."""
        target = migration.target.fingerprint
        pointed = await self._store.vector_pointer(user_id) == target
        if not await self._store.turns_without(user_id, target, limit=1):
            return pointed or not await self._store.index_head(user_id)
        if pointed:
            await self._store.set_vector_pointer(user_id, "", now=self._clock.now())
        return False

    async def _look(self, migration: EmbedderMigration) -> bool:
        """Look for users that are not moved yet, the most recently active first."""
        began = time.monotonic()
        users = await all_users(self._store)
        heads: dict[str, int] = {}
        for start in range(0, len(users), _USERS):
            page = users[start : start + _USERS]
            pointers = await together(*(self._store.vector_pointer(each) for each in page))
            left = [
                each for each, at in zip(page, pointers, strict=True) if at != migration.target.fingerprint
            ]
            heads |= zip(left, await together(*(self._store.index_head(each) for each in left)), strict=True)
        self._waiting = sorted(filter(heads.get, heads), key=lambda each: -heads[each])
        self._known = len(users) - len(heads) + len(self._waiting)
        await self._embedders.put_progress(self._known, self._known - len(self._waiting))
        took = time.monotonic() - began
        self._look_at = (
            0.0 if self._waiting else time.monotonic() + max(_LOOK_AGAIN_SECONDS, _LOOKS_COST * took)
        )
        return bool(self._waiting)

    async def _embed(self, user_id: str, ids: Sequence[str], embedder: Embedder) -> None:
        turns = await self._store.list_turns(Scope(user_id=user_id), ids=ids)
        made = await self._made(turns, embedder)
        # Of a row whose turn is gone, nothing but that it is looked at; it goes with the next sweep.
        nothing = NextVectors(embedder=embedder.fingerprint, vectors=np.empty((0, 0), dtype=np.float32))
        await self._let_be_candidates(user_id, made, embedder)
        was_large = await self._store.candidates_through(user_id) is not None
        await self._store.put_next_vectors(user_id, {turn_id: made.get(turn_id, nothing) for turn_id in ids})
        if not was_large:
            await self._let_be_candidates(user_id, made, embedder)

    async def _let_be_candidates(
        self, user_id: str, made: Mapping[str, NextVectors], embedder: Embedder
    ) -> None:
        """Put the vectors of a large user into the new model's index as well."""
        index = self._embedders.index_of(embedder.fingerprint)
        if index is None or await self._store.candidates_through(user_id) is None:
            return
        rows = await self._store.search_rows(user_id, ids=list(made))
        seen = [
            replace(row, next=made[row.turn_id]).seen_by(embedder.fingerprint)
            for row in rows
            if not row.erased
        ]
        await index.upsert(user_id, [each for row in seen for each in passages_of(row, embedder.fingerprint)])

    async def _made(self, turns: Sequence[Turn], embedder: Embedder) -> dict[str, NextVectors]:
        """Next vectors of turns. One that the model refuses has none, and is found by its words, as if it were parked."""
        try:
            return await next_vectors(turns, embedder)
        except EmbedderError as exc:
            if len(turns) == 1:
                log.warning(
                    "the new model refuses turn %s, which is found by its words: %s", turns[0].id, exc
                )
                return {}
        half = len(turns) // 2
        return await self._made(turns[:half], embedder) | await self._made(turns[half:], embedder)

    async def _end(self, migration: EmbedderMigration) -> bool:
        """Some users more taken back, or finished; the end of it with the last."""
        page = await self._store.stored_users(after=self._after, limit=_USERS)
        finishing = migration.phase == "finishing"
        for user_id in page:
            # The rows first: without a pointer the user is searched by what everybody is.
            if finishing:
                await self._store.adopt_next_vectors(user_id, migration.target.fingerprint)
            await self._store.set_vector_pointer(user_id, "", now=self._clock.now())
            if not finishing:
                await self._store.drop_next_vectors(user_id)
        if page:
            self._after, self._ended = page[-1], self._ended + len(page)
            now = await self._embedders.progress()
            await self._embedders.put_progress(max(0 if now is None else now.users, self._ended), self._ended)
            return True
        gone = migration.source if finishing else migration.target
        if (index := self._embedders.index_of(gone.fingerprint)) is not None:
            await index.drop()
        await self._put(replace(migration, phase="finished" if finishing else "rolled back"))
        return True


async def all_users(store: DocumentStore, *, after: str = "") -> list[str]:
    """The ids of all users behind that one, rising."""
    users: list[str] = []
    while page := await store.stored_users(after=users[-1] if users else after, limit=1_000):
        users += page
    return users


def _under_way(migration: EmbedderMigration, target: EmbedderModel) -> str:
    doing = {"moving": "moved to", "back": "moved back from", "finishing": "moved for good to"}[
        migration.phase
    ]
    return (
        f"this memory is being {doing} {migration.target.name}, and cannot be moved to {target.name} meanwhile; finish that,"
        " or roll it back"
    )
