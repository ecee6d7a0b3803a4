"""The facts stage, and what people and readers do with facts.

What turns state becomes one change per turn: the extractor says what it found, `vetting` says what of it is
believed, and the change is appended under the turn's key, so that a stage that runs twice adds nothing. The document
is brought up to its changes afterwards; it is only a copy of their fold.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from memory_agent.concurrency import COSTLY_TRIES, Tries, together
from memory_agent.domain import ExtractionCost, RefusedFact, Scope, new_id
from memory_agent.errors import BackendError, StoreUnavailable
from memory_agent.facts.documents import FactDocuments
from memory_agent.facts.extractors import ExtractionRequest, most_related
from memory_agent.facts.fold import (
    change_by_person,
    change_key,
    change_of,
    fold_facts,
    person_key,
    place_of,
    stand_in_key,
    unfinished_generations,
)
from memory_agent.facts.merge import encodable
from memory_agent.facts.tree import FactTree, fact_json, fact_words, leaves
from memory_agent.facts.vetting import (
    REPEATED_WORDS,
    SaidText,
    Vetted,
    own_words,
    plain_words,
    usual_path_terms,
)
from memory_agent.text.cues import people_in, plays_on, states_nothing
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from memory_agent.domain import FactChange, FactRecord, StatedFact, Turn
    from memory_agent.facts.extractors import Extraction, FactExtractor, Passage
    from memory_agent.facts.fold import Folded
    from memory_agent.ports import Clock, DocumentStore

    _Quotes = dict[tuple[str, ...], list[tuple[FactRecord, str, str]]]
    """Each run of REPEATED_WORDS words -> records, each with the turn and the whole of the quote that has it."""


class Known:
    """The documents, and the records of their values and of what they replaced."""

    def __init__(self, folded: Folded) -> None:
        self._trees: dict[str, FactTree[int]] = {
            person_key(name): FactTree.of(facts) for name, facts in folded.people.items()
        }
        self.values: dict[str, set[str]] = {}
        """Values known now or before, by dotted path, as `fact_json` tells them and memory shows them."""
        self._records: list[FactRecord] = []
        self._taken = 0
        for facts in folded.people.values():
            self._note_values(facts)
        self._quotes: _Quotes | None = None
        self._words: dict[str, list[FactRecord]] | None = None
        self._add(folded.records)

    def tree(self, subject: str) -> FactTree[int]:
        """The document of a person; a copy."""
        return self._trees.get(person_key(subject), FactTree[int]()).copy()

    def take_in(self, change: FactChange) -> None:
        """Carry on with the change of a later turn, without folding everything anew; nearly, for the next turn's sake."""
        for event in change.events:
            self._trees.setdefault(person_key(event.subject), FactTree()).apply(event, 0)
        self._taken += 1  # a number of its own, as it will have once it is stored
        alone = dataclasses.replace(change, generation="", seq=-self._taken)
        self._add(fold_facts([alone]).records)

    def repeated(self, quote: str, turn_id: str, subject: str) -> list[tuple[FactRecord, str]]:
        """The records of a person's facts that were taken from an earlier turn that says `quote` word for word, or more or less than it.

        Each with the words it was taken from, lower-case and one blank apart. Only if they share five words or more, one
        after the other: fewer may mean something else.
        """
        words = plain_words(quote)
        if len(words) < REPEATED_WORDS:
            return []
        if self._quotes is None:
            self._quotes = {}
            self._note_quotes(self._records, self._quotes)
        said, whose = f" {' '.join(words)} ", person_key(subject)
        found: dict[tuple[str, str, str], tuple[FactRecord, str]] = {}
        for run in _runs(words):
            for record, source_turn, earlier in self._quotes.get(run, ()):
                own = source_turn < turn_id and person_key(record.subject) == whose
                if own and (earlier in said or said in earlier):
                    found[record.thread_id, record.id, earlier] = (record, earlier.strip())
        return list(found.values())

    def borrowed(self, value: Any, own: Collection[str]) -> frozenset[str]:
        """Ids of turns that terms of `value` may come from though they are not among the terms `own`: of known facts.

        So that forgetting these turns forgets the value as well. Words in other words (a name cut short) are not seen.
        """
        foreign = {term for term in count_terms(fact_words(value)) if term not in own}
        if not foreign:
            return frozenset()
        if self._words is None:
            self._words = {}
            self._note_words(self._records, self._words)
        return frozenset(
            source.turn_id
            for word in foreign
            for record in self._words.get(word, ())
            for source in record.sources
            if source.turn_id is not None
        )

    def _add(self, records: Iterable[FactRecord]) -> None:
        new = [record for record in records if record.refused is None]
        self._records += new
        for record in new:
            if record.op in ("set", "add"):
                self._note_values(record.value, record.path)
        if self._quotes is not None:
            self._note_quotes(new, self._quotes)
        if self._words is not None:
            self._note_words(new, self._words)

    def _note_values(self, value: Any, path: tuple[str, ...] = ()) -> None:
        for where, leaf, _ in leaves(value, path):
            self.values.setdefault(".".join(where), set()).add(fact_json(leaf))

    @staticmethod
    def _note_quotes(records: Iterable[FactRecord], index: _Quotes) -> None:
        for record in records:
            for source in record.sources:
                if source.turn_id is not None and source.quote is not None:
                    words = plain_words(source.quote)
                    entry = (record, source.turn_id, f" {' '.join(words)} ")
                    for run in set(_runs(words)):
                        index.setdefault(run, []).append(entry)

    @staticmethod
    def _note_words(records: Iterable[FactRecord], index: dict[str, list[FactRecord]]) -> None:
        for record in records:
            for word in count_terms(f"{' '.join(record.path)} {fact_words(record.value)}"):
                index.setdefault(word, []).append(record)


