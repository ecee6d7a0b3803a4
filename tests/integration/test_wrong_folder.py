"""Where no memory is: commands that look say so and make none, commands that store something make one."""

from __future__ import annotations

import pytest

from tests.integration.commands import Quick

LOOKING = """
status
ask piano
ask piano --context
history
facts show
facts retract name
topics
session list
session show --compressed
keys list
rebuild
sweep --quiet
forget --whole-user --yes
"""


def test_looking_into_a_wrong_folder_makes_no_memory_there(quick: Quick) -> None:
    """Nor in a folder that holds something else; a relative data_dir under cron is mostly the wrong one."""
    commands = [line.split() for line in LOOKING.strip().splitlines()]
    for command in commands:
        told = quick(*command, code=1)
        assert told.stdout == ""
        assert f"there is no memory in data_dir {quick.data}" in told.stderr
        assert told.stderr.count("\n") == 1
    assert not quick.data.exists()
    quick.data.mkdir()
    (quick.data / "notes.txt").touch()
    for command in commands:
        quick(*command, code=1)
    assert [file.name for file in quick.data.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("command", ["facts set name Ada", "keys create --tenant acme"])
def test_what_stores_something_makes_the_memory(quick: Quick, command: str) -> None:
    quick(*command.split())
    assert quick.json("status")["turns"] == 0
