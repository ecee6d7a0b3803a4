"""Two months of a thread under the nightly sweep, as `python -m benchmarks.year` goes through a whole year."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from benchmarks.year import DAILY, START, Year, chat, live, returning_day

pytestmark = pytest.mark.nightly
DAYS = 60
MAX_TOPICS = 12
"""Three more than the regular subjects have, so that the first chats have to go early on."""


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Year:
    """What became of it. Every night of it had a dry run; one that said something else would have failed."""
    folder = str(tmp_path_factory.mktemp("year"))
    return asyncio.run(live(folder, days=DAYS, settings={"max_topics": MAX_TOPICS}))


def test_every_dry_run_said_what_the_sweep_then_did(year: Year) -> None:
    """Sixty nights were compared, and on some of them there was something to do."""
    assert year.nights == DAYS
    assert sum(map(len, year.archived.values())) > 0


def test_every_turn_reads_as_it_was_said(year: Year) -> None:
    """Compressed and archived or not, each turn is there byte for byte and in its place."""
    assert year.lost == 0
    assert any(stats.compressed_messages for stats in year.topics.values())
    assert sum(stats.total_messages for stats in year.topics.values()) == len(year.said)


def test_each_topic_has_one_subject(year: Year) -> None:
    """No turn strayed into another subject's topic, so the other figures are about what they say."""
    assert all(len(cores) == 1 for cores in year.topic_subjects.values())


def test_what_is_talked_about_every_day_stays(year: Year) -> None:
    """Each of the daily subjects is one topic from the first day to the last, long-term by now."""
    for core, _ in DAILY:
        (topic_id,) = year.subject_topics[core]
        assert not year.topics[topic_id].archived
        assert not year.archived.get(topic_id)
        assert year.topics[topic_id].memory_type == "long-term"


def test_what_never_comes_back_is_archived(year: Year) -> None:
    """The thread keeps as many topics as it may, and the chats that had to go are the oldest."""
    active = [stats for stats in year.topics.values() if not stats.archived]
    assert len(active) == MAX_TOPICS
    gone = [year.topics[year.subject_topics[chat(number).core][-1]].archived for number in range(2, 8)]
    assert all(gone)
    assert not any(stats.active_messages for stats in year.topics.values() if stats.archived)


def test_a_restored_topic_takes_part_again(year: Year) -> None:
    """A chat restored from the archive goes on in its topic; one that was not opens a new one."""
    (restored,) = year.subject_topics[chat(1).core]
    assert year.restored == [restored]
    assert year.topics[restored].total_messages == 8
    first_night, _ = year.archived[restored][0]
    assert first_night < START + timedelta(days=returning_day(DAYS))
    old, new = year.subject_topics[chat(0).core]
    assert (year.topics[old].total_messages, year.topics[new].total_messages) == (4, 4)
