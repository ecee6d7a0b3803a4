"""Damage in stored values, told as an error of ours."""

from __future__ import annotations

from typing import Final

import brotli

from memory_agent.errors import StoreError

DAMAGED: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, brotli.error)
"""What comes of reading a value whose bytes were changed."""


def damaged(name: object, exc: Exception) -> StoreError:
    """The error about a stored value of that name."""
    return StoreError(
        f"what is stored as {name!r:.80} is damaged ({type(exc).__name__}: {exc!s:.200}). Nothing was changed; look for"
        " more of it with `memory-agent doctor`, or restore a backup"
    )