def _runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(REPEATED_WORDS)), strict=False)


log = logging.getLogger(__name__)

_LONG_CHARS: Final = 2_000
_UNREAD_CHARS: Final = 500
_BEFORE: Final = 2
"""Turns before a message in which its writer may have begun to play."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Examined:
    """The changes that some turns would bring about (none for a turn that states nothing), and what they cost.

    `unread`: ids of turns of which the reply could not be read.
    """

    changes: tuple[FactChange, ...] = ()
    cost: ExtractionCost = field(default_factory=ExtractionCost)
    unread: frozenset[str] = frozenset()


@dataclass(slots=True)
class TurnStatements:
    """Statements of one turn, with the texts of all turns that were in view, by id, and whom they may be about.

    `unread`: what the model said instead of an answer about it; None if it answered. Then patterns found the items.
    """

    turn: Turn
    texts: dict[str, str]
    people: dict[str, str] = field(default_factory=dict)
    items: list[StatedFact] = field(default_factory=list)
    unread: str | None = None
    earlier: str = ""
    """What the same person said before, if that was two turns before at most."""


class FactKeeper(FactDocuments):
    """Runs the facts stage and answers what is known."""

    def __init__(
        self,
        store: DocumentStore,
        extractor: FactExtractor,
        patterns: FactExtractor,
        clock: Clock,
        never: tuple[str, ...],
    ) -> None:
        """`patterns`: find facts beside `extractor`'s model, or alone where that gives nothing.

        `never`: categories that are not noted.
        """
        super().__init__(store)
        self.extractor, self._patterns = extractor, patterns
        self._clock, self._never = clock, never
        self._to_confirm: dict[str, Collection[str]] = {}
        """By turn, keys of the changes that came of it, or of what it was in view for."""

    # --- the stage -------------------------------------------------------------------------------------------
    async def extract(self, turns: Sequence[Turn]) -> None:
        """Append what these turns of one thread state to its facts, each turn's once, and save the document.

        What stood in for a turn counts no more then. Of a turn about which the model says nothing that can be read the
        change has what patterns find, and says so. Raises LLMUnavailable; then nothing of these turns was appended.
        """
        scope = turns[0].scope
        waiting: Sequence[Turn]
        keys = [key for turn in turns for key in (change_key(turn), stand_in_key(turn.id))]
        async for attempt in Tries(COSTLY_TRIES):
            waiting, stored = turns, self._store.fact_changes(scope, keys=keys)
            # Read again before anything is sent: a turn may have been forgotten since it was claimed. Where nothing is sent, that shows at the end.
            if attempt or self.extractor.sees_conversation:
                again = self._store.list_turns(scope, ids=[turn.id for turn in turns])
                waiting, changed = await together(again, stored)
            else:
                changed = await stored
            there = {change.key: change for change in changed}
            done = [there[key] for turn in waiting if (key := change_key(turn)) in there]
            # Whoever appended these may have died before the stage was struck off.
            self._to_confirm |= {change.turn_id or "": (change.key,) for change in done}
            waiting = [turn for turn in waiting if change_key(turn) not in there]
            changes: list[FactChange] = []
            if waiting:
                standing_in = [there[key] for turn in waiting if (key := stand_in_key(turn.id)) in there]
                among = await self._without(scope, standing_in) if standing_in else None
                examined = await self.examine(waiting, among=among)
                await self.count(scope, examined.cost)
                # Of a turn that states nothing after all, a change without events.
                stating = {change.turn_id for change in examined.changes}
                emptied = {change.turn_id for change in standing_in} - stating
                told: dict[str, Any] = {"extractor": self.extractor.name, "now": self._clock.now()}
                changes += examined.changes
                changes += [change_of(turn, **told) for turn in waiting if turn.id in emptied]
                # And again, for a turn in view may have been forgotten while the model was thinking.
                if not await self.append(scope, changes):
                    continue
                made = [change.key for change in changes]
                self._to_confirm |= {turn.id: made for turn in waiting}
            await (self.save if done or changes else self.heal)(scope)
            if not await self._missing(scope, turns):
                return
        raise StoreUnavailable("turns kept being forgotten while facts were extracted from them; try again")

    async def append(self, scope: Scope, changes: Sequence[FactChange]) -> bool:
        """Append these changes of turns; False (and nothing appended) if a turn in view is gone."""
        if not await self._all_there(scope, changes):
            return False
        for change in changes:
            await self._store.append_fact_change(scope, change)
        # And once more: what was forgotten in between must not be readable until the last pass of forgetting.
        if not await self._all_there(scope, changes):
            await self._store.sweep_orphans(scope, stubs_before=EPOCH, now=self._clock.now())
        return True

    # --- while the model stays away --------------------------------------------------------------------------
    async def stand_in(self, turns: Sequence[Turn]) -> None:
        """Append what these turns of one thread state by other means, each turn's once; the stage stays owed to them.

        It counts until `extract` has appended the turn's own change, and says so in its extractor's name.
        """
        scope = turns[0].scope
        waiting = await self._store.list_turns(scope, ids=[turn.id for turn in turns])
        keys = [key for turn in waiting for key in (stand_in_key(turn.id), change_key(turn))]
        done = {change.turn_id for change in await self._store.fact_changes(scope, keys=keys)}
        waiting = [turn for turn in waiting if turn.id not in done]
        if not waiting:
            return
        examined = await self.examine(waiting, extractor=self._patterns)
        by, replace = f"stand-in:{self._patterns.name}", dataclasses.replace
        changes = [
            replace(change, key=stand_in_key(str(change.turn_id)), extractor=by)
            for change in examined.changes
        ]
        if changes and await self.append(scope, changes):
            await self.save(scope)

    async def _without(self, scope: Scope, standing_in: Sequence[FactChange]) -> list[FactChange]:
        """The thread's other changes: what a turn states would be taken for a repetition of what stands in for it."""
        keys = {change.key for change in standing_in}
        return [change for change in await self._store.fact_changes(scope) if change.key not in keys]

    # --- one extraction --------------------------------------------------------------------------------------
    async def count(self, scope: Scope, cost: ExtractionCost) -> None:
        """Add to what facts have cost, if it is anything."""
        if cost != ExtractionCost():
            await self._store.add_extraction_cost(scope, cost)

    async def confirm(self, turns: Sequence[Turn]) -> None:
        """Owe the stage again for those of `turns` that lost a change before the stage was struck off.

        A turn that was in view was forgotten then: the erasure owed the stage again, and striking it off took that back.
        """
        scope = turns[0].scope
        lost = await self._missing(scope, turns)
        for turn in turns:
            self._to_confirm.pop(turn.id, None)
        if lost:
            await self._store.owe(scope, "facts", now=self._clock.now(), turn_ids=lost)

    async def _missing(self, scope: Scope, turns: Sequence[Turn]) -> list[str]:
        """Those of `turns` of which a change to confirm was there, and went since."""
        of_turns = {turn.id: self._to_confirm.get(turn.id, ()) for turn in turns}
        if not (keys := {key for of_turn in of_turns.values() for key in of_turn}):
            return []
        there = {change.key for change in await self._store.fact_changes(scope, keys=sorted(keys))}
        gone = [turn_id for turn_id, of_turn in of_turns.items() if not there.issuperset(of_turn)]
        alive = {turn.id for turn in await self._store.list_turns(scope, ids=gone)} if gone else set()
        return [turn_id for turn_id in gone if turn_id in alive]

    async def examine(
        self,
        turns: Sequence[Turn],
        *,
        extractor: FactExtractor | None = None,
        among: Sequence[FactChange] | None = None,
        generation: str = "",
    ) -> Examined:
        """Extract what `turns` of one thread state, given what `among` (default: all that is stored) comes to. Writes nothing.

        In a new `generation` there is no change of a turn whose reply can't be read: what is known from it stays.
        """
        extractor = extractor or self.extractor
        scope = turns[0].scope
        shown: Sequence[FactChange] = ()
        folded = None
        if extractor.sees_conversation:
            shown = await self._store.fact_changes(scope) if among is None else among
            folded = await self.folded(shown)
        heard, cost = await self._ask(extractor, turns, folded)
        if cost.requests:
            cost += ExtractionCost(turns=len(turns))
        stating = [one for one in heard.values() if one.items or one.unread is not None]
        unread = frozenset(one.turn.id for one in stating if one.unread is not None)
        if generation:
            stating = [one for one in stating if one.turn.id not in unread]
        if not stating:
            return Examined(cost=cost, unread=unread)
        changes = await self._store.fact_changes(scope) if among is None else among
        lenders = [Known(await self.folded(changes))]
        # What the model was shown may have been forgotten while it was thinking; what it took from there must go too.
        if {change.seq for change in shown} - {change.seq for change in changes}:
            lenders.append(Known(await self.folded(shown)))
        made = functools.partial(self._changes, stating, lenders, extractor.name, generation)
        long = sum(len(text) for one in stating for text in one.texts.values()) > _LONG_CHARS
        made_now = await asyncio.to_thread(made) if long else made()
        return Examined(changes=tuple(made_now), cost=cost, unread=unread)

    async def _ask(
        self, extractor: FactExtractor, turns: Sequence[Turn], folded: Folded | None
    ) -> tuple[dict[str, TurnStatements], ExtractionCost]:
        """Ask the extractor about these turns: its answers by turn id, and their cost."""
        heard = {turn.id: TurnStatements(turn, {turn.id: turn.content}) for turn in turns}
        cost = ExtractionCost()
        # Without the gaps where memory's words were.
        own = [(turn, re.sub(r" {3,}", " ", own_words(turn.content))) for turn in turns]
        asks = extractor.sees_conversation
        own = [(turn, text) for turn, text in own if text.strip() and not (asks and states_nothing(text))]
        for passages in extractor.passages(own) if own else ():
            request = await self._request(turns[0].scope, passages, folded)
            try:
                extraction = await extractor.extract(request)
            except BackendError:
                await self.count(turns[0].scope, cost)  # what was answered before was paid for
                raise
            cost += extraction.cost
            if asks:
                plain = await self._patterns.extract(request)
                extraction = dataclasses.replace(extraction, items=plain.items + extraction.items)
            _hear(heard, request, extraction, sees_all=asks)
        return heard, cost

    def _changes(
        self, stating: Sequence[TurnStatements], lenders: Sequence[Known], extractor: str, generation: str
    ) -> list[FactChange]:
        """The change of each turn: what of it is believed, and what is not.

        `lenders`: what is known, and behind it what was when the turns were asked about, if some of that went since.
        """
        known = lenders[0]
        made: list[FactChange] = []
        for one in stating:
            read = any(not item.plain for item in one.items)
            named = [owner for text in one.texts.values() for owner in people_in(text)] if read else []
            vetted = Vetted(
                one.items,
                one.turn,
                known,
                people=one.people,
                named=named,
                seen=[text for turn_id, text in one.texts.items() if turn_id < one.turn.id],
                plays=plays_on(one.earlier, one.turn.content),
                never=self._never,
            )
            refused = vetted.refused + ([] if one.unread is None else [_unread(one.unread)])
            told = [[*event.path, event.value] for event in vetted.events]
            told += [[item.path, item.said, item.quote] for item in refused]
            own = {term for text in one.texts.values() for term in count_terms(text)} | usual_path_terms()
            borrowed = [lender.borrowed(values, own) for lender in lenders for values in told]
            change = change_of(
                one.turn,
                extractor=extractor
                if one.unread is None
                else f"instead of {extractor}: {self._patterns.name}",
                now=self._clock.now(),
                generation=generation,
                turns=tuple(sorted({*one.texts}.union(*borrowed))),
                events=tuple(vetted.events),
                refused=tuple(refused),
            )
            made.append(change)
            # What the next turn says may be about what this one said.
            known.take_in(change)
        return made

    async def _request(
        self, scope: Scope, passages: tuple[Passage, ...], folded: Folded | None
    ) -> ExtractionRequest:
        """About these passages; with what is known and what came before, if the extractor uses it."""
        request = ExtractionRequest(passages=passages, never=self._never)
        if folded is None:
            return request
        turns = {passage.turn.seq: passage.turn for passage in passages}
        before: dict[str, Turn] = {}
        first, last = min(turns), max(turns)
        found = await self._store.list_turns(
            scope, after_seq=first - _BEFORE - 1, limit=last - first + _BEFORE
        )
        for turn in found:
            if (following := turns.get(turn.seq + 1)) is not None and turn.seq not in turns:
                before[following.id] = turn
        earlier = {
            later.id: other.content
            for other in found
            for seq in range(other.seq + 1, other.seq + _BEFORE + 1)
            if (later := turns.get(seq)) is not None
            and (later.role, later.speaker) == (other.role, other.speaker)
        }
        texts = [*(passage.text for passage in passages), *(turn.content for turn in before.values())]
        known = most_related(folded.standing(), texts)
        return dataclasses.replace(request, before=before, earlier=earlier, known=known)

    async def _all_there(self, scope: Scope, changes: Sequence[FactChange]) -> bool:
        """True if every turn that was in view of one of `changes` is still there."""
        ids = sorted({turn_id for change in changes for turn_id in change.turns})
        found = await self._store.list_turns(scope.user, ids=ids) if ids else []
        return len(found) == len(ids)


