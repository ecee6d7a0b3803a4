"""Files to import: single ones, folders, ZIPs and the shards in them, each read as a stream of JSON values.

An array gives its elements, anything else the values that stand one after another, as JSON Lines do. So an export of any
size takes the memory of its largest conversation.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import hashlib
import itertools
import json
import re
import zipfile
import zlib
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, Final

from memory_agent.checks import MAX_CONTENT_CHARS, has_visible
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from memory_agent.domain import Role

# --- conversations as readers give them, and what texts and times become -------------------------------------
_MILLISECONDS_FROM: Final = 1e11
"""Seconds since 1970 reach it in the year 5138, milliseconds did in 1973."""
_MARK: Final = re.compile(r"([^\S\n]*)(?:\ue200([^\ue201]*)\ue201|【\d+[^】]*†[^】]*】)")
"""What ChatGPT shows as buttons and links: sources, and names of things; its kind and its parts stand between \ue202."""
_OTHER_MARKS: Final = re.compile(r"[\ue200-\ue20f]")
_REFERENCE: Final = re.compile(r"(?:\s*,?\s*(?:turn\d+\w+|L\d+(?:-L?\d+)?|\w+://\S+|\d+))+\s*")
"""To a result of a search, to lines, or to a page: what the app makes a button of."""
_SHOWN_OF_A_PROBLEM: Final = 200
_UNREADABLE: Final = "messages that could not be read"
WRONG: Final = (InvalidInput, LookupError, TypeError, AttributeError, ValueError, RecursionError)
"""Somebody else's file may be wrong in any place and way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedMessage:
    """A message of a conversation. `id` is its source's, or one that stays the same in a later export."""

    id: str
    role: Role
    content: str
    timestamp: datetime | None


@dataclass(kw_only=True, slots=True)
class Conversation:
    """A conversation as it was last shown. `left_out`: how many of its messages were not taken, by reason."""

    source: str
    id: str
    title: str | None = None
    started: datetime | None = None
    """Its own time, which messages without one get."""
    kind: str = "conversation"
    """Or "saved memories": sentences about the user, which stand in no conversation."""
    messages: list[ImportedMessage] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def take(self, read: Callable[[], object]) -> None:
        """Take a message by `read`: one that is wrong in some way leaves itself out, and none of the others."""
        try:
            read()
        except WRONG as exc:
            said = str(exc) if isinstance(exc, InvalidInput) else f"{type(exc).__name__}: {exc}"
            self.left_out[f"{_UNREADABLE} ({said.removeprefix('messages[0] ').partition(';')[0]:.80})"] += 1

    @property
    def problems(self) -> str:
        """Why nothing of it could be read; "" if something could, or there was nothing to read."""
        told = [why for why in self.left_out if why.startswith(_UNREADABLE)]
        return "" if self.messages else "; ".join(told)[:_SHOWN_OF_A_PROBLEM]

    def add(self, message_id: str, role: Role, content: str, time: object = None) -> None:
        """Take a message, or count it as left out if there is nothing to see in it, or too much to store."""
        text = clean(content)
        if not has_visible(text):
            self.left_out["empty"] += 1
        elif len(text) > MAX_CONTENT_CHARS:
            self.left_out[f"longer than {MAX_CONTENT_CHARS:,} characters"] += 1
        else:
            said_at = time_of(time) or self.started
            self.messages.append(ImportedMessage(id=message_id, role=role, content=text, timestamp=said_at))


@dataclass(frozen=True, kw_only=True, slots=True)
class Unreadable:
    """A file or a conversation that could not be read: where it stands, and why."""

    where: str
    reason: str


def clean(text: str) -> str:
    """The text without marks of sources and with � for halves of characters, which no store can keep."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _OTHER_MARKS.sub("", _MARK.sub(_words_of_mark, whole)).strip()


def _words_of_mark(mark: re.Match[str]) -> str:
    """What a mark of ChatGPT's shows as text, behind the blank before it; nothing of one that is a button."""
    kind, *parts = (mark[2] or "").split("\ue202")
    shown = "" if kind.endswith("cite") else next(filter(None, map(_words_in, parts)), "")
    return f"{mark[1]}{shown}" if shown else ""


def _words_in(part: Any) -> str:
    """The words of a part, such as `["city", "Split", 0]`: what it calls by that kind, and no references."""
    if isinstance(part, str):
        with contextlib.suppress(ValueError, RecursionError):
            return _words_in(json.loads(part)) if part.startswith(("[", "{", '"')) else _own_words(part)
        return _own_words(part)
    if isinstance(part, dict):
        return text_in(part, "name", "title", "text") or _words_in(part.get("selections"))
    if not isinstance(part, list):
        return ""
    if part and all(isinstance(each, list | dict) for each in part):
        return ", ".join(filter(None, map(_words_in, part)))
    words = [each for each in part if isinstance(each, str) and _own_words(each)]
    return words[min(1, len(words) - 1)] if words else ""


