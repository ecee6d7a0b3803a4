"""Lists, a page at a time.

A cursor says where a page ended. It is text without a meaning of its own: whoever passes it back, unchanged, gets what
follows. Inside is the place as JSON with the version of this format, so that a cursor of another version is refused
and not misread.
"""

import base64
import binascii
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, NoReturn, TypeVar

from pydantic import JsonValue

from memory_agent.checks import is_whole
from memory_agent.errors import InvalidInput
from memory_agent.wire.base import Listed, json_of_many

Item = TypeVar("Item")
Value = TypeVar("Value")
Place = TypeVar("Place")

_VERSION: Final = 1
MAX_CURSOR_CHARS: Final = 16_384
"""Room for two ids of 512 characters at their longest as JSON."""


class Page(Listed[Item], Generic[Item]):
    """A part of a list, in the list's order."""

    called: ClassVar[str] = "Page"

    next_cursor: str | None
    """What to pass as `cursor` for the page that follows; null at the end."""


def encode_cursor(position: JsonValue) -> str:
    """`position` as text for an address: 1 or more of A-Z, a-z, 0-9, '-' and '_'."""
    written = json.dumps([_VERSION, position], ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return base64.urlsafe_b64encode(written.encode("ascii")).rstrip(b"=").decode("ascii")


def decode_cursor(text: str) -> JsonValue:
    """The position that `encode_cursor` was given. Raises InvalidInput for any other text."""
    if not isinstance(text, str) or not text or len(text) > MAX_CURSOR_CHARS:
        raise _no_cursor(text)
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        read = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True), parse_constant=_refuse)
    # RecursionError: brackets within brackets without end
    except (ValueError, binascii.Error, RecursionError) as exc:
        raise _no_cursor(text) from exc
    # True equals 1 in Python, and is no version.
    if not isinstance(read, list) or len(read) != 2 or type(read[0]) is not int or read[0] != _VERSION:
        raise _no_cursor(text)
    position: JsonValue = read[1]
    return position


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _no_cursor(text: object) -> InvalidInput:
    return InvalidInput(
        f"cursor is {text!r:.80}; pass the next_cursor of the page before, unchanged, or leave it out for the first page"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Places(Generic[Value, Place]):
    """Pages of a list whose reader says behind which place the next one begins: as a value, and as a page of the wire."""

    of: str
    """What the list is of, for messages."""
    value: Callable[..., Value]
    """The dataclass of a page: its items, under the name in `items`, and the place `next`."""
    items: str
    model: Any
    """Of an item."""
    is_place: Callable[[JsonValue], bool]

    def json_of(self, value: Value) -> bytes:
        """The value as a page of the wire, in JSON."""
        return json_of_many(self.model, getattr(value, self.items), next_cursor=self.cursor(value.next))  # type: ignore[attr-defined]

    def from_page(self, page: Page[Any]) -> Value:
        """The value of a page."""
        found = tuple(item.domain() for item in page.items)
        return self.value(**{self.items: found}, next=self.after(page.next_cursor))

    def cursor(self, after: Place | None) -> str | None:
        """The cursor of the page that follows a place; None for None."""
        return None if after is None else encode_cursor(after)  # type: ignore[arg-type]  # an id or a number

    def after(self, cursor: str | None) -> Place | None:
        """The place that the cursor of such a page stands for. Raises InvalidInput for that of another list."""
        if cursor is None:
            return None
        place: Any = decode_cursor(cursor)
        if not self.is_place(place):
            raise InvalidInput(
                f"cursor is {cursor!r:.80}, which is none of a page of {self.of}; pass its next_cursor"
            )
        found: Place = place
        return found


def page_of(
    shown: Callable[[Item], Any],
    items: Sequence[Item],
    *,
    key: Callable[[Item], Any],
    cursor: str | None,
    limit: int,
) -> Page[Any]:
    """At most `limit` of `items` (the whole list, in any order), from behind the one where the page before ended.

    Each is in it as `shown` makes it.

    `key` names an item, each another one: text, a whole number, or a tuple of those. An item that is still there is
    found by its key, wherever it stands now. If it is gone, its place is where its key would be, in a list that was
    and is in the order of its keys; in any other list the page begins as many items from the start as went before,
    less the one that is gone. So nothing is passed over when that item alone is gone; of a list in an order of its own
    that lost more, or was ordered anew, a page may repeat or miss items.

    Raises InvalidInput for a cursor of another list and for a limit below 1.
    """
    if not is_whole(limit, 1):
        raise InvalidInput(f"limit is {limit!r:.80}; pass a whole number from 1 on")
    keys = [_plain(key(item)) for item in items]
    start = 0 if cursor is None else _start(keys, cursor)
    end = start + limit
    more = end < len(items)
    following = encode_cursor([keys[end - 1], end, _direction(keys)]) if more else None
    return Page[Any](items=tuple(map(shown, items[start:end])), next_cursor=following)


def _plain(key: Any) -> Any:
    """As JSON gives it back."""
    return [_plain(part) for part in key] if isinstance(key, tuple | list) else key


def _start(keys: Sequence[Any], cursor: str) -> int:
    match decode_cursor(cursor):
        case [last, int(rank), int(direction)] if rank >= 1:
            pass
        case _:
            raise _no_cursor(cursor)
    if last in keys:
        return keys.index(last) + 1
    # One key tells no direction, and fits either.
    if direction and (len(keys) < 2 or _direction(keys) == direction):
        try:
            behind = (i for i, key in enumerate(keys) if (key > last if direction > 0 else key < last))
            return next(behind, len(keys))
        except TypeError as exc:
            raise _no_cursor(cursor) from exc
    return min(rank - 1, len(keys))


def _direction(keys: Sequence[Any]) -> int:
    """1 if the keys rise, -1 if they fall, 0 if they do neither or cannot be compared."""
    try:
        if all(one < other for one, other in itertools.pairwise(keys)):
            return 1
        return -int(all(one > other for one, other in itertools.pairwise(keys)))
    except TypeError:
        return 0
