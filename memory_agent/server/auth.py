"""Authentication: API keys looked up, their permissions, and their quotas."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from memory_agent.domain import ALL_TENANTS, DEFAULT_TENANT, Scope, checked_tenant
from memory_agent.errors import AccessDenied
from memory_agent.keys import DUMMY, matches, read_token, why_invalid
from memory_agent.lazily import Recent

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from memory_agent.domain import ApiKey
    from memory_agent.ports import Clock, KeyStore

KEY_CACHE_SECONDS: Final = 5.0
"""For so long a revoked key may go on working in a process that knows it."""
_REMEMBERED_KEYS: Final = 10_000
_UNKNOWN: Final = "the API key is unknown; copy it whole, from ma_ to its end"
_WANTED: Final = "send the header 'Authorization: Bearer ma_…' (memory-agent keys create makes a key)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """An authenticated caller: all users of `tenant`, or `user_id` alone; `read_only`: no changes.

    `all_tenants`: it may name any tenant in a request, and look after the service as a whole.
    """

    tenant: str = DEFAULT_TENANT
    user_id: str | None = None
    read_only: bool = False
    all_tenants: bool = False
    key_id: str = ""
    """Empty where no keys are asked for."""
    requests_per_minute: int | None = None
    max_body_bytes: int | None = None

    def check_user(self, user_id: str) -> None:
        """Raises AccessDenied if this may not ask for that user."""
        if self.user_id not in (None, user_id):
            raise AccessDenied(f"this key is for user {self.user_id!r} alone, not for {user_id!r:.80}")

    def scope(self, user_id: str) -> Scope:
        """All threads of a user. Raises AccessDenied if this may not ask for that one."""
        self.check_user(user_id)
        return Scope.of(user_id, tenant=self.tenant)

    def acting_for(self, tenant: str | None) -> Principal:
        """This for the users of the tenant that a request names; None: as the key says. Raises AccessDenied, InvalidInput."""
        if tenant is None or tenant == self.tenant:
            return self
        if not self.all_tenants:
            raise AccessDenied(f"this key is for tenant {self.tenant!r}, not for {tenant!r:.80}")
        return replace(self, tenant=checked_tenant(tenant))

    def check_all_tenants(self) -> None:
        """Raises AccessDenied if this may not look after the service as a whole."""
        if not self.all_tenants:
            raise AccessDenied(
                "this concerns everybody's memory; ask with a key that `memory-agent keys create --all-tenants` made"
            )

    def check_may_write(self) -> None:
        """Raises AccessDenied if this may only read."""
        if self.read_only:
            raise AccessDenied("this key may only read; ask for one without --read-only")


LOCAL: Final = Principal(all_tenants=True)
"""Whoever asks a service that asks for no keys: all of the default tenant, unless the request names another one."""


class Authenticator:
    """Finds out who a token stands for. What the store said of a key is believed for `cache_seconds`."""

    def __init__(
        self,
        keys: KeyStore | None,
        clock: Clock,
        *,
        cache_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
        own: ApiKey | None = None,
    ) -> None:
        """`own`: a key that is valid besides, as long as this lives. Without `keys` and `own` everybody is `LOCAL`."""
        self._keys = keys
        self._own = own
        self._clock = clock
        self._cache_seconds = cache_seconds
        self._monotonic = monotonic
        self._known: Recent[str, tuple[float, ApiKey | None]] = Recent(_REMEMBERED_KEYS)
        self.last_used: dict[str, datetime] = {}
        """When each key was last let in by this process, by its id."""

    async def principal(self, token: str | None) -> Principal:
        """The caller that the token stands for. Raises AccessDenied (401), StoreUnavailable if keys can't be looked up."""
        if self._keys is None and self._own is None:
            return LOCAL
        if token is None:
            raise AccessDenied(f"no API key was given; {_WANTED}", status=401)
        parsed = read_token(token)
        if parsed is None:
            raise AccessDenied(_UNKNOWN, status=401)
        key_id, secret = parsed
        key = await self._find(key_id)
        # An unknown id takes the same comparison as a wrong secret, and gets the same answer.
        if not matches(key or DUMMY, secret) or key is None:
            raise AccessDenied(_UNKNOWN, status=401)
        return self._allowed(key)

    async def again(self, key_id: str) -> Principal:
        """The caller whose key was shown before ("" where none is asked for), if it still counts. Raises as `principal`."""
        if self._keys is None and self._own is None:
            return LOCAL
        key = await self._find(key_id)
        if key is None:
            raise AccessDenied(_UNKNOWN, status=401)
        return self._allowed(key)

    async def keys(self, principal: Principal, *, everybodys: bool) -> list[ApiKey]:
        """The keys that `principal` may know of: of all tenants, of its tenant, or (of a single user) its own. Raises StoreUnavailable."""
        own = [] if self._own is None else [self._own]
        if everybodys:
            principal.check_all_tenants()
            return [*own, *(await self._keys.list() if self._keys else ())]
        if principal.user_id is not None:
            found = await self._find(principal.key_id)
            return [] if found is None else [found]
        return [*(await self._keys.list(principal.tenant) if self._keys else ())]

    @property
    def asks(self) -> bool:
        """False where no keys are asked for."""
        return self._keys is not None or self._own is not None

    def _allowed(self, key: ApiKey) -> Principal:
        now = self._clock.now()
        reason = why_invalid(key, now)
        if reason is not None:
            raise AccessDenied(f"the API key {key.id} {reason}", status=401)
        self.last_used[key.id] = now
        return Principal(
            tenant=DEFAULT_TENANT if key.tenant == ALL_TENANTS else key.tenant,
            user_id=key.user_id,
            read_only=key.read_only,
            all_tenants=key.tenant == ALL_TENANTS,
            key_id=key.id,
            requests_per_minute=key.requests_per_minute,
            max_body_bytes=key.max_body_bytes,
        )

    def has_met(self, token: str) -> bool:
        """True if this process has seen the key that the token names, valid or not any more; the store is not asked."""
        parsed = read_token(token)
        if parsed is None:
            return False
        is_own = self._own is not None and parsed[0] == self._own.id
        return is_own or self._known.get(parsed[0], (0.0, None))[1] is not None

    async def _find(self, key_id: str) -> ApiKey | None:
        if self._own is not None and key_id == self._own.id:
            return self._own
        if self._keys is None:
            return None
        now = self._monotonic()
        until, key = self._known.got(key_id) or (float("-inf"), None)
        if until > now:
            return key
        key = await self._keys.find(key_id)
        self._known.put(key_id, (now + self._cache_seconds, key))
        return key


def named_tenant(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The tenant that a request names, which only a key for all tenants may; None: as the key says."""
    return _header(headers, b"memory-agent-tenant")


def bearer_token(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The token of an ASGI scope's headers: `Authorization: Bearer …`. A query string would end up in logs."""
    kind, _, token = (_header(headers, b"authorization") or "").strip().partition(" ")
    return token.strip() or None if kind.lower() == "bearer" else None


def _header(headers: list[tuple[bytes, bytes]], name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in headers if key == name), None)
