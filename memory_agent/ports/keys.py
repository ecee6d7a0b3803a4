"""The port of the store of API keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from memory_agent.domain import ApiKey


class KeyStore(Protocol):
    """The API keys of a service, without their secrets. Several processes may use one at the same time.

    What one process put or revoked, every other finds from then on. Raises StoreUnavailable where the same call may
    work later, StoreError where it will not, NotOpen before `open` and after `close`.
    """

    async def open(self) -> None:
        """Connect and create what is missing. Idempotent, and safe when processes do it at once."""

    async def close(self) -> None:
        """Release what `open` made; a client that was handed in stays open. Idempotent."""

    async def put(self, key: ApiKey) -> None:
        """Store a new key durably: once this returned, it survives the death of this process and of the server's.

        Raises StoreError if there is a key of this id, which then stays as it is. A call that raises StoreUnavailable
        may have stored the key.
        """

    async def find(self, key_id: str) -> ApiKey | None:
        """The key of this id, expired and revoked ones too; None if there is none."""

    async def list(self, tenant: str | None = None) -> Sequence[ApiKey]:
        """Every key, or those of a tenant, in the order of `created_at`, then of the id."""

    async def revoke(self, key_id: str, at: datetime) -> bool:
        """Revoke the key as of `at`, durably; False if there is none of this id.

        One that is revoked already keeps the time when that was, so a repeat changes nothing.
        """
