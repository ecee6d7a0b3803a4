"""Which session a turn belongs to, whatever times it comes at."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.conversations.sessions import (
    MAX_CHARACTER_CHARS,
    MAX_TRAITS,
    SessionProgress,
    assign,
    checked_character,
    is_over,
)
from memory_agent.domain import Character, Scope, Session, ThreadHead
from memory_agent.errors import InvalidInput
from tests.constants import settings_of

SCOPE = Scope(user_id="u", thread_id="t")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
IDLE_SECONDS = 3_600


@pytest.fixture(scope="module", autouse=True)
def _five_turns() -> Iterator[None]:
    """Let a session have five turns at most."""
    with settings_of({"max_turns_per_session": 5}):
        yield


MIA = Character(name="Mia", traits=("patient",))


def session(
    number: int = 1, *, after_seq: int = 0, started_at: datetime = START, explicit: bool = False
) -> Session:
    return Session(
        id=f"s{number}",
        user_id="u",
        thread_id="t",
        number=number,
        started_at=started_at,
        after_seq=after_seq,
        participants=("Ann", "Bo"),
        character=MIA,
        metadata={"place": "Bergen"},
        explicit=explicit,
    )


def head(of: Session | None, *, turns: int = 0, last: timedelta = timedelta(0)) -> ThreadHead:
    """A thread whose newest session has so many turns, the last of them so long after its start."""
    if of is None or not turns:
        seq = 0 if of is None else of.after_seq
        return ThreadHead(session=of, last_seq=seq, last_given=seq)
    seq = of.after_seq + turns
    return ThreadHead(
        session=of, last_seq=seq, last_given=seq, last_at=of.started_at + last, last_session_id=of.id
    )


def after(*minutes: float) -> list[datetime]:
    return [START + timedelta(minutes=minute) for minute in minutes]


@pytest.mark.parametrize(
    ("turns", "idle", "age", "over"),
    [
        (0, 0, 0, False), (4, 0, 0, False), (5, 0, 0, True), (1, 59, 59, False), (1, 60, 60, True),
        (1, 1, 24 * 60 - 1, False), (1, 1, 24 * 60, True), (1, -59, -59, False), (1, -60, -59, True),
        (1, 1, -24 * 60 + 1, False), (1, 1, -24 * 60, True),
    ],
)  # fmt: skip
def test_a_session_is_over_by_turns_idle_time_or_age(turns: int, idle: int, age: int, over: bool) -> None:
    """At the limit, not before, whether a turn's time is earlier or later."""
    at = START + timedelta(minutes=age)
    standing = SessionProgress(turns=turns, first_at=START, last_at=at - timedelta(minutes=idle))
    assert is_over(standing, at=at, idle_seconds=IDLE_SECONDS) is over


times = st.lists(st.integers(-600, 6_000), max_size=25).map(lambda minutes: after(*minutes))
heads = st.builds(
    lambda number, turns, last, explicit: head(
        session(number, after_seq=7, explicit=explicit) if number else None,
        turns=turns,
        last=timedelta(minutes=last),
    ),
    st.integers(0, 3),
    st.integers(0, 6),
    st.integers(-300, 300),
    st.booleans(),
)


def first_of(start: ThreadHead) -> datetime | None:
    """When the first turn of the head's session was said, if it has any."""
    begun = start.session is not None and start.last_session_id == start.session.id
    return START - timedelta(minutes=30) if begun else None


def replayed(times: list[datetime], start: ThreadHead) -> list[tuple[int, datetime]]:
    """Number and start of each turn's session if every turn comes in a call of its own."""
    found = []
    now, first = start, first_of(start)
    for at in times:
        made = assign(SCOPE, [at], now, IDLE_SECONDS, first_at=first)
        current = made.opened[-1] if made.opened else now.session
        assert current is not None
        if made.opened or first is None:
            first = at
        seq = now.last_given + 1
        now = ThreadHead(
            session=current, last_seq=seq, last_given=seq, last_at=at, last_session_id=current.id
        )
        found.append((current.number, current.started_at))
    return found


@given(times, heads)
def test_turns_are_placed_in_order_whatever_their_times(times: list[datetime], start: ThreadHead) -> None:
    """One session each; numbers rise one by one, none has too many turns, and people and character are passed on."""
    made = assign(SCOPE, times, start, IDLE_SECONDS, first_at=first_of(start))
    assert len(made.session_ids) == len(times)
    known = {s.id: s for s in ((start.session,) if start.session else ()) + made.opened}
    numbers = [known[i].number for i in made.session_ids]
    first = start.session.number if start.session else 0
    assert numbers == sorted(numbers)
    assert [s.number for s in made.opened] == list(range(first + 1, first + 1 + len(made.opened)))
    assert {s.id for s in made.opened} <= set(made.session_ids), "none is opened for nobody"
    before = max(start.last_given - start.session.after_seq, 0) if start.session else 0
    for opened in made.opened:
        position = made.session_ids.index(opened.id)
        assert (opened.after_seq, opened.started_at) == (start.last_given + position, times[position])
        assert (opened.explicit, opened.scope) == (False, SCOPE)
        if start.session is not None:
            assert (opened.participants, opened.character) == (("Ann", "Bo"), MIA)
            assert opened.metadata == {"place": "Bergen"}
    for session_id in set(made.session_ids):
        of_it = made.session_ids.count(session_id)
        ours = start.session is not None and session_id == start.session.id
        assert of_it + (before if ours else 0) <= 5
        said = [at for at, of in zip(times, made.session_ids, strict=True) if of == session_id]
        gaps = [abs(two - one).total_seconds() for one, two in itertools.pairwise(said)]
        assert max(gaps, default=0) < IDLE_SECONDS
        assert max(abs(at - said[0]) for at in said) < timedelta(hours=24) or ours


