"""The checks at the door: what may be stored, and what the refusal says."""

from __future__ import annotations

import dataclasses
import json
import math
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.checks import (
    MAX_CONTENT_CHARS,
    MAX_ID_CHARS,
    MAX_METADATA_CHARS,
    MAX_METADATA_DEPTH,
    checked_id,
    checked_metadata,
    checked_text,
    checked_time,
)
from memory_agent.domain import (
    ErasedCounts,
    Scope,
    new_id,
)
from memory_agent.errors import InvalidInput

storable = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
visible = storable.filter(lambda text: any(c.isalnum() for c in text))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | storable,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            storable.filter(lambda key: bool(key) and key[0] != "$" and "\0" not in key), inner, max_size=4
        )
    ),
    max_leaves=20,
)

# --- text and ids --------------------------------------------------------------------------------------------


@given(visible)
def test_storable_text_comes_back_unchanged(text: str) -> None:
    assert checked_text("content", text, max_chars=100) == text


@pytest.mark.parametrize("value", [None, 5, b"bytes", ["list"], 1.5])
def test_text_of_another_type_is_refused_by_name_and_type(value: object) -> None:
    with pytest.raises(InvalidInput, match=f"content must be text, not {type(value).__name__}"):
        checked_text("content", value, max_chars=100)


@pytest.mark.parametrize("value", ["", " ", "\n\t", "\u3000", "\u200b", "\ufeff", "\u2028", "\x00"])
def test_text_without_a_visible_character_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match="content is empty"):
        checked_text("content", value, max_chars=100)


def test_empty_text_passes_where_it_is_allowed() -> None:
    assert checked_text("note", "", max_chars=100, allow_empty=True) == ""


def test_text_may_be_as_long_as_the_limit_and_no_longer() -> None:
    assert checked_text("content", "x" * MAX_CONTENT_CHARS, max_chars=MAX_CONTENT_CHARS)
    with pytest.raises(InvalidInput, match=r"1,000,001 characters; at most 1,000,000"):
        checked_text("content", "x" * (MAX_CONTENT_CHARS + 1), max_chars=MAX_CONTENT_CHARS)


def test_lone_surrogate_is_refused_with_its_position() -> None:
    with pytest.raises(InvalidInput, match="lone surrogate at character 2"):
        checked_text("content", "ab\ud800", max_chars=100)


@pytest.mark.parametrize(
    "value",
    [
        "a",
        "ünï©ode",
        "$where",
        "a.b",
        "../../etc",
        "{'$ne': null}",
        "*",
        "x" * MAX_ID_CHARS,
        " a ",
        "日本",
        "👩‍🚀",
    ],
)
def test_hostile_ids_are_ids_like_any_other(value: str) -> None:
    assert checked_id("user_id", value) == value


@pytest.mark.parametrize(
    "value", ["", " ", "\u200b", "x" * (MAX_ID_CHARS + 1), "a\x00b", "a\nb", "a\x7f", None, 7]
)
def test_ids_that_cannot_name_anyone_are_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="user_id"):
        checked_id("user_id", value)


def test_control_character_of_an_id_is_named_with_its_position() -> None:
    with pytest.raises(InvalidInput, match=r"thread_id has the control character '\\n' at position 1"):
        checked_id("thread_id", "a\nb")


def test_ids_are_not_folded_together() -> None:
    composed, decomposed = "é", "e\u0301"
    assert checked_id("user_id", composed) != checked_id("user_id", decomposed)


# --- scope ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user_id", ["", "  ", None])
def test_scope_without_a_user_is_refused_never_read_as_all(user_id: Any) -> None:
    with pytest.raises(InvalidInput, match="user_id"):
        Scope(user_id=user_id)


def test_scope_with_an_empty_thread_is_refused() -> None:
    with pytest.raises(InvalidInput, match="thread_id"):
        Scope(user_id="u", thread_id="")


def test_scope_of_a_user_names_no_thread() -> None:
    assert Scope(user_id="u", thread_id="t").user == Scope(user_id="u")


def test_values_are_frozen_and_keyword_only() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Scope(user_id="u").user_id = "v"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Scope("u")  # type: ignore[call-arg]


# --- times ---------------------------------------------------------------------------------------------------


@given(
    st.datetimes(
        min_value=datetime(2, 1, 1),  # noqa: DTZ001
        max_value=datetime(9998, 1, 1),  # noqa: DTZ001
        timezones=st.builds(timezone, st.integers(-14 * 60, 14 * 60).map(lambda m: timedelta(minutes=m))),
    )
)
def test_time_is_the_same_instant_in_utc_cut_to_milliseconds(value: datetime) -> None:
    checked = checked_time("timestamp", value)
    assert checked.tzinfo is UTC
    assert timedelta(0) <= value - checked < timedelta(milliseconds=1)
    assert checked_time("timestamp", checked) == checked


