"""Hashes of ids that only the store's secret makes: for what is kept when nothing else is. Pure.

Receipts know by them what was forgotten, when a backup of before brings it back; and what has to stay of forgotten turns (the highest
number of their thread, the keys of their calls) is kept under hashes in place of user, thread and turn.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain.base import Scope
from memory_agent.domain.work import ErasureReceipt

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from memory_agent.domain.work import Erasure

HASHING: Final = "secret"
"""Name of the metadata that holds the secret."""
_TURN_DIGITS: Final = 20
"""80 bits: of a thousand million turns hardly two share them, and a receipt may name ten thousand."""
_TENANT: Final = "0-forgotten"
"""Whose users the hashed ones are."""
_TIME_CHARS: Final = len("01890a5d-ac96")
"""The part of a UUIDv7 that is its time. It stays, for remains are asked for by when they were made."""


@dataclass(frozen=True, slots=True)
class Hasher:
    """HMAC-SHA-256 of ids, each kind apart, by a secret of the store."""

    secret: bytes

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> Hasher:
        """By the metadata of the name `HASHING`."""
        return cls(bytes.fromhex(meta["key"]))

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

    def remains(self, scope: Scope) -> Scope:
        """The scope under which what stays of the scope's forgotten turns is kept."""
        thread = None if scope.thread_id is None else self.thread(scope.user_id, scope.thread_id)
        return Scope.of(self._hash("remains", scope.user_id), thread, tenant=_TENANT)

    def gone(self, made_id: str) -> str:
        """The stand-in for the id of something that is gone: its time and a hash. A hash stays as it is."""
        if made_id[_TIME_CHARS : _TIME_CHARS + 1] == "#":
            return made_id
        return f"{made_id[:_TIME_CHARS]}#{self.turn(made_id)}"

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


def new_secret() -> dict[str, str]:
    """Metadata with a new secret."""
    return {"key": secrets.token_hex(32)}


def is_of_remains(user_id: str) -> bool:
    """True for a user id that `Hasher.remains` made."""
    return Scope(user_id=user_id).tenant == _TENANT
