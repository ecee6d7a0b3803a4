"""Answers written straight from the domain's values, in one pass: the same JSON as `kind.of(value).model_dump_json()`.

Made into models first, the values of one context are looked at four times, and take six times as long: each is checked to
be what it is known to be, and those from which the text is put together are made anew.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from operator import attrgetter, methodcaller
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, Union, get_args, get_origin

import orjson
from pydantic_core import to_json

from memory_agent.wire.base import Answer, Instant, PublicText, UserId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic.fields import FieldInfo

    Write = Callable[[Any], Any]

Value = TypeVar("Value")

_TOLD_OTHERWISE: Final[tuple[Any, ...]] = (UserId, PublicText, Instant)
_CHANGED: Final = tuple(validator for hint in _TOLD_OTHERWISE for validator in get_args(hint)[1:])
"""What makes of a value what may be told of it; all other values are told as they are."""
_COMPUTED: Final[Mapping[str, Any]] = {"messages": methodcaller("to_messages")}
"""How the domain calls what a model computes, where its name is another."""


def json_of(kind: type[Answer[Value]], value: Value) -> bytes:
    """An answer of that kind as JSON."""
    return _dumped(_plain(kind, value))


def json_of_many(kind: type[Answer[Value]], values: Iterable[Value], **besides: Any) -> bytes:
    """A list of such answers; `besides`: the other members of what holds it."""
    return _dumped({"items": [_plain(kind, value) for value in values], **besides})


def _dumped(plain: Any) -> bytes:
    try:
        return orjson.dumps(plain, default=_basic, option=orjson.OPT_UTC_Z)
    except orjson.JSONEncodeError:  # a fact may be an integer of more than 64 bits, which takes twice as long
        return to_json(plain, fallback=_basic, inf_nan_mode="null")


def _basic(value: object) -> object:
    """Values that are as good as those of the basic types."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, float):  # numpy's
        return float(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _plain(kind: type[Answer[Any]], value: Any) -> Any:
    write = _of_kind(kind)
    return value if write is None else write(value)


@functools.cache
def _of_kind(kind: type[Answer[Any]]) -> Write | None:
    """What makes a value into members of such an answer; None if it can be written as it is."""
    names = tuple(kind.model_fields)
    writes = {name: write for name in names if (write := _of_field(kind.model_fields[name])) is not None}
    computed = {name: _COMPUTED.get(name, attrgetter(name)) for name in kind.model_computed_fields}
    if (
        not writes
        and not computed
        and {field.name for field in dataclasses.fields(kind.value_type)} == {*names}
    ):
        return None
    read = attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)

    def write_all(value: Any) -> dict[str, Any]:
        plain = dict(zip(names, read(value), strict=True))
        for name, write in writes.items():
            plain[name] = write(plain[name])
        for name, compute in computed.items():
            plain[name] = compute(value)
        return plain

    return write_all


def _of_field(field: FieldInfo) -> Write | None:
    return _changing(field.metadata) or _of_type(field.annotation)


def _changing(metadata: Iterable[Any]) -> Write | None:
    return next((each.func for each in metadata if each in _CHANGED), None)


def _of_type(hint: Any) -> Write | None:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _changing(arguments[1:]) or _of_type(arguments[0])
    if isinstance(hint, type) and issubclass(hint, Answer):
        return _of_kind(hint)
    inner = [write for argument in arguments if (write := _of_type(argument)) is not None]
    if not inner:
        return None
    [write] = inner  # no field has two kinds of values that are told otherwise than they are
    if origin is tuple:
        return lambda values: [write(value) for value in values]
    if origin in (Union, UnionType):
        return lambda value: None if value is None else write(value)
    if origin is dict:
        return lambda values: {key: write(value) for key, value in values.items()}
    raise TypeError(f"no answer has values of type {hint!r} yet; say here how one is written")
