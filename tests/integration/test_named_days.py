"""A day or a span that a question names decides among turns that answer alike, and days are the speaker's."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from memory_agent import ConfigError, InvalidInput, MemoryAgent, MemoryConfig, MemoryService, TurnInput
from tests.fixtures import OpenService, on_both_by_day

if TYPE_CHECKING:
    from pathlib import Path


FIRST = datetime(2026, 5, 4, 8, tzinfo=UTC)  # a Monday
ASKED = datetime(2026, 6, 12, 21, tzinfo=UTC)  # the Friday of the sixth week
WALKS = [
    "harbour",
    "old mill",
    "castle",
    "market hall",
    "rose garden",
    "lighthouse",
    "quarry",
    "vineyard",
    "chapel",
    "ferry pier",
    "zoo",
    "stadium",
    "brewery",
    "canal lock",
    "observatory",
    "wind farm",
    "reservoir",
    "cemetery",
    "planetarium",
    "tram depot",
    "pottery",
    "aqueduct",
    "monastery",
    "boatyard",
    "orchard",
    "town wall",
    "waterfall",
    "heath",
    "ski jump",
    "salt works",
    "airfield",
    "peat bog",
    "music school",
    "fish ladder",
    "tower",
    "arboretum",
    "ice rink",
    "viaduct",
    "glass works",
    "riding school",
]
DAYS = {
    "What was my walk on 6 May?": (5, 6),
    "Where did I walk to on May 9th?": (5, 9),
    "Where did my walk lead on the 11th of May?": (5, 11),
    "Where did I walk to on the twelfth of May?": (5, 12),
    "Where did I walk to on 2026-05-14?": (5, 14),
    "Where did I walk to on 15.05.2026?": (5, 15),
    "Where did I walk to on 5/16?": (5, 16),
    "Where did I walk to on 17/5?": (5, 17),
    "Where did I walk to on 5/5?": (5, 5),
    "Where did I walk to on Tuesday, May 19?": (5, 19),
    "Where did I walk to on Wed 20 May?": (5, 20),
    "Where did I walk to on the first Thursday of May?": (5, 7),
    "Where did I walk to on the third Friday in May?": (5, 15),
    "Where did I walk to on the last Saturday in May?": (5, 30),
    "Where did I walk to on the last day of May?": (5, 31),
    "Where did I walk to on the first of June?": (6, 1),
    "Where did I walk to on the 22nd of last month?": (5, 22),
    "Where did I walk to on the 3rd of this month?": (6, 3),
    "Where did I walk to on the 10th?": (6, 10),
    "Where did I walk to yesterday?": (6, 11),
    "Where did I walk to the day before yesterday?": (6, 10),
    "Where did I walk to three days ago?": (6, 9),
    "Where did I walk to two weeks ago?": (5, 29),
    "Where did I walk to last Monday?": (6, 8),
    "Where did I walk to on Tuesday?": (6, 9),
    "Where did I walk to on Tuesday of last week?": (6, 2),
    "Where did I walk to last week on Thursday?": (6, 4),
    "Where did I walk to the Sunday before last?": (5, 31),
    "Where did I walk to the day after 24 May?": (5, 25),
    "Where did I walk to two days before May 28?": (5, 26),
    "Where did I walk to on the evening of 23 May?": (5, 23),
    "Around 27 May, where did I walk to?": (5, 27),
    "5월 8일에 산책은 어디로 갔지?": (5, 8),
    "2026년 5월 13일 산책은 어디로 갔지?": (5, 13),
    "그저께 산책은 어디로 갔지?": (6, 10),
    "사흘 전 산책은 어디로 갔지?": (6, 9),
    "지난주 화요일 산책은 어디로 갔지?": (6, 2),
    "5월 첫째 목요일 산책은 어디로 갔지?": (5, 7),
    "지난달 21일 산책은 어디로 갔지?": (5, 21),
    "5/18에 산책은 어디로 갔지?": (5, 18),
}
SPANS = {
    "What happened between 8 and 20 May?": ((5, 8), (5, 20)),
    "What did I do from May 11 to May 17?": ((5, 11), (5, 17)),
    "What was going on 9-16 May?": ((5, 9), (5, 16)),
    "What did I do before 10 May?": ((5, 4), (5, 9)),
    "What did I do up to 9 May?": ((5, 4), (5, 9)),
    "What happened after 3 June?": ((6, 4), (6, 12)),
    "What have I done since 1 June?": ((6, 1), (6, 12)),
    "What happened from 2 June onwards?": ((6, 2), (6, 12)),
    "What happened in mid-May?": ((5, 11), (5, 20)),
    "What happened in early May?": ((5, 1), (5, 10)),
    "What happened at the end of May?": ((5, 21), (5, 31)),
    "What did I do in the second week of May?": ((5, 8), (5, 14)),
    "What did I do in the first half of May?": ((5, 1), (5, 15)),
    "What did I do in week 21?": ((5, 18), (5, 24)),
    "What did I do in the week of 13 May?": ((5, 11), (5, 17)),
    "What did I do in the past two weeks?": ((5, 29), (6, 12)),
    "What did I do last week?": ((6, 1), (6, 7)),
    "What did I do last weekend?": ((6, 6), (6, 7)),
    "5월 5일부터 15일까지 뭐 했어?": ((5, 5), (5, 15)),
    "5월 중순에 뭐 했어?": ((5, 11), (5, 20)),
}
NOTES = [
    "The chimney was swept.",
    "I sowed radishes.",
    "The lift broke down.",
    "We raced the dinghies.",
    "I pickled the cucumbers.",
    "The gate got a new lock.",
    "I cleared the cellar.",
    "Cousins from Malmo stayed.",
    "We flew the kites.",
    "I bled the radiators.",
    "I finished the jigsaw.",
    "The shop next door closed.",
    "I ordered a lamp.",
    "We gathered elderflowers.",
    "The meter was read.",
    "I answered the notary.",
    "We played boules.",
    "I pruned the quince.",
]


async def test_the_day_that_a_question_names_is_first(service: MemoryService) -> None:
    """Of forty walks, told in the same words on forty days, the right one for 36 of 40 ways to name a day."""
    diaries = {True: service.agent("ann", "chat"), False: service.agent("민지", "chat")}
    for is_english, memory in diaries.items():
        turns = []
        for number, place in enumerate(WALKS):
            morning = FIRST + timedelta(days=number)
            coffee, walk = f"I drank {2 + number % 3} coffees.", f"My walk led to the {place}."
            if not is_english:
                coffee, walk = f"커피를 {2 + number % 3}잔 마셨어.", f"산책은 {place} 쪽으로 갔어."
            turns.append(TurnInput(role="user", content=coffee, timestamp=morning))
            turns.append(TurnInput(role="user", content=walk, timestamp=morning + timedelta(hours=9)))
        await memory.add_turns(turns)
        await memory.settle(timeout=120)
    wrong = []
    for question, (month, day) in DAYS.items():
        memory = diaries[question.isascii()]
        [first] = await memory.fetch_long_term(question, top_k=1, now=ASKED)
        place = WALKS[(date(2026, month, day) - FIRST.date()).days]
        if place not in first.text:
            wrong.append((question, first.text, place))
    assert len(wrong) <= 4, wrong


async def test_what_lies_in_the_span_that_a_question_names_is_first(memory: MemoryAgent) -> None:
    """Twenty ways to name one, of a question that asks for nothing else; 18 are right in every result."""
    times = [FIRST + timedelta(hours=54 * number) for number in range(len(NOTES))]
    said = [TurnInput(role="user", content=note, timestamp=at) for note, at in zip(NOTES, times, strict=True)]
    await memory.add_turns(said)
    await memory.settle(timeout=120)
    wrong = []
    for question, (first, last) in SPANS.items():
        inside = {at.date() for at in times if date(2026, *first) <= at.date() <= date(2026, *last)}
        found = await memory.fetch_long_term(question, top_k=min(5, len(inside)), now=ASKED)
        if outside := [one.turn.timestamp.date() for one in found if one.turn.timestamp.date() not in inside]:
            wrong.append((question, outside))
    assert len(wrong) <= 2, wrong


async def test_a_turn_that_tells_of_the_day_counts_as_one_that_was_said_on_it(memory: MemoryAgent) -> None:
    """Told on the day after or before, in words or as a date; a message that isn't indexed yet counts, too."""
    told = {
        FIRST: "My choir rehearsal was in the crypt.",
        FIRST + timedelta(days=3): "Yesterday my choir rehearsal was in the gym.",
        FIRST + timedelta(days=8): "My choir rehearsal is tomorrow, in the barn.",
        FIRST + timedelta(days=10): "My choir rehearsal on 24 May is in the cathedral.",
    }
    await memory.add_turns([TurnInput(role="user", content=text, timestamp=at) for at, text in told.items()])
    for _ in range(2):
        for day, place in ((4, "crypt"), (6, "gym"), (13, "barn"), (24, "cathedral")):
            [first] = await memory.fetch_long_term(
                f"Where was my choir rehearsal on {day} May?", top_k=1, now=ASKED
            )
            assert place in first.text, day
        await memory.settle(timeout=60)


