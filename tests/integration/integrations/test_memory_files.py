"""The files of Anthropic's memory tool in a memory. The behaviours are those of the SDK's own tests of its file-system tool.

Of its 63 tests (31 behaviours, each sync and async, and one) all are here but those on modes of directories, files that are
no UTF-8 and symbolic links: there are none of them. A million lines don't fit into a file here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from memory_agent import InvalidInput, MemoryService
from memory_agent.domain import Scope
from memory_agent.errors import NotFound
from memory_agent.integrations.memory_files import MemoryFiles
from tests import profiles
from tests.integration.conversations import STORES, opened, settings_on
from tests.over_http import both_ways_by_day

pytestmark = pytest.mark.usefixtures("both_ways")  # see tests/over_http.py
by_day_on_each_store = pytest.mark.parametrize("settings", STORES, indirect=True)

LINES = "Line 1\nLine 2\nLine 3\nLine 4\nLine 5"
CRLF = "line1\r\nline2\r\nline3\r\n"
NONE = "The path /memories/none.txt does not exist. Please provide a valid path."


@pytest.fixture(params=profiles.by_day(*STORES))
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A fresh database on each store."""
    return settings_on(request.param, request, tmp_path)


@pytest.fixture
async def service(both_ways: None, settings: dict[str, Any]) -> AsyncIterator[MemoryService]:
    async with opened(settings) as service:
        yield service


@pytest.fixture
def files(service: MemoryService) -> MemoryFiles:
    return MemoryFiles(service, "ada")


async def told(files: MemoryFiles, command: str, path: str = "", **more: Any) -> str:
    """What the tool tells the model; of a refusal its text."""
    given = {"path": f"/memories{path}", **more} if command != "rename" else more
    try:
        return await files.run({"command": command, **given})
    except InvalidInput as exc:
        return str(exc)


# --- what a command is told: its name, the path, what else it is given, and the answer
Step = tuple[str, str, dict[str, Any], str]


def step(command: str, path: str, said: str, **more: Any) -> Step:
    return command, path, more, said


def create(path: str, text: str, said: str = "") -> Step:
    return step("create", path, said or f"File created successfully at: /memories{path}", file_text=text)


def numbered(first: int, *lines: str) -> str:
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, first))


def view(path: str, *lines: str, part: tuple[int, int] | None = None) -> Step:
    said = f"Here's the content of /memories{path} with line numbers:\n"
    more = {"view_range": [*part]} if part else {}
    return step("view", path, said + numbered(part[0] if part else 1, *lines), **more)


def listing(path: str, *lines: str) -> Step:
    said = (
        f"Here're the files and directories up to 2 levels deep in /memories{path}, excluding hidden items:"
    )
    return step("view", path, "\n".join([said, *lines]))


def put(path: str, old: str, new: str, said: str) -> Step:
    return step("str_replace", path, said, old_str=old, new_str=new)


def edit(path: str, old: str, new: str, first: int, *lines: str) -> Step:
    """A replacement that is made, and the lines around it from the `first` on."""
    said = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
    return put(path, old, new, said + numbered(first, *lines))


def missing(path: str, old: str) -> Step:
    no = f"No replacement was performed, old_str `{old}` did not appear verbatim in /memories{path}."
    return put(path, old, "x", no)


def insert(path: str, line: int, text: str, said: str = "") -> Step:
    said = said or f"The file /memories{path} has been edited."
    return step("insert", path, said, insert_line=line, insert_text=text)


def outside(path: str, line: int) -> Step:
    no = f"Invalid `insert_line` parameter: {line}. It should be within the range [0, 2]."
    return insert(path, line, "x", no)


def delete(path: str, said: str = "") -> Step:
    return step("delete", path, said or f"Successfully deleted /memories{path}")


def rename(old: str, new: str, said: str = "") -> Step:
    said = said or f"Successfully renamed /memories{old} to /memories{new}"
    return step("rename", "", said, old_path=f"/memories{old}", new_path=f"/memories{new}")


