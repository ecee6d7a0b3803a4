"""The command line as people run it: processes of its own, the embedded default, the real model."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from memory_agent.cli.chat import INSTRUCTIONS
from memory_agent.demo import questions
from tests.integration.commands import MONDAY, SECONDS, CommandLine, Quick, asking, looking, user
from tests.servers.openai_script import Reply, ScriptedOpenAI


def test_demo_is_shown_to_people_and_kept_where_they_want_it(cli: CommandLine) -> None:
    shown = cli("demo", "--keep", "kept", VIRTUAL_ENV="").stdout
    assert "All 9 questions found their turn" in shown
    assert (shown.count("✓"), shown.count("✗")) == (10, 0)
    assert len({*re.findall(r"Process (\d+)", shown)}) == 2
    assert "weeks earlier" in shown
    kept = CommandLine(cli.folder)
    kept.data = cli.folder / "kept"
    assert kept.json("facts", "show", "-u", "mara", "-t", "diary")["name"] == "Mara"
    lines = shown.partition("Type next:\n")[2].splitlines()
    activate, ask, chat = (line.removeprefix("   ") for line in lines)
    assert activate == f"source {Path(sys.prefix) / 'bin' / 'activate'}"
    assert (Path(sys.prefix) / "bin" / "memory-agent").is_file()
    answered, ended = (cli.run(shlex.split(line.removeprefix("memory-agent "))) for line in (ask, chat))
    assert questions()[0].expected in answered.stdout
    assert "Bye" in ended.stderr


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """A memory with one file in it, for the tests that read; loading the model takes most of a command's time."""
    cli = CommandLine(tmp_path_factory.mktemp("remembered"))
    file = cli.file(
        user(MONDAY, timestamp="2026-03-01T10:00:00+01:00"),
        {"role": "assistant", "content": "I'll remind you."},
        user("My name is Ada Byron.", thread="names"),
    )
    assert cli.json("ingest", file)["turns"] == 3
    return cli


@pytest.fixture(scope="module")
def look(remembered: CommandLine) -> Quick:
    return looking(remembered)


def test_same_file_is_not_stored_twice(remembered: CommandLine, look: Quick) -> None:
    file = str(remembered.folder / "turns.jsonl")
    assert remembered("ingest", file).stdout == "3 turns: already there.\n"
    again = look.json("ingest", file)
    assert (again["turns"], again["new"], again["already_there"]) == (3, 0, 3)
    counts = [look.json("status", *of)["turns"] for of in ([], ["-u", "me"], ["-u", "me", "-t", "main"])]
    assert counts == [3, 3, 2]


def test_question_finds_the_turn_with_its_date_and_why(remembered: CommandLine, look: Quick) -> None:
    """Two lines without colours where no terminal is; the signals are behind --why, which shows the id as well."""
    question = "When does somebody tune the piano?"
    best = remembered.json("ask", question)[0]
    assert best["turn"]["content"] == MONDAY
    assert best["turn"]["timestamp"] == "2026-03-01T09:00:00+00:00"
    assert set(best["why"]) >= {"meaning", "words"}
    assert sum(best["why"].values()) == pytest.approx(best["score"], abs=1e-4)
    assert best["similarity"] > 0.3
    assert "matches the question word by word" in best["explanation"]
    lines = remembered("ask", question, "-k", "1").stdout.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("  2026-03-01 09:00  user")
    assert lines[1] == f"    {MONDAY}"
    assert "\x1b" not in "".join(lines)
    why = look("ask", question, "-k", "1", "--why").stdout.splitlines()
    assert why[:2] == lines
    assert "matches the question word by word" in why[2]
    assert best["turn"]["id"] in why[2]
    elsewhere = look("ask", question, "-k", "1", "-t", "names").stdout
    assert elsewhere.startswith(f"{lines[0]}  in main\n")
    assert MONDAY not in look("ask", question, "--scope", "thread", "-t", "names").stdout
    assert MONDAY in look("ask", "piano", "--context").stdout
    elsewhere = look("ask", "piano", "--context", "-t", "new").stdout
    assert f"[1 March 2026, another conversation]\nuser: {MONDAY}\n" in elsewhere
    assert look("ask", "piano", "--context", "-t", "new", "--scope", "thread").stdout.strip() == ""


