"""A year of one thread's topics under the nightly sweep: `python -m benchmarks.year [--days 365] [--max-topics 20]`.

Somebody talks of three things at work on every weekday, of four hobbies once a week, of two matters once a month, and
twice a week of something that never comes back. Every night the sweep runs, first dry, then in earnest; should the two
differ, this fails. Some things return: the third hobby pauses for three months, one chat is taken up again half a year
later, and another one is restored from the archive before it goes on.

All of it goes through MemoryService on SQLite with a clock of its own. The embedder is HashEmbedder, whose cosines are
shares of common words; the texts are made up so that one subject shares most of its words and two share next to none,
and the settings of matching are HashEmbedder's own (THRESHOLD). So this shows what half-lives, `max_topics` and
the sweep do to topics that were told apart, not how well a model tells them apart; whether each topic has turns of one
subject only is counted (`mixed_topics`). Settings of decay are the defaults.

Prints a table in Markdown on stderr and JSON on stdout.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from benchmarks.measure import machine
from memory_agent import MemoryConfig, MemoryService, TurnInput
from memory_agent.testing import BruteForceIndex, FixedClock, HashEmbedder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memory_agent import MemoryAgent
    from memory_agent.topics.stats import TopicStats
    from memory_agent.topics.sweep_plan import SweepAction

Kind = Literal["daily", "weekly", "monthly", "one-off"]

KINDS: Final[tuple[Kind, ...]] = ("daily", "weekly", "monthly", "one-off")
START: Final = datetime(2026, 1, 5, tzinfo=UTC)
"""A Monday."""
DAYS: Final = 365
WEEK: Final = 7
WORKDAYS: Final = 5
MORNING: Final = timedelta(hours=9)
NIGHT: Final = timedelta(hours=23)
THRESHOLD: Final = 0.5
DIMENSION: Final = 1_024
SETTLE_SECONDS: Final = 120

DAILY: Final = (
    ("payments ledger migration", ("reconcile batch", "rollback script", "audit columns", "staging replica")),
    ("onboarding portal redesign", ("wireframe review", "signup funnel", "button contrast", "beta testers")),
    ("warehouse robot firmware", ("gripper timeout", "battery telemetry", "lidar drift", "conveyor sensor")),
)
WEEKLY: Final = (
    ("sourdough starter baking", ("rye flour", "oven spring", "banneton basket", "hydration ratio")),
    ("cello practice lesson", ("bow grip", "third position", "vibrato exercise", "recital piece")),
    ("allotment vegetable beds", ("runner beans", "compost heap", "slug traps", "seed potatoes")),
    ("bouldering climbing wall", ("heel hook", "chalk bag", "overhang route", "finger strength")),
)
MONTHLY: Final = (
    ("household electricity bill", ("meter reading", "tariff comparison", "direct debit", "standing charge")),
    ("grandmother clinic visit", ("blood pressure", "prescription renewal", "hearing aid", "bus timetable")),
)
PAUSED: Final = WEEKLY[2][0]
PAUSE: Final = "hobby paused for a quarter of the time"
PAUSE_SHARES: Final = (0.4, 0.65)
"""When PAUSED rests, as shares of the whole time: three months of a year."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Lists of coprime lengths: two chats that lie less than 29 apart have no word in common.
HOW: Final = _words(
    "crooked velvet leaking antique frozen striped hollow squeaky borrowed rusty folding magnetic plastic wobbly"
    " dusty scented inflatable wooden cracked tartan portable cordless faded glazed knitted padded tinted bamboo"
    " copper"
)
THING: Final = _words(
    "kettle suitcase drainpipe lantern aquarium hammock mirror doorbell tent radiator bicycle curtain blender"
    " printer armchair ladder umbrella wardrobe trampoline chandelier mattress toaster fountain accordion fence"
    " compass saddle thermostat birdcage scooter telescope"
)
WHOSE: Final = _words(
    "neighbour cousin landlord plumber nephew librarian dentist florist colleague aunt stepfather tailor grocer"
    " referee jeweller postman barber electrician midwife carpenter notary roommate veterinarian optician beekeeper"
    " janitor pharmacist sculptor goalkeeper choirmaster bricklayer locksmith cyclist nanny chauffeur cellist"
    " translator"
)
PLACE: Final = _words(
    "Lisbon Tromso Quito Hobart Galway Utrecht Nairobi Cusco Tallinn Busan Adelaide Zagreb Dakar Halifax Kyoto Porto"
    " Riga Salzburg Tampere Valparaiso Windhoek Bergen Cardiff Dresden Essaouira Fukuoka Genoa Havana Izmir Jaipur"
    " Kingston Leipzig Marrakesh Naples Odense Perth Reykjavik Seville Toulouse Uppsala Verona"
)


