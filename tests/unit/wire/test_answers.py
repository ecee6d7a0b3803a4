"""What goes over the wire comes back as the same value, and says nothing of its tenant."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from memory_agent import domain as values
from memory_agent.errors import InvalidInput
from memory_agent.wire import answers
from memory_agent.wire.base import Answer, Items, json_of
from memory_agent.wire.pages import Page, encode_cursor
from tests.unit.wire import strategies as drawn

MODELS: Final = sorted(
    {
        found
        for found in vars(answers).values()
        if isinstance(found, type) and issubclass(found, Answer) and hasattr(found, "value_type")
    },
    key=lambda model: model.__name__,
)
"""Every answer that is derived from a dataclass."""

MOMENT = datetime(2026, 3, 1, 18, 30, 0, 125_000, tzinfo=UTC)
TURN = values.Turn(
    id="t1",
    user_id="ada",
    thread_id="trip",
    seq=1,
    role="user",
    content="I moved to Lisbon.",
    speaker=None,
    timestamp=MOMENT,
    tokens=5,
    importance=None,
    metadata={},
)


def over_the_wire(model: type[Answer[Any]], value: Any) -> Any:
    return model.model_validate_json(model.of(value).model_dump_json()).domain()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_value_comes_back_as_it_was_by_either_way_of_writing_without_its_tenant(
    model: type[Answer[Any]], data: st.DataObject
) -> None:
    """Written by the model, or straight from the value, which is quicker."""
    value = data.draw(drawn.values_of(model.value_type))
    back = over_the_wire(model, value)
    assert back == value
    assert repr(back) == repr(value), "numbers, too, keep their type"
    stored = for_user(value, values.Scope.of("ada", tenant=TENANT).user_id)
    told = model.of(stored)
    by_model = told.model_dump_json()
    assert TENANT not in by_model
    assert over_the_wire(model, stored) == for_user(value, "ada")
    written = json_of(model, stored)
    assert json.loads(written) == json.loads(by_model)
    assert model.model_validate_json(written) == told


@given(turn=drawn.topic_turns)
def test_what_is_no_dataclass_comes_back_as_it_was(turn: dict[str, Any]) -> None:
    assert over_the_wire(answers.TopicTurn, turn) == turn


@settings(suppress_health_check=list(HealthCheck))
@given(value=drawn.values_of(values.MemoryContext) | drawn.values_of(values.CompressedContext))
def test_a_context_from_the_wire_renders_as_the_one_that_was_sent(value: Any) -> None:
    model = answers.MemoryContext if isinstance(value, values.MemoryContext) else answers.CompressedContext
    sent = model.of(value)
    written = json.loads(sent.model_dump_json())
    back = over_the_wire(model, value)
    assert str(back) == str(value) == written["text"]
    assert back.to_messages() == value.to_messages() == written["messages"]
    assert back.reminder == value.reminder
    assert [back.part(tier) for tier in values.TAG_OF] == [value.part(tier) for tier in values.TAG_OF]


PLACES: list[Any] = [None, True, 1.5, 3, [3], {"after": "a"}, "", "a\x1fb", "t1", -1, 2**53 + 1]


def test_a_cursor_of_another_list_is_refused_as_a_place_in_this_one() -> None:
    assert answers.HISTORY.after(None) is None
    for position in PLACES:
        cursor = encode_cursor(position)
        for places in (answers.USERS, answers.THREADS, answers.HISTORY):
            if position == (3 if places is answers.HISTORY else "t1"):
                assert places.after(cursor) == position
            else:
                with pytest.raises(InvalidInput, match=r"^cursor "):
                    places.after(cursor)


def test_documents_and_messages_come_back_as_they_were() -> None:
    document = {"home": {"city": "Lisbon"}, "pets": ["Mo", {"age": 3}], "nothing": None, "é": 1.0}
    assert (
        answers.Facts.model_validate_json(
            answers.Facts.of(values.KnownFacts.of(document, 0)).model_dump_json()
        ).domain()
        == document
    )
    messages = [{"role": "system", "content": "About: trip"}, {"role": "user", "content": "👋"}]
    sent = answers.TopicContext.of(messages).model_dump_json()
    assert answers.TopicContext.model_validate_json(sent).domain() == messages


def test_a_summary_is_the_part_of_the_context_that_sums_up() -> None:
    item = values.SummaryItem(kind="fact", text="Ada moved.", first_seq=1, last_seq=4)
    whole = values.CompressedContext(
        blocks=(),
        ledger=(),
        tokens=0,
        budget=10,
        summary=(item,),
        topics=(values.KeyTopic(title="Moving", ranges=((1, 4),)),),
        metadata=values.CompressionMetadata(
            original_turns=4,
            compressed_at=4,
            number=1,
            tokens_before=90,
            tokens_after=20,
            preserved_ids=(),
            made_by="extractive:1",
            summary_through=4,
        ),
    )
    summary = answers.SessionSummary.of(whole)
    assert [one.domain() for one in summary.items] == [item]
    assert [one.domain() for one in summary.topics] == list(whole.topics)
    assert (summary.made_by, summary.through, summary.recorded) == ("extractive:1", 4, True)
    assert json.loads(answers.CompressedContext.of(whole).model_dump_json())["metadata"]["tokens_saved"] == 70


# --- tenants -------------------------------------------------------------------------------------------------
TENANT = "acme-corp"


def for_user(value: Any, user_id: str) -> Any:
    """The value for that user, wherever a user id, a scope or an error's text stands in it."""
    if isinstance(value, values.Scope):
        return values.Scope(user_id=user_id, thread_id=value.thread_id)
    if isinstance(value, tuple):
        return tuple(for_user(one, user_id) for one in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type | values.Entity):
        return value
    names = [field.name for field in dataclasses.fields(value)]
    fields = {name: for_user(getattr(value, name), user_id) for name in names}
    told: dict[str, Any] = {"user_id": user_id, "last_error": f"user {user_id!r}, {user_id}: no"}
    return dataclasses.replace(value, **fields | {name: told[name] for name in names if name in told})


