"""What a text shows at a glance, and how rows keep it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import Signs
from memory_agent.text.features import READ_CHARS, signs_of


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Do you like it?", True),
        ("Do you like it? :)", True),
        ("Is it done? 🎉", True),
        ("좋아해?", True),
        ("你喜歡嗎？", True),
        ("هل تحب القهوة؟", True),
        ("word " * 2_000 + "?", True),
        ("Really? Yes.", False),
        ("I like it.", False),
        ("?" + " word" * 20, False),
        ("", False),
    ],
)
def test_a_turn_asks_whose_end_does(text: str, asks: bool) -> None:
    """A question mark of any script at its end, with at most signs behind it."""
    assert signs_of(text).asks is asks


@pytest.mark.parametrize(
    ("text", "tells_when"),
    [
        ("We flew to Lisbon last week.", True),
        ("The year 1999 was hot.", True),
        ("It has been raining for three days.", True),
        ("On Friday we leave.", True),
        ("어제 만났어", True),
        ("2년 전에 이사했어", True),
        ("昨日会いました", True),
        ("去年搬家了", True),
        ("I may go.", False),
        ("Room 12 is free.", False),
        ("The cat sleeps.", False),
        ("고양이가 자요", False),
        ("猫在睡觉", False),
    ],
)
def test_a_turn_tells_when(text: str, tells_when: bool) -> None:
    """Days, months and years, and words for a time told from now."""
    assert signs_of(text).tells_when is tells_when


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("I have two cats.", True),
        ("Room 12", True),
        ("It happened twice.", True),
        ("猫が三匹います", True),
        ("고양이 두 마리", True),
        ("٣ قطط", True),
        ("I have cats.", False),
        ("Someone alone", False),
        ("猫がいます", False),
    ],
)
def test_a_turn_counts(text: str, counts: bool) -> None:
    """Digits of any script and small numbers in words."""
    assert signs_of(text).counts is counts


@pytest.mark.parametrize(
    ("text", "of_self"),
    [
        ("My dog is old.", True),
        ("I'm tired.", True),
        ("It belongs to us.", True),
        ("내가 갔어", True),
        ("저희 집이야", True),
        ("私は猫が好き", True),
        ("我去了", True),
        ("The dog is old.", False),
        ("Mining is hard, inside the bus.", False),
        ("나무가 크다", False),
        ("제주도는 섬이다", False),
    ],
)
def test_a_turn_tells_of_its_speaker(text: str, of_self: bool) -> None:
    """Words for oneself, not words that begin alike."""
    assert signs_of(text).of_self is of_self


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("We met Ann.", 1),
        ("See Ann's dog and Bo.", 2),
        ("We met Ann, Bo, Carl and Dora.", 3),
        ("I like NASA.", 1),
        ("Вчера Анна пришла к Борису.", 2),
        ("Ann came.", 0),
        ("It ended. Then we left: Nobody stayed.", 0),
        ("Yes, I know.", 0),
        ("민수를 만났어", 0),
        ("", 0),
    ],
)
def test_names_are_counted_by_their_capitals(text: str, names: int) -> None:
    """Up to 3; the first word of a sentence may be any word, and "I" is nobody's name."""
    assert signs_of(text).names == names


def test_the_beginning_of_a_text_is_read() -> None:
    """What stands behind the first 4,000 characters counts only if it asks."""
    text = "word " * (READ_CHARS // 5) + "last year I met Ann twice. Really?"
    assert signs_of(text) == Signs(asks=True)


@given(st.text(max_size=500))
def test_any_text_has_signs(text: str) -> None:
    """No error, and they are the same again out of a store."""
    signs = signs_of(text)
    assert 0 <= signs.names <= 3
    assert Signs.unpacked(signs.packed) == signs


@given(st.integers(0, 63))
def test_packing_loses_nothing(packed: int) -> None:
    """Every number that signs can be packed into is the signs' own; it fits into a byte."""
    signs = Signs.unpacked(packed)
    assert signs.packed == packed
    assert Signs.unpacked(signs.packed) == signs
