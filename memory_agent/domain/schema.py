"""Schema of a store, and what of an earlier one is still there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaState:
    """State of a store's schema: from which version on processes can work on it."""

    version: int
    """The earliest schema whose processes still can work on the store."""
    newest: int
    """This memory_agent's."""
    kept: tuple[str, ...] = ()
    """Files of before the upgrade that are no longer needed: the copy that was made first, the index of earlier versions."""

    @property
    def finished(self) -> bool:
        """True if nothing of an earlier schema is there."""
        return self.version == self.newest and not self.kept
