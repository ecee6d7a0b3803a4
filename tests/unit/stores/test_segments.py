"""The packed forms of texts and of what compressions derive: what goes in comes out, and bytes of others are refused."""

import json
import tracemalloc
import zlib
from dataclasses import fields, replace
from datetime import UTC
from itertools import chain, pairwise, repeat
from typing import Any

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import SUMMARY_KINDS, Compression, KeyMoment, SummaryItem, TopicRanges
from memory_agent.errors import StoreError
from memory_agent.stores import codec as stored
from memory_agent.stores.codec import (
    BROTLI,
    GZIP,
    STORED,
    UNPACKED_BYTES,
    forget_unpacked,
    pack_derived,
    pack_texts,
    segments_of,
    unpack_derived,
    unpack_texts,
)
from memory_agent.stores.fields import COMPRESSION
from tests.conformance.values import FULL_COMPRESSION, a_compression

several_texts = st.lists(st.text(max_size=300), max_size=12)
codecs = st.sampled_from([STORED, GZIP, BROTLI])


@given(packed=several_texts, codec=codecs)
def test_any_texts_come_back(packed: list[str], codec: int) -> None:
    segment = pack_texts(packed, codec=codec)
    assert unpack_texts(segment.codec, segment.data) == packed
    assert segment.raw_bytes == sum(len(text.encode()) for text in packed)


def test_the_asked_codec_packs() -> None:
    """A text that can be packed is, by the codec asked for; one that would grow is stored behind its length."""
    assert (STORED, GZIP, BROTLI) == (0, 1, 2)  # stored segments name their codec by these numbers
    for codec in (GZIP, BROTLI):
        segment = pack_texts(["the sea at night, " * 200], codec=codec)
        assert segment.codec == codec
        assert len(segment.data) < segment.raw_bytes / 10
        small = pack_texts(["q7"], codec=codec)
        assert (small.codec, small.data) == (STORED, b"\x01\x02q7")
    assert pack_texts(["the sea at night, " * 200]).codec == BROTLI


def test_texts_of_any_length_come_back() -> None:
    for length in (0, 1, 127, 128, 129, 16_383, 16_384):
        assert unpack_texts(STORED, pack_texts(["x" * length, "end"], codec=STORED).data) == [
            "x" * length,
            "end",
        ]
        assert len(unpack_texts(STORED, pack_texts(["a"] * length, codec=STORED).data)) == length


DAMAGED = {
    STORED: (b"\x80", b"\x01", b"\x01\x05abc", b"\x01\x02abc", b"\x01\x02\xff\xfe", b"\xff\xff\xff\x7fabc"),
    GZIP: (b"no gzip at all", zlib.compress(b"\x01\x01a")),
    BROTLI: (b"no brotli", brotli.compress(b"\x05a")),
}


def test_damaged_bytes_are_refused() -> None:
    for codec, damaged in DAMAGED.items():
        data = pack_texts(["the sea at night " * 20, "é" * 50, "end"], codec=codec).data
        for wrong in (*damaged, *(data[:length] for length in range(len(data)))):
            with pytest.raises(StoreError, match=f"codec {codec} is damaged"):
                unpack_texts(codec, wrong)
    with pytest.raises(StoreError, match=r"codec 9.*upgrade memory_agent"):
        unpack_texts(9, b"")


