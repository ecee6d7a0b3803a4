"""The example crontab: lines that cron takes, and a command that exists."""

import re
import shlex
from pathlib import Path

import typer.main

from memory_agent.cli.app import app
from memory_agent.config import MemoryConfig

ROOT = Path(__file__).parents[2]
INSTALLED = "/opt/memory-agent/"
TEXT = (ROOT / "config" / "crontab.example").read_text("utf-8")
VARIABLE = re.compile(r"([A-Z_]+)=(.*)")
FIELD = re.compile(r"(\*|\d+(-\d+)?)(/[1-9]\d*)?(,\d+)*")


def lines() -> list[str]:
    """Lines that are in use, and those commented out to be taken into use by removing the mark."""
    offered = [line[2:] for line in TEXT.splitlines() if re.match(r"# (\d|\*|[A-Z_]+=)", line)]
    return [line for line in TEXT.splitlines() if line.strip() and not line.startswith("#")] + offered


def command_of(line: str) -> str | None:
    """What the line runs, None if it sets a variable. Fails on a line that cron would refuse."""
    if VARIABLE.fullmatch(line):
        return None
    *fields, command = line.split(maxsplit=5)
    assert len(fields) == 5, line
    assert all(map(FIELD.fullmatch, fields)), line
    assert "%" not in command, "cron takes % for the end of the command"
    return command


def test_variables_are_cron_s_or_settings() -> None:
    names = {match[1] for line in lines() if (match := VARIABLE.fullmatch(line))}
    ours = {name.removeprefix("MEMORY_AGENT_").lower() for name in names - {"MAILTO"}}
    assert ours <= {*MemoryConfig.model_fields, "config_file"}
    assert "MAILTO" in names


def test_every_command_exists_with_its_options() -> None:
    commands = [command for line in lines() if (command := command_of(line))]
    assert any("--quiet" in command for command in commands)
    ours = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for command in commands:
        program, named, *options = shlex.split(command.partition(">")[0])
        if program == f"{INSTALLED}.venv/bin/python":
            assert (ROOT / named.removeprefix(INSTALLED)).is_file()
            named = "sweep"
        else:
            assert program == f"{INSTALLED}.venv/bin/memory-agent"
        known = {option for parameter in ours[named].params for option in parameter.opts}
        assert {option for option in options if option.startswith("-")} <= known
