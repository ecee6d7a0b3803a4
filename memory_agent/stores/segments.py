"""Texts of turns packed together: the binary form of a segment, the same in every store.

A segment names its codec by a number, so that others can follow and old segments stay readable. Before the codec,
texts are joined with their lengths in front: lengths as unsigned LEB128 (https://dwarfstd.org, section 7.6), how
many texts first, then the UTF-8 bytes of all.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import brotli

from memory_agent.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

STORED: Final = 0
GZIP: Final = 1
BROTLI: Final = 2
"""Codec numbers. Never renumber: segments on disk hold them."""

SEGMENT_BYTES: Final = 4_000_000
"""Text of one segment at most, unless a single turn has more: far below what a MongoDB document may be (16 MB)."""

UNPACKED_BYTES: Final = 4 * SEGMENT_BYTES
"""What bytes of a store may unpack to: a few of a damaged or foreign blob could otherwise fill the memory."""

_THOROUGH_BYTES: Final = 200_000
_THOROUGH: Final = 10
_QUICK: Final = 5
"""Brotli's quality, 10 packs about 2 MB a second (11 half of that, to save 3 %) and 5 about 50; what is long repeats itself, and packs well anyhow."""

_KEPT: Final[dict[tuple[int, bytes], tuple[str, ...]]] = {}
"""Texts as they were unpacked last: each prompt reads a hundred segments for one or two texts each, and the next one half of them again."""
_MOST_KEPT: Final = 1_000
_MOST_KEPT_CHARS: Final = 16_000
"""Of a segment. Those of a chat have some 2,000, so that all take a few megabytes."""

_LENGTH_BITS: Final = 7
_MORE: Final = 1 << _LENGTH_BITS


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """A segment's bytes with the number of their codec. `raw_bytes`: UTF-8 bytes of the texts."""

    codec: int
    data: bytes
    raw_bytes: int


def pack_texts(texts: Sequence[str], *, codec: int = BROTLI) -> Packed:
    """`texts` in their order; stored as they are where the codec would make them larger, or unpacking refuse them."""
    encoded = [text.encode() for text in texts]
    joined = _joined(encoded)
    data = _COMPRESS[codec](joined)
    if len(data) >= len(joined) or len(joined) > UNPACKED_BYTES:
        codec, data = STORED, joined
    return Packed(codec=codec, data=data, raw_bytes=sum(map(len, encoded)))


def unpack_texts(codec: int, data: bytes) -> list[str]:
    """The inverse of `pack_texts`. Raises StoreError for bytes that are none of its doing, before they fill the memory."""
    if codec not in _DECOMPRESS:
        raise StoreError(
            f"a segment is packed by codec {codec}, and this version knows {', '.join(map(str, _DECOMPRESS))};"
            " upgrade memory_agent"
        )
    packed = codec, bytes(data)
    if packed not in _KEPT:
        try:
            texts = _split(_DECOMPRESS[codec](packed[1]))
        except (brotli.error, zlib.error, ValueError, IndexError) as exc:
            raise StoreError(f"a segment of codec {codec} is damaged: {exc}") from exc
        if sum(map(len, texts)) > _MOST_KEPT_CHARS:
            return texts
        if len(_KEPT) >= _MOST_KEPT:
            _KEPT.clear()
        _KEPT[packed] = tuple(texts)
    return list(_KEPT[packed])


def forget_unpacked() -> None:
    """Forget the texts that were unpacked last: something was forgotten."""
    _KEPT.clear()


def segments_of(sizes: Iterable[int], *, most_bytes: int = SEGMENT_BYTES) -> Iterator[slice]:
    """Slices of texts that share a segment, by their sizes in bytes: in order, each text once."""
    start = total = count = 0
    for size in sizes:
        if count > start and total + size > most_bytes:
            yield slice(start, count)
            start, total = count, 0
        count, total = count + 1, total + size
    if count > start:
        yield slice(start, count)


def _joined(texts: Sequence[bytes]) -> bytes:
    return b"".join([_length(len(texts)), *(_length(len(text)) for text in texts), *texts])


def _split(joined: bytes) -> list[str]:
    count, at = _read_length(joined, 0)
    lengths = []
    for _ in range(count):
        length = joined[at]
        if length < _MORE:  # most are short, and every prompt reads a thousand
            at += 1
        else:
            length, at = _read_length(joined, at)
        lengths.append(length)
    if at + sum(lengths) != len(joined):
        raise ValueError(f"{len(joined):,} bytes where {at + sum(lengths):,} are announced")
    texts = []
    for length in lengths:
        texts.append(joined[at : at + length].decode())
        at += length
    return texts


def _length(value: int) -> bytes:
    out = bytearray()
    while value >= _MORE:
        out.append(value % _MORE | _MORE)
        value >>= _LENGTH_BITS
    out.append(value)
    return bytes(out)


def _read_length(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte % _MORE) << shift
        at, shift = at + 1, shift + _LENGTH_BITS
        if byte < _MORE:
            return value, at


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)  # 16: with gzip's header
    return packer.compress(data) + packer.flush()


def _brotli(data: bytes) -> bytes:
    quality = _THOROUGH if len(data) <= _THOROUGH_BYTES else _QUICK
    packed: bytes = brotli.compress(data, mode=brotli.MODE_TEXT, quality=quality)
    return packed


def unbrotli(data: bytes) -> bytes:
    """Unpack what brotli packed. Raises brotli.error, or ValueError for a stream that is cut off or larger than UNPACKED_BYTES."""
    unpacker = brotli.Decompressor()
    # It stops near the limit: the whole of a larger stream is never in memory.
    unpacked: bytes = unpacker.process(data, output_buffer_limit=UNPACKED_BYTES)
    return _whole(unpacked, ended=unpacker.is_finished())


def _gunzip(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    unpacked = unpacker.decompress(data, UNPACKED_BYTES + 1)
    return _whole(unpacked, ended=unpacker.eof)


def _whole(unpacked: bytes, *, ended: bool) -> bytes:
    if len(unpacked) > UNPACKED_BYTES:
        raise ValueError(f"it unpacks to more than {UNPACKED_BYTES:,} bytes, the most that is unpacked")
    if not ended:
        raise ValueError(f"it is cut off after {len(unpacked):,} bytes")
    return unpacked


_COMPRESS: Final[Mapping[int, Callable[[bytes], bytes]]] = {
    STORED: lambda data: data,
    GZIP: _gzip,
    BROTLI: _brotli,
}
_DECOMPRESS: Final[Mapping[int, Callable[[bytes], bytes]]] = {
    STORED: lambda data: data,
    GZIP: _gunzip,
    BROTLI: unbrotli,
}
