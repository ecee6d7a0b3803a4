"""Benchmarks on a small memory: each command runs to its end, and what it prints fits together.

Vectors are made of words: what is measured is not looked at, only that it is there and adds up.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import answers, chroma, context, recall, scale, speed
from memory_agent.testing import HashEmbedder
from tests.servers.openai_script import ScriptedOpenAI
from tests.unit.benchmarks.sets import record, written


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words' vectors in the place of the model's, and a short backlog."""
    monkeypatch.setattr(speed, "LocalEmbedder", lambda wanted: HashEmbedder(dimension=384))
    monkeypatch.setattr(
        "memory_agent.models.local.embedder.LocalEmbedder", lambda *_, **__: HashEmbedder(dimension=384)
    )
    monkeypatch.setattr(speed, "BACKLOG", 10)


@pytest.fixture
def chat(tmp_path: Path) -> str:
    """A recall set of ten turns and two questions."""
    turns = [
        {
            "id": str(number),
            "session": "s",
            "date": None,
            "role": ("Ann", "Bob")[number % 2],
            "text": f"I planted {what} in the garden, then I watered them.",
        }
        for number, what in enumerate(
            ["beans", "roses", "leeks", "tulips", "carrots", "ferns", "onions", "poppies", "kale", "moss"]
        )
    ]
    asked = {"type": "1", "date": None, "gold_turns": ["1"], "gold_sessions": []}
    questions = [
        {"id": f"q{n}", "text": f"Who planted {what}?", **asked} for n, what in enumerate(("kale", "moss"))
    ]
    return str(written(tmp_path / "chat.jsonl", record(turns=turns, questions=questions)))


