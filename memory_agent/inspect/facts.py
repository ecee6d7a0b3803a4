"""The pages *Facts*: what is known of each person and by which words, how that came about, what was not believed; and edits."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date
from typing import TYPE_CHECKING, Any, Final

from memory_agent.agent.arguments import checked_about
from memory_agent.domain import PERSON
from memory_agent.errors import InvalidInput
from memory_agent.facts.edits import checked_path, typed_value
from memory_agent.facts.fold import overlap, person_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from starlette.responses import Response

    from memory_agent.domain import FactRecord, Scope, Turn
    from memory_agent.facts.fold import Folded, KnownValue
    from memory_agent.inspect.page import Page

_ROWS: Final = 100
_VIEWS: Final = ("known", "history", "refused")
_BARS: Final = 60
_KEPT: Final = ("reach", "view", "find", "as_of")
"""Of the address, on the way to another part of the page."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The days on which facts were stated, as ordinals of dates: for a slider, and as bars of a hundred's height."""

    first: int
    last: int
    chosen: int
    bars: tuple[float, ...]
    earlier: int | None
    later: int | None

    @property
    def day(self) -> str:
        """The day that was chosen."""
        return f"{date.fromordinal(self.chosen)}"


async def facts(page: Page) -> Response:
    """List of what is known, how it came about, or what was not believed; with `path` one fact. Changes nothing."""
    if page.asked("day"):
        return _on_day(page)
    view, as_of = page.asked("view") or "known", page.time("as_of")
    if view not in _VIEWS:
        raise InvalidInput(f"view is {view!r:.80}; use one of {', '.join(_VIEWS)}")
    folded, times = await _known(page)
    start, sought = page.number("from") or 0, page.asked("find").casefold()
    if page.asked("path"):
        return await _one_fact(page, folded, times)
    found = await asyncio.to_thread(_found, folded, view, sought)
    shown = found[start : start + _ROWS]
    records = [one if view != "known" else one.record for one in shown]
    return await page.show(
        "facts.html",
        view=view,
        rows=shown,
        count=len(found),
        start=start,
        page_rows=_ROWS,
        turns=await turns_of(page, (record for record in records if record is not None)),
        timeline=timeline_of(times, as_of),
        said=said,
        **_common(page),
    )


async def _known(page: Page) -> tuple[Folded, list[datetime]]:
    """The facts as of the time that was asked for, and when facts were stated at any time."""
    keeper, scope, as_of = page.api.service.core.facts, _reach(page), page.time("as_of")
    folded = await keeper.known(scope, as_of)
    if as_of is None:
        return folded, [record.said_at for record in folded.records]
    return folded, [change.said_at for change in await keeper.changes(scope) for _ in change.events]


def _found(folded: Folded, view: str, sought: str) -> list[Any]:
    """What the view lists, the latest event first; only what has the words that are sought."""
    rows: list[Any]
    if view == "known":
        rows = sorted(folded.values, key=lambda known: (known.subject, known.path))
    else:
        rows = [record for record in reversed(folded.records) if bool(record.refused) == (view == "refused")]
    if not sought:
        return rows
    return [row for row in rows if sought in f"{row.subject} {'.'.join(row.path)} {row.value}".casefold()]


async def _one_fact(page: Page, folded: Folded, times: Sequence[datetime]) -> Response:
    """One path of one person: what stands there, its history, and the forms that change it."""
    path, about = checked_path(page.asked("path")), page.asked("about")
    records = [record for record in folded.records if _is_at(record, path, about) and not record.refused]
    people = list({person_key(record.subject): record.subject for record in records}.values())
    about = about or (people[0] if len(people) == 1 else "")
    known = [one for one in folded.values if _is_at(one, path, about) and len(one.path) >= len(path)]
    own = [record for record in records if record.thread_id == page.path("thread")]
    done = _named(own, page.asked("done"), page)
    return await page.show(
        "fact.html",
        where=path,
        about=about,
        people=people,
        known=known[:_ROWS],
        known_count=len(known),
        is_list=bool(known) and all(one.in_list and one.path == path for one in known),
        own_value=_written(known[0].value) if len(known) == 1 and not known[0].in_list else "",
        records=records[: -_ROWS - 1 : -1],
        count=len(records),
        done=done,
        # A value that another thread said already is no event of this one.
        was_known=bool(page.asked("was_known") or page.asked("done")),
        may_undo=done is not None and done is own[-1] and done.by == PERSON,
        may_change=bool(about or not people) and not page.principal.read_only and page.time("as_of") is None,
        turns=await turns_of(page, records[: -_ROWS - 1 : -1]),
        timeline=timeline_of(times, page.time("as_of")),
        said=said,
        written=_written,
        **_common(page),
    )


def _is_at(one: FactRecord | KnownValue, path: tuple[str, ...], about: str) -> bool:
    return overlap(one.path, path) and (not about or person_key(one.subject) == person_key(about))


