"""The commands that only read, `ask` and `status`; and what the commands on a thread share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from memory_agent.cli.opening import agent_of, opened, say_if_unknown
from memory_agent.cli.options import THREAD, Where
from memory_agent.cli.output import (
    note,
    print_json,
    print_status,
    recollection_as_json,
    status_as_json,
)
from memory_agent.cli.running import OK, UNFINISHED, settings
from memory_agent.domain import Scope

if TYPE_CHECKING:
    from pathlib import Path


async def ask(
    where: Where,
    question: str,
    *,
    top_k: int | None,
    scope: Literal["thread", "user"],
    why: bool,
    tag: str | None = None,
) -> int:
    """Print the recollections, best first."""
    from memory_agent.cli.answers import print_answers

    language = settings(where.data_dir).search_language
    async with agent_of(where, reach=scope) as agent:
        found = await agent.fetch_long_term(question, top_k, scope=scope, tag=tag)
    if where.as_json:
        print_json([recollection_as_json(recollection) for recollection in found])
    elif found:
        print_answers(question, found, language=language, threads=scope == "user", why=why)
    else:
        thread = f"thread {where.thread_id!r} of " if scope == "thread" else ""
        wider = "; --scope user searches all threads" if scope == "thread" else ""
        tagged = "" if tag is None else f" in topics tagged {tag!r}"
        note(f"Nothing found for {thread}user {where.user_id!r}{tagged}{wider}.")
    return OK


async def show_status(
    *, user_id: str | None, thread_id: str | None, tenant: str, data_dir: Path | None, as_json: bool
) -> int:
    """Print the counts; UNFINISHED if turns are parked."""
    scope = None if user_id is None else Scope.of(user_id, thread_id, tenant=tenant)
    async with opened(data_dir) as service:
        status = await service.status(scope)
        if user_id is not None:
            agent = service.agent(user_id, thread_id or THREAD, tenant=tenant)
            await say_if_unknown(agent, reach="user" if thread_id is None else "thread")
    if as_json:
        print_json(status_as_json(status))
    else:
        print_status(status)
    return UNFINISHED if status.parked_count else OK
