"""The README, the pages and the help texts, followed to the letter in a fresh folder by somebody with an empty home.

Every block and every example is run, or listed in `documents` with the reason for which it isn't; one that is in neither
fails. What a page shows as printed is compared as far as it isn't the reader's own: numbers, ids and times may differ.
"""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from memory_agent.models.entities import load_entities
from tests import profiles
from tests.documented import PAGES, ROOT, Block, Command, blocks, commands, help_examples, is_program
from tests.integration.documents import NOT_RUN, NOT_TYPED, READ_ELSEWHERE, why_not_typed
from tests.integration.reader import Reader, tools_in
from tests.profiles import by_day
from tests.servers.chroma import ChromaProcess
from tests.servers.forks import Forks, forks
from tests.servers.mongod import Mongod
from tests.servers.openai_script import ScriptedOpenAI

NewReader = Callable[[], Reader]


SHELLS: Final = ("sh", "console")
LLM: Final = "http://127.0.0.1:11434/v1"
EXAMPLES: Final = [example for example in help_examples() if why_not_typed(example.line) is None]


def typed(page: str) -> list[Block]:
    """The blocks of a page that go into a shell; whole programs among them."""
    return [block for block in blocks(page) if block.language in SHELLS or is_program(block)]


LONGEST: Final = "docs/cli.md"
"""The page of every command is typed at night: by day each has tests of its own, and its help's examples are parsed."""
TYPED: Final = sorted((page for page in PAGES if typed(page)), key=lambda page: page == LONGEST)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Iterator[Path]:
    """The folder of commands: by night those of the package as it is installed. What pages use beside ours is named in CONTRIBUTING.md."""
    for program in ("bash", "curl", "jq"):
        assert shutil.which(program), f"install {program}: pages use it, and this test follows them"
    folder = tmp_path_factory.mktemp("tools")
    tools_in(folder)
    if profiles.chosen() != "nightly":
        (folder / "memory-agent").symlink_to(forks().command)
        yield folder
        return
    installed = Forks(folder, environment=Reader(folder, folder, package).environment)
    installed.start()
    yield folder
    installed.stop()


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory, tools: Path, package: Path) -> Reader:
    """A reader who remembers a few conversations, in a folder that nobody changes."""
    reader = Reader(tmp_path_factory.mktemp("settled"), tools, package)
    reader.settle_in()
    return reader


@pytest.fixture
def new_reader(
    settled: Reader,
    tmp_path: Path,
    mongod: Mongod,
    chroma_server: ChromaProcess,
    openai_server: ScriptedOpenAI,
) -> NewReader:
    """Makes one who begins with that memory, and may change it. The model finds no facts in anything."""
    openai_server.answer = lambda request: '{"facts": []}'
    stands_for = {
        LLM: openai_server.base_url,
        "/opt/memory-agent/": f"{ROOT}/",
        "127.0.0.1:27017": urlsplit(mongod.uri).netloc,
        "MEMORY_AGENT_CHROMA_HOST=127.0.0.1": (
            f"MEMORY_AGENT_CHROMA_HOST=127.0.0.1 MEMORY_AGENT_CHROMA_PORT={chroma_server.port}"
        ),
    }
    return lambda: settled.copied(tmp_path / "folder", stands_for=stands_for)


# --- what there is -------------------------------------------------------------------------------------------
def test_every_block_is_run_read_or_listed() -> None:
    """By its language; and every reason in the lists is still one."""
    languages = {block.language for page in PAGES for block in blocks(page)}
    assert languages <= {*SHELLS, "python", "json", "jsonl", "toml", *READ_ELSEWHERE}
    assert set(READ_ELSEWHERE) <= languages
    lines = [command.line for page in TYPED for block in typed(page) for command in commands(block)]
    lines += [example.line for example in help_examples()]
    assert [
        pattern for pattern in NOT_TYPED if not any(re.search(pattern, line, re.M) for line in lines)
    ] == []
    code = [block.text for page in PAGES for block in blocks(page) if block.language == "python"]
    assert [words for words in NOT_RUN if not any(words in text for text in code)] == []


# --- what is read by a program -------------------------------------------------------------------------------
def test_files_that_pages_show_can_be_read(tmp_path: Path) -> None:
    """JSON as JSON (the turns are used by the commands), TOML as TOML, the dictionary as one."""
    for block in (block for page in PAGES for block in blocks(page)):
        if block.language == "json":
            assert json.loads(block.text)
        elif block.language == "toml":
            assert tomllib.loads(block.text)
            if block.page == "docs/entities.md":
                (tmp_path / "entities.toml").write_text(block.text, encoding="utf-8")
                assert len(load_entities(tmp_path / "entities.toml"))


