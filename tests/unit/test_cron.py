"""The example crontab: lines that cron takes, and a command that exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from memory_agent.cli.app import app
from memory_agent.config import MemoryConfig

ROOT = Path(__file__).parents[2]
INSTALLED = "/opt/memory-agent/"
TEXT = (ROOT / "config" / "crontab.example").read_text("utf-8")
VARIABLE = re.compile(r"([A-Z_]+)=(.*)")
# minute, hour, day of the month, month, day of the week
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def active_lines() -> list[str]:
    lines = [line.strip() for line in TEXT.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def offered_lines() -> list[str]:
    """Lines that are commented out, to be taken into use by removing the mark."""
    return [line[2:] for line in TEXT.splitlines() if re.match(r"# (\d|\*|[A-Z_]+=)", line)]


def is_field(field: str, lowest: int, highest: int) -> bool:
    """Whether cron takes it: numbers, ranges, steps and lists of them."""
    for part in field.split(","):
        match = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?)(?:/([1-9]\d*))?", part)
        if match is None:
            return False
        numbers = [int(number) for number in match.group(1, 2) if number is not None]
        if numbers != sorted(numbers) or any(not lowest <= n <= highest for n in numbers):
            return False
    return True


def command_of(line: str) -> str | None:
    """What the line runs, None if it sets a variable. Fails on a line that cron would refuse."""
    if VARIABLE.fullmatch(line):
        return None
    *fields, command = line.split(maxsplit=5)
    assert len(fields) == 5, line
    for field, (lowest, highest) in zip(fields, RANGES, strict=True):
        assert is_field(field, lowest, highest), f"{field!r} in {line!r}"
    assert "%" not in command, "cron takes % for the end of the command"
    return command


@pytest.mark.parametrize("line", [*active_lines(), *offered_lines()])
def test_cron_would_take_the_line(line: str) -> None:
    command_of(line)


def test_variables_are_cron_s_or_settings() -> None:
    names = {match[1] for line in [*active_lines(), *offered_lines()] if (match := VARIABLE.fullmatch(line))}
    ours = {name.removeprefix("MEMORY_AGENT_").lower() for name in names - {"MAILTO"}}
    assert ours <= {*MemoryConfig.model_fields, "config_file"}
    assert "MAILTO" in names


def test_every_command_exists_with_its_options() -> None:
    commands = [command for line in [*active_lines(), *offered_lines()] if (command := command_of(line))]
    assert any("--quiet" in command for command in commands)
    sweep = typer.main.get_command(app).commands["sweep"]  # type: ignore[attr-defined]
    known = {option for parameter in sweep.params for option in parameter.opts}
    for command in commands:
        python, script, *options = shlex.split(command)
        assert python == f"{INSTALLED}.venv/bin/python"
        assert (ROOT / script.removeprefix(INSTALLED)).is_file()
        assert set(options) <= known
