"""A folder that another process holds: every command works on it, and says the same as on a folder that nobody holds."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from memory_agent import DataDirInUse, MemoryConfig, MemoryService
from memory_agent.cli.app import app
from memory_agent.data_dir import LocalService
from memory_agent.keys import read_token
from memory_agent.models.tokens import EstimatedTokens
from tests import profiles
from tests.integration.commands import SECONDS, CommandLine, Quick
from tests.servers.forks import ESTIMATES, forks
from tests.servers.service import ServiceProcess

PIANO: Final = "The piano tuner comes on Monday at ten. My name is Ada Byron."
TURNS: Final = (
    {"role": "user", "content": PIANO, "timestamp": "2026-03-01T10:00:00+01:00"},
    {"role": "assistant", "content": "I'll remind you.", "timestamp": "2026-03-01T10:01:00+01:00"},
    {"role": "user", "content": "I live in Delft and I love tea.", "timestamp": "2026-03-01T10:02:00+01:00"},
    {"role": "assistant", "content": "Tea it is.", "timestamp": "2026-03-01T10:03:00+01:00"},
)
OLD: Final = {"role": "user", "content": "Long ago.", "timestamp": "2020-01-01T00:00:00Z", "thread": "attic"}

READING: Final = """
status --json
status --user me --thread main --json
ask "When does somebody tune the piano?" --json
ask piano --context --json
facts show --json
facts show --as-of 2026-03-01T09:30:00Z --json
facts history --json
facts history --refused
topics
topics --all --json
topic show --json
history
history --all --json
session show
session show --json
session show --compressed --json
session show --compressed --as-of 99
sweep --dry-run --json
ask nothing --thread nobody
session show --thread nobody
session show no-such-session
topic show no-such-topic
history --session no-such-session
facts revert name --to no-such-event
facts retract no.such.fact
status --user "" --json
"""
CHANGING: Final = """
facts set preferences.tea green
facts set preferences.tea black --json
facts add preferences.likes tea --json
facts retract preferences.likes tea --json
facts revert preferences.tea --json
facts reextract --json
topic tag TOPIC music home
topic tag TOPIC --remove home --json
topic restore TOPIC
session list
ingest FILE --thread more --json
ingest FILE --thread later --no-wait --json
rebuild --json
retry --json
retry --user me --no-wait
forget --turn TURN --yes --wait
forget --thread later --whole-thread --yes --wait --json
sweep --json
retry --no-wait
rebuild
status --json
ask "When does somebody tune the piano?" --json
forget --whole-user --yes --json
history --json
"""


FAIL: Final = """
session show
session show --json
session show --thread nobody
session show no-such-session
topic show no-such-topic
history --session no-such-session
facts retract no.such.fact
status --user "" --json
"""


# --- commands and what they say --------------------------------------------------------------------------------
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_WHEN: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z)?")
_PASSING: Final = re.compile(
    r'("(age_seconds|inactive_seconds|priority|seconds|topics_per_second|lag_seconds|revision)": )[^,\n]+'
)
_TOOK: Final = re.compile(
    r"\d+\.\d+ s\b.*|< 1 minute|\d+ (minute|day|second)s?( ago)?|\b0\.\d{3}\b|\d,?\d* topics a second"
)
_SCORE: Final = re.compile(r"-?\d+\.\d{3,}")


class Runner(Quick):
    """Runs commands in this process, and keeps what they said without what differs from run to run."""

    known: dict[str, str]

    def said(self, line: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        words = [self.known.get(word, word) for word in shlex.split(line)]
        environment = {"MEMORY_AGENT_RETENTION_DAYS": "3000", "HF_HUB_OFFLINE": "1"}
        ran = CliRunner().invoke(app, self.arguments(*words), env=environment, catch_exceptions=False)
        assert "Traceback" not in ran.stderr
        return ran.exit_code, self._plain(ran.stdout), self._plain(ran.stderr)

    def know(self, file: Path) -> None:
        """What the commands that change something name: a topic, a turn and a file."""
        topic, turn = self.json("topics")[0]["topic_id"], self.json("history")["turns"][1]["id"]
        self.known = {"TOPIC": topic, "TURN": turn, "FILE": str(file)}

    def _plain(self, text: str) -> str:
        text = text.replace(str(self.data), "FOLDER")
        text = _PASSING.sub(r"\1…", _WHEN.sub("WHEN", _ID.sub("ID", text)))
        text = _SCORE.sub(lambda number: f"{float(number[0]):.2f}", _TOOK.sub("A WHILE", text))
        return re.sub(r" +$", "", text, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Runner, Runner]]:
    """Two copies of one memory: one that nobody holds, one that a service holds."""
    folder = tmp_path_factory.mktemp("shared")
    first = CommandLine(folder)
    file = first.file(*TURNS, OLD)
    first("ingest", file)
    free, held = Runner(folder), Runner(folder)
    for runner, name in ((free, "free"), (held, "held")):
        runner.data = folder / name
        shutil.copytree(first.data, runner.data)
        runner.know(folder / "turns.jsonl")
    service = ServiceProcess(folder, settings={"data_dir": held.data, "retention_days": 3_000})
    service.environment[ESTIMATES] = "1"
    service.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memory_agent.models.tokens.best_token_counter", EstimatedTokens)  # as the service does
        yield free, held
    service.stop()


def compared(folders: tuple[Runner, Runner], lines: Sequence[str]) -> tuple[dict[str, Any], dict[str, int]]:
    """What was said of both folders where it differs, and which commands failed."""
    differ, failed = {}, {}
    for line in lines:
        free, held = (runner.said(line) for runner in folders)
        if free != held:
            differ[line] = (free, held)
        if free[0]:
            failed[line] = free[0]
    return differ, failed


@pytest.mark.timeout(300)
def test_every_command_that_looks_says_the_same_of_a_held_folder(folders: tuple[Runner, Runner]) -> None:
    """With the same exit code, for people and as JSON, and in the same words where it fails."""
    lines = READING.strip().split("\n")
    lines = lines if profiles.chosen() == "nightly" else lines[::2]
    differ, failed = compared(folders, lines)
    assert differ == {}
    wrong_usage = {"facts revert name --to no-such-event": 2}
    fails = wrong_usage | dict.fromkeys(FAIL.strip().split("\n"), 1)
    assert failed == {line: code for line, code in fails.items() if line in lines}


@pytest.mark.timeout(300)
def test_every_command_that_changes_something_does_the_same_in_a_held_folder(
    folders: tuple[Runner, Runner],
) -> None:
    """One after the other, each on what those before left."""
    assert compared(folders, CHANGING.strip().split("\n")) == ({}, {})


# --- processes -------------------------------------------------------------------------------------------------
@pytest.mark.timeout(300)
async def test_a_service_lets_this_user_s_commands_in_for_as_long_as_it_lives(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an address and a key beside the lock, which nobody else can read and nothing tells; killed, it lets nobody in.

    A proxy in the environment is not asked.
    """
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    service = ServiceProcess(cli.folder / "logs", settings={"data_dir": cli.data, "server_host": "0.0.0.0"})
    with contextlib.ExitStack() as stack:
        stack.callback(service.kill)
        await lives(cli, service)


