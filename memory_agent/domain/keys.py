"""API keys: who may ask a service for what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime


ALL_TENANTS: Final = "*"
"""What stands for the tenant of a key for all tenants; no tenant can have that name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiKey:
    """A key as it is stored: without the secret.

    `tenant`: whose users it may ask for (ALL_TENANTS: everybody's); `user_id` (as the tenant knows the user): only this one, None for all of the
    tenant's. `requests_per_minute` and `max_body_bytes`: instead of the service's settings.
    """

    id: str
    tenant: str
    secret_hash: str
    """SHA-256 of the secret, in hexadecimal."""
    created_at: datetime
    user_id: str | None = None
    read_only: bool = False
    label: str = ""
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    requests_per_minute: int | None = None
    max_body_bytes: int | None = None
