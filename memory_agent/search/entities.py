"""Entities of turns and questions: found by dictionary, by the caller and by a finder where one is handed in, and counted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from memory_agent.domain import EntityCount
from memory_agent.domain.recalled import said_in
from memory_agent.domain.search import given_entities
from memory_agent.domain.turns import own_entities
from memory_agent.errors import BackendError, InvalidInput
from memory_agent.text.dictionary import united

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from memory_agent.domain import Entity, Scope, Turn, TurnDraft
    from memory_agent.ports import DocumentStore, EntityFinder
    from memory_agent.search.request import Searched
    from memory_agent.search.user_index import ResidentCache
    from memory_agent.text.dictionary import EntityDictionary

log = logging.getLogger(__name__)

_FOUND_INLINE: Final = 8
_INLINE_CHARS: Final = 16_384
"""Turns whose names are looked for on the event loop, at up to half a millisecond each, and their characters."""
_T = TypeVar("_T")

UNINDEXED_LIMIT: Final = 500
"""Newest unindexed turns of a scope that are looked at beside the index (a bulk ingest may have more)."""
_COUNTINGS: Final = 5
"""Looks at entities while others are being indexed; the last one counts whatever happens."""


async def _away(find: Callable[[], list[_T]], texts: Sequence[str]) -> list[_T]:
    """What `find` finds, in a thread where the texts are many or long."""
    much = len(texts) > _FOUND_INLINE or sum(map(len, texts)) > _INLINE_CHARS
    return await asyncio.to_thread(find) if much else find()


class EntitySpotter:
    """Finds entities; what it finds are the canonical names."""

    def __init__(
        self,
        dictionary: EntityDictionary,
        finder: EntityFinder | None = None,
        *,
        batch_seconds: float = 60.0,
        question_seconds: float = 3.0,
    ) -> None:
        """`finder`: for names that no dictionary knows.

        `batch_seconds`, `question_seconds`: how long it is waited for, with a batch of turns and with a question.
        """
        self._dictionary = dictionary
        self._finder = finder
        self._batch_seconds, self._question_seconds = batch_seconds, question_seconds
        self._late: set[asyncio.Future[object]] = set()

    async def of_turns(self, turns: Sequence[Turn]) -> list[tuple[Entity, ...]]:
        """The entities of each turn, each once, in order of mention; the caller's own included."""
        recognised: list[tuple[Entity, ...]] = [()] * len(turns)
        try:
            recognised = await self._recognised([turn.said for turn in turns], self._batch_seconds)
        except BackendError as exc:
            # Names that only it knows are missing then; the turns are searchable all the same.
            log.warning("%s; its names are left out", exc)

        def find() -> list[tuple[Entity, ...]]:
            return [
                united(self._dictionary.find(turn.said), own_entities(turn), names, self._dictionary)
                for turn, names in zip(turns, recognised, strict=True)
            ]

        return await _away(find, [turn.content for turn in turns])

    def of_unindexed(self, turn: Turn) -> tuple[Entity, ...]:
        """Those of a turn that was not indexed yet: without the model, which takes its time."""
        return united(self._dictionary.find(turn.said), own_entities(turn), (), self._dictionary)

    async def named(self, drafts: Sequence[TurnDraft]) -> list[TurnDraft]:
        """Drafts with what the dictionary finds in them."""

        def find() -> list[TurnDraft]:
            return list(map(self._named, drafts))

        return await _away(find, [draft.content for draft in drafts])

    def _named(self, draft: TurnDraft) -> TurnDraft:
        found = united(self._dictionary.find(said_in(draft.content)), draft.entities, (), self._dictionary)
        if found == draft.entities:
            return draft
        return replace(draft, entities=found, given_entities=draft.entities)

    def by_dictionary(self, text: str) -> tuple[Entity, ...]:
        """The entities that a text names by the dictionary alone."""
        return self._dictionary.find(text)

    async def of_question(self, text: str) -> tuple[Entity, ...]:
        """The entities that a question names. Raises BackendError if the model fails."""
        [names] = await self._recognised([text], self._question_seconds)
        return united(self._dictionary.find(text), (), names, self._dictionary)

    async def _recognised(self, texts: Sequence[str], seconds: float) -> list[tuple[Entity, ...]]:
        """What the finder finds in each text. Raises BackendError if it fails or takes longer than that.

        It is the application's: in a thread of its own, for it may never come back; until it does it isn't asked again.
        """
        finder = self._finder
        if finder is None or not texts:
            return [()] * len(texts)
        if self._late:
            raise BackendError(f"{finder.name} has not answered an earlier call yet")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[object] = loop.create_future()

        def arrive(found: object) -> None:
            self._late.discard(answer)
            if not answer.done():  # as where whoever waited was cancelled
                answer.set_result(found)

        def ask() -> None:
            try:
                found: object = finder.find(texts)
            except Exception as exc:  # of a program that we don't know
                found = exc
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(arrive, found)

        threading.Thread(target=ask, name=f"memory_agent {finder.name}", daemon=True).start()
        await asyncio.wait({answer}, timeout=seconds)
        if not answer.done():
            self._late.add(answer)
            raise BackendError(f"{finder.name} has not answered for {seconds:g} seconds")
        if isinstance(found := answer.result(), Exception):
            raise BackendError(f"{finder.name} failed with {type(found).__name__}") from found
        if not isinstance(found, Sequence) or len(found) != len(texts):
            raise BackendError(
                f"{finder.name} returned a {type(found).__name__} that has no list for each text"
            )
        return [tuple(_entities_in(each, finder.name)) for each in found]


