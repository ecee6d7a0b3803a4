"""Entities: a brand, an indicator, a person. Found under any alias, kept under one name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.checks import checked_text
from memory_agent.errors import InvalidInput
from memory_agent.lazily import lazily

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

MAX_NAME_CHARS: Final = 100
MAX_GIVEN_ENTITIES: Final = 100
"""How many entities a caller may give with one turn."""

_KIND: Final = lazily(re.compile, r"[a-z0-9_-]{1,32}")


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Entity:
    """Something with a name, by its canonical one. Two are equal if `kind` and `name` are, character by character.

    `kind`: 1 to 32 of a-z, 0-9, "_" and "-"; `name`: 1 to 100 characters on one line, kept in Unicode's NFC, with
    single blanks inside and none around. Raises InvalidInput for any other.
    """

    kind: str
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or not _KIND.fullmatch(self.kind):
            raise InvalidInput(
                f"the kind of an entity is {self.kind!r:.80}; it must be 1 to 32 of a-z, 0-9, '_' and '-',"
                " such as 'brands'"
            )
        object.__setattr__(self, "name", _checked_name(self.name))

    @property
    def term(self) -> str:
        """The term of this entity in a search row. No word begins with "@", so it never meets a word."""
        return f"@{self.kind}:{self.name}"

    @classmethod
    def from_term(cls, term: str) -> Entity | None:
        """The entity whose `term` this is; None for words and whatever else is no entity's term.

        >>> Entity.from_term("@brands:LANEIGE")
        Entity(kind='brands', name='LANEIGE')
        """
        kind, colon, name = term.removeprefix("@").partition(":")
        if not term.startswith("@") or not colon:
            return None
        try:
            entity = cls(kind=kind, name=name)
        except InvalidInput:
            return None
        return entity if entity.term == term else None


@dataclass(frozen=True, kw_only=True, slots=True)
class EntityCount:
    """Count of the turns of a thread or a user that mention an entity, with the first and the last."""

    entity: Entity
    count: int
    """Turns that mention it, each once."""
    first_turn_id: str
    last_turn_id: str
    first_at: datetime
    """The timestamp of the first of these turns, in UTC."""
    last_at: datetime


def by_kind(counts: Iterable[EntityCount]) -> dict[str, list[str]]:
    """The names of each kind, each once; kinds and names in the order of their first mention.

    Entities that the same turn mentions first keep the order in which `counts` has them.
    """
    names: dict[str, dict[str, None]] = {}
    for counted in sorted(counts, key=lambda counted: (counted.first_at, counted.first_turn_id)):
        names.setdefault(counted.entity.kind, {})[counted.entity.name] = None
    return {kind: list(its_names) for kind, its_names in names.items()}


def given_entities(value: object) -> tuple[Entity, ...]:
    """A caller's own entities of one turn, each once, in the order given; () for None.

    `value`: at most 100 entities, each an `Entity` or a mapping {"kind": …, "name": …}. Raises InvalidInput that
    names the position of the first that is neither.
    """
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise InvalidInput(
            f"entities must be a list of {{'kind': …, 'name': …}}, not {type(value).__name__} ({value!r:.80})"
        )
    if len(value) > MAX_GIVEN_ENTITIES:
        raise InvalidInput(
            f"entities has {len(value):,} elements; at most {MAX_GIVEN_ENTITIES} are kept of a turn"
        )
    return tuple(dict.fromkeys(_given(position, element) for position, element in enumerate(value)))


def _given(position: int, element: object) -> Entity:
    if isinstance(element, Entity):
        return element
    if not isinstance(element, Mapping) or set(element) != {"kind", "name"}:
        raise InvalidInput(
            f"entities[{position}] is {element!r:.80}; it must have 'kind' and 'name' and nothing else,"
            " such as {'kind': 'brands', 'name': 'LANEIGE'}"
        )
    try:
        return Entity(kind=element["kind"], name=element["name"])
    except InvalidInput as exc:
        raise InvalidInput(f"entities[{position}]: {exc}") from exc


def _checked_name(name: object) -> str:
    text = checked_text("the name of an entity", name, max_chars=MAX_NAME_CHARS)
    for position, char in enumerate(text):
        if unicodedata.category(char) in ("Cc", "Zl", "Zp"):
            raise InvalidInput(
                f"the name of an entity has the control character {char!r} at position {position}; remove it"
            )
    composed = unicodedata.normalize("NFC", " ".join(text.split()))
    # A few characters are longer in NFC than they were.
    return checked_text("the name of an entity", composed, max_chars=MAX_NAME_CHARS)
