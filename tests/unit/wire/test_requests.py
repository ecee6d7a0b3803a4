"""Requests take what an agent takes, and refuse the rest by name before anything is done."""

import json
import math
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest

from memory_agent.checks import MAX_TAG_CHARS, MAX_TURN_IDS
from memory_agent.conversations.sessions import MAX_CHARACTER_CHARS, MAX_PARTICIPANTS, MAX_TRAITS
from memory_agent.errors import InvalidInput
from memory_agent.topics.sweep import MAX_TAGS
from memory_agent.wire import requests
from memory_agent.wire.base import Request
from memory_agent.work.admit import MAX_TURNS_PER_CALL
from tests.unit.wire.test_answers import MOMENT

MODELS = [
    found
    for found in vars(requests).values()
    if isinstance(found, type) and issubclass(found, Request) and found is not Request
]
TURN = {"role": "user", "content": "x"}
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def examples(model: type[Request]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = model.model_json_schema()["examples"]
    return found


def test_the_examples_of_a_request_are_taken_and_fit_its_schema() -> None:
    for model in MODELS:
        assert examples(model), model
        for example in examples(model):
            model.model_validate_json(json.dumps(example))
            jsonschema.validate(example, model.model_json_schema())


def test_a_request_with_an_unknown_key_is_refused() -> None:
    for model in MODELS:
        with pytest.raises(InvalidInput, match="importanse: Extra inputs are not permitted"):
            model.of(**examples(model)[0], importanse=1)


def test_limits_are_those_of_the_agent() -> None:
    assert requests.MAX_TURNS == MAX_TURNS_PER_CALL == MAX_TURN_IDS
    character = requests.GivenCharacter.model_json_schema()["properties"]
    assert character["traits"]["maxItems"] == MAX_TRAITS
    assert character["profile"]["maxLength"] == MAX_CHARACTER_CHARS
    assert (
        requests.NewSession.model_json_schema()["properties"]["participants"]["maxItems"] == MAX_PARTICIPANTS
    )
    add = requests.Tags.model_json_schema()["properties"]["add"]
    assert (add["maxItems"], add["items"]["maxLength"]) == (MAX_TAGS, MAX_TAG_CHARS)


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (requests.AddTurn, TURN | {"content": "x" * 1_000_000}),
        (requests.AddTurn, TURN | {"importance": 1}),
        (requests.AddTurn, TURN | {"timestamp": "2026-03-01T18:30:00"}),
        (requests.AddTurn, TURN | {"metadata": None, "timestamp": None, "importance": None, "speaker": None}),
        (requests.AddTurn, TURN | {"timestamp": "2026-03-01T18:30:00.123456+05:30"}),
        (requests.AddTurns, {"turns": []}),
        (requests.AddTurns, {"turns": [TURN] * 10_000}),
        (requests.StartSession, {"user_id": "x" * 512, "thread_id": "🜁" * 512}),
        (requests.Fetch, {"user_message": "x", "max_tokens": 0}),
        (requests.Search, {"user_id": "u", "query": "q", "top_k": 0}),
        (requests.SetFact, {"path": ["a", "b.c"], "value": {"a": [1, 1.5, True, None, "x"]}}),
        (requests.SetFact, {"path": "a.b", "value": None}),
        (requests.Settle, {"timeout": 0}),
    ],
)
def test_what_an_agent_takes_is_taken(model: type[Request], fields: dict[str, Any]) -> None:
    assert model.of(**fields).model_fields_set == fields.keys()


