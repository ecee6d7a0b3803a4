"""Turns: remembered, listed, and the topic of one."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from memory_agent.agent.agent import MANY_TURNS
from memory_agent.checks import MAX_CONTENT_CHARS, MAX_ID_CHARS, checked_text, checked_time
from memory_agent.server.dependencies import (
    LONGEST_WAIT_SECONDS,
    MAX_PAGE,
    THREAD,
    Cursor,
    IdempotencyKey,
    Limit,
    Memory,
    PathText,
    WritableMemory,
    answer,
)
from memory_agent.wire.base import Items
from memory_agent.wire.pages import Page
from memory_agent.wire.requests import AddTurn, AddTurns, Update
from memory_agent.wire.topics import TopicStats
from memory_agent.wire.turns import HISTORY, Turn, UpdateReceipt

router = APIRouter(tags=["turns"])


@router.post(f"{THREAD}/update", status_code=201, response_model=UpdateReceipt)
async def update_memory(memory: WritableMemory, body: Update, key: IdempotencyKey = None) -> Response:
    """Remember one exchange. Durable when this answers; search by meaning and facts follow in the background."""
    _check_exchange(body)
    receipt = await memory.update_memory(
        body.user_msg,
        body.assistant_msg,
        timestamp=body.timestamp,
        metadata=body.metadata,
        importance=body.importance,
        idempotency_key=key,
    )
    return answer(UpdateReceipt.of(receipt), 201)


def _check_exchange(body: Update) -> None:
    # The agent would speak of turns[0] and turns[1], which the request does not have.
    checked_text("user_msg", body.user_msg, max_chars=MAX_CONTENT_CHARS)
    checked_text("assistant_msg", body.assistant_msg, max_chars=MAX_CONTENT_CHARS)
    if body.timestamp is not None:
        checked_time("timestamp", body.timestamp)


@router.post(f"{THREAD}/turns", status_code=201, response_model=Turn)
async def add_turn(memory: WritableMemory, body: AddTurn, key: IdempotencyKey = None) -> Response:
    """Remember one message."""
    return answer(Turn.of((await memory.add_turns([body.domain()], idempotency_key=key))[0]), 201)


@router.post(f"{THREAD}/turns/bulk", status_code=201, response_model=Items[Turn])
async def add_turns(memory: WritableMemory, body: AddTurns, key: IdempotencyKey = None) -> Response:
    """Remember many messages in order, all of them or, if one is refused, none."""
    stored = await memory.add_turns(body.domain(), idempotency_key=key)

    def written() -> Response:
        return answer(Items[Turn](items=tuple(map(Turn.of, stored))), 201)

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
    return answer(HISTORY.to_page(page))


@router.get(f"{THREAD}/turns/recent", response_model=Items[Turn])
async def recent_turns(
    memory: Memory,
    limit: Annotated[int | None, Query(ge=0, le=MAX_PAGE, description="Default: short_term_window.")] = None,
) -> Response:
    """The last turns, oldest first."""
    return answer(Items[Turn](items=tuple(map(Turn.of, await memory.fetch_short_term(limit)))))


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
    return answer(None if topic is None else TopicStats.of(topic))
