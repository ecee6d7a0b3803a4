"""Metadata of a SQLite store, and its schema."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from memory_agent.domain import SchemaState
from memory_agent.stores.codec import dump_json
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.schema import left_over

_PUT: Final = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO "
_FAULTS_TOLD: Final = 20


class SqliteMeta(SqliteConnection):
    """The metadata of a SqliteStore."""

    async def get_meta(self, name: str) -> dict[str, Any] | None:
        found = await self._fetch("SELECT value FROM meta WHERE name = ?", [name])
        value: dict[str, Any] | None = json.loads(found[0][0]) if found else None
        return value

    async def put_meta(self, name: str, value: dict[str, Any], *, only_new: bool = False) -> bool:
        taken = "NOTHING" if only_new else "UPDATE SET value = excluded.value"
        return bool(await self._execute(_PUT + taken, [name, dump_json(value)]))

    async def check_files(self) -> list[str]:
        found = await self._fetch(f"PRAGMA integrity_check({_FAULTS_TOLD})", [])
        return [] if found == [("ok",)] else [line for (line,) in found]

    async def schema(self) -> SchemaState:
        ((version,),) = await self._fetch("PRAGMA user_version", [])
        kept = await asyncio.to_thread(left_over, self._path)
        return SchemaState(version=version, kept=tuple(map(str, kept)))

    async def upgrade_some(self) -> bool:
        return False  # all of it is done in the transaction that opens the file
