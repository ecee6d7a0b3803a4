"""Who asks: API keys looked up, what each may do, and how much of it."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.domain import DEFAULT_TENANT
from memory_agent.errors import AccessDenied
from memory_agent.keys import DUMMY, matches, read_token, why_invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory_agent.domain import ApiKey
    from memory_agent.ports import Clock, KeyStore

_REMEMBERED_KEYS: Final = 10_000
_WANTED: Final = "send the header 'Authorization: Bearer ma_…' (memory-agent keys create makes a key)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """Who asks, and what for they may: users of `tenant`, or `user_id` alone; `read_only`: nothing that changes anything."""

    tenant: str = DEFAULT_TENANT
    user_id: str | None = None
    read_only: bool = False
    key_id: str = ""
    """Empty where no keys are asked for."""
    requests_per_minute: int | None = None
    max_body_bytes: int | None = None

    def check_user(self, user_id: str) -> None:
        """Raises AccessDenied if this may not ask for that user."""
        if self.user_id not in (None, user_id):
            raise AccessDenied(f"this key is for user {self.user_id!r} alone, not for {user_id!r:.80}")

    def check_may_write(self) -> None:
        """Raises AccessDenied if this may only read."""
        if self.read_only:
            raise AccessDenied("this key may only read; ask for one without --read-only")


LOCAL: Final = Principal()
"""Whoever asks a service that asks for no keys: all of the default tenant."""


class Authenticator:
    """Finds out who a token stands for. What the store said of a key is believed for `cache_seconds`."""

    def __init__(
        self,
        keys: KeyStore | None,
        clock: Clock,
        *,
        cache_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without `keys` everybody is `LOCAL`."""
        self._keys = keys
        self._clock = clock
        self._cache_seconds = cache_seconds
        self._monotonic = monotonic
        self._known: OrderedDict[str, tuple[float, ApiKey | None]] = OrderedDict()

    async def principal(self, token: str | None) -> Principal:
        """Who the token stands for. Raises AccessDenied (401), StoreUnavailable if keys can't be looked up."""
        if self._keys is None:
            return LOCAL
        if token is None:
            raise AccessDenied(f"no API key was given; {_WANTED}", status=401)
        parsed = read_token(token)
        if parsed is None:
            raise AccessDenied(f"that is no API key; {_WANTED}", status=401)
        key_id, secret = parsed
        key = await self._find(self._keys, key_id)
        # An unknown id takes the same comparison as a wrong secret, and gets the same answer.
        if not matches(key or DUMMY, secret) or key is None:
            raise AccessDenied("the API key is unknown", status=401)
        reason = why_invalid(key, self._clock.now())
        if reason is not None:
            raise AccessDenied(f"the API key {key.id} {reason}", status=401)
        return Principal(
            tenant=key.tenant,
            user_id=key.user_id,
            read_only=key.read_only,
            key_id=key.id,
            requests_per_minute=key.requests_per_minute,
            max_body_bytes=key.max_body_bytes,
        )

    async def _find(self, keys: KeyStore, key_id: str) -> ApiKey | None:
        now = self._monotonic()
        until, key = self._known.get(key_id, (float("-inf"), None))
        if until > now:
            self._known.move_to_end(key_id)
            return key
        key = await keys.find(key_id)
        self._known[key_id] = (now + self._cache_seconds, key)
        self._known.move_to_end(key_id)
        while len(self._known) > _REMEMBERED_KEYS:
            self._known.popitem(last=False)
        return key


def bearer_token(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The token of an ASGI scope's headers: `Authorization: Bearer …`, or the WebSocket subprotocol `bearer.…`.

    A browser's WebSocket can set no other header, and a query string would end up in logs.
    """
    for name, value in headers:
        if name == b"authorization":
            kind, _, token = value.decode("latin-1").strip().partition(" ")
            return token.strip() if kind.lower() == "bearer" and token.strip() else None
    for name, value in headers:
        if name == b"sec-websocket-protocol":
            for protocol in value.decode("latin-1").split(","):
                if protocol.strip().startswith(BEARER_PROTOCOL):
                    return protocol.strip().removeprefix(BEARER_PROTOCOL)
    return None


BEARER_PROTOCOL: Final = "bearer."
