"""Regular expressions that are compiled when they are first used, so that importing this package compiles none.

There are some three hundred; a process that only reads needs a fraction of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

P = TypeVar("P")


class _Pattern:
    """Stands for a compiled pattern: makes it at the first look at any attribute and has its attributes from then on."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        made = self._make()
        # What is found in the instance is no longer asked for here, so a use costs what it would cost without this.
        self.__dict__.update((own, getattr(made, own)) for own in dir(made) if not own.startswith("_"))
        return getattr(made, name)


def lazily(compiler: Callable[..., P], *arguments: Any) -> P:
    """The result of `compiler(*arguments)` (`re.compile`, `regex.compile`), made when it is first used.

    >>> import re
    >>> lazily(re.compile, "a+").sub("b", "caat")
    'cbt'
    """
    return cast("P", _Pattern(lambda: compiler(*arguments)))
