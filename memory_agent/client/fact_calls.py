"""The part of MemoryClient that is about facts."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from memory_agent.agent.agent import MemoryAgent
from memory_agent.agent.arguments import checked_proposal, checked_times, reach
from memory_agent.checks import MAX_ID_CHARS, checked_id, checked_text, checked_time
from memory_agent.client.documented import documented_as
from memory_agent.client.replies import value_of
from memory_agent.client.thread_requests import Asking, given, own_key
from memory_agent.errors import InvalidInput
from memory_agent.facts.edits import checked_path, checked_value, no_such_event
from memory_agent.wire import facts as wire
from memory_agent.wire.requests import (
    AddFact,
    ApplyReplay,
    Extract,
    Preview,
    Replay,
    RetractFact,
    RevertFact,
    SetFact,
    UndoReplay,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory_agent.agent.facts import Path
    from memory_agent.domain import FactRecord
    from memory_agent.facts.replay import FactProposal
    from memory_agent.wire.base import Request


@documented_as(MemoryAgent)
class FactCalls(Asking):
    """MemoryClient's calls about facts."""

    async def fetch_facts(
        self,
        *,
        scope: Literal["thread", "user"] = "thread",
        as_of: datetime | None = None,
        recorded_by: datetime | None = None,
    ) -> dict[str, Any]:
        reach(self.scope, scope)
        times = checked_times(as_of=as_of, recorded_by=recorded_by)
        return await self._get(wire.Facts, "facts", scope=scope, **times)

    async def fact_history(
        self,
        path: Path | None = None,
        *,
        scope: Literal["thread", "user"] = "thread",
        as_of: datetime | None = None,
        recorded_by: datetime | None = None,
    ) -> list[FactRecord]:
        reach(self.scope, scope)
        # Normalised keys hold no dots.
        where = None if path is None or path == "" else ".".join(checked_path(path))
        times = checked_times(as_of=as_of, recorded_by=recorded_by)
        return await self._all(wire.FactRecord, "facts", "history", path=where, scope=scope, **times)

    async def set_fact(self, path: Path, value: Any, *, idempotency_key: str | None = None) -> FactRecord:
        """Without a key the client makes its own, for the requests of this call alone."""
        body = SetFact.of(path=_sent(path), value=checked_value(value, checked_path(path)))
        reply = await self._send("PUT", ("facts",), body=body, key=own_key(idempotency_key))
        return value_of(reply, wire.FactRecord).domain()

    async def add_fact(self, path: Path, value: Any, *, idempotency_key: str | None = None) -> FactRecord:
        body = AddFact.of(path=_sent(path), value=checked_value(value, checked_path(path)))
        return await self._post(wire.FactRecord, "facts", "add", body=body, key=own_key(idempotency_key))

    async def retract_fact(
        self, path: Path, value: Any | None = None, *, idempotency_key: str | None = None
    ) -> FactRecord:
        element = None if value is None else checked_value(value, checked_path(path))
        body = RetractFact.of(path=_sent(path), **given(value=element))
        return await self._post(wire.FactRecord, "facts", "retract", body=body, key=own_key(idempotency_key))

    async def revert_fact(
        self, path: Path, to: str | datetime | None = None, *, idempotency_key: str | None = None
    ) -> FactRecord:
        where = "" if isinstance(path, str) and path == "" else _sent(path)
        body = RevertFact.of(path=where, **given(to=_moment(to)))
        if isinstance(to, str) and body.moment() != to:  # the service would take it for a time
            raise no_such_event(to)
        return await self._post(wire.FactRecord, "facts", "revert", body=body, key=own_key(idempotency_key))

    # --- extraction, looked at and done again ----------------------------------------------------------------
    async def preview_facts(
        self, *, every: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> FactProposal:
        """`progress(done, all)` is called once, at the end."""
        return await self._proposed("preview", Preview.of(every=bool(every)), progress)

    async def extract_facts(self, *, every: bool = False) -> int:
        body = Extract.of(every=bool(every))
        return await self._post(wire.ExtractedTurns, "facts", "extract", body=body, long=True)

    async def replay_facts(
        self, model: str | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> FactProposal:
        """`progress(done, all)` is called once, at the end."""
        body = Replay.of(**given(model=None if model is None else checked_id("model", model)))
        return await self._proposed("replay", body, progress)

    async def _proposed(
        self, what: str, body: Request, progress: Callable[[int, int], None] | None
    ) -> FactProposal:
        reply = await self._send("POST", ("facts", what), body=body, long=True)
        proposal = value_of(reply, wire.FactProposal).domain(tenant=self.scope.tenant)
        if progress is not None:
            progress(proposal.turns, proposal.turns)
        return proposal

    async def apply_replay(self, proposal: FactProposal | str) -> str:
        if isinstance(proposal, str):
            body = ApplyReplay.of(replay_id=checked_id("proposal", proposal))
        else:
            body = ApplyReplay.of(proposal=wire.FactProposal.of(self._own(proposal)))
        return await self._post(wire.ReplayId, "facts", "replay", "apply", body=body, long=True)

    async def undo_replay(self, replay_id: str | None = None) -> str:
        if replay_id is not None:
            checked_id("replay_id", replay_id)
        body = UndoReplay.of(**given(replay_id=replay_id))
        return await self._post(wire.ReplayId, "facts", "replay", "undo", body=body, long=True)

    def _own(self, proposal: object) -> FactProposal:
        own = checked_proposal(proposal, self.scope)
        if own.preview:
            raise InvalidInput("a preview can't be applied: extract_facts() does what it shows")
        return own


def _sent(path: Path) -> str | list[str]:
    """The path as a request holds it. Raises InvalidInput for what is none."""
    checked_path(path)
    return path if isinstance(path, str) else [str(key) for key in path]


def _moment(to: object) -> str | None:
    """An event's id or a time, as a request holds it. Raises NotFound for what no event's id can be."""
    if to is None:
        return None
    if isinstance(to, datetime):
        return checked_time("to", to).isoformat()
    try:
        # An event of another thread has that thread's id before its own.
        return checked_text("to", to, max_chars=2 * MAX_ID_CHARS)
    except InvalidInput:
        raise no_such_event(to) from None
