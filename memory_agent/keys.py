"""API keys: how one is made, read and compared. Pure; a `KeyStore` keeps them, without their secrets.

A token is `ma_<id>_<secret>` in lower-case base32 (RFC 4648, section 6, without padding): an id of 80 random bits, by
which the key is found and named, and a secret of 256. Neither holds an underscore, so it is read in one way only; a
double click selects it whole, and scanners that look for leaked secrets find it by its form.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from datetime import UTC, datetime
from typing import Final, Literal

from memory_agent.checks import checked_id, checked_time, is_whole
from memory_agent.domain import ALL_TENANTS, DEFAULT_TENANT, ApiKey, checked_tenant
from memory_agent.errors import InvalidInput

KeyState = Literal["valid", "expired", "revoked"]

MAX_LIMIT: Final = 10**12
"""The highest number of requests or bytes that a key can be limited to."""
_ID_BYTES: Final = 10
_SECRET_BYTES: Final = 32
_TOKEN: Final = re.compile(r"ma_([a-z2-7]{16})_([a-z2-7]{52})", re.ASCII)
_ID: Final = re.compile(r"(?:ma_)?([a-z2-7]{16})(?:_[a-z2-7]*)?", re.ASCII)
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)

DUMMY: Final = ApiKey(
    id="", tenant=DEFAULT_TENANT, secret_hash="0" * 64, created_at=_LONG_AGO, revoked_at=_LONG_AGO
)
"""Matches no secret and is not valid. Compare with it where no key is found: that takes as long as a wrong secret."""


def new_key(
    tenant: str,
    *,
    user_id: str | None = None,
    read_only: bool = False,
    label: str = "",
    expires_at: datetime | None = None,
    requests_per_minute: int | None = None,
    max_body_bytes: int | None = None,
    now: datetime,
) -> tuple[ApiKey, str]:
    """A new key and its token, which holds the secret and cannot be made from the key again.

    For all users of `tenant`, or for its user `user_id` alone; ALL_TENANTS: for everybody's, and to look after the
    service (what is owed, the worker, the sweep). `label`: what people know the key by. The limits stand
    instead of the service's settings.
    Raises InvalidInput for a tenant, user or label that can be none, for limits that are no whole numbers from 1 to
    MAX_LIMIT, and for an `expires_at` that has no time zone or is not later than `now`.
    """
    now = checked_time("now", now)
    if expires_at is not None:
        expires_at = checked_time("expires_at", expires_at)
        if expires_at <= now:
            raise InvalidInput(
                f"expires_at {expires_at.isoformat()} is past; pass a time after {now.isoformat()}"
            )
    if tenant == ALL_TENANTS and user_id is not None:
        raise InvalidInput(
            f"user_id is {user_id!r:.80}, and a key for all tenants is for no single user; name its tenant"
        )
    if not isinstance(read_only, bool):
        raise InvalidInput(f"read_only is {read_only!r:.80}; pass True or False")
    secret = _base32(_SECRET_BYTES)
    key = ApiKey(
        id=_base32(_ID_BYTES),
        tenant=tenant if tenant == ALL_TENANTS else checked_tenant(tenant),
        secret_hash=_hash(secret),
        created_at=now,
        user_id=None if user_id is None else checked_id("user_id", user_id),
        read_only=read_only,
        label=label if label == "" else checked_id("label", label),
        expires_at=expires_at,
        requests_per_minute=_checked_limit("requests_per_minute", requests_per_minute),
        max_body_bytes=_checked_limit("max_body_bytes", max_body_bytes),
    )
    return key, f"ma_{key.id}_{secret}"


def read_token(text: str) -> tuple[str, str] | None:
    """The id and the secret in a token, or None if `text` is none. Nothing is trimmed or folded."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else (found[1], found[2])


def read_id(text: str) -> str | None:
    """The id in what somebody calls a key by: its id, or the token of which the secret may be cut short; else None."""
    found = _ID.fullmatch(text)
    return None if found is None else found[1]


def matches(key: ApiKey, secret: str) -> bool:
    """True if `secret` is the key's. Takes the same time wherever the first difference is.

    One SHA-256 is enough, and right: slow hashes (Argon2, bcrypt) are for passwords, which are so few that they can be
    tried one after the other. Of 2^256 secrets nobody tries a noticeable part at any speed, salted or not, while a slow
    hash on every request would be a way to wear the service out.
    """
    return hmac.compare_digest(_hash(secret).encode(), key.secret_hash.encode("utf-8", "replace"))


def new_nonce() -> str:
    """A nonce: a random value to ask a proof for, once."""
    return secrets.token_hex(16)


def proof_of(key: ApiKey, nonce: str) -> str:
    """The answer to `nonce` that only a holder of the key can give; it tells nothing of the key."""
    return _proof(key.secret_hash, nonce)


def is_proof(proof: str, token: str, nonce: str) -> bool:
    """True if `proof` comes from a holder of the key of this token, which need not be sent there to find that out."""
    parsed = read_token(token)
    if parsed is None:
        return False
    wanted = _proof(_hash(parsed[1]), nonce)
    return hmac.compare_digest(wanted.encode(), proof.encode("utf-8", "replace"))


def state_of(key: ApiKey, now: datetime) -> KeyState:
    """The state of the key at `now`.

    Once revoked it stays so, whatever the clocks of those who ask say; it has expired from `expires_at` on.
    """
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is not None and key.expires_at <= now:
        return "expired"
    return "valid"


def why_invalid(key: ApiKey, now: datetime) -> str | None:
    """The reason why a key may not be used at `now`, to follow the key's name; None if it may be."""
    state = state_of(key, now)
    if state == "valid":
        return None
    at = key.revoked_at if state == "revoked" else key.expires_at
    happened = "was revoked" if state == "revoked" else "expired"
    return f"{happened} on {at:%Y-%m-%d at %H:%M} UTC"


def _base32(size: int) -> str:
    return base64.b32encode(secrets.token_bytes(size)).decode("ascii").rstrip("=").lower()


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _proof(secret_hash: str, nonce: str) -> str:
    return hmac.digest(secret_hash.encode(), nonce.encode(), "sha256").hex()


def _checked_limit(name: str, value: object) -> int | None:
    if value is None:
        return None
    if not is_whole(value, 1, MAX_LIMIT):
        raise InvalidInput(
            f"{name} is {value!r:.80}; pass a whole number from 1 to {MAX_LIMIT:,}, or None for the service's own"
        )
    return int(value)
