"""What the pages and the help texts tell a reader to type: every block of code, every example, where it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from typer.main import get_command

from memory_agent.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ("README.md", *sorted(f"docs/{file.name}" for file in (ROOT / "docs").glob("*.md")))
_BLOCK: Final = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_WHOLE: Final = re.compile(r"^asyncio\.run\(|^    start_blocking_portal\(|^if __name__ ==", re.MULTILINE)
_CONTINUED: Final = re.compile(r" *\\\n\s*")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of a page; `line` is its first line's number, `section` the heading that it stands under."""

    page: str
    section: str
    line: int
    language: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command line, whole though it be written over several lines. `shown`: what a page says that it prints."""

    where: str
    line: str
    shown: tuple[str, ...] = ()


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in their order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(
            page=page,
            section=_heading_above(text[: found.start()]),
            line=text.count("\n", 0, found.start()) + 2,
            language=found["language"],
            text=found["text"],
        )
        for found in _BLOCK.finditer(text)
    ]


def _heading_above(text: str) -> str:
    headings: list[str] = re.findall(r"^#+ (.*)$", _BLOCK.sub("", text), flags=re.MULTILINE)
    return headings[-1]


def is_program(block: Block) -> bool:
    """Whether a block of Python is whole: it runs by itself, and opens its own memory."""
    return block.language == "python" and _WHOLE.search(block.text) is not None


def commands(block: Block) -> list[Command]:
    """The command lines of a block: for a shell, of a session that is shown (`console`: behind "$ "), or a program's."""
    if block.language == "console":
        return list(_session(block))
    if is_program(block):
        return [Command(where=f"{block.page}:{block.line}", line=f"python - <<'END'\n{block.text}END")]
    lines = _CONTINUED.sub(" ", block.text).splitlines()
    return [Command(where=f"{block.page}:{block.line}", line=line) for line in lines if line.strip()]


def _session(block: Block) -> Iterator[Command]:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, *shown = part.splitlines()
        yield Command(
            where=f"{block.page}:{block.line}", line=line, shown=tuple(s for s in shown if s.strip())
        )


def help_examples() -> list[Command]:
    """The examples in the help text of every command."""
    return [
        Command(where=f"memory-agent {name} --help", line=line)
        for name, text in _helped(get_command(app), ())
        for line in _examples(text)
    ]


def _helped(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Every command that isn't a group, with its help text."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(path), command.help or ""
        return
    for name, one in inner.items():
        yield from _helped(one, (*path, name))


def _examples(text: str) -> list[str]:
    shown = text.partition("**Examples**")[2]
    return [line.strip() for line in shown.splitlines() if line.strip()]
