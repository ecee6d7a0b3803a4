"""The search among turns: of MemoryClient in its thread or its user's threads, of ServiceClient in a user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory_agent.agent.agent import MemoryAgent
from memory_agent.agent.arguments import Reach, checked_count, checked_query, checked_times, reach
from memory_agent.checks import checked_metadata, checked_tag
from memory_agent.client.documented import documented_as
from memory_agent.client.replies import value_of
from memory_agent.client.thread_requests import Asking, call_to, given
from memory_agent.client.topic_calls import may_be_topic
from memory_agent.topics.merged import no_such_topic
from memory_agent.wire import turns as wire
from memory_agent.wire.base import Items
from memory_agent.wire.requests import Search

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from memory_agent.client.service import ServiceClient
    from memory_agent.domain import GivenRole, Recollection, Scope


@documented_as(MemoryAgent)
class SearchCalls(Asking):
    """MemoryClient's calls for search."""

    async def fetch_long_term(
        self,
        query: str,
        top_k: int | None = None,
        *,
        scope: Reach = "thread",
        since: datetime | None = None,
        until: datetime | None = None,
        role: GivenRole | None = None,
        topic_id: str | None = None,
        tag: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        now: datetime | None = None,
    ) -> list[Recollection]:
        where = reach(self.scope, scope)
        if topic_id is not None and not may_be_topic(topic_id):
            raise no_such_topic(self.scope, topic_id)
        # A topic is of this thread, and so are its turns, wherever they are searched for.
        thread_id = where.thread_id if topic_id is None else self.scope.thread_id
        return await search_turns(
            self._service,
            user=self.scope.user,
            thread_id=thread_id,
            query=query,
            top_k=top_k,
            since=since,
            until=until,
            role=role,
            topic_id=topic_id,
            tag=tag,
            metadata=metadata,
            now=now,
        )


async def search_turns(
    service: ServiceClient,
    *,
    user: Scope,
    thread_id: str | None,
    query: str,
    top_k: int | None,
    since: datetime | None,
    until: datetime | None,
    role: GivenRole | None,
    topic_id: str | None = None,
    tag: str | None = None,
    metadata: Mapping[str, Any] | None,
    now: datetime | None,
) -> list[Recollection]:
    """Search by the service. Raises InvalidInput for invalid arguments before anything is sent."""
    checked_query(query, role)
    body = Search.of(
        **given(
            user_id=user.tenants_user_id,
            thread_id=thread_id,
            query=query,
            top_k=None if top_k is None else checked_count("top_k", top_k),
            role=role,
            topic_id=topic_id,
            tag=None if tag is None else checked_tag(tag),
            metadata=checked_metadata(metadata) or None,
            **checked_times(since=since, until=until, now=now),
        )
    )
    call = call_to(service, "POST", "memory", "search", body=body, tenant=user.tenant)
    found = value_of(await service.connection.send(call), Items[wire.Recollection])
    return [one.domain() for one in found.items]
