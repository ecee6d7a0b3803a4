"""The page of a replay: a thread's facts extracted anew, shown as differences, applied and taken back."""

from __future__ import annotations

import base64
import hmac
import secrets
import zlib
from typing import TYPE_CHECKING, Final

from memory_agent.errors import InvalidInput
from memory_agent.inspect.facts import said
from memory_agent.wire.facts import FactProposal

if TYPE_CHECKING:
    from starlette.responses import Response

    from memory_agent.domain import Scope
    from memory_agent.facts.replay import FactProposal as Proposed
    from memory_agent.inspect.page import Page

_MOST_TURNS: Final = 5_000
"""Of a thread that is extracted anew while a browser waits."""
_SEAL_BYTES: Final = 32
_PACKED_CHARS: Final = 48_000
"""What a form carries; below the 64 KB that it may have."""
_KEY: Final = secrets.token_bytes(32)
"""Of this process, by which it knows its own proposals again: events in them are taken as extracted, at any size."""


async def replay(page: Page) -> Response:
    """Propose, apply what was proposed, or take that back. Raises InvalidInput."""
    match page.form.get("do", ""):
        case "propose":
            return await _propose(page)
        case "apply":
            replayed = await page.agent.apply_replay(_unpacked(page))
            return page.go(*page.of_thread("facts"), replayed=replayed)
        case "undo":
            await page.agent.undo_replay(page.form.get("replay") or None)
            return page.go(*page.of_thread("facts"))
        case other:
            raise InvalidInput(f"do is {other!r:.80}; use 'propose', 'apply' or 'undo'")


async def _propose(page: Page) -> Response:
    turns = (await page.agent.thread_summary()).turns
    if turns > _MOST_TURNS:
        raise InvalidInput(
            f"the thread has {turns:,} turns, which would take long; up to {_MOST_TURNS:,} are extracted anew from here,"
            " more by `memory-agent facts replay`"
        )
    proposal = await page.agent.replay_facts()
    ids = {
        source.turn_id for one in proposal.differences for source in (*one.sources_before, *one.sources_after)
    }
    known = sorted(one for one in ids if one)
    found = await page.store.list_turns(page.agent.scope, ids=known[:1_000]) if known else []
    # Nothing of it is kept here: what is forgotten meanwhile would live on in it.
    packed = packed_proposal(proposal, page.agent.scope)
    return await page.show(
        "proposal.html",
        proposal=proposal,
        packed=packed if len(packed) <= _PACKED_CHARS else None,
        turns={turn.id: turn for turn in found},
        said=said,
    )


def packed_proposal(proposal: Proposed, scope: Scope) -> str:
    """The proposal as text for a field of a form, sealed for its thread."""
    packed = zlib.compress(FactProposal.of(proposal).model_dump_json().encode())
    return base64.urlsafe_b64encode(_seal(packed, scope) + packed).decode()


def _seal(packed: bytes, scope: Scope) -> bytes:
    return hmac.digest(_KEY, repr(scope).encode() + packed, "sha256")


def _unpacked(page: Page) -> Proposed:
    """The proposal that the form carries. Raises InvalidInput."""
    try:
        sent = base64.urlsafe_b64decode(page.form.get("proposal", ""))
    except ValueError:
        sent = b""
    seal, packed = sent[:_SEAL_BYTES], sent[_SEAL_BYTES:]
    if not hmac.compare_digest(seal, _seal(packed, page.agent.scope)):
        raise InvalidInput("the proposal cannot be read, or another process made it; propose anew")
    proposal = FactProposal.model_validate_json(zlib.decompress(packed))
    return proposal.domain(tenant=page.principal.tenant)
