"""The binary form of segments: what goes in comes out, and bytes of others are refused."""

from __future__ import annotations

import zlib
from itertools import pairwise

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.errors import StoreError
from memory_agent.stores.segments import (
    BROTLI,
    GZIP,
    SEGMENT_BYTES,
    STORED,
    pack_texts,
    segments_of,
    unpack_texts,
)

texts = st.lists(st.text(max_size=300), max_size=12)
codecs = st.sampled_from([STORED, GZIP, BROTLI])


def test_codecs_keep_their_numbers() -> None:
    """Stored segments name their codec by these numbers."""
    assert (STORED, GZIP, BROTLI) == (0, 1, 2)


@given(packed=texts, codec=codecs)
def test_any_texts_come_back(packed: list[str], codec: int) -> None:
    """Texts come back in their order, whatever characters they hold, with their bytes counted."""
    segment = pack_texts(packed, codec=codec)
    assert unpack_texts(segment.codec, segment.data) == packed
    assert segment.raw_bytes == sum(len(text.encode()) for text in packed)


@pytest.mark.parametrize("codec", [GZIP, BROTLI])
def test_the_asked_codec_packs(codec: int) -> None:
    """A text that can be packed is, by the codec asked for; brotli unless told."""
    segment = pack_texts(["the sea at night, " * 200], codec=codec)
    assert segment.codec == codec
    assert len(segment.data) < segment.raw_bytes / 10
    assert pack_texts(["the sea at night, " * 200]).codec == BROTLI


@pytest.mark.parametrize("codec", [GZIP, BROTLI])
def test_what_packing_would_enlarge_is_stored(codec: int) -> None:
    """Texts that don't get smaller are kept as they are, behind their lengths."""
    segment = pack_texts(["q7"], codec=codec)
    assert (segment.codec, segment.data) == (STORED, b"\x01\x02q7")


@pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 16_383, 16_384, 2_097_152])
def test_texts_of_any_length_come_back(length: int) -> None:
    """Lengths around the steps of their encoding are read as they were written."""
    segment = pack_texts(["x" * length, "end"], codec=STORED)
    assert unpack_texts(STORED, segment.data) == ["x" * length, "end"]
    assert len(unpack_texts(STORED, pack_texts(["a"] * length, codec=STORED).data)) == length


def test_an_unknown_codec_is_refused() -> None:
    """The message names the codec and says what to do."""
    with pytest.raises(StoreError, match=r"codec 9.*upgrade memory_agent"):
        unpack_texts(9, b"")


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (STORED, b""),
        (STORED, b"\x80"),
        (STORED, b"\x01"),
        (STORED, b"\x01\x05abc"),
        (STORED, b"\x01\x02abc"),
        (STORED, b"\x01\x02\xff\xfe"),
        (STORED, b"\xff\xff\xff\x7fabc"),
        (GZIP, b"no gzip at all"),
        (GZIP, b""),
        (GZIP, zlib.compress(b"\x01\x01a")),
        (BROTLI, b"no brotli"),
        (BROTLI, b""),
        (BROTLI, brotli.compress(b"\x05a")),
    ],
)
def test_damaged_bytes_are_refused(codec: int, data: bytes) -> None:
    """Bytes that pack_texts did not make are a StoreError, not wrong texts."""
    with pytest.raises(StoreError, match=f"codec {codec} is damaged"):
        unpack_texts(codec, data)


@pytest.mark.parametrize("codec", [STORED, GZIP, BROTLI])
def test_cut_off_bytes_are_refused(codec: int) -> None:
    """A segment that was cut anywhere is a StoreError."""
    data = pack_texts(["the sea at night " * 20, "é" * 50, "end"], codec=codec).data
    for length in range(len(data)):
        with pytest.raises(StoreError, match="damaged"):
            unpack_texts(codec, data[:length])


@given(data=st.binary(max_size=60), codec=codecs)
def test_any_bytes_are_texts_or_refused(data: bytes, codec: int) -> None:
    """Whatever the bytes, there is no other error than StoreError."""
    try:
        unpacked = unpack_texts(codec, data)
    except StoreError:
        return
    assert all(isinstance(text, str) for text in unpacked)


@given(sizes=st.lists(st.integers(0, 50), max_size=40), most=st.integers(1, 100))
def test_segments_hold_all_texts_in_order(sizes: list[int], most: int) -> None:
    """Each text is in one segment, in order; none is empty or too large unless it is a single text."""
    slices = list(segments_of(sizes, most_bytes=most))
    assert [size for part in slices for size in sizes[part]] == sizes
    assert [part.start for part in slices] == [0, *(part.stop for part in slices[:-1])][: len(slices)]
    for part in slices:
        assert sizes[part]
        assert sum(sizes[part]) <= most or len(sizes[part]) == 1
    # As few as the order allows: no segment could have taken the next one's first text.
    for part, following in pairwise(slices):
        assert sum(sizes[part]) + sizes[following.start] > most


def test_segments_stay_below_a_documents_limit() -> None:
    """By default a segment holds at most SEGMENT_BYTES of text, far below MongoDB's 16 MB."""
    assert list(segments_of([SEGMENT_BYTES, 1, SEGMENT_BYTES * 2, 1])) == [
        slice(0, 1),
        slice(1, 2),
        slice(2, 3),
        slice(3, 4),
    ]
    assert list(segments_of(iter([SEGMENT_BYTES - 1, 1]))) == [slice(0, 2)]
    assert list(segments_of([])) == []
