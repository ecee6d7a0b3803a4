"""Remains in files of texts that should be gone: a look at every byte."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_READ_AT_ONCE: Final = 16_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Remains:
    """A file that still holds a text, so many `times`. `file`: relative to the folder."""

    file: str
    text: str
    times: int


def remains_in(folder: Path, texts: Iterable[str]) -> list[Remains]:
    """Look for the texts as UTF-8 in all files under the folder, and for ids also in the 16 bytes that they are stored in."""
    wanted = [(text, form) for text in texts if text for form in _forms(text)]
    found: list[Remains] = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()) if wanted else ():
        times = _times(file, [form for _, form in wanted])
        found += [
            Remains(file=str(file.relative_to(folder)), text=text, times=count)
            for (text, _), count in zip(wanted, times, strict=True)
            if count
        ]
    return found


def _forms(text: str) -> list[bytes]:
    try:
        return [text.encode(), uuid.UUID(text).bytes]
    except ValueError:
        return [text.encode()]


def _times(file: Path, wanted: Sequence[bytes]) -> list[int]:
    """How often each is in the file, read in pieces that overlap by less than a whole one."""
    times = [0] * len(wanted)
    overlap = max(map(len, wanted)) - 1
    kept = b""
    with file.open("rb") as read:
        while piece := read.read(_READ_AT_ONCE):
            both = kept + piece
            for place, one in enumerate(wanted):
                times[place] += both.count(one) - kept.count(one)
            kept = both[-overlap:] if overlap else b""
    return times
