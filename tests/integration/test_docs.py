"""The README, the pages and the help texts, followed to the letter in a fresh folder by somebody with an empty home.

Every block and every example is run, or listed in `documents` with the reason for which it isn't; one that is in neither
fails. What a page shows as printed is compared as far as it isn't the reader's own: numbers, ids and times may differ.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import yaml

from memory_agent.models.entities import load_entities
from tests.documented import PAGES, Command, blocks, commands, commands_without_examples, help_examples
from tests.integration.documents import NOT_RUN, NOT_TYPED, READ_ELSEWHERE, why_not_typed
from tests.integration.reader import ID_OF_A_PAGE, KEY_OF_A_PAGE, Reader, option, tools_in
from tests.servers.forks import Forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers.openai_script import ScriptedOpenAI

    NewReader = Callable[[], Reader]

SHELLS = ("sh", "console")
HELPED = sorted({example.where for example in help_examples()})
TYPED = [page for page in PAGES if any(block.language in SHELLS for block in blocks(page))]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Iterator[Path]:
    """The folder of commands."""
    folder = tmp_path_factory.mktemp("tools")
    tools_in(folder)
    reader = Reader(folder, folder, package)
    forks = Forks(folder, environment=reader.environment).start()
    yield folder
    forks.stop()


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory, tools: Path, package: Path) -> Reader:
    """A reader who remembers a few conversations, in a folder that nobody changes."""
    reader = Reader(tmp_path_factory.mktemp("settled"), tools, package)
    reader.settle_in()
    return reader


@pytest.fixture
def new_reader(
    settled: Reader, tmp_path: Path, tools: Path, package: Path, openai_server: ScriptedOpenAI
) -> NewReader:
    """Makes one who begins with that memory, and may change it."""
    return lambda: settled.copied(tmp_path / "folder", tools, package, llm=openai_server.base_url)


# --- what there is -------------------------------------------------------------------------------------------
def test_every_block_is_run_read_or_listed() -> None:
    """By its language; and every reason in the lists is still one."""
    languages = {block.language for page in PAGES for block in blocks(page)}
    assert languages <= {*SHELLS, "python", "json", "jsonl", "toml", "yaml", *READ_ELSEWHERE}
    assert set(READ_ELSEWHERE) <= languages
    lines = [
        line.line
        for page in TYPED
        for block in blocks(page)
        if block.language in SHELLS
        for line in commands(block)
    ]
    lines += [example.line for example in help_examples()]
    assert [pattern for pattern in NOT_TYPED if not any(re.search(pattern, line) for line in lines)] == []
    code = [block.text for page in PAGES for block in blocks(page) if block.language == "python"]
    assert [words for words in NOT_RUN if not any(words in text for text in code)] == []


def test_every_command_shows_an_example() -> None:
    """In its help text."""
    assert commands_without_examples() == []


# --- what is read by a program -------------------------------------------------------------------------------
@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_shows_can_be_read(page: str, tmp_path: Path) -> None:
    """JSON as JSON (the character's TOML and the turns are used by the commands), the dictionary as one."""
    for block in blocks(page):
        if block.language == "json":
            assert json.loads(block.text)
        elif block.language == "yaml":
            (tmp_path / "entities.yaml").write_text(block.text, encoding="utf-8")
            assert yaml.safe_load(block.text)
            assert len(load_entities(tmp_path / "entities.yaml"))


# --- what is typed -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("page", TYPED)
def test_what_a_page_says_to_type_works(page: str, new_reader: NewReader) -> None:
    """In its order, in one shell; what sessions show as printed is printed."""
    reader = new_reader()
    typed = [
        command
        for block in blocks(page)
        if block.language in SHELLS
        for command in commands(block)
        if why_not_typed(command.line) is None
    ]
    told = reader.follow([_with_own_ids(reader, command) for command in typed])
    for one in told:
        for line in one.command.shown:
            assert re.search(_shape_of(line), one.text), (
                f"{one.command.where}: {line!r} is not in\n{one.text}"
            )


@pytest.mark.parametrize("name", HELPED)
def test_the_examples_of_a_help_text_work(name: str, new_reader: NewReader) -> None:
    """One after the other."""
    reader = new_reader()
    for example in help_examples():
        if example.where == name and why_not_typed(example.line) is None:
            for line in _before(example.line):
                reader.follow([_with_own_ids(reader, Command(where=name, line=line))])
            reader.follow([_with_own_ids(reader, example)])


BEFORE: dict[str, tuple[str, ...]] = {
    r"topic split": ("memory-agent topic merge {1} {0}",),
    r"topic restore": ("memory-agent topic archive {0}",),
    r"facts (set|add)": (),
    r"facts retract occupation|facts revert occupation": (
        "memory-agent facts set occupation baker --user ada",
        "memory-agent facts set occupation smith --user ada",
    ),
    r"facts (revert preferences|retract preferences)": ("memory-agent facts add preferences.likes jazz",),
    r"keys revoke": ("memory-agent keys create --tenant acme",),
}
"""What a reader did before who types this; numbers in braces are the thread's topics."""


def _before(line: str) -> list[str]:
    return [one for pattern, lines in BEFORE.items() if re.search(pattern, line) for one in lines]


def _with_own_ids(reader: Reader, command: Command) -> Command:
    """The command with ids of the reader's own in place of the page's: topics (whose ids are turns' as well), keys, sessions."""
    line = command.line
    if KEY_OF_A_PAGE.search(line):
        keys = json.loads(reader.tells("memory-agent keys list --json"))
        line = KEY_OF_A_PAGE.sub(keys[-1]["id"], line)
    user, thread = option(line, "--user", "-u", default="me"), option(line, "--thread", "-t", default="main")
    if "session show" in line and ID_OF_A_PAGE.search(line):
        (session, *_) = json.loads(reader.tells(f"memory-agent session list -u {user} -t {thread} --json"))
        line = ID_OF_A_PAGE.sub(session["id"], line)
    elif "topic split" in line:
        (merged,) = json.loads(reader.tells(f"memory-agent topic show -u {user} -t {thread} --json"))["merged_in"]
        line = ID_OF_A_PAGE.sub(merged, line)
    elif re.search(r"--to \d+\.\d+$", line):
        events = json.loads(reader.tells(f"memory-agent facts history preferences -u {user} -t {thread} --json"))
        line = re.sub(r"\d+\.\d+$", events[0]["id"], line)
    elif "{0}" in line or ID_OF_A_PAGE.search(line):
        ids = reader.ids(user, thread)
        line = line.format(*ids) if "{0}" in line else line
        for own, shown in zip(ids, dict.fromkeys(ID_OF_A_PAGE.findall(line)), strict=False):
            line = line.replace(shown, own)
    return replace(command, line=line)


_OWN = re.compile(r"[0-9a-f]{8}-[0-9a-f-]+|ma_[a-z0-9_]+|\b[a-z2-7]{16}\b|\d[\d,.:TZ+-]*|\s+")


def _shape_of(line: str) -> str:
    """A pattern of the line in which ids, keys, numbers, times and widths are the reader's own."""
    parts, end = [], 0
    for found in _OWN.finditer(line.strip()):
        parts += [re.escape(line.strip()[end : found.start()]), r"\s+" if found[0].isspace() else r"\S+"]
        end = found.end()
    return "".join([*parts, re.escape(line.strip()[end:])])
