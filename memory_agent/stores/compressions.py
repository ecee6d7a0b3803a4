"""The stored form of compressions that MongoDB and SQLite share."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memory_agent.domain import Compression, EmotionSpan, KeyMoment, Noted, SummaryItem, TopicRanges
from memory_agent.stores.codec import dump_json
from memory_agent.stores.fields import LIST, PLAIN, TIME, Fields

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPRESSION: Final = Fields(
    {
        **dict.fromkeys(("user_id", "thread_id", "id"), PLAIN),
        "at": TIME,
        "session_id": PLAIN.or_absent(),
        **dict.fromkeys(("number", "reason", "after_seq", "through", "turns"), PLAIN),
        **dict.fromkeys(("tokens_before", "tokens_after", "made_by", "derived"), PLAIN),
        "covers": LIST,
    }
)
_PARTS: Final[dict[str, type[Any]]] = {
    "summary": SummaryItem,
    "moments": KeyMoment,
    "course": EmotionSpan,
    "decisions": Noted,
    "traits": Noted,
    "relationship": Noted,
    "topics": TopicRanges,
}
_NAMES: Final = {kind: tuple(field.name for field in fields(kind)) for kind in set(_PARTS.values())}

_T = TypeVar("_T")


def pack_derived(compression: Compression) -> str:
    """The values derived from a compression's turns as JSON text, without empty ones.

    As text, for it may hold what a store's own documents may not. Each part is the list of its fields, in their
    order: one that is added to a part must come last and have a default.
    """
    packed: dict[str, Any] = {
        name: [[getattr(part, field) for field in _NAMES[kind]] for part in parts]
        for name, kind in _PARTS.items()
        if (parts := getattr(compression, name))
    }
    if compression.preserved:
        packed["preserved"] = compression.preserved
    return dump_json(packed)


def unpack_derived(text: str) -> dict[str, Any]:
    """The inverse of `pack_derived`: fields of a Compression."""
    packed = json.loads(text)
    derived: dict[str, Any] = {
        name: tuple(_part(kind, values) for values in packed.get(name, ())) for name, kind in _PARTS.items()
    }
    return {**derived, "preserved": tuple(packed.get("preserved", ()))}


def compression_of(values: dict[str, Any]) -> Compression:
    """The compression of the fields of COMPRESSION."""
    return Compression(**unpack_derived(values.pop("derived")), **values)


def _part(kind: type[_T], values: Sequence[Any]) -> _T:
    return kind(**dict(zip(_NAMES[kind], map(_frozen, values), strict=False)))


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
