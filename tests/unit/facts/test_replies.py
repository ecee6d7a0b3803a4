"""What is read out of a model's reply to the question for facts, and what the model is asked again for."""

import contextlib
import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import StatedFact
from memory_agent.errors import MalformedReply
from memory_agent.facts.extractors import MAX_ITEMS, read_stated
from tests.unit.examples import examples, misses

EXAMPLES = examples("facts/replies.json")
TURNS: Final = {1: "t1", 2: "t2", 3: "t3"}
NAME: Final = {"path": "name", "value": "Ada", "turn": 1, "quote": "I'm Ada"}
HOME: Final = {"path": "location", "value": "Turin", "turn": 2, "quote": "I live in Turin"}
NAMED: Final = StatedFact(op="add", path=("name",), value="Ada", quote="I'm Ada", turn_id="t1")
LIVES: Final = StatedFact(op="add", path=("location",), value="Turin", quote="I live in Turin", turn_id="t2")


def read(reply: object) -> list[StatedFact]:
    return read_stated(reply if isinstance(reply, str) else json.dumps(reply), turns=TURNS)


def refused(reply: object) -> str:
    text = reply if isinstance(reply, str) else json.dumps(reply)
    with pytest.raises(MalformedReply) as caught:
        read(text)
    assert caught.value.reply == text
    return str(caught.value)


def one(**fields: Any) -> StatedFact:
    """The fact that NAME becomes with these fields changed (`...` leaves one out)."""
    item = {key: value for key, value in {**NAME, **fields}.items() if value is not ...}
    [fact] = read({"additions": [item]})
    return fact


def each(expected: object, *said: object) -> list[tuple[object, object]]:
    return [(given, expected) for given in said]


# --- the asked form ------------------------------------------------------------------------------------------
def test_all_fields_are_read() -> None:
    """Each list is an operation, each item a fact of the turn that it names by number."""
    update = {**HOME, "confidence": 0.5, "valid_from": "2024-05", "old": "Rome"}
    assert read({"additions": [NAME], "updates": [update], "retractions": [{**NAME, "turn": 3}]}) == [
        NAMED,
        StatedFact(
            op="update",
            path=("location",),
            value="Turin",
            quote="I live in Turin",
            turn_id="t2",
            old="Rome",
            confidence=0.5,
            valid_from="2024-05",
        ),
        StatedFact(op="retract", path=("name",), value="Ada", quote="I'm Ada", turn_id="t3"),
    ]


def test_order_is_by_turn_then_operation_then_as_said() -> None:
    """What no longer holds goes first, so that it does not take along what the same turn states anew."""

    def item(name: str, turn: int) -> dict[str, Any]:
        return {"path": name, "value": 1, "turn": turn}

    reply = {
        "additions": [item("a", 2), item("b", 1), item("c", 9), item("d", 1)],
        "updates": [item("e", 1), item("f", 2)],
        "retractions": [item("g", 2), item("h", 1)],
    }
    assert "".join(fact.path[0] for fact in read(reply)) == "hebdgfac"


# --- other forms ---------------------------------------------------------------------------------------------
def test_other_forms_are_read_as_they_are_meant() -> None:
    """Whatever leaves no doubt; keys said twice are joined, and items that follow one another are one answer."""
    assert [reply for reply in EXAMPLES["one"] if read(reply) != [NAMED]] == []
    assert [reply for reply in EXAMPLES["two"] if read(reply) != [NAMED, LIVES]] == []


