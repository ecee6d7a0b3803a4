"""The pages *Users* and *Conversation*: who is remembered and what was said; a memory as a file, and forgetting somebody."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.responses import Response

from memory_agent.domain import MAX_SEQ, Entity, Scope
from memory_agent.errors import AccessDenied, InvalidInput, MemoryAgentError, NotFound, RateLimited
from memory_agent.exports.run import export_in_pieces
from memory_agent.inspect.page import HEADERS
from memory_agent.server.dependencies import CutOff, streamed
from memory_agent.topics.index import families_of, unmerged

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence
    from datetime import datetime

    from memory_agent.agent.agent import MemoryAgent
    from memory_agent.domain import Recollection, ThreadSummary, TopicHead, Turn
    from memory_agent.inspect.page import Page


# --- users ---------------------------------------------------------------------------------------------------
log = logging.getLogger(__name__)

_USERS: Final = 50
_THREADS: Final = 50
_LATEST: Final = 5
"""Facts, topics and turns on the page of a user."""
MOST_EXPORTS: Final = 2
"""Of a login at once."""
_SEND_SECONDS: Final = 60.0
"""That a browser may take for a piece of an export."""


async def everybody(page: Page) -> Response:
    """The tenant's users, page by page; `find` goes to one by name."""
    if wanted := page.asked("find"):
        return page.go("of", page.principal.tenant, "users", wanted)
    principal = page.principal
    found = await page.api.service.users(
        tenant=principal.tenant, user_id=principal.user_id, after=page.asked("after") or None, limit=_USERS
    )
    return await page.show("users.html", users=found.users, next=found.next)


async def somebody(page: Page) -> Response:
    """A user's threads, and (`forget`) what forgetting the user would erase. Raises NotFound with the nearest names."""
    user, tenant = page.path("user"), page.principal.tenant
    scope = page.user_scope
    found = await page.api.service.threads(
        user, tenant=tenant, after=page.asked("after") or None, limit=_THREADS
    )
    status = await page.api.service.status(scope)
    return await page.show(
        "user.html",
        user=user,
        threads=found.threads,
        next=found.next,
        status=status,
        would=await _would_erase(page) if page.asked("forget") else None,
        receipt=None,
        **await _lately(page, found.threads),
    )


async def _lately(page: Page, threads: Sequence[ThreadSummary]) -> dict[str, Any]:
    """The user's newest facts and topics, and the last turns of the thread last active."""
    scope, store = page.user_scope, page.store
    active = [(thread.last_activity, thread.thread_id) for thread in threads if thread.last_activity]
    folded, heads = await asyncio.gather(page.api.service.core.facts.known(scope), store.topic_heads(scope))
    turns: list[Turn] = []
    if active:
        thread = Scope(user_id=scope.user_id, thread_id=max(active)[1])
        turns = await store.list_turns(thread, limit=_LATEST, newest=True)
    known = [(one.record.said_at, one) for one in folded.values if one.record is not None]
    known.sort(key=itemgetter(0), reverse=True)
    standing = [head for of_thread in _by_thread(heads) for head in unmerged(of_thread) if not head.archived]
    standing.sort(key=lambda head: head.last_access, reverse=True)
    return {"facts": [one for _, one in known[:_LATEST]], "topics": standing[:_LATEST], "turns": turns}


def _by_thread(heads: Iterable[TopicHead]) -> Iterable[list[TopicHead]]:
    threads: dict[str, list[TopicHead]] = {}
    for head in heads:
        threads.setdefault(head.thread_id, []).append(head)
    return threads.values()


async def _would_erase(page: Page) -> dict[str, int]:
    """How much of each there is that forgetting the user would erase."""
    scope, store = page.user_scope, page.store
    threads = (await store.count_threads([scope.user_id]))[scope.user_id]
    heads = await store.fact_heads(scope)
    return {
        "threads": len(threads),
        "turns": sum(thread.turns for thread in threads),
        "fact_changes": sum(count for count, *_ in heads.values()),
        "topics": len(await store.topic_heads(scope)),
        "search_rows": await store.count_rows(scope.user_id, limit=10_000_000),
    }


