"""Where no memory is: commands that look say so and make none, commands that store something make one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.test_facts_cli import Quick

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def quick(tmp_path: Path) -> Quick:
    """Commands run within this process."""
    return Quick(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["ask", "piano"],
        ["ask", "piano", "--context"],
        ["history"],
        ["facts", "show"],
        ["facts", "retract", "name"],
        ["facts", "extract"],
        ["topics"],
        ["entities"],
        ["session", "list"],
        ["compressed"],
        ["keys", "list"],
        ["rebuild"],
        ["sweep"],
        ["forget", "--whole-user", "--yes"],
    ],
    ids=" ".join,
)
def test_looking_into_a_wrong_folder_makes_no_memory_there(quick: Quick, command: list[str]) -> None:
    """Nor in a folder that holds something else."""
    told = quick(*command, code=1)
    assert f"there is no memory in data_dir {quick.data}" in told.stderr
    assert told.stderr.count("\n") == 1
    assert not quick.data.exists()
    quick.data.mkdir()
    (quick.data / "notes.txt").touch()
    quick(*command, code=1)
    assert [file.name for file in quick.data.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    "command", [["facts", "set", "name", "Ada"], ["session", "start"], ["keys", "create", "--tenant", "acme"]]
)
def test_what_stores_something_makes_the_memory(quick: Quick, command: list[str]) -> None:
    quick(*command)
    assert quick.json("status")["turns"] == 0