TALL, SUB = {"/dir/file2.txt": "File 2", "/dir/file1.txt": "x" * 1536}, "/dir/sub/a/b.txt"
UPSTREAM: dict[str, tuple[list[Step], dict[str, str]]] = {
    "create": ([create("/a.txt", "Hello, World!")], {"/a.txt": "Hello, World!"}),
    "create below directories": ([create("/deep/nested/a.txt", "x")], {"/deep/nested/a.txt": "x"}),
    "create what is there": (
        [create("/a.txt", "1"), create("/a.txt", "2", "File /memories/a.txt already exists")],
        {"/a.txt": "1"},
    ),
    "view a file": (
        [create("/a.txt", "Line 1\nLine 2"), view("/a.txt", "Line 1", "Line 2")],
        {"/a.txt": "Line 1\nLine 2"},
    ),
    "view some lines": (
        [
            create("/a.txt", LINES),
            view("/a.txt", "Line 2", "Line 3", part=(2, 3)),
            view("/a.txt", "Line 4", "Line 5", part=(4, -1)),
        ],
        {"/a.txt": LINES},
    ),
    "view a directory": (
        [
            *(create(path, text) for path, text in TALL.items()),
            *(create(SUB, "12"), create("/dir/.hidden", "h")),
            listing(
                "/dir",
                *("1.5K\t/memories/dir", "1.5K\t/memories/dir/file1.txt", "6B\t/memories/dir/file2.txt"),
                *("2B\t/memories/dir/sub/", "2B\t/memories/dir/sub/a/"),
            ),
        ],
        {**TALL, SUB: "12", "/dir/.hidden": "h"},
    ),
    "view nothing": ([listing("", "0B\t/memories"), step("view", "/none.txt", NONE)], {}),
    "replace": (
        [
            create("/a.txt", "Line 1\nOld Text\nLine 3"),
            edit("/a.txt", "Old Text", "New", 1, "Line 1", "New", "Line 3"),
        ],
        {"/a.txt": "Line 1\nNew\nLine 3"},
    ),
    "replace far down": (
        [create("/a.txt", LINES), edit("/a.txt", "Line 5", "V", 3, "Line 3", "Line 4", "V")],
        {"/a.txt": "Line 1\nLine 2\nLine 3\nLine 4\nV"},
    ),
    "replace what isn't there": (
        [
            create("/a.txt", "Hello"),
            missing("/a.txt", "Bye"),
            missing("/a.txt", ""),
            put("/none.txt", "a", "b", NONE),
        ],
        {"/a.txt": "Hello"},
    ),
    "replace what is there twice": (
        [
            create("/a.txt", "Hello\nMiddle\nHello"),
            put(
                *("/a.txt", "Hello", "Hi"),
                "No replacement was performed. Multiple occurrences of old_str `Hello` in lines: 1, 3. "
                "Please ensure it is unique",
            ),
        ],
        {"/a.txt": "Hello\nMiddle\nHello"},
    ),
    "insert": (
        [create("/a.txt", "Line 1\nLine 2"), insert("/a.txt", 1, "New\n")],
        {"/a.txt": "Line 1\nNew\nLine 2\n"},
    ),
    "insert first and last": (
        [create("/a.txt", "1\n2"), insert("/a.txt", 0, "First"), insert("/a.txt", 3, "Last")],
        {"/a.txt": "First\n1\n2\nLast\n"},
    ),
    "insert nowhere": (
        [
            create("/a.txt", "Line 1\nLine 2"),
            *(outside("/a.txt", 10), outside("/a.txt", -1), insert("/none.txt", 0, "x", NONE)),
        ],
        {"/a.txt": "Line 1\nLine 2"},
    ),
    "line ends stay": (
        [
            create("/a.txt", CRLF),
            edit("/a.txt", "line2", "LINE2", 1, "line1\r", "LINE2\r", "line3\r", ""),
            insert("/a.txt", 1, "Inserted"),
            view("/a.txt", "line1\r", "Inserted", part=(1, 2)),
        ],
        {"/a.txt": "line1\r\nInserted\nLINE2\r\nline3\r\n"},
    ),
    "delete": (
        [
            *(create("/a.txt", "1"), create("/b/c.txt", "2"), create("/b/d/e.txt", "3")),
            *(delete("/a.txt"), delete("/b"), delete("/b", "The path /memories/b does not exist")),
            step("view", "/a.txt", NONE.replace("none", "a")),
            delete("", "Cannot delete the /memories directory itself"),
            create("/a.txt", "again"),
        ],
        {"/a.txt": "again"},
    ),
    "rename": (
        [
            *(create("/a.txt", "1"), create("/dir/b.txt", "2"), create("/dir/sub/c.txt", "3")),
            *(rename("/a.txt", "/new/deep/a.txt"), rename("/dir", "/folder")),
        ],
        {"/new/deep/a.txt": "1", "/folder/b.txt": "2", "/folder/sub/c.txt": "3"},
    ),
    "rename what can't be": (
        [
            *(create("/a.txt", "1"), create("/b/c.txt", "2")),
            rename("/none", "/x", "The path /memories/none does not exist"),
            rename("/a.txt", "/b/c.txt", "The destination /memories/b/c.txt already exists"),
            rename("/a.txt", "/b", "The destination /memories/b already exists"),
            rename("/b", "/b/d", "Cannot rename /memories/b to /memories/b/d, which is inside of it"),
            rename("", "/x", "Cannot rename the /memories directory itself"),
        ],
        {"/a.txt": "1", "/b/c.txt": "2"},
    ),
    "a file is no directory": (
        [
            *(create("/a", "1"), create("/b/c", "2")),
            create(
                "/a/b/c", "x", "The path /memories/a is a file, so that /memories/a/b/c cannot be below it."
            ),
            create("/b", "x", "File /memories/b already exists"),
            put("/b", "x", "y", "The path /memories/b is not a file."),
        ],
        {"/a": "1", "/b/c": "2"},
    ),
    "paths outside": (
        [
            create(
                "/../../../etc/passwd",
                "x",
                "Path /memories/../../../etc/passwd would escape /memories directory",
            ),
            step("view", "/..", "Path /memories/.. would escape /memories directory"),
            step("view", "x/a.txt", "Path must start with /memories, got: /memoriesx/a.txt"),
            *(create("/%2e%2e/etc -> passwd", "only a name"), create("/50%_of/a_b%c", "also")),
        ],
        {"/%2e%2e/etc -> passwd": "only a name", "/50%_of/a_b%c": "also"},
    ),
    "empty files": ([create("/a.txt", "")], {"/a.txt": ""}),
    "names like others": (
        [create("/a/b", "1"), create("/a.b", "2"), create("/a-b/c", "3"), create("/ab", "4"), delete("/a")],
        {"/a.b": "2", "/a-b/c": "3", "/ab": "4"},
    ),
}


