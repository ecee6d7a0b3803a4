"""Users and threads in MongoDB: read from indexes alone, by leaps from one id to the next."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import ThreadSummary, next_of_tenant, split_user_id, tenants_range
from memory_agent.stores.codec import chunks
from memory_agent.stores.mongo.connection import MongoConnection, bounded, read_all
from memory_agent.stores.mongo.indexes import CHANGE_KEYS, NUMBER_KEYS, STANDING_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memory_agent.domain import Scope
    from memory_agent.stores.mongo.connection import Collection, Document

_KEYS_READ: Final = 500
_USERS_AT_ONCE: Final = 50
_STANDING: Final[Document] = {"timestamp": {"$gte": datetime(1, 1, 1, tzinfo=UTC)}}
"""Turns that were not forgotten. A range, for MongoDB answers no `$exists` from an index alone."""
_THREAD: Final[Document] = {"user": "$user_id", "thread": "$thread_id"}


@dataclass(frozen=True, slots=True)
class _Walk:
    """From which id on, over the ids of what, and which of them are meant. `past`: the lowest text to go on from."""

    field: str
    of: Document
    start: str
    below: str | None
    is_meant: Callable[[str], bool]
    past: Callable[[str], str]

    def query(self, start: str) -> Document:
        return {**self.of, self.field: {"$gte": start} | ({"$lt": self.below} if self.below else {})}


class MongoPeople(MongoConnection):
    """The users and threads of a MongoStore."""

    async def user_ids(self, tenant: str, *, after: str = "", limit: int) -> list[str]:
        first, below = tenants_range(tenant)
        walk = _Walk(
            field="user_id",
            of={},
            start=max(first, f"{after}\0") if after else first,
            below=below,
            is_meant=lambda user_id: split_user_id(user_id)[0] == tenant,
            past=lambda user_id: next_of_tenant(tenant, user_id),
        )
        return await self._first_of(walk, limit)

    async def thread_ids(self, scope: Scope, *, after: str = "", limit: int) -> list[str]:
        walk = _Walk(
            field="thread_id",
            of={"user_id": scope.user_id},
            start=f"{after}\0" if after else "",
            below=None,
            is_meant=lambda _: True,
            past=lambda thread_id: f"{thread_id}\0",
        )
        return await self._first_of(walk, limit)

    async def _first_of(self, walk: _Walk, limit: int) -> list[str]:
        found = await asyncio.gather(*(self._walked(walk, *holder, limit) for holder in self._holders()))
        return sorted(set().union(*found))[: max(limit, 0)]

    def _holders(self) -> list[tuple[Collection, Document, Sequence[str]]]:
        """The collections that hold threads: a filter each, and the index to read it from."""
        return [
            (self._turns, _STANDING, STANDING_KEYS),
            (self._sessions, {}, NUMBER_KEYS),
            (self._fact_events, {}, CHANGE_KEYS),
        ]

    @bounded
    async def _walked(
        self, walk: _Walk, collection: Collection, where: Document, keys: Sequence[str], limit: int
    ) -> set[str]:
        """The first `limit` ids that are meant."""
        found: set[str] = set()
        start = walk.start
        order = [(key, 1) for key in keys]
        while len(found) < limit:
            # Small threads lie close together in the index, and a look brings many; a large one is left after one look.
            look = collection.find({**where, **walk.query(start)}, {walk.field: 1, "_id": 0})
            read = await read_all(look.sort(order).hint(order).limit(_KEYS_READ))
            ids = dict.fromkeys(key[walk.field] for key in read)
            found.update(filter(walk.is_meant, ids))
            if len(read) < _KEYS_READ:
                break
            start = walk.past(read[-1][walk.field])
        return set(sorted(found)[: max(limit, 0)])

    async def count_threads(
        self, user_ids: Sequence[str], *, thread_ids: Sequence[str] | None = None
    ) -> dict[str, list[ThreadSummary]]:
        threads: dict[str, list[ThreadSummary]] = {user_id: [] for user_id in user_ids}
        for users in chunks(list(threads), _USERS_AT_ONCE):
            of: Document = {"user_id": {"$in": list(users)}}
            if thread_ids is not None:
                of["thread_id"] = {"$in": list(thread_ids)}
            for user_id, summary in await self._summaries(of):
                threads[user_id].append(summary)
        return {
            user_id: sorted(found, key=lambda thread: thread.thread_id) for user_id, found in threads.items()
        }

    @bounded
    async def _summaries(self, of: Document) -> list[tuple[str, ThreadSummary]]:
        turns, *others = await asyncio.gather(
            *(self._grouped(collection, {**of, **where}, keys) for collection, where, keys in self._holders())
        )
        counts: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
        for group in (*turns, *(group for found in others for group in found)):
            counts[group["_id"]["user"], group["_id"]["thread"]] |= {"turns": 0, "last": None}
        for group in turns:
            counts[group["_id"]["user"], group["_id"]["thread"]] = group
        return [
            (user_id, ThreadSummary(thread_id=thread_id, turns=group["turns"], last_activity=group["last"]))
            for (user_id, thread_id), group in counts.items()
        ]

    async def _grouped(
        self, collection: Collection, where: Document, keys: Sequence[str]
    ) -> list[dict[str, Any]]:
        group: Document = {"_id": _THREAD}
        if collection.name == self._turns.name:
            group |= {"turns": {"$sum": 1}, "last": {"$last": "$timestamp"}}
        return await read_all(
            collection.aggregate(
                [{"$match": where}, {"$sort": dict.fromkeys(keys, 1)}, {"$group": group}],
                hint=dict.fromkeys(keys, 1),
            )
        )
