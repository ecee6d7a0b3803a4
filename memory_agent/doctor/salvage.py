"""Salvage: what can be read of a damaged SQLite file, as an export."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memory_agent.domain import Scope
from memory_agent.exports.files import ExportWriter, Header, new_file
from memory_agent.exports.records import Record
from memory_agent.stores.sqlite.salvage import readable_turns

if TYPE_CHECKING:
    from pathlib import Path

    from memory_agent.exports.files import Written


def salvage(file: Path, target: Path, *, now: datetime | None = None) -> Written:
    """Write the turns that can be read into a new export, in the order of their threads; the damaged file is only read.

    What was derived of them is made anew where the export is imported. Raises ConfigError for a target that cannot be written.
    """
    header = Header(content="export", started_at=(now or datetime.now(UTC)).isoformat(), vectors=False)
    found = sorted(
        readable_turns(file), key=lambda copied: (copied.turn.user_id, copied.turn.thread_id, copied.turn.seq)
    )
    with new_file(target) as stream:
        writer = ExportWriter(stream, header)
        for copied in found:
            writer.put(Record.of(copied, Scope(user_id=copied.turn.user_id, thread_id=copied.turn.thread_id)))
        return writer.end()