async def snapshot(files: MemoryFiles) -> dict[str, str]:
    """All files by their paths, as the store has them."""
    return {
        name.removeprefix("/memories"): turn.metadata["verbatim"]
        async for name, turn in files.files("/memories")
    }


@both_ways_by_day
async def test_commands_tell_what_models_were_trained_on(service: MemoryService) -> None:
    for name, (steps, left) in UPSTREAM.items():
        files = MemoryFiles(service, name)
        for command, path, more, said in steps:
            assert (name, await told(files, command, path, **more)) == (name, said)
        assert (name, await snapshot(files)) == (name, left)


async def test_a_call_that_makes_no_sense_is_refused_in_words(files: MemoryFiles) -> None:
    await files.create("/memories/a", "x")
    assert "command is 'format'; use one of view, create" in await told(files, "format")
    assert "missing a required argument: 'file_text'" in await told(files, "create", "/b")
    assert "unexpected keyword argument 'mode'" in await told(files, "view", "", mode=1)
    assert await told(files, "create", "/b", file_text=3) == "file_text is 3; pass text"
    assert "`insert_line` parameter: 1.5" in await told(
        files, "insert", "/a", insert_line=1.5, insert_text="b"
    )
    for wrong in ([1], 5, "1-2", {"from": 1}, ["1", "2"], 0):
        assert "`view_range` parameter" in await told(files, "view", "/a", view_range=wrong)
    assert "control character" in await told(files, "create", "/a\nb", file_text="x")
    assert "at most 512" in await told(files, "create", "/" + "a" * 600, file_text="x")
    assert "lone surrogate" in await told(files, "create", "/b", file_text="\ud800")


