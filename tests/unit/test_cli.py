"""The command line without stores: help, usage, reading files of turns, what is printed."""

import json
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from typer.testing import CliRunner

from memory_agent.cli.app import GROUPS, app
from memory_agent.cli.ask import passage_of
from memory_agent.cli.demo import activation
from memory_agent.cli.facts import fact_value
from memory_agent.cli.ingest import BATCH_TURNS, TurnFile, batches_of, read_turns
from memory_agent.cli.output import clean, in_words, print_json
from memory_agent.config import MemoryConfig, setting_rows
from memory_agent.text.terms import count_terms
from tests.documented import help_examples
from tests.unit.examples import examples
from tests.unit.test_compose import parsed


def commands_of(group: Any, *above: str) -> list[str]:
    if not hasattr(group, "commands"):
        return [" ".join(above)]
    return [name for part, inner in group.commands.items() for name in commands_of(inner, *above, part)]


ALL_COMMANDS = commands_of(typer.main.get_command(app))
MANUAL = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
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
def test_help_of_every_command_shows_examples_and_flags_as_such() -> None:
    """No value is shown beside a flag of ours; the manual lists the command."""
    listed = re.findall(r"^\| `([a-z]+(?: [a-z]+)?)", MANUAL, flags=re.MULTILINE)
    assert len(ALL_COMMANDS) > 30
    for command in ["", "facts", "embedder", *ALL_COMMANDS]:
        result = runner.invoke(app, [*command.split(), "--help"], env={"COLUMNS": "120"})
        shown = plain(result.output)
        assert (result.exit_code, "--help" in shown) == (0, True), command
        ours = [row for row in shown.splitlines() if not re.search(r"--help|-completion", row)]
        assert not re.search(r"<bool>|boolean", "\n".join(ours), re.IGNORECASE), command
        if command in ALL_COMMANDS:
            assert "Examples" in shown, command
            assert f"memory-agent {command}" in shown.partition("Examples")[2], command
            assert command in listed


def test_the_examples_of_every_help_text_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command, option and value, by the commands' own parsers; tests/integration/test_docs.py runs them at night."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "yuna.toml").touch()
    for example in help_examples():
        for words in _calls(example.line):
            parsed(words)


def _calls(line: str) -> Iterator[list[str]]:
    """The arguments of the commands of ours that a line for the shell runs."""
    shell = shlex.shlex(line, posix=True, punctuation_chars=True)
    shell.whitespace_split = True
    words = [*(word for word in shell if not re.match(r"MEMORY_AGENT_[A-Z_]+=", word)), "|"]
    while words:
        at = next(i for i, word in enumerate(words) if word in ("|", "&&", ">"))
        (name, *arguments), words = words[:at], words[at + 1 :]
        if name == "memory-agent":
            yield arguments


def test_help_says_what_the_exit_codes_mean_and_has_every_command_in_its_group() -> None:
    shown = plain(runner.invoke(app, ["--help"], env={"COLUMNS": "100"}).output)
    for code in ("0 done", "1 failed", "2 wrong usage", "3 done but", "4 another sweep", "130 interrupted"):
        assert code in " ".join(shown.split())
    assert set(re.findall(r"^\| (\d+) \|", MANUAL, flags=re.MULTILINE)) == {"0", "1", "2", "3", "4", "130"}
    assert re.findall(r"^╭─ (.*?) ─", shown, flags=re.MULTILINE) == ["Options", *GROUPS]
    names = re.findall(r"^│ ([a-z]+) ", shown.partition("Start here")[2], flags=re.MULTILINE)
    assert names == [name for group in GROUPS.values() for name in group]
    assert set(names) == {command.split()[0] for command in ALL_COMMANDS}
    version = runner.invoke(app, ["--version"])
    assert (version.exit_code, version.output) == (0, f"memory-agent {metadata.version('memory-agent')}\n")


def test_wrong_usage_leaves_with_2() -> None:
    calls = examples("cli.toml")["wrong_usage"]
    assert [call for call in calls if runner.invoke(app, shlex.split(call)).exit_code != 2] == []


