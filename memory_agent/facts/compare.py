"""Two states of what is known, side by side. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from memory_agent.facts.tree import fact_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from memory_agent.domain import FactRecord, FactSource
    from memory_agent.facts.fold import Folded


@dataclass(frozen=True, kw_only=True, slots=True)
class FactDifference:
    """One value that stands only before, only after, or has another value after; with where each comes from."""

    kind: Literal["added", "removed", "changed"]
    path: tuple[str, ...]
    before: Any
    after: Any
    sources_before: tuple[FactSource, ...] = ()
    sources_after: tuple[FactSource, ...] = ()


def differences(before: Folded, after: Folded) -> tuple[FactDifference, ...]:
    """The differences of two fact documents, by path; elements of lists one by one.

    The order within lists makes no difference; how a value is spelled does.
    """
    old, new = dict(_values(before)), dict(_values(after))
    found = []
    for key in dict.fromkeys([*old, *new]):
        path = key[0]
        (had, had_sources), (has, has_sources) = old.get(key, _NOTHING), new.get(key, _NOTHING)
        if key in old and key in new and fact_json(had) == fact_json(has) and had == has:
            continue
        kind: Literal["added", "removed", "changed"] = "changed"
        if key not in old:
            kind = "added"
        elif key not in new:
            kind = "removed"
        found.append(
            FactDifference(
                kind=kind,
                path=path,
                before=had,
                after=has,
                sources_before=had_sources,
                sources_after=has_sources,
            )
        )
    return tuple(sorted(found, key=lambda difference: difference.path))


_NOTHING: tuple[Any, tuple[FactSource, ...]] = (None, ())


def _values(
    folded: Folded,
) -> Iterator[tuple[tuple[tuple[str, ...], str], tuple[Any, tuple[FactSource, ...]]]]:
    """Every scalar by its path, every element of a list by its path and what it says."""
    standing = folded.standing()
    records = {(record.path, fact_json(record.value)): record for record in standing}
    groups = {record.path: record for record in standing if isinstance(record.value, dict | list)}
    for path, value, in_list in leaves(folded.document):
        record = records.get((path, fact_json(value))) or _around(path, groups)
        sources = () if record is None else record.sources
        yield (path, fact_json(value) if in_list else ""), (value, sources)


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


def _around(path: tuple[str, ...], groups: Mapping[tuple[str, ...], FactRecord]) -> FactRecord | None:
    """The record of the object or list that a person set, of which this is a part."""
    for length in range(len(path), 0, -1):
        if path[:length] in groups:
            return groups[path[:length]]
    return None
