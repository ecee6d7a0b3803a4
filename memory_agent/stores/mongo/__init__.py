"""The document store on MongoDB: standalone, replica set, or a cluster sharded by `user_id`; no transactions."""

from __future__ import annotations

from memory_agent.stores.mongo.copies import MongoCopies
from memory_agent.stores.mongo.events import MongoEvents
from memory_agent.stores.mongo.forgetting import MongoForgetting
from memory_agent.stores.mongo.meta import MongoMeta
from memory_agent.stores.mongo.turns import MongoPeople, MongoWork

__all__ = ["MongoStore"]


class MongoStore(
    MongoCopies,
    MongoWork,
    MongoPeople,
    MongoForgetting,
    MongoEvents,
    MongoMeta,
):
    """`DocumentStore` on MongoDB.

    `client_or_uri`: a connection string (the client is then made by `open` and closed by `close`), or a client
    that the application holds already, PyMongo's AsyncMongoClient or Motor's AsyncIOMotorClient, which is never
    closed here. Its own read and write options don't apply: writes are journaled by a majority, reads come from
    the primary, times are UTC. `timeout_seconds` bounds each call. A `watch` keeps one connection of the client busy,
    with Motor also one of its threads (five for each core), of which all its calls have need.
    """
