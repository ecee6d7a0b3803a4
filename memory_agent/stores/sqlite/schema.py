"""The tables, indexes and triggers of the SQLite store. Times are milliseconds since 1970; text compares byte by byte.

The triggers fill the outbox: they note what happened, in the transaction in which it happens.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import EVENT_KINDS, FactsDocument
from memory_agent.errors import StoreUnavailable
from memory_agent.stores.fields import (
    CHANGE,
    COMPRESSION,
    COST,
    DRAFT,
    ERASURE,
    FACTS,
    LEASE,
    NEWEST,
    RECEIPT,
    ROW,
    SESSION,
    STAGE_BITS,
    TOMBSTONE,
    TOPIC,
    TURN,
    check_version,
)
from memory_agent.stores.sqlite.records import hash_all_remains

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memory_agent.stores.codec import Fields, Kind


OFFSET: Final = "utc_offset_minutes"
LATER: Final = (OFFSET, "given_entities")
"""Columns that a table ends with, as in files that had none or the first alone: see `salvage`."""
_PAGES: Final = 4_096
_CHROMA: Final = "chroma_db"
"""The folder in which version 0.1.0 had an index of its own."""


def copy_of(path: str) -> Path:
    """Where the copy of a file is kept that is about to be upgraded."""
    return Path(f"{path}.before-{NEWEST}")


def keep_copy(path: str) -> None:
    """Copy the file as it is committed. For the one that holds its write lock.

    Under another name until it is whole and on disk, so that a copy that is there can be relied on. Whoever was killed
    before the upgrade was committed has left one, which what was written since is not in: it is replaced.
    """
    kept = copy_of(path)
    half = kept.with_name(f"{kept.name}.part")
    try:
        half.unlink(missing_ok=True)  # of one that was killed
        os.close(os.open(half, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with (
            contextlib.closing(
                sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
            ) as source,
            contextlib.closing(sqlite3.connect(half)) as target,
        ):
            source.backup(target, pages=_PAGES)
            target.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        _on_disk(half)
        half.replace(kept)
        _on_disk(kept.parent)
    except (OSError, sqlite3.Error) as exc:
        with contextlib.suppress(OSError):
            half.unlink(missing_ok=True)
        raise StoreUnavailable(
            f"{path} is of an earlier memory_agent and is copied to {kept.name} before it is upgraded, which failed:"
            f" {exc}. Nothing in it was changed; make room for a file of {Path(path).stat().st_size / 1e6:,.0f} MB there"
        ) from exc


def left_over(path: str) -> list[Path]:
    """Paths beside the file that earlier versions and the upgrade left, and nobody needs any more."""
    file = Path(path)
    copies = (copy for copy in file.parent.glob(f"{file.name}.before-*"))
    chroma = file.parent / _CHROMA
    # One that `chroma_db_dir` names has a lock in it.
    is_left = (chroma / "chroma.sqlite3").is_file() and not (chroma / ".lock").exists()
    return [*sorted(copies), *([chroma] if is_left else [])]


def remove_left_over(path: str) -> None:
    """Remove it for good. Raises StoreUnavailable."""
    for kept in left_over(path):
        try:
            if kept.is_dir():
                shutil.rmtree(kept)
            else:
                kept.unlink(missing_ok=True)
        except OSError as exc:
            raise StoreUnavailable(f"{kept}, which is left over, cannot be removed: {exc}") from exc


def _on_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


KEPT_EVENTS: Final = 100_000
"""How many of the newest events are kept at least; what was erased with its turn counts."""
_PRUNED_AT_ONCE: Final = 100
_NOW: Final = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"
"""Milliseconds since 1970. 2440587.5 is the Julian day of that; unixepoch('subsec') needs SQLite 3.42."""
_of: Final = EVENT_KINDS.index
_THREAD: Final = "user_id TEXT NOT NULL,\n  thread_id TEXT NOT NULL"


def declared(*values: Fields[Any]) -> str:
    """The columns of these values, each once, as a table declares them; but those that it ends with."""
    kinds: dict[str, Kind] = {}
    for fields in values:
        kinds |= fields.kinds
    return ",\n  ".join(f"{name} {kind.declared()}" for name, kind in kinds.items() if name not in LATER)


_SCHEMA: Final = f"""
CREATE TABLE turns (
  number INTEGER PRIMARY KEY,
  {declared(DRAFT, TURN)},
  segment_at INTEGER,               -- its place among the segment's texts, from 0; `content` is empty then
  {OFFSET} INTEGER,
  {LATER[1]} TEXT
) STRICT;
CREATE UNIQUE INDEX turns_id ON turns (id);
CREATE UNIQUE INDEX turns_seq ON turns (user_id, thread_id, seq);
CREATE UNIQUE INDEX turns_call ON turns (user_id, thread_id, idempotency_key, call_index)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX turns_user ON turns (user_id, id);
CREATE INDEX turns_topic ON turns (user_id, topic_id, thread_id, seq) WHERE topic_id IS NOT NULL;
CREATE INDEX turns_session ON turns (user_id, session_id, thread_id, seq) WHERE session_id IS NOT NULL;
CREATE INDEX turns_time ON turns (timestamp, id);
CREATE INDEX turns_owed ON turns (user_id, thread_id, seq, pending, parked) WHERE pending <> 0;
CREATE INDEX turns_owed_user ON turns (user_id, id, pending, parked) WHERE pending <> 0;
CREATE INDEX turns_parked ON turns (user_id, thread_id, id) WHERE parked = 1;

