"""Somebody who types what the pages say: a folder with a few files, an empty home, the package as it is installed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import platformdirs

from tests import leftovers
from tests.documented import Command, blocks
from tests.servers.mongod import free_port
from tests.tiny_models import tiny_model

SECONDS: Final = 280
SAID: Final = datetime(2026, 3, 1, 9, tzinfo=UTC)
SHORT: Final = (
    "My sister Mia moved to Leipzig last month, she lives near the zoo now.",
    "How nice! Does she like it there?",
    "She does. By the way, the piano tuner comes on Monday at ten. I have to be at home then, because he never finds the bell.",
    "Monday at ten it is. Shall I remind you on Sunday?",
    "Yes please. Next week I visit Mia for three days.",
    "Have a good journey! Shall I look up trains?",
    "From Utrecht, after nine.",
)
MIXED: Final = (
    "We decided to hold the meeting in Utrecht.",
    "Noted.",
    "I'm John, I work as a software engineer.",
    "Pleased to meet you, John.",
    "My meetings are best in the morning. I like jazz, and I'm allergic to walnuts.",
    "I'll keep that in mind.",
    "How long should my sourdough bread dough rise before I bake the loaf in the oven?",
    "Four hours at room temperature, or overnight in the fridge.",
    "The sourdough loaf was flat. Was the bread dough too wet for the oven?",
    "Perhaps; use less water, and a hotter oven.",
    "Which cream sells better in our shop, LANEIGE or COSRX?",
    "LANEIGE, by 42 jars to 17.",
)
LONG: Final = MIXED + 20 * (
    "It rained all day, and people came in to look at the soaps, dried their glasses and went out again.",
    "Looking costs nothing, and it is more than the shop across the street can say of its visitors.",
)
TALKS: Final = {
    ("ada", "main"): SHORT,
    ("ada", "work"): LONG,
    ("ada", "salon"): MIXED,
    ("ada", "holidays"): SHORT,
    ("me", "main"): MIXED,
}
"""What the reader remembers, by user and thread: Ada and the assistant by turns."""

_ID: Final = re.compile(r"\b01[0-9a-f]{6}-[0-9a-f-]{27}\b|\bID\b")
_KEY: Final = re.compile(r"(?<=revoke )[a-z2-7]{16}\b")
_ENDLESS: Final = re.compile(r"memory-agent (?:serve|worker(?!.*--until-idle))\b(?!.*&$)")
"""Commands that run until they are told to stop."""

# What stands in a page for something of the reader's own.
_OWN: Final = r"""
own_key() { memory-agent keys list --json | jq -r '.[-1].id'; }
own_topic() { memory-agent topics -u "$1" -t "$2" --all --json | jq -r ".[$3].topic_id"; }
own_turn() { memory-agent history -u "$1" -t "$2" --json | jq -r ".turns[$3].id"; }
own_session() { memory-agent session list -u "$1" -t "$2" --json | jq -r '.[0].id'; }
own_event() { memory-agent facts history preferences -u "$1" -t "$2" --json | jq -r '.[0].id'; }
"""
# Runs a command until it says that it is ready, and ends it as a service manager would: it must leave in peace. Its log is
# emptied here: on a busy machine the one before it would still be read as this one's, which was then ended before it began.
_FOR_A_WHILE: Final = r"""
for_a_while() {
  : > went.log
  env "$@" > went.log 2>&1 < /dev/null & local process=$!
  until grep -qE 'listens on|serves MCP at|^working' went.log; do
    kill -0 $process 2> /dev/null || { cat went.log; return 1; }
    sleep 0.1
  done
  sleep 0.2; kill -TERM $process; wait $process || { cat went.log; return 1; }; cat went.log
}
"""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a command printed, on both streams, in the order of its lines."""

    command: Command
    text: str


