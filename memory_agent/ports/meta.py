"""The port of a store's metadata: what is true of the store as a whole, and of nobody in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from memory_agent.domain import SchemaState

RESTORING: Final = "restoring"
"""Of a memory that is being restored: which backup. Empty once all of it is there."""


class MetaStore(Protocol):
    """Metadata of the store as a whole: its id, its marks, its schema. Holds nothing that a user said."""

    async def get_meta(self, name: str) -> dict[str, Any] | None:
        """The value put under the name; None if there is none."""

    async def put_meta(self, name: str, value: dict[str, Any], *, only_new: bool = False) -> bool:
        """Put a JSON object under the name, durably, in place of what was there.

        With `only_new` nothing changes where something is; True if it was put. Of several at once one wins.
        """

    async def check_files(self) -> list[str]:
        """Faults of the store's own files, a line each, as far as it can tell; of a server's files nothing is told."""

    async def schema(self) -> SchemaState:
        """State of the store's schema, which is this version's once the store is open."""

    async def upgrade_some(self) -> bool:
        """Do a piece of what upgrading left for later; True if there was anything. Several processes may call it at once."""