def _hear(
    heard: Mapping[str, TurnStatements],
    request: ExtractionRequest,
    extraction: Extraction,
    *,
    sees_all: bool,
) -> None:
    """Give each turn the items that quote it; where none does, the first of the request.

    `sees_all`: the extractor had all turns of the request in view; else each alone.
    """
    asked = {passage.turn.id: passage.turn for passage in request.passages}
    for turn_id in asked if sees_all else ():
        heard[turn_id].texts |= request.texts
        heard[turn_id].people |= {person_key(name): subject for name, subject in request.people.items()}
        heard[turn_id].unread = extraction.unread.get(turn_id, heard[turn_id].unread)
        heard[turn_id].earlier = request.earlier.get(turn_id, "")
    said = {turn_id: SaidText(turn.content) for turn_id, turn in asked.items() if sees_all}
    for item in extraction.items:
        quoted = [turn_id for turn_id, text in said.items() if item.quote and text.find(item.quote)]
        # Whoever says the same again states it too: one of them may be forgotten.
        for turn_id in [item.turn_id] if item.turn_id else quoted or [""]:
            items = heard[turn_id or next(iter(asked))].items
            # Of each part of a long turn a model may say the same.
            if (found := dataclasses.replace(item, turn_id=turn_id)) not in items:
                items.append(found)