# --- what is asked for again ---------------------------------------------------------------------------------
def test_what_leaves_doubt_is_malformed() -> None:
    """So that the model is asked again, rather than anything passed over; what was said up to a cut is not all."""
    assert [reply for reply, reason in EXAMPLES["doubt"] if reason not in refused(reply)] == []
    for reply in EXAMPLES["half"]:
        refused(reply)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"value": ...}, "no value"), ({"value": None}, "no value"), ({"path": None}, "path"),
        ({"path": ""}, "empty"), ({"path": " . / "}, "empty"), ({"path": []}, "empty"), ({"path": True}, "path"),
        ({"path": {"a": 1}}, "path"), ({"path": ["a", {"b": 1}]}, "path"), ({"turn": ...}, "turn None"),
        ({"turn": None}, "turn None"), ({"turn": True}, "turn True"), ({"turn": 1.5}, "turn 1.5"),
        ({"turn": "the first"}, "turn 'the first'"), ({"turn": "1 or 2"}, "turn '1 or 2'"),
        ({"turn": [1, 2]}, "turn [1, 2]"), ({"turn": {"number": 1}}, "turn"),
        ({"quote": {"text": "I'm Ada"}}, "quote"), ({"quote": ["I'm", "Ada"]}, "quote"), ({"quote": True}, "quote"),
    ],
)  # fmt: skip
def test_a_field_of_the_wrong_type_is_malformed(fields: dict[str, Any], reason: str) -> None:
    item = {key: value for key, value in {**NAME, **fields}.items() if value is not ...}
    assert reason in refused({"additions": [HOME, item]})
    if "value" in fields:
        assert "'name'" in refused({"updates": [item]})
        assert [fact.value for fact in read({"retractions": [item]})] == [None]


def test_a_reply_that_was_cut_off_is_malformed_even_if_it_parses() -> None:
    with pytest.raises(MalformedReply, match="length limit"):
        read_stated('{"additions": []}', turns=TURNS, truncated=True)


# --- fields --------------------------------------------------------------------------------------------------
def test_paths() -> None:
    assert misses(EXAMPLES["paths"], lambda said: list(one(path=said).path)) == []


@pytest.mark.parametrize(
    ("said", "turn_id"),
    [
        *each("t3", 3, 3.0, "3", " 3 ", "3.0", "turn 3", "turn-3.", "#3", "[3]", "message 3", [3], "t3"),
        *each("", 0, 4, -1, "-3", "turn 99", 10**300, 1e300, "9" * 5_000),
    ],
)  # fmt: skip
def test_turns(said: object, turn_id: str) -> None:
    """A number that was not shown is kept without a turn, for whoever decides what to believe."""
    assert one(turn=said).turn_id == turn_id


@pytest.mark.parametrize(
    ("said", "quote"),
    [
        ("I'm Ada", "I'm Ada"),
        (" I'm\nAda ", " I'm\nAda "),
        (["I'm Ada"], "I'm Ada"),
        (42, "42"),
        *each(None, "", "  ", None, [], [""], ...),
    ],
)
def test_quotes(said: object, quote: str | None) -> None:
    """Word for word; a missing one is left to whoever decides what to believe."""
    assert one(quote=said).quote == quote


@pytest.mark.parametrize(
    ("said", "since"),
    [
        *each("2024", "2024", 2024, 2024.0, " 2024 "),
        *each("2024-05", "2024-05", "2024-5", "2024/05", "2024.05"),
        *each("2024-05-17", "2024-05-17", "2024-5-17", "2024/05/17", "20240517", 20240517, "2024-05-17T10:00:00Z", "2024-05-17 10:00"),
        *each(None, None, "", "last May", "May 2024", "2024-13", "2024-02-30", "0000", "24", 12345, True, [], {}, 1e300, ...),
    ],
)  # fmt: skip
def test_since_when(said: object, since: str | None) -> None:
    """A year, a month or a day that the calendar has, or none."""
    assert one(valid_from=said).valid_from == since
    assert one(validFrom=said).valid_from == since