async def export(page: Page) -> Response:
    """Everything about the user as JSON Lines, to keep or to import elsewhere. Raises NotFound, and RateLimited for too many at once."""
    if page.request.method == "HEAD":
        return Response(headers=HEADERS)
    if page.login.exports >= MOST_EXPORTS:
        raise RateLimited(
            f"{MOST_EXPORTS} exports of this login are under way; wait until one has ended", retry_after=5.0
        )
    pieces = _noted(page, export_in_pieces(page.store, page.user_scope, now=page.api.service.clock.now()))
    answer = await streamed(pieces, "application/jsonl", send_seconds=_SEND_SECONDS)
    name = quote(f"{page.path('user')[:100]}.jsonl", safe="")
    answer.headers.update({**HEADERS, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"})
    return answer


async def _noted(page: Page, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The pieces, during which the login has one export more under way. What ends them early cuts the answer off."""
    page.login.exports += 1
    began = False
    try:
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                if began and not await page.is_let_in():
                    raise AccessDenied("the login or its key has ended")
                yield piece
                began = True
    except MemoryAgentError as exc:
        if not began:  # the page says it
            raise
        log.warning("an export ended early: %s", type(exc).__name__)
        raise CutOff from None
    finally:
        page.login.exports -= 1


async def forget(page: Page) -> Response:
    """Erase everything about a user whose id was typed. Raises InvalidInput for another one."""
    user = page.path("user")
    scope = page.user_scope
    if page.form.get("typed") != user:
        raise InvalidInput(
            "what you typed is not the user's id, so nothing was erased; type it as it is shown"
        )
    receipt = await page.api.service.forget_user(user, tenant=page.principal.tenant)
    given: dict[str, Any] = {"status": await page.api.service.status(scope), "receipt": receipt}
    return await page.show(
        "user.html", user=user, threads=(), next=None, would=None, facts=(), topics=(), turns=(), **given
    )


# --- a conversation ------------------------------------------------------------------------------------------
_TURNS: Final = 50
_SESSIONS: Final = 100
"""Of which links are shown, the latest."""
_FOUND: Final = 20
"""Turns of a search."""
_BESIDE: Final = 2
"""Turns on either side of one that has its own page."""
_SHOWN_CHARS: Final = 2_000
"""Of a turn in the timeline; its own page has all."""
_PART_CHARS: Final = 20_000
"""Of a turn on its own page at a time: a browser lays out a word of a million characters for seconds."""


async def timeline(page: Page) -> Response:
    """Turns behind the one that the address names, with the sessions that they begin. Costs what it shows.

    `on` leads to the first turn of that day, and `find` lists the turns that a search finds instead.
    """
    agent, store = page.agent, page.store
    if (day := page.time("on")) is not None:
        return page.go(*page.of_thread("conversation"), after=str(await _last_before(page, day)))
    after = min(page.number("after") or 0, MAX_SEQ)
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
        found=await _found(agent, page.asked("find")),
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


async def _found(agent: MemoryAgent, wanted: str) -> list[Recollection]:
    """The turns of the thread that say it, the surest first."""
    found = await agent.fetch_long_term(wanted, _FOUND, scope="thread") if wanted else []
    return sorted(found, key=lambda one: one.confidence, reverse=True)


async def _last_before(page: Page, time: datetime) -> int:
    """The number of the turn after which those of that time on begin, at most the last but one."""
    agent, low = page.agent, 0
    last = high = (await page.store.thread_head(agent.scope)).last_seq
    while low < high:
        middle = (low + high) // 2
        turns = (await agent.history(after=middle, limit=1)).turns
        if turns and turns[0].timestamp < time:
            low = turns[0].seq
        else:
            high = middle
    return max(min(low, last - 1), 0)


async def turn(page: Page) -> Response:
    """One turn: its text, part by part, how it stands, and the facts that were taken from it. Raises NotFound."""
    agent, number = page.agent, page.path("seq")
    is_number = number.isascii() and number.isdigit() and len(number) <= len(str(MAX_SEQ))
    if not (is_number and 0 < int(number) <= MAX_SEQ):
        raise InvalidInput(f"the turn is {number!r:.80}; turns are numbered from 1 on")
    found = await agent.history(after=int(number) - 1, limit=1 + _BESIDE)
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
        earlier=await page.store.list_turns(agent.scope, through=one.seq - 1, limit=_BESIDE, newest=True),
        later=found.turns[1:],
    )


async def retry(page: Page) -> Response:
    """Give the thread's parked turns a fresh start."""
    await page.api.service.retry_parked(page.agent.scope)
    return page.go(*page.of_thread("conversation"), after=page.form.get("after", "0"))
