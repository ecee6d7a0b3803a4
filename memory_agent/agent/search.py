"""The search among turns: of MemoryAgent in its thread or its user's threads, of MemoryService in a user's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memory_agent.agent.arguments import ThreadCalls, checked_count, checked_now, checked_query, checked_times
from memory_agent.checks import as_asked, checked_metadata, checked_tag
from memory_agent.errors import NotFound
from memory_agent.facts.fold import called
from memory_agent.search.request import RowFilter, SearchRequest
from memory_agent.topics.index import find_topic, topic_ids_tagged

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from memory_agent.domain import GivenRole, Reach, Recollection, Scope
    from memory_agent.service import MemoryService


class SearchCalls(ThreadCalls):
    """Calls that search what was said."""

    async def fetch_long_term(
        self,
        query: str,
        top_k: int | None = None,
        *,
        scope: Reach | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        role: GivenRole | None = None,
        topic_id: str | None = None,
        tag: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        now: datetime | None = None,
    ) -> list[Recollection]:
        """The at most `top_k` turns that answer `query` best, by meaning and by word, best first.

        `scope` (default: the setting `memory_scope`): "user" searches all of the user's threads, and a turn of this one
        stands before others that fit as well; "thread" this one alone. `since` is included, `until` is not; `topic_id` keeps turns
        of that topic of this thread (NotFound is raised if it has none such), `tag` those of topics that carry it (of any
        thread in the scope; compared as it is), `session_id` those of one session (NotFound is raised if the scope has no such), `metadata` those whose metadata holds these values. Compressed and archived turns are found as all others are. With the embedder down, words alone
        decide. `now` (default: the clock's): what "last week" in the query is told from; it excludes nothing.
        """
        topic_ids: frozenset[str] | None = None
        if topic_id is not None:
            topic = await find_topic(self._core.store, self.scope, topic_id)
            topic_ids = frozenset(topic.turns_of)
        return await search_turns(
            self._service,
            self._reach(scope),
            query,
            top_k,
            here=self.scope.thread_id,
            since=since,
            until=until,
            role=role,
            topic_ids=topic_ids,
            tag=tag,
            session_id=session_id,
            metadata=metadata,
            now=now,
        )


async def search_turns(
    service: MemoryService,
    scope: Scope,
    query: str,
    top_k: int | None,
    *,
    here: str | None = None,
    since: datetime | None,
    until: datetime | None,
    role: GivenRole | None,
    topic_ids: frozenset[str] | None = None,
    tag: str | None = None,
    session_id: str | None = None,
    metadata: Mapping[str, Any] | None,
    now: datetime | None,
) -> list[Recollection]:
    """The at most `top_k` (None: the setting `top_k_memories`) turns of the scope that answer `query`, best first.

    `here`: the thread in which it is asked. Raises InvalidInput for what cannot be asked.
    """
    said_by = checked_query(query, role)
    wanted = service.cfg.top_k_memories if top_k is None else checked_count("top_k", top_k)
    if tag is not None:
        tagged = await topic_ids_tagged(service.core.store, scope, [checked_tag(tag)])
        topic_ids = tagged if topic_ids is None else topic_ids & tagged
    thread_id = scope.thread_id
    if session_id is not None:
        session = await service.find_session(session_id, tenant=scope.tenant, user_id=scope.tenants_user_id)
        if thread_id not in (None, session.thread_id):
            raise NotFound(f"session_id is {session_id!r:.80}, and thread {thread_id!r} has no such session")
        thread_id = session.thread_id
    request = SearchRequest(
        scope=scope,
        here=here,
        query=as_asked(query),
        top_k=wanted,
        where=RowFilter(thread_id=thread_id, role=said_by, **checked_times(since=since, until=until)),
        now=checked_now(now, service.clock.now(), service.cfg.zone),
        topic_ids=topic_ids,
        session_id=session_id,
        metadata=checked_metadata(metadata),
    )
    if not wanted or (topic_ids is not None and not topic_ids):
        return []
    request = replace(request, called=called((await service.core.facts.current(scope)).people))
    return list((await service.core.searcher.search(request)).recollections)
