"""Conversations of other programs, imported through the calls of anything that has agents: a service, or a client of one."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from memory_agent.checks import at_home, checked_id
from memory_agent.domain import DEFAULT_TENANT, TurnInput
from memory_agent.errors import IdempotencyKeyReused, InvalidInput, RateLimited, TurnForgotten
from memory_agent.imports.files import OpenZip, Unreadable, digest, files_of
from memory_agent.imports.kinds import KINDS, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from memory_agent.domain import Turn
    from memory_agent.imports.files import Conversation

_MOST_KEY_CHARS: Final = 400


class HasAgents(Protocol):
    """A MemoryService or a ServiceClient."""

    def agent(self, user_id: str, thread_id: str, *, tenant: str = DEFAULT_TENANT) -> Any:
        """The memory of a user's thread."""


@dataclass(kw_only=True, slots=True)
class ImportTally:
    """Counts of what was found of one source."""

    conversations: int = 0
    turns: int = 0
    characters: int = 0
    new: int = 0
    """Turns that were not there before; 0 in a dry run, which looks at files alone."""
    first: datetime | None = None
    last: datetime | None = None
    left_out: Counter[str] = field(default_factory=Counter)

    def count(self, found: Conversation) -> None:
        """Count a conversation, unless nothing of it is left."""
        self.left_out += found.left_out
        self.conversations += bool(found.messages)
        self.turns += len(found.messages)
        self.characters += sum(len(message.content) for message in found.messages)
        times = [time for message in found.messages if (time := message.timestamp) is not None]
        self.first = min([*times, *([self.first] if self.first else [])], default=None)
        self.last = max([*times, *([self.last] if self.last else [])], default=None)


@dataclass(kw_only=True, slots=True)
class ImportReport:
    """An import, or a dry run of one: counts by source, and the files and conversations that could not be read."""

    sources: dict[str, ImportTally] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)

    @property
    def turns(self) -> int:
        """Turns of all sources."""
        return sum(tally.turns for tally in self.sources.values())

    @property
    def new(self) -> int:
        """Turns of all sources that were not there before."""
        return sum(tally.new for tally in self.sources.values())


async def import_chats(
    memory: HasAgents | None,
    user_id: str,
    *paths: Path | str,
    source: str = "auto",
    tenant: str = DEFAULT_TENANT,
    progress: Callable[[int], None] | None = None,
) -> ImportReport:
    """Import what other programs kept of a user: files, folders and ZIPs of one source, or (`source` "auto") of any.

    Each conversation becomes a thread named after its source and id, each message that was shown last a turn with its time;
    saved memories become turns of the thread `SOURCE:memories`, from which facts are extracted as from others. The turns'
    metadata say where they come from. A message is known by its id: a repeat, also with a newer export or after an
    interruption, adds what is new. What was forgotten here is not brought back. `memory`: a MemoryService or a
    ServiceClient; None for a dry run, which reads and counts alone. `progress` is called with the number of turns so far.

    Files and conversations that cannot be read are reported and stop none of the others. Raises InvalidInput for an
    unknown source and a path that isn't there.
    """
    if source not in ("auto", *KINDS):
        raise InvalidInput(f"source is {source!r:.80}; use one of auto, {', '.join(KINDS)}")
    checked_id("user_id", user_id)
    zips = OpenZip()
    files = list(files_of([at_home(path) for path in paths], zips))
    report = ImportReport()
    reading: Iterator[Conversation | Unreadable] = itertools.chain.from_iterable(
        [file] if isinstance(file, Unreadable) else read_file(file, source, user_id) for file in files
    )
    # Parsing takes a while, during which others on this event loop want to be served.
    while (found := await asyncio.to_thread(next, reading, None)) is not None:
        if isinstance(found, Unreadable):
            report.unreadable.append(found)
            continue
        tally = report.sources.setdefault(found.source, ImportTally())
        if memory is not None:
            try:
                await _store(memory.agent(user_id, _thread_of(found), tenant=tenant), found, tally)
            except InvalidInput as exc:
                report.unreadable.append(Unreadable(where=_thread_of(found), reason=str(exc)))
                continue
        tally.count(found)
        if progress is not None:
            progress(report.turns)
    return report


def _thread_of(found: Conversation) -> str:
    return f"{found.source}:{found.id}"


async def _store(agent: Any, found: Conversation, tally: ImportTally) -> None:
    """Store the turns that are not there yet, each under a key of its own: so a conversation may grow, and change its branch."""
    newest = max((turn.seq for turn in await agent.fetch_short_term(1)), default=0)
    for message in found.messages:
        metadata = {"imported_from": found.source, "source_id": message.id, "kind": found.kind}
        turn = TurnInput(
            role=message.role,
            content=message.content,
            timestamp=message.timestamp,
            metadata={**metadata, "title": found.title} if found.title else metadata,
        )
        key = f"import:{found.source}:{found.id}:{message.id}"
        if len(key) > _MOST_KEY_CHARS:
            key = f"import:{digest(key)}"
        try:
            stored = (await added(agent, [turn], key))[0]
        except TurnForgotten:
            found.left_out["forgotten here since"] += 1
        except IdempotencyKeyReused:  # a title or a text was changed since; what was imported stands
            found.left_out["changed since they were imported"] += 1
        else:
            tally.new += stored.seq > newest


async def added(agent: Any, turns: Sequence[TurnInput], key: str) -> list[Turn]:
    """The stored turns; waits where a key has asked too much, or too much work is owed, mostly of this import's making."""
    while True:
        try:
            stored: list[Turn] = await agent.add_turns(list(turns), idempotency_key=key)
            return stored
        except RateLimited as exc:
            await asyncio.sleep(exc.retry_after)
