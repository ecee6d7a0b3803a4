"""What somebody feels in a turn, and how feelings follow each other."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain.moments import EMOTIONS, EmotionSpan, Feeling
from memory_agent.text.moments.emotions import (
    FRESH_TURNS,
    WEAK_INTENSITY,
    describe_course,
    extend_course,
    feeling_of,
)
from tests.unit.examples import examples, misses

if TYPE_CHECKING:
    from memory_agent.domain.moments import Emotion

EXAMPLES = examples("text/moments/emotions.toml")


def test_a_feeling_of_the_speaker_is_named() -> None:
    """Words, phrases and signs of a feeling give the emotion."""
    assert misses(EXAMPLES["shown"], lambda text: getattr(feeling_of(text), "emotion", None)) == []
    strongest = feeling_of("I'm glad you came. I'm devastated about Rex.")
    assert strongest == Feeling(emotion="sadness", intensity=0.9)


def test_no_feeling_is_read_into_a_turn() -> None:
    """Negated, supposed, asked about, polite, or somebody else's: the speaker shows nothing."""
    assert [text for text in EXAMPLES["not_shown"] if feeling_of(text) is not None] == []


def test_degree_and_marks_make_it_stronger() -> None:
    """Words of degree, exclamation marks, capitals and signs raise the intensity; diminishers and the past lower it."""
    for weaker, stronger in EXAMPLES["stronger"]:
        less, more = feeling_of(weaker), feeling_of(stronger)
        assert less is not None, weaker
        assert more is not None, stronger
        assert less.emotion == more.emotion, stronger
        assert less.intensity < more.intensity, stronger


WORDS = [
    "i'm", "so", "very", "not", "sad", "happy!", "LOVE", "you", "never", "너무", "안", "슬퍼요", "화가", "나", "ㅠㅠ",
    "😭", "?", ".", ",", "if", "she", "İ",
]  # fmt: skip
texts = st.one_of(st.text(max_size=300), st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join))


@given(texts)
def test_any_text_gives_a_bounded_feeling_or_none(text: str) -> None:
    """The intensity is in (0, 1] whatever comes in."""
    feeling = feeling_of(text)
    if feeling is not None:
        assert feeling.emotion in EMOTIONS
        assert 0 < feeling.intensity <= 1


def test_a_hundred_kilobytes_take_no_time() -> None:
    """Reading is bounded."""
    for piece in ("sad ", "so ", "i ", "슬퍼", "너무 ", "!", "ㅠ", "😭", "a", "my ", "i miss "):
        started = time.process_time()
        feeling_of((piece * 100_000)[:100_000])
        assert time.process_time() - started < 1, piece


def span(emotion: Emotion, first: int, last: int, peak: float = 0.5) -> EmotionSpan:
    return EmotionSpan(emotion=emotion, first_seq=first, last_seq=last, peak=peak)


def felt(emotion: Emotion, intensity: float = 0.5) -> Feeling:
    return Feeling(emotion=emotion, intensity=intensity)


def test_a_feeling_extends_the_course_opens_a_span_or_leaves_no_trace() -> None:
    """The same emotion extends across turns, with the higher peak; another opens a span; a weak one only where none is fresh."""
    course = (span("sadness", 3, 5),)
    rows: list[list[Any]] = [
        [course, 9, felt("sadness", 0.8), (span("sadness", 3, 9, 0.8),)],
        [course, 6, felt("hope"), (*course, span("hope", 6, 6))],
        [course, 6, felt("joy", WEAK_INTENSITY - 0.01), course],
        [course, 6, felt("joy", WEAK_INTENSITY), (*course, span("joy", 6, 6, WEAK_INTENSITY))],
        [course, 5 + FRESH_TURNS, felt("joy", 0.3), course],
        [course, 6 + FRESH_TURNS, felt("joy", 0.3), (*course, span("joy", 12, 12, 0.3))],
        [(), 4, felt("hope", 0.3), (span("hope", 4, 4, 0.3),)],
        [course, 6, None, course],
        [course, 5, felt("joy", 0.9), course],  # the course has passed that turn
        [(), 1, None, ()],
    ]
    assert misses(rows, extend_course) == []


def test_above_the_limit_the_least_span_goes_to_its_stronger_neighbour() -> None:
    """Short and weak ones first, never the newest; neighbours of one emotion become one."""
    course = (span("sadness", 1, 9, 0.8), span("surprise", 10, 10, 0.4), span("hope", 11, 20, 0.6))
    assert extend_course(course, 21, felt("pride"), limit=3) == (
        span("sadness", 1, 10, 0.8),
        span("hope", 11, 20, 0.6),
        span("pride", 21, 21),
    )
    later = (span("hope", 1, 9, 0.5), span("surprise", 10, 10, 0.4), span("sadness", 11, 20, 0.8))
    assert extend_course(later, 21, felt("pride"), limit=3)[:2] == (
        span("hope", 1, 9),
        span("sadness", 10, 20, 0.8),
    )
    between = (span("sadness", 1, 9, 0.8), span("surprise", 10, 10, 0.4), span("sadness", 11, 20, 0.6))
    assert extend_course(between, 21, felt("pride"), limit=3) == (
        span("sadness", 1, 20, 0.8),
        span("pride", 21, 21),
    )


def test_a_course_has_at_least_one_span() -> None:
    """A limit below 1 is refused."""
    for limit in (0, -1):
        with pytest.raises(ValueError, match="at least one span"):
            extend_course((), 1, felt("joy"), limit=limit)
        with pytest.raises(ValueError, match="1 or more"):
            describe_course((), most=limit)


feelings = st.none() | st.builds(
    Feeling, emotion=st.sampled_from(EMOTIONS), intensity=st.floats(0.01, 1, allow_nan=False)
)


@given(st.lists(st.tuples(st.integers(1, 9), feelings), max_size=60), st.integers(1, 8))
def test_spans_rise_without_overlap_and_stay_within_the_limit(
    turns: list[tuple[int, Feeling | None]], limit: int
) -> None:
    """Whatever is felt, in whatever gaps between turns, and the newest strong feeling is the last span's."""
    course: tuple[EmotionSpan, ...] = ()
    seq = 0
    for gap, feeling in turns:
        seq += gap
        course = extend_course(course, seq, feeling, limit=limit)
        assert len(course) <= limit
        assert all(one.first_seq <= one.last_seq <= seq for one in course)
        assert all(0 < one.peak <= 1 for one in course)
        assert all(one.last_seq < two.first_seq for one, two in itertools.pairwise(course))
        assert all(one.emotion != two.emotion for one, two in itertools.pairwise(course))
        if feeling is not None and feeling.intensity >= WEAK_INTENSITY:
            assert course[-1].emotion == feeling.emotion
            assert course[-1].last_seq == seq
        assert extend_course(course, seq, feeling, limit=limit) == course


def test_the_course_reads_as_a_line() -> None:
    """Turns in words for the first span, as numbers after it."""
    course = (span("sadness", 3, 18), span("hope", 19, 40), span("pride", 41, 60))
    assert describe_course(course) == "sadness (turns 3–18) → hope (19–40) → pride (41–60)"
    assert describe_course((span("joy", 5, 5), span("fear", 7, 7))) == "joy (turn 5) → fear (7)"
    assert describe_course(()) == ""
    # A long one is brought down to its main spans: the least go, the newest stays.
    many = tuple(span(EMOTIONS[i], 10 * i + 1, 10 * i + 9 - i, 0.5) for i in range(8))
    line = describe_course(many, most=3)
    assert line.count("→") == 2
    assert line.endswith(f"{EMOTIONS[7]} (71–72)")
