"""Two months of a thread under the nightly sweep, as `python -m benchmarks.year` goes through a whole year."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks.year import DAILY, START, chat, live, returning_day

DAYS = 60
MAX_TOPICS = 12
"""Three more than the regular subjects have, so that the first chats have to go early on."""


@pytest.mark.nightly
async def test_a_thread_lives_under_the_nightly_sweep(tmp_path: Path) -> None:
    """Every night has a dry run; one that said something else than the sweep then did would fail."""
    year = await live(str(tmp_path), days=DAYS, settings={"max_topics": MAX_TOPICS})
    assert year.nights == DAYS
    assert sum(map(len, year.archived.values())) > 0

    # Compressed and archived or not, each turn is there byte for byte and in its place.
    assert year.lost == 0
    assert any(stats.compressed_messages for stats in year.topics.values())
    assert sum(stats.total_messages for stats in year.topics.values()) == len(year.said)
    assert all(len(cores) == 1 for cores in year.topic_subjects.values()), "each topic has one subject"

    for core, _ in DAILY:  # what is talked about every day stays one topic, and is long-term by now
        (topic_id,) = year.subject_topics[core]
        assert not year.topics[topic_id].archived
        assert not year.archived.get(topic_id)
        assert year.topics[topic_id].memory_type == "long-term"

    # The thread keeps as many topics as it may, and the chats that had to go are the oldest.
    assert sum(not stats.archived for stats in year.topics.values()) == MAX_TOPICS
    assert all(year.topics[year.subject_topics[chat(n).core][-1]].archived for n in range(2, 8))
    assert not any(stats.active_messages for stats in year.topics.values() if stats.archived)

    # A chat that comes back from the archive goes on in its topic, whether somebody restored it or not.
    (restored,) = year.subject_topics[chat(1).core]
    assert year.restored == [restored]
    assert year.topics[restored].total_messages == 8
    assert year.archived[restored][0][0] < START + timedelta(days=returning_day(DAYS))
    (back,) = year.subject_topics[chat(0).core]
    assert (year.topics[back].total_messages, len(year.archived[back]) > 0) == (8, True)
