"""Checks of what comes in: text, ids, times and metadata that every store keeps unchanged; an error says why not."""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

MAX_RETENTION_DAYS: Final = 36_500
MAX_ID_CHARS: Final = 512
MAX_CONTENT_CHARS: Final = 1_000_000
MAX_ASKED_CHARS: Final = 8_000
"""Of a question that are read."""
MAX_TAG_CHARS: Final = 64
MAX_METADATA_DEPTH: Final = 16
MAX_METADATA_CHARS: Final = 100_000
MAX_TURN_IDS: Final = 10_000


def checked_text(name: str, value: object, *, max_chars: int, allow_empty: bool = False) -> str:
    """`value` if every store can keep it as text, unchanged.

    Raises InvalidInput naming `name` for other types, empty or blank text, too long text, or lone surrogates
    (which no store can encode as UTF-8).
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be text, not {type(value).__name__} ({value!r:.80})")
    if not allow_empty and not has_visible(value):
        raise InvalidInput(f"{name} is empty ({value!r:.80}); pass at least one visible character")
    if len(value) > max_chars:
        raise InvalidInput(
            f"{name} has {len(value):,} characters; at most {max_chars:,} are stored. Split it."
        )
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InvalidInput(
            f"{name} has a lone surrogate at character {exc.start} ({value[exc.start]!r}); "
            "decode the text properly (or replace such characters) before passing it"
        ) from exc
    return value


def as_asked(question: str) -> str:
    """What is read of a question: all of it, or of one beyond `MAX_ASKED_CHARS` its beginning and its end.

    Whoever pastes a document asks before it or after it.
    """
    if len(question) <= MAX_ASKED_CHARS:
        return question
    return f"{question[: MAX_ASKED_CHARS * 3 // 4]}\n{question[-MAX_ASKED_CHARS // 4 :]}"


def has_visible(text: str) -> bool:
    """True if there is anything to see in `text`: more than blanks, control characters and marks of format."""
    # A visible character is among the first, or else one look at each different one will do: a million blanks take long.
    return any(map(_visible, text[:80])) or any(map(_visible, set(text)))


def _visible(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cf", "Zl", "Zp", "Zs")


def at_home(path: str | Path) -> Path:
    """`path` with a leading `~` as the home folder, which a shell does only for what is typed there."""
    try:
        return Path(path).expanduser()
    except RuntimeError:  # no such user: a file's name may begin with it
        return Path(path)


def checked_id(name: str, value: object) -> str:
    """`value` if it can name a user, a thread or a call: visible text of at most 512 characters.

    An id is compared code point by code point: never trimmed, folded or read as a pattern. Raises InvalidInput
    for empty, blank or overlong ids and for control characters.
    """
    text = checked_text(name, value, max_chars=MAX_ID_CHARS)
    for position, char in enumerate(text if not text.isprintable() else ""):
        if unicodedata.category(char) == "Cc":
            raise InvalidInput(f"{name} has the control character {char!r} at position {position}; remove it")
    return text


def checked_tag(tag: object) -> str:
    """`tag` as a topic keeps it: without blanks around it, else as it is. Raises InvalidInput."""
    return checked_text("tag", tag, max_chars=MAX_TAG_CHARS).strip()


def checked_time(name: str, value: object) -> datetime:
    """`value` in UTC, cut to milliseconds; naive datetimes are refused, for they mean different instants."""
    if not isinstance(value, datetime):
        raise InvalidInput(f"{name} must be a datetime, not {type(value).__name__} ({value!r:.80})")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(
            f"{name} {value.isoformat()} has no time zone; pass e.g. datetime.now(timezone.utc)"
        )
    try:
        utc = value.astimezone(UTC)
    except OverflowError as exc:
        raise InvalidInput(f"{name} {value.isoformat()} is outside the years 1 to 9999 in UTC") from exc
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def time_and_offset(name: str, value: object, zone: tzinfo | None) -> tuple[datetime, int | None]:
    """`value` as `checked_time` gives it, and by how many minutes its clock is ahead of UTC.

    `zone`: of a time without one, and of who writes UTC, which tells nothing of where they are.
    """
    if zone is not None and isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=zone)
    utc = checked_time(name, value)
    return utc, _offset(value) or offset_at(utc, zone)


def offset_at(time: datetime, zone: tzinfo | None) -> int | None:
    """By how many minutes the clocks of `zone` are ahead of UTC at `time`; None if there is no telling."""
    try:
        return None if zone is None else _offset(time.astimezone(zone))
    except OverflowError:
        return None


def at_offset(time: datetime, minutes: int | None) -> datetime:
    """`time` by a clock that is so many minutes ahead of UTC; as it is if there is no telling."""
    return time.astimezone(timezone(timedelta(minutes=minutes))) if minutes else time


def _offset(time: object) -> int:
    offset = time.utcoffset() if isinstance(time, datetime) else None
    return round((offset or timedelta()).total_seconds() / 60)


def is_whole(value: object, least: int, most: float = math.inf) -> TypeGuard[int]:
    """True if `value` is a whole number in these bounds; True and False are none, though Python takes them for some.

    >>> is_whole(3, 1), is_whole(True, 1), is_whole(3.0, 1), is_whole(0, 1)
    (True, False, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_number(value: object, least: float = -math.inf, most: float = math.inf) -> TypeGuard[float]:
    """True if `value` is a number in these bounds, which nan is not; True and False are none either.

    >>> is_number(0.5, 0, 1), is_number(1, 0, 1), is_number(float("nan")), is_number(False)
    (True, True, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def checked_timeout(value: object) -> float | None:
    """`value` if it is a number of seconds, or None for ever.

    Raises InvalidInput for anything else, nan too.
    """
    if value is None:
        return None
    if not is_number(value):
        raise InvalidInput(f"timeout is {value!r:.80}; pass seconds, or None to wait without end")
    return value


def checked_retention(value: object) -> float:
    """`value` if it is a number of days above 0, a hundred years at most. Raises InvalidInput."""
    if not is_number(value, 0, MAX_RETENTION_DAYS) or not value:
        most = f"{MAX_RETENTION_DAYS:,}"
        raise InvalidInput(
            f"retention_days is {value!r:.80}; pass days above 0, at most {most}, or None for the setting"
        )
    return value


def checked_metadata(value: object) -> Mapping[str, Any]:
    """`value` as a plain JSON-like mapping that both stores give back equal.

    Allowed: text, finite numbers (integers of 64 bits), booleans, null, lists and mappings of those, nested at
    most 16 deep and 100,000 characters in all. Keys are text without NUL and don't start with `$`, which
    MongoDB reserves. Raises InvalidInput naming the offending key.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"metadata must be a dict, not {type(value).__name__} ({value!r:.80})")
    copied: dict[str, Any] = _checked_json("metadata", value, _Room(), depth=0)
    if len(repr(copied)) > MAX_METADATA_CHARS:
        raise _too_much_metadata()
    return copied