async def lives(cli: CommandLine, service: ServiceProcess) -> None:
    """Started, used, killed, started again, stopped."""
    folder = cli.data
    service.start()
    left = LocalService.left_in(folder)
    assert left is not None
    assert left.url == f"http://127.0.0.1:{service.address.rpartition(':')[2]}"
    assert (folder / ".service.json").stat().st_mode & 0o777 == 0o600
    assert cli.json("ingest", cli.file(*TURNS))["turns"] == 4
    assert cli.json("ask", "When does somebody tune the piano?")[0]["turn"]["content"] == PIANO
    assert "works off what is owed itself" in cli("worker", code=1).stderr
    assert cli.json("worker", "--show")["runs"] is True
    assert f"at {left.url}" in cli("serve", "--port", "0", code=1).stderr
    with pytest.raises(DataDirInUse, match=f"ServiceClient at {left.url}"):
        await MemoryService.holding(MemoryConfig(data_dir=folder)).__aenter__()
    async with MemoryService(MemoryConfig(data_dir=folder)) as asking:
        assert (await asking.status()).turns == 4
    parsed = read_token(left.api_key)
    assert parsed is not None
    assert parsed[1] not in service.log.read_text()
    assert all(parsed[1].encode() not in path.read_bytes() for path in folder.glob("keys.sqlite3*"))
    service.kill()
    assert LocalService.left_in(folder) == left
    assert cli.json("status")["turns"] == 4
    assert LocalService.left_in(folder) is None
    service.start()
    again = LocalService.left_in(folder)
    assert again is not None
    assert again.api_key != left.api_key
    assert service.stop() == 0
    assert LocalService.left_in(folder) is None


@pytest.mark.timeout(300)
def test_a_worker_and_a_chat_share_the_folder_that_they_hold(cli: CommandLine) -> None:
    """Commands that stay let others in beside them, and end as ever."""
    for name in ("worker", "chat"):
        with running(cli, forks().command, *cli.arguments(name)) as holder:
            wait_until(lambda: LocalService.left_in(cli.data) is not None)
            cli("facts", "set", "preferences.tea", name)
            assert cli.json("facts", "show") == {"preferences": {"tea": name}}
            if name == "worker":
                holder.terminate()
            _, err = holder.communicate("/quit\n" if name == "chat" else None, timeout=SECONDS)
            assert holder.returncode == 0, err


@contextlib.contextmanager
def running(cli: CommandLine, *command: str) -> Iterator[subprocess.Popen[str]]:
    """A process that stays; ended with the block."""
    streams: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, env=cli.environment, cwd=cli.folder, text=True, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
