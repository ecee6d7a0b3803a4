"""The command line without stores: help, usage, reading files of turns, what is printed."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import shlex
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer.main
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner

from memory_agent.cli.answers import Passage, marked, passage_of, print_answers
from memory_agent.cli.app import GROUPS, app
from memory_agent.cli.ask import shortened
from memory_agent.cli.demo import activation
from memory_agent.cli.facts import fact_value
from memory_agent.cli.forget import SweepOptions, print_action, report_as_json, tell
from memory_agent.cli.ingest import BATCH_TURNS, batches_of
from memory_agent.cli.output import (
    CountColumn,
    SettleProgress,
    clean,
    in_words,
    print_facts,
    recollection_as_json,
)
from memory_agent.cli.status import print_status, status_as_json
from memory_agent.cli.turn_files import TurnFile, read_turns
from memory_agent.config import MemoryConfig
from memory_agent.demo import TOP_K, conversation, questions, sessions
from memory_agent.domain import (
    ExtractionCost,
    LedgerEntry,
    MemoryStatus,
    PackedSize,
    ParkedTurn,
    Recollection,
    Scope,
)
from memory_agent.text.terms import count_terms
from memory_agent.topics.sweep_plan import SweepAction, SweepReport
from tests.unit.examples import examples
from tests.unit.search.builders import turn as stored_turn

if TYPE_CHECKING:
    from memory_agent.domain.context import Tier


def commands_of(group: Any, *above: str) -> list[str]:
    """All commands, with the groups that they are in."""
    if not hasattr(group, "commands"):
        return [" ".join(above)]
    return [name for part, inner in group.commands.items() for name in commands_of(inner, *above, part)]


ALL_COMMANDS = commands_of(typer.main.get_command(app))
ROOT = Path(__file__).parents[2]
runner = CliRunner()


@pytest.fixture(autouse=True)
def _in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def lines(*items: object) -> bytes:
    return "\n".join(item if isinstance(item, str) else json.dumps(item) for item in items).encode()


def turn(content: Any = "Hello", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


# --- help and usage ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_help_of_every_command_shows_examples(command: str) -> None:
    result = runner.invoke(app, [*command.split(), "--help"])
    assert result.exit_code == 0
    assert "Examples" in result.output
    assert f"memory-agent {command}" in plain(result.output)


def test_help_says_what_the_exit_codes_mean() -> None:
    result = runner.invoke(app, ["--help"])
    assert "Exit codes" in plain(result.output)
    assert len(ALL_COMMANDS) > 40
    assert all(command.split()[0] in result.output for command in ALL_COMMANDS)
    for code in ("0 done", "1 failed", "2 wrong usage", "3 done but", "4 another sweep", "130 interrupted"):
        assert code in " ".join(plain(result.output).split())


def test_every_command_is_in_a_group_and_the_groups_are_shown_in_order() -> None:
    shown = plain(runner.invoke(app, ["--help"], env={"COLUMNS": "100"}).output)
    heads = re.findall(r"^╭─ (.*?) ─", shown, flags=re.MULTILINE)
    assert heads == ["Options", *GROUPS]
    names = re.findall(r"^│ ([a-z]+) ", shown.partition("Start here")[2], flags=re.MULTILINE)
    assert names == [name for group in GROUPS.values() for name in group]


def test_version_is_that_of_the_package() -> None:
    result = runner.invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"memory-agent {metadata.version('memory-agent')}\n")


def test_every_command_is_in_the_manual_s_list() -> None:
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `([a-z]+(?: [a-z]+)?)", page, flags=re.MULTILINE))
    assert set(ALL_COMMANDS) <= listed
    assert set(re.findall(r"^\| (\d+) \|", page, flags=re.MULTILINE)) == {"0", "1", "2", "3", "4", "130"}


@pytest.mark.parametrize("call", examples("cli.toml")["wrong_usage"])
def test_wrong_usage_leaves_with_2(call: str) -> None:
    assert runner.invoke(app, shlex.split(call)).exit_code == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("morning", "morning"),
        ("3", 3),
        ("true", True),
        ('["tea", {"a": null}]', ["tea", {"a": None}]),
        ("0031 30", "0031 30"),
        ("NaN", "NaN"),
        ("[" * 100_000, "[" * 100_000),
    ],
    ids=lambda value: str(value)[:20],
)
def test_value_is_json_if_it_can_be(text: str, value: object) -> None:
    assert fact_value(text, as_text=False) == value
    assert fact_value(text, as_text=True) == text


def test_the_environment_to_put_in_use_is_named_as_seen_from_here(tmp_path: Path) -> None:
    """By a short path where it lies below; not at all if it is in use, or if there is none."""
    prefix, here = tmp_path / "my project" / ".venv", tmp_path / "my project"
    assert activation(prefix, here, None) == []
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "activate").touch()
    assert activation(prefix, here, None) == ["source .venv/bin/activate"]
    assert activation(prefix, here, str(tmp_path / "other")) == ["source .venv/bin/activate"]
    assert activation(prefix, tmp_path, None) == ["source 'my project/.venv/bin/activate'"]
    assert activation(prefix, tmp_path / "elsewhere", None) == [f"source '{prefix}/bin/activate'"]
    assert activation(prefix, here, str(prefix)) == []


def test_demo_refuses_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = runner.invoke(app, ["demo", "--keep", str(tmp_path)])
    assert result.exit_code == 2
    assert (tmp_path / "file").exists()


def test_impossible_setting_is_one_line_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_AGENT_MAX_ATTEMPTS", "0")
    result = runner.invoke(app, ["status"])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert plain(result.stderr).count("\n") == 1
    assert "max_attempts: must be a whole number" in result.stderr


def test_forget_asks_first() -> None:
    result = runner.invoke(app, ["forget", "--whole-user", "--user", "ada"], input="n\n")
    assert result.exit_code == 1
    assert "everything of user 'ada'" in result.output


# --- files of turns ------------------------------------------------------------------------------------------


def contents(file: TurnFile) -> list[str]:
    return [read.turn.content for read in file.turns]


def test_lines_of_turns_are_read_with_all_they_say() -> None:
    line = turn(
        speaker="Ada",
        timestamp="2026-03-01T18:30:00+01:00",
        metadata={"a": 1},
        importance=0.2,
        thread="t",
        user="u",
    )
    file = read_turns(lines(line, "", turn("Bye", role="assistant")))
    assert file.bad == ()
    first = file.turns[0]
    assert (first.turn.speaker, first.turn.metadata, first.turn.importance) == ("Ada", {"a": 1}, 0.2)
    assert first.turn.timestamp == datetime(2026, 3, 1, 17, 30, tzinfo=UTC)
    assert (first.thread, first.user) == ("t", "u")
    assert contents(file) == ["Hello", "Bye"]


@pytest.mark.parametrize(
    "data",
    [
        json.dumps([turn("a"), turn("b", role="assistant")]).encode(),
        json.dumps([turn("a"), turn("b", role="assistant")], indent=2).encode(),
        lines({"messages": [turn("a"), turn("b", role="assistant")]}),
        lines({"messages": [turn("a")]}, {"messages": [turn("b", role="assistant")]}),
        b"\xef\xbb\xbf" + lines(turn("a"), turn("b", role="assistant")),
        lines(turn("a"), turn("b", role="assistant")).replace(b"\n", b"\r\n"),
    ],
    ids=["array", "indented array", "conversation", "conversations", "byte order mark", "windows line ends"],
)
def test_every_form_gives_the_same_turns(data: bytes) -> None:
    file = read_turns(data)
    assert file.bad == ()
    assert [(read.turn.role, read.turn.content) for read in file.turns] == [("user", "a"), ("assistant", "b")]


def test_content_in_parts_becomes_text_and_other_parts_leave_their_type() -> None:
    parts = [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "data:"}}, "here"]
    assert contents(read_turns(lines(turn(parts)))) == ["Look:\n[image_url]\nhere"]


def test_name_of_a_chat_message_is_its_speaker() -> None:
    assert read_turns(lines(turn(name="Ada"))).turns[0].turn.speaker == "Ada"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("not json", "is not JSON"),
        (["a"], "is a list"),
        ("5", "is a int"),
        ({"role": "user"}, "no content"),
        (turn(None), "content must be text"),
        (turn([{"no": "type"}]), "part that is neither"),
        (turn(role="Ada"), "speaker for a person's name"),
        (turn(role="narrator"), "use one of user, assistant, system, tool"),
        (turn(timestamp="2026-03-01T18:30:00"), "write ISO 8601 with a zone"),
        (turn(timestamp="yesterday"), "ISO 8601"),
        (turn(timestamp=5), "ISO 8601"),
        (turn(metadata={"$a": 1}), "not starting with"),
        (turn(importance="high"), "importance is 'high'"),
        (turn(time="2026"), "has the key 'time'; known are"),
        (turn(thread=""), "thread is empty"),
        ({"messages": "none"}, "must be a list"),
    ],
)
def test_bad_line_is_reported_by_number_and_reason(line: object, reason: str) -> None:
    file = read_turns(lines(turn("good"), line, turn("good too")))
    assert contents(file) == ["good", "good too"]
    assert [bad.where for bad in file.bad] == ["line 2"]
    assert reason in file.bad[0].reason


def test_bad_message_of_a_conversation_is_reported_by_line_and_number() -> None:
    file = read_turns(lines(turn(), {"messages": [turn(), turn(5)]}))
    assert [bad.where for bad in file.bad] == ["line 2, message 2"]


@pytest.mark.parametrize(
    "said",
    [
        turn(""),
        turn(" \n"),
        turn("\u200b\u2060"),
        turn([]),
        turn([{"type": "text", "text": " "}]),
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1"}]},
        {"role": "assistant", "content": None, "function_call": {"name": "look"}},
    ],
    ids=["empty", "blank", "invisible", "no parts", "a blank part", "a call", "an old call"],
)
def test_message_without_anything_to_see_is_left_out_and_counted(said: dict[str, Any]) -> None:
    file = read_turns(lines(turn("a"), said, turn("b"), said))
    assert (contents(file), file.bad, file.invisible) == (["a", "b"], (), 2)


def test_roles_go_by_their_names_in_frameworks() -> None:
    names = ["human", "ai", "model", "developer", "function", "user"]
    file = read_turns(lines(*(turn(role=name) for name in names)))
    roles = [read.turn.role for read in file.turns]
    assert roles == ["user", "assistant", "assistant", "system", "tool", "user"]


@pytest.mark.parametrize("data", [b"[", b"[{}] x", b"[" * 100_000])
def test_broken_array_is_one_bad_file(data: bytes) -> None:
    assert [bad.where for bad in read_turns(data).bad] == ["the file"]


def test_file_that_is_not_text_is_reported_with_its_line() -> None:
    assert read_turns(b'{"role": "user"}\n\xff').bad[0].where == "line 2"


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_file_makes_the_reader_fail(data: bytes) -> None:
    file = read_turns(data)
    assert len(file.turns) + len(file.bad) + file.invisible <= len(data)


# --- batches -------------------------------------------------------------------------------------------------


def batches(data: bytes) -> list[Any]:
    return batches_of(read_turns(data), data, user_id="me", thread_id="main")


def test_batches_hold_every_turn_once_in_order_by_thread() -> None:
    data = lines(*(turn(str(i), thread="ab"[i % 2]) for i in range(2 * BATCH_TURNS + 10)))
    found: dict[str, list[int]] = {}
    for batch in batches(data):
        assert 1 <= len(batch.turns) <= BATCH_TURNS
        found.setdefault(batch.thread_id, []).extend(int(t.content) for t in batch.turns)
    assert found == {"a": list(range(0, 210, 2)), "b": list(range(1, 210, 2))}


def test_keys_are_the_same_in_every_run_and_differ_within_one() -> None:
    data = lines(*(turn(str(i)) for i in range(250)))
    keys = [batch.key for batch in batches(data)]
    assert keys == [batch.key for batch in batches(data)]
    assert len(set(keys)) == 3


def test_keys_differ_between_files() -> None:
    assert batches(lines(turn("a")))[0].key != batches(lines(turn("b")))[0].key


# --- what is printed -----------------------------------------------------------------------------------------


def test_remembered_control_characters_do_not_reach_the_terminal() -> None:
    assert clean("a\x1b[31mb\x07\x9b\nc\td") == "a\ufffd[31mb\ufffd\ufffd\nc\td"


def recollection(content: str) -> Recollection:
    return Recollection(
        turn=stored_turn(1, content, speaker="Ada", thread_id="main"),
        score=0.75,
        confidence=0.4,
        why={"meaning": 0.5, "words": 0.25},
        explanation="means something alike (67%); shares the word ping\x07 (33%)",
        similarity=0.5,
    )


def shown_answers(capsys: pytest.CaptureFixture[str], *contents: str, **how: Any) -> str:
    found = [recollection(content) for content in contents]
    options = {"language": "english", "threads": False, "why": False, **how}
    print_answers("When does the piano tuner come?", found, **options)
    return capsys.readouterr().out


def test_recollection_is_two_lines_with_when_who_and_the_passage(capsys: pytest.CaptureFixture[str]) -> None:
    shown = shown_answers(capsys, "Not [bold]markup[/bold]: \x1b[2J", "Second.")
    assert shown == (
        " 1. 0.40  2026-05-03 14:21  Ada\n    Not [bold]markup[/bold]: \ufffd[2J\n"
        " 2. 0.40  2026-05-03 14:21  Ada\n    Second.\n"
    )


def test_recollections_of_several_threads_name_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Ada  in main\n" in shown_answers(capsys, "Hello.", threads=True)


def test_why_shows_the_whole_turn_and_what_it_was_found_by(capsys: pytest.CaptureFixture[str]) -> None:
    shown = shown_answers(capsys, f"One line.\n{'word ' * 100}end", why=True)
    assert "\n    One line.\n    word word" in shown
    assert (
        "word end\n    means something alike (67%); shares the word ping\ufffd (33%)  [turn turn1]\n" in shown
    )


LONG = (
    "I was at the market and bought far too many apples, as one does in October. Did you see the piano? "
    "The tuner comes on Monday at ten, he said so himself on the phone. After that we bake a cake together."
)


def passage(text: str, cells: int = 76) -> str:
    return passage_of(text, asked_terms(), "english", cells=cells).text


def asked_terms() -> frozenset[str]:
    return frozenset(count_terms("When does the piano tuner come?"))


def test_passage_is_around_the_sentence_that_answers() -> None:
    """A question that shares as much is none; the cut is between words, and what is left out leaves its mark."""
    shown = passage(LONG)
    assert "The tuner comes on Monday at ten" in shown
    assert len(shown) <= 76
    assert all(word in LONG for word in shown.strip("…").split())
    assert passage("Short.") == "Short."
    assert passage("Two\nlines  here.") == "Two lines here."


@given(st.text(max_size=400) | st.text("ab .?\n漢字ก", max_size=400), st.integers(10, 120))
def test_passage_of_any_text_fits_and_is_part_of_it(text: str, cells: int) -> None:
    shown, (start, end) = passage_of(text, asked_terms(), "english", cells=cells)
    assert shown.strip("…") in " ".join(text.split())
    assert 0 <= start <= end <= len(shown)
    assert "\n" not in shown
    assert cell_len(shown) <= 2 * cells


def test_words_that_the_question_has_too_are_bold_and_what_surrounds_the_answer_dim() -> None:
    found = Passage("Hm. The tuners come at ten!", (4, 27))
    marks = [(found.text[s.start : s.end], s.style) for s in marked(found, asked_terms(), "english").spans]
    assert [word for word, style in marks if style == "bold"] == ["tuners", "come"]
    assert "Hm. " in [word for word, style in marks if style == "dim"]


def test_words_of_scripts_without_spaces_are_marked_too() -> None:
    asked = frozenset(count_terms("調律師はいつ来ますか"))
    found = Passage("調律師は月曜日に来ます", (0, 11))
    bold = {found.text[s.start : s.end] for s in marked(found, asked, "english").spans if s.style == "bold"}
    assert {"調律", "律師"} <= bold
    assert "曜日" not in bold


def test_progress_counts_turns_and_not_stages() -> None:
    """Of a file of 72 turns in two threads; other turns owed to a thread don't count."""
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with Progress(console=console, auto_refresh=False) as progress:
        moved = SettleProgress(progress, 72)
        moved(owing(index=60, owed=60), of=60)
        moved(owing(index=10, owed=70), of=60)
        searchable, done = progress.tasks
        assert (searchable.completed, searchable.total) == (50, 72)
        assert (done.completed, done.total) == (0, 72)
        moved(owing(index=0, owed=0), before=60, of=12)
        assert (searchable.completed, done.completed) == (72, 72)


