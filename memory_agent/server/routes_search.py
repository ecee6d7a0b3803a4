"""Search in what was said: one thread, or all of a user's."""

from fastapi import APIRouter
from fastapi.responses import Response

from memory_agent.errors import InvalidInput
from memory_agent.server.dependencies import Caller, OpenApi, answer
from memory_agent.wire.base import Items
from memory_agent.wire.requests import Search
from memory_agent.wire.turns import Recollection

router = APIRouter(tags=["search"])


@router.post("/api/memory/search", response_model=Items[Recollection])
async def search_memory(api: OpenApi, principal: Caller, body: Search) -> Response:
    """The turns that answer the question best, by meaning and by word, best first; each with why it was found."""
    principal.check_user(body.user_id)
    if body.thread_id is not None:
        found = await api.agent(principal, body.user_id, body.thread_id).fetch_long_term(
            body.query,
            body.top_k,
            since=body.since,
            until=body.until,
            role=body.role,
            topic_id=body.topic_id,
            tag=body.tag,
            metadata=body.metadata,
            now=body.now,
        )
    elif body.topic_id is not None:
        raise InvalidInput("topic_id is given without thread_id; topics belong to a thread, so name both")
    else:
        found = await api.service.search(
            body.user_id,
            body.query,
            body.top_k,
            tenant=principal.tenant,
            since=body.since,
            until=body.until,
            role=body.role,
            tag=body.tag,
            metadata=body.metadata,
            now=body.now,
        )
    return answer(Items[Recollection](items=tuple(map(Recollection.of, found))))
