"""A reader of contexts, strict about the grammar of `docs/context.md`: what it can't read is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from memory_agent.context.render import GAP
from memory_agent.domain import REMARK, ROLES, TAG_OF
from memory_agent.text.inert import MONTHS

_TAGS = {tag: tier for tier, tag in TAG_OF.items()}
_ROLE = "|".join(ROLES)
_DAY = re.compile(
    r"\[(?P<day>\d{1,2}) (?P<month>[A-Z][a-z]+)(?: (?P<year>\d{4}))?(?:, (?P<note>[^\[\]]+))?\]\Z"
)
_RECALLED = re.compile(
    rf"(?:(?P<role>{_ROLE})\b(?: (?!\((?:to|after) “))?)?"
    r"(?P<name>(?!: | \((?:to|after) “)(?:(?!: | \((?:to|after) “| \(\d+ times, last on | \(replaced on \d).)+)?"
    r"(?: \((?:to|after) “(?P<to>[^“”]*)”\))?(?: \((?P<times>\d+ times, last on [^()]+)\))?"
    r"(?: \(replaced on (?P<replaced>[^()]+)\))?: "
)


@dataclass(frozen=True)
class Read:
    """A turn as a reader finds it: when, whose, and what was said.

    `to`: what it quotes; `times`: how often it was said; `follows`: it stands right below another, with no mark between.
    """

    when: date
    role: str
    name: str | None
    text: str
    to: str | None = None
    times: str | None = None
    replaced: str | None = None
    follows: bool = False


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
    """Turns, each of the day above it. A gap is a line of its own, between two turns of a day."""
    turns: list[Read] = []
    day: date | None = None
    above: str | None = None
    for item in [*items, ""]:
        assert above != GAP or (item not in ("", GAP) and not _DAY.match(item)), "a gap with nothing below"
        if found := _DAY.match(item):
            assert found["year"] or day, f"a day without a year: {item}"
            year = int(found["year"]) if found["year"] else day.year  # type: ignore[union-attr]  # asserted
            day = date(year, MONTHS.index(found["month"]) + 1, int(found["day"]))
        elif item not in ("", GAP):
            assert day, f"no day above: {item}"
            head = _RECALLED.match(item)
            assert head, item
            told = {**head.groupdict(), "role": head["role"] or "user"}
            turns.append(Read(when=day, text=item[head.end() :], follows=above == "turn", **told))
        above = item if item == GAP else None if found else "turn"
    assert items[:1] != [GAP], "a gap with nothing above"
    return turns
