"""Commands in tests: each as a process of its own, as people run them, or quicker within the test's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from typer.testing import CliRunner

from memory_agent.cli.app import app
from memory_agent.stores.sqlite import SqliteStore
from tests.servers.forks import forks
from tests.servers.openai_script import ScriptedOpenAI

Result = TypeVar("Result")

MONDAY: Final = "The piano tuner comes on Monday at ten."
SECONDS: Final = 240


class CommandLine:
    """Runs `memory-agent` in an empty folder, whatever settings surround the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "memory"
        own = {k: v for k, v in os.environ.items() if not k.upper().startswith("MEMORY_AGENT_")}
        self.environment = {**own, "HF_HUB_OFFLINE": "1", "COLUMNS": "120"}

    def __call__(
        self, *arguments: str, stdin: str = "", code: int = 0, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run(self.arguments(*arguments), stdin=stdin, code=code, **settings)

    def run(
        self, words: list[str], *, stdin: str = "", code: int = 0, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """The command of these words as a process of its own; see `tests.servers.forks`."""
        environment = {**self.environment, **settings}
        finished = forks().run(words, stdin=stdin, cwd=self.folder, env=environment, timeout=SECONDS)
        assert finished.returncode == code, finished.stdout + finished.stderr
        assert "Traceback" not in finished.stderr
        return finished

    def arguments(self, *arguments: str) -> list[str]:
        return [*arguments, *([] if arguments[0] == "demo" else ["--data-dir", str(self.data)])]

    def command(self, *arguments: str) -> list[str]:
        """What starts it from nothing, for those who kill it, or look at its colours and how it ends."""
        return [sys.executable, "-m", "memory_agent.cli", *self.arguments(*arguments)]

    def forked(self, *arguments: str) -> list[str]:
        """What starts it as all others are, for those who give it a terminal, or tell it to stop."""
        return [forks().command, *self.arguments(*arguments)]

    def json(self, *arguments: str, **more: Any) -> Any:
        return json.loads(self(*arguments, "--json", **more).stdout)

    def say(self, line: str, **more: Any) -> str:
        """What a command line prints for people."""
        return self(*shlex.split(line), **more).stdout

    def follow(self, line: str) -> str:
        """Run the command that a line ends with, as a person would copy it; what it prints."""
        program, *words = shlex.split(line.partition("Undo: ")[2])
        assert program == "memory-agent"
        return self.run(words).stdout

    def file(self, *turns: object) -> str:
        path = self.folder / "turns.jsonl"
        path.write_text("\n".join(t if isinstance(t, str) else json.dumps(t) for t in turns), "utf-8")
        return str(path)


class Quick(CommandLine):
    """Runs the same commands within this process."""

    def run(
        self, words: list[str], *, stdin: str = "", code: int = 0, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        cleared = {name: None for name in os.environ if name.upper().startswith("MEMORY_AGENT_")}
        with contextlib.chdir(self.folder):
            result = CliRunner().invoke(
                app, words, input=stdin, env={**cleared, "COLUMNS": "120", **settings}
            )
        assert result.exit_code == code, f"{result.output}{result.exception!r}"
        return subprocess.CompletedProcess(words, result.exit_code, result.stdout, result.stderr)


def looking(cli: CommandLine) -> Quick:
    """The same memory, to look at within this process."""
    quick = Quick(cli.folder)
    quick.data = cli.data
    return quick


def copied(cli: CommandLine, folder: Path, kind: type[CommandLine] = Quick) -> CommandLine:
    """A copy of the memory, that a test may change."""
    other = kind(folder)
    shutil.copytree(cli.data, other.data)
    return other


def with_store(cli: CommandLine, use: Callable[[SqliteStore], Awaitable[Result]]) -> Result:
    """Do something with the store's file while no command runs."""

    async def run() -> Result:
        store = SqliteStore(cli.data / "memory_agent.sqlite3")
        await store.open()
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(run())


def user(content: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def asking(server: ScriptedOpenAI, **more: str) -> Any:
    """The settings of a scripted model's server, whose words are found by none of ours."""
    own = {"OPENAI_BASE_URL": server.base_url, "USE_LOCAL_EMBEDDINGS": "false", **more}
    return {f"MEMORY_AGENT_{name}": value for name, value in own.items()}


def one_line(text: str, *words: str) -> None:
    """It is an error of one line that says so, after a remark at most on a thread that is unknown."""
    *before, error = text.splitlines()
    assert error.startswith("memory-agent: ")
    assert len(before) <= 1
    assert all("has no thread" in remark for remark in before)
    for word in words:
        assert word in error
    assert "()" not in text, "no methods are named"