async def test_a_date_by_the_way_does_not_hide_what_is_asked(memory: MemoryAgent) -> None:
    """What answers is found though it was said on another day than the one that the question mentions."""
    await memory.add_turns(
        [
            TurnInput(role="user", content="My passport number is 8841-K.", timestamp=FIRST),
            *(
                TurnInput(
                    role="user", content=f"The {place} was closed.", timestamp=ASKED - timedelta(days=2)
                )
                for place in WALKS[:12]
            ),
        ]
    )
    await memory.settle(timeout=60)
    question = "For the flight I booked on 10 June, what's my passport number?"
    found = await memory.fetch_long_term(question, top_k=2, now=ASKED)
    assert "My passport number is 8841-K." in [one.text for one in found]


WEST = timezone(timedelta(hours=-8))


@on_both_by_day
async def test_days_are_the_speakers(open_service: OpenService, tmp_path: Path) -> None:
    """Of a turn said late in the evening, far in the west: its day in prompts, its "tomorrow", and its zone in an export."""
    async with open_service() as service:
        memory = service.agent("ann", "chat")
        late = datetime(2026, 3, 3, 22, 30, tzinfo=WEST)
        [turn] = await memory.add_turns(
            [TurnInput(role="user", content="My dentist appointment is tomorrow at 9.", timestamp=late)]
        )
        assert (turn.timestamp, turn.utc_offset_minutes) == (late, -480)
        assert turn.local_time.isoformat() == "2026-03-03T22:30:00-08:00"
        for number in range(20):
            noon = datetime(2026, 3, 5 + number, 12, tzinfo=WEST)
            await memory.add_turn("user", f"The printer on floor {number} needs toner.", timestamp=noon)
        await memory.settle(timeout=120)
        context = await memory.fetch_memory("When is the dentist?", now=datetime(2026, 3, 28, tzinfo=WEST))
        above = str(context).partition("My dentist")[0]
        assert above.rpartition("[")[2].startswith("3 March 2026")
        # Asked without a zone it is yesterday by the clock of who spoke last, a day later in UTC.
        asked = datetime(2026, 3, 5, 5, tzinfo=UTC)
        for day, now in (("tomorrow", late), ("today", late + timedelta(hours=20)), ("yesterday", None)):
            request = f"What appointment is {day}?" if now else "What appointment did I have on 4 March?"
            [first] = await memory.fetch_long_term(request, top_k=1, now=now or asked)
            assert first.turn.id == turn.id, day
        await service.export_to(tmp_path / "out.jsonl")
    async with MemoryService(MemoryConfig(data_dir=tmp_path / "other", run_worker=False)) as other:
        await other.import_from(tmp_path / "out.jsonl")
        assert (await other.agent("ann", "chat").history()).turns[0].utc_offset_minutes == -480


async def test_the_setting_tells_the_zone_of_who_sends_utc(open_service: OpenService) -> None:
    """Times in UTC, without a zone, or left out are by its clock; a time with an offset of its own keeps that."""
    async with open_service(timezone="Asia/Seoul") as service:
        memory = service.agent("ann", "chat")
        naive = datetime(2026, 3, 3, 8)  # noqa: DTZ001 - what this is about
        for given, offset in (
            (datetime(2026, 3, 3, 23, tzinfo=UTC), 540),
            (naive, 540),
            (naive.replace(tzinfo=WEST), -480),
        ):
            turn = await memory.add_turn("user", "My train was late.", timestamp=given)
            assert turn.utc_offset_minutes == offset
        assert (await memory.add_turn("user", "So was I.")).utc_offset_minutes == 540
        assert turn.local_time.replace(tzinfo=None) == naive
    async with open_service() as service:
        with pytest.raises(InvalidInput, match="timestamp 2026-03-03T08:00:00 has no time zone"):
            await service.agent("ann", "chat").add_turn("user", "My train was late.", timestamp=naive)


def test_a_zone_that_nobody_knows_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"timezone.*'Mars/Olympus' is known here; give an IANA name such as"
    ):
        MemoryConfig(timezone="Mars/Olympus")
