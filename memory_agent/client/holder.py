"""Check that the process at an address is the one that left it beside a lock, before the key goes there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_agent.client.connection import Call
from memory_agent.client.replies import value_of
from memory_agent.errors import MemoryAgentError
from memory_agent.keys import is_proof, new_nonce
from memory_agent.wire.work import Proof

if TYPE_CHECKING:
    from memory_agent.client.service import ServiceClient

_SECONDS: Final = 15.0


async def is_holder(service: ServiceClient, token: str) -> bool:
    """True if the service can be reached and knows the token's key as its own. Asked once; the key is not sent."""
    nonce = new_nonce()
    call = Call(
        method="GET",
        path="/holder",
        params={"nonce": nonce},
        repeatable=False,
        seconds=_SECONDS,
        until=0.0,
        open_to_all=True,
    )
    try:
        answered = value_of(await service.connection.send(call), Proof)
    except MemoryAgentError:
        return False
    return is_proof(answered.proof, token, nonce)
