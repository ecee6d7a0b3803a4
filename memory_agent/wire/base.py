"""Base of all models of the wire: values of the domain to JSON and back.

An answer is derived from the dataclass of the value that it stands for (`Answer[Turn]`): its fields under their names,
its docstrings as the API's documentation. `of(value)` reads them, nested values too, and `domain()` gives an equal value
back. Two things stay behind: the tenant, which only the service
knows of, in user ids and in error texts; and what no JSON can hold (lone surrogates in error texts).

Answers are written straight from the values. Made into models first, those of one context are looked at four times, and take six times as long: each is checked to
be what it is known to be, and those from which the text is put together are made anew.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import math
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter, methodcaller
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import quote

import orjson
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    GetJsonSchemaHandler,
    JsonValue,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails, to_json

from memory_agent import domain
from memory_agent.checks import MAX_ID_CHARS, checked_metadata
from memory_agent.domain import split_user_id
from memory_agent.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pydantic.fields import FieldInfo
    from pydantic.json_schema import JsonSchemaValue

    Write = Callable[[Any], Any]


Value = TypeVar("Value")

# The separator may stand in a message as it is, as `repr` or JSON writes it, once or twice over, or within an address.
_TENANT: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}(?:\x1f|\\+(?:x1f|u001[fF])|%(?:25)*1[fF])")


def public_text(text: str) -> str:
    r"""`text` as its tenant may read it and JSON can hold it: user ids without the tenant, lone surrogates escaped.

    >>> public_text("user 'acme\\x1fada' is unknown")
    "user 'ada' is unknown"
    """
    return _TENANT.sub("", text).encode("utf-8", "backslashreplace").decode("utf-8")


def _public(value: object) -> object:
    return public_text(value) if isinstance(value, str) else value


def _tenants_id(value: object) -> object:
    return split_user_id(value)[1] if isinstance(value, str) else value


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


UserId = Annotated[str, BeforeValidator(_tenants_id)]
"""The id that the tenant knows the user by, whatever was read."""
PublicText = Annotated[str, BeforeValidator(_public)]
"""What an error said."""
Instant = Annotated[AwareDatetime, AfterValidator(_utc)]
"""In UTC."""
JsonObject = dict[str, JsonValue]
Many = Annotated[tuple[Value, ...], FailFast()]
"""What may come in, too: only the first that is wrong is told. Millions in one body would take minutes, and gigabytes."""


class Wire(BaseModel):
    """Base of all models. Fields that an older client does not know are passed over.

    Only who asks for a schema needs the fields' docstrings: they are read from the source then, and not at every import.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        told = handler.resolve_ref_schema(schema)
        if "description" in told:
            told["description"] = _in_json_words(told["description"])
        for name, text in field_docs(cls).items():
            if name in told.get("properties", {}):
                told["properties"][name]["description"] = _in_json_words(text)
        return schema


def _in_json_words(text: str) -> str:
    return re.sub(r"\bNone\b", "null", text)


def field_docs(model: type) -> dict[str, str]:
    """The docstring of each field that has one, of a class and of those that it inherits from."""
    kinds = (*getattr(model, "value_type", object).__mro__, *model.__mro__)
    found: dict[str, str] = {}
    for kind in reversed(kinds):
        if kind.__module__.startswith(__package__.partition(".")[0]):
            found |= _docs_within(kind.__module__).get(kind.__name__, {})
    return found


