"""The coding agents whose settings take hooks: which file, which events, and what stands there. Pure but for `installed`."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory_agent.hooks import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TIMEOUT_SECONDS: Final = 5
"""For the agent, should a hook not end by itself."""


def _grouped(command: str) -> Mapping[str, Any]:
    return {"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_SECONDS}]}


def _plain(command: str) -> Mapping[str, Any]:
    return {"command": command, "timeout": TIMEOUT_SECONDS}


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """A coding agent. `folder` is below the home folder, unless the variable `moved_by` names it."""

    name: str
    folder: str
    moved_by: str | None
    file: str
    then: str
    """What its user has to do after an installation."""
    before_prompt: str = "UserPromptSubmit"
    after_answer: str = "Stop"
    element: Callable[[str], Mapping[str, Any]] = _grouped
    """What stands in an event's list for a command."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """Members that the file needs besides."""

    def settings_file(self, home: Path) -> Path:
        moved = os.environ.get(self.moved_by) if self.moved_by else None
        return (Path(moved) if moved else home / self.folder) / self.file

    def elements(self, settings: Path) -> dict[str, Mapping[str, Any]]:
        """The elements by their events; `settings` are ours."""
        commands = commands_of(settings)
        return {
            self.before_prompt: self.element(commands["recall"]),
            self.after_answer: self.element(commands["remember"]),
        }


def commands_of(settings: Path) -> dict[str, str]:
    """The command lines of both hooks, for the system's shell."""
    join = subprocess.list2cmdline if os.name == "nt" else shlex.join
    return {
        what: join([sys.executable, "-IS", run.__file__, what, str(settings)])
        for what in ("recall", "remember")
    }


HOSTS: Final = {
    host.name: host
    for host in (
        Host(
            name="claude-code",
            folder=".claude",
            moved_by="CLAUDE_CONFIG_DIR",
            file="settings.json",
            then="New sessions of Claude Code have them; /hooks shows them.",
        ),
        Host(
            name="codex",
            folder=".codex",
            moved_by="CODEX_HOME",
            file="hooks.json",
            then="Codex runs them once you have trusted them: type /hooks there.",
        ),
        Host(
            name="cursor",
            folder=".cursor",
            moved_by=None,
            file="hooks.json",
            then="Cursor reads them by itself; its Hooks tab shows them.",
            before_prompt="beforeSubmitPrompt",
            after_answer="stop",
            element=_plain,
            others={"version": 1},
        ),
    )
}