def _entities_in(found: object, finder: str) -> Iterator[Entity]:
    """What of a finder's list are entities, or can be read as such."""
    for each in found if isinstance(found, Iterable) and not isinstance(found, str | Mapping) else (found,):
        try:
            yield from given_entities([each])
        except InvalidInput:
            log.warning("%s returned a %s that is no entity; it is left out", finder, type(each).__name__)


_First: TypeAlias = "tuple[datetime, str, int]"
"""When, in which turn, and as its how manieth entity."""
_Last: TypeAlias = "tuple[datetime, str]"


@dataclass(slots=True)
class _Count:
    entity: Entity
    turns: int
    first: _First
    last: _Last


class EntityTally:
    """The entities of turns that were added in any order, each turn once."""

    def __init__(self) -> None:
        self._counts: dict[Entity, _Count] = {}

    def add(self, turn_id: str, at: datetime, entities: Iterable[Entity]) -> None:
        """One more turn, with what it names in the order of mention."""
        for place, entity in enumerate(entities):
            self._count(entity, 1, (at, turn_id, place), (at, turn_id))

    def merge(self, counts: Iterable[EntityCount]) -> None:
        """Add what was counted elsewhere, of other turns, in the order of first mention."""
        for place, count in enumerate(counts):
            first, last = (count.first_at, count.first_turn_id, place), (count.last_at, count.last_turn_id)
            self._count(count.entity, count.count, first, last)

    def _count(self, entity: Entity, turns: int, first: _First, last: _Last) -> None:
        known = self._counts.setdefault(entity, _Count(entity, 0, first, last))
        known.turns += turns
        known.first, known.last = min(known.first, first), max(known.last, last)

    def counts(self) -> list[EntityCount]:
        """By first mention: the turn's time and id, then the place within it."""
        return [
            EntityCount(
                entity=count.entity,
                count=count.turns,
                first_turn_id=count.first[1],
                last_turn_id=count.last[1],
                first_at=count.first[0],
                last_at=count.last[0],
            )
            for count in sorted(self._counts.values(), key=lambda count: count.first)
        ]


class EntityCounter:
    """Counts the entities of a scope: indexed turns in memory or by the store, the others by the dictionary."""

    def __init__(self, store: DocumentStore, residents: ResidentCache, spotter: EntitySpotter) -> None:
        self._store = store
        self._residents = residents
        self._spotter = spotter

    async def count(self, scope: Scope, searched: Searched | None = None) -> list[EntityCount]:
        """The entities that the scope's turns name, by first mention; of turns not indexed yet by dictionary.

        `searched`: see `Searcher.searched`, of this thread or all of its user's, where that was read already.
        """
        if searched is None or len(searched[0]) >= UNINDEXED_LIMIT:  # the thread's may be behind these
            # In this order, as in a search: a turn that is indexed in between is then seen twice, and not never.
            unindexed = await self._store.owed_turns(scope, "index", limit=UNINDEXED_LIMIT, newest=True)
            searched = unindexed, await self._residents.get(scope.user_id)
        unindexed, index = searched
        here = (turn for turn in unindexed if scope.thread_id in (None, turn.thread_id))
        named = [(turn, found) for turn in here if (found := self._spotter.of_unindexed(turn))]
        tally = EntityTally()
        if index is not None:
            tally.merge(index.entity_counts(scope.thread_id))
            indexed = {turn.id for turn, _ in named if index.has(turn.id)}
        else:
            counts, indexed = await self._counted_by_store(scope, [turn.id for turn, _ in named])
            tally.merge(counts)
        for turn, found in named:
            if turn.id not in indexed:
                tally.add(turn.id, turn.timestamp, found)
        return tally.counts()

    async def _counted_by_store(
        self, scope: Scope, turn_ids: Sequence[str]
    ) -> tuple[list[EntityCount], set[str]]:
        """The counts of a user too large to keep in memory, and which of these turns are among them."""
        counts: list[EntityCount] = []
        indexed: set[str] = set()
        for _ in range(_COUNTINGS):
            head = await self._store.index_head(scope.user_id)
            counts = await self._store.entity_counts(scope)
            rows = await self._store.search_rows(scope.user_id, ids=turn_ids) if turn_ids else []
            indexed = {row.turn_id for row in rows if not row.erased}
            # A turn that was indexed after the counting, and before its row was looked for, would be in neither.
            if not turn_ids or await self._store.index_head(scope.user_id) == head:
                break
        return counts, indexed