def test_answers_come_by_how_sure_they_are_without_those_that_hardly_are(look: Quick) -> None:
    """What is left out is counted, and shown when asked for."""
    few, every = (
        look("ask", "When does the piano tuner come?", "-t", "main", *more) for more in ([], ["--all"])
    )
    sure = [
        float(line.split()[1]) for line in every.stdout.splitlines() if line[:4].strip().rstrip(".").isdigit()
    ]
    assert sure == sorted(sure, reverse=True)
    assert len(sure) == 3
    hidden = sum(each < 0.02 for each in sure)
    assert hidden
    assert f"{hidden} turn" in few.stderr
    assert "--all shows them" in few.stderr
    assert every.stdout.startswith(few.stdout)
    assert "--all" not in every.stderr


def test_in_80_columns_words_are_bold_and_the_ledgers_columns_whole(remembered: CommandLine) -> None:
    asked = remembered.command("ask", "When does the piano tuner call?", "-k", "1")
    shown = in_terminal(f"stty cols 80; exec {shlex.join(asked)}", remembered)
    assert "The \x1b[1mpiano\x1b[0m \x1b[1mtuner\x1b[0m comes on Monday at ten." in shown
    ledger = remembered.forked("ask", "When does the piano tuner come?", "--ledger")
    plainly = plain(in_terminal(f"stty cols 80; exec {shlex.join(ledger)}", remembered, COLUMNS="80"))
    assert re.search(r"^short_term +yes +\d+ +in the window", plainly, re.MULTILINE), plainly
    assert all(len(line.rstrip()) <= 80 for line in plainly.splitlines())


