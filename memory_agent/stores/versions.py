"""Versions of the stores' schema, one number for both. Opening a store of an earlier version upgrades it; a later one is refused."""

from __future__ import annotations

from typing import Final

from memory_agent.errors import StoreError

NEWEST: Final = 11
OLDEST: Final = 9
"""That of version 0.1.0, the first that was released."""


def check_version(found: int, place: str) -> None:
    """Raise StoreError for a store of a version that is not read here. `place`: the file, or the database."""
    if found > NEWEST:
        raise StoreError(
            f"{place} was written by a later memory_agent (schema {found}, this one knows up to {NEWEST}); nothing in it"
            " was touched. Upgrade memory_agent, or name another data_dir or db_name"
        )
    if found < OLDEST:
        raise StoreError(
            f"{place} was written by a memory_agent of before 0.1.0 (schema {found}, this one reads {OLDEST} and later);"
            " nothing in it was touched. Name another data_dir or db_name, or export the turns with the memory_agent that"
            " wrote them and ingest them anew"
        )
