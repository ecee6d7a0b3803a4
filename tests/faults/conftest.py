"""What the sweeps of kills share: processes without a model, and a database on either store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest

from tests.faults.nursery import Nursery
from tests.faults.topic_jobs import Database, Folder, Mongo
from tests.servers.mongod import Mongod


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Processes that are killed, one at a time."""
    started = Nursery()
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