# --- whatever comes ------------------------------------------------------------------------------------------
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip
keys = st.text(min_size=1, max_size=8).map(
    lambda key: f"k{key}".translate(dict.fromkeys(map(ord, "./> \t\r\n"))).strip()
)
facts = st.builds(
    StatedFact,
    op=st.sampled_from(["add", "update", "retract"]),
    path=st.lists(keys.filter(lambda key: key == key.strip()), min_size=1, max_size=3).map(tuple),
    value=json_values.filter(lambda value: value is not None),
    quote=st.none() | st.text(min_size=1, max_size=20).filter(str.strip),
    turn_id=st.sampled_from(["t1", "t2", "t3"]),
    old=json_values,
    confidence=st.none() | st.floats(0, 1),
    valid_from=st.sampled_from([None, "2024", "2024-05", "2024-05-17"]),
)
LISTS: Final = {"add": "additions", "update": "updates", "retract": "retractions"}
ORDER: Final = {"retract": 0, "update": 1, "add": 2}


def in_order(stated: list[StatedFact]) -> list[StatedFact]:
    return sorted(stated, key=lambda fact: (fact.turn_id, ORDER[fact.op]))


def as_reply(stated: list[StatedFact], dumps: Callable[[Any], str] = json.dumps) -> str:
    reply: dict[str, list[dict[str, Any]]] = {name: [] for name in LISTS.values()}
    for fact in stated:
        item: dict[str, Any] = {
            "path": ".".join(fact.path),
            "turn": int(fact.turn_id[1:]),
            "value": fact.value,
        }
        item |= {name: getattr(fact, name) for name in ("quote", "old", "confidence", "valid_from")}
        reply[LISTS[fact.op]].append(item)
    return dumps(reply)


prose = st.text(alphabet=st.characters(exclude_characters="{}[]<>", exclude_categories=["Cs"]), max_size=20)
thinking = st.builds(
    lambda tag, said: f"<{tag}>{said}</{tag}>",
    st.sampled_from(["think", "thinking", "reasoning", "THINK"]),
    st.text(max_size=20).filter(lambda said: "</" not in said),
)
before = st.lists(prose | thinking | st.just('<think>{"additions": [{"path": "x"</think>'), max_size=3).map(
    "\n".join
)
after = st.lists(prose.map(lambda said: f"\n{said.lstrip(' ,')}") | thinking, max_size=3).map("\n".join)


@given(st.lists(facts, max_size=5), before, after, st.booleans(), st.sampled_from([None, 1, 4]))
def test_what_is_stated_reads_back(
    stated: list[StatedFact], before: str, after: str, fence: bool, indent: int | None
) -> None:
    text = as_reply(stated, lambda reply: json.dumps(reply, ensure_ascii=bool(indent), indent=indent))
    text = f"```json\n{text}\n```" if fence else text
    assert read(f"{before}\n{text}\n{after}") == in_order(stated)


@given(st.text() | st.text(alphabet="{}[](),:\"'#/*\\<>thinkpavlue1 \n.…“”", max_size=80))
def test_no_text_brings_about_another_error(reply: str) -> None:
    with contextlib.suppress(MalformedReply):
        assert isinstance(read(reply), list)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "add", "2024", "1", "a.b"]),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["additions", "facts", "path", "value", "turn", "quote", "op", "old", "confidence", "valid_from"]),
            inner,
        ),
        max_leaves=20,
    )
)  # fmt: skip
def test_no_json_brings_about_another_error(reply: object) -> None:
    try:
        for fact in read(reply):
            assert fact.path
            assert fact.op == "retract" or fact.value is not None
    except MalformedReply:
        pass


def test_a_megabyte_around_an_answer() -> None:
    """It is found in prose and white space of any length, and a value may be long; but items without end are no answer."""
    long = {"additions": [NAME, {**HOME, "old": "x" * 1_000_000}]}
    assert read("So. " * 250_000 + json.dumps(long) + "\n" * 1_000_000)[0] == NAMED
    assert refused("[" * 1_000_000)
    assert refused('{"additions": [' + json.dumps(NAME) + " " * 1_000_000)
    assert f"{MAX_ITEMS:,} items" in refused({"additions": [NAME] * (MAX_ITEMS + 1)})
