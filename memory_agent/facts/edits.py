"""Edits of facts by people: set, retract, revert. Each is a change of its own in the thread's history.

An edit takes its place after every turn that was there when it was made. So it outranks what they state, also if that
is extracted later, until the user says otherwise in a later turn.

An edit may carry the caller's idempotency key. The first one with a key counts; a repeat changes nothing and shows what
the first one brought about, and another edit under that key is refused.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

from memory_agent.checks import checked_id, checked_time
from memory_agent.domain import PERSON, FactEvent, new_id
from memory_agent.errors import IdempotencyKeyReused, InvalidInput, NotFound, TurnForgotten
from memory_agent.facts.fold import (
    addressed,
    change_by_person,
    counting,
    document_of,
    fold_facts,
    is_stand_in,
    overlap,
    person_key,
    place_of,
    record_id,
    steps_of,
)
from memory_agent.facts.merge import UnmergeableFacts, fact_path, fact_value
from memory_agent.facts.tree import FactTree
from memory_agent.facts.vetting import LISTS

if TYPE_CHECKING:
    from memory_agent.domain import FactChange, FactRecord, Place, Scope
    from memory_agent.facts.fold import Folded, Step
    from memory_agent.facts.keeper import FactKeeper
    from memory_agent.ports import Clock, DocumentStore

Path = str | Sequence[str]
_BEFORE_EVERYTHING: Final[Place] = ("", 0, 0)
_SHOWN_PATHS: Final = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class EditOptions:
    """Whom an edit is `about` (see `addressed`), and the caller's idempotency key."""

    about: str | None = None
    key: str | None = None


