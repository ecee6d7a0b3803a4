"""API keys in a SQLite file of their own, which several processes may use at once."""

# ruff: noqa: S608 - statements are put together from constants of this module only; every value is bound

from __future__ import annotations

import os
import sqlite3
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memory_agent.domain import ApiKey
from memory_agent.errors import NotOpen, StoreError, StoreUnavailable
from memory_agent.stores.codec import from_milliseconds, milliseconds
from memory_agent.stores.sqlite.connection import SqliteConnection
from memory_agent.stores.sqlite.errors import driver_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from memory_agent.stores.sqlite.connection import _Lane

_R = TypeVar("_R")
VERSION: Final = 1
"""Of this file's schema, which has nothing to do with the document store's."""
_OWNER_ONLY: Final = 0o600
_POLL_SECONDS: Final = 0.005

_COLUMNS: Final = (
    "id, tenant, secret_hash, created_at, user_id, read_only, label, expires_at, revoked_at,"
    " requests_per_minute, max_body_bytes"
)
_TABLE: Final = """CREATE TABLE api_keys (
  id TEXT NOT NULL PRIMARY KEY,
  tenant TEXT NOT NULL,
  secret_hash TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  user_id TEXT,
  read_only INTEGER NOT NULL,
  label TEXT NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  requests_per_minute INTEGER,
  max_body_bytes INTEGER
) STRICT, WITHOUT ROWID"""
_INDEX: Final = "CREATE INDEX api_keys_tenant ON api_keys (tenant, created_at, id)"
_PUT: Final = f"INSERT INTO api_keys ({_COLUMNS}) VALUES ({', '.join('?' * 11)}) ON CONFLICT DO NOTHING"
_FIND: Final = f"SELECT {_COLUMNS} FROM api_keys WHERE id = ?"
_LIST: Final = f"SELECT {_COLUMNS} FROM api_keys ORDER BY created_at, id"
_LIST_TENANT: Final = f"SELECT {_COLUMNS} FROM api_keys WHERE tenant = ? ORDER BY created_at, id"
_REVOKE: Final = "UPDATE api_keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?"


class SqliteKeys(SqliteConnection):
    """`KeyStore` in the SQLite file `path`; its folder is made if it is missing.

    Not in the document store's file, which belongs to the one process that holds `data_dir`: keys are made and revoked
    by the command line while a service runs. A new file is its owner's alone (mode 0600), and so are the log files
    beside it, which take their mode from it. WAL with `synchronous=FULL`: what a call stored survives a power cut.
    `timeout_seconds` bounds the wait for another process that holds the file's write lock.
    """

    def _connect(self, lane: _Lane, *, create: bool) -> None:
        with driver_errors(self._path):
            if create:
                self._create_folder()
                self._create_file()
            connection = lane.connection = sqlite3.connect(
                self._path, timeout=self._timeout_seconds, isolation_level=None, check_same_thread=False
            )
            self._log_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")
            if create:
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    _create_schema(connection, self._path)
            else:
                connection.execute("PRAGMA query_only = ON")

    def _log_ahead(self, connection: sqlite3.Connection) -> None:
        """Use WAL. Of processes that open a new file at once SQLite lets some fail here without waiting, so we wait."""
        until = time.monotonic() + self._timeout_seconds
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as exc:
                busy = exc.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # of whichever kind
                if not busy or time.monotonic() >= until:
                    raise
                time.sleep(_POLL_SECONDS)
            else:
                return

    def _create_file(self) -> None:
        try:
            # SQLite takes an empty file for a new database, but would make one that others may read.
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, _OWNER_ONLY))
        except OSError as exc:
            raise StoreUnavailable(f"{self._path} cannot be opened: {exc}") from exc

    async def _run(self, lane: _Lane | None, mode: str, work: Callable[[sqlite3.Connection], _R]) -> _R:
        if lane is None:
            raise NotOpen("the SqliteKeys are not open; call open() first")
        return await super()._run(lane, mode, work)

    async def put(self, key: ApiKey) -> None:
        if not await self._execute(_PUT, _row(key)):
            raise StoreError(f"there is an API key {key.id!r:.80} already; make another one")

    async def find(self, key_id: str) -> ApiKey | None:
        row = await self._read(lambda db: db.execute(_FIND, [key_id]).fetchone())
        return None if row is None else _key(row)

    async def list(self, tenant: str | None = None) -> Sequence[ApiKey]:
        sql, parameters = (_LIST, []) if tenant is None else (_LIST_TENANT, [tenant])
        return [_key(row) for row in await self._read(lambda db: db.execute(sql, parameters).fetchall())]

    async def revoke(self, key_id: str, at: datetime) -> bool:
        return bool(await self._execute(_REVOKE, [milliseconds(at), key_id]))


def _create_schema(connection: sqlite3.Connection, path: str) -> None:
    """Create what is missing, within the caller's transaction. Raises StoreError for a file of another version."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found == VERSION:
        return
    if found:
        raise StoreError(
            f"{path} was written by a later memory_agent (schema {found} of its API keys, this one knows {VERSION});"
            " upgrade memory_agent, or name another data_dir"
        )
    connection.execute(_TABLE)
    connection.execute(_INDEX)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _row(key: ApiKey) -> tuple[Any, ...]:
    return (
        key.id,
        key.tenant,
        key.secret_hash,
        milliseconds(key.created_at),
        key.user_id,
        int(key.read_only),
        key.label,
        None if key.expires_at is None else milliseconds(key.expires_at),
        None if key.revoked_at is None else milliseconds(key.revoked_at),
        key.requests_per_minute,
        key.max_body_bytes,
    )


def _key(row: tuple[Any, ...]) -> ApiKey:
    key_id, tenant, secret_hash, created_at, user_id, read_only, label, expires_at, revoked_at, *limits = row
    requests_per_minute, max_body_bytes = limits
    return ApiKey(
        id=key_id,
        tenant=tenant,
        secret_hash=secret_hash,
        created_at=from_milliseconds(created_at),
        user_id=user_id,
        read_only=bool(read_only),
        label=label,
        expires_at=None if expires_at is None else from_milliseconds(expires_at),
        revoked_at=None if revoked_at is None else from_milliseconds(revoked_at),
        requests_per_minute=requests_per_minute,
        max_body_bytes=max_body_bytes,
    )
