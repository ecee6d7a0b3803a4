"""What the sweeps of kills share: processes without a model, and a database on either store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pymongo
import pytest

from tests.faults.nursery import Nursery
from tests.faults.topic_jobs import Database, Folder, Mongo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.mongod import Mongod

LIBRARIES = (
    *("memory_agent.text.extractive_summary", "memory_agent.models.tokens"),
    *("memory_agent.conversations.compress", "brotli", "filelock", "snowballstemmer", "tomllib"),
)
"""What the package imports only once it is needed."""


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Processes without a model, one at a time."""
    started = Nursery(LIBRARIES)
    yield started
    started.close()


@pytest.fixture(params=["embedded", "server"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database on either store, with the module's SETTINGS."""
    if request.param == "embedded":
        made: Database = Folder(tmp_path)
        made.settings |= request.module.SETTINGS
        yield made
        return
    server: Mongod = request.getfixturevalue("mongod")
    with pymongo.MongoClient[Any](server.uri) as client:
        made = Mongo(tmp_path, server, request.getfixturevalue("db_name"), client)
        made.settings |= request.module.SETTINGS
        yield made


@pytest.fixture(scope="session")
def model_nursery() -> Iterator[Nursery]:
    """Processes with the real model and index, one at a time."""
    started = Nursery()
    yield started
    started.close()
