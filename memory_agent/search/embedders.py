"""Embedding models of a memory: the settings' own, and while the memory moves to another one each user's.

How far a move is stands in the store, so that all processes agree; it is read before each batch of indexing and whenever a
user's rows are loaded. `Embedders` is itself an `Embedder`, the one whose vectors count for everybody without a pointer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from memory_agent.domain import EmbedderMigration, EmbedderModel
from memory_agent.errors import BackendError
from memory_agent.ports import known_fingerprint, known_scripts, tokens_by

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.domain import TokenVectors
    from memory_agent.ports import DocumentStore, Embedder, VectorIndex

    OpenModel = Callable[[Mapping[str, Any], str], Awaitable[tuple[Embedder, VectorIndex]]]
    """Opens the model of these settings and a vector index for it; "" for a fingerprint that isn't known yet."""

log = logging.getLogger(__name__)

_STATE: Final = "embedder migration"
_PROGRESS: Final = "embedder migration progress"
_TRY_AGAIN_SECONDS: Final = 30.0
"""After which a model that could not be opened is tried again."""


class Embedders:
    """The embedding models of a memory, by fingerprint, with a vector index for each."""

    def __init__(
        self,
        store: DocumentStore,
        own: Embedder,
        index: VectorIndex,
        open_model: OpenModel,
        *,
        name: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`own`: the settings' model, which these call `name`, with its `index`. `settings`: by which other processes make it, if they can."""
        self.migration: EmbedderMigration | None = None
        self.own = own
        self._store, self._index = store, index
        self._name, self._settings = name, dict(settings or {})
        self._open_model = open_model
        self._opened: dict[str, tuple[Embedder, VectorIndex]] = {}
        self._failed: set[str] = set()
        self._try_at = 0.0
        self._opening = asyncio.Lock()

    # --- the state of a move ---------------------------------------------------------------------------------
    async def refresh(self) -> EmbedderMigration | None:
        """The move as the store has it now, None if there was none yet; the models that it needs are opened."""
        found = await stored_migration(self._store)
        if found is None:
            return None
        was, self.migration = self.migration, found
        tries_again = self._failed and time.monotonic() >= self._try_at
        if was is None or was.phase != self.migration.phase or tries_again:
            await self._open_needed(self.migration)
        return self.migration

    async def put(self, migration: EmbedderMigration) -> None:
        """Store the state of a move, without its progress."""
        value = {**asdict(migration), "started_at": migration.started_at.isoformat()}
        kept = ("source", "target", "phase", "started_at", "left")
        await self._store.put_meta(_STATE, {name: value[name] for name in kept})
        await self.refresh()

    async def put_progress(self, users: int, moved: int, *, looked: bool = True) -> None:
        """Note how far it is, for `progress`."""
        await self._store.put_meta(_PROGRESS, {"users": users, "moved": moved, "looked": looked})

    async def progress(self) -> EmbedderMigration | None:
        """The move and how far it is; None if there was none yet."""
        migration, found = await self.refresh(), await self._store.get_meta(_PROGRESS)
        return migration if migration is None or found is None else replace(migration, **found)

    async def _open_needed(self, migration: EmbedderMigration) -> None:
        own = known_fingerprint(self.own)
        if not migration.is_over:
            needed = [migration.source, migration.target]
        else:
            now = migration.default
            needed = [now] if own in migration.formers else []
            if needed and now.fingerprint not in self._opened:
                log.warning(
                    "the settings name the embedding model %s, but this memory has moved to %s, which is used; name that one in"
                    " the settings, or move with `memory-agent embedder migrate`",
                    self._name,
                    now.name,
                )
        async with self._opening:
            for model in needed:
                if model.fingerprint not in {own, *self._opened}:
                    await self._open(model)

    async def _open(self, model: EmbedderModel) -> None:
        if not model.settings:  # it is the application's, which has not handed it in here
            return
        try:
            self._opened[model.fingerprint] = await self._open_model(model.settings, model.fingerprint)
            self._failed.discard(model.fingerprint)
        except BackendError as exc:
            if model.fingerprint not in self._failed:
                log.warning(
                    "the embedding model %s cannot be opened; its users are searched by words: %s",
                    model.name,
                    exc,
                )
            self._failed.add(model.fingerprint)
            self._try_at = time.monotonic() + _TRY_AGAIN_SECONDS

    async def open_other(self, name: str, settings: Mapping[str, Any]) -> tuple[EmbedderModel, Embedder]:
        """Open another model, to which the memory is to move. Raises what keeps it from being opened."""
        embedder, index = await self._open_model(settings, "")
        fingerprint = await asyncio.to_thread(lambda: embedder.fingerprint)
        self._opened.setdefault(fingerprint, (embedder, index))
        return EmbedderModel(name=name, fingerprint=fingerprint, settings=dict(settings)), embedder

    # --- which one ---------------------------------------------------------------------------------------------
    @property
    def current(self) -> Embedder:
        """The model of everybody without a pointer: where the settings name what the memory has moved from, what it has moved to."""
        migration = self.migration
        if migration is None:
            return self.own
        if migration.is_over and known_fingerprint(self.own) not in migration.formers:
            return self.own
        return self.by(migration.default.fingerprint) or self.own

    @property
    def model(self) -> EmbedderModel:
        """The current model. Blocking, as its fingerprint is."""
        fingerprint = self.current.fingerprint
        if self.migration is not None:
            for model in (self.migration.source, self.migration.target):
                if model.fingerprint == fingerprint and model.settings:
                    return model
        return EmbedderModel(name=self._name, fingerprint=fingerprint, settings=self._settings)

    @property
    def next(self) -> Embedder | None:
        """The model that users are being moved to; None where none are."""
        migration = self.migration
        is_moving = migration is not None and migration.phase == "moving"
        return self.by(migration.target.fingerprint) if is_moving and migration is not None else None

    def by(self, fingerprint: str) -> Embedder | None:
        """The model of this fingerprint, if it is open here."""
        if fingerprint == known_fingerprint(self.own):
            return self.own
        opened = self._opened.get(fingerprint)
        return None if opened is None else opened[0]

    def index_of(self, fingerprint: str) -> VectorIndex | None:
        """The vector index of the model of this fingerprint, if that is open here."""
        if fingerprint == known_fingerprint(self.own):
            return self._index
        opened = self._opened.get(fingerprint)
        return None if opened is None else opened[1]

    async def of_user(self, user_id: str) -> str:
        """The fingerprint of the model whose vectors the user is searched by; "" while that is not known."""
        migration = await self.refresh()
        if migration is not None and migration.phase == "moving":
            pointed = await self._store.vector_pointer(user_id)
            if pointed and self.by(pointed) is not None:
                return pointed
        return self.known_fingerprint

    # --- an embedder ---------------------------------------------------------------------------------------------
    @property
    def fingerprint(self) -> str:
        """See `Embedder.fingerprint`."""
        return self.current.fingerprint

    @property
    def known_fingerprint(self) -> str:
        """See `known_fingerprint` of the ports."""
        return known_fingerprint(self.current)

    @property
    def scripts(self) -> frozenset[str] | None:
        """See `Embedder.scripts`."""
        return known_scripts(self.current)

    async def split(self, text: str) -> list[str]:
        """See `Embedder.split`."""
        return await self.current.split(text)

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> NDArray[np.float32]:
        """See `Embedder.embed`."""
        return await self.current.embed(texts, purpose=purpose)

    async def embed_tokens(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> list[TokenVectors] | None:
        """See `Embedder.embed_tokens`."""
        return await tokens_by(self.current, texts, purpose=purpose)

    def clear_cache(self) -> None:
        """See `Embedder.clear_cache`: of all models."""
        for embedder in (self.own, *(embedder for embedder, _ in self._opened.values())):
            embedder.clear_cache()

    async def close(self) -> None:
        """See `Embedder.close`. The models are closed by whoever opened them."""


async def stored_migration(store: DocumentStore) -> EmbedderMigration | None:
    """The move as the store has it, without its progress; None if there was none yet."""
    found = await store.get_meta(_STATE)
    if found is None:
        return None
    return EmbedderMigration(
        source=EmbedderModel(**found["source"]),
        target=EmbedderModel(**found["target"]),
        phase=found["phase"],
        started_at=datetime.fromisoformat(found["started_at"]),
        left=tuple(found.get("left", ())),
    )
