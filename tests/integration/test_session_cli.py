"""Sessions, history, the compressed conversation and the context on the command line: the embedded default. Within this process:
as processes of their own the commands are run by what the pages and `--help` say to type (test_docs).
"""

from __future__ import annotations

import asyncio
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from memory_agent.cli.output import clean
from memory_agent.config import MemoryConfig
from memory_agent.domain import Character
from memory_agent.service import MemoryService
from memory_agent.testing import HashEmbedder
from tests.integration.commands import CommandLine, Quick, copied, looking

LONG_AGO = datetime(2026, 3, 1, 10, tzinfo=UTC)
KOREAN = "라네즈 립 마스크 가격이 2만원으로 올랐어요."
HOSTILE = "The \x1b[2Jpaint is [bold]blue[/bold]\x07 \u202eeht\u202c now."
DECIDED = "We decided to hold the meeting in Utrecht on 12 June 2026."
LATER = "Mia moved to Leeds, and COSRX raised its prices."
SAID = [
    KOREAN,
    DECIDED,
    HOSTILE,
    "I am afraid of the HHI study, it may show what nobody wants to hear.",
    LATER,
    "The boat needs a new mast before we can sail to Terschelling.",
]
NO_COMPRESSION: Any = {"MEMORY_AGENT_ENABLE_COMPRESSION": "false"}
SESSION_KEYS: Final = (
    "id number current explicit started_at last_activity after_seq total_turns compression_count participants"
    " character metadata"
)
ENTRY_KEYS: Final = "tier item tokens score confidence kept reason text"