async def test_a_file_as_long_as_fits_is_kept_and_a_longer_one_refused(files: MemoryFiles) -> None:
    long = "é" * 98_900
    await files.create("/memories/long", long)
    assert await files.read("/memories/long") == long
    assert "at most 99,000 fit" in await told(
        files, "insert", "/long", insert_line=0, insert_text="a" * 2_000
    )
    assert await files.read("/memories/long") == long


@by_day_on_each_store
async def test_of_edits_at_once_none_is_lost(service: MemoryService) -> None:
    """By two that hold handles of their own, as two processes do; two inserts of the same line make two lines."""
    one, other = MemoryFiles(service, "ada"), MemoryFiles(service, "ada")
    await one.create("/memories/list", "")
    await asyncio.gather(
        *(who.insert("/memories/list", 0, f"{n}") for n in range(5) for who in (one, other)),
        *(who.insert("/memories/list", 0, "same") for who in (one, other)),
    )
    lines = (await one.read("/memories/list")).split()
    assert sorted(lines) == sorted([*map(str, range(5)), *map(str, range(5)), "same", "same"])


async def test_of_two_that_create_a_file_at_once_one_is_told_that_it_exists(service: MemoryService) -> None:
    both = [MemoryFiles(service, "ada"), MemoryFiles(service, "ada")]
    said = await asyncio.gather(*(told(files, "create", "/a", file_text="the same") for files in both))
    assert sorted(said) == ["File /memories/a already exists", "File created successfully at: /memories/a"]


async def test_an_edit_while_a_file_is_renamed_goes_along_or_is_told_that_it_is_gone(
    service: MemoryService,
) -> None:
    for n in range(5):
        files, other = MemoryFiles(service, f"user {n}"), MemoryFiles(service, f"user {n}")
        await files.create("/memories/a", "old\n")
        _, said = await asyncio.gather(
            files.rename("/memories/a", "/memories/b"),
            told(other, "insert", "/a", insert_line=1, insert_text="new"),
        )
        edited = "edited" in said
        assert await snapshot(files) == {"/b": "old\nnew\n" if edited else "old\n"}
        assert edited or "does not exist" in said


async def test_an_edit_of_what_was_deleted_and_made_anew_is_not_written_over_it(
    files: MemoryFiles, service: MemoryService
) -> None:
    """Not even where the versions between are erased, so that nothing but their keys is left of them."""
    await files.create("/memories/a", "first")
    read, _ = await files._file("/memories/a")
    for text in ("second", "third"):
        await files.delete("/memories/a")
        await files.create("/memories/a", text)
    assert await files.append("/memories/a", ["first, edited"], read) is None
    assert await files.read("/memories/a") == "third"
    await service.agent("ada", "/memories/a").clear()
    await files.create("/memories/a", "fourth")
    assert await files.read("/memories/a") == "fourth"


