"""Schema of a store, and what its upgrade has left."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaState:
    """State of a store's schema: opening a store of an earlier version upgrades it."""

    version: int
    left: int = 0
    """Users whose documents the worker still has to bring into the new form, which is done in the background."""
    kept: tuple[str, ...] = ()
    """Files from before the upgrade: the copy that was made first, the index of version 0.1.0. Erasing removes them."""
