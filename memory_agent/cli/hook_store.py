"""The process that a coding agent's stop leaves behind: `python -m memory_agent.cli.hook_store SETTINGS`. Errors are logged."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory_agent.cli.opening import open_or_ask, read_key
from memory_agent.cli.options import settings
from memory_agent.errors import MemoryAgentError, Unavailable
from memory_agent.hooks import run
from memory_agent.hooks.remember import Session, answered, is_late, known, remember, sessions_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memory_agent.cli.opening import Service

_OTHERS: Final = 20
"""Sessions besides the one that has just answered, of which what is new is remembered as well."""
_WRONG: Final = (MemoryAgentError, OSError, ValueError, KeyError)


async def store(settings_file: Path, said: Mapping[str, Any]) -> None:
    """Remember what is new in the session's transcript, and in those that an outage kept back before."""
    try:
        given = json.loads(settings_file.read_text(encoding="utf-8"))  # noqa: ASYNC240 - nothing else runs here
        folder = settings_file.parent / "sessions"
        session = await answered(
            known(Session.of(said), folder), folder, last=said.get("last"), host=given["host"]
        )
        whose = {"host": given["host"], "user": given["user"], "tenant": given["tenant"]}
        async with AsyncExitStack() as stack:
            service = await _opened(given, stack)
            others = [one for one in sessions_in(folder) if one.session != session.session and is_late(one)]
            for one in (session, *others[:_OTHERS]):
                try:
                    await remember(service, one, folder, **whose)
                except Unavailable:  # it would be for the others as well
                    raise
                except _WRONG as exc:
                    run.log(str(settings_file), f"remember: {one.transcript}: {type(exc).__name__}: {exc}")
    except _WRONG as exc:
        run.log(str(settings_file), f"remember: {type(exc).__name__}: {exc}")


async def _opened(given: Mapping[str, Any], stack: AsyncExitStack) -> Service:
    if given["url"] is None:
        return await open_or_ask(settings(Path(given["data_dir"]), run_worker=False), stack)
    from memory_agent.client import ServiceClient

    key = read_key(Path(given["key_file"])) if given["key_file"] else None
    return await stack.enter_async_context(ServiceClient(given["url"], api_key=key))


if __name__ == "__main__":
    asyncio.run(store(Path(sys.argv[1]), json.loads(sys.stdin.buffer.read())))