# --- what is talked about ------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """Something that is talked about: `core` is in every message, one of `details` beside it."""

    kind: Kind
    core: str
    details: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Talk:
    """So many exchanges on a subject. `restored`: its archived topic is brought back before."""

    subject: Subject
    exchanges: int
    restored: bool = False


_REGULAR: Final[dict[Kind, Any]] = {"daily": DAILY, "weekly": WEEKLY, "monthly": MONTHLY}
REGULARS: Final = tuple(
    Subject(kind=kind, core=core, details=details) for kind, of in _REGULAR.items() for core, details in of
)


def chat(number: int) -> Subject:
    """The one-off chat of this number."""
    core = [words[number % len(words)] for words in (HOW, THING, WHOSE, PLACE)]
    return Subject(kind="one-off", core=" ".join(core), details=("advice", "repair"))


def talks(day: int, days: int) -> Iterator[Talk]:
    """What is talked about on this day of so many."""
    week, weekday = divmod(day, WEEK)
    of_kind = {kind: [subject for subject in REGULARS if subject.kind == kind] for kind in KINDS}
    if weekday < WORKDAYS:
        yield from (Talk(subject=subject, exchanges=2) for subject in of_kind["daily"])
    for number, subject in enumerate(of_kind["weekly"]):
        if weekday == 1 + number and not (subject.core == PAUSED and day in pause(days)):
            yield Talk(subject=subject, exchanges=3)
    date = START + timedelta(days=day)
    for number, subject in enumerate(of_kind["monthly"]):
        if date.day == 8 + 9 * number:
            yield Talk(subject=subject, exchanges=3)
    if weekday in (1, 5):
        yield Talk(subject=chat(2 * week + (weekday == 5)), exchanges=2)
    for number, restored in ((0, False), (1, True)):
        if day == returning_day(days) + number:
            yield Talk(subject=chat(number), exchanges=2, restored=restored)


def pause(days: int) -> range:
    """The days on which PAUSED rests."""
    first, last = PAUSE_SHARES
    return range(round(first * days), round(last * days))


def returning_day(days: int) -> int:
    """When the first chat is taken up again; the second, restored, on the day after."""
    return days * 11 // 20


def exchange(talk: Talk, day: int, number: int) -> tuple[str, str]:
    """What is said and answered."""
    pick = random.Random(f"{talk.subject.core} {day} {number}")
    detail = pick.choice(list(talk.subject.details))
    return f"{talk.subject.core}: {detail}, {talk.subject.core}, note {day}-{number}", f"Noted, {detail}."


# --- the year ------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Year:
    """What became of everything. Times of `archived` are nights; a topic may be archived more than once."""

    said: list[TurnInput] = field(default_factory=list)
    subjects: list[Subject] = field(default_factory=list)
    """Of each of `said`."""
    archived: dict[str, list[tuple[datetime, float]]] = field(default_factory=lambda: defaultdict(list))
    """Topic id -> when, and how many days after its last access."""
    restored: list[str] = field(default_factory=list)
    paused: TopicStats | None = None
    """The paused hobby's topic on the last night of the pause."""
    nights: int = 0
    differing_nights: int = 0
    topics: dict[str, TopicStats] = field(default_factory=dict)
    """At the end, archived ones too."""
    topic_subjects: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    subject_topics: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Core -> its topics in the order of their first turn."""
    kinds: dict[str, Kind] = field(default_factory=dict)
    """Topic id -> the kind of its first subject."""
    lost: int = 0
    """Turns that don't read as they were said, or not in their place."""
    seconds: float = 0.0