class FactEditor:
    """Makes edits.

    With an idempotency key whose edit was forgotten since, each raises TurnForgotten; of another, IdempotencyKeyReused.
    """

    def __init__(self, store: DocumentStore, keeper: FactKeeper, clock: Clock) -> None:
        self._store, self._keeper, self._clock = store, keeper, clock

    async def set(self, scope: Scope, path: Path, value: Any, options: EditOptions) -> FactRecord:
        """`value` stands at `path`, whatever stood there. Raises InvalidInput for what no document can hold."""
        where = checked_path(path)
        found = checked_value(value, where)
        if where[-1] in LISTS and not isinstance(found, list):
            found = [found]  # or the next like would take this one's place
        event = FactEvent(op="set", path=where, value=found)
        if first := await self._first(scope, event, options):
            return first
        return await self._edit(scope, await self._about(scope, event, options), options)

    async def add(self, scope: Scope, path: Path, value: Any, options: EditOptions) -> FactRecord:
        """`value` is one more element of the list at `path`.

        Raises InvalidInput for what no document can hold, and where a single value or a group of facts stands.
        """
        where = checked_path(path)
        event = FactEvent(op="add", path=where, value=checked_value(value, where))
        if first := await self._first(scope, event, options):
            return first
        event = await self._about(scope, event, options)
        there: Any = document_of(await self._keeper.people(scope), event.subject)
        for depth, name in enumerate(where, start=1):
            there = there.get(name) if isinstance(there, dict) else None
            if there is not None and not isinstance(there, dict if depth < len(where) else list):
                raise InvalidInput(
                    f"path is {'.'.join(where)!r}, and {'.'.join(where[:depth])} is {there!r:.80}, no list",
                    remedy=("set_fact", "replaces it"),
                )
        return await self._edit(scope, event, options)

    async def retract(self, scope: Scope, path: Path, value: Any | None, options: EditOptions) -> FactRecord:
        """Nothing stands at `path` any more, or (with `value`) that element of its list.

        A fact of another thread of the user may be retracted here: then it counts no more among the user's facts.
        Raises InvalidInput if nothing stands there.
        """
        where = checked_path(path)
        element = None if value is None else checked_value(value, where)
        event = FactEvent(op="retract" if value is None else "remove", path=where, value=element)
        if first := await self._first(scope, event, options):
            return first
        changes = await self._store.fact_changes(scope.user)
        everywhere = fold_facts(changes)
        own = fold_facts([change for change in changes if change.thread_id == scope.thread_id])
        event = dataclasses.replace(event, subject=addressed(own.people or everywhere.people, options.about))
        for folded in (own, everywhere):
            if FactTree.of(document_of(folded.people, event.subject)).apply(event, 1).ended:
                return await self._edit(scope, event, options)
        whose = person_key(event.subject)
        known = [record.path for record in everywhere.standing() if person_key(record.subject) == whose]
        listed = ", ".join([*dict.fromkeys(map(".".join, known))][:_SHOWN_PATHS]) or "none"
        what = "nothing is known there" if value is None else f"{value!r:.80} is not known there"
        raise InvalidInput(f"path is {'.'.join(where)!r}, and {what}; known paths: {listed}")

    async def revert(
        self, scope: Scope, path: Path, to: str | datetime | None, options: EditOptions
    ) -> FactRecord:
        """`path` ("": all that is known of the person) becomes what it was after the event `to`, at the time `to`, or (None) before its last event.

        Raises NotFound for an event that the thread's history does not hold, InvalidInput for a time to come.
        """
        event = FactEvent(op="revert", path=() if path == "" else checked_path(path))
        if first := await self._first(scope, event, options):
            return first
        event = await self._about(scope, event, options)
        changes = await self._store.fact_changes(scope)
        steps = list(steps_of(counting(changes)))
        if isinstance(to, datetime):
            time = checked_time("to", to)
            if time > self._clock.now():
                raise InvalidInput(
                    f"to is {time.isoformat()}, which is still to come; pass a time that has been"
                )
            cut = max((step.place for step in steps if step.said_at <= time), default=_BEFORE_EVERYTHING)
        elif to is None:
            cut = _place_before_last(steps, fold_facts(changes), event)
        else:
            ids = {
                record_id(step.mark, several=several): step.place
                for step in steps
                for several in (False, True)
            }
            if to not in ids:
                raise no_such_event(to)
            cut = ids[to]
        return await self._edit(scope, dataclasses.replace(event, to=cut), options)

    async def undo(self, scope: Scope, path: Path, event_id: str, *, about: str | None) -> FactRecord:
        """`path` becomes what it was right before that edit, if it is the last event about it.

        Whatever is stated meanwhile counts after this. Raises InvalidInput if something was stated since, NotFound for no edit of `path`.
        """
        options = EditOptions(about=about)
        event = await self._about(scope, FactEvent(op="revert", path=checked_path(path)), options)
        changes = await self._store.fact_changes(scope)
        records = {record.id: record for record in fold_facts(changes).records}
        steps = [step for step in steps_of(counting(changes)) if _is_about(step, event)]
        told = {name: step for step in steps if (name := record_id(step.mark)) in records}
        wanted = event_id.removeprefix(f"{scope.thread_id}/")
        if wanted not in told or records[wanted].by != PERSON:
            raise no_such_event(event_id)
        if [*told][-1] != wanted:
            last = records[[*told][-1]]
            what = "" if last.value is None else f" {last.value!r:.80}"
            raise InvalidInput(
                f"the change was not undone: {'.'.join(last.path)!r:.80} was changed again since ({last.op}{what}, "
                f"{last.recorded_at:%Y-%m-%d %H:%M} UTC); go back to what you want in its history instead"
            )
        at, seq, number = told[wanted].place
        event = dataclasses.replace(event, to=(at, seq, number - 1))
        # Right behind what it undoes, and so before what comes between the read and this.
        return await self._edit(scope, event, options, at=f"{at}~")

    async def _about(self, scope: Scope, event: FactEvent, options: EditOptions) -> FactEvent:
        """The event with its subject: see `addressed`. Where nothing is known of the thread, as in the user's others."""
        people: Collection[str] = ()
        if options.about is None:
            people = await self._keeper.people(scope) or await self._keeper.people(scope.user)
        return dataclasses.replace(event, subject=addressed(people, options.about))

    async def _first(self, scope: Scope, event: FactEvent, options: EditOptions) -> FactRecord | None:
        """The change of the thread's first edit with this idempotency key; None if this is the first.

        Raises IdempotencyKeyReused if that was not `event`. What a revert goes back to is not compared: it was found by what stood then.
        """
        key, about = options.key, options.about
        if key is None:
            return None
        checked_id("idempotency_key", key)
        changes = await self._store.fact_changes(scope)
        stored = next((change for change in changes if change.idempotency_key == key), None)
        if stored is None:
            if await self._store.key_spent(scope, "edit", key):
                raise _forgotten(key)
            return None
        made = stored.events[0]
        if about is not None and person_key(made.subject) != person_key(addressed((), about)):
            raise IdempotencyKeyReused.of(key, "about")
        for name, shown in {"op": "edit", "path": "path", "value": "value"}.items():
            if getattr(made, name) != getattr(event, name):
                raise IdempotencyKeyReused.of(key, shown)
        await self._keeper.save(scope)  # the first call may have died before it did
        return _shown(changes, stored)

    async def _edit(self, scope: Scope, event: FactEvent, options: EditOptions, at: str = "") -> FactRecord:
        at = at or await self._place(scope)
        made = {"events": (event,), "idempotency_key": options.key}
        change = change_by_person(new_id(), "edit", at, now=self._clock.now(), **made)
        if not await self._store.append_fact_change(scope, change) and options.key is not None:
            # Another call with the same key was quicker.
            if first := await self._first(scope, event, options):
                return first
            raise _forgotten(options.key)
        await self._keeper.save(scope)
        changes = await self._store.fact_changes(scope)
        stored = next((found for found in changes if found.key == change.key), None)
        if stored is None:  # the thread was cleared meanwhile
            alone = dataclasses.replace(change, thread_id=scope.thread_id or "", seq=1)
            return fold_facts([alone]).records[0]
        return _shown(changes, stored)

    async def _place(self, scope: Scope) -> str:
        """The place of an edit made now: behind every turn."""
        newest = await self._store.list_turns(scope, limit=1, newest=True)
        at = f"{place_of(newest[0].seq if newest else 0)}~{new_id()}"
        # Behind every edit before it too, also where turns were forgotten since or another's clock is ahead.
        last = max(
            (change.at for change in await self._store.fact_changes(scope) if change.turn_id is None),
            default="",
        )
        return f"{last}~" if last >= at else at


