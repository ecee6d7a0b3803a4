"""The tables and indexes of the SQLite store. Times are milliseconds since 1970; text compares byte by byte."""

from __future__ import annotations

import sqlite3
from typing import Final

from memory_agent.errors import StoreError
from memory_agent.stores.sqlite.events_schema import EVENTS_SCHEMA

VERSION: Final = 6

_SCHEMA: Final = """
CREATE TABLE turns (
  id TEXT NOT NULL PRIMARY KEY,
  user_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  role TEXT NOT NULL,
  content TEXT NOT NULL,
  speaker TEXT,
  timestamp INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  importance REAL,
  metadata TEXT,
  pending INTEGER NOT NULL,         -- a bit per owed stage
  due_at INTEGER,                   -- only while something is owed and not parked
  attempts INTEGER NOT NULL DEFAULT 0,
  last_error TEXT,
  parked INTEGER NOT NULL DEFAULT 0,
  idempotency_key TEXT,
  call_index INTEGER NOT NULL,
  call_size INTEGER NOT NULL,
  topic_id TEXT,
  segment_id INTEGER,               -- where the text is; `content` is empty then
  segment_at INTEGER,               -- its place among the segment's texts, from 0
  session_id TEXT,
  entities TEXT                     -- those that the caller gave, as a JSON array; NULL without any
) STRICT;
CREATE UNIQUE INDEX turns_seq ON turns (user_id, thread_id, seq);
CREATE UNIQUE INDEX turns_call ON turns (user_id, thread_id, idempotency_key, call_index)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX turns_user ON turns (user_id, id);
CREATE INDEX turns_topic ON turns (user_id, topic_id, thread_id, seq) WHERE topic_id IS NOT NULL;
CREATE INDEX turns_session ON turns (user_id, session_id, thread_id, seq) WHERE session_id IS NOT NULL;
CREATE INDEX turns_time ON turns (timestamp, id);
CREATE INDEX turns_owed ON turns (user_id, thread_id, seq, pending, parked) WHERE pending <> 0;
CREATE INDEX turns_owed_user ON turns (user_id, id, pending, parked) WHERE pending <> 0;
CREATE INDEX turns_due ON turns (due_at, user_id, thread_id, id) WHERE due_at IS NOT NULL;
CREATE INDEX turns_parked ON turns (user_id, thread_id, id) WHERE parked = 1;

CREATE TABLE segments (             -- texts of compressed turns, which say where theirs is; the rest are empty
  id INTEGER PRIMARY KEY,
  user_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  topic_id TEXT NOT NULL,
  live INTEGER NOT NULL,            -- how many turns have their text here
  raw_bytes INTEGER NOT NULL,
  codec INTEGER NOT NULL,
  data BLOB NOT NULL
) STRICT;
CREATE INDEX segments_topic ON segments (user_id, thread_id, topic_id);

CREATE TABLE topics (               -- with a rowid: without one, rows of this size would get pages of their own
  user_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  id TEXT NOT NULL,
  title TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  last_access INTEGER NOT NULL,
  access_count INTEGER NOT NULL,
  given_importance REAL,
  embedded INTEGER NOT NULL,
  embedder TEXT NOT NULL,
  through INTEGER NOT NULL,
  stale INTEGER NOT NULL,
  set_importance REAL,
  votes INTEGER NOT NULL,
  tags TEXT NOT NULL,
  absorbed TEXT NOT NULL,
  archived INTEGER NOT NULL,
  revision TEXT NOT NULL,
  embedding BLOB NOT NULL,          -- the large ones last, so that the others are read without them
  summary TEXT,
  PRIMARY KEY (user_id, thread_id, id)
) STRICT;
CREATE INDEX topics_absorbing ON topics (user_id, thread_id) WHERE absorbed <> '[]';

CREATE TABLE sessions (             -- with rowids, as topics: what is in `metadata` may be large
  user_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  id TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  after_seq INTEGER NOT NULL,
  explicit INTEGER NOT NULL,
  participants TEXT NOT NULL,
  character TEXT,
  metadata TEXT,
  idempotency_key TEXT,
  PRIMARY KEY (user_id, thread_id, number)
) STRICT;
CREATE INDEX sessions_id ON sessions (id, user_id); -- in this order, for a session may be asked for by its id alone
CREATE UNIQUE INDEX sessions_call ON sessions (user_id, thread_id, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX sessions_time ON sessions (user_id, started_at, number, thread_id);

CREATE TABLE compressions (         -- with rowids, as topics
  user_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  id TEXT NOT NULL,
  session_id TEXT,
  at INTEGER NOT NULL,
  reason TEXT NOT NULL,
  after_seq INTEGER NOT NULL,
  through INTEGER NOT NULL,
  turns INTEGER NOT NULL,
  tokens_before INTEGER NOT NULL,
  tokens_after INTEGER NOT NULL,
  made_by TEXT NOT NULL,
  derived TEXT NOT NULL,            -- the large ones last
  covers TEXT NOT NULL,             -- ids of turns, as a JSON array
  PRIMARY KEY (user_id, thread_id, number)
) STRICT;
CREATE INDEX compressions_session ON compressions (user_id, session_id, thread_id) WHERE session_id IS NOT NULL;

CREATE TABLE threads (              -- the highest number ever given, once turns of the thread were erased
  user_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  last_seq INTEGER NOT NULL,
  PRIMARY KEY (user_id, thread_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE tombstones (           -- what is left of erased turns that had an idempotency key
  turn_id TEXT NOT NULL PRIMARY KEY,
  user_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  idempotency_key TEXT NOT NULL,
  call_index INTEGER NOT NULL,
  call_size INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tombstones_call ON tombstones (user_id, thread_id, idempotency_key, call_index);

CREATE TABLE spent_keys (           -- what is left of erased edits and sessions that had an idempotency key
  user_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  id TEXT NOT NULL,                 -- the change's key, or the session's id
  PRIMARY KEY (user_id, thread_id, kind, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE leases (
  name TEXT NOT NULL PRIMARY KEY,
  holder TEXT NOT NULL,
  since INTEGER NOT NULL,
  until INTEGER NOT NULL,
  note TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE search_rows (
  turn_id TEXT NOT NULL PRIMARY KEY,
  user_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  role TEXT NOT NULL,
  timestamp INTEGER NOT NULL,
  session_id TEXT,
  speaker TEXT,
  signs INTEGER NOT NULL,
  vectors BLOB NOT NULL,
  passages INTEGER NOT NULL,
  terms TEXT NOT NULL,
  length INTEGER NOT NULL,
  embedder TEXT NOT NULL,           -- whose vectors these are
  language TEXT NOT NULL,           -- whose stems these are
  index_seq INTEGER NOT NULL,
  erased_at INTEGER                 -- a stub
) STRICT;
CREATE UNIQUE INDEX search_rows_index_seq ON search_rows (user_id, index_seq);
CREATE INDEX search_rows_place ON search_rows (user_id, thread_id, seq) WHERE erased_at IS NULL;
CREATE INDEX search_rows_erased ON search_rows (user_id, erased_at) WHERE erased_at IS NOT NULL;

CREATE TABLE row_terms (            -- which rows hold a term
  user_id TEXT NOT NULL,
  term TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  PRIMARY KEY (user_id, term, turn_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE facts (
  user_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  facts TEXT NOT NULL,
  through INTEGER NOT NULL,
  at TEXT NOT NULL DEFAULT '',
  revision TEXT NOT NULL,
  floor INTEGER NOT NULL DEFAULT 0, -- up to which number changes were erased
  PRIMARY KEY (user_id, thread_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE fact_events (
  user_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  key TEXT NOT NULL,
  kind TEXT NOT NULL,
  at TEXT NOT NULL,
  turn_id TEXT,                     -- NULL for what people did
  turns TEXT NOT NULL,              -- all that were in view, as a JSON array
  said_at INTEGER NOT NULL,
  recorded_at INTEGER NOT NULL,
  extractor TEXT NOT NULL,
  generation TEXT NOT NULL,
  stated TEXT NOT NULL,             -- events and refused facts
  idempotency_key TEXT,             -- of what people did
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
  user_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  turns INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  PRIMARY KEY (user_id, thread_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE erasures (
  id TEXT NOT NULL PRIMARY KEY,
  user_id TEXT NOT NULL,
  thread_id TEXT,
  turn_ids TEXT,
  before_id TEXT NOT NULL,
  due_at INTEGER NOT NULL,
  swept INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX erasures_due ON erasures (due_at);
CREATE INDEX erasures_user ON erasures (user_id);
"""


def create_schema(connection: sqlite3.Connection, path: str) -> None:
    """Create what is missing, within the caller's transaction. Raises StoreError for a file of another version."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found == VERSION:
        return
    if found > VERSION:
        raise StoreError(
            f"{path} was written by a later memory_agent (schema {found}, this one knows up to {VERSION}); "
            "upgrade memory_agent, or name another data_dir"
        )
    if found:
        raise StoreError(
            f"{path} was written by an earlier memory_agent (schema {found}, this one needs {VERSION}), and before "
            "1.0 there are no migrations; name another data_dir, or export the turns with the memory_agent that "
            "wrote them and ingest them anew"
        )
    for statement in _statements():
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _statements() -> list[str]:
    # Not executescript: it would commit the caller's transaction first.
    lines = (line.partition("--")[0] for line in (_SCHEMA + EVENTS_SCHEMA).splitlines())
    statements = [""]
    for part in "\n".join(lines).split(";")[:-1]:
        # A trigger's own statements end in semicolons too; the trigger does at the one after its END.
        statements[-1] += f"{part};"
        if sqlite3.complete_statement(statements[-1]):
            statements.append("")
    return statements[:-1]