class Reader:
    """Types commands in a folder of its own, with the `memory-agent` that `tools` hold."""

    def __init__(
        self, folder: Path, tools: Path, package: Path, *, stands_for: Mapping[str, str] | None = None
    ) -> None:
        """`package`: where the package is installed; `stands_for`: the reader's own by what stands for it in a page."""
        self.folder = folder
        self._tools, self._package = tools, package
        self.port = free_port()
        self.stands_for = {
            "memory-agent …": "memory-agent status",
            "127.0.0.1:8080": f"127.0.0.1:{self.port}",
            **(stands_for or {}),
        }
        home = folder.parent / f"{folder.name}-home"
        home.mkdir(parents=True, exist_ok=True)
        kept = ("PATH", "LANG", "TMPDIR")
        self._answers = home / "answers"
        self._answers.write_text("y\n")  # to whatever asks: whether to erase, or what to talk about
        self.environment = {
            **{name: os.environ[name] for name in kept if name in os.environ},
            **leftovers.marks(),
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(package),
            "HOME": str(home),
            "HF_HUB_OFFLINE": "1",
            "COLUMNS": "100",
            # Making the ONNX file anew for each reader would only heat the room.
            "MEMORY_AGENT_MODEL_CACHE_DIR": str(platformdirs.user_cache_path("memory-agent")),
        }

    def copied(self, folder: Path, *, stands_for: Mapping[str, str]) -> Reader:
        """Another reader, whose folder begins as this one's is now."""
        shutil.copytree(self.folder, folder)
        return Reader(folder, self._tools, self._package, stands_for=stands_for)

    def follow(self, commands: Sequence[Command], **settings: str) -> list[Told]:
        """Type all of them in one shell; each must succeed."""
        said = [self.folder / f".said{number}" for number in range(len(commands))]
        script = [
            "set -euo pipefail",
            "trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT",
            _OWN,
            _FOR_A_WHILE,
        ]
        for command, file in zip(commands, said, strict=True):
            answers = "/dev/null" if "memory-agent mcp" in command.line else self._answers
            script += [
                f": {shlex.quote(command.where)}",
                f"{{ {self._typed(command.line)}\n}} > {file} 2>&1 < {answers}",
            ]
        finished = subprocess.run(
            ["bash", "-c", "\n".join(script)],
            cwd=self.folder,
            env={**self.environment, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        told = [
            Told(command=command, text=file.read_text(encoding="utf-8"))
            for command, file in zip(commands, said, strict=True)
            if file.exists()
        ]
        last = f"{told[-1].command.where}: {told[-1].command.line}\n{told[-1].text}" if told else ""
        assert finished.returncode == 0, f"{last}{finished.stdout}{finished.stderr}"
        assert not [one.text for one in told if "Traceback" in one.text]
        return told

    def tells(self, line: str, **settings: str) -> str:
        """What one command prints."""
        return self.follow([Command(where="the test", line=line)], **settings)[-1].text

    def _typed(self, line: str) -> str:
        """The line with the reader's own in place of what stands for it in a page."""
        for shown, own in self.stands_for.items():
            line = line.replace(shown, own)
        line = re.sub(r"(?<=--port )80\d\d\b", str(self.port), line)
        line = re.sub(r"(memory-agent serve)\b(?!.*--port)", rf"\1 --port {self.port}", line)
        line = _KEY.sub("$(own_key)", line)
        whose = f"{_option(line, '--user', '-u') or 'me'} {_option(line, '--thread', '-t') or 'main'}"
        if "session show" in line:
            line = _ID.sub(f"$(own_session {whose})", line)
        kind = "turn" if "--turn " in line else "topic"
        for number, shown in enumerate(dict.fromkeys(_ID.findall(line))):
            line = re.sub(rf"\b{shown}\b", f"$(own_{kind} {whose} {number})", line)
        line = re.sub(r"(?<=--to )\d+\.\d+$", f"$(own_event {whose})", line)
        line = re.sub(r"^curl -N .*", r"\g<0> --max-time 3 || [ $? -eq 28 ]", line)  # as long as one looks
        if _ENDLESS.search(line.split(" #")[0].rstrip()):
            line = f"for_a_while {line}"
        return line

    # --- what the reader has -------------------------------------------------------------------------------------
    def settle_in(self) -> None:
        """The files that pages speak of, and a memory of some conversations."""
        page = {block.language: block.text for block in blocks("docs/cli.md")}
        turns = [json.loads(line) for line in page["jsonl"].splitlines()]
        turns.append({"role": "user", "content": "I'm allergic to walnuts, and I don't eat meat."})
        (self.folder / "chat.jsonl").write_text(_lines(turns), encoding="utf-8")
        (self.folder / "export.json").write_text(json.dumps(turns), encoding="utf-8")
        kept = [
            {**turn, "user": user, "thread": thread, "timestamp": turn["timestamp"].isoformat()}
            for (user, thread), texts in TALKS.items()
            for turn in talk(texts)
        ]
        (self.folder / "kept.jsonl").write_text(_lines(kept), encoding="utf-8")
        tiny_model(self.folder / "my-model")
        self.tells("memory-agent ingest kept.jsonl")
        for _ in range(2):
            self.tells("memory-agent facts set preferences.meeting_time afternoon")


def _lines(turns: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(map(json.dumps, turns))


def talk(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Turns of user and assistant by turns, a minute apart."""
    return [
        {
            "role": "assistant" if number % 2 else "user",
            "content": text,
            "timestamp": SAID + timedelta(minutes=number),
            **({} if number % 2 else {"speaker": "Ada"}),
        }
        for number, text in enumerate(texts)
    ]


def _option(line: str, *names: str) -> str | None:
    """The value of an option on a command line."""
    found = re.search(rf"(?:{'|'.join(names)}) (\S+)", line)
    return None if found is None else found[1]


def tools_in(folder: Path) -> None:
    """`python` as the reader has it: the one that runs the tests, with a program from its input forked like a command."""
    python, forked = folder / "python", shlex.quote(str(folder / "memory-agent"))
    python.write_text(
        f'#!/bin/sh\n[ "$*" = - ] && exec {forked} -\nexec {shlex.quote(sys.executable)} "$@"\n'
    )
    python.chmod(0o755)