def test_progress_of_work_of_unknown_size_counts_from_what_was_owed_at_most() -> None:
    with Progress(console=Console(file=io.StringIO()), auto_refresh=False) as progress:
        moved = SettleProgress(progress, None)
        moved(owing(index=0, owed=5))
        searchable, done = progress.tasks
        assert not searchable.visible
        moved(owing(index=0, owed=2))
        assert (done.visible, done.completed, done.total) == (True, 3, 5)


def owing(*, index: int = 0, owed: int = 0) -> MemoryStatus:
    return MemoryStatus(
        turns=100,
        pending={"index": index, "topics": owed},
        owed_count=owed,
        parked_count=0,
        parked=(),
        lag_seconds=0.0,
        erasures=0,
    )


def test_settings_are_listed_with_where_they_come_from_and_no_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "memory.toml").write_text("short_term_window = 3\n")
    monkeypatch.setenv("MEMORY_AGENT_TOP_K_MEMORIES", "8")
    monkeypatch.setenv("MEMORY_AGENT_OPENAI_API_KEY", "sk-hunter2")
    result = runner.invoke(app, ["settings", "--json", "--data-dir", "here"])
    assert "hunter2" not in result.output
    rows = {row["setting"]: row for row in json.loads(result.stdout)}
    assert set(rows) == set(MemoryConfig.model_fields)
    assert [
        rows[name]["from"] for name in ("data_dir", "top_k_memories", "short_term_window", "db_name")
    ] == [
        "--data-dir",
        "environment",
        "file",
        "default",
    ]
    assert rows["top_k_memories"]["value"] == 8
    assert rows["openai_api_key"]["value"] == "(secret)"
    assert rows["max_attempts"]["may_be"] == "a whole number, at least 1 and at most 100"
    assert not Path("here").exists()


