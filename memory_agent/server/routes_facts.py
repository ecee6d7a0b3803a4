"""Facts: read, as of a time, with their history; set, retracted, reverted."""

from operator import attrgetter
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from memory_agent.checks import MAX_ID_CHARS
from memory_agent.server.dependencies import (
    THREAD,
    Cursor,
    IdempotencyKey,
    Limit,
    Memory,
    Reach,
    TimeQuery,
    WritableMemory,
    answer,
)
from memory_agent.server.openapi import operation_id
from memory_agent.wire import requests
from memory_agent.wire.encoding import json_of
from memory_agent.wire.facts import FactRecord, Facts
from memory_agent.wire.pages import Page, page_of

router = APIRouter(tags=["facts"], generate_unique_id_function=operation_id)
FACTS = f"{THREAD}/facts"
About = Annotated[str | None, Query(min_length=1, max_length=MAX_ID_CHARS)]


@router.get(FACTS, response_model=Facts)
async def fetch_facts(
    memory: Memory,
    scope: Reach = None,
    as_of: TimeQuery = None,
    recorded_by: TimeQuery = None,
    about: About = None,
) -> Response:
    """The facts as one document: of all the user's threads or of this one, now or as of a time. Where facts of several
    speakers are known it is keyed by their names; `about` gives one person's."""
    found = await memory.fetch_facts(scope=scope, as_of=as_of, recorded_by=recorded_by, about=about)
    return answer(Facts.of(found))


@router.get(f"{FACTS}/history", response_model=Page[FactRecord])
async def fact_history(
    memory: Memory,
    path: Annotated[str | None, Query(min_length=1, max_length=2_000)] = None,
    scope: Reach = None,
    as_of: TimeQuery = None,
    recorded_by: TimeQuery = None,
    about: About = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Every event at, above or below the path, oldest first, with sources and with what replaced it."""
    times: Any = {"as_of": as_of, "recorded_by": recorded_by}
    records = await memory.fact_history(path, scope=scope, about=about, **times)
    key = attrgetter("thread_id", "id")
    return answer(page_of(FactRecord.of, records, key=key, cursor=cursor, limit=limit))


@router.put(FACTS, response_model=FactRecord)
async def set_fact(memory: WritableMemory, body: requests.SetFact, key: IdempotencyKey = None) -> Response:
    """Say what holds: the value stands at the path, whatever stood there."""
    record = await memory.set_fact(body.path, body.value, about=body.about, idempotency_key=key)
    return answer(json_of(FactRecord, record))


@router.post(f"{FACTS}/add", response_model=FactRecord)
async def add_fact(memory: WritableMemory, body: requests.AddFact, key: IdempotencyKey = None) -> Response:
    """Say that the value is one more element of the list at the path."""
    record = await memory.add_fact(body.path, body.value, about=body.about, idempotency_key=key)
    return answer(json_of(FactRecord, record))


@router.post(f"{FACTS}/retract", response_model=FactRecord)
async def retract_fact(
    memory: WritableMemory, body: requests.RetractFact, key: IdempotencyKey = None
) -> Response:
    """Say that what is known at the path holds no more; its history stays."""
    record = await memory.retract_fact(body.path, body.value, about=body.about, idempotency_key=key)
    return answer(json_of(FactRecord, record))


@router.post(f"{FACTS}/revert", response_model=FactRecord)
async def revert_fact(
    memory: WritableMemory, body: requests.RevertFact, key: IdempotencyKey = None
) -> Response:
    """Make the path what it was after an event or at a time; by default, before its last event."""
    record = await memory.revert_fact(body.path, body.moment(), about=body.about, idempotency_key=key)
    return answer(json_of(FactRecord, record))
