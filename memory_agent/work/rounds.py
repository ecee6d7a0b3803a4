"""Live rounds: threads that owe few turns go through the stages behind `index` at once, as far as no model is asked.

So an exchange, or a short history, is done with in one round, of few writes. Whatever goes wrong is left to the stage's own loop.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from typing import TYPE_CHECKING, Protocol

from memory_agent.errors import StoreUnavailable
from memory_agent.together import together
from memory_agent.work.claims import LIVE_TURNS, lease_name
from memory_agent.work.stages import batches

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from memory_agent.domain import Scope, Stage, Turn
    from memory_agent.ports import Clock, DocumentStore
    from memory_agent.work.claims import Claimed, Claims
    from memory_agent.work.stages import OrderedStage

log = logging.getLogger(__name__)


class StrikeOff(Protocol):
    """Strikes stages off: those that did their work for these turns, and those that had none."""

    def __call__(
        self, turns: Sequence[Turn], *done: Stage, needless: Sequence[Stage] = ()
    ) -> Awaitable[None]: ...


class LiveRounds:
    """The live rounds of one worker."""

    def __init__(
        self,
        store: DocumentStore,
        claims: Claims,
        stages: Sequence[OrderedStage],
        clock: Clock,
        *,
        may_work: Callable[[Stage], bool],
        strike_off: StrikeOff,
    ) -> None:
        """`stages`: all behind `index`, in order; `may_work`: False while one has to wait."""
        self._store, self._claims, self._clock = store, claims, clock
        self._stages = list(itertools.takewhile(lambda kind: kind.inline or kind.narrow is not None, stages))
        self._may_work, self._strike_off = may_work, strike_off

    async def follow(self, indexed: dict[Scope, Sequence[Turn]], claimed: Claimed) -> None:
        """Run the stages for threads that were claimed, and of which these turns were indexed just now.

        Of each that is done with, also if another fails, its turns with what they owe then replace them.
        """
        # As many as a part of a backlog has: leases for that would keep its stages' own loops out, for nothing.
        scopes = [scope for scope, turns in indexed.items() if len(turns) < LIVE_TURNS]
        if not scopes or not self._stages:
            return
        taken = await self._claims.claim_more(claimed, scopes, [kind.stage for kind in self._stages])

        def leased(scope: Scope) -> list[OrderedStage]:
            """The stages that are ours to run, up to the first that is not."""
            return list(
                itertools.takewhile(lambda kind: lease_name(kind.stage, scope) in taken, self._stages)
            )

        async def run(scope: Scope) -> None:
            indexed[scope] = await self._run(scope, indexed[scope], leased(scope))

        await together(*map(run, scopes))

    async def _run(
        self, scope: Scope, indexed: Sequence[Turn], kinds: Sequence[OrderedStage]
    ) -> Sequence[Turn]:
        owed = await self._store.owed_turns(scope, None, limit=LIVE_TURNS, parked=False)
        if len(owed) == LIVE_TURNS:
            return [*owed, *indexed]  # of which the oldest alone were read
        # What came in since waits for its own round; nothing overtakes a turn that is to be tried again.
        turns = live = list(itertools.takewhile(self._is_live, owed))
        done: list[OrderedStage] = []
        for kind in kinds:
            waiting = [turn for turn in turns if kind.stage in turn.pending]
            if waiting and not await self._did(kind, waiting):
                break
            done += [kind] if waiting else []
            turns = [_without(turn, kind.stage) for turn in turns]
            if waiting and kind.assigns:
                ids = [turn.id for turn in turns]
                assigned = {turn.id: turn.topic_id for turn in await self._store.list_turns(scope, ids=ids)}
                turns = [dataclasses.replace(turn, topic_id=assigned.get(turn.id)) for turn in turns]
        await self._end(live, done)
        return [*turns, *owed[len(live) :]]

    def _is_live(self, turn: Turn) -> bool:
        is_due = turn.due_at is not None and turn.due_at <= self._clock.now()
        return is_due and "index" not in turn.pending and not turn.attempts

    async def _did(self, kind: OrderedStage, waiting: Sequence[Turn]) -> bool:
        """Whether the stage is done for these turns of one thread, which are all that owe it; False: its loop will see to it."""
        if not self._may_work(kind.stage) or any(turn.pending[:1] != (kind.stage,) for turn in waiting):
            return False
        try:
            needed = waiting if kind.narrow is None else await kind.narrow(waiting)
            if needed and not kind.inline:
                return False
            for batch in batches(needed, kind.at_once):
                await kind.work(batch)
        except StoreUnavailable:
            raise
        except Exception as exc:
            log.info("the stage %s is left to its own loop: %s", kind.stage, type(exc).__name__)
            return False
        return True

    async def _end(self, live: Sequence[Turn], done: Sequence[OrderedStage]) -> None:
        """Strike off what was done, all of it in one write."""
        stages = {kind.stage for kind in done}
        struck = [turn for turn in live if not stages.isdisjoint(turn.pending)]
        if not struck:
            return
        worked = [kind.stage for kind in done if kind.narrow is None]
        await self._strike_off(struck, *worked, needless=[kind.stage for kind in done if kind.narrow])
        for kind in done:
            if kind.after is not None:
                await kind.after([turn for turn in struck if kind.stage in turn.pending])


def _without(turn: Turn, stage: Stage) -> Turn:
    return dataclasses.replace(turn, pending=tuple(each for each in turn.pending if each != stage))