@functools.cache
def _docs_within(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        node.name: {
            field.target.id: inspect.cleandoc(doc.value.value)
            for field, doc in itertools.pairwise(node.body)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if isinstance(doc, ast.Expr)
            and isinstance(doc.value, ast.Constant)
            and isinstance(doc.value.value, str)
        }
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


class Answer(Wire, Generic[Value]):
    """The JSON of a domain value. `Answer[Turn]` has the fields of the dataclass, its name and its documentation.

    Whatever says of an answer something else than its dataclass does is written out, as a class over it. A field that
    is added later needs a default, for clients that are newer than their service.
    """

    model_config = ConfigDict(from_attributes=True, json_schema_serialization_defaults_required=True)
    value_type: ClassVar[Any]

    def __class_getitem__(cls, item: Any) -> Any:
        made: Any = super().__class_getitem__(item)
        return _derived(made, item) if cls is Answer and _is_dataclass(item) else made

    @classmethod
    def of(cls, value: Value) -> Self:
        """The model of `value`, without the tenant."""
        return cls.model_validate(value)

    def domain(self) -> Value:
        """The value that this is the model of; its user is in the default tenant. Raises InvalidInput for impossible ids."""
        made: Value = self.value_type(
            **{name: _plain(getattr(self, name)) for name in type(self).model_fields}
        )
        return made


def _is_dataclass(item: Any) -> bool:
    return dataclasses.is_dataclass(item)


def _plain(value: Any) -> Any:
    if isinstance(value, Answer):
        return value.domain()
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value


_TEXTS: Final[dict[str, Any]] = {"user_id": UserId, "last_error": PublicText, "error": PublicText}
"""The fields whose text is not told as it is."""


def hints_of(kind: type[Any]) -> dict[str, Any]:
    """The types of a dataclass's fields."""
    # What dataclasses import for their annotations alone is nowhere at run time.
    names = vars(domain) | {"datetime": datetime, "Mapping": Mapping, "Sequence": Sequence}
    return get_type_hints(kind, localns=names)


@functools.cache
def _derived(base: Any, kind: type[Any]) -> Any:
    members = {
        "__doc__": kind.__doc__,
        "__module__": kind.__module__,
        "__annotations__": {
            name: _as_json(hint, _TEXTS.get(name, str)) for name, hint in hints_of(kind).items()
        },
        "value_type": kind,
    }
    return type(base)(kind.__name__, (base,), members)


def _as_json(hint: Any, text: Any) -> Any:
    """JSON type for values of a type; `text` for its texts."""
    if hint in _IN_JSON:
        return _IN_JSON[hint]
    if hint is str:
        return text
    if _is_dataclass(hint):
        return Answer.__class_getitem__(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (None, Literal):
        return hint
    if origin is tuple and arguments[-1] is Ellipsis:
        return Annotated[tuple[_as_json(arguments[0], text), ...], FailFast()]  # type: ignore[misc]  # known at run time
    inner = tuple(_as_json(each, text) for each in arguments)
    if origin in (Union, UnionType):  # whose members are hashed, which FailFast cannot be
        inner = tuple(one.__origin__ if _fails_fast(one) else one for one in inner)
    return Union[inner] if origin in (Union, UnionType) else _IN_JSON.get(origin, origin)[inner]  # noqa: UP007


def _fails_fast(hint: Any) -> bool:
    return any(isinstance(mark, FailFast) for mark in getattr(hint, "__metadata__", ()))


_IN_JSON: Final[dict[Any, Any]] = {datetime: Instant, Any: JsonValue, Mapping: dict, Sequence: list}


class Listed(Wire, Generic[Value]):
    """A list of answers. `Page[Turn]` is a class of its own, `TurnPage`, as the API's documentation names it."""

    called: ClassVar[str] = "Listed"

    items: tuple[Value, ...]

    def __class_getitem__(cls, item: Any) -> Any:
        made: Any = super().__class_getitem__(item)
        return _named(cls, made, item) if isinstance(item, type) and item is not Any else made


@functools.cache
def _named(generic: type[Listed[Any]], made: Any, item: type[Any]) -> Any:
    # The one that pydantic makes goes by "Page[Turn]", which OpenAPI can only write as "Page_Turn_".
    members = {"__doc__": generic.__doc__, "__module__": generic.__module__}
    return type(made)(item.__name__ + generic.called, (made,), members)


class Items(Listed[Value], Generic[Value]):
    """A list that comes whole."""

    called: ClassVar[str] = "List"


# --- requests ------------------------------------------------------------------------------------------------
_MAX_MEMBERS: Final = 64
_NUMBER: Final = re.compile(r"\s*[-+]?[0-9.]+(e[-+]?[0-9]+)?\s*", re.IGNORECASE)


def _written_time(value: object) -> object:
    # Pydantic reads a number as seconds (or, above a limit, milliseconds) since 1970. Nobody is to guess which.
    if not isinstance(value, str | datetime) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        raise ValueError("write the time as ISO 8601 with a zone, e.g. 2026-03-01T18:30:00+01:00")
    return value


def _metadata(value: object) -> object:
    return None if value is None else checked_metadata(value)


_MAX_DEPTH: Final = 64
_MAX_VALUES: Final = 10_000
"""Far more than a fact can hold, which is 2,000 characters an element."""


def _json(value: Any) -> Any:
    """`value`, if it is JSON; an agent has its own limits, which are far below this depth."""
    waiting = [(value, 0)]
    seen = 0
    while waiting:
        one, depth = waiting.pop()
        seen += 1 if not isinstance(one, dict | list | tuple) else 1 + len(one)
        if seen > _MAX_VALUES:
            raise ValueError(f"it holds more than {_MAX_VALUES:,} values; keep large values elsewhere")
        if depth > _MAX_DEPTH:
            raise ValueError(f"it is nested more than {_MAX_DEPTH} deep; flatten it")
        if isinstance(one, dict):
            waiting += [(inner, depth + 1) for pair in one.items() for inner in pair]
        elif isinstance(one, list | tuple):
            waiting += [(inner, depth + 1) for inner in one]
        elif isinstance(one, float) and not math.isfinite(one):
            raise ValueError(f"it holds {one}; numbers must be finite")
        elif one is not None and not isinstance(one, str | int | float):
            raise ValueError(
                f"it holds a {type(one).__name__}; use text, numbers, booleans, null, lists and objects"
            )
    return value


Time = Annotated[AwareDatetime, BeforeValidator(_written_time)]
"""ISO 8601 with a zone; numbers are refused."""
SaidAt = Annotated[datetime, BeforeValidator(_written_time)]
"""The same; whether it may come without a zone is the service's setting."""
GivenObject = Annotated[dict[str, Any], BeforeValidator(_metadata)]
"""Metadata: any JSON object that every store keeps as it is."""
GivenValue = Annotated[Any, AfterValidator(_json)]


MAX_PATH_CHARS: Final = 2_000
MAX_PATH_KEYS: Final = 64


def _path(value: object) -> object:
    if isinstance(value, str) and len(value) <= MAX_PATH_CHARS:
        return value
    keys = value if isinstance(value, list | tuple) else ()
    if 1 <= len(keys) <= MAX_PATH_KEYS and all(isinstance(key, str) for key in keys):
        return list(keys)
    raise ValueError(
        f"pass text of at most {MAX_PATH_CHARS:,} characters, such as 'preferences.meeting_time', or a list of 1 to"
        f" {MAX_PATH_KEYS} keys"
    )


def _path_schema(least: int) -> WithJsonSchema:
    text = {"type": "string", "minLength": least, "maxLength": MAX_PATH_CHARS}
    keys = {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARS},
        "minItems": 1,
        "maxItems": MAX_PATH_KEYS,
    }
    about = "Of a fact: its keys, or one text of them with dots between. Keys are normalised to snake_case."
    return WithJsonSchema({"anyOf": [text, keys], "description": about})


Path = Annotated[str | list[str], BeforeValidator(_path), _path_schema(1)]
PathOrAll = Annotated[str | list[str], BeforeValidator(_path), _path_schema(0)]


class Request(Wire):
    """The JSON body of a request. Unknown keys are refused, so that a misspelt one is not passed over in silence."""

    # FastAPI takes none that are built later without a warning.
    model_config = ConfigDict(
        extra="forbid", allow_inf_nan=False, hide_input_in_errors=True, defer_build=False
    )

    @model_validator(mode="before")
    @classmethod
    def _has_few_members(cls, value: object) -> object:
        # Each unknown one would be told of.
        if isinstance(value, dict) and len(value) > _MAX_MEMBERS:
            raise ValueError(f"it has {len(value):,} members; at most {_MAX_MEMBERS} are read")
        return value

    @classmethod
    def of(cls, **values: Any) -> Self:
        """The request with these values. Raises InvalidInput that names the first that it cannot take."""
        try:
            return cls.model_validate(values)
        except ValidationError as exc:
            errors = exc.errors(include_url=False)
            found = field_errors([{**error, "loc": ("body", *error["loc"])} for error in errors])
            raise InvalidInput(said(found)) from None


class FieldError(Wire):
    """A value that was refused, and why."""

    field: str
    """Its name; of a value inside another one the way to it, such as `turns[0].content`."""
    message: str


def said(errors: Sequence[FieldError]) -> str:
    """All of them in one text."""
    return "; ".join(
        error.message if error.message.startswith(error.field) else f"{error.field}: {error.message}"
        for error in errors
    )


def field_errors(errors: Sequence[ErrorDetails]) -> tuple[FieldError, ...]:
    """FastAPI's errors of a request, by field. Each `loc` begins with `body`, `query`, `path` or the like."""
    return tuple(FieldError(field=_field(error["loc"]), message=_message(error)) for error in errors)


def _field(place: tuple[int | str, ...]) -> str:
    if len(place) < 2 or isinstance(place[1], int):  # the position at which a body stopped being JSON
        return str(place[0]) if place else "body"
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place[1:])
    return public_text(shown[1:])