def bomb(codec: int, size: int) -> bytes:
    """A few kilobytes that unpack to a segment of one text, `size` bytes in all."""
    start = b"\x01" + stored._length(size - 5)
    parts = chain([start], repeat(b"x" * ((size - 5) // 100), 100), [b"x" * ((size - 5) % 100)])
    if codec == GZIP:
        packer = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        return b"".join(map(packer.compress, parts)) + packer.flush()
    compressor = brotli.Compressor(quality=1)
    return b"".join(map(compressor.process, parts)) + bytes(compressor.finish())


@pytest.mark.parametrize("codec", [GZIP, BROTLI])
def test_bytes_that_unpack_to_too_much_are_refused_before_they_fill_the_memory(codec: int) -> None:
    """Up to the limit texts come back; of six times as much no more than a few limits' worth is ever in memory."""
    assert unpack_texts(codec, bomb(codec, UNPACKED_BYTES)) == ["x" * (UNPACKED_BYTES - 5)]
    too_much = r"damaged: it unpacks to more than 16,000,000 bytes"
    with pytest.raises(StoreError, match=too_much):
        unpack_texts(codec, bomb(codec, UNPACKED_BYTES + 1))
    data = bomb(codec, 6 * UNPACKED_BYTES)
    tracemalloc.start()
    try:
        with pytest.raises(StoreError, match=too_much):
            unpack_texts(codec, data)
        assert UNPACKED_BYTES < tracemalloc.get_traced_memory()[1] < 3 * UNPACKED_BYTES
    finally:
        tracemalloc.stop()


def test_what_could_not_be_unpacked_is_not_packed() -> None:
    """Texts above the limit are stored as they are, whatever the codec; a compression above it is refused."""
    texts = ["the sea at night " * 1_000_000]
    segment = pack_texts(texts)
    assert segment.codec == STORED
    assert unpack_texts(segment.codec, segment.data) == texts
    large = a_compression([], summary=(SummaryItem(kind="event", text=texts[0], first_seq=1, last_seq=1),))
    with pytest.raises(StoreError, match=r"17,000,\d+ bytes is too large; at most 16,000,000 are stored"):
        pack_derived(large)


def test_damaged_contents_of_a_compression_are_refused() -> None:
    data = pack_derived(replace(a_compression([]), **FULL_COMPRESSION))
    for wrong in (
        b"",
        b"no brotli",
        data[:-1],
        brotli.compress(b"{no json"),
        bomb(BROTLI, UNPACKED_BYTES + 1_000),
    ):
        with pytest.raises(StoreError, match="contents of a compression are damaged"):
            unpack_derived(wrong)


@given(sizes=st.lists(st.integers(0, 50), max_size=40), most=st.integers(1, 100))
def test_segments_hold_all_texts_in_order(sizes: list[int], most: int) -> None:
    slices = list(segments_of(sizes, most_bytes=most))
    assert [size for part in slices for size in sizes[part]] == sizes
    assert [part.start for part in slices] == [0, *(part.stop for part in slices[:-1])][: len(slices)]
    for part in slices:
        assert sizes[part]
        assert sum(sizes[part]) <= most or len(sizes[part]) == 1
    # As few as the order allows: no segment could have taken the next one's first text.
    for part, following in pairwise(slices):
        assert sum(sizes[part]) + sizes[following.start] > most


texts = st.text(st.characters(codec="utf-8"), max_size=20)
seqs = st.integers(0, 2**63 - 1)
numbers = st.floats(allow_nan=False, allow_infinity=False)


def tuples(of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=3).map(tuple)


times = st.datetimes(timezones=st.just(UTC)).map(
    lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, fold=0)
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("text", "turn_id", "topic_id", "who"), texts),
    **dict.fromkeys(("seq", "first_seq", "last_seq", "tokens"), seqs),
    **dict.fromkeys(("score", "importance", "worth"), numbers),
    "kind": st.sampled_from(SUMMARY_KINDS),
    "at": times,
    "said_at": st.none() | times,
    "code": st.booleans(),
    "participants": tuples(texts),
    "ranges": tuples(st.tuples(seqs, seqs)),
}
"""Values of a part's fields by their names."""
PARTS: dict[str, type[Any]] = {"summary": SummaryItem, "moments": KeyMoment, "topics": TopicRanges}
derived: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {"preserved": tuples(texts)} | {
    name: tuples(st.builds(kind, **{field.name: VALUES[field.name] for field in fields(kind)}))
    for name, kind in PARTS.items()
}


@given(values=st.fixed_dictionaries(derived))
def test_derived_values_come_back_as_they_were(values: dict[str, Any]) -> None:
    compression = replace(a_compression([]), **values)
    back = unpack_derived(pack_derived(compression))
    assert back == {name: getattr(compression, name) for name in derived}
    assert repr(back) == repr({name: getattr(compression, name) for name in back})  # -0.0 and 1.0 as well


def test_no_field_is_forgotten() -> None:
    stored = set(COMPRESSION.columns.split(", ")) - {"derived"}
    assert {field.name for field in fields(Compression)} == stored | set(derived)


def test_a_field_that_a_part_gained_gets_its_default() -> None:
    packed = json.loads(brotli.decompress(pack_derived(replace(a_compression([]), **FULL_COMPRESSION))))
    packed["summary"] = [item[:-1] for item in packed["summary"]]
    older = brotli.compress(json.dumps(packed).encode())
    assert [item.said_at for item in unpack_derived(older)["summary"]] == [None] * 3


def test_texts_that_were_unpacked_are_kept_within_bounds_until_they_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever reads them may change the list; long ones are unpacked each time."""
    forget_unpacked()
    monkeypatch.setattr(stored, "_MOST_KEPT", 3)
    for number in range(10):
        packed = pack_texts([f"text {number} " * 20, "another"])
        unpack_texts(packed.codec, packed.data).clear()
        assert unpack_texts(packed.codec, packed.data)[1:] == ["another"]
        assert 1 <= len(stored._KEPT) <= 3
    long = pack_texts(["a" * 20_000])
    before = dict(stored._KEPT)
    assert unpack_texts(long.codec, long.data) == ["a" * 20_000]
    assert before == stored._KEPT
    forget_unpacked()
    assert stored._KEPT == {}
