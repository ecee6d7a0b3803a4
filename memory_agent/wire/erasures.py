"""Erasures that are made again, as they are asked for."""

from typing import Annotated, Final, Literal

from pydantic import Field

from memory_agent import domain as values
from memory_agent.wire.base import Request, Time
from memory_agent.wire.requests import MAX_TURNS, Id, Name, example

MAX_RECEIPTS: Final = 100
_RECEIPT: Final = {
    "id": "0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e10",
    "at": "2026-11-24T09:00:00Z",
    "key": "5f0c8a1d2e3b4a59",
    "tenant": "default",
    "user": "9d3c",
    "before_id": "0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e11",
}


class GivenReceipt(Request):
    """Receipt of an erasure, as `GET /api/erasures` gave it."""

    model_config = example(_RECEIPT)

    id: Id
    at: Time
    key: Name
    tenant: Name
    user: Name
    thread: Name | None = None
    turns: Annotated[tuple[Name, ...], Field(max_length=MAX_TURNS, fail_fast=True)] = ()
    before_id: Id
    state: Literal["owed", "swept", "erased", "operator"] = "owed"

    def domain(self) -> values.ErasureReceipt:
        """The receipt."""
        return values.ErasureReceipt(**dict(self))


class ReplayErasures(Request):
    """Receipts of what is to be erased again, after a backup of before brought it back."""

    model_config = example({"receipts": [_RECEIPT]})

    receipts: Annotated[tuple[GivenReceipt, ...], Field(max_length=MAX_RECEIPTS, fail_fast=True)]