async def live(folder: str, *, days: int = DAYS, settings: dict[str, Any] | None = None) -> Year:
    """Live through so many days, each with its night: everything is settled, then the sweep runs.

    Raises AssertionError if a night's sweep does something else than its dry run said.
    """
    began, year, clock = time.perf_counter(), Year(), FixedClock(START)
    cfg = MemoryConfig(
        data_dir=folder,
        similarity_threshold=THRESHOLD,
        enable_fact_extraction=False,
        **(settings or {}),
    )
    embedder = HashEmbedder(dimension=DIMENSION)
    async with MemoryService(cfg, embedder=embedder, vectors=BruteForceIndex(), clock=clock) as service:
        memory = service.agent("somebody", "their only thread")
        for day in range(days):
            clock.set(START + timedelta(days=day) + MORNING)
            await _say(memory, list(talks(day, days)), day, clock, year)
            clock.set(START + timedelta(days=day) + NIGHT)
            await memory.settle(timeout=SETTLE_SECONDS)
            await _sweep(service, memory, clock, year)
            if day + 1 == pause(days).stop:
                stats = await memory.topics(include_archived=True)
                year.paused = next(topic for topic in stats if topic.topic_title.startswith(PAUSED))
        await _look_back(service, memory, year)
    year.seconds = time.perf_counter() - began
    return year


async def _say(memory: MemoryAgent, today: Iterable[Talk], day: int, clock: FixedClock, year: Year) -> None:
    for talk in today:
        if talk.restored:
            await memory.settle(timeout=SETTLE_SECONDS)
            first = await memory.fetch_long_term(talk.subject.core, top_k=1)
            assert first[0].topic_id is not None  # all is settled
            year.restored.append((await memory.restore_topic(first[0].topic_id)).topic_id)
        turns = []
        for number in range(talk.exchanges):
            for role, text in zip(("user", "assistant"), exchange(talk, day, number), strict=True):
                at = clock.tick(60)
                turns.append(
                    TurnInput(role="user" if role == "user" else "assistant", content=text, timestamp=at)
                )
        await memory.add_turns(turns)
        year.said += turns
        year.subjects += [talk.subject] * len(turns)


async def _sweep(service: MemoryService, memory: MemoryAgent, clock: FixedClock, year: Year) -> None:
    """The night: a dry run, then the sweep, which has to do the same."""
    planned: list[SweepAction] = []
    done: list[SweepAction] = []
    await service.sweep(dry_run=True, each=planned.append)
    await service.sweep(each=done.append)
    year.nights += 1
    if planned != done:
        raise AssertionError(f"on {clock.now():%Y-%m-%d} the sweep did {done}, its dry run said {planned}")
    for action in done:
        assert action.topic_id is not None  # no retention age is set, so all actions are topics'
        stats = await memory.topic_stats(action.topic_id)
        year.archived[action.topic_id].append((clock.now(), stats.inactive_seconds / 86_400))


async def _look_back(service: MemoryService, memory: MemoryAgent, year: Year) -> None:
    """Read everything again."""
    year.topics = {stats.topic_id: stats for stats in await memory.topics(include_archived=True)}
    stored = await service.core.store.list_turns(memory.scope)
    wanted = [(turn.role, turn.content.encode(), turn.timestamp) for turn in year.said]
    found = [(turn.role, turn.content.encode(), turn.timestamp) for turn in stored]
    year.lost = sum(mine != theirs for mine, theirs in zip(wanted, found, strict=False)) + abs(
        len(wanted) - len(found)
    )
    for turn, subject in zip(stored, year.subjects, strict=False):
        topic_id = str(turn.topic_id)
        year.kinds.setdefault(topic_id, subject.kind)
        year.topic_subjects[topic_id].add(subject.core)
        if topic_id not in year.subject_topics[subject.core]:
            year.subject_topics[subject.core].append(topic_id)


