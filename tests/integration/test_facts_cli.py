"""Facts on the command line: the embedded default, patterns, a scripted language model.

Most are run within this process: as processes of their own the commands are run by what the pages and `--help` say to
type (test_docs).
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from memory_agent.domain import Scope
from memory_agent.facts.fold import fold
from memory_agent.stores.sqlite import SqliteStore
from tests.integration.commands import (
    CommandLine,
    Quick,
    asking,
    copied,
    looking,
    one_line,
    user,
    with_store,
)
from tests.integration.fact_script import add, reply
from tests.servers.openai_script import ScriptedOpenAI

INTRODUCTION = "I'm John, I work as a software engineer. I prefer morning meetings."
MOVED = "Actually I moved to a product role."
LIKES = "I love hiking."
HOME = "I live in Utrecht."
BEFORE_THE_MOVE = "2026-03-15T00:00:00+00:00"
TURNS = [
    user(INTRODUCTION, timestamp="2026-03-01T10:00:00+00:00"),
    user(MOVED, timestamp="2026-04-01T10:00:00+00:00"),
    user(LIKES, timestamp="2026-04-02T10:00:00+00:00"),
    user(HOME, timestamp="2026-04-03T10:00:00+00:00", thread="home"),
]
PREFERS = {"meeting_time": "morning", "likes": ["hiking"]}
KNOWN = {"name": "John", "occupation": "product role", "preferences": PREFERS}
EVERY_KEY = (
    "id thread_id op subject path value old by sources confidence valid_from said_at recorded_at last_seen stands"
    " superseded_by refused"
)


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """What John says of himself, with its facts, in a folder that nobody changes."""
    cli = CommandLine(tmp_path_factory.mktemp("facts"))
    cli("ingest", cli.file(*TURNS))
    return cli


@pytest.fixture
def cli(remembered: CommandLine, tmp_path: Path) -> CommandLine:
    return copied(remembered, tmp_path)


@pytest.fixture
def quick(remembered: CommandLine) -> Quick:
    """To look with."""
    return looking(remembered)


def known(cli: CommandLine, thread: str | None = "main") -> dict[str, Any]:
    """What is known by now, of the thread or (None) of the user."""

    async def load(store: SqliteStore) -> dict[str, Any]:
        return fold(await store.fact_changes(Scope(user_id="me", thread_id=thread)))

    return with_store(cli, load)


# --- looking -------------------------------------------------------------------------------------------------
def test_facts_are_shown_with_age_and_source(quick: Quick) -> None:
    shown = quick("facts", "show", "--scope", "user").stdout
    for words in ("John", "product role", "hiking", "Utrecht", "days ago", "said once", f'"{MOVED[:-1]}"'):
        assert words in shown
    assert "software engineer" not in shown.replace("I work as a software engineer", "")
    assert "thread 'home'" in shown
    assert "confidence 0." in shown
    [likes] = [line for line in shown.splitlines() if "hiking" in line]
    assert "turn " in likes, "a line is whole where nobody looks"


def test_document_and_records_are_json(quick: Quick) -> None:
    assert quick.json("facts", "show", "--scope", "thread") == KNOWN
    assert quick.json("facts", "show") == known(quick, None)
    records = quick.json("facts", "show", "occupation", "--sources")
    assert len(records) == 1
    expected = ("occupation", "product role", True)
    assert (records[0]["path"], records[0]["value"], records[0]["stands"]) == expected
    assert set(records[0]) == set(EVERY_KEY.split())
    assert records[0]["sources"][0]["quote"] in MOVED
    assert quick.json("facts", "show", "nowhere.at_all") is None


def test_history_tells_what_became_of_each_fact(quick: Quick) -> None:
    engineer, product = quick.json("facts", "history", "occupation")
    assert set(product) == set(EVERY_KEY.split())
    assert (engineer["value"], engineer["superseded_by"]) == ("software engineer", product["id"])
    assert (product["old"], product["stands"]) == ("software engineer", True)
    shown = quick("facts", "history").stdout
    assert f"superseded by {product['id']}" in shown
    assert "(was software engineer)" in shown
    assert "by patterns:" in shown
    assert "holds no fact at shoe_size" in quick("facts", "history", "shoe_size").stderr


def test_facts_of_several_speakers_are_told_by_name(remembered: CommandLine, tmp_path: Path) -> None:
    """Looked at, edited and taken back for one of them; without a name it is refused."""
    cli = copied(remembered, tmp_path)
    said = {"Ann": "I work as a nurse.", "Bo": "I work as a pilot."}
    turns = [user(text, speaker=name, thread="kitchen") for name, text in said.items()]
    cli("ingest", cli.file(*turns))
    there = ("--thread", "kitchen")
    here = (*there, "--scope", "thread")
    assert cli.json("facts", "show", *here) == {"Ann": {"occupation": "nurse"}, "Bo": {"occupation": "pilot"}}
    assert cli.json("facts", "show", "occupation", *here) == {"Ann": "nurse", "Bo": "pilot"}
    assert cli.json("facts", "show", "occupation", "--about", "bo", *here) == "pilot"
    assert cli.json("facts", "show", "--about", "Dana", *here) == {}
    shown = cli("facts", "show", *here).stdout
    assert shown.index("Ann") < shown.index("nurse") < shown.index("Bo") < shown.index("pilot")
    assert "Bo, occupation: pilot" in cli("facts", "history", *here).stdout
    assert "about is None" in cli("facts", "set", "occupation", "cook", *there, code=1).stderr
    edited = cli.json("facts", "set", "occupation", "captain", "--about", "Bo", *there)
    assert (edited["before"], edited["after"], edited["record"]["subject"]) == ("pilot", "captain", "Bo")
    cli.follow(f"Undo: {edited['undo']}")
    assert cli.json("facts", "show", "occupation", *here) == {"Ann": "nurse", "Bo": "pilot"}


# --- changing ------------------------------------------------------------------------------------------------
CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "set occupation baker": ("occupation: product role → baker.", {"occupation": "baker"}),
    "set home '{\"rooms\": 3}'": ('home: (nothing) → {"rooms": 3}.', {"home": {"rooms": 3}}),
    "add preferences.likes jazz": (
        'preferences.likes: ["hiking"] → ["hiking", "jazz"].',
        {"preferences": {"meeting_time": "morning", "likes": ["hiking", "jazz"]}},
    ),
    "retract preferences.likes Hiking": (
        'preferences.likes: ["hiking"] → (nothing).',
        {"preferences": {"meeting_time": "morning"}},
    ),
    "revert occupation": ("product role → software engineer.", {"occupation": "software engineer"}),
}


@pytest.mark.parametrize("command", CHANGES)
def test_change_is_told_in_a_line_and_undone_as_it_says(cli: CommandLine, command: str) -> None:
    said, becomes = CHANGES[command]
    made = cli.say(f"facts {command}")
    assert said in made
    assert made.count("\n") == 1
    assert known(cli) == {**KNOWN, **becomes}
    unmade = cli.follow(made)
    assert known(cli) == KNOWN
    cli.follow(unmade)  # undoing is undone as well
    assert known(cli) == {**KNOWN, **becomes}


def test_everything_is_reverted_to_an_event_or_a_time(cli: CommandLine, tmp_path: Path) -> None:
    engineer = next(r for r in cli.json("facts", "history") if r["value"] == "software engineer")["id"]
    made = cli("facts", "revert", "--all", "--to", engineer).stdout
    assert made.startswith("everything: {")
    assert known(cli) == {"name": "John", "occupation": "software engineer"}
    cli.follow(made)
    assert known(cli) == KNOWN
    then = cli.json("facts", "revert", "occupation", "--to", BEFORE_THE_MOVE)
    expected = ["occupation", "product role", "software engineer"]
    assert [then[name] for name in ("path", "before", "after")] == expected
    assert (then["record"]["op"], then["record"]["by"]) == ("revert", "person")
    assert shlex.split(then["undo"])[:3] == ["memory-agent", "facts", "revert"]


def test_impossible_is_one_line_that_says_why(quick: Quick) -> None:
    for command, words in {
        "set '' x": "path is ''",
        "set pet null": "facts retract",
        "retract shoe_size": "known paths: name",
        "revert name --to 99.0": "facts history",
        "revert shoe_size": "nothing in the thread's history is about it",
    }.items():
        refused = quick("facts", *shlex.split(command), code=1)
        assert refused.stdout == ""
        one_line(refused.stderr, words)


# --- extracting ----------------------------------------------------------------------------------------------


def test_language_model_is_asked_counted_and_its_failures_are_told(
    openai_server: ScriptedOpenAI, tmp_path: Path
) -> None:
    cli, quick = CommandLine(tmp_path), Quick(tmp_path)
    model = asking(openai_server, FACT_EXTRACTION_MODEL="scripted-model", MAX_ATTEMPTS="1")
    quick("ingest", "--no-wait", cli.file(user("Before breakfast I walk by the river.")), **model)

    def answer(request: dict[str, Any]) -> str:
        if request["model"] == "scripted-model":
            return "{no JSON"
        walk = add("habits", "walk by the river", "I walk by the river")
        return reply([walk, add("pet", "dog", "I have a dog")])

    openai_server.answer = answer
    cli("worker", "--until-idle", **model)
    assert known(cli) == {}
    assert "{no JSON" in cli("facts", "history", "--refused").stdout
    model["MEMORY_AGENT_FACT_EXTRACTION_MODEL"] = "better-model"
    cli("facts", "reextract", **model)
    habits = {"habits": ["walk by the river"]}
    assert known(cli) == habits
    assert "no message that was asked about" in cli("facts", "history", "--refused").stdout
    assert "extracting facts took" in quick("status", **model).stdout
    cost = quick.json("status", "-u", "me", "-t", "main", **model)["extraction"]
    assert cost["requests"] == 3
    assert cost["tokens_per_turn"] > 0
    model["MEMORY_AGENT_FACT_EXTRACTION_MODEL"] = "scripted-model"
    cli("facts", "reextract", **model)
    assert known(cli) == habits
    model["MEMORY_AGENT_OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
    down = cli("facts", "reextract", "--patience", "1", code=3, **model)
    assert "1 reextract" in down.stderr
    assert known(cli) == habits
