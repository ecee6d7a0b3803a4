"""A finder of the application's is read as far as it goes, and holds nothing up."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from memory_agent.domain import Entity
from memory_agent.errors import BackendError
from memory_agent.search.entities import EntitySpotter
from memory_agent.text.dictionary import EntityDictionary
from tests.unit.search.builders import turn

AURORA, COSRX = Entity(kind="ships", name="Aurora"), Entity(kind="brands", name="COSRX")
SAID = "The Aurora carries COSRX."


class Finder:
    """Answers with whatever it is made with."""

    name = "ferries"

    def __init__(self, answer: Callable[[Sequence[str]], Any]) -> None:
        self.answer = answer
        self.asked = 0

    def find(self, texts: Sequence[str]) -> Any:
        self.asked += 1
        return self.answer(texts)


def fail(_: object) -> Any:
    raise ValueError("no pilot")


def spotter(finder: Any, seconds: float = 60) -> EntitySpotter:
    known = EntityDictionary({"brands": {"COSRX": []}})
    return EntitySpotter(known, finder, batch_seconds=seconds, question_seconds=seconds)


@pytest.mark.parametrize(
    "found",
    [
        [AURORA],
        (AURORA, AURORA),
        [{"kind": "ships", "name": "Aurora"}],
        [{"kind": "ships", "name": "Aurora"}, None, "Aurora", {"kind": "A b", "name": "x"}, {"name": "x"}],
        {"kind": "ships", "name": "Aurora"},
        AURORA,
    ],
)
async def test_what_can_be_read_as_an_entity_is_one(found: Any) -> None:
    asked = spotter(Finder(lambda texts: [found for _ in texts]))
    assert await asked.of_turns([turn(1, SAID)]) == [(COSRX, AURORA)]
    assert await asked.of_question(SAID) == (COSRX, AURORA)


@pytest.mark.parametrize(
    "answer", [fail, lambda _: None, lambda _: [], lambda _: "Aurora", lambda _: 7, lambda _: {}]
)
async def test_a_finder_that_fails_or_answers_nonsense_leaves_the_dictionarys_names(
    answer: Callable[[Sequence[str]], Any], caplog: pytest.LogCaptureFixture
) -> None:
    asked = spotter(Finder(answer))
    assert await asked.of_turns([turn(1, SAID), turn(2, "Nothing.")]) == [(COSRX,), ()]
    assert "ferries" in caplog.text
    with pytest.raises(BackendError, match="ferries"):
        await asked.of_question(SAID)


async def test_a_finder_that_hangs_is_not_waited_for_and_not_asked_again_until_it_is_back() -> None:
    back = threading.Event()
    finder = Finder(lambda texts: [[AURORA] for _ in texts if back.wait(60)])
    asked = spotter(finder, seconds=0.05)
    assert await asked.of_turns([turn(1, SAID)]) == [(COSRX,)]
    assert await asked.of_turns([turn(1, SAID)]) == [(COSRX,)]
    with pytest.raises(BackendError, match="has not answered an earlier call yet"):
        await asked.of_question(SAID)
    assert finder.asked == 1
    back.set()
    while asked._late:
        await asyncio.sleep(0.01)
    assert await asked.of_question(SAID) == (COSRX, AURORA)


async def test_who_does_not_wait_any_longer_leaves_nothing_behind() -> None:
    back = threading.Event()
    asked = spotter(Finder(lambda texts: [[AURORA] for _ in texts if back.wait(60)]))
    waiting = asyncio.create_task(asked.of_question(SAID))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    back.set()
    assert await asked.of_question(SAID) == (COSRX, AURORA)
