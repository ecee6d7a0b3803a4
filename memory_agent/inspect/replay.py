"""The page of a replay: a thread's facts extracted anew, shown as differences, applied and taken back."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from memory_agent.errors import InvalidInput
from memory_agent.inspect.facts import said
from memory_agent.wire.facts import FactProposal

if TYPE_CHECKING:
    from starlette.responses import Response

    from memory_agent.facts.replay import FactProposal as Proposed
    from memory_agent.inspect.page import Page

_MOST_TURNS: Final = 5_000
"""Of a thread that is extracted anew while a browser waits."""
_PACKED_CHARS: Final = 48_000
"""What a form carries; below the 64 KB that it may have."""
_MOST_BYTES: Final = 8_000_000


async def replay(page: Page) -> Response:
    """Propose, apply what was proposed, or take that back. Raises InvalidInput."""
    match page.form.get("do", ""):
        case "propose":
            return await _propose(page)
        case "apply":
            return _shown(page, replayed=await page.agent.apply_replay(_unpacked(page)))
        case "undo":
            await page.agent.undo_replay(page.form.get("replay") or None)
            return _shown(page)
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
    packed = packed_proposal(proposal)
    return await page.show(
        "proposal.html",
        proposal=proposal,
        packed=packed if len(packed) <= _PACKED_CHARS else None,
        turns={turn.id: turn for turn in found},
        said=said,
    )


def packed_proposal(proposal: Proposed) -> str:
    """The proposal as text for a field of a form."""
    return base64.urlsafe_b64encode(
        zlib.compress(FactProposal.of(proposal).model_dump_json().encode())
    ).decode()


def _unpacked(page: Page) -> Proposed:
    """The proposal that the form carries. Raises InvalidInput."""
    wrong = InvalidInput("the proposal cannot be read; propose anew")
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(base64.urlsafe_b64decode(page.form.get("proposal", "")), _MOST_BYTES)
        if not unpacking.eof:
            raise wrong
        proposal = FactProposal.model_validate_json(text)
    except (ValueError, zlib.error, ValidationError):
        raise wrong from None
    return proposal.domain(tenant=page.principal.tenant)


def _shown(page: Page, **query: str) -> Response:
    return page.go(
        "of", page.principal.tenant, "users", page.path("user"), page.path("thread"), "facts", **query
    )
