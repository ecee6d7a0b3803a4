"""Facts of stored turns, extracted again by the worker: the stage `reextract`.

What a thread's turns state now is stored under a new generation, which counts once one more change says so: after the
last turn that owes the stage. Until then the former does. What people set, retracted or reverted is theirs and stays.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import Scope, new_id
from memory_agent.errors import StoreUnavailable, Unavailable
from memory_agent.facts.fold import change_by_person, change_key, change_of, place_of, unfinished_generations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.domain import FactChange, Turn
    from memory_agent.facts.keeper import FactKeeper
    from memory_agent.ports import Clock, DocumentStore

_PREFIX: Final = "again:"
"""Of a generation's name: one without it was left half-way by an earlier version, and must never count."""


@dataclass(frozen=True, slots=True)
class Reextractor:
    """Reads turns again. `max_attempts`: after which the worker parks a turn."""

    store: DocumentStore
    keeper: FactKeeper
    clock: Clock
    max_attempts: int

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
        """The stage, for these turns of one thread. What is known from a turn whose reply can't be read stays.

        Raises MalformedReply and ModelRefused for such, also for several at once: see `FactKeeper.examine`.
        """
        try:
            await self._read(turns)
        except Unavailable:
            raise
        except Exception:
            if len(turns) == 1 and turns[0].attempts + 1 >= self.max_attempts:
                # It will be parked, and the others need not wait until somebody has it tried again.
                await self._switch(turns[0].scope, turns)
            raise
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
            takes_refusals=False,  # what is known from the turn stays
        )
        await self.keeper.count(scope, examined.cost)
        if examined.problem is not None:
            raise examined.problem
        # A change without events for a turn that states nothing any more, or its former one would show.
        emptied = {change.turn_id for change in changes} - {change.turn_id for change in examined.changes}
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