def test_value_is_json_if_it_can_be() -> None:
    values: dict[str, object] = {
        "morning": "morning",
        "3": 3,
        "true": True,
        "0031 30": "0031 30",
        "NaN": "NaN",
    }
    values |= {'["tea", {"a": null}]': ["tea", {"a": None}], "[" * 100_000: "[" * 100_000}
    for text, value in values.items():
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
    assert runner.invoke(app, ["demo", "--keep", str(tmp_path)]).exit_code == 2
    assert (tmp_path / "file").exists()


def test_impossible_setting_is_one_line_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_AGENT_MAX_ATTEMPTS", "0")
    result = runner.invoke(app, ["status"])
    assert (result.exit_code, result.stdout, plain(result.stderr).count("\n")) == (1, "", 1)
    assert "max_attempts: must be a whole number" in result.stderr


def test_forget_asks_first() -> None:
    result = runner.invoke(app, ["forget", "--whole-user", "--user", "ada"], input="n\n")
    assert result.exit_code == 1
    assert "everything of user 'ada'" in result.output


# --- files of turns ------------------------------------------------------------------------------------------
def contents(file: TurnFile) -> list[str]:
    return [read.turn.content for read in file.turns]


def test_lines_of_turns_are_read_with_all_they_say() -> None:
    said = {"speaker": "Ada", "timestamp": "2026-03-01T18:30:00+01:00", "metadata": {"a": 1}}
    line = turn(**said, importance=0.2, thread="t", user="u")
    file = read_turns(lines(line, "", turn("Bye", role="assistant"), turn(name="Bo")))
    assert file.bad == ()
    first = file.turns[0]
    assert (first.turn.speaker, first.turn.metadata, first.turn.importance) == ("Ada", {"a": 1}, 0.2)
    assert first.turn.timestamp == datetime(2026, 3, 1, 17, 30, tzinfo=UTC)
    assert (first.thread, first.user) == ("t", "u")
    assert contents(file) == ["Hello", "Bye", "Hello"]
    assert file.turns[2].turn.speaker == "Bo", "the name of a chat message"
    call = turn("Let me look.", role="assistant", tool_calls=[{"id": "1"}])
    whole = read_turns(lines({"messages": [turn(thread="own"), call], "thread": "t", "user": "u"}))
    assert [(read.thread, read.user) for read in whole.turns] == [("own", "u"), ("t", "u")]
    assert contents(whole) == ["Hello", "Let me look."]
    names = ["human", "ai", "model", "developer", "function", "user"]
    roles = [read.turn.role for read in read_turns(lines(*(turn(role=name) for name in names))).turns]
    assert roles == ["user", "assistant", "assistant", "system", "tool", "user"]


def test_every_form_gives_the_same_turns() -> None:
    """An array, indented too; conversations, one or more; with a byte order mark; with the line ends of Windows."""
    a, b = turn("a"), turn("b", role="assistant")
    forms = [json.dumps([a, b]).encode(), json.dumps([a, b], indent=2).encode(), lines({"messages": [a, b]})]
    forms += [lines({"messages": [a]}, {"messages": [b]}), lines(a, b).replace(b"\n", b"\r\n")]
    for data in (*forms, b"\xef\xbb\xbf" + lines(a, b)):
        file = read_turns(data)
        assert file.bad == ()
        assert [(r.turn.role, r.turn.content) for r in file.turns] == [("user", "a"), ("assistant", "b")]


def test_content_in_parts_becomes_text_and_other_parts_leave_their_type() -> None:
    parts = [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "data:"}}, "here"]
    assert contents(read_turns(lines(turn(parts)))) == ["Look:\n[image_url]\nhere"]


BAD_LINES: list[tuple[object, str]] = [
    ("not json", "is not JSON"),
    (["a"], "is a list"),
    ({"role": "user"}, "no content"),
    (turn([{"no": "type"}]), "part that is neither"),
    (turn(role="Ada"), "speaker for a person's name"),
    (turn(role="narrator"), "use one of user, assistant, system, tool"),
    (turn(timestamp="2026-03-01T18:30:00"), "write ISO 8601 with a zone"),
    (turn(timestamp=5), "ISO 8601"),
    (turn(importance="high"), "importance is 'high'"),
    (turn(time="2026"), "has the key 'time'; known are"),
    ({"messages": "none"}, "must be a list"),
]