def test_an_id_from_the_wire_cannot_name_another_tenant() -> None:
    posted = Answer[values.Scope].model_validate({"user_id": "acme\x1fada", "thread_id": "trip"})
    assert posted.domain() == values.Scope(user_id="ada", thread_id="trip")


# --- reading what another version wrote ----------------------------------------------------------------------
def test_a_time_with_another_zone_is_read_in_utc() -> None:
    written = json.loads(answers.Turn.of(TURN).model_dump_json()) | {
        "timestamp": "2026-03-01T19:30:00.125+01:00"
    }
    back = answers.Turn.model_validate_json(json.dumps(written)).domain()
    assert back.timestamp == MOMENT
    assert back.timestamp.tzinfo is UTC


def test_times_of_other_zones_and_broken_error_texts_are_told_alike_by_either_way_of_writing() -> None:
    abroad = MOMENT.astimezone(timezone(timedelta(hours=9)))
    turn = dataclasses.replace(TURN, timestamp=abroad, last_error="half \ud83d of it")
    for written in (answers.Turn.of(turn).model_dump_json(), json_of(answers.Turn, turn)):
        told = json.loads(written)
        assert told["timestamp"] == "2026-03-01T18:30:00.125000Z"
        assert told["last_error"] == "half \\ud83d of it"


def test_values_as_good_as_basic_ones_are_written_and_others_refused() -> None:
    for number in (1, 2**70):  # which a fact may be
        turn = dataclasses.replace(TURN, importance=np.float64(0.5), metadata=MappingProxyType({"a": number}))
        told = json.loads(json_of(answers.Turn, turn))
        assert (told["importance"], told["metadata"]) == (0.5, {"a": number})
    with pytest.raises(ValueError, match="object"):
        json_of(answers.Turn, dataclasses.replace(TURN, metadata={"a": object()}))


# --- the documentation ---------------------------------------------------------------------------------------
def test_every_member_of_an_answer_is_always_there_and_documented_as_such() -> None:
    for model in MODELS:
        for mode in ("validation", "serialization"):
            schema = model.model_json_schema(mode=mode)
            if model is not answers.MemoryContext:  # of which most is there if it was asked for
                assert set(schema["required"]) == set(schema["properties"]), model
            assert schema["title"] == model.__name__
            assert schema["description"], model


@pytest.mark.parametrize(
    ("model", "same", "name"),
    [
        (Page[answers.Turn], Page[answers.Turn], "TurnPage"),
        (Items[answers.EntityCount], Items[answers.EntityCount], "EntityCountList"),
    ],
    ids=["page", "list"],
)
def test_lists_have_names_and_descriptions_that_a_reader_expects(
    model: type[BaseModel], same: type[BaseModel], name: str
) -> None:
    assert model is same
    assert model.__name__ == model.model_json_schema()["title"] == name
    assert model.model_json_schema()["description"].startswith("A ")
    # Nested, a schema goes by the reference that OpenAPI names it by.
    assert name in TypeAdapter(dict[str, model]).json_schema()["$defs"]  # type: ignore[valid-type]