def test_settings_may_be_asked_for_by_part_of_a_name() -> None:
    shown = runner.invoke(app, ["settings", "topk"])
    assert shown.exit_code == 1
    shown = runner.invoke(app, ["settings", "top_k"])
    assert "top_k_memories" in shown.stdout
    assert "max_attempts" not in shown.stdout


def test_recollection_as_json_has_its_signals_and_the_explanation() -> None:
    found = recollection_as_json(recollection("hello"))
    assert (found["score"], found["similarity"]) == (0.75, 0.5)
    assert found["why"] == {"meaning": 0.5, "words": 0.25}
    assert found["explanation"].startswith("means something alike (67%)")
    assert found["turn"]["content"] == "hello"


def test_facts_are_shown_as_an_indented_list(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts({"personal_info": {"name": "Ada"}, "likes": ["tea", "rain"]})
    assert plain(capsys.readouterr().out) == "personal_info: \n  name: Ada\nlikes: tea, rain\n"


def test_parked_turns_are_shown_with_their_error(capsys: pytest.CaptureFixture[str]) -> None:
    parked = ParkedTurn(
        turn_id="turn-1",
        user_id=Scope.of("ada", tenant="acme").user_id,
        thread_id="main",
        pending=("facts",),
        attempts=5,
        last_error="No reply",
    )
    status = dataclasses.replace(owing(owed=1), parked_count=1, parked=(parked,))
    print_status(status)
    shown = plain(capsys.readouterr().out)
    assert re.search(r"parked\s+1", shown)
    assert "No reply" in shown
    assert "ada (tenant" in shown
    assert "\x1f" not in shown
    found = status_as_json(status)["parked"][0]
    assert (found["user"], found["tenant"], found["last_error"]) == ("ada", "acme", "No reply")


def test_what_extraction_took_is_shown_once_a_model_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    idle = owing()
    print_status(idle)
    assert "extracting" not in capsys.readouterr().out
    asked = ExtractionCost(turns=4, requests=2, prompt_tokens=1_000, completion_tokens=200)
    print_status(dataclasses.replace(idle, extraction=asked))
    assert "2 request(s), 1,000 + 200 tokens, 300 a turn" in plain(capsys.readouterr().out)
    assert status_as_json(idle)["extraction"] == {
        "turns": 0,
        "requests": 0,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "tokens_per_turn": 0.0,
    }


def test_how_long_is_said_in_one_unit() -> None:
    said = {0: "< 1 minute", 59.9: "< 1 minute", 60: "1 minute", 3_599: "59 minutes", 3_600: "1 hour"}
    said |= {86_399: "23 hours", 86_400: "1 day", 86_400 * 1_234.5: "1,234 days"}
    assert {seconds: in_words(seconds) for seconds in said} == said


# --- the sweep's report --------------------------------------------------------------------------------------
def report(**more: Any) -> SweepReport:
    values: dict[str, Any] = {
        "dry_run": False,
        "resumed": False,
        "started_at": datetime(2026, 3, 1, 3, tzinfo=UTC),
        "seconds": 2.0,
        "threads": 400,
        "topics": 1_000,
        "archived": 30,
        "deleted": 0,
        "forgotten": 2,
        "packed": PackedSize(turns=60, raw_bytes=12_000, packed_bytes=4_000),
        "failed": 0,
        "skipped": 0,
        "owed": (),
    }
    return SweepReport(**{**values, **more})


def options(**more: Any) -> SweepOptions:
    values = {"dry_run": False, "list_actions": False, "quiet": False, "as_json": False}
    return SweepOptions(**{**values, **more})


def test_sweep_is_reported_with_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert tell(report(), [], options()) == 0
    shown = plain(capsys.readouterr().out)
    for figure in ("400", "1,000", "30", "12,000 to 4,000 bytes, 60 turns", "2.00 s, 500 topics a second"):
        assert figure in shown
    assert "resumed" not in shown
    tell(report(resumed=True), [], options())
    assert "resumed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"failed": 2}, ["2 failed", "next sweep tries again"]),
        ({"skipped": 3}, ["3 threads skipped", "next sweep looks at"]),
        ({"owed": ("vector_index",)}, ["vector_index", "a worker erases"]),
        ({"failed": 1, "owed": ("store", "vector_index")}, ["1 failed", "store, vector_index"]),
    ],
    ids=["failed", "skipped", "owed", "both"],
)
def test_sweep_that_is_not_whole_says_what_is_left(
    capsys: pytest.CaptureFixture[str], more: dict[str, Any], words: list[str]
) -> None:
    """Even a quiet one: the report on stdout, one line on stderr, 3."""
    assert tell(report(**more), [], options(quiet=True)) == 3
    told = capsys.readouterr()
    assert "topics archived" in told.out
    assert told.err.count("\n") == 1
    assert all(word in told.err for word in words)


