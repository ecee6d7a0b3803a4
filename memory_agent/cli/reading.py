"""The commands that only read, `ask` and `status`; and what the commands on a thread share."""

from __future__ import annotations

import shlex
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from memory_agent.cli.opening import opened
from memory_agent.cli.options import TENANT, THREAD, USER, service_options
from memory_agent.cli.output import (
    note,
    print_json,
    print_status,
    recollection_as_json,
    status_as_json,
)
from memory_agent.cli.people import say_if_unknown, unknown_is_said
from memory_agent.cli.running import OK, UNFINISHED, settings
from memory_agent.domain import Scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from memory_agent.cli.opening import Agent, Service


@dataclass(frozen=True, kw_only=True, slots=True)
class Where:
    """Whose thread is read, where it is kept, and how it is shown."""

    user_id: str
    thread_id: str
    data_dir: Path | None
    as_json: bool
    tenant: str = TENANT

    def agent(self, service: Service) -> Agent:
        """The memory of the thread. Raises InvalidInput for impossible ids."""
        return service.agent(user_id=self.user_id, thread_id=self.thread_id, tenant=self.tenant)

    def command(self, command: str, *arguments: str) -> str:
        """A command on the same thread, to be copied."""
        options = []
        if self.user_id != USER:
            options += ["--user", self.user_id]
        if self.thread_id != THREAD:
            options += ["--thread", self.thread_id]
        if self.tenant != TENANT:
            options += ["--tenant", self.tenant]
        if self.data_dir is not None:
            options += ["--data-dir", str(self.data_dir)]
        url, key_file = service_options()
        if url is not None:
            options += ["--url", url]
        if key_file is not None:
            options += ["--key-file", str(key_file)]
        return shlex.join(["memory-agent", *command.split(), *options, *arguments])


@asynccontextmanager
async def agent_of(where: Where, *, new: bool = False, reach: str = "thread") -> AsyncIterator[Agent]:
    """The memory of the thread asked for, see `opened`; if nothing is remembered of it (or of its user, by `reach`), that is said."""
    async with opened(where.data_dir, new=new) as service:
        agent = where.agent(service)
        async with unknown_is_said(agent, reach=reach):
            yield agent


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
