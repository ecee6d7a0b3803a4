"""Answers written straight from values say what the models of them say; test_answers.py compares both for every kind."""

import dataclasses
import json
from datetime import timedelta, timezone
from types import MappingProxyType

import numpy as np
import pytest

from memory_agent.wire import turns
from memory_agent.wire.base import Items
from memory_agent.wire.encoding import json_of, json_of_many
from tests.unit.wire.test_answers import MOMENT, TENANT, TURN


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
