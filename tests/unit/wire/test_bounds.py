"""Bodies made to be slow to refuse: whatever is wrong with them, only so much is looked at and told."""

from typing import Any

import pytest
from pydantic import ValidationError

from memory_agent.checks import checked_metadata
from memory_agent.errors import InvalidInput
from memory_agent.wire.base import Request
from memory_agent.wire.requests import AddTurns, Forget, SetFact, StartSession, Update

MANY = 20_000


def errors_of(model: type[Request], body: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(body)
    return [".".join(map(str, error["loc"])) for error in caught.value.errors(include_url=False)]


@pytest.mark.parametrize("item", [1, "x", {}, {"role": "user"}, []])
def test_of_many_wrong_turns_the_first_is_told(item: Any) -> None:
    assert {place.split(".")[1] for place in errors_of(AddTurns, {"turns": [item] * MANY})} == {"0"}


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (Forget, {"turn_ids": [1] * MANY}),
        (StartSession, {"user_id": "u", "thread_id": "t", "participants": [1] * MANY}),
        (AddTurns, {"turns": [{"role": "user", "content": "x", "entities": [1] * MANY}]}),
        (SetFact, {"path": [1] * MANY, "value": 1}),
    ],
)
def test_of_any_other_list_too(model: type[Request], body: dict[str, Any]) -> None:
    # One of a value, and for some lists one more, of the list as a whole.
    assert len(errors_of(model, body)) <= 2


@pytest.mark.parametrize("model", [Update, AddTurns])
def test_thousands_of_unknown_members_are_one_error(model: type[Request]) -> None:
    assert errors_of(model, {f"k{n}": 0 for n in range(MANY)}) == [""]


@pytest.mark.parametrize("value", [[0] * MANY, [[]] * MANY, {"a": {"b": [[0] * 100] * 200}}])
def test_fact_of_thousands_of_values_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError, match="more than 10,000 values"):
        SetFact.model_validate({"path": "a", "value": value})


def test_fact_of_a_thousand_values_is_for_the_agent_to_judge() -> None:
    assert SetFact.model_validate({"path": "a", "value": list(range(1_000))}).value == list(range(1_000))


class Counted(list[Any]):
    """A list that counts how often somebody went through it."""

    visits = 0

    def __iter__(self) -> Any:
        Counted.visits += 1
        return super().__iter__()


def test_metadata_of_too_many_values_is_refused_before_they_are_looked_at() -> None:
    with pytest.raises(InvalidInput, match="larger than 100,000 characters"):
        checked_metadata({"a": Counted([0] * 100_001)})
    assert Counted.visits == 0
