"""The recall benchmark gives a service turns and questions only, and scores when all of a corpus' answers are taken."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks import ablation, recall
from benchmarks.recall import main, measure
from benchmarks.recall_sets import Evidence, Gold, read_sets
from memory_agent import InvalidInput, MemoryService
from tests.unit.benchmarks.services import Data, FakeService
from tests.unit.benchmarks.sets import written
from tests.unit.benchmarks.test_recall_sets import reachable


def a_set(file: Path, *, names: tuple[str, ...] = ("c1", "c2")) -> Path:
    """Corpora of twenty turns with five questions each, whose words are those of one turn: the evidence."""

    def turn(name: str, number: int) -> dict[str, Any]:
        place = {"id": f"{name}-turn{number}", "session": f"{name}-session{number // 2}", "date": None}
        return {**place, "role": "user", "text": f"it was word{number} then"}

    def question(name: str, number: int) -> dict[str, Any]:
        gold = {"gold_turns": [f"{name}-turn{number}"], "gold_sessions": []}
        asked = {"id": f"{name}-question{number}", "text": f"what about word{number} ?"}
        return {**asked, "type": "4", "date": None, **gold}

    records = [
        {
            "corpus": name,
            "turns": [turn(name, n) for n in range(20)],
            "questions": [question(name, n) for n in range(5)],
        }
        for name in names
    ]
    return written(file, *records)


async def measured(file: Path, data: Data) -> Any:
    return await measure(cast("MemoryService", FakeService(data, {})), read_sets([file]))


async def test_answers_are_scored_by_the_set_s_own_ids(tmp_path: Path) -> None:
    remembered, results, times = await measured(a_set(tmp_path / "small.jsonl"), Data())
    assert [one.user_id for one in remembered] == ["small-c1", "small-c2"]
    assert len(results) == 10
    for result in results:
        assert list(result.gold_turns.values()) == [1]
        assert result.figures["recall@5"] == result.figures["session_all@5"] == 1.0
    assert times["small"].turns == 40
    assert len(times["small"].search) == 10


async def test_a_service_is_given_no_evidence(tmp_path: Path) -> None:
    """Nothing that it is handed, nor what can be reached from there, is evidence, an id of the set or a session."""
    data = Data()
    await measured(a_set(tmp_path / "small.jsonl"), data)
    things = [thing for given in data.given for thing in reachable(given)]
    assert len(things) > 100
    assert not any(isinstance(thing, Gold | Evidence) for thing in things)
    texts = {thing for thing in things if isinstance(thing, str)}
    assert not any("gold" in text or "-turn" in text or "-session" in text for text in texts)


# --- ablation ------------------------------------------------------------------------------------------------
@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> Data:
    """A product whose signals are meaning and words, and whose late interaction can't be had."""
    data = Data()
    real = data.open_service

    def opening(store: str, **settings: Any) -> Any:
        if settings.get("second_stage") == "late_interaction":
            raise InvalidInput("no model for it")
        return real(store, **settings)

    monkeypatch.setattr(recall, "open_service", opening)
    monkeypatch.setattr(
        ablation,
        "variants_of",
        lambda settings: ablation.variants(
            {"meaning": 0.5, "words": 0.5}, settings.get("search_weights", {}), late_interaction=False
        ),
    )
    return data


def test_an_ablation_remembers_once_and_asks_again_with_each_signal_off(
    tmp_path: Path, faked: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    main([str(a_set(tmp_path / "small.jsonl")), "--ablation", "--json", str(out), "--cache", str(tmp_path)])
    stored = json.loads(out.read_text("utf-8"))
    assert [run["system"] for run in stored["runs"]] == [
        "memory_agent",
        "memory_agent without meaning",
        "memory_agent without words",
    ]
    assert [len(turns) for turns in faked.turns.values()] == [20, 20], "remembered once"
    assert len({opened["folder"] for opened in faked.opened}) == 1, "opened on the same data"
    printed = capsys.readouterr()
    rows = [line for line in printed.err.splitlines() if line.startswith("|")]
    same, lost = (
        "1.000 [1.000, 1.000] | +0.000 [+0.000, +0.000]",
        "0.000 [0.000, 0.000] | -1.000 [-1.000, -1.000]*",
    )
    assert rows[2].startswith("| memory_agent | 10 | 1.000 [1.000, 1.000] |  | 1.000")
    assert rows[3].startswith(f"| memory_agent without meaning | 10 | {same} | {same} |")
    assert rows[4].startswith(f"| memory_agent without words | 10 | {lost} | {lost} |")
    assert "with late interaction: not measured, no model for it" in printed.err
    assert [run["system"] for run in json.loads(printed.out)["runs"]][1:] == [
        "memory_agent without meaning",
        "memory_agent without words",
    ]


# --- the last run ---------------------------------------------------------------------------------------------
def test_a_second_run_is_held_against_the_last_one_on_the_same_set(
    tmp_path: Path, faked: Data, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder stands for all its sets; a run of the first corpora alone is compared and not kept."""
    sets, cache = tmp_path / "sets", tmp_path / "cache"
    sets.mkdir()
    for name in ("one", "two"):
        a_set(sets / f"{name}.jsonl")

    def said(*more: str) -> str:
        faked.turns.clear()  # a run has a folder of its own
        main([str(sets), "--cache", str(cache), *more])
        return capsys.readouterr().err

    assert f"two: the first run, kept in {cache}" in said("--set", 'search_weights={"words": 0}')
    limited = said("--limit", "1")
    gained = "1.000 [1.000, 1.000] | +1.000 [+1.000, +1.000]*"
    assert f"| all | 5 | {gained} | {gained} |" in limited
    second = said()
    assert "one: less the run of 20" in second
    assert "(store=sqlite, search_weights={'words': 0})" in second
    assert second.count(f"| all | 10 | {gained} | {gained} |") == 2
    assert f"| all | 10 | {gained.replace('+1.000', '+0.000').removesuffix('*')} |" in said()


# --- command line --------------------------------------------------------------------------------------------