def test_quiet_sweep_prints_nothing_if_it_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (False, True):
        assert tell(report(), [], options(quiet=True, as_json=as_json)) == 0
    assert capsys.readouterr() == ("", "")


def test_sweep_as_json_has_its_actions_if_they_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    action = SweepAction(deed="archive", user_id="me", thread_id="main", topic_id="t1", priority=0.01)
    tell(report(), [action], options(as_json=True, list_actions=True))
    shown = json.loads(capsys.readouterr().out)
    assert shown["actions"] == [
        {
            "deed": "archive",
            "user_id": "me",
            "thread_id": "main",
            "topic_id": "t1",
            "priority": 0.01,
            "turn_id": None,
        }
    ]
    assert shown["report"]["started_at"] == "2026-03-01T03:00:00+00:00"
    tell(report(), [], options(as_json=True))
    assert set(json.loads(capsys.readouterr().out)) == {"report"}


def test_sweep_that_took_no_time_has_no_rate() -> None:
    assert report_as_json(report(seconds=0.0))["topics_per_second"] == 0.0


def test_action_is_one_line_whatever_the_ids_hold(capsys: pytest.CaptureFixture[str]) -> None:
    print_action(SweepAction(deed="forget", user_id="a\nb\x1b[2J", thread_id="[t]", turn_id="turn-1"))
    assert plain(capsys.readouterr().out) == ("forget   user 'a\\nb\\x1b[2J'  thread '[t]'  turn turn-1\n")


