"""The pages *Conversation*: a thread's turns in order, how each one stands, and one turn with all that is known of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Final

from memory_agent.domain import MAX_SEQ, Entity
from memory_agent.errors import InvalidInput, NotFound
from memory_agent.topics.index import families_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from memory_agent.inspect.page import Page

_TURNS: Final = 50
_SESSIONS: Final = 100
"""Of which links are shown, the latest."""
_SHOWN_CHARS: Final = 2_000
"""Of a turn in the timeline; its own page has all."""
_PART_CHARS: Final = 20_000
"""Of a turn on its own page at a time: a browser lays out a word of a million characters for seconds."""


async def timeline(page: Page) -> Response:
    """Turns behind the one that the address names, with the sessions that they begin. Costs what it shows."""
    after = min(page.number("after") or 0, MAX_SEQ)
    agent, store = page.agent, page.store
    history, latest, head, status, folded = await asyncio.gather(
        agent.history(after=after, limit=_TURNS),
        store.sessions(agent.scope, newest=_SESSIONS + 1),
        store.thread_head(agent.scope),
        agent.status(),
        page.api.service.core.facts.known(agent.scope),
    )
    shown = {turn.session_id for turn in history.turns if turn.session_id}
    sessions, families, rows = await asyncio.gather(
        store.sessions(agent.scope, ids=sorted(shown)),
        families_of(store, agent.scope, {turn.topic_id for turn in history.turns if turn.topic_id}),
        store.search_rows(agent.scope.user_id, ids=[turn.id for turn in history.turns]),
    )
    ids = {turn.id for turn in history.turns}
    return await page.show(
        "conversation.html",
        turns=history.turns,
        next=history.next,
        after=after,
        sessions={session.id: session for session in sessions},
        starts=latest[-_SESSIONS:],
        # They are numbered one by one.
        session_count=head.session.number if len(latest) > _SESSIONS and head.session else len(latest),
        topics={one: topic for topic in families for one in topic.turns_of},
        entities={
            row.turn_id: [one for term in row.terms if (one := Entity.from_term(term))] for row in rows
        },
        facts=Counter(
            source.turn_id
            for record in folded.records
            if not record.refused
            for source in record.sources
            if source.turn_id in ids
        ),
        status=status,
        shown=_SHOWN_CHARS,
        page_turns=_TURNS,
    )


async def turn(page: Page) -> Response:
    """One turn: its text, part by part, how it stands, and the facts that were taken from it. Raises NotFound."""
    agent, number = page.agent, page.path("seq")
    is_number = number.isascii() and number.isdigit() and len(number) <= len(str(MAX_SEQ))
    if not (is_number and 0 < int(number) <= MAX_SEQ):
        raise InvalidInput(f"the turn is {number!r:.80}; turns are numbered from 1 on")
    found = await agent.history(after=int(number) - 1, limit=1)
    if not found.turns or found.turns[0].seq != int(number):
        raise NotFound(f"this thread has no turn {number}; it may have been forgotten")
    one = found.turns[0]
    start = min(page.number("at") or 0, max(len(one.content) - 1, 0))
    records = await agent.fact_history(scope="thread")
    families = await families_of(page.store, agent.scope, {one.topic_id} if one.topic_id else ())
    return await page.show(
        "turn.html",
        turn=one,
        metadata=json.dumps(one.metadata, ensure_ascii=False, indent=2),
        topic=families[0] if families else None,
        start=start,
        part=one.content[start : start + _PART_CHARS],
        rest=start + _PART_CHARS if start + _PART_CHARS < len(one.content) else None,
        facts=[record for record in records if any(source.turn_id == one.id for source in record.sources)],
    )


async def retry(page: Page) -> Response:
    """Give the thread's parked turns a fresh start."""
    await page.api.service.retry_parked(page.agent.scope)
    return page.go(*page.of_thread("conversation"), after=page.form.get("after", "0"))
