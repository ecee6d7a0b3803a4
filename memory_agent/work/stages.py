"""The stages that a stored turn goes through, as a table: what each is given, and what it does.

`index` takes turns of all threads together; the others go through each thread in its order (`domain.STAGES`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from memory_agent.concurrency import together
from memory_agent.errors import StoreUnavailable
from memory_agent.work.claims import LIVE_TURNS, lease_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence

    from memory_agent.conversations.compress import Compressor
    from memory_agent.domain import Scope, Stage, Turn
    from memory_agent.facts.keeper import FactKeeper, Reextractor
    from memory_agent.ports import Clock
    from memory_agent.search.index_stage import Indexer
    from memory_agent.topics.packing import Compactor
    from memory_agent.topics.stage import TopicKeeper
    from memory_agent.work.claims import Claimed, Claims


_FACT_BATCHES: Final = 4
"""Calls to a model for the facts of one thread before another thread has its turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OrderedStage:
    """A stage that goes through each thread's turns in their order."""

    stage: Stage
    work: Callable[[Sequence[Turn]], Awaitable[Mapping[str, str] | None]]
    """Does the stage for turns of one thread. The stages behind it look at the topics, by turn id, that it gives."""
    at_once: int
    """How many turns `work` is given at most."""
    per_claim: int
    """How many turns of a thread before another thread has its turn."""
    inline: bool = True
    """Whether it asks no model: done right behind the stages before it where few turns of a thread are pending. One that asks, but of
    which `narrow` finds nothing to do, is done with there as well."""
    narrow: Callable[[Sequence[Turn]], Awaitable[Sequence[Turn]]] | None = None
    """Which of the turns there is something to do for; the others are done with."""
    after: Callable[[Sequence[Turn]], Awaitable[None]] | None = None
    """What is looked at once more when the stage is done."""
    meanwhile: Callable[[Sequence[Turn]], Awaitable[None]] | None = None
    """What is done for turns of one thread, in order, while the stage waits for a part that stays away."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The parts that do each stage's work."""

    indexer: Indexer
    topics: TopicKeeper
    facts: FactKeeper
    compactor: Compactor
    compressor: Compressor
    reextractor: Reextractor

    def in_order(self, batch: int, fact_batch: int) -> tuple[OrderedStage, ...]:
        """The stages after `index`. `batch`: turns at once; `fact_batch`: turns in one request for facts."""
        # Patterns look at each turn alone and cost nothing: the fewer writes, the better.
        together = fact_batch if self.facts.model else batch
        read = functools.partial(
            OrderedStage, at_once=together, per_claim=min(_FACT_BATCHES * together, batch)
        )
        sum_up = functools.partial(OrderedStage, at_once=1, per_claim=batch)
        return (
            OrderedStage(stage="topics", work=self.topics.assign, at_once=batch, per_claim=batch),
            sum_up(
                stage="compact",
                inline=not self.compactor.summaries.asks_model,
                work=self.compactor.compact,
                narrow=self.compactor.grown,
            ),
            sum_up(
                stage="compress",
                inline=not self.compressor.summaries.asks_model,
                work=self.compressor.work,
                narrow=self.compressor.due,
            ),
            read(
                stage="facts",
                inline=self.facts.model is None,
                work=self.facts.extract,
                after=self.facts.confirm,
                meanwhile=self.facts.stand_in,
            ),
            # What was said before waits for what is said now.
            read(stage="reextract", inline=False, work=self.reextractor.work),
        )


def batches(turns: Sequence[Turn], most: int) -> Iterator[Sequence[Turn]]:
    """`turns` in order, at most so many together; one that failed before is alone, so that it takes no others along."""
    batch: list[Turn] = []
    for turn in turns:
        if batch and (turn.attempts or batch[-1].attempts or len(batch) >= most):
            yield batch
            batch = []
        batch.append(turn)
    if batch:
        yield batch


def first_batch(turns: Sequence[Turn], most: int, *, chars: int) -> list[Turn]:
    """The first of `turns`, at most so many, and none once they have so many characters."""
    totals = itertools.accumulate((len(turn.content) for turn in turns), initial=0)
    return [turn for turn, before in zip(turns[:most], totals, strict=False) if before < chars]


def by_thread(turns: Sequence[Turn]) -> dict[Scope, list[Turn]]:
    """`turns` of each thread, in order."""
    grouped: dict[Scope, list[Turn]] = {}
    for turn in turns:
        grouped.setdefault(turn.scope, []).append(turn)
    return grouped


