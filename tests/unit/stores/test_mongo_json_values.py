"""JSON as MongoDB keeps it: any value comes back as it was, and nothing is written that MongoDB reads as its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import bson
from hypothesis import example, given
from hypothesis import strategies as st

from memory_agent.stores.mongo.documents import from_bson, to_bson

if TYPE_CHECKING:
    from collections.abc import Iterator

characters = st.characters(codec="utf-8")
keys = st.text(characters, max_size=8) | st.text("%.$\0aF2", max_size=6)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(characters),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(keys, values, max_size=4))
@example({"": 1, "%": 2, "%25": 3, "%int": "7", "$ref": "a", "$id": 1, "a.b": {"$set": {}}, "0": {"\0": []}})
@example({"n": [2**63, -(2**63) - 1, 2**63 - 1, 10**40, 1.0, 1, True, -0.0]})
def test_any_json_comes_back_byte_for_byte(value: dict[str, Any]) -> None:
    """Through BSON itself, with keys in their order and numbers of their own kind."""
    stored = bson.encode({"facts": to_bson(value)})
    found = from_bson(bson.decode(stored)["facts"])
    assert json.dumps(found, ensure_ascii=False) == json.dumps(value, ensure_ascii=False)
    assert all(
        key and not key.startswith("$") and not {".", "\0"} & set(key) for key in _keys(to_bson(value))
    )


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(inner)


def test_keys_are_written_as_the_module_says() -> None:
    """Ordinary ones stay what they are, so that queries name them."""
    keys = ["name", "a.b", "$set", "US$", "50%", ""]
    assert [*to_bson(dict.fromkeys(keys))] == ["name", "a%2Eb", "%24set", "US$", "50%25", "%"]
