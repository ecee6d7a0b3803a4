"""The stages that a stored turn goes through, as a table: what each is given, and what it does.

`index` takes turns of all threads together; the others go through each thread in its order (`domain.STAGES`).
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from memory_agent.conversations.compress import Compressor
    from memory_agent.domain import Scope, Stage, Turn
    from memory_agent.facts.keeper import FactKeeper
    from memory_agent.facts.reextract import Reextractor
    from memory_agent.search.index_stage import Indexer
    from memory_agent.topics.packing import Compactor
    from memory_agent.topics.stage import TopicKeeper

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
    """Whether it asks no model: done right behind the stages before it where few turns of a thread are owed. One that asks, but of
    which `narrow` finds nothing to do, is done with there as well."""
    narrow: Callable[[Sequence[Turn]], Awaitable[Sequence[Turn]]] | None = None
    """Which of the turns there is something to do for; the others are done with."""
    after: Callable[[Sequence[Turn]], Awaitable[None]] | None = None
    """What is looked at once more when the stage was struck off."""
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
        together = fact_batch if self.facts.extractor.sees_conversation else batch
        one_by_one = functools.partial(OrderedStage, at_once=1, per_claim=batch)
        return (
            OrderedStage(stage="topics", work=self.topics.assign, at_once=batch, per_claim=batch),
            OrderedStage(
                stage="facts",
                inline=not self.facts.extractor.sees_conversation,
                work=self.facts.extract,
                at_once=together,
                per_claim=min(_FACT_BATCHES * together, batch),
                after=self.facts.confirm,
                meanwhile=self.facts.stand_in,
            ),
            one_by_one(
                stage="compact",
                inline=not self.compactor.asks_model,
                work=self.compactor.compact,
                narrow=self.compactor.grown,
            ),
            one_by_one(
                stage="compress",
                inline=not self.compressor.asks_model,
                work=self.compressor.work,
                narrow=self.compressor.due,
            ),
            # What was said before waits for what is said now.
            OrderedStage(
                stage="reextract",
                inline=False,
                work=self.reextractor.work,
                at_once=together,
                per_claim=min(_FACT_BATCHES * together, batch),
            ),
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