def _own_words(text: str) -> str:
    return "" if _REFERENCE.fullmatch(text) else text


def time_of(value: object) -> datetime | None:
    """A time in seconds or milliseconds since 1970, or in ISO 8601; None for anything else, and for 0.

    One of ISO 8601 stays on its own clock; without a zone it is of UTC.
    """
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value)
            time.astimezone(UTC)  # which a time at the border of the calendar may not have
            return time if time.tzinfo else time.replace(tzinfo=UTC)
        if isinstance(value, int | float) and value > 0:
            seconds = value / 1000 if value >= _MILLISECONDS_FROM else value
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def digest(*texts: str) -> str:
    """A short name for texts, to know them again by."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "replace")).hexdigest()[:24]


def text_in(given: dict[str, Any], *names: str) -> str | None:
    """The first of these fields that is a text with something in it."""
    return next((found for name in names if isinstance(found := given.get(name), str) and found), None)


def each(
    items: Iterable[tuple[str, Any]], read: Callable[[Any], Conversation | None]
) -> Iterator[Conversation | Unreadable]:
    """Read items one by one (`read` gives None for one that is to be passed over); one that is wrong stops none of the others."""
    for where, item in items:
        try:
            found = read(item)
        except WRONG as exc:
            said = str(exc) if isinstance(exc, InvalidInput) else f"{type(exc).__name__}: {exc}"
            yield Unreadable(where=where, reason=said[:_SHOWN_OF_A_PROBLEM])
        else:
            if found is not None:
                yield Unreadable(where=where, reason=found.problems) if found.problems else found


# --- files ---------------------------------------------------------------------------------------------------
_SUFFIXES: Final = (".json", ".jsonl")
_CHUNK_BYTES: Final = 1 << 18
MOST_CHARS: Final = 100_000_000
"""Longest value that is read: several times the longest conversations that have been seen."""
MOST_RATIO: Final = 200
"""Text packs to a fifth or a tenth. What unpacks to more than this is no export, but made to fill a machine."""
_RATIO_FROM_BYTES: Final = 50_000_000
_GZIP: Final = b"\x1f\x8b"
_TOLERANCE_CHARS: Final = 16
"""A value that is cut off is an error no further from the end than the longest escape."""
_DECODER: Final = json.JSONDecoder()


class OpenZip:
    """The ZIP that was read last, kept open: opening it reads its directory of all members."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._packed: zipfile.ZipFile | None = None

    def at(self, path: Path) -> zipfile.ZipFile:
        """The ZIP of that path."""
        if self._packed is None or self._path != path:
            self.close()
            self._path, self._packed = path, zipfile.ZipFile(path)
        return self._packed

    def close(self) -> None:
        """Close it. Idempotent."""
        if self._packed is not None:
            self._packed.close()
            self._packed = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportFile:
    """A file to read. `member`: its name in the ZIP `path`, which is read by `zips`.

    `named`: the caller named it, or its ZIP or folder holds it alone.
    """

    path: Path
    member: str | None = None
    zips: OpenZip = field(default_factory=OpenZip, repr=False, compare=False)
    named: bool = True

    def __str__(self) -> str:
        return str(self.path) if self.member is None else f"{self.path}: {self.member}"

    @contextmanager
    def values(self) -> Iterator[Iterator[Any]]:
        """The values in it; one that is broken comes as Unreadable where others can follow, else InvalidInput is raised."""
        try:
            with self._opened() as stream:
                yield _values(_Text(stream), str(self))
        except UnicodeDecodeError as exc:
            raise InvalidInput(f"is not UTF-8 text ({exc.reason}); export it again") from exc
        except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as exc:
            raise InvalidInput(f"is damaged or cut off ({exc}); download it again") from exc
        except (NotImplementedError, RuntimeError) as exc:  # of zipfile: a way of packing, or a password
            raise InvalidInput(f"cannot be unpacked ({exc}); unpack it yourself and name the folder") from exc
        except OSError as exc:
            raise InvalidInput(f"cannot be read: {exc}") from exc

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        if self.member is not None:
            packed = self.zips.at(self.path)
            with packed.open(self.member) as stream:
                info = packed.getinfo(self.member)
                if info.file_size > max(_RATIO_FROM_BYTES, MOST_RATIO * info.compress_size):
                    raise InvalidInput(
                        f"unpacks to {info.file_size / 1e6:,.0f} MB, more than {MOST_RATIO} times its size; if it is an"
                        " export nonetheless, unpack it yourself and name the folder"
                    )
                yield stream
            return
        with self.path.open("rb") as raw:
            is_packed = raw.read(2) == _GZIP
            raw.seek(0)
            yield gzip.GzipFile(fileobj=raw) if is_packed else raw  # type: ignore[misc]  # a stream of bytes


