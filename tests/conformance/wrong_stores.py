"""Stores with one fault each, and one with all of them: what the conformance kit has to find, and name."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from memory_agent.domain import ErasedCounts, Erasure, Scope, Tombstone, Turn, TurnDraft
from memory_agent.stores.sqlite import SqliteStore


class Leaking(SqliteStore):
    """Lists turns by id alone, whoever's they are."""

    async def list_turns(self, scope: Scope, **options: Any) -> list[Turn]:
        if not options.get("ids"):
            return await super().list_turns(scope, **options)
        users = await self.user_ids("default", limit=100)
        found = [await super(Leaking, self).list_turns(Scope(user_id=user), **options) for user in users]
        return [turn for of_user in found for turn in of_user]


class Keeping(SqliteStore):
    """Loses deletions: says that it erased, and keeps everything."""

    async def erase_turns(self, erasure: Erasure, **options: Any) -> ErasedCounts:
        return ErasedCounts()


class Doubling(SqliteStore):
    """Tells a number twice: that of the turn before."""

    async def append_turns(self, scope: Scope, drafts: Sequence[TurnDraft]) -> list[Turn | Tombstone]:
        stored = await super().append_turns(scope, drafts)
        return [
            replace(turn, seq=max(turn.seq - 1, 1)) if isinstance(turn, Turn) else turn for turn in stored
        ]


class Forgetful(SqliteStore):
    """Forgets the newest turn of everybody whenever it is opened."""

    async def open(self) -> None:
        await super().open()
        await self._execute("DELETE FROM turns WHERE rowid = (SELECT max(rowid) FROM turns)", [])


class Racing(SqliteStore):
    """Gives a lease to whoever asks."""

    async def acquire_leases(self, names: Sequence[str], holder: str, **times: Any) -> set[str]:
        await super().acquire_leases(names, holder, **times)
        return set(names)


def leaking(folder: Path) -> Leaking:
    return Leaking(folder / "memory.db")


def keeping(folder: Path) -> Keeping:
    return Keeping(folder / "memory.db")


def doubling(folder: Path) -> Doubling:
    return Doubling(folder / "memory.db")


def forgetful(folder: Path) -> Forgetful:
    return Forgetful(folder / "memory.db")


def racing(folder: Path) -> Racing:
    return Racing(folder / "memory.db")


def right(folder: Path) -> SqliteStore:
    return SqliteStore(folder / "memory.db")
