"""Salvage: what can be read of a damaged SQLite file, as an export."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memory_agent.domain import Scope
from memory_agent.errors import InvalidInput
from memory_agent.exports.files import ExportWriter, Header, Record, new_file, read_record
from memory_agent.stores.sqlite.salvage import DamagedStore

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Salvaged:
    """Counts of turns: those that were saved, and those that were found and could not be, for their text is gone."""

    turns: int
    lost: int


def salvage(file: Path, target: Path) -> Salvaged:
    """Write the turns that can be read into a new export, in the order of their threads; the damaged file is only read.

    What was derived of them is made anew where the export is imported. Raises ConfigError for a target that cannot be written.
    """
    header = Header(content="export", started_at=datetime.now(UTC).isoformat(), vectors=False)
    refused = 0
    with contextlib.closing(DamagedStore(file)) as store, new_file(target) as stream:
        writer = ExportWriter(stream, header)
        for copied in store.turns():
            scope = Scope(user_id=copied.turn.user_id, thread_id=copied.turn.thread_id)
            record = Record.of(copied, scope)
            try:
                read_record(record.line())  # whoever imports it takes all of it or nothing
            except (InvalidInput, ValueError):
                refused += 1
            else:
                writer.put(record)
        turns = writer.end().records.get("turn", 0)
    return Salvaged(turns=turns, lost=store.lost + refused)
