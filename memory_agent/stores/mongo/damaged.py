"""Documents of a MongoDB store that cannot be read: found one by one, and taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_agent.domain import DamagedRecord
from memory_agent.errors import StoreError
from memory_agent.stores.codec import thread_of
from memory_agent.stores.damage import DAMAGED
from memory_agent.stores.fields import CHANGE, COMPRESSION, SESSION, TOPIC, TURN
from memory_agent.stores.mongo.documents import facts_document, one_of, scope_filter, search_row
from memory_agent.stores.mongo.facts import MongoFacts
from memory_agent.stores.mongo.turns import MongoTurns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memory_agent.domain import Scope
    from memory_agent.stores.mongo.connection import Collection, Document

_READ_AT_ONCE: Final = 1_000


class MongoDamaged(MongoTurns, MongoFacts):
    """The damaged records of a MongoStore."""

    def _readers(self) -> list[tuple[Collection, str, Callable[[Document], object]]]:
        """Of each collection the field of its id, and how its documents are read."""
        return [
            (self._turns, "_id", lambda turn: TURN.get({"content": "", **turn})),
            (self._rows, "_id", search_row),
            (self._topics, "topic_id", TOPIC.get),
            (self._sessions, "session_id", SESSION.get),
            (self._compressions, "id", COMPRESSION.get),
            (self._fact_events, "key", CHANGE.get),
            (self._facts, "thread_id", facts_document),
        ]

    async def damaged_records(self, scope: Scope) -> list[DamagedRecord]:
        thread_of(scope)
        found: list[DamagedRecord] = []
        for collection, of, read in self._readers():
            cursor = collection.find({**scope_filter(scope), "gone_at": None}).batch_size(_READ_AT_ONCE)
            while page := await self._bounded(cursor.to_list(_READ_AT_ONCE)):
                for document in page:
                    try:
                        read(document)
                    except (StoreError, *DAMAGED) as exc:
                        turn_of = {self._rows.name: "_id", self._fact_events.name: "turn_id"}
                        found.append(
                            DamagedRecord(
                                table=collection.name,
                                key=document["_id"],
                                of=str(document.get(of)),
                                error=str(exc.__cause__ or exc),
                                turn_id=document.get(turn_of.get(collection.name, "")),
                            )
                        )
        return found

    async def drop_damaged(self, scope: Scope, records: Sequence[DamagedRecord]) -> None:
        thread_id = thread_of(scope)
        for collection, _, _ in self._readers():
            keys = [record.key for record in records if record.table == collection.name]
            if not keys or collection.name == self._turns.name:
                continue
            if collection.name == self._facts.name:
                await self._reset_facts(scope.user_id, [thread_id])
            elif collection.name == self._fact_events.name:
                await self._delete_changes(scope.user_id, {"thread_id": thread_id, **one_of(keys)})
            else:
                await self._bounded(collection.delete_many({**scope_filter(scope), **one_of(keys)}))
