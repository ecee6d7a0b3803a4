"""A dict of what was used last."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

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
