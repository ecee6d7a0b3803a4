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
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from memory_agent.concurrency import COSTLY_TRIES, Tries, together
from memory_agent.domain import ROLE_OF, ExtractionCost, RefusedFact, Scope, Turn, new_id
from memory_agent.errors import StoreUnavailable
from memory_agent.facts.documents import FactDocuments
from memory_agent.facts.extractors import ExtractionRequest, most_related
from memory_agent.facts.fold import (
    MEANWHILE,
    change_by_person,
    change_key,
    change_of,
    fold_facts,
    person_key,
    place_of,
    unfinished_generations,
)
from memory_agent.facts.merge import encodable
from memory_agent.facts.tree import FactTree, fact_json, fact_words, leaves
from memory_agent.facts.vetting import (
    REPEATED_WORDS,
    QuotableText,
    Vetted,
    own_words,
    plain_words,
    usual_path_terms,
)
from memory_agent.text.cues import states_nothing
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from memory_agent.domain import FactChange, FactRecord, StatedFact
    from memory_agent.facts.extractors import Extraction, LLMFactExtractor, Passage, PatternFactExtractor
    from memory_agent.facts.fold import Folded
    from memory_agent.ports import Clock, DocumentStore


class Known:
    """The documents, and the records of their values and of what they replaced."""

    def __init__(self, folded: Folded) -> None:
        self._trees: dict[str, FactTree] = {
            person_key(name): FactTree.of(facts) for name, facts in folded.people.items()
        }
        self.values: defaultdict[str, set[str]] = defaultdict(set)
        """Values known now or before, by dotted path, as `fact_json` tells them and memory shows them."""
        self._quotes: list[tuple[FactRecord, str, str]] = []
        """Records with each turn and quote of at least REPEATED_WORDS words that they were taken from."""
        self._words: defaultdict[str, list[FactRecord]] = defaultdict(list)
        self._taken = 0
        for facts in folded.people.values():
            self._note_values(facts)
        self._add(folded.records)

    def tree(self, subject: str) -> FactTree:
        """The document of a person; a copy."""
        return self._trees.get(person_key(subject), FactTree()).copy()

    def take_in(self, change: FactChange) -> None:
        """Add the change of a later turn, without folding everything anew."""
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
        said, whose = f" {' '.join(words)} ", person_key(subject)
        return [
            (record, earlier.strip())
            for record, source_turn, earlier in self._quotes
            if len(words) >= REPEATED_WORDS
            and (earlier in said or said in earlier)
            and source_turn < turn_id
            and person_key(record.subject) == whose
        ]

    def borrowed(self, value: Any, own: Collection[str]) -> frozenset[str]:
        """Ids of turns that terms of `value` may come from though they are not among the terms `own`: of known facts.

        So that forgetting these turns forgets the value as well. Words in other words (a name cut short) are not seen.
        """
        foreign = [term for term in count_terms(fact_words(value)) if term not in own]
        return frozenset(
            source.turn_id
            for word in foreign
            for record in self._words.get(word, ())
            for source in record.sources
            if source.turn_id is not None
        )

    def _add(self, records: Iterable[FactRecord]) -> None:
        for record in records:
            if record.refused is not None:
                continue
            if record.op in ("set", "add"):
                self._note_values(record.value, record.path)
            for word in count_terms(f"{' '.join(record.path)} {fact_words(record.value)}"):
                self._words[word].append(record)
            for source in record.sources:
                words = plain_words(source.quote or "")
                if source.turn_id is not None and len(words) >= REPEATED_WORDS:
                    self._quotes.append((record, source.turn_id, f" {' '.join(words)} "))

    def _note_values(self, value: Any, path: tuple[str, ...] = ()) -> None:
        for where, leaf, _ in leaves(value, path):
            self.values[".".join(where)].add(fact_json(leaf))


log = logging.getLogger(__name__)

