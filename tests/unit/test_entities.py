"""What an entity is, how counts are shown by kind, and which of a caller's own are taken."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain.search import (
    MAX_GIVEN_ENTITIES,
    MAX_NAME_CHARS,
    Entity,
    EntityCount,
    by_kind,
    given_entities,
)
from memory_agent.errors import InvalidInput


def brand(name: str) -> Entity:
    return Entity(kind="brands", name=name)


ENTITIES = st.builds(
    Entity,
    kind=st.from_regex(r"\A[a-z0-9_-]{1,32}\Z"),
    name=st.text(
        alphabet=st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=30
    ).map(lambda name: "x" + name),
)


@given(ENTITIES)
def test_term_gives_the_entity_back(entity: Entity) -> None:
    assert Entity.from_term(entity.term) == entity


def test_other_terms_are_no_entities() -> None:
    terms = ["", "@", "word", "brands:LANEIGE", "@brands", "@:x", "@Brands:x", "@brands:", "@brands: x"]
    assert [term for term in terms if Entity.from_term(term) is not None] == []


def test_name_is_kept_in_one_form() -> None:
    assert Entity(kind="brands", name=" L'Ore\u0301al  Paris ").name == "L'Oréal Paris"
    assert brand("B") < brand("C") < Entity(kind="c", name="A")


IMPOSSIBLE: list[tuple[Any, Any]] = [
    ("", "x"), ("a" * 33, "x"), ("a b", "x"), ("a\n", "x"), (None, "x"), ("a", ""), ("a", " \u200b"),
    ("a", "x" * (MAX_NAME_CHARS + 1)), ("a", "\u0344" * 60),  # two characters each in NFC
    ("a", "x\ty"), ("a", "x\u2028y"), ("a", "\ud800"), ("a", 7),
]  # fmt: skip


def test_impossible_entity_is_refused() -> None:
    for kind, name in IMPOSSIBLE:
        with pytest.raises(InvalidInput):
            Entity(kind=kind, name=name)


def test_names_follow_their_first_mention() -> None:
    """By time, then by turn, then as given; each name once, even if it was counted for two threads."""
    start = datetime(2026, 1, 5, tzinfo=UTC)

    def counted(kind: str, name: str, turn_id: str, minute: int) -> EntityCount:
        at = start + timedelta(minutes=minute)
        entity = Entity(kind=kind, name=name)
        return EntityCount(
            entity=entity, count=1, first_turn_id=turn_id, last_turn_id=turn_id, first_at=at, last_at=at
        )

    assert by_kind(
        [
            counted("b", "late", "1", 9),
            counted("b", "second", "5", 1),
            counted("b", "third", "5", 1),
            counted("a", "first", "4", 1),
            counted("b", "second", "8", 8),
        ]
    ) == {"a": ["first"], "b": ["second", "third", "late"]}
    assert by_kind([]) == {}


def test_callers_entities_are_taken_once_each() -> None:
    given = [{"kind": "brands", "name": "LANEIGE"}, brand("COSRX"), {"name": "LANEIGE ", "kind": "brands"}]
    assert given_entities(given) == (brand("LANEIGE"), brand("COSRX"))
    assert given_entities(None) == given_entities([]) == ()


def test_other_callers_entities_are_refused_by_position() -> None:
    refused: list[tuple[Any, list[str]]] = [
        ({"kind": "brands", "name": "LANEIGE"}, ["list", "dict"]),
        ("LANEIGE", ["list", "str"]),
        ([brand("x"), "LANEIGE"], ["entities[1]", "LANEIGE", "'kind'"]),
        ([{"kind": "brands"}], ["entities[0]"]),
        ([{"kind": "brands", "name": "x", "alias": "y"}], ["entities[0]", "nothing else"]),
        ([{"kind": "Brands", "name": "x"}], ["entities[0]", "'Brands'"]),
        ([brand("x")] * (MAX_GIVEN_ENTITIES + 1), ["101", "100"]),
    ]
    for value, words in refused:
        with pytest.raises(InvalidInput) as caught:
            given_entities(value)
        assert all(word in str(caught.value) for word in words), value