@pytest.mark.parametrize(
    ("model", "fields", "message"),
    [
        (requests.AddTurn, {"role": "user"}, "content: Field required"),
        (requests.AddTurn, TURN | {"content": ""}, "content: "),
        (requests.AddTurn, TURN | {"content": "x" * 1_000_001}, "content: "),
        (requests.AddTurn, TURN | {"content": "\ud800"}, "content: "),
        (requests.AddTurn, TURN | {"role": "boss"}, "role: "),
        (requests.AddTurn, TURN | {"speaker": "x" * 513}, "speaker: "),
        (requests.AddTurn, TURN | {"importance": True}, "importance: "),
        (requests.AddTurn, TURN | {"importance": 1.1}, "importance: "),
        (requests.AddTurn, TURN | {"importance": math.nan}, "importance: "),
        (requests.AddTurn, TURN | {"timestamp": 1_772_389_800}, "timestamp: write the time"),
        (requests.AddTurn, TURN | {"timestamp": "1772389800"}, "timestamp: write the time"),
        (requests.AddTurn, TURN | {"timestamp": "yesterday"}, "timestamp: "),
        (requests.AddTurn, TURN | {"metadata": []}, "metadata must be a dict"),
        (requests.AddTurn, TURN | {"metadata": {"a": [math.inf]}}, r"metadata\.a\[0\] is inf"),
        (requests.AddTurn, TURN | {"entities": [{"kind": "A b", "name": "x"}]}, r"entities\[0\]\.kind: "),
        (requests.AddTurn, TURN | {"entities": [{"kind": "a", "name": "x", "y": 1}]}, r"entities\[0\]\.y: "),
        (requests.AddTurns, {"turns": [TURN] * 10_001}, "turns: "),
        (requests.AddTurns, {"turns": [TURN, {}]}, r"turns\[1\]\.role: .*turns\[1\]\.content: "),
        (requests.StartSession, {"user_id": "", "thread_id": "t"}, "user_id: "),
        (requests.StartSession, {"user_id": "u", "thread_id": ""}, "thread_id: "),
        (requests.StartSession, {"user_id": "u", "thread_id": "t", "participants": "Ada"}, "participants: "),
        (requests.NewSession, {"character": {"name": "Mira", "mood": "x"}}, "character.mood: "),
        (requests.Fetch, {"user_message": "x", "max_tokens": True}, "max_tokens: "),
        (requests.Fetch, {"user_message": "x", "max_tokens": -1}, "max_tokens: "),
        (requests.Fetch, {"user_message": "x", "max_tokens": 2**70}, "max_tokens: "),
        (requests.Fetch, {"user_message": "x", "preset": "loud"}, "preset: "),
        (requests.Search, {"user_id": "u", "query": "q", "top_k": -1}, "top_k: "),
        (requests.Search, {"user_id": "u", "query": ""}, "query: "),
        (requests.Forget, {"turn_ids": []}, "turn_ids: "),
        (requests.Forget, {"turn_ids": ["t"] * 10_001}, "turn_ids: "),
        (requests.SetFact, {"path": "a"}, "value: "),
        (requests.SetFact, {"path": [], "value": 1}, "path: pass text"),
        (requests.SetFact, {"path": ["a", 1], "value": 1}, "path: pass text"),
        (requests.SetFact, {"path": "a" * 2_001, "value": 1}, "path: pass text"),
        (requests.SetFact, {"path": "a", "value": [math.nan]}, "value: it holds nan"),
        (requests.Settle, {"timeout": math.inf}, "timeout: "),
        (requests.Settle, {"timeout": True}, "timeout: "),
        (requests.Tags, {"add": "travel"}, "add: "),
        (requests.SetImportance, {}, "importance: "),
        (requests.Feedback, {"turn_or_topic": "t", "useful": "yes"}, "useful: "),
    ],
)
def test_what_no_agent_takes_is_refused_by_name(
    model: type[Request], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=f"^(body: )?(pass )?{message}"):
        model.of(**fields)


def test_a_value_that_is_nested_without_end_is_refused() -> None:
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    endless: dict[str, Any] = {}
    endless["a"] = endless
    for value in (deep, endless):
        with pytest.raises(InvalidInput, match="value: it is nested more than 64 deep"):
            requests.SetFact.of(path="a", value=value)
        with pytest.raises(InvalidInput, match="nested more than 16 deep"):
            requests.Update.of(user_msg="x", assistant_msg="y", metadata={"a": value})


@pytest.mark.parametrize(
    ("to", "moment"),
    [
        (None, None), ("12.0", "12.0"), ("trip/12.0", "trip/12.0"), ("2026", "2026"), ("2026-03-01", "2026-03-01"),
        ("2026-03-01T18:30:00", "2026-03-01T18:30:00"), ("2026-03-01T18:30:00.125Z", MOMENT),
        ("2026-03-01T19:30:00.125+01:00", MOMENT),
    ],
)  # fmt: skip
def test_a_fact_goes_back_to_a_time_if_it_reads_as_one_with_a_zone(to: str | None, moment: Any) -> None:
    assert requests.RevertFact.of(path="", to=to).moment() == moment