# --- the shipped conversation --------------------------------------------------------------------------------


def test_shipped_conversation_is_what_the_demo_says() -> None:
    turns = conversation()
    times = [t.timestamp for t in turns if t.timestamp is not None]
    assert len(times) == len(turns) >= 60
    assert times == sorted(times)
    assert sessions(turns) >= 6
    assert (times[-1] - times[0]).days >= 9 * 7
    assert [t.role for t in turns] == ["user", "assistant"] * (len(turns) // 2)


def test_each_question_s_expected_words_are_in_one_turn_only() -> None:
    turns = conversation()
    for question in questions():
        assert sum(question.expected in t.content for t in turns) == 1
    assert len(turns) > 10 * TOP_K


def test_bar_says_how_much_is_done_and_of_how_much_once_that_is_known() -> None:
    progress = Progress(CountColumn())
    task = progress.add_task("Looking", total=None)
    assert str(CountColumn().render(progress.tasks[0])) == "0"
    progress.update(task, completed=1_040, total=2_000)
    assert str(CountColumn().render(progress.tasks[0])) == "1,040 of 2,000"


@pytest.mark.parametrize(
    "command", ["", "ask", "users", "keys create", "facts", "facts show", "embedder info", "serve"]
)
def test_help_shows_a_flag_as_one_that_takes_no_value(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "120"}).stdout
    assert "--help" in shown
    assert "<bool>" not in shown.lower()
    assert "boolean" not in shown.lower()


def test_ledger_for_people_keeps_all_that_is_in_and_counts_what_is_left_out() -> None:
    def entry(number: int, tier: Tier, *, kept: bool) -> LedgerEntry:
        return LedgerEntry(tier=tier, item=str(number), tokens=1, score=None, kept=kept, reason="no room")

    kept = [entry(number, "long_term", kept=True) for number in range(20)]
    tiers: tuple[Tier, ...] = ("long_term", "preserved")
    out = [entry(number, tier, kept=False) for tier in tiers for number in range(7)]
    shown, hidden = shortened([*kept, *out, entry(9, "facts", kept=False)], most=5)
    assert shown[:20] == kept
    assert [(one.tier, one.item) for one in shown[20:]] == [
        *(("long_term", str(number)) for number in range(5)),
        *(("preserved", str(number)) for number in range(5)),
        ("facts", "9"),
    ]
    assert hidden == {("long_term", "no room"): 2, ("preserved", "no room"): 2}
