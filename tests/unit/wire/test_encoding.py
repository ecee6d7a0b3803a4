"""Answers written straight from values say what the models of them say."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_agent.wire import turns
from memory_agent.wire.base import Items
from memory_agent.wire.encoding import json_of, json_of_many
from memory_agent.wire.facts import FactProposal
from tests.unit.wire import strategies as drawn
from tests.unit.wire.test_answers import MODELS, MOMENT, TENANT, TURN, for_user

if TYPE_CHECKING:
    from memory_agent.wire.base import Answer

WRITTEN = [model for model in MODELS if model is not FactProposal]
"""A proposal is told of by a model that is no dataclass's."""


@pytest.mark.parametrize("model", WRITTEN, ids=lambda model: model.__name__)
@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_value_is_written_as_its_model_is(model: type[Answer[Any]], data: st.DataObject) -> None:
    value = for_user(data.draw(drawn.values_of(model.value_type)), f"{TENANT}\x1fada")
    written = json_of(model, value)
    assert json.loads(written) == json.loads(model.of(value).model_dump_json())
    assert TENANT not in written.decode()
    assert model.model_validate_json(written) == model.of(value)


def test_a_list_is_written_as_its_model_is() -> None:
    both = (TURN, dataclasses.replace(TURN, id="t2", user_id=f"{TENANT}\x1fada"))
    listed = Items[turns.Turn](items=tuple(map(turns.Turn.of, both)))
    assert json.loads(json_of_many(turns.Turn, both)) == listed.model_dump(mode="json")
    assert json.loads(json_of_many(turns.Turn, [], next_cursor=None)) == {"items": [], "next_cursor": None}


def test_times_of_other_zones_and_broken_error_texts_are_told_as_by_the_model() -> None:
    abroad = MOMENT.astimezone(timezone(timedelta(hours=9)))
    told = json.loads(
        json_of(turns.Turn, dataclasses.replace(TURN, timestamp=abroad, last_error="half \ud83d of it"))
    )
    assert told["timestamp"] == "2026-03-01T18:30:00.125000Z"
    assert told["last_error"] == "half \\ud83d of it"


def test_values_as_good_as_basic_ones_are_written_and_others_refused() -> None:
    for number in (1, 2**70):  # which a fact may be
        turn = dataclasses.replace(TURN, importance=np.float64(0.5), metadata=MappingProxyType({"a": number}))
        told = json.loads(json_of(turns.Turn, turn))
        assert (told["importance"], told["metadata"]) == (0.5, {"a": number})
    with pytest.raises(ValueError, match="object"):
        json_of(turns.Turn, dataclasses.replace(TURN, metadata={"a": object()}))