# --- report --------------------------------------------------------------------------------------------------
def by_kind(year: Year) -> dict[str, dict[str, Any]]:
    """What became of the topics of each kind; medians over its topics."""
    report: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        of = [stats for topic_id, stats in year.topics.items() if year.kinds.get(topic_id) == kind]
        waits = [days for stats in of for _, days in year.archived.get(stats.topic_id, ())]
        report[kind] = {
            "subjects": len({subject.core for subject in year.subjects if subject.kind == kind}),
            "topics_opened": len(of),
            "active_at_end": sum(not stats.archived for stats in of),
            "archived_at_end": sum(stats.archived for stats in of),
            "accesses": _median([stats.access_count for stats in of]),
            "half_life_days": _median([stats.half_life_days for stats in of]),
            "priority_at_end": _median([stats.priority for stats in of]),
            "memory_types": _counted([stats.memory_type for stats in of]),
            "archived_days_after_last_access": {
                "median": _median(waits),
                "least": round(min(waits, default=0.0), 1),
                "most": round(max(waits, default=0.0), 1),
            },
        }
    return report


def returns(year: Year) -> dict[str, Any]:
    """What became of the subjects that came back."""
    subjects = {PAUSE: PAUSED, "chat taken up again": chat(0).core}
    subjects |= {"chat restored, then taken up again": chat(1).core}
    report: dict[str, Any] = {
        name: {
            "subject": core,
            "topics": [
                {
                    "archived_on": [f"{night:%Y-%m-%d}" for night, _ in year.archived.get(topic_id, ())],
                    "turns": year.topics[topic_id].total_messages,
                    "memory_type": year.topics[topic_id].memory_type,
                    "archived_at_end": year.topics[topic_id].archived,
                    "restored": topic_id in year.restored,
                }
                for topic_id in year.subject_topics[core]
            ],
        }
        for name, core in subjects.items()
    }
    if year.paused is not None:
        report[PAUSE]["last_night_of_pause"] = {
            "days_without_access": round(year.paused.inactive_seconds / 86_400, 1),
            "priority": round(year.paused.priority, 4),
            "archived": year.paused.archived,
        }
    return report


def topics_by_subject(year: Year) -> dict[str, int]:
    """How many topics each regular subject has been, by its core."""
    return {
        subject.core: len(year.subject_topics[subject.core])
        for subject in REGULARS
        if subject.core in year.subject_topics
    }


def _median(values: Sequence[float]) -> float:
    return round(statistics.median(values), 3) if values else 0.0


def _counted(values: Sequence[str]) -> dict[str, int]:
    return {value: values.count(value) for value in sorted(set(values))}


def table(kinds: dict[str, dict[str, Any]]) -> str:
    """The kinds as Markdown."""
    lines = [
        "| kind | subjects | topics opened | active at the end | archived | accesses, median"
        " | half-life, days | priority at the end | memory type | archived, days after the last access |",
        "|---" * 10 + "|",
    ]
    for kind, row in kinds.items():
        types = ", ".join(f"{count} {name}" for name, count in row["memory_types"].items())
        waits = row["archived_days_after_last_access"]
        after = (
            f"{waits['median']:.0f} ({waits['least']:.0f} to {waits['most']:.0f})" if waits["most"] else "–"
        )
        lines.append(
            f"| {kind} | {row['subjects']} | {row['topics_opened']} | {row['active_at_end']}"
            f" | {row['archived_at_end']} | {row['accesses']:.0f} | {row['half_life_days']:.0f}"
            f" | {row['priority_at_end']:.2g} | {types} | {after} |"
        )
    return "\n".join(lines)


def report_of(year: Year) -> dict[str, Any]:
    """Everything there is to say."""
    return {
        "turns": len(year.said),
        "turns_lost": year.lost,
        "nights": year.nights,
        "archived": sum(map(len, year.archived.values())),
        "mixed_topics": sum(len(cores) > 1 for cores in year.topic_subjects.values()),
        "kinds": by_kind(year),
        "topics_by_subject": topics_by_subject(year),
        "returns": returns(year),
        "seconds": round(year.seconds, 1),
    }


def main() -> None:
    """Parse the command line, live, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--days", type=int, default=DAYS, help="(default %(default)s)")
    parser.add_argument(
        "--max-topics", type=int, default=20, help="topics a thread may keep (default %(default)s)"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        year = asyncio.run(live(folder, days=arguments.days, settings={"max_topics": arguments.max_topics}))
    report = report_of(year)
    print(table(report["kinds"]), file=sys.stderr)
    head = {"machine": machine(), "days": arguments.days, "max_topics": arguments.max_topics}
    print(json.dumps(head | report, indent=2))
    sys.exit(0 if not year.lost else 1)


if __name__ == "__main__":
    main()