# --- what is typed -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("page", by_day(*TYPED, first=len(TYPED) - 1))
def test_what_a_page_says_to_type_works(page: str, new_reader: NewReader) -> None:
    """In its order, each section in a shell of its own; what sessions show as printed is printed."""
    reader, missing = new_reader(), list[str]()
    for name, section in groupby(typed(page), key=lambda block: block.section):
        lines = [line for block in section for line in commands(block) if why_not_typed(line.line) is None]
        for told in reader.follow([*_running(page, name), *lines]):
            absent = [line for line in told.command.shown if not re.search(_shape_of(line), told.text)]
            wanted = [words for pattern, words in EXPECTED.items() if re.search(pattern, told.command.line)]
            absent += [words for words in wanted if words not in told.text]
            if absent:
                printed = f"{told.command.where}: {told.command.line} prints"
                missing += [printed, told.text, "without", *absent]
    assert not missing, "\n".join(missing)
    log = reader.folder / "serve.log"
    if log.exists():
        secret = (reader.folder / "key.txt").read_text().strip()
        assert secret.startswith("ma_")
        assert not {secret, "Porto Covo"} & set(re.findall(rf"{secret}|Porto Covo", log.read_text()))


@pytest.mark.parametrize(
    "name",
    by_day(
        "memory-agent users --help",
        *sorted({example.where for example in EXAMPLES} - {"memory-agent users --help"}),
    ),
)
def test_the_examples_of_a_help_text_work(name: str, new_reader: NewReader) -> None:
    """One after the other; by day of one command, and unit/test_cli.py sees that all are understood."""
    reader = new_reader()
    for example in EXAMPLES:
        if example.where == name:
            before = [Command(where=name, line=line) for line in _before(example.line)]
            settings = {"MEMORY_AGENT_OPENAI_BASE_URL": reader.stands_for[LLM]}
            reader.follow([*before, example], **(settings if "--model gpt" in example.line else {}))


EXPECTED: Final = {
    r"^curl .*/readyz": '"status":"ready"',
    r'^curl .*"\$THREAD/update"': '"turn_ids":[',
    r'^curl .*"\$THREAD/fetch"': "Porto Covo",
    r"(?s)^python - .*Where do we go on holiday": "Porto Covo",
    r"^memory-agent ask .*can't I eat\?\" --user ada$": "walnuts",
}
"""Words that commands print, of which no page shows what they print."""

SERVED: Final = {
    ("docs/operations.md", "With Docker Compose"),
    ("docs/service.md", "Who is in there"),
    ("docs/service.md", "Events"),
}
"""Sections that speak of a service that runs already."""


def _running(page: str, section: str) -> list[Command]:
    lines = (
        "memory-agent keys create --tenant default > key.txt",
        "memory-agent serve > serve.log 2>&1 &",
        'export KEY="$(cat key.txt)"',
        "curl -s --retry 30 --retry-connrefused --retry-delay 1 http://127.0.0.1:8080/readyz",
    )
    return [Command(where="a service", line=line) for line in lines if (page, section) in SERVED]


SPOKEN = """echo '{"role": "user", "content": "Good morning."}' | memory-agent ingest - --user ada --thread salon"""
UNREAD = """echo '{"role": "user", "content": "I am allergic to penicillin."}' | MEMORY_AGENT_ENABLE_FACT_EXTRACTION=false memory-agent ingest -"""
BEFORE: dict[str, tuple[str, ...]] = {
    r"facts (retract|revert) occupation": (
        "memory-agent facts set occupation baker --user ada",
        "memory-agent facts set occupation smith --user ada",
    ),
    r"facts (revert|retract) preferences": ("memory-agent facts add preferences.likes jazz",),
    r"session show --user": (SPOKEN,),
    r"session list -u ada --json": (
        SPOKEN.replace("salon", "main"),
    ),  # a sweep before it forgot the old turns
    r"forget --from": ("memory-agent erasures --jsonl > receipts.jsonl",),
    r"keys revoke": ("memory-agent keys create --tenant acme",),
}
"""What a reader did before who types this."""


def _before(line: str) -> list[str]:
    return [one for pattern, lines in BEFORE.items() if re.search(pattern, line) for one in lines]


_DRAWN: Final = "│├└─… "
"""What lines of a page begin and end with that only holds them together, or is cut off in a narrow terminal."""

_OWN: Final = re.compile(
    r"\d+ (?:second|minute|hour|day)s? ago|'[^']*'|[0-9a-f]{8}-[0-9a-f-]+|ma_[a-z0-9_]+|\b[a-z2-7]{16}\b|\d[\d,.:TZ+-]*|\(nothing\)|\s+"
)


def _shape_of(line: str) -> str:
    """A pattern of the line in which names in quotes, ids, keys, numbers, times and widths are the reader's own."""
    line = line.removesuffix("[y/N]: y").strip(_DRAWN)
    parts, end = [], 0
    for found in _OWN.finditer(line):
        own = r".* ago" if found[0].endswith(" ago") else {"'": r"'.*'"}.get(found[0][0], r"\S+")
        parts += [re.escape(line[end : found.start()]), r"\s+" if found[0].isspace() else own]
        end = found.end()
    return "".join([*parts, re.escape(line[end:])])
