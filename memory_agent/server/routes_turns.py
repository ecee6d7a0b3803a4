"""Turns: remembered, listed, searched, and the topic of one."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from memory_agent.agent.agent import MANY_TURNS
from memory_agent.checks import MAX_CONTENT_CHARS, MAX_ID_CHARS, checked_text, checked_time
from memory_agent.errors import InvalidInput
from memory_agent.server.dependencies import (
    LONGEST_WAIT_SECONDS,
    MAX_PAGE,
    THREAD,
    Caller,
    Cursor,
    DirectRoute,
    IdempotencyKey,
    Limit,
    Memory,
    OpenApi,
    PathText,
    WritableMemory,
    answer,
    writable_memory_of,
)
from memory_agent.server.openapi import operation_id
from memory_agent.wire.base import Items
from memory_agent.wire.encoding import json_of, json_of_many
from memory_agent.wire.pages import Page
from memory_agent.wire.requests import AddTurn, AddTurns, Search, Update
from memory_agent.wire.topics import TopicStats
from memory_agent.wire.turns import HISTORY, Recollection, Turn, UpdateReceipt

router = APIRouter(tags=["turns"], route_class=DirectRoute, generate_unique_id_function=operation_id)
search = APIRouter(tags=["search"], generate_unique_id_function=operation_id)


@router.post(f"{THREAD}/update", status_code=201, response_model=UpdateReceipt)
async def update_memory(
    request: Request, user_id: PathText, thread_id: PathText, body: Update, key: IdempotencyKey = None
) -> Response:
    """Remember one exchange. Durable when this answers; search by meaning and facts follow in the background."""
    memory = writable_memory_of(request, user_id, thread_id)
    _check_exchange(body)
    receipt = await memory.update_memory(
        body.user_msg,
        body.assistant_msg,
        speaker=body.speaker,
        timestamp=body.timestamp,
        metadata=body.metadata,
        importance=body.importance,
        idempotency_key=key,
    )
    return answer(json_of(UpdateReceipt, receipt), 201)


def _check_exchange(body: Update) -> None:
    # The agent would speak of turns[0] and turns[1], which the request does not have.
    checked_text("user_msg", body.user_msg, max_chars=MAX_CONTENT_CHARS)
    checked_text("assistant_msg", body.assistant_msg, max_chars=MAX_CONTENT_CHARS)
    if body.speaker is not None:
        checked_text("speaker", body.speaker, max_chars=MAX_ID_CHARS)
    if body.timestamp is not None:
        checked_time("timestamp", body.timestamp)


@router.post(f"{THREAD}/turns", status_code=201, response_model=Turn)
async def add_turn(memory: WritableMemory, body: AddTurn, key: IdempotencyKey = None) -> Response:
    """Remember one message."""
    return answer(json_of(Turn, (await memory.add_turns([body.domain()], idempotency_key=key))[0]), 201)


@router.post(f"{THREAD}/turns/bulk", status_code=201, response_model=Items[Turn])
async def add_turns(memory: WritableMemory, body: AddTurns, key: IdempotencyKey = None) -> Response:
    """Remember many messages in order, all of them or, if one is refused, none."""
    stored = await memory.add_turns(body.domain(), idempotency_key=key)

    def written() -> Response:
        return answer(json_of_many(Turn, stored), 201)

    # In a thread, as others would wait for some tenths of a second for ten thousand turns.
    return await asyncio.to_thread(written) if len(stored) > MANY_TURNS else written()


@router.get(f"{THREAD}/turns", response_model=Page[Turn])
async def list_turns(
    memory: Memory,
    session_id: Annotated[str | None, Query(min_length=1, max_length=MAX_ID_CHARS)] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """All turns of the thread (or of one session), oldest first, word for word, compressed ones included."""
    page = await memory.history(session_id, after=HISTORY.after(cursor) or 0, limit=limit)
    return answer(HISTORY.json_of(page))


@router.get(f"{THREAD}/turns/recent", response_model=Items[Turn])
async def recent_turns(
    memory: Memory,
    limit: Annotated[int | None, Query(ge=0, le=MAX_PAGE, description="Default: short_term_window.")] = None,
) -> Response:
    """The last turns, oldest first."""
    return answer(json_of_many(Turn, await memory.fetch_short_term(limit)))


@router.get(f"{THREAD}/turns/{{turn_id}}/topic", response_model=TopicStats | None)
async def turn_topic(
    memory: Memory,
    turn_id: PathText,
    timeout: Annotated[
        float, Query(ge=0, le=LONGEST_WAIT_SECONDS, description="Seconds to wait for it.")
    ] = 30.0,
) -> Response:
    """The topic of a turn, once it is known; null for a turn that belongs to none."""
    topic = await memory.turn_topic(turn_id, timeout)
    return answer(None if topic is None else json_of(TopicStats, topic))


# --- search -------------------------------------------------------------------------------------------------------
@search.post("/api/memory/search", response_model=Items[Recollection])
async def search_memory(api: OpenApi, principal: Caller, body: Search) -> Response:
    """The turns that answer the question best, by meaning and by word, best first; each with why it was found."""
    principal.check_user(body.user_id)
    filters: dict[str, Any] = {
        name: getattr(body, name) for name in ("since", "until", "role", "tag", "metadata", "now")
    }
    if body.thread_id is not None:
        memory = api.agent(principal, body.user_id, body.thread_id)
        found = await memory.fetch_long_term(
            body.query, body.top_k, topic_id=body.topic_id, scope=body.scope, **filters
        )
    elif body.topic_id is not None:
        raise InvalidInput("topic_id is given without thread_id; topics belong to a thread, so name both")
    elif body.scope == "thread":
        raise InvalidInput("scope is 'thread' without thread_id; name the thread, or leave scope out")
    else:
        found = await api.service.search(
            body.user_id, body.query, body.top_k, tenant=principal.tenant, **filters
        )
    return answer(json_of_many(Recollection, found))