_LONG_CHARS: Final = 2_000
_UNREAD_CHARS: Final = 500
_BEFORE: Final = 2
"""Turns before a message in which its writer may have begun to play."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


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

    @property
    def found(self) -> bool:
        """True if something may be stated."""
        return bool(self.items) or self.unread is not None

    def add(self, item: StatedFact) -> None:
        """Of each part of a long turn a model may say the same."""
        if item not in self.items:
            self.items.append(item)


class FactKeeper(FactDocuments):
    """Runs the facts stage and answers what is known."""

    def __init__(
        self,
        store: DocumentStore,
        model: LLMFactExtractor | None,
        patterns: PatternFactExtractor,
        clock: Clock,
        never: tuple[str, ...],
    ) -> None:
        """`patterns` find facts beside the model, or alone. `never`: categories that are not noted."""
        super().__init__(store)
        self.model, self._patterns = model, patterns
        self._clock, self._never = clock, never
        self._to_confirm: dict[str, Collection[str]] = {}
        """By turn, keys of the changes that came of it, or of what it was in view for."""

    @property
    def extractor(self) -> str:
        """The name of what finds facts, as changes keep it."""
        return (self.model or self._patterns).name

    # --- the stage -------------------------------------------------------------------------------------------
    async def extract(self, turns: Sequence[Turn]) -> None:
        """Append what these turns of one thread state to its facts, each turn's once, and save the document.

        What stood in for a turn counts no more then. Of a turn about which the model says nothing that can be read the
        change has what patterns find, and says so. Raises LLMUnavailable; then nothing of these turns was appended.
        """
        scope = turns[0].scope
        keys = [key for turn in turns for key in (change_key(turn), change_key(turn, MEANWHILE))]
        async for _ in Tries(COSTLY_TRIES):
            # Read again before anything is sent: a turn may have been forgotten since it was claimed.
            again = self._store.list_turns(scope, ids=[turn.id for turn in turns])
            waiting, stored = await together(again, self._store.fact_changes(scope, keys=keys))
            there = {change.key: change for change in stored}
            done = [there[key] for turn in waiting if (key := change_key(turn)) in there]
            # Whoever appended these may have died before the stage was marked done.
            self._to_confirm |= {change.turn_id or "": (change.key,) for change in done}
            waiting = [turn for turn in waiting if change_key(turn) not in there]
            standing_in = {key for turn in waiting if (key := change_key(turn, MEANWHILE)) in there}
            among, had = None, {there[key].turn_id for key in standing_in}
            if standing_in:  # or what a turn states would be taken for a repetition of what stands in for it
                stored = await self._store.fact_changes(scope)
                among = [change for change in stored if change.key not in standing_in]
            changes = await self.examine(waiting, among=among, had=had) if waiting else []
            # And again, for a turn in view may have been forgotten while the model was thinking.
            if not await self.append(scope, changes):
                continue
            made = [change.key for change in changes]
            self._to_confirm |= {turn.id: made for turn in waiting}
            await self.save(scope)  # also where who appended changes may have died before
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
        """Append what these turns of one thread state by other means, each turn's once; the stage stays pending.

        It counts until `extract` has appended the turn's own change, and says so in its extractor's name.
        """
        scope = turns[0].scope
        waiting = await self._store.list_turns(scope, ids=[turn.id for turn in turns])
        keys = [key for turn in waiting for key in (change_key(turn, MEANWHILE), change_key(turn))]
        done = {change.turn_id for change in await self._store.fact_changes(scope, keys=keys)}
        waiting = [turn for turn in waiting if turn.id not in done]
        if not waiting:
            return
        by = f"stand-in:{self._patterns.name}"
        changes = [
            dataclasses.replace(change, key=f"{change.key}:{MEANWHILE}", extractor=by)
            for change in await self.examine(waiting, by_model=False)
        ]
        if changes and await self.append(scope, changes):
            await self.save(scope)

    # --- one extraction --------------------------------------------------------------------------------------
    async def confirm(self, turns: Sequence[Turn]) -> None:
        """Make the stage pending again for those of `turns` that lost a change before the stage was marked done.

        A turn that was in view was forgotten then: the erasure made the stage pending again, and marking it done took that back.
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
        by_model: bool = True,
        among: Sequence[FactChange] | None = None,
        had: Collection[str | None] = (),
        generation: str = "",
    ) -> list[FactChange]:
        """The changes that `turns` of one thread bring about, given what `among` (default: all that is stored) comes to.

        Of a turn that states nothing there is none, but for those of the ids that `had` one: it is without events. Nor is
        there, in a new `generation`, of a turn whose reply can't be read: what is known from it stays. Only the cost is stored.
        """
        scope, model = turns[0].scope, self.model if by_model else None
        shown: Sequence[FactChange] = ()
        if model is not None:
            shown = await self._store.fact_changes(scope) if among is None else among
        heard = await self._statements(turns, model, shown)
        common: dict[str, Any] = {"now": self._clock.now(), "generation": generation}
        make: Callable[..., FactChange] = functools.partial(
            change_of, extractor=(model or self._patterns).name, **common
        )
        made = [make(one.turn) for one in heard if not one.found and one.turn.id in had]
        if not (stating := [one for one in heard if one.items or (one.found and not generation)]):
            return made
        changes = await self._store.fact_changes(scope) if among is None else among
        lenders = [Known(await self.folded(changes))]
        # What the model was shown may have been forgotten while it was thinking; what it took from there must go too.
        if {change.seq for change in shown} - {change.seq for change in changes}:
            lenders.append(Known(await self.folded(shown)))
        judge = functools.partial(self._changes, stating, lenders, make)
        long = sum(len(text) for one in stating for text in one.texts.values()) > _LONG_CHARS
        return [*(await asyncio.to_thread(judge) if long else judge()), *made]

    async def foresee(self, text: str) -> dict[str, Any]:
        """The facts that would be noted of this text alone. Nothing is stored. Raises LLMUnavailable."""
        turns = conversation_in(text, self._clock.now())
        told = [turn for turn in turns if turn.role == "user" and turn.content]
        if not told:
            return {}
        alone = FactKeeper(
            cast("DocumentStore", _Unstored(turns)), self.model, self._patterns, self._clock, self._never
        )
        return fold_facts(await alone.examine(told)).document

    async def _statements(
        self, turns: Sequence[Turn], model: LLMFactExtractor | None, known: Sequence[FactChange]
    ) -> list[TurnStatements]:
        """What patterns and the model find in these turns, given what is `known`. Adds up what that costs."""
        heard = {turn.id: TurnStatements(turn, {turn.id: turn.content}) for turn in turns}
        # Without the gaps where memory's words were.
        own = [(turn, re.sub(r" {3,}", " ", own_words(turn.content))) for turn in turns]
        own = [(turn, text) for turn, text in own if text.strip() and not (model and states_nothing(text))]
        for item in await self._patterns.found(own):
            heard[item.turn_id].add(item)
        if model is None or not own:
            return [*heard.values()]
        folded, cost = await self.folded(known), ExtractionCost()
        try:
            for passages in model.passages(own):
                request = await self._request(heard, passages, folded)
                extraction = await model.extract(request)
                cost += extraction.cost
                _hear(heard, request, extraction)
            cost += ExtractionCost(turns=len(turns))
        finally:  # what was answered before one failed was paid for
            if cost.requests:
                await self._store.add_extraction_cost(turns[0].scope, cost)
        return [*heard.values()]

    def _changes(
        self, stating: Sequence[TurnStatements], lenders: Sequence[Known], make: Callable[..., FactChange]
    ) -> list[FactChange]:
        """The change of each turn: what of it is believed, and what is not.

        `lenders`: what is known, and behind it what was when the turns were asked about, if some of that went since.
        """
        known = lenders[0]
        made: list[FactChange] = []
        for one in stating:
            vetted = Vetted(one, known, self._never)
            refused = [*vetted.refused, *([] if one.unread is None else [_unread(one.unread)])]
            claims = [[*event.path, event.value] for event in vetted.events]
            claims += [[item.path, item.said, item.quote] for item in refused]
            own = {term for text in one.texts.values() for term in count_terms(text)} | usual_path_terms()
            borrowed = [lender.borrowed(values, own) for lender in lenders for values in claims]
            turns = tuple(sorted({*one.texts}.union(*borrowed)))
            change = make(one.turn, turns=turns, events=tuple(vetted.events), refused=tuple(refused))
            if one.unread is not None:
                by = f"instead of {change.extractor}: {self._patterns.name}"
                change = dataclasses.replace(change, extractor=by)
            made.append(change)
            # What the next turn says may be about what this one said.
            known.take_in(change)
        return made

    async def _request(
        self, heard: Mapping[str, TurnStatements], passages: tuple[Passage, ...], folded: Folded
    ) -> ExtractionRequest:
        """About these passages, with what is known and the turns before them."""
        turns = {passage.turn.seq: passage.turn for passage in passages}
        first, last = min(turns), max(turns)
        found = await self._store.list_turns(
            turns[first].scope, after_seq=first - _BEFORE - 1, limit=last - first + _BEFORE
        )
        by_seq = {turn.seq: turn for turn in found}
        before: dict[str, Turn] = {}
        for seq, turn in turns.items():
            for other in (by_seq[n] for n in range(seq - _BEFORE, seq) if n in by_seq):
                if (other.role, other.speaker) == (turn.role, turn.speaker):
                    heard[turn.id].earlier = other.content
                if other.seq == seq - 1 and other.seq not in turns:
                    before[turn.id] = other
        texts = [*(passage.text for passage in passages), *(turn.content for turn in before.values())]
        known = most_related(folded.standing(), texts)
        return ExtractionRequest(passages=passages, before=before, known=known, never=self._never)

    async def _all_there(self, scope: Scope, changes: Sequence[FactChange]) -> bool:
        """True if every turn that was in view of one of `changes` is still there."""
        ids = sorted({turn_id for change in changes for turn_id in change.turns})
        found = await self._store.list_turns(scope.user, ids=ids) if ids else []
        return len(found) == len(ids)


