"""Hypothesis strategies for the domain's values, drawn from the types of their fields."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from memory_agent import domain as values
from memory_agent.wire.base import hints_of

Strategy = st.SearchStrategy[Any]

ODD = [
    "", "\0", "é", "e\u0301", "👩‍👩‍👧", "\u202e", "\u2028", "𝔘", "\ufeff", "'\"\\", "</memory_context>", "\x1f",
]  # fmt: skip
texts = st.one_of(st.sampled_from(ODD), st.text(max_size=12))
# A tenant is taken out of what an error said, so nothing here may look like one.
error_texts = texts.filter(lambda text: "1f" not in text.lower() and "\x1f" not in text)
ids = st.one_of(
    st.sampled_from(["ada", "a/b%2F", "日本", "🜁", "../..", " x"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp", "Zs"]), min_size=1, max_size=12),
)
floats = st.floats(allow_nan=False, allow_infinity=False)
times = st.datetimes(timezones=st.just(UTC)).map(
    lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000, fold=0)
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), floats, texts)
json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
entities = st.builds(
    values.Entity,
    kind=st.from_regex(r"[a-z0-9_-]{1,32}", fullmatch=True),
    name=st.sampled_from(["COSRX", "Crème  brûlée", "한국", "e\u0301"]),
)
topic_turns = st.fixed_dictionaries(
    {"role": st.sampled_from(values.ROLES), "content": texts, "timestamp": times}
)

_DRAWN: dict[Any, Strategy] = {
    str: texts,
    int: st.integers(0, 2**53),
    float: floats,
    bool: st.booleans(),
    datetime: times,
    Any: json_values,
    type(None): st.none(),
    values.Entity: entities,
}
_OF_FIELD: dict[tuple[type[Any], str], Strategy] = {
    # No block is of the tier "envelope", which has no tag.
    (values.ContextBlock, "tier"): st.sampled_from(sorted(values.TAG_OF)),
}


@functools.cache
def values_of(kind: Any) -> Strategy:
    """Values of a dataclass with every one of its fields drawn; fields with a default are left out now and then."""
    if kind in _DRAWN:
        return _DRAWN[kind]
    needed: dict[str, Strategy] = {}
    optional: dict[str, Strategy] = {}
    for field in dataclasses.fields(kind):
        text = ids if field.name in ("id", "next") or field.name.endswith("_id") else texts
        text = error_texts if field.name in ("last_error", "error") else text
        place = kind, field.name
        drawn = _OF_FIELD[place] if place in _OF_FIELD else drawn_of(hints_of(kind)[field.name], text)
        has_default = (field.default, field.default_factory) != (dataclasses.MISSING, dataclasses.MISSING)
        (optional if has_default else needed)[field.name] = drawn
    return st.fixed_dictionaries(needed, optional=optional).map(lambda found: kind(**found))


def drawn_of(hint: Any, text: Strategy = texts) -> Strategy:
    """Values of a field's type; `text` for its texts."""
    origin, inside = get_origin(hint), get_args(hint)
    if hint is str:
        return text
    if origin is None:
        return values_of(hint)
    if origin is Literal:
        return st.sampled_from(inside)
    if origin is tuple and inside[-1] is Ellipsis:
        return st.lists(drawn_of(inside[0], text), max_size=2).map(tuple)
    drawn = [drawn_of(each, text) for each in inside]
    if origin in (Union, UnionType):
        return st.one_of(*drawn)
    if origin is tuple:
        return st.tuples(*drawn)
    if origin in (dict, Mapping):
        return st.dictionaries(*drawn, max_size=3)
    assert origin is Sequence, hint
    return st.lists(*drawn, max_size=3)