def _message(error: ErrorDetails) -> str:
    # Pydantic's own words for these two name neither the place nor what to do.
    if error["type"] == "model_attributes_type":
        return "send a JSON object, with the header Content-Type: application/json"
    if error["type"] == "json_invalid" and len(error["loc"]) > 1:
        return f"it stops being JSON at character {error['loc'][1]}: {error.get('ctx', {}).get('error', '')}"
    cause = error.get("ctx", {}).get("error")
    return public_text(str(cause) if isinstance(cause, Exception) else error["msg"])


def quoted_segment(text: str) -> str:
    """`text` as one segment of an address's path. '.' and '..' are encoded too: clients resolve them otherwise.

    >>> quoted_segment("a/b %"), quoted_segment("..")
    ('a%2Fb%20%25', '%2E%2E')
    """
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


_TOLD_OTHERWISE: Final[tuple[Any, ...]] = (UserId, PublicText, Instant)
_CHANGED: Final = tuple(validator for hint in _TOLD_OTHERWISE for validator in get_args(hint)[1:])
"""What makes of a value what may be told of it; all other values are told as they are."""
_COMPUTED: Final[Mapping[str, Any]] = {"messages": methodcaller("to_messages")}
"""How the domain calls what a model computes, where its name is another."""


def json_of(kind: type[Answer[Value]], value: Value, *, only: Collection[str] | None = None) -> bytes:
    """An answer of that kind as JSON; of its members `only` these."""
    plain = _writable(kind, value)
    return _dumped(plain if only is None else {name: of for name, of in plain.items() if name in only})


def json_of_many(kind: type[Answer[Value]], values: Iterable[Value], **besides: Any) -> bytes:
    """A list of such answers; `besides`: the other members of what holds it."""
    return _dumped({"items": [_writable(kind, value) for value in values], **besides})


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


def _writable(kind: type[Answer[Any]], value: Any) -> Any:
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
