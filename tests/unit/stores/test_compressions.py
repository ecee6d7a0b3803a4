"""The stored form of what a compression derives."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import (
    MOMENT_KINDS,
    SUMMARY_KINDS,
    Compression,
    EmotionSpan,
    KeyMoment,
    Noted,
    SummaryItem,
    TopicRanges,
)
from memory_agent.stores.codec import pack_derived, unpack_derived
from memory_agent.stores.fields import COMPRESSION
from tests.conformance.stores import FULL_COMPRESSION, a_compression

texts = st.text(st.characters(codec="utf-8"), max_size=20)
seqs = st.integers(0, 2**63 - 1)
numbers = st.floats(allow_nan=False, allow_infinity=False)


def tuples(of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=3).map(tuple)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("text", "turn_id", "topic_id"), texts),
    **dict.fromkeys(("seq", "first_seq", "last_seq", "tokens"), seqs),
    **dict.fromkeys(("score", "peak", "importance"), numbers),
    "kind": st.sampled_from(SUMMARY_KINDS),
    "kinds": tuples(st.sampled_from(MOMENT_KINDS)),
    "emotion": st.sampled_from(["joy", "fear"]),
    "code": st.booleans(),
    "participants": tuples(texts),
    "ranges": tuples(st.tuples(seqs, seqs)),
}
"""Values of a part's fields by their names."""
PARTS: dict[str, type[Any]] = {
    "summary": SummaryItem,
    "moments": KeyMoment,
    "course": EmotionSpan,
    **dict.fromkeys(("decisions", "traits", "relationship"), Noted),
    "topics": TopicRanges,
}
derived: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {"preserved": tuples(texts)} | {
    name: tuples(st.builds(kind, **{field.name: VALUES[field.name] for field in fields(kind)}))
    for name, kind in PARTS.items()
}


@given(values=st.fixed_dictionaries(derived))
def test_derived_values_come_back_as_they_were(values: dict[str, Any]) -> None:
    """Texts of any characters, numbers to the last bit, and empty parts survive being packed."""
    compression = replace(a_compression([]), **values)
    back = unpack_derived(pack_derived(compression))
    assert back == {name: getattr(compression, name) for name in derived}
    assert repr(back) == repr({name: getattr(compression, name) for name in back})  # -0.0 and 1.0 as well


def test_what_is_packed_is_plain_text() -> None:
    """The packed form has no control character, whatever the texts hold, and is as good as empty without any part."""
    packed = pack_derived(replace(a_compression([]), **FULL_COMPRESSION))
    assert "\0" not in packed
    assert "\x01" not in packed
    assert packed.encode()
    assert pack_derived(a_compression([], summary=())) == "{}"


def test_no_field_is_forgotten() -> None:
    """Each field of a Compression is a column of its own or packed."""
    stored = set(COMPRESSION.columns.split(", ")) - {"derived"}
    assert {field.name for field in fields(Compression)} == stored | set(derived)


def test_a_field_that_a_part_gained_gets_its_default() -> None:
    """What was packed before a part had its last field is read with that field's default."""
    packed = json.loads(pack_derived(replace(a_compression([]), **FULL_COMPRESSION)))
    packed["summary"] = [item[:-1] for item in packed["summary"]]
    assert [item.importance for item in unpack_derived(json.dumps(packed))["summary"]] == [5.0] * 3
