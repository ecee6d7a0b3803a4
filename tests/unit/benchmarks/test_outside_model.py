"""The outside model: each kind of wrong is told, and what a call that did not return may have left is none."""

from dataclasses import asdict
from typing import Any

import pytest

from benchmarks.outside_model import Held, Model, differences, replayed

PLACE = "ann/chat"
SAY = {"op": "say", "place": PLACE, "texts": ["hello", "hi"], "key": "k"}
SET = {"op": "set", "place": PLACE, "path": "mark", "value": "one", "key": "e"}


def turn(number: int, text: str | None = None) -> list[Any]:
    return [f"id {number}", number, "user" if number % 2 else "assistant", text or f"text {number}"]


def held(*turns: list[Any], **facts: str) -> Held:
    return Held(turns={PLACE: [*turns]} if turns else {}, facts={PLACE: facts} if facts else {})


WANTED = held(turn(1), turn(2), turn(3), mark="one")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (held(turn(1), turn(3), mark="one"), "is lost"),
        (held(turn(1), turn(2), turn(2), turn(3), mark="one"), "doubled"),
        (held(turn(2), turn(1), turn(3), mark="one"), "do not rise"),
        (held(turn(1), turn(2, "other"), turn(3), mark="one"), "was acknowledged and is"),
        (held(turn(1), turn(2), turn(3), turn(4), mark="one"), "never acknowledged"),
        (held(turn(1), turn(2), turn(3), turn(9, "gone"), mark="one"), "was forgotten and is back"),
        (held(turn(1), turn(2), turn(3), mark="two"), "the fact mark is 'two'"),
        (held(turn(1), turn(2), turn(3)), "the fact mark is None"),
    ],
)
def test_each_kind_of_wrong_is_told(found: Held, why: str) -> None:
    assert list(differences(WANTED, WANTED, {"gone"})) == []
    assert any(why in told for told in differences(WANTED, found, {"gone"}))


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (SAY, held(turn(1), turn(2), turn(3), turn(5, "hello"), mark="one")),
        (SAY, held(turn(1), turn(2), turn(3), turn(5, "hello"), turn(6, "hi"), mark="one")),
        ({"op": "forget", "place": PLACE, "ids": ["id 2"]}, held(turn(1), turn(3), mark="one")),
        ({"op": "clear", "place": PLACE}, held(turn(3))),
        ({"op": "forget_user", "user": "ann"}, held()),
        ({**SET, "value": "two"}, held(turn(1), turn(2), turn(3), mark="two")),
    ],
)
def test_a_call_that_did_not_return_may_have_taken_effect(call: dict[str, Any], found: Held) -> None:
    assert list(differences(WANTED, found, set(), [call])) == []
    assert list(differences(WANTED, found, set()))


def test_a_log_is_taken_in() -> None:
    """What returned is in the model, what did not is doubtful, and a forgotten turn leaves the kept backup too."""
    model = Model(kept=held(turn(1)))
    lines = [
        {"number": 0, "begin": SAY},
        {"number": 0, "done": {"ids": ["id 1", "id 2"], "seq": 2}},
        {"number": 1, "begin": SET},
        {"number": 1, "done": {}},
        {"number": 2, "begin": {"op": "forget", "place": PLACE, "ids": ["id 1"]}},
        {"number": 2, "done": {}},
        {"number": 3, "begin": {"op": "clear", "place": PLACE}},
    ]
    assert replayed(lines, model) == [{"op": "clear", "place": PLACE}]
    assert model.now == held(["id 2", 2, "assistant", "hi"], mark="one")
    assert model.kept == Held()
    assert set(model.gone) == {"id 1", "hello", "text 1"}
    assert Model.from_json(asdict(model)) == model