def printed(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    """The report, and what was told on the way."""
    shown = capsys.readouterr()
    report: dict[str, Any] = json.loads(shown.out)
    return report, shown.err


def sane(figures: dict[str, dict[str, float]]) -> None:
    """Every figure is a time that can be."""
    for name, of in figures.items():
        assert 0 < of["p50_ms"] <= of["p95_ms"], name
        assert 0 <= of["hold_own_ms"] <= of["hold_ms"], name
        assert of["processor_ms"] >= 0, name
        if "besides_p50_ms" in of:
            assert 0 <= of["besides_p50_ms"] <= of["p95_ms"], name


# --- chroma --------------------------------------------------------------------------------------------------
@pytest.mark.nightly
def test_chroma(capsys: pytest.CaptureFixture[str]) -> None:
    """With a Chroma that has everything in the end, and one that hangs for a second."""
    chroma.main(["--store", "sqlite", "--exchanges", "2", "--turns", "10"])
    report, _ = printed(capsys)
    assert report["pairs"]["missing in Chroma"] == 0
    assert report["documents=False"]["bytes a turn"] > 0 < report["documents=True"]["bytes a turn"]
    chroma.main(["--store", "sqlite", "--hang", "1"])
    hang = printed(capsys)[0]["hang"]
    assert hang["owed at its end"] == 0 < hang["missing at its end"]


# --- speed ---------------------------------------------------------------------------------------------------
@pytest.mark.nightly
def test_speed_measures_each_size_and_compares(
    tmp_path: Path, chat: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    options = ["--text", chat, "--store", "sqlite", "--calls", "2", "--turns"]
    speed.main([*options, "12", "24", "--json", str(out)])
    report, _ = printed(capsys)
    assert json.loads(out.read_text("utf-8")) == report
    cases = report["cases"]
    assert [(case["text"], case["turns"]) for case in cases] == [("chat", 12), ("chat", 24)]
    for case in cases:
        sane(case["figures"])
        sizes = case["bytes_a_turn"]
        assert sizes["all"] >= sizes["speed.sqlite3"] > sizes["text"]
        assert case["ingest"]["own_ms"] > 0
        assert {"first_search", "fetch_new", "settled", "acknowledged_busy"} <= set(case["figures"])

    speed.main([*options, "24", "--against", str(out)])
    again, told = printed(capsys)
    now, then = (case["figures"]["fetch_new"]["p50_ms"] for case in (again["cases"][0], cases[1]))
    (line,) = (line for line in told.splitlines() if line.startswith("| fetch_new |"))
    assert f"(× {now / then:.2f} / " in line


# --- many users ----------------------------------------------------------------------------------------------
def test_scale_measures_each_stage_beside_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    scale.main(["--users", "6", "--turns", "24", "--stages", "8", "24"])
    report, told = printed(capsys)
    assert [(stage["turns"], stage["users"]) for stage in report["stages"]] == [(8, 2), (24, 6)]
    for stage in report["stages"]:
        sane(stage["figures"])
        assert stage["sweep"]["topics"] > 0
        assert stage["ingest"]["ms_a_turn"] > 0
        assert stage["bytes_a_turn"]["scale.sqlite3"] > 100
        assert stage["mib"]["process"] > 10
    assert "| cold_search |" in told


# --- what is found and read ----------------------------------------------------------------------------------
def test_recall_finds_what_is_there_and_compares_two_runs(
    chat: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out.json")
    recall.main([chat, "--cache", str(tmp_path), "--json", out])
    report, told = printed(capsys)
    (run,) = report["runs"]
    assert run["sets"]["chat"]["figures"]["recall@10"]["mean"] == 1
    assert "| memory_agent | 2 | " in told
    assert "| … type 1 | 2 | " in told
    recall.main(["--compare", out, out])
    assert " | 1.000 [1.000, 1.000] | +0.000 [+0.000, +0.000] | " in capsys.readouterr().out


def test_recall_asks_again_without_each_signal_what_it_remembered_once(
    chat: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recall.main([chat, "--cache", str(tmp_path), "--ablation", "--set", 'search_weights={"words": 0}'])
    report, told = printed(capsys)
    names = {run["system"] for run in report["runs"]}
    assert {"memory_agent", "memory_agent without meaning"} <= names
    assert "memory_agent without words" not in names, "it weighs nothing already"
    assert told.count("turns, 2 questions") == 1


def test_context_counts_the_evidence_in_prompts(
    chat: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context.main([chat, "--cache", str(tmp_path), "--prices", "thorough"])
    report, _ = printed(capsys)
    assert report["questions"] == 2


# --- what is answered ----------------------------------------------------------------------------------------
async def shouted(asked: answers.Asked) -> str:
    """A form of notes that isn't the product's."""
    return asked.question.text.upper()


def test_answers_asks_a_model_by_each_row_and_no_request_twice(
    chat: str, tmp_path: Path, openai_server: ScriptedOpenAI, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model says "Bob" wherever it is shown who planted roses: turn 1, which is the evidence of both questions."""
    right, found, out, shown = (tmp_path / name for name in ("right.json", "found.json", "out.json", "shown"))
    right.write_text(json.dumps({"q0": "Bob", "q1": "Bob"}), "utf-8")
    found.write_text(json.dumps({"chroma": {"q0": ["1", "2"], "q1": ["2", "1"]}}), "utf-8")
    means = {
        "evidence": 1.0,
        "last?k=3": 0.0,
        "top=found?peer=chroma&k=1": 0.5,
        "best?k=10&by=time": 1.0,
        f"{__name__}:shouted": 0.0,
    }
    model = openai_server
    model.answer = lambda asked: "Bob." if "roses" in asked["messages"][-1]["content"] else "?"
    of_model = f"scripted={model.base_url}"
    options = [chat, "--answers", str(right), "--reader", of_model, "--cache", str(tmp_path)]
    options += ["--replies", str(tmp_path / "replies.jsonl"), "--found", str(found)]
    rows = [part for row in (*means, "memory=fetch?max_tokens=600") for part in ("--row", row)]
    answers.main([*options, *rows, "--less", "last?k=3", "--json", str(out), "--show", str(shown)])
    report, told = printed(capsys)
    asked = len(model.chats)
    answers.main([*options, "--row", "evidence", "--beside", str(out), "--judge", of_model])
    again, _ = printed(capsys)
    judged = model.chats[asked:]
    for name, mean in means.items():
        (run,) = (
            run for run in report["runs"] if run["system"] == name.removesuffix("=found?peer=chroma&k=1")
        )
        assert run["sets"]["chat"]["figures"]["f1"]["mean"] == mean, name
    assert "| evidence | 2 | 1.000 [1.000, 1.000] | +1.000 [+1.000, +1.000]* |" in told
    assert "\n\nBob: I planted roses in the garden, then I watered them.\n\nreply: Bob.\n" in shown.read_text(
        "utf-8"
    )
    assert {(chat["temperature"], chat["max_tokens"]) for chat in model.chats} == {(0, answers.REPLY_TOKENS)}
    assert len(judged) == 2, "the reader's replies were kept"
    assert all("Right answer: Bob\nReply: Bob." in chat["messages"][-1]["content"] for chat in judged)
    assert len(again["runs"]) == 2 + len(means)
    assert "memory\nWho planted moss?\n\n<memory" in shown.read_text("utf-8")