log = logging.getLogger(__name__)

T = TypeVar("T")


class MarkDone(Protocol):
    """Strikes stages off: those that did their work for these turns, and those that had none."""

    def __call__(
        self, turns: Sequence[Turn], *done: Stage, needless: Sequence[Stage] = ()
    ) -> Awaitable[None]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """Threads that can go through the stages once they are indexed: what was pending of each before, and the names of the leases on them."""

    taken: Collection[str]
    pending: Mapping[Scope, Sequence[Turn]]


class Rounds:
    """The rounds of one worker."""

    def __init__(
        self,
        claims: Claims,
        stages: Sequence[OrderedStage],
        clock: Clock,
        *,
        may_work: Callable[[Stage], bool],
        mark_done: MarkDone,
    ) -> None:
        """`stages`: all behind `index`, in order; `may_work`: False while one has to wait."""
        self._claims, self._clock = claims, clock
        self._stages = list(itertools.takewhile(lambda kind: kind.inline or kind.narrow is not None, stages))
        self._of_backlogs = list(itertools.takewhile(lambda kind: kind.inline, stages))
        self._may_work, self._mark_done = may_work, mark_done

    async def ready(self, turns: Mapping[Scope, Sequence[Turn]], claimed: Claimed) -> Ready:
        """Claim the stages for threads that were claimed and owe few turns, and read what these owe: beside their embedding, which takes longer."""
        # As many as a part of a backlog has: leases for that would keep its stages' own loops out, for nothing.
        scopes = [scope for scope, of_thread in turns.items() if len(of_thread) < LIVE_TURNS]
        if not scopes or not self._stages:
            return Ready(taken=frozenset(), pending={})
        stages = [kind.stage for kind in self._stages]
        taken = await self._claims.claim_more(claimed, scopes, stages)
        # A damaged turn of one thread must not keep the whole batch from being marked done.
        reads = [_or_left("all", self._claims.pending(scope, None, LIVE_TURNS)) for scope in scopes]
        pending = zip(scopes, await together(*reads), strict=True)
        return Ready(taken=taken, pending={scope: found for scope, found in pending if found is not None})

    async def follow(
        self, turns: dict[Scope, Sequence[Turn]], ready: Ready, indexed: Collection[str]
    ) -> None:
        """Strike off that the turns of these ids were indexed, with the stages behind for the threads that are `ready`, which are run before.

        Of each thread that is done with, also if another fails, its turns with what they owe then replace those in `turns`.
        Also where none were: what older turns owe had to wait for these leases.
        """

        async def run(scope: Scope) -> None:
            done = [turn for turn in turns[scope] if turn.id in indexed]
            pending = [
                _without(turn, {"index"}) if turn.id in indexed else turn for turn in ready.pending[scope]
            ]
            if len(pending) < LIVE_TURNS:
                _, turns[scope] = await self._run(scope, pending, ready.taken, done)
            else:  # of which the oldest alone were read
                await self._mark_done(done, needless=["index"])
                turns[scope] = [*pending, *turns[scope]]

        others = [turn for scope in turns if scope not in ready.pending for turn in turns[scope]]
        alone = [turn for turn in others if turn.id in indexed]
        await together(self._mark_done(alone, needless=["index"]), *map(run, ready.pending))

    def begin_with(self, kind: OrderedStage) -> bool:
        """True for the first of several stages that a part of a backlog goes through together."""
        return len(self._of_backlogs) > 1 and self._of_backlogs[0] is kind

    async def work_off(self, head: Turn, *, limit: int, claimed: Claimed) -> Sequence[Turn] | None:
        """Run the stages for the oldest turns of a thread, `head` before all, that owe the first one, which is claimed: these with what they owe then.

        None if the first one came to nothing.
        """
        scope, (first, *behind) = head.scope, [kind.stage for kind in self._of_backlogs]
        # One that older turns wait for is left to its own loop: the lease would keep that out for the length of an import.
        oldest = await together(*(self._claims.pending(scope, stage, 1) for stage in behind))
        level = itertools.takewhile(
            lambda each: all(turn.seq >= head.seq for turn in each[1]), zip(behind, oldest, strict=True)
        )
        taken = await self._claims.claim_more(claimed, [scope], [stage for stage, _ in level])
        pending = await self._claims.pending(scope, first, limit)
        done, left = await self._run(scope, pending, {*taken, lease_name(first, scope)})
        return left if self._stages[0] in done else None

    async def _run(
        self, scope: Scope, pending: Sequence[Turn], taken: Collection[str], indexed: Sequence[Turn] = ()
    ) -> tuple[list[OrderedStage], Sequence[Turn]]:
        """Run the stages up to the first whose lease is not among those `taken`; which did something, and `pending` as they are then.

        `indexed`: turns of which that is still to be marked done.
        """
        # What came in since waits for its own round; nothing overtakes a turn that is to be tried again.
        turns = live = list(itertools.takewhile(self._is_live, pending))
        done: list[OrderedStage] = []
        past: set[Stage] = set()
        needed: dict[Stage, Sequence[Turn] | None] | None = None
        for kind in self._stages:
            if lease_name(kind.stage, scope) not in taken:
                break
            if kind.narrow is not None and needed is None:
                needed = await self._needed(turns)
            waiting = [turn for turn in turns if kind.stage in turn.pending]
            topics = await self._did(kind, waiting, (needed or {}).get(kind.stage, waiting))
            if topics is None:
                break
            past.add(kind.stage)
            done += [kind] if waiting else []
            if topics:
                turns = [
                    dataclasses.replace(turn, topic_id=topics.get(turn.id) or turn.topic_id) for turn in turns
                ]
        await self._end(live, done, indexed)
        return done, [*(_without(turn, past) for turn in turns), *pending[len(live) :]]

    def _is_live(self, turn: Turn) -> bool:
        is_due = turn.due_at is not None and turn.due_at <= self._clock.now()
        return is_due and "index" not in turn.pending and not turn.attempts

    async def _needed(self, turns: Sequence[Turn]) -> dict[Stage, Sequence[Turn] | None]:
        """By stage that tells so, looked up side by side, which of the turns that owe it there is something to do for; None if it failed."""
        looks = {
            kind.stage: _or_left(kind.stage, kind.narrow(waiting))
            for kind in self._stages
            if kind.narrow and (waiting := [turn for turn in turns if kind.stage in turn.pending])
        }
        return dict(zip(looks, await together(*looks.values()), strict=True))

    async def _did(
        self, kind: OrderedStage, waiting: Sequence[Turn], needed: Sequence[Turn] | None
    ) -> Mapping[str, str] | None:
        """Do the stage for the `needed` of these turns of one thread, which are all that owe it; the topics that it gave to turns, by turn id.

        None if it is not done: its loop will see to it.
        """
        if needed is None or (waiting and not self._may_work(kind.stage)) or (needed and not kind.inline):
            return None

        async def work() -> Mapping[str, str]:
            topics: dict[str, str] = {}
            for batch in batches(needed, kind.at_once):
                topics |= await kind.work(batch) or {}
            return topics

        return await _or_left(kind.stage, work())

    async def _end(self, live: Sequence[Turn], done: Sequence[OrderedStage], indexed: Sequence[Turn]) -> None:
        """Strike off what was done, in one write; in another one of older turns than those just indexed.

        What an older one is made to owe again while others are embedded was not done.
        """
        past, ids = {kind.stage for kind in done}, {turn.id for turn in live}
        new = {turn.id for turn in indexed}
        older = [turn for turn in live if turn.id not in new and not past.isdisjoint(turn.pending)]
        if waiting := [turn for turn in indexed if turn.id not in ids]:
            await self._mark_done(waiting, needless=["index"])
        for turns in (older, [turn for turn in live if turn.id in new]):
            if turns:
                kinds = [kind for kind in done if any(kind.stage in turn.pending for turn in turns)]
                needless: list[Stage] = [kind.stage for kind in kinds if kind.narrow]
                needless += [] if turns is older else ["index"]  # of which the worker knows that it was done
                worked = [kind.stage for kind in kinds if kind.narrow is None]
                await self._mark_done(turns, *worked, needless=needless)
        for kind in done:
            if kind.after is not None:
                await kind.after([turn for turn in live if kind.stage in turn.pending])


async def _or_left(stage: str, work: Awaitable[T]) -> T | None:
    """The result; None if it failed, which is left to the stage's own loop."""
    try:
        return await work
    except StoreUnavailable:
        raise
    except Exception as exc:
        log.info("of a thread %s is left to the stages' own loops: %s", stage, type(exc).__name__)
        return None


def _without(turn: Turn, past: Collection[Stage]) -> Turn:
    return dataclasses.replace(turn, pending=tuple(each for each in turn.pending if each not in past))