def files_of(paths: Sequence[Path], zips: OpenZip | None = None) -> Iterator[ImportFile | Unreadable]:
    """The JSON files of these files, folders and ZIPs, in the order of their names.

    `zips`: what ZIPs are read by. Raises InvalidInput for a path that isn't there.
    """
    zips = zips or OpenZip()
    for path in paths:
        if not path.exists():
            raise InvalidInput(f"{path} is not there; name an export: a ZIP, a folder or a JSON file")
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        for one in inside:
            if not one.is_file():
                continue
            if zipfile.is_zipfile(one) or one.suffix.casefold() == ".zip":
                yield from _members(one, zips)
            elif one == path or one.suffix.casefold() in _SUFFIXES:
                yield ImportFile(path=one, named=one == path)


def _members(path: Path, zips: OpenZip) -> Iterator[ImportFile | Unreadable]:
    try:
        names = sorted(name for name in zips.at(path).namelist() if name.casefold().endswith(_SUFFIXES))
    except (zipfile.BadZipFile, OSError) as exc:
        yield Unreadable(where=str(path), reason=f"is a damaged or cut off ZIP ({exc}); download it again")
        return
    if not names:
        yield Unreadable(where=str(path), reason="is a ZIP without a JSON file; name the export's own ZIP")
    for name in names:
        yield ImportFile(path=path, member=name, zips=zips, named=len(names) == 1)


class _Text:
    """A window on a stream's text that moves on value by value."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._before = "", 0, 0
        self._ended = False

    @property
    def place(self) -> int:
        """Characters that lie behind."""
        return self._before + self._at

    def _more(self) -> None:
        left = len(self._text) - self._at
        if left > MOST_CHARS:
            raise InvalidInput(
                f"has a value of more than {MOST_CHARS:,} characters at character {self.place:,}; no conversation is that long"
            )
        # As much again as there is: a long value is tried a few times, not at each chunk.
        read = self._stream.read(max(_CHUNK_BYTES, left))
        self._ended = not read
        self._before += self._at
        self._text, self._at = self._text[self._at :] + self._decoder.decode(read, final=self._ended), 0

    def peek(self, passed: str = "") -> str:
        """The next character that is neither blank nor one of `passed`, not taken yet; "" at the end."""
        while True:
            while self._at < len(self._text) and (c := self._text[self._at]) in f" \t\r\n{passed}":
                self._at += 1
                passed = passed.replace(c, "")
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._more()

    def take(self) -> Any:
        """The value that begins here. Raises ValueError if it is none."""
        while True:
            try:
                value, self._at = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as exc:
                end = len(self._text) - (0 if self._ended else _TOLERANCE_CHARS)
                is_cut = exc.pos >= end or exc.msg.startswith("Unterminated")
                if self._ended or not is_cut:
                    where = f"character {self._before + exc.pos + 1:,}"
                    raise ValueError(
                        f"{'ends in the middle of a value' if is_cut else exc.msg} at {where}"
                    ) from exc
                self._more()
            except RecursionError as exc:
                raise ValueError(f"is nested too deeply at character {self.place + 1:,}") from exc
            else:
                return value

    def skip_line(self) -> None:
        """Go to the next line."""
        while (end := self._text.find("\n", self._at)) < 0 and not self._ended:
            self._at = len(self._text)
            self._more()
        self._at = end + 1 if end >= 0 else len(self._text)


def _values(text: _Text, name: str) -> Iterator[Any]:
    if text.peek() == "[":
        yield from _elements(text)
        return
    while text.peek():
        try:
            value = text.take()
        except UnicodeDecodeError:
            raise
        except ValueError as exc:
            yield Unreadable(where=name, reason=f"is not JSON: {exc}")
            text.skip_line()
        else:
            yield value


def _elements(text: _Text) -> Iterator[Any]:
    text.peek("[")
    for number in itertools.count():
        following = text.peek("," if number else "")
        if following == "]":
            return
        if not following:
            raise ValueError(f"ends in the middle of its list, after {number:,} of its elements")
        yield text.take()