async def change(page: Page) -> Response:
    """Set, add, retract or revert a fact in this thread. Raises InvalidInput."""
    form = page.form
    path, about, value = form.get("path", "").strip(), form.get("about", "").strip(), form.get("value", "")
    given: dict[str, Any] = {"about": about or None}
    now = page.api.service.clock.now()
    began = now.replace(microsecond=now.microsecond // 1000 * 1000)  # as what is stored
    match form.get("do", ""):
        case "set":
            record = await page.agent.set_fact(path, typed_value(value), **given)
        case "add":
            record = await page.agent.add_fact(path, typed_value(value), **given)
        case "retract":
            record = await page.agent.retract_fact(path, typed_value(value) if value else None, **given)
        case "revert":
            record = await page.agent.revert_fact(path, form.get("to") or None, **given)
        case "undo":
            editor, whose = page.api.service.core.fact_editor, checked_about(about or None)
            record = await editor.undo(page.agent.scope, path, form.get("event", ""), about=whose)
        case other:
            raise InvalidInput(f"do is {other!r:.80}; use 'set', 'add', 'retract', 'revert' or 'undo'")
    kept = {name: form[name] for name in ("reach",) if form.get(name)}
    # What it said may have been known before, and then the record is that of then.
    told = {"done": record.id} if record.recorded_at >= began else {"was_known": "1"}
    return page.go(*page.of_thread("facts"), **kept, path=".".join(record.path), about=record.subject, **told)


def _named(records: Sequence[FactRecord], name: str, page: Page) -> FactRecord | None:
    """The record of this thread with that id, as one thread or several name it."""
    thread = f"{page.path('thread')}/"
    bare = name.removeprefix(thread)
    return next((record for record in records if record.id.removeprefix(thread) == bare), None)


# --- what both show ------------------------------------------------------------------------------------------
def _common(page: Page) -> dict[str, Any]:
    kept = {name: page.asked(name) for name in _KEPT if page.asked(name)}
    return {
        "as_of": page.time("as_of"),
        "reach": _reach_name(page),
        "kept": kept,
        "address_of": page.of_thread("facts"),
    }


def _reach_name(page: Page) -> str:
    reach = page.asked("reach") or page.api.cfg.memory_scope
    if reach not in ("user", "thread"):
        raise InvalidInput(f"reach is {reach!r:.80}; use 'user' or 'thread'")
    return reach


def _reach(page: Page) -> Scope:
    """The thread, or all of the user's. Raises AccessDenied."""
    scope = page.agent.scope
    return scope if _reach_name(page) == "thread" else scope.user


def said(value: Any) -> str:
    """A value as text: JSON but for texts."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _written(value: Any) -> str:
    """The same as somebody would have to type it."""
    return (
        value
        if isinstance(value, str) and typed_value(value) == value
        else json.dumps(value, ensure_ascii=False)
    )


async def turns_of(page: Page, records: Iterable[FactRecord]) -> dict[str, Turn]:
    """The turns that the records were taken from first, by id."""
    ids = {record.sources[0].turn_id for record in records} - {None}
    found = await page.store.list_turns(page.user_scope, ids=sorted(map(str, ids))) if ids else []
    return {turn.id: turn for turn in found}


# --- time ----------------------------------------------------------------------------------------------------
def _on_day(page: Page) -> Response:
    """From the slider's day to the address of that day's evening; without a time where that is the last one."""
    day, last = page.number("day") or 0, page.number("last") or 0
    kept = {
        name: page.asked(name) for name in (*_KEPT, "path", "about") if name != "as_of" and page.asked(name)
    }
    if day < last:
        try:
            kept["as_of"] = f"{date.fromordinal(day)}T23:59:59.999"
        except (ValueError, OverflowError):
            raise InvalidInput(
                f"day is {day}; write the ordinal of a date, such as 719163 for 1970-01-01"
            ) from None
    return page.go(*page.of_thread("facts"), **kept)


def timeline_of(times: Iterable[datetime], as_of: datetime | None) -> Timeline | None:
    """The days of these times; None where all are on one."""
    days = Counter(time.astimezone(UTC).toordinal() for time in times)
    if len(days) < 2:
        return None
    first, last = min(days), max(days)
    chosen = last if as_of is None else min(max(as_of.toordinal(), first), last)
    width = (last - first + 1) / _BARS
    sums = Counter[int]()
    for day, count in days.items():
        sums[int((day - first) / width)] += count
    highest = max(sums.values())
    earlier = max((day for day in days if day < chosen), default=None)
    later = min((day for day in days if day > chosen), default=None)
    return Timeline(
        first=first,
        last=last,
        chosen=chosen,
        bars=tuple(100 * sums[number] / highest for number in range(_BARS)),
        earlier=earlier,
        later=later,
    )
