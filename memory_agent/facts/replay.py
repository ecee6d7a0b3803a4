"""Replay: the facts of a thread extracted anew from its stored turns, shown, and applied wholly or not at all.

A proposal is only in memory. Applying it appends its changes under a generation of their own, which count for nothing
until one more change says so: that one append is the moment at which the replay is applied, and undoing it is another.
What people set, retracted or reverted themselves stays.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import ExtractionCost, new_id
from memory_agent.errors import InvalidInput, LLMError, MalformedReply, NotFound, StoreUnavailable
from memory_agent.facts.compare import FactDifference, differences
from memory_agent.facts.fold import fold_facts
from memory_agent.facts.keeper import Examined
from memory_agent.facts.order import applied_generations, change_by_person, change_of, counting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from memory_agent.domain import FactChange, FactRecord, Scope, Turn
    from memory_agent.facts.edits import FactEditor
    from memory_agent.facts.extractors import FactExtractor
    from memory_agent.facts.keeper import FactKeeper
    from memory_agent.ports import Clock, DocumentStore

_LEASE: Final = timedelta(minutes=5)


@dataclass(frozen=True, kw_only=True, slots=True)
class FactProposal:
    """A proposed change of a thread's facts: `before` and `after` are documents, `differences` say it by path.

    `refused` are stated facts that were not believed, with the reason. `failed` are turns whose reply could not be
    read, with what was wrong; what is known from them stays. `turns` were looked at, at the price of `cost`.
    """

    id: str
    scope: Scope
    extractor: str
    before: dict[str, Any]
    after: dict[str, Any]
    differences: tuple[FactDifference, ...]
    refused: tuple[FactRecord, ...]
    failed: tuple[tuple[str, str], ...]
    turns: int
    cost: ExtractionCost
    changes: tuple[FactChange, ...]
    """What `apply_replay` appends."""


@dataclass(slots=True)
class _SoFar:
    """State of a proposal in the making."""

    failed: list[tuple[str, str]] = field(default_factory=list)
    answered: bool = False
    cost: ExtractionCost = field(default_factory=ExtractionCost)


@dataclass(frozen=True, slots=True)
class Replayer:
    """Proposes facts and applies proposals."""

    store: DocumentStore
    keeper: FactKeeper
    editor: FactEditor
    clock: Clock
    batch_turns: int

    async def propose(
        self, scope: Scope, extractor: FactExtractor, *, progress: Callable[[int, int], None] | None = None
    ) -> FactProposal:
        """Extract from all turns of the thread anew; `progress(done, all)` counts turns. Writes nothing but the cost.

        Turns that still owe their first extraction are left to it. Raises LLMUnavailable while the model is away.
        """
        stored = await self.store.list_turns(scope)
        turns = [turn for turn in stored if turn.role == "user" and "facts" not in turn.pending]
        return await self._proposal(scope, turns, extractor, progress=progress)

    async def apply(self, proposal: FactProposal) -> str:
        """Make the proposal count, wholly or not at all; its id, for `undo`.

        Raises InvalidInput if none of its turns could be read, if it counts already, or if a turn that
        it was made from was forgotten since; then nothing has changed.
        """
        scope = proposal.scope
        if proposal.turns and len(proposal.failed) == proposal.turns:
            raise InvalidInput(f"none of the proposal's {proposal.turns} turn(s) could be read; propose anew")
        async with self._alone(scope):
            stored = await self.store.fact_changes(scope)
            if proposal.id in applied_generations(stored):
                raise InvalidInput(f"the proposal {proposal.id} counts already; undo_replay takes it back")
            await self._drop_unfinished(scope, stored)
            try:
                for change in proposal.changes:
                    await self.store.append_fact_change(scope, change)
                await self._check_whole(scope, proposal)
                await self.editor.mark_replay(scope, proposal.id, "replay")
            except BaseException:
                with contextlib.suppress(StoreUnavailable):
                    await self.store.drop_generation(scope, proposal.id)
                raise
            await self.keeper.save(scope)
        return proposal.id

    async def _check_whole(self, scope: Scope, proposal: FactProposal) -> None:
        """Once its changes are there: a turn that is forgotten from now on takes its changes along."""
        keys = [change.key for change in proposal.changes]
        there = await self.store.fact_changes(scope, keys=keys)
        if not await self.keeper.all_there(scope, proposal.changes):
            raise InvalidInput(
                "turns were forgotten since the proposal was made, and it may tell of them; propose anew"
            )
        if len(there) < len(keys):
            raise StoreUnavailable(
                "another replay of this thread was applied meanwhile; nothing has changed, try again"
            )

    async def undo(self, scope: Scope, replay_id: str | None = None) -> str:
        """The replay (default: the newest that counts) counts no more; what was known before it does. Its id.

        Raises NotFound if no such replay counts.
        """
        applied = applied_generations(await self.store.fact_changes(scope))
        if replay_id is None and applied:
            replay_id = applied[0]
        if replay_id not in applied:
            if not applied:
                raise NotFound(f"no replay is applied in thread {scope.thread_id!r}; there is none to undo")
            listed = ", ".join(applied)
            raise NotFound(f"replay is {replay_id!r:.80}; replays that count here, newest first: {listed}")
        await self.editor.mark_replay(scope, replay_id, "undo")
        await self.keeper.save(scope)
        return replay_id

    # --- inside ----------------------------------------------------------------------------------------------
    async def _proposal(
        self,
        scope: Scope,
        turns: Sequence[Turn],
        extractor: FactExtractor,
        *,
        progress: Callable[[int, int], None] | None,
    ) -> FactProposal:
        stored = await self.store.fact_changes(scope)
        generation = new_id()
        # The change that makes the generation count, while it is only in memory.
        of: dict[str, Any] = {"now": self.clock.now(), "generation": generation}
        key, thread_id = f"replay:{generation}", str(scope.thread_id)
        marker = change_by_person(key, "replay", generation, thread_id=thread_id, **of)
        asked = {turn.id for turn in turns}
        base = [
            dataclasses.replace(change, generation="")
            for change in counting(stored)
            if change.turn_id not in asked
        ]
        made: list[FactChange] = []
        so_far = _SoFar()
        try:
            for start in range(0, len(turns), self.batch_turns):
                batch = turns[start : start + self.batch_turns]
                made += await self._examined(batch, extractor, [*base, marker, *made], generation, so_far)
                if progress is not None:
                    progress(start + len(batch), len(turns))
        finally:
            await self.keeper.count(scope, so_far.cost)  # what was answered was paid for
        # Turns that count now and state nothing any more.
        stating = {change.turn_id for change in made} | {turn_id for turn_id, _ in so_far.failed}
        emptied = {change.turn_id for change in stored if change.kind == "extraction"} - stating
        made += [change_of(turn, extractor=extractor.name, **of) for turn in turns if turn.id in emptied]
        before = fold_facts(stored)
        after, alone = fold_facts(_numbered([*stored, *made, marker])), fold_facts(_numbered([marker, *made]))
        return FactProposal(
            id=generation,
            scope=scope,
            extractor=extractor.name,
            before=before.document,
            after=after.document,
            differences=differences(before, after),
            refused=tuple(record for record in alone.records if record.refused),
            failed=tuple(so_far.failed),
            turns=len(turns),
            cost=so_far.cost,
            changes=tuple(made),
        )

    async def _examined(
        self,
        turns: Sequence[Turn],
        extractor: FactExtractor,
        among: Sequence[FactChange],
        generation: str,
        so_far: _SoFar,
    ) -> list[FactChange]:
        """The turns' changes; those whose reply cannot be read, found by halving, go to `so_far.failed`."""
        try:
            examined = await self.keeper.examine(
                turns,
                extractor=extractor,
                among=_numbered(among),
                generation=generation,
                takes_refusals=False,  # what is known from the turn stays
            )
        except LLMError as exc:
            # The model's server refuses: if it has answered nothing yet, not even about a single turn, it is not the turns.
            if len(turns) == 1 and not so_far.answered:
                raise
            examined = Examined(problem=MalformedReply(str(exc), reply=""))
        else:
            so_far.answered = True
        so_far.cost += examined.cost
        if examined.problem is None:
            return list(examined.changes)
        if len(turns) == 1:
            so_far.failed.append((turns[0].id, str(examined.problem)))
            return []
        half = len(turns) // 2
        first = await self._examined(turns[:half], extractor, among, generation, so_far)
        return first + await self._examined(turns[half:], extractor, [*among, *first], generation, so_far)

    async def _drop_unfinished(self, scope: Scope, changes: Sequence[FactChange]) -> None:
        """Changes of replays that a crash kept from being applied."""
        marked = {change.generation for change in changes if change.kind == "replay"}
        for generation in {change.generation for change in changes} - marked - {""}:
            await self.store.drop_generation(scope, generation)

    @contextlib.asynccontextmanager
    async def _alone(self, scope: Scope) -> AsyncIterator[None]:
        name = "replay:" + json.dumps([scope.user_id, scope.thread_id])
        holder, now = new_id(), self.clock.now()
        if not await self.store.acquire_leases([name], holder, now=now, until=now + _LEASE):
            raise StoreUnavailable("another replay of this thread is being applied; try again in a while")
        try:
            yield
        finally:
            with contextlib.suppress(StoreUnavailable):
                await self.store.release_leases([name], holder)


def _numbered(changes: Sequence[FactChange]) -> list[FactChange]:
    """`changes` with numbers for those that are not stored yet, above all others."""
    last = max((change.seq for change in changes), default=0)
    return [
        change if change.seq else dataclasses.replace(change, seq=last + number)
        for number, change in enumerate(changes, start=1)
    ]