def _unread(reply: str) -> RefusedFact:
    """Record of an answer without facts, in a form that every store can hold."""
    said = " ".join(encodable(reply).split())[:_UNREAD_CHARS]
    reason = f"the model answered without facts that can be read, so patterns read the message: {said or 'nothing at all'}"
    return RefusedFact(path="", said=said, quote=None, reason=reason)


_PREFIX: Final = "again:"
"""Of a generation's name: one without it was left half-way by an earlier version, and must never count."""


@dataclass(frozen=True, slots=True)
class Reextractor:
    """Reads turns again."""

    store: DocumentStore
    keeper: FactKeeper
    clock: Clock

    async def begin(self, thread: Scope) -> int:
        """Have the thread's turns read again, by owing the stage to them; how many.

        Turns that still owe their first extraction are left to it. Call it while none of the thread owes the stage.
        """
        left = unfinished_generations(await self.store.fact_changes(thread))
        for generation in left:  # whose last turns were never read
            await self.store.drop_generation(thread, generation)
        if left:
            await self.keeper.save(thread)
        stored = await self.store.list_turns(thread)
        ids = [turn.id for turn in stored if turn.role == "user" and "facts" not in turn.pending]
        return await self.store.owe(thread, "reextract", now=self.clock.now(), turn_ids=ids) if ids else 0

    async def work(self, turns: Sequence[Turn]) -> None:
        """The stage, for these turns of one thread. What is known from a turn whose reply can't be read stays."""
        await self._read(turns)
        await self._switch(turns[0].scope, turns)

    async def renew(self, scope: Scope) -> None:
        """After an erasure: save the documents, and end what only waited for turns that are gone."""
        await self.keeper.save_all(scope)
        changes = await self.store.fact_changes(scope)
        for thread_id in sorted(
            {change.thread_id for change in changes if change.generation.startswith(_PREFIX)}
        ):
            await self._switch(Scope(user_id=scope.user_id, thread_id=thread_id))

    async def _read(self, turns: Sequence[Turn]) -> None:
        """Store what these turns state now under the generation that doesn't count yet."""
        scope = turns[0].scope
        changes = await self.store.fact_changes(scope)
        generation = next(iter(_begun(changes)), f"{_PREFIX}{new_id()}")
        there = {change.key for change in changes}
        alive = {turn.id for turn in await self.store.list_turns(scope, ids=[turn.id for turn in turns])}
        waiting = [turn for turn in turns if turn.id in alive and change_key(turn, generation) not in there]
        if not waiting:
            return
        examined = await self.keeper.examine(
            waiting,
            among=self._known_before(waiting[0], changes, generation),
            generation=generation,
        )
        await self.keeper.count(scope, examined.cost)
        # A change without events for a turn that states nothing any more, or its former one would show.
        emptied = {change.turn_id for change in changes} - {change.turn_id for change in examined.changes}
        emptied -= examined.unread
        told: dict[str, Any] = {"extractor": self.keeper.extractor.name, "now": self.clock.now()}
        made = [
            *examined.changes,
            *(change_of(turn, generation=generation, **told) for turn in waiting if turn.id in emptied),
        ]
        if not await self.keeper.append(scope, made):
            raise StoreUnavailable(
                "a turn was forgotten while facts were extracted with it in view; try again"
            )

    def _known_before(self, turn: Turn, changes: Sequence[FactChange], generation: str) -> list[FactChange]:
        """What counts before the turn once the generation does; and what people said, whenever they did."""
        before = place_of(turn.seq)
        counts = dataclasses.replace(
            self._counts(turn.scope, generation), seq=max((change.seq for change in changes), default=0) + 1
        )
        return [*(change for change in changes if change.turn_id is None or change.at < before), counts]

    async def _switch(self, thread: Scope, turns: Sequence[Turn] = ()) -> None:
        """Let the new generation count if no turn but these is still to be read. Idempotent."""
        own = {turn.id for turn in turns}
        owed = await self.store.owed_turns(thread, "reextract", limit=len(own) + 1, parked=False)
        if any(turn.id not in own for turn in owed):
            return
        for generation in _begun(await self.store.fact_changes(thread))[:1]:
            await self.store.append_fact_change(thread, self._counts(thread, generation))
            await self.keeper.save(thread)

    def _counts(self, thread: Scope, generation: str) -> FactChange:
        """The change by which the generation counts from now on."""
        of = {"generation": generation, "thread_id": str(thread.thread_id)}
        return change_by_person(f"replay:{generation}", "replay", place_of(0), now=self.clock.now(), **of)


def _begun(changes: Sequence[FactChange]) -> list[str]:
    """The generations that this version began and that don't count yet."""
    return [name for name in unfinished_generations(changes) if name.startswith(_PREFIX)]