CREATE TABLE segments (             -- texts of compressed turns, which say where theirs is; the rest are empty
  id INTEGER PRIMARY KEY,
  {_THREAD},
  topic_id TEXT NOT NULL,
  live INTEGER NOT NULL,            -- how many turns have their text here
  raw_bytes INTEGER NOT NULL,
  codec INTEGER NOT NULL,
  data BLOB NOT NULL
) STRICT;
CREATE INDEX segments_topic ON segments (user_id, thread_id, topic_id);

CREATE TABLE topics (               -- with a rowid: without one, rows of this size would get pages of their own
  {declared(TOPIC)},
  changed INTEGER NOT NULL DEFAULT 0, -- its last change's number in the thread
  PRIMARY KEY (user_id, thread_id, id)
) STRICT;
CREATE INDEX topics_changed ON topics (user_id, thread_id, changed);
CREATE TABLE topic_marks (          -- the number of the thread's last change of a topic, and how many were deleted
  {_THREAD},
  changed INTEGER NOT NULL,
  deleted INTEGER NOT NULL,
  PRIMARY KEY (user_id, thread_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX topics_absorbing ON topics (user_id, thread_id) WHERE absorbed <> '[]';

CREATE TABLE sessions (             -- with rowids, as topics: what is in `metadata` may be large
  {declared(SESSION)},
  PRIMARY KEY (user_id, thread_id, number)
) STRICT;
CREATE INDEX sessions_id ON sessions (id, user_id); -- in this order, for a session may be asked for by its id alone
CREATE UNIQUE INDEX sessions_call ON sessions (user_id, thread_id, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX sessions_time ON sessions (user_id, started_at, number, thread_id);

CREATE TABLE compressions (         -- with rowids, as topics
  {declared(COMPRESSION)},
  PRIMARY KEY (user_id, thread_id, number)
) STRICT;
CREATE INDEX compressions_session ON compressions (user_id, session_id, thread_id) WHERE session_id IS NOT NULL;

CREATE TABLE threads (              -- the highest number ever given, once turns of the thread were erased
  {_THREAD},
  last_seq INTEGER NOT NULL,
  PRIMARY KEY (user_id, thread_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE tombstones (           -- what is left of erased turns that had an idempotency key
  {declared(TOMBSTONE)},
  {_THREAD},
  idempotency_key TEXT NOT NULL,
  PRIMARY KEY (turn_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tombstones_call ON tombstones (user_id, thread_id, idempotency_key, call_index);

CREATE TABLE spent_keys (           -- what is left of erased edits and sessions that had an idempotency key
  {_THREAD},
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  id TEXT NOT NULL,                 -- the change's key, or the session's id
  PRIMARY KEY (user_id, thread_id, kind, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE leases (
  {declared(LEASE)},
  PRIMARY KEY (name)
) STRICT, WITHOUT ROWID;

CREATE TABLE search_rows (
  number INTEGER PRIMARY KEY,
  {declared(ROW)},
  erased_at INTEGER,                -- a stub
  {OFFSET} INTEGER
) STRICT;
CREATE UNIQUE INDEX search_rows_turn ON search_rows (turn_id);
CREATE UNIQUE INDEX search_rows_index_seq ON search_rows (user_id, index_seq);
CREATE INDEX search_rows_erased ON search_rows (user_id, erased_at) WHERE erased_at IS NOT NULL;

CREATE TABLE row_tokens (           -- apart from the rows, of which more share a page without them
  number INTEGER PRIMARY KEY,       -- the row's
  tokens BLOB NOT NULL
) STRICT;

CREATE TABLE large_users (          -- whose rows are in `row_terms`, up to this `index_seq` at least
  user_id TEXT NOT NULL,
  through INTEGER NOT NULL,
  PRIMARY KEY (user_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE row_terms (            -- which rows of large users hold a term
  user_id TEXT NOT NULL,
  term TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  PRIMARY KEY (user_id, term, turn_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE facts (
  {_THREAD},
  {declared(FACTS)},
  floor INTEGER NOT NULL DEFAULT 0, -- up to which number changes were erased
  stripped INTEGER NOT NULL DEFAULT 0, -- how often words were taken out of changes
  PRIMARY KEY (user_id, thread_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE fact_events (
  user_id TEXT NOT NULL,
  {declared(CHANGE)},
  PRIMARY KEY (user_id, thread_id, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX fact_events_key ON fact_events (user_id, thread_id, key);
CREATE INDEX fact_events_turn ON fact_events (user_id, turn_id);
CREATE UNIQUE INDEX fact_events_call ON fact_events (user_id, thread_id, idempotency_key)
  WHERE idempotency_key IS NOT NULL;

CREATE TABLE fact_change_turns (    -- which changes had a turn in view
  user_id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,          -- the change's, like its number
  seq INTEGER NOT NULL,
  PRIMARY KEY (user_id, turn_id, thread_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE costs (                -- what the extraction of a thread's facts has used
  {_THREAD},
  {declared(COST)},
  PRIMARY KEY (user_id, thread_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE erasures (
  {declared(ERASURE)},
  PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX erasures_due ON erasures (due_at);
CREATE INDEX erasures_user ON erasures (user_id);
"""

_ADDED: Final = f"""
CREATE TABLE IF NOT EXISTS meta (   -- what is true of the store as a whole
  name TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO meta VALUES ('store', json_object('id', lower(hex(randomblob(16)))));
CREATE TABLE IF NOT EXISTS erasure_receipts ( -- of whom nothing else may be left, by hashes alone
  {declared(RECEIPT)},
  PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS erasure_receipts_state ON erasure_receipts (state);
CREATE TABLE IF NOT EXISTS embedded_rows ( -- how many rows each embedding model made
  embedder TEXT NOT NULL PRIMARY KEY,
  rows INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT OR REPLACE INTO embedded_rows SELECT embedder, count(*) FROM search_rows GROUP BY embedder;
CREATE TABLE IF NOT EXISTS vector_fills ( -- how far a user's rows are in a vector index: `domain.VectorFill`
  user_id TEXT NOT NULL,
  place TEXT NOT NULL,
  through INTEGER NOT NULL,
  pending INTEGER NOT NULL,
  marks INTEGER NOT NULL,
  PRIMARY KEY (user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS vector_fills_pending ON vector_fills (user_id) WHERE pending;
-- With the stages that are owed, so that a backlog is looked through without reading its turns.
CREATE INDEX IF NOT EXISTS turns_due_stage ON turns (due_at, pending, user_id, thread_id) WHERE due_at IS NOT NULL;
"""
"""What there is since version 0.1.0. Each can be repeated, for schema 10 has it."""

_DROPPED: Final = """
DROP INDEX IF EXISTS turns_due;
DROP TABLE IF EXISTS row_next;
DROP TABLE IF EXISTS vector_pointers;
DROP INDEX IF EXISTS search_rows_place;
DROP INDEX IF EXISTS search_rows_embedder;
DROP INDEX IF EXISTS events_turn;
"""
_FORMER_TOKENS: Final = 10
"""Up to this schema tokens are in a form that is not read any more: `rebuild` makes them anew."""
_DROPPED_COLUMNS: Final = {"events": ("topic_id",), "facts": ("at",)}
_ADDED_COLUMNS: Final[Mapping[str, Fields[Any]]] = {
    "costs": COST,
    "turns": TURN,
    "search_rows": ROW,
    "facts": FACTS,
    "erasures": ERASURE,
    "erasure_receipts": RECEIPT,
}
_DROPPED_META: Final = ("embedder migration", "embedder migration progress", "vector index lost")
"""What earlier schemas have and this one has no more: the upgrade drops it."""

_OF_TOPIC: Final = "user_id = {0}.user_id AND thread_id = {0}.thread_id"
_NUMBERED: Final = f"""
  INSERT INTO topic_marks SELECT NEW.user_id, NEW.thread_id, 0, 0
    WHERE NOT EXISTS (SELECT 1 FROM topic_marks WHERE {_OF_TOPIC.format("NEW")});
  UPDATE topic_marks SET changed = changed + 1 WHERE {_OF_TOPIC.format("NEW")};
  UPDATE topics SET changed = (SELECT changed FROM topic_marks WHERE {_OF_TOPIC.format("NEW")})
    WHERE rowid = NEW.rowid;
END;
"""
_TOPIC_MARKS: Final = f"""
CREATE TRIGGER topic_stored AFTER INSERT ON topics BEGIN {_NUMBERED}
CREATE TRIGGER topic_changed AFTER UPDATE OF revision ON topics BEGIN {_NUMBERED}
CREATE TRIGGER topic_deleted AFTER DELETE ON topics BEGIN
  UPDATE topic_marks SET deleted = deleted + 1 WHERE {_OF_TOPIC.format("OLD")};
END;
"""


_ROW_COUNTS: Final = """
CREATE TRIGGER row_stored AFTER INSERT ON search_rows BEGIN
  INSERT INTO embedded_rows VALUES (NEW.embedder, 1) ON CONFLICT (embedder) DO UPDATE SET rows = rows + 1;
END;
CREATE TRIGGER row_gone AFTER DELETE ON search_rows BEGIN
  UPDATE embedded_rows SET rows = rows - 1 WHERE embedder = OLD.embedder;
END;
"""

_EVENTS: Final = f"""
CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind INTEGER NOT NULL,            -- which of EVENT_KINDS, from 0
  turn INTEGER,                     -- number of the turn, which says the rest; without one the next three do
  user_id TEXT,
  thread_id TEXT,
  seq INTEGER,
  change_id TEXT,
  at INTEGER NOT NULL DEFAULT ({_NOW})
) STRICT;
CREATE INDEX events_change ON events (change_id) WHERE change_id IS NOT NULL;

CREATE TABLE events_pruned (        -- one row: all events up to this one are gone, whatever happened to their turns
  through INTEGER NOT NULL
) STRICT;

-- Numbers start at the time: so they are above (or below) all of a file that was here before (or comes after), and an
-- event of another file is known as none of this one's, short of a thousand events in every second of its life.
INSERT INTO sqlite_sequence (name, seq) VALUES ('events', {_NOW});
INSERT INTO events_pruned (through) SELECT seq FROM sqlite_sequence WHERE name = 'events';

CREATE TRIGGER events_prune AFTER INSERT ON events WHEN NEW.id % {_PRUNED_AT_ONCE} = 0 BEGIN
  DELETE FROM events WHERE id <= NEW.id - {KEPT_EVENTS};
  UPDATE events_pruned SET through = max(through, NEW.id - {KEPT_EVENTS});
END;

CREATE TRIGGER turn_stored AFTER INSERT ON turns BEGIN
  INSERT INTO events (kind, turn) VALUES ({_of("turn_stored")}, NEW.number);
END;
CREATE TRIGGER turn_indexed AFTER UPDATE OF pending ON turns
WHEN OLD.pending & {STAGE_BITS["index"]} AND NOT NEW.pending & {STAGE_BITS["index"]} BEGIN
  INSERT INTO events (kind, turn) VALUES ({_of("indexed")}, NEW.number);
END;
CREATE TRIGGER turn_topic_assigned AFTER UPDATE OF topic_id ON turns
WHEN NEW.topic_id IS NOT NULL AND NEW.topic_id IS NOT OLD.topic_id BEGIN
  INSERT INTO events (kind, turn) VALUES ({_of("topic_assigned")}, NEW.number);
END;
CREATE TRIGGER turn_parked AFTER UPDATE OF parked ON turns WHEN NEW.parked AND NOT OLD.parked BEGIN
  INSERT INTO events (kind, turn) VALUES ({_of("parked")}, NEW.number);
END;

CREATE TRIGGER facts_changed AFTER INSERT ON fact_events
WHEN (NEW.kind <> 'extraction' OR NEW.generation = '' AND NEW.stated GLOB '{{"events":*')
AND (NEW.turn_id IS NULL OR EXISTS (SELECT 1 FROM turns WHERE id = NEW.turn_id)) BEGIN
  INSERT INTO events (kind, turn, user_id, thread_id, change_id)
    VALUES ({_of("facts_changed")}, (SELECT number FROM turns WHERE id = NEW.turn_id),
      NEW.user_id, NEW.thread_id, NEW.key);
END;
CREATE TRIGGER facts_change_gone AFTER DELETE ON fact_events BEGIN
  DELETE FROM events WHERE change_id = OLD.key AND user_id = OLD.user_id AND thread_id = OLD.thread_id;
END;

CREATE TRIGGER compressed AFTER INSERT ON compressions BEGIN
  INSERT INTO events (kind, user_id, thread_id, seq, change_id)
    VALUES ({_of("compressed")}, NEW.user_id, NEW.thread_id, NEW.through, NEW.id);
END;
CREATE TRIGGER compression_gone AFTER DELETE ON compressions BEGIN
  DELETE FROM events WHERE change_id = OLD.id AND user_id = OLD.user_id AND thread_id = OLD.thread_id;
END;
"""


def create_schema(connection: sqlite3.Connection, path: str) -> None:
    """Create what is missing, within the caller's transaction. Raises StoreError for a file of a version that isn't read.

    A file of an earlier version is copied, then upgraded.
    """
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found == NEWEST:
        return
    if found:
        check_version(found, path)
        keep_copy(path)
        _upgrade(connection, found)
    else:
        _run(connection, _SCHEMA + _TOPIC_MARKS + _EVENTS + _ADDED + _ROW_COUNTS)
    connection.execute(f"PRAGMA user_version = {NEWEST}")


def _upgrade(connection: sqlite3.Connection, found: int) -> None:
    """Bring a file of an earlier version into this one's schema. Triggers are all made anew, for a file has those of its own time."""
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    _run(connection, _DROPPED + _ADDED)
    if found <= _FORMER_TOKENS:
        connection.execute("DELETE FROM row_tokens")
    for table, columns in _DROPPED_COLUMNS.items():
        there = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", [table])}
        for column in there.intersection(columns):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    for table, fields in _ADDED_COLUMNS.items():
        there = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", [table])}
        for column, kind in fields.kinds.items():
            if column not in there:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind.declared()}")
    _upgrade_facts(connection)
    for name in _DROPPED_META:
        connection.execute("DELETE FROM meta WHERE name = ?", [name])
    for statement in _statements(_TOPIC_MARKS + _EVENTS + _ROW_COUNTS):
        if statement.lstrip().startswith("CREATE TRIGGER"):
            connection.execute(statement)
    hash_all_remains(connection)


def _upgrade_facts(connection: sqlite3.Connection) -> None:
    """Before schema 14 the facts were a list of pairs, each a name and what is known of that person."""
    connection.execute("ALTER TABLE facts ADD COLUMN stripped INTEGER NOT NULL DEFAULT 0")
    there = connection.execute("SELECT user_id, thread_id, facts FROM facts WHERE facts GLOB '[[]*'")
    for user_id, thread_id, packed in there.fetchall():
        document = FactsDocument(people=dict(json.loads(packed)))
        connection.execute(
            "UPDATE facts SET facts = ?, people = ?, (created_at, updated_at) = (SELECT min(recorded_at), max(recorded_at)"
            " FROM fact_events WHERE user_id = ?3 AND thread_id = ?4) WHERE user_id = ?3 AND thread_id = ?4",
            [*FACTS.record(document)[:2], user_id, thread_id],
        )


def _run(connection: sqlite3.Connection, script: str) -> None:
    for statement in _statements(script):
        connection.execute(statement)


def _statements(script: str) -> list[str]:
    # Not executescript: it would commit the caller's transaction first.
    lines = (line.partition("--")[0] for line in script.splitlines())
    statements = [""]
    for part in "\n".join(lines).split(";")[:-1]:
        # A trigger's own statements end in semicolons too; the trigger does at the one after its END.
        statements[-1] += f"{part};"
        if sqlite3.complete_statement(statements[-1]):
            statements.append("")
    return statements[:-1]
