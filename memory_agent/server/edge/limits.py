"""Rate limits by GCRA and concurrency limits of a key. Times are passed in."""

from __future__ import annotations

from collections import Counter
from typing import Final

_FORGET_FROM: Final = 1_024
"""Keys from which on full buckets are looked for and forgotten."""


class Buckets:
    """A token bucket per key: ten seconds' worth of requests at once (at least 1), then `rate_per_minute` a minute.

    Each bucket is kept as the one time at which it would be full again ("theoretical arrival time" of the generic
    cell rate algorithm, ITU-T I.371), so that a full bucket need not be kept at all.
    """

    def __init__(self, rate_per_minute: float) -> None:
        """`rate_per_minute` 0: no limit."""
        self._rate = rate_per_minute
        self._full_at: dict[str, float] = {}
        self._look_from = _FORGET_FROM

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: str, now: float, *, rate_per_minute: float | None = None) -> float:
        """Take one token. 0 means go; else nothing is taken, and so many seconds later there will be one.

        `now`: seconds of a monotonic clock. `rate_per_minute`: of this key, instead of all keys' rate.
        """
        rate = self._rate if rate_per_minute is None else rate_per_minute
        if (wait := self.wait(key, now, rate_per_minute=rate)) > 0 or rate <= 0:
            return wait
        self._full_at[key] = max(self._full_at.get(key, now), now) + 60 / rate
        if len(self._full_at) >= self._look_from:
            self._full_at = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
            # Twice what is left, so that looking costs a constant share of a request.
            self._look_from = max(_FORGET_FROM, 2 * len(self._full_at))
        return 0.0

    def wait(self, key: str, now: float, *, rate_per_minute: float | None = None) -> float:
        """The seconds until there is a token, as `take` would say; none is taken."""
        rate = self._rate if rate_per_minute is None else rate_per_minute
        if rate <= 0:
            return 0.0
        burst = max(1, round(rate / 6))
        wait = self._full_at.get(key, now) - now - (burst - 1) * 60 / rate
        # A request that comes when it was told to must not wait for a rounding error.
        return (
            wait if wait > max(1e-9, 1e-13 * abs(now)) else 0.0
        )  # some hundred times what a double can tell apart


class Concurrency:
    """Concurrency limit: the requests of each key that are in progress."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._held)

    def enter(self, key: str) -> bool:
        """Count one more, if there is room; who was let in must `leave`."""
        if self._held[key] >= self._limit:
            return False
        self._held[key] += 1
        return True

    def leave(self, key: str) -> None:
        """One is done."""
        self._held[key] -= 1
        if self._held[key] <= 0:
            del self._held[key]
