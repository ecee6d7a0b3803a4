"""Constants of the package, smaller where a test wants little to be enough to see something."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import pytest

from memory_agent.digest.fold import AnalysisCache
from memory_agent.topics.projection import MatchSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "compress_every_turns": ("memory_agent.conversations.compress._LONGEST_GAP_TURNS",),
    "facts_batch_turns": ("memory_agent.work.worker.FACTS_BATCH_TURNS",),
    "max_turns_per_session": ("memory_agent.conversations.sessions._MOST_TURNS",),
    "server_concurrent_requests": ("memory_agent.server.app._CONCURRENT_REQUESTS",),
    "server_event_streams": ("memory_agent.server.app.MOST_READERS",),
    "server_failed_keys_per_minute": ("memory_agent.server.access.FAILED_KEYS_PER_MINUTE",),
    "server_idle_seconds": ("memory_agent.server.run._IDLE_SECONDS",),
    "server_key_cache_seconds": ("memory_agent.server.app.KEY_CACHE_SECONDS",),
    "retry_max_seconds": ("memory_agent.work.worker.LONGEST_RETRY_SECONDS",),
    "worker_batch_turns": ("memory_agent.work.worker._BATCH_TURNS",),
    "worker_poll_seconds": ("memory_agent.work.worker.POLL_SECONDS",),
}
DEFAULTS: Final[Mapping[str, tuple[Any, str]]] = {
    "continuation_bonus": (MatchSettings, "continuation_bonus"),
    "max_live_threads": (AnalysisCache, "max_threads"),
    "short_turn_terms": (MatchSettings, "short_turn_terms"),
}


@contextlib.contextmanager
def settings_of(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The settings among `given`; the constants among them have these values while the block lasts."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            for place in PLACES.get(name, ()):
                patch.setattr(place, value)
            if name in DEFAULTS:
                kind, argument = DEFAULTS[name]
                patch.setitem(kind.__init__.__kwdefaults__, argument, value)
        yield {name: value for name, value in given.items() if name not in {*PLACES, *DEFAULTS}}
