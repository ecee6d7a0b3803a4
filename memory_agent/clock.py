"""The machine's clock."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    """`Clock` by the machine's clock. Workers of one database should agree to within a few seconds."""

    def now(self) -> datetime:
        """The current instant in UTC, cut to milliseconds."""
        now = datetime.now(UTC)
        return now.replace(microsecond=now.microsecond // 1000 * 1000)