def test_naive_time_is_refused() -> None:
    with pytest.raises(InvalidInput, match="2026-03-01T12:00:00 has no time zone"):
        checked_time("timestamp", datetime(2026, 3, 1, 12))  # noqa: DTZ001


@pytest.mark.parametrize("value", ["2026-03-01", 1_700_000_000, None])
def test_time_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="timestamp must be a datetime"):
        checked_time("timestamp", value)


def test_time_that_utc_has_no_year_for_is_refused() -> None:
    with pytest.raises(InvalidInput, match="outside the years 1 to 9999"):
        checked_time("timestamp", datetime.min.replace(tzinfo=timezone(timedelta(hours=5))))


# --- metadata ------------------------------------------------------------------------------------------------


@given(
    st.dictionaries(
        storable.filter(lambda key: bool(key) and key[0] != "$" and "\0" not in key), json_values, max_size=5
    )
)
def test_json_metadata_comes_back_equal(value: dict[str, Any]) -> None:
    checked = checked_metadata(value)
    assert checked == value
    assert json.loads(json.dumps(checked)) == checked


def test_no_metadata_is_an_empty_mapping() -> None:
    assert checked_metadata(None) == {}


def test_metadata_is_a_copy() -> None:
    inner = [1]
    checked = checked_metadata({"a": inner})
    inner.append(2)
    assert checked == {"a": [1]}


def test_subclasses_become_the_plain_type() -> None:
    class Colour(StrEnum):
        RED = "red"

    class Loud(float):
        pass

    checked = checked_metadata({"colour": Colour.RED, "level": Loud(1.5), "pair": (1, 2)})
    assert checked == {"colour": "red", "level": 1.5, "pair": [1, 2]}
    assert [type(value) for value in checked.values()] == [str, float, list]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "metadata must be a dict, not list"),
        ({"a": {"$b": 1}}, r"metadata.a has the key '\$b'"),
        ({"": 1}, "has the key ''"),
        ({5: 1}, "has the key 5"),
        ({"a\0": 1}, "has the key"),
        ({"\ud800": 1}, "lone surrogate"),
        ({"k" * (MAX_ID_CHARS + 1): 1}, "513 characters"),
        ({"a": ["\ud800"]}, r"metadata.a\[0\] has a lone surrogate"),
        ({"a": math.nan}, "metadata.a is nan; numbers must be finite"),
        ({"a": math.inf}, "must be finite"),
        ({"a": 2**63}, "not a 64-bit integer"),
        ({"a": -(2**63) - 1}, "not a 64-bit integer"),
        ({"a": datetime(2026, 1, 1, tzinfo=UTC)}, "metadata.a is a datetime; use text"),
        ({"a": b"x"}, "metadata.a is a bytes"),
        ({"a": {1, 2}}, "metadata.a is a set"),
        ({"a": "x" * (MAX_METADATA_CHARS + 1)}, "at most 100,000"),
        ({"a": "x" * 60_000, "b": "x" * 60_000}, "larger than 100,000 characters"),
    ],
)
def test_metadata_that_a_store_could_not_give_back_is_refused(value: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        checked_metadata(value)


def test_metadata_may_be_as_deep_as_the_limit_and_no_deeper() -> None:
    def nested(depth: int) -> dict[str, Any]:
        return {"a": nested(depth - 1)} if depth else {"a": 1}

    assert checked_metadata(nested(MAX_METADATA_DEPTH - 1))
    with pytest.raises(InvalidInput, match="nested more than 16 deep"):
        checked_metadata(nested(MAX_METADATA_DEPTH))


def test_metadata_that_holds_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop
    with pytest.raises(InvalidInput, match="nested more than"):
        checked_metadata(loop)


# --- the rest ------------------------------------------------------------------------------------------------


def test_ids_made_later_sort_later() -> None:
    ids = [new_id() for _ in range(1_000)]
    assert ids == sorted(set(ids))


def test_erased_counts_add_up() -> None:
    total = ErasedCounts(turns=1, search_rows=2, sessions=4) + ErasedCounts(turns=1, fact_changes=3)
    assert total == ErasedCounts(turns=2, search_rows=2, fact_changes=3, sessions=4)
    names = [field.name for field in dataclasses.fields(ErasedCounts)]
    every = ErasedCounts(**{name: n for n, name in enumerate(names, start=1)})
    assert every + every == ErasedCounts(**{name: 2 * n for n, name in enumerate(names, start=1)})
