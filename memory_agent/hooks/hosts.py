"""The coding agents whose settings take hooks: which file, which events, and what stands there. Pure but for `installed`."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from memory_agent.checks import at_home
from memory_agent.errors import ConfigError
from memory_agent.hooks import run

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

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
        return (at_home(moved) if moved else home / self.folder) / self.file

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


# --- elements put into lists of a JSON text, everything else as it was written -------------------------------
_BLANK: Final = re.compile(r"(?:[\s\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null', re.DOTALL)


@dataclass(slots=True)
class _Node:
    """A value and where it stands; a list's elements, or an object's values by their keys."""

    value: Any
    start: int
    end: int
    items: list[_Node] = field(default_factory=list)
    members: dict[str, _Node] = field(default_factory=dict)


def with_elements(text: str, elements: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    """The text of an object with each element in the list of that name below its `hooks`.

    `others`: members of the object that are needed besides, where they are not there. Raises ConfigError for a text that
    is no JSON, or has something else than lists there.
    """
    if not _BLANK.sub("", text):
        hooks = {name: [element] for name, element in elements.items()}
        return f"{json.dumps({**others, 'hooks': hooks}, indent=2)}\n"
    newline = "\r\n" if "\r\n" in text else "\n"
    root = _parse(text)
    needed = {name: value for name, value in others.items() if name not in root.members}
    if "hooks" not in root.members:
        needed["hooks"] = {name: [element] for name, element in elements.items()}
    if needed:
        text = _put_first(text, root, json.dumps(needed, indent=2)[1:-1].strip(), newline)
    if "hooks" in root.members:
        for name, element in elements.items():
            place = _checked(_parse(text).members["hooks"], dict, "hooks")
            dumped = json.dumps(element)
            if name in place.members:
                text = _put_first(text, _checked(place.members[name], list, f"hooks.{name}"), dumped, newline)
            else:
                text = _put_first(text, place, f'"{name}": [{dumped}]', newline)
    return text


def without_commands(text: str, commands: Collection[str]) -> str:
    """The text without the elements below `hooks` that run one of these commands. Raises ConfigError."""
    while True:
        hooks = _parse(text).members.get("hooks")
        listed = hooks.members.values() if hooks else ()
        cut = next(filter(None, (_ours(text, each, commands) for each in listed)), None)
        if cut is None:
            return text
        for start, end in cut:
            text = text[:start] + text[end:]


def commands_in(text: str) -> set[str]:
    """Every command that runs below `hooks`. Raises ConfigError."""
    hooks = _parse(text).value.get("hooks") if _BLANK.sub("", text) else None
    return set(_commands(hooks))


def _commands(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["command"]] if isinstance(value.get("command"), str) else []
        return own + [one for inner in value.values() for one in _commands(inner)]
    return [one for inner in value for one in _commands(inner)] if isinstance(value, list) else []


def _ours(text: str, listed: _Node, commands: Collection[str]) -> list[tuple[int, int]]:
    """Where an element that runs one of the commands is, and the comma that goes with it; the last place first."""
    for at, item in enumerate(listed.items):
        inner = item.members.get("hooks")
        if inner is not None and len(inner.items) > 1 and (cut := _ours(text, inner, commands)):
            return cut
        if not set(_commands(item.value)) & set(commands):
            continue
        comma = _skip(text, item.end)
        if text[comma] == ",":
            if text[item.end : comma].strip():  # a comment, which stays
                return [(comma, comma + 1), (item.start, item.end)]
            return [_with_breaks(text, item.start, comma + 1, between="\n  ")]
        if not at:
            return [_with_breaks(text, item.start, item.end, between="\n")]
        comma = _skip(text, listed.items[at - 1].end)
        if not text[comma + 1 : item.start].strip():
            return [(comma, item.end)]
        return [(item.start, item.end), (comma, comma + 1)]
    return []


def _with_breaks(text: str, start: int, end: int, *, between: str) -> tuple[int, int]:
    """The span with the blanks that `_put_first` has written before it, and `between` behind it, if they are there still."""
    newline = "\r\n" if "\r\n" in text else "\n"
    before, behind = f"{newline}  ", between.replace("\n", newline)
    if text[:start].endswith(before) and text[end:].startswith(behind):
        return start - len(before), end + len(behind)
    return start, end


def _put_first(text: str, node: _Node, member: str, newline: str) -> str:
    """`member` as the first thing inside of the object or list: there its comma is a question of what follows alone."""
    at = node.start + 1
    end = f",{newline}  " if node.items or node.members else newline
    return f"{text[:at]}{newline}  {member.replace(chr(10), newline)}{end}{text[at:]}"


def _checked(node: _Node, kind: type, name: str) -> _Node:
    if not isinstance(node.value, kind):
        wanted = "an object" if kind is dict else "a list"
        raise ConfigError(f"{name} is {node.value!r:.80}, and should be {wanted}")
    return node


# --- reading -------------------------------------------------------------------------------------------------
def _parse(text: str) -> _Node:
    """The object that the text is. Raises ConfigError."""
    node = _value(text, _skip(text, 0))
    if _skip(text, node.end) != len(text):
        raise _unreadable(text, node.end)
    return _checked(node, dict, "the file")


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int) -> _Node:
    if text[at : at + 1] == "{":
        return _inside(text, _Node(value={}, start=at, end=at), "}")
    if text[at : at + 1] == "[":
        return _inside(text, _Node(value=[], start=at, end=at), "]")
    found = _TOKEN.match(text, at)
    if found is None:
        raise _unreadable(text, at)
    try:
        return _Node(value=json.loads(found[0], strict=False), start=at, end=found.end())
    except ValueError:
        raise _unreadable(text, at) from None


def _inside(text: str, node: _Node, closing: str) -> _Node:
    at = _skip(text, node.start + 1)
    while text[at : at + 1] != closing:
        if closing == "}":
            key = _value(text, at)
            at = _skip(text, key.end)
            if not isinstance(key.value, str) or text[at : at + 1] != ":":
                raise _unreadable(text, at)
            inner = _value(text, _skip(text, at + 1))
            node.members[key.value] = inner
            node.value[key.value] = inner.value
        else:
            inner = _value(text, at)
            node.items.append(inner)
            node.value.append(inner.value)
        at = _skip(text, inner.end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != closing:
            raise _unreadable(text, at)
    node.end = at + 1
    return node


def _unreadable(text: str, at: int) -> ConfigError:
    where = text.count("\n", 0, at) + 1
    return ConfigError(f"line {where} cannot be read as JSON ({text[at : at + 20]!r})")