def test_bad_line_is_reported_by_number_and_reason() -> None:
    for line, reason in BAD_LINES:
        file = read_turns(lines(turn("good"), line, turn("good too")))
        assert contents(file) == ["good", "good too"]
        assert [bad.where for bad in file.bad] == ["line 2"]
        assert reason in file.bad[0].reason
    nested = read_turns(lines(turn(), {"messages": [turn(), turn(5)]}))
    assert [bad.where for bad in nested.bad] == ["line 2, message 2"]
    listed = read_turns(json.dumps([turn(), turn(5), {"messages": [5]}, {"messages": 5}]).encode())
    assert [bad.where for bad in listed.bad] == ["message 2", "item 3, message 1", "item 4"]
    for data in (b"[", b"[{}] x", b"[" * 100_000):
        assert [bad.where for bad in read_turns(data).bad] == ["the file"]
    assert read_turns(b'{"role": "user"}\n\xff').bad[0].where == "line 2", "not text"


def test_message_without_anything_to_see_is_left_out_and_counted() -> None:
    unseen = [turn(said) for said in ("", " \n", "\u200b\u2060", [], [{"type": "text", "text": " "}])]
    call = {"role": "assistant", "content": None}
    for said in (*unseen, {**call, "tool_calls": [{"id": "1"}]}, {**call, "function_call": {"name": "look"}}):
        file = read_turns(lines(turn("a"), said, turn("b"), said))
        assert (contents(file), file.bad, file.invisible) == (["a", "b"], (), 2)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_file_makes_the_reader_fail(data: bytes) -> None:
    file = read_turns(data)
    assert len(file.turns) + len(file.bad) + file.invisible <= len(data)


def batches(data: bytes) -> list[Any]:
    return batches_of(read_turns(data), data, user_id="me", thread_id="main")


def test_batches_hold_every_turn_once_in_order_by_thread() -> None:
    """Keys are the same in every run, and differ within one and between files."""
    data = lines(*(turn(str(i), thread="ab"[i % 2]) for i in range(2 * BATCH_TURNS + 10)))
    found: dict[str, list[int]] = {}
    for batch in batches(data):
        assert 1 <= len(batch.turns) <= BATCH_TURNS
        found.setdefault(batch.thread_id, []).extend(int(t.content) for t in batch.turns)
    assert found == {"a": list(range(0, 210, 2)), "b": list(range(1, 210, 2))}
    keys = [batch.key for batch in batches(data)]
    assert keys == [batch.key for batch in batches(data)]
    assert len(set(keys)) == len(keys) == 4
    assert batches(lines(turn("a")))[0].key != batches(lines(turn("b")))[0].key


# --- answers -------------------------------------------------------------------------------------------------
def test_remembered_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert clean("a\x1b[31mb\x07\x9b\nc\td\u200de") == "a\ufffd[31mb\ufffd\ufffd\nc\td\u200de"
    print_json({"a\x1b": "b\x9b\u202ec\u200d"})
    shown = capsys.readouterr().out
    assert shown.isprintable() or set(shown) & {"\x1b", "\x9b", "\u202e"} == set()
    assert json.loads(shown) == {"a\x1b": "b\x9b\u202ec\u200d"}


LONG = (
    "I was at the market and bought far too many apples, as one does in October. Did you see the piano? "
    "The tuner comes on Monday at ten, he said so himself on the phone. After that we bake a cake together."
)
ASKED = frozenset(count_terms("When does the piano tuner come?"))


