"""Entities named by the search rows, in MongoDB: their terms are a range of the index of terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import Entity, EntityCount
from memory_agent.stores.mongo.connection import MongoConnection, bounded, read_all
from memory_agent.stores.mongo.documents import scope_filter

if TYPE_CHECKING:
    from memory_agent.domain import Scope
    from memory_agent.stores.mongo.connection import Document

_ENTITIES: Final = {"$gte": "@", "$lt": "A"}
"""All terms that begin with "@", and no others."""


class MongoEntities(MongoConnection):
    """The entities of a MongoStore."""

    @bounded
    async def entity_counts(self, scope: Scope) -> list[EntityCount]:
        groups = await read_all(self._rows.aggregate(_by_term(scope)))
        groups.sort(key=lambda group: (*_mention(group["first"]), group["first"]["place"]))
        return [count for group in groups if (count := _entity_count(group)) is not None]


def _by_term(scope: Scope) -> list[dict[str, Any]]:
    """For each term of an entity: in how many rows it is, with the first and the last mention."""
    named = {"$and": [{"$gte": ["$$term", _ENTITIES["$gte"]]}, {"$lt": ["$$term", _ENTITIES["$lt"]]}]}
    terms = {"$filter": {"input": "$terms", "as": "term", "cond": named}}
    # Compared field by field, in this order.
    mention = {"at": "$timestamp", "turn_id": "$_id", "place": "$place"}
    return [
        # One element has to be in the range, or the server could search by one of its ends only.
        {"$match": {**scope_filter(scope), "terms": {"$elemMatch": _ENTITIES}}},
        {"$project": {"timestamp": 1, "terms": terms}},
        {"$unwind": {"path": "$terms", "includeArrayIndex": "place"}},
        {
            "$group": {
                "_id": "$terms",
                "count": {"$sum": 1},
                "first": {"$min": mention},
                "last": {"$max": mention},
            }
        },
    ]


def _mention(found: Document) -> tuple[Any, str]:
    return found["at"], found["turn_id"]


def _entity_count(group: Document) -> EntityCount | None:
    entity = Entity.from_term(group["_id"])
    if entity is None:
        return None
    (first_at, first_turn_id), (last_at, last_turn_id) = _mention(group["first"]), _mention(group["last"])
    return EntityCount(
        entity=entity,
        count=group["count"],
        first_turn_id=first_turn_id,
        last_turn_id=last_turn_id,
        first_at=first_at,
        last_at=last_at,
    )
