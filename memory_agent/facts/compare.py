"""Two states of what is known, side by side. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from memory_agent.domain import UNNAMED
from memory_agent.facts.people import person_key
from memory_agent.facts.tree import fact_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.domain import FactRecord, FactSource
    from memory_agent.facts.fold import Folded

Kind = Literal["added", "removed", "changed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FactDifference:
    """One value that stands only before, only after, or has another value after; with where each comes from."""

    kind: Kind
    path: tuple[str, ...]
    before: Any
    after: Any
    sources_before: tuple[FactSource, ...] = ()
    sources_after: tuple[FactSource, ...] = ()
    subject: str = UNNAMED
    """Whose fact it is."""


def differences(before: Folded, after: Folded) -> tuple[FactDifference, ...]:
    """The differences of what is known before and after, by person and path; elements of lists one by one.

    The order within lists makes no difference; how a value is spelled does.
    """
    old, new = dict(_values(before)), dict(_values(after))
    names = {person_key(name): name for name in (*before.people, *after.people)}
    found = []
    for key in dict.fromkeys([*old, *new]):
        (had, had_sources), (has, has_sources) = old.get(key, _NOTHING), new.get(key, _NOTHING)
        kind: Kind = "added" if key not in old else "changed" if key in new else "removed"
        if kind == "changed" and had == has and fact_json(had) == fact_json(has):
            continue
        said: dict[str, Any] = {
            "before": had,
            "after": has,
            "sources_before": had_sources,
            "sources_after": has_sources,
        }
        found.append(FactDifference(kind=kind, subject=names[key[0]], path=key[1], **said))
    return tuple(sorted(found, key=lambda difference: (difference.subject, difference.path)))


_NOTHING: tuple[Any, tuple[FactSource, ...]] = (None, ())


def _values(
    folded: Folded,
) -> Iterator[tuple[tuple[str, tuple[str, ...], str], tuple[Any, tuple[FactSource, ...]]]]:
    """Every scalar by whose it is and its path, every element of a list also by what it says."""
    for known in known_values(folded):
        key = (person_key(known.subject), known.path, fact_json(known.value) if known.in_list else "")
        yield key, (known.value, () if known.record is None else known.record.sources)


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownValue:
    """A scalar of a person's document, or an element of one of its lists, and the record that it stands by."""

    subject: str
    path: tuple[str, ...]
    value: Any
    in_list: bool
    record: FactRecord | None


def known_values(folded: Folded) -> Iterator[KnownValue]:
    """Everything known, by person, in the order of the documents."""
    standing = [((person_key(record.subject), *record.path), record) for record in folded.standing()]
    records = {(path, fact_json(record.value)): record for path, record in standing}
    # Objects and lists that a person set as a whole.
    groups = {path: record for path, record in standing if isinstance(record.value, dict | list)}
    for name, facts in folded.people.items():
        person = person_key(name)
        for below, value, in_list in leaves(facts):
            path = (person, *below)
            around = (groups[path[:n]] for n in range(len(path), 0, -1) if path[:n] in groups)
            record = records.get((path, fact_json(value))) or next(around, None)
            yield KnownValue(subject=name, path=below, value=value, in_list=in_list, record=record)


def leaves(document: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, bool]]:
    """Every scalar and every element of a list: where, what, and whether it is an element."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from leaves(value, (*path, key))
    elif isinstance(document, list):
        for element in document:
            yield path, element, True
    else:
        yield path, document, False
