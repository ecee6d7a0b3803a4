"""Metadata of a SQLite store."""

from __future__ import annotations

import json
from typing import Any, Final

from memory_agent.stores.codec import dump_json
from memory_agent.stores.sqlite.connection import SqliteConnection

_PUT: Final = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO "


class SqliteMeta(SqliteConnection):
    """The metadata of a SqliteStore."""

    async def get_meta(self, name: str) -> dict[str, Any] | None:
        found = await self._fetch("SELECT value FROM meta WHERE name = ?", [name])
        value: dict[str, Any] | None = json.loads(found[0][0]) if found else None
        return value

    async def put_meta(self, name: str, value: dict[str, Any], *, only_new: bool = False) -> bool:
        taken = "NOTHING" if only_new else "UPDATE SET value = excluded.value"
        return bool(await self._execute(_PUT + taken, [name, dump_json(value)]))
