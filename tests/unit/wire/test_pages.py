"""Cursors are opaque and cannot be forged into something else; pages neither repeat nor miss what stayed in a list."""

import base64
import contextlib
import functools
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_agent.errors import InvalidInput
from memory_agent.wire.pages import decode_cursor, encode_cursor
from memory_agent.wire.pages import page_of as shown_page_of

page_of = functools.partial(shown_page_of, lambda item: item)
positions = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def packed(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


@given(position=positions)
def test_a_cursor_leads_back_to_its_position_and_fits_into_an_address(position: Any) -> None:
    cursor = encode_cursor(position)
    assert re.fullmatch("[A-Za-z0-9_-]+", cursor)
    assert decode_cursor(cursor) == position


NO_CURSORS = [
    "", "x", "????", "=", "日本", "\ud800", "a b", base64.urlsafe_b64encode(b"\xff\xfe").decode(), "A" * 100_000,
    *map(packed, ("{}", "[1]", "[0,7]", "[2,7]", "[true,7]", "[1.0,7]", '["1",7]', "[1,7,8]", "[1,NaN]", "[1,Infinity]")),
    packed("[" * 8_000), packed("[1," + "9" * 5_000 + "]"),
]  # fmt: skip


def test_what_is_no_cursor_is_refused_by_name() -> None:
    for text in NO_CURSORS:
        with pytest.raises(InvalidInput, match=r"^cursor is "):
            decode_cursor(text)


@given(text=st.text(max_size=60))
def test_no_text_does_worse_than_to_be_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        assert decode_cursor(encode_cursor(decode_cursor(text))) == decode_cursor(text)


def pages(items: list[Any], limit: int, key: Any = lambda item: item) -> list[list[Any]]:
    found, cursor = [], None
    while True:
        part = page_of(items, key=key, cursor=cursor, limit=limit)
        found.append(list(part.items))
        cursor = part.next_cursor
        if cursor is None:
            return found


@example(items=[1, "cannot be compared with it"], limit=1)
@given(items=st.lists(st.integers() | st.text(), unique=True), limit=st.integers(1, 8))
def test_pages_laid_end_to_end_are_the_list_in_any_order(items: list[Any], limit: int) -> None:
    found = pages(items, limit)
    assert [item for page in found for item in page] == items
    assert all(len(page) == limit for page in found[:-1])
    assert len(found[-1]) <= limit


@pytest.mark.parametrize("order", [1, -1], ids=["rising", "falling"])
@given(data=st.data())
def test_of_an_ordered_list_nothing_that_stayed_is_missed_or_repeated(
    order: int, data: st.DataObject
) -> None:
    before = sorted(data.draw(st.lists(st.integers(), unique=True, min_size=2, max_size=20)))[::order]
    limit = data.draw(st.integers(1, len(before)))
    first = page_of(before, key=lambda item: item, cursor=None, limit=limit)
    after = sorted(set(data.draw(st.lists(st.sampled_from(before) | st.integers()))))[::order]
    if first.next_cursor is None:
        return
    rest = page_of(after, key=lambda item: item, cursor=first.next_cursor, limit=99)
    if len(after) == 1 and after[0] not in before:
        return
    assert list(rest.items) == [item for item in after if (item - first.items[-1]) * order > 0]


def test_of_a_list_in_its_own_order_nothing_is_missed_when_the_last_one_read_is_gone() -> None:
    before = ["pear", "apple", "quince", "fig", "lemon"]
    first = page_of(before, key=lambda item: item, cursor=None, limit=2)
    after = ["pear", "quince", "fig", "lemon"]
    rest = page_of(after, key=lambda item: item, cursor=first.next_cursor, limit=9)
    assert rest.items == ("quince", "fig", "lemon")


@pytest.mark.parametrize("position", [None, 3, "t1", [], ["t1"], ["t1", "1", 1], ["t1", 0, 0], ["t1", -1, 0]])
def test_a_cursor_of_another_list_is_refused(position: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^cursor is "):
        page_of(["b", "a"], key=lambda item: item, cursor=encode_cursor(position), limit=1)


def test_a_cursor_whose_key_is_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^cursor is "):
        page_of([1, 2, 3], key=lambda item: item, cursor=encode_cursor(["t1", 1, 1]), limit=1)


@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "3", None])
def test_a_page_has_at_least_one_item(limit: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^limit is "):
        page_of([1, 2], key=lambda item: item, cursor=None, limit=limit)