@both_ways_by_day
async def test_versions_are_kept_restored_and_go_along_with_a_rename(files: MemoryFiles) -> None:
    await files.create("/memories/a", "one")
    await files.str_replace("/memories/a", "one", "two")
    await files.insert("/memories/a", 1, "three")
    before = await files.versions("/memories/a")
    assert [version.text for version in before] == ["one", "two", "two\nthree\n"]
    await files.rename("/memories/a", "/memories/b")
    versions = await files.versions("/memories/b")
    assert [(v.text, v.written_at) for v in versions] == [(v.text, v.written_at) for v in before]
    await files.restore("/memories/b", versions[0].id)
    assert await files.read("/memories/b") == "one"
    assert len(await files.versions("/memories/b")) == 4
    with pytest.raises(NotFound, match="no such version"):
        await files.restore("/memories/b", before[0].id)
    with pytest.raises(NotFound, match="does not exist"):
        await files.versions("/memories/a")


@by_day_on_each_store
async def test_what_was_deleted_is_erased_with_every_version_of_it(
    files: MemoryFiles, service: MemoryService
) -> None:
    await files.create("/memories/a", "secret")
    await files.str_replace("/memories/a", "secret", "secret 2")
    await files.delete("/memories/a")
    page = await service.agent("ada", "/memories/a").history()
    assert [turn.metadata["verbatim"] for turn in page.turns] == [None]
    await files.create("/memories/a", "new")
    assert [version.text for version in await files.versions("/memories/a")] == ["new"]
    await files.create("/memories/b/c", "x")
    assert await files.clear() == "All memory cleared"
    assert await snapshot(files) == {}
    await service.forget_user("ada")
    assert not (await service.agent("ada", "x").threads()).threads


async def test_what_a_deletion_left_that_was_cut_short_goes_with_the_next_file_of_that_name(
    files: MemoryFiles, service: MemoryService
) -> None:
    await files.create("/memories/a", "secret")
    newest, _ = await files._file("/memories/a")
    assert await files.append("/memories/a", [None], newest)  # and here the process was killed
    await files.create("/memories/a", "new")
    turns = (await service.agent("ada", "/memories/a").history()).turns
    assert [turn.metadata["verbatim"] for turn in turns] == [None, "new"]


async def test_nobody_sees_the_files_of_another_user_or_tenant(service: MemoryService) -> None:
    await MemoryFiles(service, "ada").create("/memories/a", "Ada's")
    for other in (MemoryFiles(service, "bob"), MemoryFiles(service, "ada", tenant="acme")):
        assert await snapshot(other) == {}
        await other.create("/memories/a", "theirs")
    assert await MemoryFiles(service, "ada").read("/memories/a") == "Ada's"
    await service.forget_user("ada")
    assert await MemoryFiles(service, "bob").read("/memories/a") == "theirs"


@both_ways_by_day
async def test_no_search_fact_or_context_finds_what_a_file_holds_or_held(
    files: MemoryFiles, service: MemoryService
) -> None:
    memory = service.agent("ada", "chat")
    await memory.update_memory("Where do we go?", "I don't know")
    await files.create("/memories/trip", "My name is Eve. The holiday is in Porto.")
    await files.str_replace("/memories/trip", "Porto", "Lisbon")
    await service.settle(timeout=120, scope=Scope.of("ada"))
    context = str(
        await memory.fetch_memory("Is the holiday in Porto or Lisbon? What is my name?", scope="user")
    )
    assert not [word for word in ("Porto", "Lisbon", "Eve.", "tool") if word in context]
    assert await memory.fetch_facts(scope="user") == {}


async def test_a_directory_of_more_than_a_page_is_seen_whole(files: MemoryFiles) -> None:
    names = [f"/memories/d/{n:03}" for n in range(130)]
    await asyncio.gather(*(files.create(name, "x") for name in names))
    view = (await files.view("/memories")).split("\n")
    assert [line.split("\t")[1] for line in view[2:]] == ["/memories/d/", *names]
    await files.delete("/memories/d")
    assert await snapshot(files) == {}