def _too_much_metadata() -> InvalidInput:
    return InvalidInput(
        f"metadata is larger than {MAX_METADATA_CHARS:,} characters; keep large values elsewhere"
    )


class _Room:
    """Characters left, each value taking at least one, so that millions of values need not all be looked at."""

    def __init__(self) -> None:
        self._left = MAX_METADATA_CHARS

    def take(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise _too_much_metadata()


def _checked_json(path: str, value: object, room: _Room, *, depth: int) -> Any:
    if depth > MAX_METADATA_DEPTH:
        raise InvalidInput(f"{path} is nested more than {MAX_METADATA_DEPTH} deep; flatten it")
    room.take(len(value) if isinstance(value, list | tuple | dict) else 1)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(checked_text(path, value, max_chars=MAX_METADATA_CHARS, allow_empty=True))
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise InvalidInput(f"{path} is {value}, which is not a 64-bit integer; pass it as text")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{path} is {value}; numbers must be finite")
        return float(value)
    if isinstance(value, list | tuple):
        return [_checked_json(f"{path}[{i}]", item, room, depth=depth + 1) for i, item in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or not key or key.startswith("$") or "\0" in key:
                raise InvalidInput(
                    f"{path} has the key {key!r:.80}; keys are non-empty text, not starting with '$'"
                )
            checked_text(f"a key of {path}", key, max_chars=MAX_ID_CHARS, allow_empty=True)
        return {
            key: _checked_json(f"{path}.{key}", item, room, depth=depth + 1) for key, item in value.items()
        }
    raise InvalidInput(
        f"{path} is a {type(value).__name__}; use text, numbers, booleans, null, lists and dicts"
    )


def checked_turn_ids(turn_ids: Sequence[str]) -> tuple[str, ...]:
    """Each once. Raises InvalidInput for what is no list of ids of turns, or of too many."""
    if turn_ids is None or isinstance(turn_ids, str) or not turn_ids:
        raise InvalidInput(
            f"turn_ids is {turn_ids!r:.80}; pass a non-empty list of turn ids (clear() forgets the whole thread)"
        )
    if len(turn_ids) > MAX_TURN_IDS:
        raise InvalidInput(f"{len(turn_ids):,} turn ids in one call; pass at most {MAX_TURN_IDS:,} at a time")
    return tuple(dict.fromkeys(checked_id("turn_ids[]", turn_id) for turn_id in turn_ids))
