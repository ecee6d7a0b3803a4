"""JSON values as MongoDB keeps them, so that ordinary queries find them: `{"facts.name": "Ada"}`. Pure.

Keys and numbers that MongoDB can't hold, or reads as something else, are written otherwise, and read back as they were:

    a.b     a%2Eb     a dot parts the names of a path
    $set    %24set    a dollar sign in front is an operator's
    50%     50%25     "%" begins what is written otherwise
    ""      %         no path could name it
    2**64   {"%int": "18446744073709551616"}, for BSON's integers have 64 bits
"""

from __future__ import annotations

import re
from typing import Any, Final

_SPECIAL: Final = re.compile(r"[%.\0]|\A\$")
_WRITTEN: Final = re.compile("%([0-9A-F]{2})")
_EMPTY: Final = "%"
_LARGE: Final = "%int"
"""No key is written like this, for "%" is always followed by two hexadecimal digits or the end."""


def to_bson(value: Any) -> Any:
    """A JSON value as BSON can hold it: text, numbers, booleans, None, and lists and dicts of those."""
    if isinstance(value, dict):
        return {_written(key): to_bson(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_bson(inner) for inner in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return {_LARGE: str(value)}
    return value


def from_bson(value: Any) -> Any:
    """The inverse of `to_bson`, keys in their order; PyMongo's 64-bit integers become plain ones."""
    if isinstance(value, dict):
        if _LARGE in value:
            return int(value[_LARGE])
        return {_read(key): from_bson(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [from_bson(inner) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return value


def _written(key: str) -> str:
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", key) or _EMPTY


def _read(key: str) -> str:
    return "" if key == _EMPTY else _WRITTEN.sub(lambda found: chr(int(found[1], 16)), key)
