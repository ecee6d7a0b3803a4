"""The outbox of the SQLite store: triggers note what happened, in the transaction in which it happens."""

# ruff: noqa: S608 - put together from constants of this package only

from __future__ import annotations

from typing import Final

from memory_agent.stores.fields import STAGE_BITS

KEPT_EVENTS: Final = 100_000
"""How many of the newest events are kept at least; what was erased with its turn counts."""
_PRUNED_AT_ONCE: Final = 100
_NOW: Final = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"
"""Milliseconds since 1970. 2440587.5 is the Julian day of that; unixepoch('subsec') needs SQLite 3.42."""

EVENTS_SCHEMA: Final = f"""
CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  user_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  turn_id TEXT,
  seq INTEGER,
  topic_id TEXT,
  change_id TEXT,
  at INTEGER NOT NULL DEFAULT ({_NOW})
) STRICT;
CREATE INDEX events_turn ON events (turn_id) WHERE turn_id IS NOT NULL;
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
  INSERT INTO events (kind, user_id, thread_id, turn_id, seq)
    VALUES ('turn_stored', NEW.user_id, NEW.thread_id, NEW.id, NEW.seq);
END;
CREATE TRIGGER turn_indexed AFTER UPDATE OF pending ON turns
WHEN OLD.pending & {STAGE_BITS["index"]} AND NOT NEW.pending & {STAGE_BITS["index"]} BEGIN
  INSERT INTO events (kind, user_id, thread_id, turn_id, seq)
    VALUES ('indexed', NEW.user_id, NEW.thread_id, NEW.id, NEW.seq);
END;
CREATE TRIGGER turn_topic_assigned AFTER UPDATE OF topic_id ON turns
WHEN NEW.topic_id IS NOT NULL AND NEW.topic_id IS NOT OLD.topic_id BEGIN
  INSERT INTO events (kind, user_id, thread_id, turn_id, seq, topic_id)
    VALUES ('topic_assigned', NEW.user_id, NEW.thread_id, NEW.id, NEW.seq, NEW.topic_id);
END;
CREATE TRIGGER turn_parked AFTER UPDATE OF parked ON turns WHEN NEW.parked AND NOT OLD.parked BEGIN
  INSERT INTO events (kind, user_id, thread_id, turn_id, seq)
    VALUES ('parked', NEW.user_id, NEW.thread_id, NEW.id, NEW.seq);
END;
CREATE TRIGGER turn_gone AFTER DELETE ON turns BEGIN
  DELETE FROM events WHERE turn_id = OLD.id;
END;

CREATE TRIGGER facts_changed AFTER INSERT ON fact_events
WHEN (NEW.kind <> 'extraction' OR NEW.generation = '' AND NEW.stated GLOB '{{"events":*')
AND (NEW.turn_id IS NULL OR EXISTS (SELECT 1 FROM turns WHERE id = NEW.turn_id)) BEGIN
  INSERT INTO events (kind, user_id, thread_id, turn_id, seq, change_id)
    VALUES ('facts_changed', NEW.user_id, NEW.thread_id, NEW.turn_id,
      (SELECT seq FROM turns WHERE id = NEW.turn_id), NEW.key);
END;
CREATE TRIGGER facts_change_gone AFTER DELETE ON fact_events BEGIN
  DELETE FROM events WHERE change_id = OLD.key AND user_id = OLD.user_id AND thread_id = OLD.thread_id;
END;

CREATE TRIGGER compressed AFTER INSERT ON compressions BEGIN
  INSERT INTO events (kind, user_id, thread_id, seq, change_id)
    VALUES ('compressed', NEW.user_id, NEW.thread_id, NEW.through, NEW.id);
END;
CREATE TRIGGER compression_gone AFTER DELETE ON compressions BEGIN
  DELETE FROM events WHERE change_id = OLD.id AND user_id = OLD.user_id AND thread_id = OLD.thread_id;
END;
"""
