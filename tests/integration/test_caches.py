"""What an open service keeps of texts in memory, and when it lets go of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_agent.text import quotes, sentences, subjects, terms
from tests.integration.conversations import opened, settings_on

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

CACHES = (
    terms._stem,
    sentences.sentences_of,
    quotes.quotes_of,
    subjects.content_words,
    subjects.says_more_than,
)


def kept() -> list[int]:
    """How many texts or words each of the process's caches holds."""
    return [cache.cache_info().currsize for cache in CACHES]


async def test_what_rules_keep_of_texts_goes_when_something_is_forgotten_and_in_time(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Words, sentences and quotes of the last few texts, and the analyses of live threads."""
    async with opened(settings_on("sqlite", request, tmp_path)) as service:
        memory = service.agent("ann", "chat")
        for clear in ("forget", "housekeep"):
            turn = await memory.add_user_message("I am so happy about the xylophone of Ulm!")
            await memory.settle(timeout=60)
            await memory.fetch_memory("Which xylophone?")
            assert all(kept())
            assert (await service.get_stats()).turns > 0
            if clear == "forget":
                await memory.forget([turn.id])
            else:
                service.core.housekeep()
            assert kept() == [0] * len(CACHES)
            assert (await service.get_stats()).live_threads == 0