@dataclass(frozen=True, slots=True)
class _Unstored:
    """A conversation that is stored nowhere, as far as extraction asks a store about it."""

    turns: Sequence[Turn]

    async def list_turns(self, _: Scope, *, after_seq: int, limit: int) -> Sequence[Turn]:
        return self.turns[max(after_seq, 0) :][:limit]

    async def fact_changes(self, _: Scope) -> Sequence[FactChange]:
        return ()

    async def add_extraction_cost(self, _: Scope, __: ExtractionCost) -> None:
        return None


_SAID_BY: Final = re.compile(rf"^[ \t]*({'|'.join(ROLE_OF)})[ \t]*:", re.IGNORECASE | re.MULTILINE)
_QUOTED: Final = re.compile(r"""["“](.*)["”]""", re.DOTALL)


def conversation_in(text: str, now: datetime) -> list[Turn]:
    """The messages of a conversation that is written down with who speaks, as "User: …"; else all of it is the user's."""
    first, *rest = _SAID_BY.split(text)
    said = [("user", text)] if first.strip() or not rest else list(zip(rest[::2], rest[1::2], strict=True))
    empty: dict[str, Any] = {
        "speaker": None,
        "timestamp": now,
        "tokens": 0,
        "importance": None,
        "metadata": {},
        "user_id": "nobody",
        "thread_id": "none",
    }
    return [
        Turn(
            id=new_id(),
            seq=number,
            role=ROLE_OF[role.lower()],
            content=quoted[1] if (quoted := _QUOTED.fullmatch(content.strip())) else content.strip(),
            **empty,
        )
        for number, (role, content) in enumerate(said, start=1)
    ]