def _is_about(step: Step, event: FactEvent) -> bool:
    return overlap(step.event.path, (person_key(event.subject), *event.path))


def _place_before_last(steps: Sequence[Step], folded: Folded, about: FactEvent) -> Place:
    """The place before the last event of that path that changed anything."""
    records = {record.id for record in folded.records}
    before = outside = _BEFORE_EVERYTHING
    met = False
    found: Place | None = None
    for step in steps:
        if step.place[:2] != before[:2]:  # another change begins
            outside, met = before, False
        if _is_about(step, about) and record_id(step.mark) in records:
            # What stands in for a turn will be replaced, and a place within it is then none; if need not be, none is taken.
            found = outside if is_stand_in(step.change) and not met else before
            met = True
        before = step.place
    if found is None:
        raise InvalidInput(
            f"path is {'.'.join(about.path)!r}, and nothing in the thread's history is about it",
            remedy=("fact_history", "shows what is"),
        )
    return found


def _forgotten(key: str) -> TurnForgotten:
    return TurnForgotten(
        f"the fact change of idempotency key {key!r} was forgotten since; use a new key to make it again"
    )


def _shown(changes: Sequence[FactChange], stored: FactChange) -> FactRecord:
    """The record of an edit, `stored` among the thread's changes, as history shows it."""
    mine, met = f"{stored.seq}.0", None
    for record in fold_facts(changes).records:
        if record.id == mine:
            return record
        if any((source.extractor, source.said_at) == (PERSON, stored.said_at) for source in record.sources):
            met = record if overlap(record.path, stored.events[0].path) else met
    # It said what was known already, perhaps as a part of something larger, and is a source of that now.
    return met or fold_facts([stored]).records[0]


def checked_path(path: object) -> tuple[str, ...]:
    """`path`, as text with dots or as keys, normalised. Raises InvalidInput."""
    like = "pass one like 'preferences.meeting_time'"
    if not isinstance(path, str | list | tuple) or not path:
        raise InvalidInput(f"path is {path!r:.80}; {like}")
    try:
        return fact_path(path)
    except UnmergeableFacts as exc:
        raise InvalidInput(f"path is {path!r:.80}: {exc}; {like}") from exc


def checked_value(value: Any, path: tuple[str, ...]) -> Any:
    """`value` as a document holds it. Raises InvalidInput for what none can hold."""
    try:
        return fact_value(value, path)
    except UnmergeableFacts as exc:
        shown = value if isinstance(value, str | int | float | bool | None) else type(value).__name__
        raise InvalidInput(
            f"value is {shown!r:.80}: {exc}; pass text, a number, true or false, or a list or an object of those",
            remedy=("retract_fact", "removes a fact"),
        ) from exc


def typed_value(text: str) -> Any:
    """A value as a person types it: JSON, or else text.

    >>> typed_value("42"), typed_value('"42"'), typed_value("jazz")
    (42, '42', 'jazz')
    """

    def no_number(name: str) -> NoReturn:
        raise ValueError(name)  # JSON knows neither NaN nor Infinity

    try:
        return json.loads(text, parse_constant=no_number)
    except (ValueError, RecursionError):
        return text


def no_such_event(event_id: object) -> NotFound:
    """The error for an id that no event of the thread's facts has."""
    return NotFound(
        f"to is {event_id!r:.80}, and the thread's history has no such event",
        remedy=("fact_history", "shows their ids"),
    )