def plain(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


def in_terminal(script: str, cli: CommandLine, **settings: str) -> str:
    """What the shell script shows in a terminal of its own."""
    import pty

    colours = ("NO_COLOR", "FORCE_COLOR")
    environment = {k: v for k, v in cli.environment.items() if k not in colours} | {
        "TERM": "xterm",
        **settings,
    }
    ours, theirs = pty.openpty()
    shown = b""
    with subprocess.Popen(
        ["sh", "-c", script], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=cli.folder
    ) as shell:
        os.close(theirs)
        with contextlib.suppress(OSError):  # the end of a terminal
            while part := os.read(ours, 65_536):
                shown += part
    os.close(ours)
    assert shell.returncode == 0, shown.decode()
    return shown.decode()


def test_bad_line_stops_the_whole_file_unless_it_is_to_be_skipped(quick: Quick) -> None:
    file = quick.file(user(MONDAY), "{broken", {"role": "Ada", "content": "Hi"})
    refused = quick("ingest", file, code=1)
    assert "line 2: is not JSON" in refused.stderr
    assert "line 3: role is 'Ada'" in refused.stderr
    assert not quick.data.exists()
    assert quick.json("ingest", file, "--skip-bad", "--no-wait", code=3)["skipped"][0]["where"] == "line 2"
    assert quick.json("status")["turns"] == 1


def test_owed_work_is_left_to_a_worker_that_ends_when_nothing_is_owed(cli: CommandLine) -> None:
    assert "stored" in cli("ingest", "-", "--no-wait", stdin=json.dumps([user(MONDAY)])).stdout
    assert sum(cli.json("status")["pending"].values()) == 5
    assert cli.json("retry", "--no-wait")["turns"] == 0
    cli("worker", "--until-idle")
    status = cli.json("status")
    assert status["turns"] == 1
    assert sum(status["pending"].values()) == 0


def test_chat_without_a_model_shows_the_context_and_remembers(cli: CommandLine) -> None:
    said = cli("chat", stdin=f"{MONDAY}\nWhen comes the tuner?\n/facts\n/quit\n")
    assert MONDAY in said.stdout
    assert cli.json("status", "-u", "me", "-t", "main")["turns"] == 2
    assert "Bye" in cli("chat", stdin="").stderr, "at the end of its input"


@pytest.mark.nightly
def test_chat_ends_cleanly_on_ctrl_c(cli: CommandLine) -> None:
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        cli.command("chat"),
        cwd=cli.folder,
        env={**cli.environment, "PYTHONFAULTHANDLER": "1"},
        # Where tests run in a shell's background, SIGINT is ignored, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as chat:
        assert chat.stderr is not None
        while "/quit" not in chat.stderr.readline():
            pass
        time.sleep(0.3)
        chat.send_signal(signal.SIGINT)
        try:
            assert chat.wait(timeout=SECONDS) == 0
        except subprocess.TimeoutExpired:
            chat.send_signal(signal.SIGABRT)  # it then says where each of its threads is
            pytest.fail(chat.stderr.read())
        assert "Bye" in chat.stderr.read()
    os.close(ours)
    os.close(theirs)


def test_chat_with_a_model_shows_its_answers(cli: CommandLine, openai_server: ScriptedOpenAI) -> None:
    """The model is sent what was remembered with the question; its answer is shown and both are kept."""

    def answer(request: dict[str, Any]) -> str:
        messages = request["messages"]
        if not messages[0]["content"].startswith(INSTRUCTIONS):
            return "{}"  # asked for facts
        return "Noted, maestro." if messages[-1]["content"] == MONDAY else "At ten, maestro."

    openai_server.answer = answer
    model = asking(openai_server, FACT_EXTRACTION_MODEL="scripted-model")
    said = cli("chat", stdin=f"{MONDAY}\nWhen comes the tuner?\n/quit\n", **model)
    assert "Noted, maestro." in said.stdout
    assert "At ten, maestro." in said.stdout
    assert MONDAY not in said.stdout, "the context is for the model"
    first, second = (
        chat for chat in openai_server.chats if chat["messages"][0]["content"].startswith(INSTRUCTIONS)
    )
    assert first["model"] == second["model"] == "scripted-model"
    assert MONDAY not in first["messages"][0]["content"]
    for remembered_before in (MONDAY, "Noted, maestro."):
        assert remembered_before in second["messages"][0]["content"]
    assert second["messages"][-1] == {"role": "user", "content": "When comes the tuner?"}
    assert cli.json("status", "-u", "me", "-t", "main")["turns"] == 4
    context = cli("ask", "Who plays?", "--context", **model).stdout
    for kept in (MONDAY, "Noted, maestro.", "When comes the tuner?", "At ten, maestro."):
        assert kept in context


def test_chat_goes_on_when_the_model_fails(cli: CommandLine, openai_server: ScriptedOpenAI) -> None:
    """A model that answers errors costs the answer only: it is said, and what was said is kept."""
    openai_server.answer = lambda _: Reply(status=400, text="out of tune")
    failed = cli("chat", stdin=f"{MONDAY}\n/quit\n", **asking(openai_server))
    assert "out of tune" in failed.stderr
    assert "what you said is remembered" in failed.stderr
    assert cli.json("status")["turns"] == 1


def test_killed_ingest_is_completed_by_a_second_run(cli: CommandLine) -> None:
    """kill -9 while a file is stored, then the same command again: every line is there once, in the file's order."""
    lines = [f"Line {number} of the ledger." for number in range(1_500)]
    file = cli.file(*map(user, lines))
    database = cli.data / "memory_agent.sqlite3"
    # Among the earlier batches of 100, wherever the process is at that moment.
    enough = random.randint(1, 1_000)
    with subprocess.Popen(
        cli.command("ingest", file, "--no-wait"), cwd=cli.folder, env=cli.environment
    ) as ingest:
        while turns_in(database) < enough:
            assert ingest.poll() is None, "it ended before it could be killed"
            time.sleep(0.001)
        ingest.kill()
    assert ingest.returncode == -signal.SIGKILL
    assert enough <= cli.json("status")["turns"] < 1_500
    there = cli.json("status")["turns"]
    for said in (f"{1_500 - there:,} new, {there:,} already there", "1,500 turns: already there"):
        assert said in cli("ingest", file, "--no-wait").stdout
        assert cli.json("status")["turns"] == 1_500
    with contextlib.closing(sqlite3.connect(database)) as connection:
        stored = connection.execute("SELECT content FROM turns ORDER BY seq").fetchall()
    assert [content for (content,) in stored] == lines


def turns_in(database: Path) -> int:
    """How many turns another process has stored so far."""
    if not database.exists():
        return 0
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM turns").fetchone()[0])
        except sqlite3.OperationalError:  # it has no tables yet
            return 0


def test_forgotten_is_counted_and_gone(quick: Quick) -> None:
    turns = (user(MONDAY), user("The violin stays."), user("Rain.", thread="weather"))
    quick("ingest", "--no-wait", quick.file(*turns))
    assert quick.json("forget", "--whole-thread", "--thread", "weather", "--yes")["turns"] == 1
    assert quick.json("status")["turns"] == 2
    found = quick.json("ask", "violin", "-k", "1")[0]["turn"]["id"]
    unknown = quick("forget", "--turn", found, "--turn", "no-such-turn", "--yes", code=1)
    assert "no turn 'no-such-turn'" in unknown.stderr
    assert "nothing was erased" in unknown.stderr
    assert quick.json("status")["turns"] == 2
    assert quick.json("forget", "--turn", found, "--yes")["turns"] == 1
    assert "forgotten already" in quick("forget", "--turn", found, "--yes", code=1).stderr
    assert quick.json("forget", "--whole-user", "--yes", "--wait")["state"] == "erased"
    assert {one["state"] for one in quick.json("erasures")} == {"erased"}
    assert quick.json("status")["turns"] == 0
