"""The part of MemoryClient that is about facts."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from memory_agent.agent.agent import MemoryAgent
from memory_agent.agent.arguments import checked_about
from memory_agent.checks import MAX_ID_CHARS, checked_text, checked_time
from memory_agent.client.calls import Asked, Asking, one, pages, sends, stands_for
from memory_agent.errors import InvalidInput
from memory_agent.facts.edits import checked_path, checked_value, no_such_event
from memory_agent.wire import facts as wire
from memory_agent.wire import requests
from memory_agent.wire.work import RebuildStep

if TYPE_CHECKING:
    from memory_agent.agent.facts import Path

_RECORD: Final = one(wire.FactRecord)


# --- arguments that are not sent as they are -----------------------------------------------------------------
def _whose(_: Asking, asked: Asked) -> Asked:
    checked_about(asked["about"])
    return asked


def _where(client: Asking, asked: Asked) -> Asked:
    path = asked.pop("path")
    # Normalised keys hold no dots.
    return _whose(
        client, {"path": None if path is None or path == "" else ".".join(checked_path(path)), **asked}
    )


def _statement(client: Asking, asked: Asked) -> Asked:
    _whose(client, asked)
    value = checked_value(asked["value"], checked_path(asked["path"]))
    return {**asked, "path": _sent(asked["path"]), "value": value}


def _element(client: Asking, asked: Asked) -> Asked:
    _whose(client, asked)
    return {**asked, "path": _sent(asked["path"])} if asked["value"] is None else _statement(client, asked)


def _reversion(client: Asking, asked: Asked) -> Asked:
    _whose(client, asked)
    path, to = asked["path"], asked["to"]
    where = "" if isinstance(path, str) and path == "" else _sent(path)
    moment = _moment(to)
    if isinstance(to, str) and requests.RevertFact.of(path=where, to=moment).moment() != to:
        raise no_such_event(to)  # the service would take it for a time
    return {**asked, "path": where, "to": moment}


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


class FactCalls(Asking):
    """MemoryClient's calls about facts."""

    fetch_facts = sends(MemoryAgent.fetch_facts, "GET facts", one(wire.Facts), prepare=_whose)
    fact_history = pages(MemoryAgent.fact_history, "GET facts/history", wire.FactRecord, prepare=_where)
    set_fact = sends(
        MemoryAgent.set_fact,
        "PUT facts",
        _RECORD,
        requests.SetFact,
        prepare=_statement,
        note="Without a key the client makes its own, for the requests of this call alone.",
    )
    add_fact = sends(MemoryAgent.add_fact, "POST facts/add", _RECORD, requests.AddFact, prepare=_statement)
    retract_fact = sends(
        MemoryAgent.retract_fact,
        "POST facts/retract",
        _RECORD,
        requests.RetractFact,
        prepare=_element,
    )
    revert_fact = sends(
        MemoryAgent.revert_fact, "POST facts/revert", _RECORD, requests.RevertFact, prepare=_reversion
    )

    @stands_for(MemoryAgent.reextract_facts)
    async def reextract_facts(self, asked: Asked) -> int:
        return one(RebuildStep)(
            await self._ask("POST facts/reextract", asked, repeatable=True, long=True)
        ).turns
