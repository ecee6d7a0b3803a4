"""Parts that are down: a stage that needs one waits, longer each time, instead of failing turn by turn."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory_agent.domain import Stage
    from memory_agent.errors import Unavailable

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Hold:
    """A stage that waits because a part it needs is down."""

    error: Unavailable
    failures: int
    until: float


def backoff_seconds(failures: int, *, base: float, longest: float, jitter: float) -> float:
    """How long to wait after so many `failures` (from 1): doubling from `base`, at most `longest`.

    `jitter` in [0, 1] takes up to half of it away, so that many turns that failed together don't return together.
    """
    doubled = base * 2.0 ** min(max(failures - 1, 0), 60)
    return min(doubled, longest) * (1.0 - 0.5 * jitter)


class Outages:
    """Which stages of one worker wait for which part, until when (monotonic seconds)."""

    def __init__(self, base_seconds: float, longest_seconds: float) -> None:
        self._base = base_seconds
        self._longest = longest_seconds
        self._holds: dict[Stage, _Hold] = {}

    @property
    def down(self) -> frozenset[str]:
        """Parts that were down when last needed."""
        return frozenset(hold.error.part for hold in self._holds.values())

    def held(self, stage: Stage) -> bool:
        """Whether the stage has to wait."""
        hold = self._holds.get(stage)
        return hold is not None and time.monotonic() < hold.until

    def hold(self, stage: Stage, exc: Unavailable) -> float:
        """Let the stage wait for the part that `exc` names; until when."""
        before = self._holds.get(stage)
        if before is not None and self.held(stage):
            return before.until  # calls that failed together are one failure
        failures = before.failures + 1 if before else 1
        seconds = self.backoff(failures)
        log.warning("stage %s waits %.1f s for the %s: %s", stage, seconds, exc.part, type(exc).__name__)
        hold = self._holds[stage] = _Hold(error=exc, failures=failures, until=time.monotonic() + seconds)
        return hold.until

    def ended(self, stage: Stage) -> None:
        """The stage did its work: nothing that it needs is down."""
        self._holds.pop(stage, None)

    def backoff(self, failures: int) -> float:
        """See `backoff_seconds`."""
        return backoff_seconds(
            failures,
            base=self._base,
            longest=self._longest,
            jitter=random.random(),  # noqa: S311 - spreads retries, guards nothing
        )
