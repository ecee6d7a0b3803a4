"""A reader of contexts, strict about the grammar of `docs/context.md`: what it can't read is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memory_agent.domain import REMARK, ROLES, TAG_OF

_TAGS = {tag: tier for tier, tag in TAG_OF.items()}
_ROLE = "|".join(ROLES)
_TURN = re.compile(
    rf"\[(?:turn (?P<seq>\d+), )?(?P<when>\d{{4}}-\d\d-\d\d \d\d:\d\d) UTC, (?P<role>{_ROLE})(?: (?P<name>[^\[\]]+))?\] "
)
_DAY = re.compile(r"\[(\d{4}-\d\d-\d\d) UTC\]\Z")
_RECALLED = re.compile(
    rf"(?:(?P<role>{_ROLE})\b(?: (?!\(to “))?)?(?P<name>(?!: | \(to “)(?:(?!: | \(to “).)+)?(?: \(to “(?P<to>[^“”]*)”\))?: "
)


@dataclass(frozen=True)
class Read:
    """A turn as a reader finds it: its number if it has one, when, whose, and what was said."""

    seq: str | None
    when: str
    role: str
    name: str | None
    text: str
    to: str | None = None


def read_tiers(prompt: str) -> dict[str, list[str]]:
    """The items of each tier, the indent of their further lines taken off."""
    lines = prompt.split("\n")
    assert len(prompt.splitlines()) == len(lines), "another line break"
    assert (lines.pop(0), lines.pop()) == ("<memory_context>", "</memory_context>")
    tiers: dict[str, list[str]] = {}
    while lines:
        line = lines.pop(0)
        if line == REMARK:
            continue
        assert line[0] + line[-1] == "<>", f"no tag: {line!r}"
        items = tiers.setdefault(_TAGS[line[1:-1]], [])
        assert not items, f"{line} twice"
        while (inner := lines.pop(0)) != f"</{line[1:]}":
            if items and inner[:1] in ("", " "):
                items[-1] += "\n" + inner[1:]
            else:
                items.append(inner)
    return tiers


def read_turns(items: list[str]) -> list[Read]:
    """Turns of the window, or preserved ones."""
    turns = []
    for item in items:
        head = _TURN.match(item)
        assert head, item
        turns.append(Read(**head.groupdict(), text=item[head.end() :]))
    return turns


def read_recollections(items: list[str]) -> list[Read]:
    """Recollections, each of the day above it."""
    turns, day = [], ""
    for item in items:
        if heading := _DAY.match(item):
            day = heading[1]
            continue
        head = _RECALLED.match(item)
        assert head, item
        found = {**head.groupdict(), "role": head["role"] or "user"}
        turns.append(Read(seq=None, when=day, **found, text=item[head.end() :]))
    return turns
