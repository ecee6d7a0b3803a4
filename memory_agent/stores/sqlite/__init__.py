"""The document store in one SQLite file: the embedded default, for one process at a time."""

from __future__ import annotations

from memory_agent.stores.sqlite.copies import SqliteCopies
from memory_agent.stores.sqlite.events import SqliteEvents
from memory_agent.stores.sqlite.facts import SqliteFacts
from memory_agent.stores.sqlite.forgetting import SqliteForgetting
from memory_agent.stores.sqlite.meta import SqliteMeta
from memory_agent.stores.sqlite.rows import SqliteRows
from memory_agent.stores.sqlite.sessions import SqliteSessions
from memory_agent.stores.sqlite.topics import SqliteTopics
from memory_agent.stores.sqlite.turns import SqlitePeople, SqliteTurns, SqliteWork

__all__ = ["SqliteStore"]


class SqliteStore(
    SqliteEvents,
    SqliteTurns,
    SqliteWork,
    SqlitePeople,
    SqliteRows,
    SqliteTopics,
    SqliteFacts,
    SqliteSessions,
    SqliteForgetting,
    SqliteMeta,
    SqliteCopies,
):
    """`DocumentStore` in the SQLite file `path`; its folder is made if it is missing.

    WAL with `synchronous=FULL`: what a call stored survives a power cut. `timeout_seconds` bounds the wait for
    another process that holds the file's write lock.
    """