def conversation() -> list[dict[str, str]]:
    """Twelve turns in one thread, the last four a day later, and one turn in another thread."""
    turns = []
    for number, text in enumerate(SAID):
        at = LONG_AGO + timedelta(minutes=10 * number, days=number // 4)
        turns.append({"role": "user", "content": text, "timestamp": at.isoformat(), "speaker": "Ada"})
        answer = f"Noted as number {number}. " + "That is worth keeping in mind for the next time. " * 6
        turns.append({"role": "assistant", "content": answer, "timestamp": at.isoformat()})
    elsewhere = {"role": "user", "content": "코스알엑스를 써 봤어요.", "thread": "other"}
    return [*turns, {**elsewhere, "timestamp": LONG_AGO.isoformat()}]


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """The conversation, not compressed yet, in a folder that nobody changes."""
    cli = CommandLine(tmp_path_factory.mktemp("sessions"))
    cli("ingest", cli.file(*conversation()), **NO_COMPRESSION)
    return cli


@pytest.fixture(scope="module")
def compressed(tmp_path_factory: pytest.TempPathFactory, remembered: CommandLine) -> Quick:
    """The same compressed once, in a folder that nobody changes."""
    cli = copied(remembered, tmp_path_factory.mktemp("compressed"))
    assert isinstance(cli, Quick)
    asyncio.run(compress(cli))
    return cli


async def compress(cli: CommandLine) -> None:
    """As a program does."""
    cfg = MemoryConfig(data_dir=cli.data, run_worker=False)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        await service.agent("me", "main").compress()


@pytest.fixture
def cli(remembered: CommandLine, tmp_path: Path) -> CommandLine:
    """A copy that a test may change."""
    return copied(remembered, tmp_path)


@pytest.fixture
def quick(remembered: CommandLine) -> Quick:
    """To look with."""
    return looking(remembered)


SAID_OF_AN_EMPTY_THREAD: Final = {
    "session list": "Thread 'empty' of user 'me' has no sessions.",
    "history": "Thread 'empty' of user 'me' has no turns.",
    "history --after 3 --all": "has no turns after 3.",
    "session show --compressed": "has no turns to stand for",
    "session show --compressed --as-of 7": "Thread 'empty' goes up to turn 0: this is how it stands now.",
    "session show --compressed --ledger": "The ledger is empty",
    "ask x --ledger --scope thread": "The ledger is empty",
}
NOTHING: Final[list[Any]] = [[], {"turns": [], "next": None}]


def test_empty_thread_says_so(quick: Quick) -> None:
    """On stderr; as JSON it is empty."""
    for command, told in SAID_OF_AN_EMPTY_THREAD.items():
        shown = quick(*command.split(), "-t", "empty")
        assert told in shown.stderr, command
        assert shown.stdout == ""
        if command not in ("session show --compressed", "session show --compressed --as-of 7"):
            assert quick.json(*command.split(), "-t", "empty") in NOTHING, command


# --- sessions ------------------------------------------------------------------------------------------------
def test_sessions_are_listed_with_their_turns(quick: Quick) -> None:
    first, second = quick.json("session", "list")
    assert [*first] == SESSION_KEYS.split()
    assert (first["number"], first["total_turns"], first["after_seq"]) == (1, 8, 0)
    assert (second["number"], second["total_turns"], second["after_seq"]) == (2, 4, 8)
    assert not any(each["current"] or each["explicit"] for each in (first, second))
    assert first["started_at"] == LONG_AGO.isoformat()
    assert first["last_activity"] == (LONG_AGO + timedelta(minutes=30)).isoformat()
    shown = quick("session", "list", COLUMNS="80").stdout
    assert max(map(len, shown.splitlines())) <= 80
    for each in (first, second):
        assert each["id"] in shown
    assert "2026-03-01 10:30" in shown


async def start(cli: CommandLine, **values: Any) -> None:
    """As a program does."""
    cfg = MemoryConfig(data_dir=cli.data, run_worker=False)
    async with MemoryService(cfg, embedder=HashEmbedder()) as service:
        await service.agent("me", "main").start_session(**values)


def test_a_session_that_a_program_started_is_shown_and_takes_the_turns_that_follow(cli: CommandLine) -> None:
    yuna = Character(name="유나", personality="다정하다", profile="꽃집 주인", traits=("warm", "curious"))
    asyncio.run(start(cli, character=yuna, participants=["Ada", "민지"], metadata={"a": [1]}))
    session = cli.json("session", "show")
    assert [*session["character"].values()] == ["유나", "다정하다", "꽃집 주인", ["warm", "curious"]]
    assert session["participants"] == ["Ada", "민지"]
    assert session["metadata"] == {"a": [1]}
    assert (session["current"], session["explicit"], session["total_turns"]) == (True, True, 0)
    cli("ingest", "--no-wait", cli.file({"role": "user", "content": "Hello again"}))
    page = cli.json("history", "--session", session["id"])
    assert [turn["content"] for turn in page["turns"]] == ["Hello again"]
    shown = cli("session", "show").stdout
    for words_of in ("유나", "다정하다", "꽃집 주인", "warm, curious", "Ada, 민지", '{"a": [1]}', "by hand"):
        assert words_of in shown
    assert "You are 유나." in cli("ask", "who are you", "--context").stdout


# --- history -------------------------------------------------------------------------------------------------
def test_history_is_turned_page_by_page_as_it_says(quick: Quick) -> None:
    whole = quick.json("history", "--all")
    assert whole["next"] is None
    assert [turn["seq"] for turn in whole["turns"]] == list(range(1, 13))
    assert quick.json("history") == whole
    shown = quick("history", "--limit", "5")
    printed = shown.stdout.splitlines()
    while match := re.search(r"go on after (\d+): memory-agent (.*)\n", shown.stderr):
        assert isinstance(quick, Quick)
        assert int(match[1]) == len(printed)
        shown = quick.run(shlex.split(match[2]))
        printed += shown.stdout.splitlines()
    assert [int(line.split()[0]) for line in printed] == list(range(1, 13))
    assert printed == quick("history", "--all").stdout.splitlines()
    first = quick.json("history", "--limit", "5")
    assert (len(first["turns"]), first["next"]) == (5, 5)
    last = quick.json("history", "--after", "5", "--limit", "7")
    assert ([turn["seq"] for turn in last["turns"]], last["next"]) == ([6, 7, 8, 9, 10, 11, 12], None)
    assert quick.json("history", "--after", "12") == {"turns": [], "next": None}
    turn = first["turns"][0]
    assert (turn["content"], turn["speaker"], turn["timestamp"]) == (KOREAN, "Ada", LONG_AGO.isoformat())
    sessions = quick.json("session", "list")
    assert turn["session"] == sessions[0]["id"]
    second = sessions[1]["id"]
    assert [turn["seq"] for turn in quick.json("history", "--session", second)["turns"]] == [9, 10, 11, 12]
    page = quick("history", "--session", second, "--limit", "3")
    assert f"history --data-dir {quick.data} --session {second} --after 11 --limit 3" in page.stderr


def test_what_was_said_cannot_steer_the_terminal(compressed: Quick, tmp_path: Path) -> None:
    """Nor do names of sessions and facts."""
    shown = compressed("history").stdout
    assert KOREAN in shown
    assert "The \ufffd[2Jpaint is [bold]blue[/bold]\ufffd \ufffdeht\ufffd now." in shown
    assert "paint is [bold]blue[/bold]" in compressed("session", "show", "--compressed").stdout
    for command in (
        "history --json",
        "session show --compressed",
        "session show --compressed --json",
        "ask paint --context",
    ):
        everything = shown + compressed.say(command)
        assert not [char for char in "\x1b\x07\u202e\u202c" if char in everything]
    cli = Quick(tmp_path)
    evil = "Yu\x1b[2Jna"
    cli("facts", "set", "city\x1b", evil)
    asyncio.run(start(cli, character=Character(name=evil), participants=[evil], metadata={"a": evil}))
    for command in ("session list", "session show", "session show --compressed", "ask who --ledger"):
        assert "\x1b" not in cli(*command.split()).stdout
        assert "\x1b" not in cli(*command.split(), "--json").stdout
    assert "Yu\ufffd[2Jna" in cli("session", "show").stdout


# --- compression ---------------------------------------------------------------------------------------------
def test_compressed_context_stands_for_the_conversation(compressed: Quick) -> None:
    shown = compressed.json("session", "show", "--compressed")
    assert compressed("session", "show", "--compressed").stdout == clean(shown["text"]) + "\n"
    about = shown["metadata"]
    assert (about["original_turns"], about["compressed_at"], about["number"]) == (12, 12, 1)
    assert about["tokens_saved"] == about["tokens_before"] - about["tokens_after"] > 0
    assert about["tokens_after"] == shown["tokens"] <= shown["budget"]
    assert {"kind", "text", "first_seq", "last_seq", "participants", "importance", "said_at"} == set(
        shown["summary"][0]
    )
    assert (
        "summary: from compression 1, up to turn 12, by extractive:"
        in compressed("session", "show", "--compressed").stderr
    )
    ledger = compressed.json("session", "show", "--compressed", "--ledger")
    assert sorted(map(str, ledger)) == sorted(map(str, shown["ledger"]))
    assert sum(entry["tokens"] for entry in ledger if entry["kept"]) == shown["tokens"]


# --- the context ---------------------------------------------------------------------------------------------
def test_ledger_shows_what_was_kept_first_and_adds_up(compressed: Quick) -> None:
    ledger = compressed.json("ask", "Where does Mia live?", "--ledger", "--max-tokens", "400")
    assert all([*entry] == ENTRY_KEYS.split() for entry in ledger)
    kept = [entry["kept"] for entry in ledger]
    assert kept == sorted(kept, reverse=True)
    assert set(kept) == {True, False}
    whole = compressed.json("ask", "Where does Mia live?", "--context", "--max-tokens", "400")
    assert set(whole) == {"text", "tokens", "budget", "preset", "degraded", "ledger"}
    assert sum(entry["tokens"] for entry in ledger if entry["kept"]) == whole["tokens"] <= 400
    table = compressed("ask", "Where does Mia live?", "--ledger", "--max-tokens", "400")
    head, *rows = table.stdout.splitlines()
    assert head.split() == ["tier", "in", "tokens", "score", "sure", "reason", "what", "it", "says"]
    assert len(rows) == len(ledger), "a line is whole where nobody looks"
    for row, entry in zip(rows, ledger, strict=True):
        assert row.split()[0] == entry["tier"]
        assert entry["reason"] in row
        assert " ".join(clean(entry["text"] or entry["item"]).split()) in row
    assert any("Mia" in entry["text"] for entry in ledger)
    assert f"{whole['tokens']} of 400 tokens, preset balanced" in table.stderr
