"""Search rows in MongoDB: replaced by turn id under a rising `index_seq`, loaded whole at a user's first search.

Of large users each row holds its terms a second time, as an array that is indexed; entities are a range of that.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from bson.int64 import Int64
from pymongo import ReplaceOne, UpdateOne
from pymongo.errors import BulkWriteError

from memory_agent.concurrency import Tries, overtaken, together
from memory_agent.domain import Entity, EntityCount, Scope, TermCandidates, VectorFill
from memory_agent.stores.codec import (
    PAGE_ROWS,
    Nearest,
    chunks,
    latest_rows,
    milliseconds,
    pack_entities,
    unpack_terms,
)
from memory_agent.stores.mongo.connection import (
    INDEX_SEQ_KEYS,
    MongoConnection,
    bounded,
    read_all,
    violated_keys,
)
from memory_agent.stores.mongo.documents import one_of, row_document, scope_filter, search_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.domain import SearchRow, Similar
    from memory_agent.domain.base import Tenant
    from memory_agent.stores.mongo.connection import Collection, Document

_WRITTEN_AT_ONCE: Final = 500
_READ_AT_ONCE: Final = 1_000
_SAMPLED_ROWS: Final = 200
_ENTITIES: Final = {"$gte": "@", "$lt": "A"}
"""All terms that begin with "@", and no others."""
_NOT_LOADED: Final = {"tokens": 0, "words": 0}


class MongoRows(MongoConnection):
    """The search rows of a MongoStore."""

    async def put_search_rows(self, user_id: str, rows: Sequence[SearchRow], *, now: datetime) -> None:
        await self._write_rows(user_id, list(map(row_document, latest_rows(user_id, rows))), now=now)

    async def _write_rows(self, user_id: str, documents: list[Document], *, now: datetime) -> None:
        async with self._sequences.lock(("search_rows", user_id)):
            for chunk in chunks(documents, _WRITTEN_AT_ONCE):
                await self._write_chunk(user_id, chunk, now=now)

    @bounded
    async def _write_chunk(self, user_id: str, documents: Sequence[Document], *, now: datetime) -> None:
        """Write rows above the head, and again if somebody wrote still higher ones without knowing of ours.

        Such rows may have been seen before ours were there, and their reader will not look below them again.
        Each row says by `after` which head its writer knew, so that they can be told from later ones.
        """
        async for _ in Tries():
            head = await self.index_head(user_id)
            first = max(head + 1, milliseconds(now))
            for index_seq, document in enumerate(documents, start=first):
                document |= {"index_seq": index_seq, "after": head}
            replacements = [
                ReplaceOne({"_id": document["_id"], "user_id": user_id}, document, upsert=True)
                for document in documents
            ]
            try:
                await self._rows.bulk_write(replacements, ordered=True)
            except BulkWriteError as exc:
                if violated_keys(exc) != INDEX_SEQ_KEYS:
                    raise
            else:
                if not await self._written_unaware_of(user_id, first + len(documents) - 1):
                    return
        raise overtaken("the user's next index numbers")

    async def _written_unaware_of(self, user_id: str, index_seq: int) -> bool:
        above = {"user_id": user_id, "index_seq": {"$gt": index_seq}, "after": {"$lt": index_seq}}
        return await self._rows.find_one(above, {"_id": 1}) is not None

    async def search_rows(
        self, user_id: str, *, ids: Sequence[str] | None = None, after: int = 0, limit: int | None = None
    ) -> list[SearchRow]:
        if limit is not None and limit <= 0:
            return []
        query: Document = {"user_id": user_id, "index_seq": {"$gt": after}}
        if ids is not None:
            query |= one_of(ids)
        rows: list[SearchRow] = []
        cursor = (
            self._rows.find(query, _NOT_LOADED)
            .sort("index_seq", 1)
            .limit(limit or 0)
            .batch_size(_READ_AT_ONCE)
        )
        while True:
            # Page by page: the time limit is for each, and the event loop gets its turn between two.
            page = await self._bounded(cursor.to_list(_READ_AT_ONCE))
            rows += map(search_row, page)
            if len(page) < _READ_AT_ONCE:
                return rows

    @bounded
    async def token_codes(self, user_id: str, ids: Sequence[str], *, embedder: str) -> dict[str, bytes]:
        asked = {"user_id": user_id, "embedder": embedder, "tokens": {"$exists": True}, **one_of(ids)}
        found = await read_all(self._rows.find(asked, {"tokens": 1}))
        return {row["_id"]: bytes(row["tokens"]) for row in found}

    @bounded
    async def index_head(self, user_id: str) -> int:
        newest = await self._rows.find_one(
            {"user_id": user_id}, {"index_seq": 1, "_id": 0}, sort=[("index_seq", -1)]
        )
        return newest["index_seq"] if newest else 0

    @bounded
    async def count_rows(self, user_id: str, *, limit: int) -> int:
        return await self._rows.count_documents({"user_id": user_id}, limit=limit) if limit > 0 else 0

    @bounded
    async def rows_by_others(self, embedder: str) -> int:
        # Stubs of erased rows are nobody's: "".
        others = ({"$gt": "", "$lt": embedder}, {"$gt": embedder})
        return sum(await together(*(self._rows.count_documents({"embedder": each}) for each in others)))

    async def index_terms(self, user_id: str, turn_ids: Sequence[str]) -> None:
        await self.set_candidates_through(user_id, 0)
        for chunk in chunks(turn_ids, _WRITTEN_AT_ONCE):
            await self._index_terms(user_id, chunk)

    @bounded
    async def _index_terms(self, user_id: str, turn_ids: Sequence[str]) -> None:
        rows = self._rows.find({"user_id": user_id, **one_of(turn_ids)}, {"terms": 1, "index_seq": 1})
        updates = [
            # Unless it was replaced meanwhile; then whoever did so comes with its terms.
            UpdateOne(
                {"_id": row["_id"], "user_id": user_id, "index_seq": row["index_seq"]},
                {"$set": {"words": list(unpack_terms(row["terms"]))}},
            )
            for row in await read_all(rows)
            if row["terms"]
        ]
        if updates:
            await self._rows.bulk_write(updates, ordered=False)

    @bounded
    async def candidates_through(self, user_id: str) -> int | None:
        found = await self._large_users.find_one({"user_id": user_id}, {"through": 1})
        return None if found is None else found["through"]

    @bounded
    async def set_candidates_through(self, user_id: str, index_seq: int) -> None:
        raised = {"$max": {"through": Int64(index_seq)}}
        await self._large_users.update_one({"user_id": user_id}, raised, upsert=True)

    async def want_vectors(self, user_ids: Sequence[str] | None, *, anew: bool = False) -> None:
        if user_ids is None:
            of_rows, noted = await together(self._users_of(self._rows), self._users_of(self._vector_fills))
            user_ids = sorted(of_rows - noted)
        start = {"place": "", "through": Int64(0)}
        update = {"$inc": {"marks": 1}, "$set": {"pending": True, **(start if anew else {})}}
        update |= {} if anew else {"$setOnInsert": start}
        for chunk in chunks(user_ids, _WRITTEN_AT_ONCE):
            marks = [UpdateOne({"user_id": user_id}, update, upsert=True) for user_id in chunk]
            await self._bounded(self._vector_fills.bulk_write(marks, ordered=False))

    @bounded
    async def vector_fills(
        self,
        user_ids: Sequence[str] | None = None,
        *,
        pending: bool = False,
        after: str = "",
        limit: int,
    ) -> list[VectorFill]:
        if limit <= 0:
            return []
        users: Document = {"$gt": after, **({} if user_ids is None else {"$in": list(user_ids)})}
        query = {"user_id": users, **({"pending": True} if pending else {})}
        found = self._vector_fills.find(query, {"_id": 0}).sort("user_id", 1).limit(limit)
        return [VectorFill(**note) for note in await read_all(found)]

    async def _users_of(self, collection: Collection) -> set[str]:
        # By the index alone, user by user.
        users = collection.aggregate([{"$sort": {"user_id": 1}}, {"$group": {"_id": "$user_id"}}])
        return {user["_id"] for user in await self._bounded(read_all(users))}

    @bounded
    async def note_filled(self, before: VectorFill, *, place: str, through: int, pending: bool) -> None:
        at = {"user_id": before.user_id, "place": before.place, "through": before.through}
        still = {"$or": [pending, {"$ne": ["$marks", before.marks]}]}
        noted = {"place": {"$literal": place}, "through": Int64(through), "pending": still}
        await self._vector_fills.update_one(at, [{"$set": noted}])

    @bounded
    async def vectors_missing(self, scope: Scope | Tenant | None) -> int:
        user, thread = scope, {}
        if isinstance(scope, Scope):
            user, thread = scope.user, scope_filter(scope)
            del thread["user_id"]
        beyond = {"$and": [{"$eq": ["$user_id", "$$user"]}, {"$gt": ["$index_seq", "$$through"]}]}
        rows = [{"$match": {"$expr": beyond, **thread}}, {"$count": "rows"}]
        of_user = {"from": "search_rows", "let": {"user": "$user_id", "through": "$through"}}
        counts = self._vector_fills.aggregate(
            [
                {"$match": {**scope_filter(user), "pending": True}},
                {"$lookup": {**of_user, "pipeline": rows, "as": "found"}},
                {"$group": {"_id": None, "rows": {"$sum": {"$sum": "$found.rows"}}}},
            ]
        )
        return sum([group["rows"] for group in await read_all(counts)])

    @bounded
    async def term_candidates(self, scope: Scope, terms: Sequence[str], *, limit: int) -> TermCandidates:
        distinct = list(dict.fromkeys(terms))
        (rows, mean_length), found = await together(
            together(self._row_count(scope.user_id), self._mean_length(scope.user_id)),
            together(*(self._rows_with(scope, term, limit) for term in distinct)),
        )
        frequency = {term: count for term, (count, _) in zip(distinct, found, strict=True)}
        turn_ids = {turn_id for _, ids in found for turn_id in ids}
        return TermCandidates(
            rows=rows, mean_length=mean_length, frequency=frequency, turn_ids=tuple(sorted(turn_ids))
        )

    @bounded
    @bounded
    async def name_entities(self, user_id: str, entities: Mapping[str, Sequence[Entity]]) -> None:
        given = {"$ifNull": ["$given_entities", {"$ifNull": ["$entities", []]}]}
        operations = [
            UpdateOne(
                {"_id": turn_id, "user_id": user_id, "gone_at": None},
                [{"$set": {"given_entities": given, "entities": {"$literal": pack_entities(named)}}}],
            )
            for turn_id, named in entities.items()
        ]
        if operations:
            await self._turns.bulk_write(operations, ordered=False)

    async def entity_counts(self, scope: Scope) -> list[EntityCount]:
        groups = await read_all(self._rows.aggregate(_by_term(scope)))
        groups.sort(
            key=lambda group: (group["first"]["at"], group["first"]["turn_id"], group["first"]["place"])
        )
        return [
            EntityCount(
                entity=entity,
                count=group["count"],
                first_turn_id=group["first"]["turn_id"],
                last_turn_id=group["last"]["turn_id"],
                first_at=group["first"]["at"],
                last_at=group["last"]["at"],
            )
            for group in groups
            if (entity := Entity.from_term(group["_id"])) is not None
        ]

    async def nearest_turns(
        self, scope: Scope, vector: NDArray[np.float32], *, embedder: str, limit: int
    ) -> list[Similar]:
        nearest = Nearest(vector, limit=max(limit, 0))
        query = {**scope_filter(scope), "embedder": embedder, "passages": {"$gt": 0}, "erased": None}
        cursor = self._rows.find(query, {"vectors": 1, "passages": 1}).sort("index_seq", 1)
        cursor = cursor.batch_size(PAGE_ROWS)
        while limit > 0:
            page = await self._bounded(cursor.to_list(PAGE_ROWS))
            rows = [(row["_id"], row["vectors"], row["passages"]) for row in page]
            await asyncio.to_thread(nearest.take, rows)
            if len(page) < PAGE_ROWS:
                break
        return nearest.found(str)

    async def _row_count(self, user_id: str) -> int:
        every = await self._rows.count_documents({"user_id": user_id})
        return every - await self._rows.count_documents({"user_id": user_id, "erased": True})

    async def _mean_length(self, user_id: str) -> float:
        recent = self._rows.find({"user_id": user_id, "erased": None}, {"length": 1, "_id": 0})
        lengths = [row["length"] for row in await read_all(recent.sort("index_seq", -1).limit(_SAMPLED_ROWS))]
        return sum(lengths) / len(lengths) if lengths else 0.0

    async def _rows_with(self, scope: Scope, term: str, limit: int) -> tuple[int, list[str]]:
        """In how many rows of the user the term occurs, and the scope's newest turns among them."""
        frequency = await self._rows.count_documents({"user_id": scope.user_id, "words": term})
        if not frequency or limit <= 0:
            return frequency, []
        query = {**scope_filter(scope), "words": term}
        newest = await read_all(self._rows.find(query, {"_id": 1}).sort("_id", -1).limit(limit))
        return frequency, [row["_id"] for row in newest]


def _by_term(scope: Scope) -> list[dict[str, Any]]:
    """For each term of an entity: in how many rows it is, with the first and the last mention."""
    named = {"$and": [{"$gte": ["$$term", _ENTITIES["$gte"]]}, {"$lt": ["$$term", _ENTITIES["$lt"]]}]}
    words = {"$filter": {"input": "$words", "as": "term", "cond": named}}
    # Compared field by field, in this order.
    mention = {"at": "$timestamp", "turn_id": "$_id", "place": "$place"}
    counted = {"count": {"$sum": 1}, "first": {"$min": mention}, "last": {"$max": mention}}
    return [
        # One element has to be in the range, or the server could search by one of its ends only; and it takes an index
        # of those that have the field for a search of those that have it.
        {"$match": {**scope_filter(scope), "words": {"$exists": True, "$elemMatch": _ENTITIES}}},
        {"$project": {"timestamp": 1, "words": words}},
        {"$unwind": {"path": "$words", "includeArrayIndex": "place"}},
        {"$group": {"_id": "$words", **counted}},
    ]
