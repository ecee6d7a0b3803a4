"""Metadata of a MongoDB store and its schema; API keys; and what is left of forgotten turns.

A document gets another id by being written under it, before the first goes; whoever looks meanwhile asks for the first and then for the other.
"""

from __future__ import annotations

import contextlib
import math
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

from memory_agent.domain import FactsDocument, SchemaState, Scope
from memory_agent.domain.work import HASHING, Hasher, is_of_remains, new_secret
from memory_agent.errors import StoreError
from memory_agent.stores.codec import SEQ_HELD, SEQ_TRUST_SECONDS, thread_of
from memory_agent.stores.fields import API_KEY, NEWEST, OLDEST, check_version
from memory_agent.stores.mongo.connection import (
    KEY_INDEXES,
    MongoConnection,
    bounded,
    driver_errors,
    read_all,
    united,
)
from memory_agent.stores.mongo.documents import facts_fields, from_bson, scope_filter, to_bson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pymongo.asynchronous.database import AsyncDatabase

    from memory_agent.domain import ApiKey
    from memory_agent.stores.mongo.connection import Collection, Document


_SCHEMA: Final = "schema"
"""Name of the mark. Version 0.1.0 put none."""
_AFTER: Final = "after"
"""In the mark, until an upgrade is through: the last user whose documents were brought into the new form."""
_USERS_AT_ONCE: Final = 20
_INDEX_NOT_FOUND: Final = 27

# What earlier schemas have and this one has no more. Collections, names in `meta` and indexes (by their names) are
# dropped when the store is opened, fields in the background, user by user.
DROPPED_COLLECTIONS: Final[tuple[str, ...]] = ("vector_pointers",)
DROPPED_META: Final[tuple[str, ...]] = (
    "embedder migration",
    "embedder migration progress",
    "vector index lost",
)
DROPPED_INDEXES: Final[Mapping[str, tuple[str, ...]]] = {"search_rows": ("user_id_1_thread_id_1_seq_1",)}
DROPPED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {"search_rows": ("next",), "facts": ("at",)}


class MongoMeta(MongoConnection):
    """The metadata of a MongoStore."""

    def __init__(self, client_or_uri: object, db_name: str, *, timeout_seconds: float) -> None:
        super().__init__(client_or_uri, db_name, timeout_seconds=timeout_seconds)
        self._upgraded = False

    @bounded
    async def get_meta(self, name: str) -> dict[str, Any] | None:
        found = await self._meta.find_one({"_id": name})
        value: dict[str, Any] | None = None if found is None else from_bson(found["value"])
        return value

    @bounded
    async def put_meta(self, name: str, value: dict[str, Any], *, only_new: bool = False) -> bool:
        document = {"_id": name, "value": to_bson(value)}
        try:
            if only_new:
                await self._meta.insert_one(document)
            else:
                await self._meta.replace_one({"_id": name}, document, upsert=True)
        except DuplicateKeyError:
            # Two that put a new name at once: the other has put it by now.
            return False if only_new else await self.put_meta(name, value)
        return True

    async def check_files(self) -> list[str]:
        return []

    async def stored_users(self, *, after: str = "", limit: int) -> list[str]:
        found: list[str] = []
        while len(found) < limit:
            firsts = [
                await self._bounded(
                    each.find_one({"user_id": {"$gt": after}}, {"user_id": 1}, sort=[("user_id", 1)])
                )
                for each in self._keeping()
            ]
            ids = [first["user_id"] for first in firsts if first]
            if not ids:
                break
            after = min(ids)
            found.append(after)
        return found

    def _keeping(self) -> list[Collection]:
        """The collections of what makes a thread one, remains included: forgotten turns leave their documents."""
        return [self._turns, self._sessions, self._fact_events, self._spent_keys, self._facts]

    @bounded
    async def schema(self) -> SchemaState:
        mark = await self.get_meta(_SCHEMA) or {}
        left = 0
        if _AFTER in mark:
            users: list[Document] = [
                {"$match": {"user_id": {"$gt": mark[_AFTER]}}},
                {"$group": {"_id": "$user_id"}},
            ]
            of_each = await united(*((each, *users) for each in self._keeping()))
            left = len({user["_id"] for found in of_each for user in found})
        return SchemaState(version=NEWEST, left=left)

    async def upgrade_some(self) -> bool:
        if self._upgraded:
            return False
        mark = await self.get_meta(_SCHEMA) or {}
        if _AFTER not in mark:
            self._upgraded = True
            return False
        users = await self.stored_users(after=mark[_AFTER], limit=_USERS_AT_ONCE)
        for user_id in users:
            await self._upgrade_user(user_id)
        await self.put_meta(_SCHEMA, {"version": NEWEST, **({_AFTER: users[-1]} if users else {})})
        return True

    @bounded
    async def _upgrade_user(self, user_id: str) -> None:
        """Bring the user's documents into this schema's form. A user may come twice."""
        for name, fields in DROPPED_FIELDS.items():
            there: Document = {"$or": [{field: {"$exists": True}} for field in fields]}
            gone: Document = {"$unset": dict.fromkeys(fields, "")}
            await self._collection(name).update_many({"user_id": user_id, **there}, gone)
        await self._upgrade_facts(user_id)

    async def _upgrade_facts(self, user_id: str) -> None:
        """Before schema 14 the facts were a list, one document a person."""
        times = {"created_at": {"$min": "$recorded_at"}, "updated_at": {"$max": "$recorded_at"}}
        for found in await read_all(self._facts.find({"user_id": user_id, "facts": {"$type": "array"}})):
            people = dict(zip(found["people"], from_bson(found["facts"]), strict=True))
            events: list[Document] = [
                {"$match": {"user_id": user_id, "thread_id": found["thread_id"]}},
                {"$group": {"_id": None, **times}},
            ]
            [of_all] = await read_all(self._fact_events.aggregate(events)) or [{}]
            document = FactsDocument(
                people=people, through=found["through"], **{name: of_all.get(name) for name in times}
            )
            # Whoever saved it meanwhile has made another revision.
            same = {"_id": found["_id"], "revision": found["revision"]}
            await self._facts.update_one(same, {"$set": facts_fields(document)})

    async def _check_schema(self, database: AsyncDatabase[Document]) -> None:
        """Upgrade what is of an earlier version: what takes no time here, the rest by `upgrade_some`.

        Each step can be repeated, and the mark comes last, so that the next process does again what one that was
        killed, or others at the same time, may have done.
        """
        with driver_errors(self._timeout_seconds):
            found = await database["meta"].find_one({"_id": _SCHEMA})
            version = await _unmarked(database) if found is None else from_bson(found["value"])["version"]
            check_version(version, f"the database {database.name!r}")
            if found is not None and version == NEWEST:
                return
            mark: Document = {"version": NEWEST}
            if version < NEWEST:
                mark[_AFTER] = ""
                for name, indexes in DROPPED_INDEXES.items():
                    for index in set(indexes).intersection(await database[name].index_information()):
                        await _drop_index(database[name], index)
                for name in DROPPED_COLLECTIONS:
                    await database.drop_collection(name)
                await database["meta"].delete_many({"_id": {"$in": list(DROPPED_META)}})
            earlier = {"_id": _SCHEMA, "value.version": {"$lt": NEWEST}}
            with contextlib.suppress(DuplicateKeyError):  # another one has marked it meanwhile
                await database["meta"].replace_one(earlier, {"value": to_bson(mark)}, upsert=True)


