"""The checks at the door: what may be stored, and what the refusal says."""

import dataclasses
import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.checks import (
    MAX_CONTENT_CHARS,
    MAX_ID_CHARS,
    MAX_METADATA_CHARS,
    MAX_METADATA_DEPTH,
    as_asked,
    checked_id,
    checked_metadata,
    checked_text,
    checked_time,
)
from memory_agent.domain import ErasedCounts, Scope
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


@pytest.mark.parametrize(
    ("value", "said"),
    [
        *(
            (value, f"must be text, not {type(value).__name__}")
            for value in (None, 5, b"bytes", ["list"], 1.5)
        ),
        *((blank, "is empty") for blank in ("", " ", "\n\t", "\u3000", "\u200b", "\ufeff", "\u2028", "\x00")),
        ("ab\ud800", "has a lone surrogate at character 2"),
        ("x" * (MAX_CONTENT_CHARS + 1), "has 1,000,001 characters; at most 1,000,000"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_text_that_cannot_be_stored_or_seen_is_refused_by_name(value: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=f"content {said}"):
        checked_text("content", value, max_chars=MAX_CONTENT_CHARS)


def test_text_may_be_as_long_as_the_limit_and_empty_where_that_is_allowed() -> None:
    assert checked_text("content", "x" * MAX_CONTENT_CHARS, max_chars=MAX_CONTENT_CHARS)
    assert checked_text("note", "", max_chars=100, allow_empty=True) == ""


@pytest.mark.parametrize(
    "value", ["", " ", "\u200b", "x" * (MAX_ID_CHARS + 1), "a\x00b", "a\nb", "a\x7f", None, 7]
)
def test_ids_that_cannot_name_anyone_are_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"user_id.*'\\n' at position 1" if value == "a\nb" else "user_id"):
        checked_id("user_id", value)


# --- scope ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "ids", [{"user_id": ""}, {"user_id": "  "}, {"user_id": None}, {"user_id": "u", "thread_id": ""}]
)
def test_scope_without_a_user_or_with_an_empty_thread_is_refused_never_read_as_all(
    ids: dict[str, Any],
) -> None:
    with pytest.raises(InvalidInput, match=list(ids)[-1]):
        Scope(**ids)


# --- times ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "said"),
    [
        (datetime(2026, 3, 1, 12), "2026-03-01T12:00:00 has no time zone"),  # noqa: DTZ001
        *((value, "timestamp must be a datetime") for value in ("2026-03-01", 1_700_000_000, None)),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=5))), "outside the years 1 to 9999"),
    ],
)
def test_what_is_no_instant_is_refused(value: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        checked_time("timestamp", value)


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
    """Nor does it hold itself."""

    def nested(depth: int) -> dict[str, Any]:
        return {"a": nested(depth - 1)} if depth else {"a": 1}

    assert checked_metadata(nested(MAX_METADATA_DEPTH - 1))
    loop: dict[str, Any] = {}
    loop["a"] = loop
    for deep in (nested(MAX_METADATA_DEPTH), loop):
        with pytest.raises(InvalidInput, match="nested more than 16 deep"):
            checked_metadata(deep)


# --- the rest ------------------------------------------------------------------------------------------------
def test_erased_counts_add_up() -> None:
    total = ErasedCounts(turns=1, search_rows=2, sessions=4) + ErasedCounts(turns=1, fact_changes=3)
    assert total == ErasedCounts(turns=2, search_rows=2, fact_changes=3, sessions=4)
    names = [field.name for field in dataclasses.fields(ErasedCounts)]
    every = ErasedCounts(**{name: n for n, name in enumerate(names, start=1)})
    assert every + every == ErasedCounts(**{name: 2 * n for n, name in enumerate(names, start=1)})


def test_of_a_pasted_document_the_beginning_and_the_end_are_asked() -> None:
    assert as_asked("Where do I live?") == "Where do I live?"
    for before, after in (("Where do I live?", ""), ("", "Where do I live?")):
        asked = as_asked(before + " blah" * 200_000 + after)
        assert len(asked) <= 8_001
        assert "Where do I live?" in asked
