"""Damage in stored values, told as an error of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import brotli

from memory_agent.errors import StoreError

if TYPE_CHECKING:
    from types import TracebackType

_DAMAGED: Final = (ValueError, TypeError, KeyError, IndexError, OverflowError, brotli.error)


class whole:  # noqa: N801 - read as a word: with whole(...)
    """Block that reads a stored value; raises StoreError, which names the value, where it is damaged.

    A class and no generator, for every value that is read goes through it.
    """

    __slots__ = ("_name",)

    def __init__(self, name: object) -> None:
        self._name = name

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and isinstance(error, _DAMAGED):
            raise StoreError(
                f"what is stored as {self._name!r:.80} is damaged ({type(error).__name__}: {error!s:.200}). Nothing was"
                " changed; look for more of it with `memory-agent doctor`, or restore a backup"
            ) from error