async def _drop_index(collection: Collection, index: str) -> None:
    try:
        await collection.drop_index(index)
    except OperationFailure as exc:
        if exc.code != _INDEX_NOT_FOUND:  # another one that opens the store was quicker
            raise


async def _unmarked(database: AsyncDatabase[Document]) -> int:
    """The version of a database without a mark."""
    row = await database["search_rows"].find_one({}, {"terms": 1})
    if row is not None and not isinstance(row.get("terms"), str):
        return OLDEST - 1
    return NEWEST if await database["turns"].find_one({}, {"_id": 1}) is None else OLDEST


class MongoKeys(MongoConnection):
    """`KeyStore` on MongoDB, with the arguments and the guarantees of a MongoStore, on a connection of its own.

    Keys are found by `_id`, which every server of any kind keeps unique.
    """

    _indexes = KEY_INDEXES

    @bounded
    async def put(self, key: ApiKey) -> None:
        try:
            await self._keys.insert_one(API_KEY.document(key))
        except DuplicateKeyError as exc:
            raise StoreError(f"there is an API key {key.id!r:.80} already; make another one") from exc

    @bounded
    async def find(self, key_id: str) -> ApiKey | None:
        document = await self._keys.find_one({"_id": key_id})
        return None if document is None else API_KEY.get(document)

    @bounded
    async def list(self, tenant: str | None = None) -> Sequence[ApiKey]:
        where: Document = {} if tenant is None else {"tenant": tenant}
        found = await read_all(self._keys.find(where).sort([("created_at", 1), ("_id", 1)]))
        return list(map(API_KEY.get, found))

    @bounded
    async def revoke(self, key_id: str, at: datetime) -> bool:
        # One update, so that of two who revoke at once the first one's time stays.
        first: list[dict[str, Any]] = [{"$set": {"revoked_at": {"$ifNull": ["$revoked_at", at]}}}]
        return bool((await self._keys.update_one({"_id": key_id}, first)).matched_count)


_DUPLICATE: Final = 11_000
_REMEMBERED_THREADS: Final = 20_000
_CALL: Final = ("seq", "gone_at", "idempotency_key", "call_index", "call_size")


