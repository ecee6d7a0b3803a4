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
    print_recollections,
    print_status,
    recollection_as_json,
    status_as_json,
)
from memory_agent.cli.running import OK, UNFINISHED
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
async def agent_of(where: Where) -> AsyncIterator[Agent]:
    """The memory of the thread asked for."""
    async with opened(where.data_dir) as service:
        yield where.agent(service)


async def ask(where: Where, question: str, *, top_k: int | None, scope: Literal["thread", "user"]) -> int:
    """Print the recollections, best first."""
    async with agent_of(where) as agent:
        found = await agent.fetch_long_term(question, top_k, scope=scope)
    if where.as_json:
        print_json([recollection_as_json(recollection) for recollection in found])
    elif found:
        print_recollections(found)
    else:
        thread = f"thread {where.thread_id!r} of " if scope == "thread" else ""
        wider = "; --scope user searches all threads" if scope == "thread" else ""
        note(f"Nothing found for {thread}user {where.user_id!r}{wider}.")
    return OK


async def show_status(
    *, user_id: str | None, thread_id: str | None, tenant: str, data_dir: Path | None, as_json: bool
) -> int:
    """Print the counts; UNFINISHED if turns are parked."""
    scope = None if user_id is None else Scope.of(user_id, thread_id, tenant=tenant)
    async with opened(data_dir) as service:
        status = await service.status(scope)
    if as_json:
        print_json(status_as_json(status))
    else:
        print_status(status)
    return UNFINISHED if status.parked_count else OK
