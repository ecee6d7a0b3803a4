"""A thread's facts are the fold of its changes; so is what can be told of each of them. Pure.

Each person's document is a branch of one tree, so what is said of one can neither replace nor undo what is said of
another.

Which changes count: of a turn's changes those of the newest generation that counts and has one for that turn, else
those that were extracted when the turn was new; and all edits. In which order: by `at`, the turn's id or the edit's
own. So a turn that is extracted late speaks for its own time, and an edit outranks what was said before it and
yields to what is said later.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import PERSON, UNNAMED, FactChange, FactRecord, FactSource, shown
from memory_agent.errors import InvalidInput
from memory_agent.facts.merge import fact_text
from memory_agent.facts.tree import FactTree, fact_json, leaves

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import ChangeKind, FactEvent, Place, Turn
    from memory_agent.facts.tree import Leaf


def subject_of(speaker: str | None) -> str:
    """The subject of what a speaker states: the name on one line; empty if there is none.

    >>> subject_of(" Ann  Lee"), subject_of(None)
    ('Ann Lee', '')
    """
    return " ".join(fact_text(speaker or "").split())


def person_key(subject: str) -> str:
    """A text that is equal for all spellings of a name: case and white space don't matter."""
    return fact_json(subject or UNNAMED)


def called(people: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The speaker ("": the user without a name) whom each name stands for that people gave themselves ("name").

    Not the name that they go by; and one that several gave themselves stands for none of them.

    >>> called({"emi_42": {"name": "Kate"}, "Bo": {"name": "Bo"}, "user": {"name": "Ann"}})
    {'Kate': 'emi_42', 'Ann': ''}
    """
    given = [
        (name, subject)
        for subject, facts in people.items()
        if isinstance(name := facts.get("name"), str) and person_key(name) != person_key(subject)
    ]
    names = [person_key(name) for name, _ in given]
    return {
        name: "" if subject == UNNAMED else subject
        for name, subject in given
        if names.count(person_key(name)) == 1
    }


def document_of(people: Mapping[str, Mapping[str, Any]], about: str) -> dict[str, Any]:
    """The document of the person called `about` ("": the user without a name); empty if nothing is known of such a person."""
    found = (facts for name, facts in people.items() if person_key(name) == person_key(about))
    return next(map(dict, found), {})


def addressed(people: Collection[str], about: str | None) -> str:
    """The subject of an edit: `about`, else the one person there is, else the user without a name.

    Empty while nobody is known by name. Raises InvalidInput where several are known, all of them by name.
    """
    if about is not None:
        return subject_of(about) or UNNAMED
    if len(people) > 1 and UNNAMED not in people:
        listed = ", ".join(map(repr, people))
        raise InvalidInput(f"about is None, and facts are of several people; pass one of {listed:.400}")
    if set(people) <= {UNNAMED}:
        return ""
    return UNNAMED if UNNAMED in people else next(iter(people))


def place_of(seq: int) -> str:
    """The place of a turn in the fold, by its number in the thread: what was acknowledged later speaks later.

    >>> place_of(12) < place_of(12) + "~" < place_of(13)
    True
    """
    return f"{seq:012d}"


def change_key(turn: Turn, generation: str = "") -> str:
    """The key of a turn's change, of one generation."""
    return f"{turn.id}:facts:{generation}" if generation else f"{turn.id}:facts"


def change_of(turn: Turn, *, extractor: str, now: datetime, generation: str = "", **more: Any) -> FactChange:
    """A change of the turn, extracted `now`: without events, and with itself alone in view, unless `more` has them."""
    given: dict[str, Any] = {"turns": (turn.id,), **more}
    return FactChange(
        key=change_key(turn, generation),
        kind="extraction",
        at=place_of(turn.seq),
        turn_id=turn.id,
        said_at=turn.timestamp,
        recorded_at=now,
        extractor=extractor,
        generation=generation,
        thread_id=turn.thread_id,
        **given,
    )


def change_by_person(key: str, kind: ChangeKind, at: str, *, now: datetime, **more: Any) -> FactChange:
    """A change that people make, now."""
    return FactChange(
        key=key,
        kind=kind,
        at=at,
        turn_id=None,
        turns=(),
        said_at=now,
        recorded_at=now,
        extractor=PERSON,
        **more,
    )


def overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """True if one path is the other, or above or below it."""
    return all(a == b for a, b in zip(one, other, strict=False))


MEANWHILE: Final = "meanwhile"
"""In the place of a generation, in the key of what patterns found while the language model stayed away."""


def is_stand_in(change: FactChange) -> bool:
    """True if it counts only until the model has looked at the turn."""
    return change.kind == "extraction" and change.key.endswith(f":facts:{MEANWHILE}")


def applied_generations(changes: Iterable[FactChange]) -> list[str]:
    """The generations that count, newest first."""
    applied: list[str] = []
    for change in sorted(changes, key=lambda change: change.seq):
        if change.kind == "replay":
            applied.append(change.generation)
        elif change.kind == "undo" and change.generation in applied:
            applied.remove(change.generation)
    return applied[::-1]


def unfinished_generations(changes: Sequence[FactChange]) -> list[str]:
    """The generations that have never counted, in the order of `changes`."""
    marked = {change.generation for change in changes if change.kind == "replay"}
    return list(
        dict.fromkeys(change.generation for change in changes if change.generation not in {"", *marked})
    )


def counting(changes: Sequence[FactChange]) -> list[FactChange]:
    """Those of one thread's changes that count, in the order of the fold: at each place those of the newest generation, and edits."""
    generations = [*applied_generations(changes), ""]
    ranked = [
        (len(generations) if is_stand_in(change) else generations.index(change.generation), change)
        for change in changes
        if change.kind == "extraction" and change.generation in generations
    ]
    best = {change.at: rank for rank, change in sorted(ranked, key=lambda each: -each[0])}
    counted = [change for rank, change in ranked if rank == best[change.at]]
    counted += [change for change in changes if change.kind == "edit"]
    return sorted(counted, key=lambda change: (change.at, change.seq))


# --- step by step --------------------------------------------------------------------------------------------
Mark = tuple[str, int, int]
"""Thread, `seq` of the change, number of the event within it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One event of one change in its place; of a revert, over several threads, also values that go and come back."""

    said_at: datetime
    place: Place
    mark: Mark
    change: FactChange
    event: FactEvent
    """Its path begins with whose it is."""
    gone: frozenset[Mark] = frozenset()
    has: frozenset[Mark] = frozenset()
    back: tuple[Leaf, ...] = ()
    corrects: bool = False
    """It is only about the values that go and come back."""


def steps_of(changes: Sequence[FactChange], as_of: datetime | None = None) -> Iterator[Step]:
    """The events of one thread's counting changes, in order, each said no earlier than the one before it.

    A turn that was stored after another speaks after it, whatever its timestamp says.
    """
    counted = [change for change in changes if as_of is None or change.said_at <= as_of]
    usual, said_at = _usual(counted), None
    for change in counted:
        said_at = max(said_at or change.said_at, change.said_at)
        for number, event in enumerate(change.events):
            place, mark = (change.at, change.seq, number), (change.thread_id, change.seq, number)
            key = usual if of_nobody(change, event) else person_key(event.subject)
            branch = dataclasses.replace(event, path=(key, *event.path))
            yield Step(said_at=said_at, place=place, mark=mark, change=change, event=branch)


def of_nobody(change: FactChange, event: FactEvent) -> bool:
    """True of an edit that people made before anybody was known."""
    return not event.subject and change.kind == "edit"


def _usual(counted: Sequence[FactChange]) -> str:
    """The key of whom edits are about that were made before anybody was known: who spoke first, else the user.

    If people have named somebody before that, they mean somebody else by nobody.
    """
    for change in counted:
        for event in change.events:
            if event.op in _STATING and not of_nobody(change, event):
                return UNNAMED if change.kind == "edit" else person_key(event.subject)
    return UNNAMED


_STATING: Final = ("set", "add")


def names_of(steps: Iterable[Step], known: Mapping[str, str] | None = None) -> dict[str, str]:
    """The name of each person of whom something was stated, by key, as it was spelled first."""
    names = dict(known or {})
    for step in steps:
        if step.event.op in _STATING:
            key = step.event.path[0]
            names[key] = names.get(key) or step.event.subject
    return {key: UNNAMED if key == UNNAMED else name for key, name in names.items()}


def time_order(step: Step) -> tuple[datetime, Place, Mark]:
    return step.said_at, step.place, step.mark


MOST_CONFIDENT: Final = 0.99
"""What repeated extraction comes to at most; only people are sure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownValue:
    """A scalar of a person's document, or an element of one of its lists, and the record that it stands by."""

    subject: str
    path: tuple[str, ...]
    value: Any
    in_list: bool
    record: FactRecord | None


@dataclass(frozen=True, kw_only=True)
class Folded:
    """`people` are what is known of each; `records` are all counting events in the fold's order, refused items among them."""

    people: dict[str, dict[str, Any]]
    records: tuple[FactRecord, ...]

    @property
    def document(self) -> dict[str, Any]:
        """The facts as one document."""
        return shown(self.people)

    def standing(self) -> list[FactRecord]:
        """The records of what is known now."""
        return [record for record in self.records if record.stands]

    @cached_property
    def values(self) -> tuple[KnownValue, ...]:
        """Everything known, by person, in the order of the documents."""
        return tuple(_known_values(self))


def _known_values(folded: Folded) -> Iterator[KnownValue]:
    standing = [((person_key(record.subject), *record.path), record) for record in folded.standing()]
    records = {(path, fact_json(record.value)): record for path, record in standing}
    # Objects and lists that a person set as a whole.
    groups = {path: record for path, record in standing if isinstance(record.value, dict | list)}
    for name, facts in folded.people.items():
        person = person_key(name)
        for below, value, in_list in leaves(facts):
            path = (person, *below)
            around = (groups[path[:n]] for n in range(len(path), 0, -1) if path[:n] in groups)
            record = records.get((path, fact_json(value))) or next(around, None)
            yield KnownValue(subject=name, path=below, value=value, in_list=in_list, record=record)


@dataclass(kw_only=True, slots=True)
class _Draft:
    """A record in the making."""

    step: Step
    old: Any = None
    sources: list[FactSource] = field(default_factory=list)
    confidence: float = 0.0
    superseded_by: Mark | None = None
    merged: bool = False
    """It said what was there already, and is told of as a source of that."""


def fold(changes: Iterable[FactChange], **until: datetime | None) -> dict[str, Any]:
    """The document that `fold_facts` gives."""
    return fold_facts(changes, **until).document


def fold_facts(
    changes: Iterable[FactChange], *, as_of: datetime | None = None, recorded_by: datetime | None = None
) -> Folded:
    """The fold of changes, in any order: the facts known, and their history.

    `as_of`: only from what had been said by then. `recorded_by`: only from what had been recorded by then, which is
    what `fetch_facts` returned at that time, unless something was forgotten since. Of several threads the newest
    statement counts at a path, by when it was said; what a revert undid counts as if its thread had never said it.
    """
    threads: dict[str, list[FactChange]] = {}
    for change in changes:
        if recorded_by is None or change.recorded_at <= recorded_by:
            threads.setdefault(change.thread_id, []).append(change)
    counted = [counting(found) for found in threads.values()]
    by_thread = [list(steps_of(found, as_of)) for found in counted]
    several = len(by_thread) != 1
    names = names_of(
        sorted(itertools.chain.from_iterable(by_thread), key=time_order) if several else by_thread[0]
    )
    tree, drafts = _over_threads(by_thread) if several else _run(by_thread[0])
    records = [*_records(drafts, tree, names, several=several), *_refused(counted, as_of, several=several)]
    return Folded(people=_people(tree, names), records=tuple(records))


def fold_onto(
    people: Mapping[str, Mapping[str, Any]], at: str, changes: Sequence[FactChange]
) -> dict[str, dict[str, Any]] | None:
    """What is known of `people`, with the changes since, if they need no fold of what went before; else None.

    They don't if each takes its place after `at`, that of the last one before, neither goes back to one nor is of a
    generation, and nobody new comes in.
    """
    plain = all(
        change.generation == "" and not any(event.op == "revert" for event in change.events)
        for change in changes
    )
    later = counting(changes)
    if not plain or (later and later[0].at <= at):
        return None
    known = {person_key(name): name for name in people}
    steps = list(steps_of(later))
    names = names_of(steps, known)
    alone = known.keys() <= {UNNAMED} or not any(of_nobody(step.change, step.event) for step in steps)
    if (known and len(names) > len(known)) or not alone:
        return None
    tree = FactTree.of({key: people[name] for key, name in known.items()})
    for step in steps:
        tree.apply(step.event, 0, exactly=step.change.kind == "edit")
    return _people(tree, names)


def combined_confidence(one: float, other: float) -> float:
    """Confidence in what was stated twice: 1 - (1 - a)(1 - b), at most MOST_CONFIDENT unless one was certain.

    Source: noisy-or (Pearl, Probabilistic Reasoning in Intelligent Systems, 1988, section 4.3.2).
    """
    if 1.0 in (one, other):
        return 1.0
    return max(one, other, min(1.0 - (1.0 - one) * (1.0 - other), MOST_CONFIDENT))


def record_id(mark: tuple[str, int, int | str], *, several: bool = False) -> str:
    """The name of an event within its thread, or among `several` threads.

    >>> record_id(("work", 12, 0)), record_id(("work", 12, 0), several=True)
    ('12.0', 'work/12.0')
    """
    thread, seq, number = mark
    return f"{thread}/{seq}.{number}" if several else f"{seq}.{number}"


def _people(tree: FactTree, names: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    documents = tree.document()
    return {name: documents.get(key, {}) for key, name in names.items()}


def _run(
    steps: Sequence[Step], drafts: dict[Mark, _Draft] | None = None
) -> tuple[FactTree, dict[Mark, _Draft]]:
    """Apply the steps; their records in the making go into `drafts`.

    Reverts need the tree as it was: the places they name are kept on the way.
    """
    tree: FactTree = FactTree()
    drafts = {} if drafts is None else drafts
    cut_of = _cuts(steps)
    cuts = sorted({cut_of[step.mark] for step in steps if step.mark in cut_of and not step.corrects})
    kept: list[FactTree] = []
    for step in steps:
        while len(kept) < len(cuts) and cuts[len(kept)] < step.place:
            kept.append(tree.copy())
        event = step.event
        if step.corrects:
            tree = _correct(tree, drafts, step)
            continue
        source = _source(step.change, event.quote)
        draft = _Draft(step=step, sources=[source], confidence=event.confidence)
        drafts[step.mark] = draft
        if event.op == "revert":
            cut = bisect.bisect_left(cuts, cut_of[step.mark]) if step.mark in cut_of else len(kept)
            effect = tree.restore(event.path, kept[cut] if cut < len(kept) else tree.copy())
        else:
            effect = tree.apply(event, step.mark, exactly=step.change.kind == "edit")
        draft.old = effect.old
        for mark in effect.ended:
            drafts[mark].superseded_by = step.mark
        if event.op in ("set", "add") and effect.met:
            draft.merged = True
            for mark in effect.met:
                _met_again(drafts[mark], source, event.confidence)
        elif event.op == "remove" and not effect.ended and step.change.kind == "extraction":
            # It only made sure that nothing says the opposite.
            draft.merged = True
    return tree, drafts


def _cuts(steps: Sequence[Step]) -> dict[Mark, Place]:
    """Up to where each revert goes back. A turn that was extracted anew since counts whole: its events have other numbers."""
    there = {step.place[:2] for step in steps}
    return {
        step.mark: to if to[:2] in there else (to[0], sys.maxsize, 0)
        for step in steps
        if (to := step.event.to) is not None
    }


def _met_again(draft: _Draft, source: FactSource, confidence: float) -> None:
    """The same was said once more; but what one turn says several times makes nothing surer."""
    said = {(other.turn_id, other.said_at) for other in draft.sources}
    if source.extractor == PERSON or (source.turn_id, source.said_at) not in said:
        draft.sources.append(source)
        draft.confidence = combined_confidence(draft.confidence, confidence)


def _over_threads(threads: Sequence[Sequence[Step]]) -> tuple[FactTree, dict[Mark, _Draft]]:
    """Apply the steps of several threads by when they were said, without those that their own thread reverted."""
    together: list[Step] = []
    drafts: dict[Mark, _Draft] = {}
    for steps in threads:
        reverts = [step for step in steps if step.event.op == "revert"]
        if not reverts:
            together += steps
            continue
        tree, alone = _run(steps)
        undone = _undone(steps)
        remaining = [step for step in steps if step.event.op != "revert" and step.mark not in undone]
        drafts |= {mark: alone[mark] for mark in [*undone, *(step.mark for step in reverts)]}
        # A revert of a part of what was said at once has come to more than leaving things out.
        without, _ = _run(remaining)
        had, has = without.marks(), tree.marks()
        back = tuple(leaf for leaf in tree.leaves() if leaf[1].mark not in had)
        gone = frozenset(had - has)
        if gone or back:
            last = reverts[-1]
            together.append(
                dataclasses.replace(last, gone=gone, back=back, has=frozenset(has), corrects=True)
            )
        together += remaining
    together.sort(key=time_order)
    tree, drafts = _run(together, drafts)
    return tree, dict(sorted(drafts.items(), key=lambda item: time_order(item[1].step)))


def _undone(steps: Sequence[Step]) -> set[Mark]:
    """Those steps of one thread that a revert undid which was not undone itself."""
    undone: set[Mark] = set()
    cut_of = _cuts(steps)
    for number in range(len(steps) - 1, -1, -1):
        revert = steps[number]
        to, path = revert.event.to, revert.event.path
        if revert.event.op != "revert" or to is None or revert.mark in undone:
            continue
        first = bisect.bisect_right(steps, cut_of[revert.mark], hi=number, key=lambda step: step.place)
        undone.update(step.mark for step in steps[first:number] if step.event.path[: len(path)] == path)
    return undone


def _correct(tree: FactTree, drafts: Mapping[Mark, _Draft], step: Step) -> FactTree:
    """`tree` with what a thread's reverts came to beyond what they left out; what others stated stays."""
    thread = step.change.thread_id
    ended = {
        mark
        for mark in step.gone
        if mark in drafts and all(source.thread_id == thread for source in drafts[mark].sources)
    }
    tree.drop(ended)
    for mark in ended:
        drafts[mark].superseded_by = step.mark
    for path, kept, in_list in step.back:
        value, mark = kept.value, kept.mark
        # Tried on a copy: what another thread stated since does not give way.
        trial = tree.copy()
        effect = trial.add(path, value, mark) if in_list else trial.set(path, value, mark)
        # But what its own thread has ended itself does.
        gave_way, met = effect.ended - {mark}, effect.met - {mark}
        firm = {other for other in gave_way if other[0] != thread or other in step.has}
        for other in firm:
            drafts[mark].superseded_by = other
        for other in met:
            drafts[mark].merged = True
            drafts[other].sources.extend(drafts[mark].sources)
            drafts[other].confidence = combined_confidence(drafts[other].confidence, drafts[mark].confidence)
        if not met and not firm:
            tree = trial
            for other in gave_way:
                drafts[other].superseded_by = step.mark
    return tree


def _source(change: FactChange, quote: str | None) -> FactSource:
    return FactSource(
        turn_id=change.turn_id,
        thread_id=change.thread_id,
        quote=quote,
        extractor=change.extractor,
        said_at=change.said_at,
    )


def _record(
    change: FactChange, number: int | str, sources: Sequence[FactSource], *, several: bool, **what: Any
) -> FactRecord:
    return FactRecord(
        id=record_id((change.thread_id, change.seq, number), several=several),
        thread_id=change.thread_id,
        sources=tuple(sources),
        said_at=change.said_at,
        recorded_at=change.recorded_at,
        last_seen=max(source.said_at for source in sources),
        **what,
    )


def _records(
    drafts: Mapping[Mark, _Draft], tree: FactTree, names: Mapping[str, str], *, several: bool
) -> Iterator[FactRecord]:
    standing = tree.marks()
    for mark, draft in drafts.items():
        stands, ended_by, event = mark in standing, draft.superseded_by, draft.step.event
        if draft.merged and not stands:
            continue
        whose, *path = event.path
        yield _record(
            draft.step.change,
            mark[2],
            draft.sources,
            several=several,
            op=event.op,
            path=tuple(path),
            subject=names.get(whose) or event.subject or UNNAMED,
            value=event.value,
            old=draft.old,
            confidence=draft.confidence,
            valid_from=event.valid_from,
            stands=stands,
            superseded_by=None if stands or ended_by is None else record_id(ended_by, several=several),
        )


def _refused(
    threads: Iterable[Sequence[FactChange]], as_of: datetime | None, *, several: bool
) -> Iterator[FactRecord]:
    for change in itertools.chain.from_iterable(threads):
        for number, item in enumerate(change.refused if as_of is None or change.said_at <= as_of else ()):
            yield _record(
                change,
                f"r{number}",
                [_source(change, item.quote)],
                several=several,
                op=item.op,
                path=tuple(item.path.split(".")) if item.path else (),
                value=item.said,
                old=None,
                confidence=0.0,
                valid_from=None,
                stands=False,
                refused=item.reason,
                subject=item.subject or UNNAMED,
            )