def test_passage_is_around_the_sentence_that_answers() -> None:
    """Of a sentence that is too long, around the words that were asked for; what is left out leaves its mark."""
    shown, short, folded = (
        passage_of(text, ASKED, "english", cells=76) for text in (LONG, "Short.", "Two\nlines  here.")
    )
    assert shown == "[…] The tuner comes on Monday at ten, he said so himself on the phone. […]"
    assert (short, folded) == ("Short.", "Two lines here.")
    narrow = passage_of(f"{'well ' * 40}and the tuner comes on Monday", ASKED, "english", cells=40)
    assert narrow == "[…] and the tuner comes on Monday"
    spread = f"A piano is dear. {LONG.split('. ')[0]}. The piano tuner whom my aunt found for us last year comes on Monday at ten, early"
    assert "The piano tuner whom" in passage_of(spread, ASKED, "english", cells=76)


@given(st.text(max_size=400) | st.text("ab .?\n漢字ก", max_size=400), st.integers(10, 120))
def test_passage_of_any_text_fits_and_is_part_of_it(text: str, cells: int) -> None:
    shown = passage_of(text, ASKED, "english", cells=cells)
    parts = [part.strip() for part in shown.removesuffix("…").split("[…]")]
    assert all(part in " ".join(text.split()) for part in parts)
    assert "\n" not in shown
    assert cell_len(shown) <= cells


# --- what is printed -----------------------------------------------------------------------------------------
def test_settings_are_listed_with_where_they_come_from_and_no_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All of them, or those with a part of a name."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "memory.toml").write_text("short_term_window = 3\n")
    monkeypatch.delenv("MEMORY_AGENT_CONFIG_FILE")
    monkeypatch.setenv("MEMORY_AGENT_TOP_K_MEMORIES", "8")
    monkeypatch.setenv("MEMORY_AGENT_OPENAI_API_KEY", "sk-hunter2")
    monkeypatch.setenv("MEMORY_AGENT_OPENAI_BASE_URL", "http://ada:hunter2@host/v1")
    result = runner.invoke(app, ["settings", "--json", "--data-dir", "here"])
    rows = {row["setting"]: row for row in json.loads(result.stdout)}
    assert set(rows) == set(MemoryConfig.model_fields)
    origins = {"data_dir": "--data-dir", "top_k_memories": "environment", "short_term_window": "file"}
    origins["db_name"] = "default"
    assert {name: rows[name]["from"] for name in origins} == origins
    assert (rows["top_k_memories"]["value"], rows["openai_api_key"]["value"]) == (8, "(secret)")
    assert rows["openai_base_url"]["value"] == "http://(secret)@host/v1"
    assert rows["max_attempts"]["may_be"] == "a whole number, at least 1 and at most 100"
    assert not Path("here").exists()
    assert runner.invoke(app, ["settings", "topk"]).exit_code == 1
    shown = runner.invoke(app, ["settings"]).stdout
    assert all(name in shown for name in rows)
    assert "hunter2" not in result.output + shown
    changed = MemoryConfig(top_k_memories=9).changed(db_name="mine")
    assert {row["setting"]: row["from"] for row in setting_rows(changed)}["db_name"] == "argument"
    some = runner.invoke(app, ["settings", "top_k"]).stdout
    assert ("top_k_memories" in some, "max_attempts" in some) == (True, False)


def test_how_long_is_said_in_one_unit() -> None:
    said = {0: "< 1 minute", 59.9: "< 1 minute", 60: "1 minute", 3_599: "59 minutes", 3_600: "1 hour"}
    said |= {86_399: "23 hours", 86_400: "1 day", 86_400 * 1_234.5: "1,234 days"}
    assert {seconds: in_words(seconds) for seconds in said} == said


def test_tilde_is_the_home_folder_also_where_no_shell_expands_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    shown = runner.invoke(app, ["settings", "data_dir", "--json", "--data-dir=~/memory"])
    assert json.loads(shown.output)[0]["value"] == str(tmp_path / "memory")
    (tmp_path / "talk.jsonl").write_text('{"role": "user", "content": "Hi."}')
    told = runner.invoke(app, ["import", "~/talk.jsonl", "--dry-run", "--json"])
    assert (told.exit_code, '"turns": 1' in told.output) == (0, True)