class MongoRemains(MongoMeta):
    """The remains of a MongoStore's forgotten turns."""

    def __init__(self, client_or_uri: object, db_name: str, *, timeout_seconds: float) -> None:
        super().__init__(client_or_uri, db_name, timeout_seconds=timeout_seconds)
        self._known_hasher: Hasher | None = None
        self._left: dict[Scope, tuple[bool, float]] = {}

    async def _hasher(self) -> Hasher | None:
        """The store's; None if it has no secret yet, and so nothing under hashes."""
        if self._known_hasher is None and (found := await self.get_meta(HASHING)) is not None:
            self._known_hasher = Hasher.of(found)
        return self._known_hasher

    async def _of_remains(self, scope: Scope) -> list[Document]:
        """Filters of what the scope left: under its ids, then under hashes."""
        hasher = await self._hasher()
        hashed = [] if hasher is None else [scope_filter(hasher.remains(scope))]
        return [scope_filter(scope), *hashed]

    async def _has_left(self, scope: Scope, places: Sequence[Document] | None = None) -> bool:
        """True if turns of a keyed call were forgotten in the thread (at these `places`), as of the last SEQ_TRUST_SECONDS.

        That is soon enough: such remains are older than SEQ_HELD when they go under hashes, where no unique index meets a repeat.
        """
        left, known_at = self._left.get(scope, (False, -math.inf))
        if time.monotonic() - known_at >= SEQ_TRUST_SECONDS:
            known_at = time.monotonic()
            keyed = {"gone_at": {"$exists": True}, "idempotency_key": {"$type": "string"}}
            places = await self._of_remains(scope) if places is None else places
            left = any([await self._turns.find_one({**where, **keyed}, {"_id": 1}) for where in places])
            if len(self._left) >= _REMEMBERED_THREADS:
                self._left.clear()
            self._left[scope] = (left, known_at)
        return left

    async def _last_seq(self, scope: Scope) -> int:
        """The last `seq` of the thread's turns, those that are gone included; 0 without any."""
        return await self._highest(await self._of_remains(scope))

    async def _last_hashed(self, scope: Scope) -> int:
        """The last `seq` of those that are under hashes."""
        return await self._highest((await self._of_remains(scope))[1:])

    async def _highest(self, places: Sequence[Document]) -> int:
        last = 0
        for where in places:
            newest = await self._turns.find_one(where, {"seq": 1, "_id": 0}, sort=[("seq", -1)])
            last = max(last, newest["seq"] if newest else 0)
        return last

    @bounded
    async def _upgrade_user(self, user_id: str) -> None:
        """Version 0.1.0 kept the remains under ids."""
        await super()._upgrade_user(user_id)
        if not is_of_remains(user_id):
            await self._hash_remains(user_id, gone_before=datetime.now(UTC) - SEQ_HELD)

    async def _hash_remains(self, user_id: str, *, gone_before: datetime) -> None:
        """Put the user's remains under hashes: documents that were emptied before that time, and spent keys."""
        self._left.clear()
        old = {"gone_at": {"$lt": gone_before}, "erasing": None}
        await self.put_meta(HASHING, new_secret(), only_new=True)
        hasher = Hasher.of(await self.get_meta(HASHING) or {})
        for thread_id in await self._threads_with_gone_turns(user_id):
            thread = Scope(user_id=user_id, thread_id=thread_id)
            kept = hasher.remains(thread)
            place = {"user_id": kept.user_id, "thread_id": kept.thread_id}
            gone = await read_all(self._turns.find({**scope_filter(thread), **old}))
            if not gone:
                continue
            highest = max(turn["seq"] for turn in gone)
            left = [turn for turn in gone if "idempotency_key" in turn or turn["seq"] == highest]
            hashed = [
                {
                    "_id": hasher.gone(turn["_id"]),
                    **place,
                    **{name: turn[name] for name in _CALL if name in turn},
                }
                for turn in left
            ]
            await self._insert_missing(self._turns, hashed)
            ids = [turn["_id"] for turn in gone]
            await self._turns.delete_many({**scope_filter(thread), "_id": {"$in": ids}})
            await self._turns.delete_many({**place, "idempotency_key": None, "seq": {"$lt": highest}})
        spent = await read_all(self._spent_keys.find({"user_id": user_id}))
        moved = []
        for one in spent:
            kept = hasher.remains(Scope(user_id=user_id, thread_id=one["thread_id"]))
            place = {"user_id": kept.user_id, "thread_id": thread_of(kept)}
            moved.append({**one, "_id": hasher.turn(str(one["_id"])), **place, "id": hasher.gone(one["id"])})
        await self._insert_missing(self._spent_keys, moved)
        ids = [one["_id"] for one in spent]
        await self._spent_keys.delete_many({"user_id": user_id, "_id": {"$in": ids}})

    async def _insert_missing(self, collection: Collection, documents: Sequence[Document]) -> set[int]:
        """Insert the documents, but those of which something has the id or a unique key; the places of those."""
        if not documents:
            return set()
        try:
            await collection.insert_many(documents, ordered=False)
        except BulkWriteError as exc:
            errors = exc.details["writeErrors"]
            if any(error["code"] != _DUPLICATE for error in errors):
                raise
            return {error["index"] for error in errors}
        return set()

    async def _threads_with_gone_turns(self, user_id: str) -> list[str]:
        gone = {"user_id": user_id, "gone_at": {"$exists": True}}
        return list(await self._turns.distinct("thread_id", gone))
