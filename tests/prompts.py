"""A reader of contexts, strict about the grammar of `docs/context.md`: what it can't read is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Any

from memory_agent.domain import REMARK, ROLES, TAG_OF
from memory_agent.text.inert import MONTHS

_TAGS = {tag: tier for tier, tag in TAG_OF.items()}
_ROLE = "|".join(ROLES)
_DAY = re.compile(
    r"\[(?P<day>\d{1,2}) (?P<month>[A-Z][a-z]+)(?: (?P<year>\d{4}))?(?:, (?P<note>[^\[\]]+))?\]\Z"
)
_RECALLED = re.compile(
    rf"(?:(?P<role>{_ROLE})\b(?: (?!\(to “))?)?(?P<name>(?!: | \(to “)(?:(?!: | \(to “| \(replaced on \d).)+)?(?: \(to “(?P<to>[^“”]*)”\))?(?: \(replaced on (?P<replaced>[^()]+)\))?: "
)


@dataclass(frozen=True)
class Read:
    """A turn as a reader finds it: when, whose, and what was said."""

    when: date
    role: str
    name: str | None
    text: str
    to: str | None = None
    replaced: str | None = None


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
    """Turns, each of the day above it."""
    turns: list[Read] = []
    day: date | None = None
    above: dict[str, Any] = {}
    for item in items:
        if found := _DAY.match(item):
            assert found["year"] or day, f"a day without a year: {item}"
            year = int(found["year"]) if found["year"] else day.year  # type: ignore[union-attr]  # asserted
            day = date(year, MONTHS.index(found["month"]) + 1, int(found["day"]))
            above = {}
            continue
        # One of them: what was said may begin with the other.
        text = item[2:] if item.startswith(("- ", "… ")) else item
        if text is item:
            head = _RECALLED.match(item)
            assert head, item
            above = {**head.groupdict(), "role": head["role"] or "user"}
            text = item[head.end() :]
        assert day, f"no day above: {item}"
        assert above, f"nobody above: {item}"
        turns.append(Read(when=day, **above, text=text))
    return turns
