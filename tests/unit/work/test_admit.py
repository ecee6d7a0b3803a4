"""What comes through the door, and what is told why not."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from memory_agent.domain import ROLE_OF, STAGES, Stage, TurnInput
from memory_agent.errors import InvalidInput
from memory_agent.models.tokens import EstimatedTokens
from memory_agent.work.admit import MAX_TURNS_PER_CALL, admit, exchange

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def admitted(*turns: Any, key: str | None = None, stages: tuple[Stage, ...] = STAGES) -> list[Any]:
    return admit(turns, now=NOW, counter=EstimatedTokens(), idempotency_key=key, stages=stages)


def test_drafts_are_complete_and_in_order() -> None:
    one, two = admitted(
        {"role": "user", "content": "Hello there", "metadata": {"a": [1, None]}},
        TurnInput(role="assistant", content=" hi ", speaker="Bo", importance=0.3),
        key="k",
    )
    assert one.id < two.id
    assert (one.call_index, one.call_size, two.call_index, two.call_size) == (0, 2, 1, 2)
    assert (one.pending, set(STAGES) - set(two.pending)) == (STAGES, {"facts"})
    assert (two.content, two.speaker, two.importance) == (" hi ", "Bo", 0.3)
    assert one.timestamp == NOW
    assert one.tokens > 0
    assert one.metadata == {"a": [1, None]}
    assert one.idempotency_key == "k"


def test_without_extraction_no_facts_are_owed() -> None:
    """What the settings switch off is owed by nobody; what is left keeps its order."""
    for wanted in (("index",), ("index", "topics", "compact"), ("index", "facts")):
        assert admitted({"role": "user", "content": "x"}, stages=wanted)[0].pending == wanted


def test_timestamps_become_utc_to_the_millisecond() -> None:
    given = datetime(2026, 5, 1, 9, 0, 0, 123_999, tzinfo=timezone(timedelta(hours=9)))
    draft = admitted(TurnInput(role="user", content="x", timestamp=given))[0]
    assert draft.timestamp == datetime(2026, 5, 1, 0, 0, 0, 123_000, tzinfo=UTC)
    assert draft.utc_offset_minutes == 540


LISBON = ZoneInfo("Europe/Lisbon")


@pytest.mark.parametrize(
    ("given", "zone", "at", "offset"),
    [
        (None, None, NOW, None),
        (None, LISBON, NOW, 60),
        (datetime(2026, 7, 1, tzinfo=UTC), None, datetime(2026, 7, 1, tzinfo=UTC), None),
        (datetime(2026, 7, 1, tzinfo=UTC), LISBON, datetime(2026, 7, 1, tzinfo=UTC), 60),
        (datetime(2026, 1, 1, tzinfo=UTC), LISBON, datetime(2026, 1, 1, tzinfo=UTC), 0),
        (datetime(2026, 7, 1, 9), LISBON, datetime(2026, 7, 1, 8, tzinfo=UTC), 60),  # noqa: DTZ001
        (
            datetime(2026, 7, 1, tzinfo=timezone(timedelta(hours=-8))),
            LISBON,
            datetime(2026, 7, 1, 8, tzinfo=UTC),
            -480,
        ),
        (datetime(1, 1, 1, tzinfo=UTC), ZoneInfo("America/Lima"), datetime(1, 1, 1, tzinfo=UTC), None),
    ],
)
def test_speakers_clock_is_that_of_the_time_or_of_the_setting(
    given: datetime | None, zone: ZoneInfo | None, at: datetime, offset: int | None
) -> None:
    """A time with an offset of its own keeps it; UTC and what names no zone are by the clocks of the setting."""
    turn = TurnInput(role="user", content="x", timestamp=given)
    (draft,) = admit([turn], now=NOW, counter=EstimatedTokens(), idempotency_key=None, stages=(), zone=zone)
    assert (draft.timestamp, draft.utc_offset_minutes) == (at, offset)


@pytest.mark.parametrize(("given", "role"), ROLE_OF.items())
def test_role_may_have_the_name_that_a_framework_gives_it(given: str, role: str) -> None:
    """A user's turn owes facts, whatever the role was called."""
    draft = admitted({"role": given, "content": "x"})[0]
    assert draft.role == role
    assert ("facts" in draft.pending) == (role == "user")


@pytest.mark.parametrize(
    ("turn", "names"),
    [
        ({"role": "user", "content": ""}, ["content", "''"]),
        ({"role": "user", "content": "x" * 1_000_001}, ["content", "1,000,001"]),
        ({"role": "Caroline", "content": "x"}, ["role", "Caroline", "speaker"]),
        ({"role": ["user"], "content": "x"}, ["role", "use one of user, assistant, system, tool"]),
        ({"content": "x"}, ["role", "needed"]),
        ({"role": "user", "content": "x", "name": "Bo"}, ["turns[1] has the keys", "'name'", "metadata"]),
        ("hello", ["turns[1] is a str", "TurnInput"]),
        ({"role": "user", "content": "x", "timestamp": datetime(2026, 1, 1)}, ["timestamp", "time zone"]),  # noqa: DTZ001
        ({"role": "user", "content": "x", "importance": 1.1}, ["importance", "1.1"]),
        ({"role": "user", "content": "x", "importance": True}, ["importance", "True"]),
        ({"role": "user", "content": "x", "metadata": {"$set": 1}}, ["metadata", "$set"]),
    ],
)
def test_bad_turns_are_refused_by_name(turn: Any, names: list[str]) -> None:
    good = {"role": "user", "content": "fine"}
    with pytest.raises(InvalidInput) as caught:
        admitted(good, turn)
    for name in names:
        assert name in str(caught.value)


@pytest.mark.parametrize("key", ["", " ", "a\nb", "x" * 513, 7])
def test_bad_idempotency_keys_are_refused(key: Any) -> None:
    with pytest.raises(InvalidInput, match="idempotency_key"):
        admitted({"role": "user", "content": "x"}, key=key)


def test_too_many_turns_in_a_call_are_refused() -> None:
    with pytest.raises(InvalidInput, match="10,001"):
        admitted(*[{"role": "user", "content": "x"}] * (MAX_TURNS_PER_CALL + 1))


@pytest.mark.parametrize("nothing", [None, "", " \n"])
def test_of_an_exchange_a_message_without_text_leaves_the_others_turn(nothing: str | None) -> None:
    [user] = exchange("Look at this.", nothing, speaker="Ann", importance=0.5)
    assert (user.role, user.content, user.speaker, user.importance) == ("user", "Look at this.", "Ann", 0.5)
    [assistant] = exchange(nothing, "A kite!", speaker="Ann")
    assert (assistant.role, assistant.content, assistant.speaker) == ("assistant", "A kite!", None)
    with pytest.raises(
        InvalidInput, match=r"user_msg is .* and assistant_msg is .*one of them must have text"
    ):
        exchange(nothing, nothing)


def test_what_is_wrong_with_an_exchange_has_the_name_of_the_argument() -> None:
    with pytest.raises(InvalidInput, match=r"^assistant_msg has a lone surrogate"):
        exchange("Hi.", "\ud800")
    turns = exchange("Hi.", "Hello.", importance=2)
    with pytest.raises(InvalidInput, match=r"^importance is 2"):
        admit(turns, now=NOW, counter=EstimatedTokens(), idempotency_key=None, stages=(), numbered=False)
