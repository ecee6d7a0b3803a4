"""Receipts of erasures: whom and what a forget call was about, by hashes that only the store's secret makes. Pure but for that.

They are kept when nothing else is, so that what was forgotten is known again in a backup of before.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.domain import ErasureReceipt

if TYPE_CHECKING:
    from datetime import datetime

    from memory_agent.domain import Erasure
    from memory_agent.ports import MetaStore

_NAME: Final = "secret"
_TURN_DIGITS: Final = 20
"""80 bits: of a thousand million turns hardly two share them, and a receipt may name ten thousand."""


@dataclass(frozen=True, slots=True)
class Hasher:
    """HMAC-SHA-256 of ids, each kind apart, by a secret of the store."""

    secret: bytes

    @classmethod
    async def of(cls, store: MetaStore) -> Hasher:
        """By the store's secret, which is made by whoever asks first."""
        await store.put_meta(_NAME, {"key": secrets.token_hex(32)}, only_new=True)
        found = await store.get_meta(_NAME) or {}
        return cls(bytes.fromhex(found["key"]))

    @property
    def key(self) -> str:
        """Name of the secret, which does not tell it."""
        return self._hash("key", "")[:16]

    def user(self, user_id: str) -> str:
        """Hash of a stored user id, tenant included."""
        return self._hash("user", user_id)

    def thread(self, user_id: str, thread_id: str) -> str:
        """Hash of a user's thread."""
        return self._hash("thread", f"{user_id}\0{thread_id}")

    def turn(self, turn_id: str) -> str:
        """Hash of a turn's id."""
        return self._hash("turn", turn_id)[:_TURN_DIGITS]

    def receipt(self, erasure: Erasure, *, at: datetime) -> ErasureReceipt:
        """Receipt of an erasure that begins at that time."""
        scope = erasure.scope
        return ErasureReceipt(
            id=erasure.id,
            at=at,
            key=self.key,
            tenant=scope.tenant,
            user=self.user(scope.user_id),
            thread=None if scope.thread_id is None else self.thread(scope.user_id, scope.thread_id),
            turns=tuple(map(self.turn, erasure.turn_ids or ())),
            before_id=erasure.before_id,
        )

    def _hash(self, kind: str, text: str) -> str:
        return hmac.new(self.secret, f"{kind}:{text}".encode(), hashlib.sha256).hexdigest()