@given(times, heads)
def test_a_bulk_call_is_placed_as_its_turns_one_by_one(times: list[datetime], start: ThreadHead) -> None:
    made = assign(SCOPE, times, start, IDLE_SECONDS, first_at=first_of(start))
    known = {s.id: s for s in ((start.session,) if start.session else ()) + made.opened}
    together = [(known[i].number, known[i].started_at) for i in made.session_ids]
    assert together == replayed(times, start)


@pytest.mark.parametrize(
    ("start", "minutes", "numbers"),
    [
        pytest.param(head(None), (0, 1, 2), [1, 1, 1], id="the first turn opens one"),
        pytest.param(head(session()), (10, 20), [1, 1], id="one without turns takes them"),
        pytest.param(head(session()), (61,), [2], id="it is idle from its start"),
        pytest.param(head(session(), turns=4), (1, 2, 3), [1, 2, 2], id="full"),
        pytest.param(head(session(), turns=1), (59, 118, 178, 179), [1, 1, 2, 2], id="idle"),
        pytest.param(head(None), (0, 61, 200, 201), [1, 2, 3, 3], id="several in one call"),
        pytest.param(head(session(), turns=1), (-59, 0, 59), [1, 1, 1], id="a little late"),
        pytest.param(head(session(), turns=1), (-500, 30, 89), [2, 3, 3], id="old ones between live ones"),
        pytest.param(
            head(session(), turns=1), (-9_000, -8_990, -5_000, 5), [2, 2, 3, 4], id="an import with gaps"
        ),
        pytest.param(
            head(session(), turns=1, last=timedelta(days=27_000)), (1, 2, 90), [2, 2, 3], id="after 2099"
        ),
        pytest.param(
            head(None), (0, 39_000_000, 1, 2, 90), [1, 2, 3, 3, 4], id="one of 2099 among ordinary ones"
        ),
        pytest.param(
            head(session(explicit=True)), (-9_000, -8_990, 5), [1, 1, 2], id="started, then an import"
        ),
        pytest.param(head(session(explicit=True)), (9_000, 9_001), [1, 1], id="started, and said much later"),
    ],
)
def test_where_turns_belong(start: ThreadHead, minutes: tuple[int, ...], numbers: list[int]) -> None:
    made = assign(SCOPE, after(*minutes), start, IDLE_SECONDS)
    known = {s.id: s.number for s in ((start.session,) if start.session else ()) + made.opened}
    assert [known[i] for i in made.session_ids] == numbers


def test_the_last_turn_of_another_session_does_not_count() -> None:
    """A session that was started after a long silence is not idle."""
    fresh = session(2, after_seq=9, started_at=START + timedelta(days=3))
    known = ThreadHead(session=fresh, last_seq=9, last_given=9, last_at=START, last_session_id="s1")
    assert assign(SCOPE, [fresh.started_at + timedelta(minutes=5)], known, IDLE_SECONDS).session_ids == (
        "s2",
    )


def test_a_started_session_ages_from_its_first_turn() -> None:
    for days in (-3_000, 3):
        first = START + timedelta(days=days)
        began = head(session(explicit=True), turns=1, last=first - START + timedelta(hours=23.5))
        for minutes, number in ((29, "s1"), (30, None)):
            at = first + timedelta(hours=23.5, minutes=minutes)
            (found,) = assign(SCOPE, [at], began, IDLE_SECONDS, first_at=first).session_ids
            assert (found == "s1") is (number == "s1")


def test_numbers_of_forgotten_turns_are_not_the_next_sessions() -> None:
    """After a thread is cleared, or its newest turns are forgotten, a session counts from the last number given."""
    cleared = ThreadHead(last_given=999)
    made = assign(SCOPE, after(0, 1, 2, 3, 4, 5), cleared, IDLE_SECONDS)
    assert [opened.after_seq for opened in made.opened] == [999, 1_004]
    (new,) = assign(SCOPE, after(0), cleared, IDLE_SECONDS).opened
    later = ThreadHead(session=new, last_seq=1_000, last_given=1_000, last_at=START, last_session_id=new.id)
    assert assign(SCOPE, after(1), later, IDLE_SECONDS).opened == ()
    shortened = ThreadHead(session=session(), last_seq=2, last_given=4, last_at=START, last_session_id="s1")
    assert assign(SCOPE, after(1, 2), shortened, IDLE_SECONDS).opened[0].after_seq == 5


# --- characters ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("character", "named"),
    [
        ("Mia", "character is a str"),
        (Character(name=""), "character.name"),
        (Character(name="x" * 10_000), "character.name"),
        (Character(name="Mia", personality="x" * (MAX_CHARACTER_CHARS + 1)), "character.personality"),
        (Character(name="Mia", profile="\ud800"), "character.profile"),
        (Character(name="Mia", traits="patient"), "character.traits"),  # type: ignore[arg-type]
        (Character(name="Mia", traits=("x",) * (MAX_TRAITS + 1)), f"{MAX_TRAITS + 1} entries"),
        (Character(name="Mia", traits=("",)), "character.traits"),
        (Character(name="Mia", traits=(1,)), "character.traits"),  # type: ignore[arg-type]
        (Character(name=None), "character.name"),  # type: ignore[arg-type]
    ],
)
def test_an_impossible_character_is_refused_by_field(character: Any, named: str) -> None:
    with pytest.raises(InvalidInput, match=named.replace(".", r"\.")):
        checked_character(character)
