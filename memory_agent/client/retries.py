"""Retry policy: which failures are retried, and after what pause."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_PAUSE_SECONDS: Final = 30.0
"""A service that asks for more patience is not waited for; its error says how long."""
_FIRST_PAUSE_SECONDS: Final = 0.25


def pause_before(retry: int, *, chance: float, retry_after: float | None = None) -> float:
    """Seconds to wait before the retry of that number (0: the first), `chance` being drawn from [0, 1).

    Without `retry_after` (what the service asks for) a quarter of a second, doubled with each retry, of which the upper
    half is left to chance, so that clients that failed together don't come back together.

    >>> pause_before(0, chance=0.0), pause_before(2, chance=1.0), pause_before(0, chance=0.0, retry_after=3)
    (0.125, 1.0, 3.0)
    """
    if retry_after is not None:
        # A little more, lest all come back in the same moment; never less.
        return float(retry_after) + chance * min(0.1 * retry_after, 1.0)
    most = min(_FIRST_PAUSE_SECONDS * math.pow(2, min(retry, 16)), LONGEST_PAUSE_SECONDS)
    return most * (0.5 + chance / 2)


def read_retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds that a `Retry-After` header asks for: a number, or a time (RFC 9110, section 10.2.3); None for neither.

    >>> read_retry_after("7", datetime.now(UTC)), read_retry_after("soon", datetime.now(UTC))
    (7.0, None)
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            time = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (time.replace(tzinfo=time.tzinfo or UTC) - now).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None
