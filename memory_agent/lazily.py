"""Patterns and fields made when they are first used; what was read in a text or used last, kept.

There are some three hundred expressions: importing this package compiles none, and a process that only reads needs a fraction of them.
"""

from __future__ import annotations

import functools
import operator
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable


P = TypeVar("P")

_LONGEST_KEPT: Final = 8_192
_SHORT: Final = 500


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


class LateFields:
    """Base of frozen dataclasses with slots, of which some fields are made when they are first read: few readers do."""

    __slots__ = ("_make",)

    def made_later(self, make: Callable[[Self, str], Any], *names: str) -> Self:
        """This value with these fields left for `make` (of the value and a field's name), whatever they were given.

        For whoever has just made it.
        """
        object.__setattr__(self, "_make", make)
        for name in names:
            object.__delattr__(self, name)
        return self

    if not TYPE_CHECKING:  # else any misspelt attribute would be one

        def __getattr__(self, name: str) -> Any:
            if name not in getattr(self, "__dataclass_fields__", ()):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            made = object.__getattribute__(self, "_make")(self, name)
            object.__setattr__(self, name, made)
            return made


class KeptByText(Generic[P]):
    """A function of one text that keeps its last results by their texts, but for texts so long that a few would fill the memory."""

    def __init__(self, function: Callable[[str], P], maxsize: int, short: int) -> None:
        functools.update_wrapper(self, function)
        self._function, self._kept = function, functools.lru_cache(maxsize)(function)
        self._of_short = functools.lru_cache(short)(function) if short else self._kept

    def __call__(self, text: str) -> P:
        if len(text) <= _SHORT:
            return self._of_short(text)
        return self._kept(text) if len(text) <= _LONGEST_KEPT else self._function(text)

    def cache_info(self) -> functools._CacheInfo:
        """Counts of the results of all texts, short ones and others."""
        kept, of_short = self._kept.cache_info(), self._of_short.cache_info()
        return kept if self._kept is self._of_short else type(kept)(*map(operator.add, kept, of_short))

    def cache_clear(self) -> None:
        """Forget all results."""
        self._kept.cache_clear()
        self._of_short.cache_clear()


def kept_by_text(maxsize: int, *, short: int = 0) -> Callable[[Callable[[str], P]], KeptByText[P]]:
    """Decorate a function of one text to keep so many results; with `short` so many more of texts of at most 500 characters."""
    return functools.partial(KeptByText, maxsize=maxsize, short=short)


K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V]):
    """The values of the `most` keys that were put or got last; 0 keeps none."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def got(self, key: K) -> V | None:
        """The value, which counts as used now; None if it is not kept."""
        if key in self:
            self.move_to_end(key)
        return self.get(key)

    def put(self, key: K, value: V) -> V:
        """Keep a value, and let go of those used longest ago; the value."""
        self[key] = value
        self.move_to_end(key)
        while len(self) > self.most:
            self.popitem(last=False)
        return value
