"""Metadata of a SQLite store and its schema; API keys, in a file of their own that several processes may use at once."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import SchemaState
from memory_agent.errors import StoreError
from memory_agent.stores.codec import dump_json, milliseconds
from memory_agent.stores.fields import API_KEY
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.records import Where
from memory_agent.stores.sqlite.schema import declared, left_over

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

    from memory_agent.domain import ApiKey


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


VERSION: Final = 1
"""Of this file's schema, which has nothing to do with the document store's."""

_TABLE: Final = f"CREATE TABLE api_keys ({declared(API_KEY)}, PRIMARY KEY (id)) STRICT, WITHOUT ROWID"
_INDEX: Final = "CREATE INDEX api_keys_tenant ON api_keys (tenant, created_at, id)"
_PUT_KEY: Final = f"INSERT INTO api_keys ({API_KEY.columns}) VALUES ({API_KEY.marks}) ON CONFLICT DO NOTHING"
_REVOKE: Final = "UPDATE api_keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?"


class SqliteKeys(SqliteConnection):
    """`KeyStore` in the SQLite file `path`; its folder is made if it is missing.

    Not in the document store's file, which belongs to the one process that holds `data_dir`: keys are made and revoked
    by the command line while a service runs. WAL with `synchronous=FULL`: what a call stored survives a power cut.
    `timeout_seconds` bounds the wait for another process that holds the file's write lock.
    """

    _remedy = "Put it back from a copy, or move it away and make new keys: `memory-agent keys create`"

    def _create_schema(self, connection: sqlite3.Connection) -> None:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found == VERSION:
            return
        if found:
            raise StoreError(
                f"{self._path} was written by a later memory_agent (schema {found} of its API keys, this one knows"
                f" {VERSION}); upgrade memory_agent, or name another data_dir"
            )
        connection.execute(_TABLE)
        connection.execute(_INDEX)
        connection.execute(f"PRAGMA user_version = {VERSION}")

    def _before_opening(self) -> None:
        """Keys that are lost are made anew: nobody takes them for a memory."""

    def _committed(self, connection: sqlite3.Connection) -> None:
        """Without a mark."""

    async def put(self, key: ApiKey) -> None:
        if not await self._execute(_PUT_KEY, API_KEY.record(key)):
            raise StoreError(f"there is an API key {key.id!r:.80} already; make another one")

    async def find(self, key_id: str) -> ApiKey | None:
        return next(iter(await self._select(API_KEY, "FROM api_keys WHERE id = ?", [key_id])), None)

    async def list(self, tenant: str | None = None) -> Sequence[ApiKey]:
        where = Where().equal(tenant=tenant)
        return await self._select(
            API_KEY, f"FROM api_keys WHERE {where} ORDER BY created_at, id", where.values
        )

    async def revoke(self, key_id: str, at: datetime) -> bool:
        return bool(await self._execute(_REVOKE, [milliseconds(at), key_id]))