def _hear(heard: Mapping[str, TurnStatements], request: ExtractionRequest, extraction: Extraction) -> None:
    """Give each turn of the request the items that quote it; where none does, the first."""
    asked = {passage.turn.id: heard[passage.turn.id] for passage in request.passages}
    said: dict[str, QuotableText] = {}
    for turn_id, one in asked.items():
        one.texts |= request.texts
        one.people |= request.people
        one.unread = extraction.unread.get(turn_id, one.unread)
        said[turn_id] = QuotableText(one.turn.content)
    for item in extraction.items:
        quoted = [turn_id for turn_id, text in said.items() if item.quote and text.find(item.quote)]
        # Whoever says the same again states it too: one of them may be forgotten.
        for turn_id in quoted:
            asked[turn_id].add(dataclasses.replace(item, turn_id=turn_id))
        if not quoted:
            next(iter(asked.values())).add(item)


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
        """Have the thread's turns read again, by making the stage pending; how many.

        Turns whose first extraction is pending are left to it. Call it while the stage is pending for none of the thread.
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
        made = await self.keeper.examine(
            waiting,
            among=self._known_before(waiting[0], changes, generation),
            had={change.turn_id for change in changes},  # or its former change would show
            generation=generation,
        )
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
        return [*(change for change in changes if change.kind != "extraction" or change.at < before), counts]

    async def _switch(self, thread: Scope, turns: Sequence[Turn] = ()) -> None:
        """Let the new generation count if no turn but these is still to be read. Idempotent."""
        own = {turn.id for turn in turns}
        pending = await self.store.owed_turns(thread, "reextract", limit=len(own) + 1, parked=False)
        if any(turn.id not in own for turn in pending):
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
