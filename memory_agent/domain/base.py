"""Scopes, roles and stages: the parts of every other value; API keys, and messages to language models."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_args

import uuid_utils

from memory_agent.checks import checked_id
from memory_agent.errors import InvalidInput
from memory_agent.lazily import lazily

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


Role = Literal["user", "assistant", "system", "tool"]
GivenRole = Literal[Role, "human", "ai", "model", "developer", "function"]
"""A role as callers may name it; see `ROLE_OF`."""
Stage = Literal["index", "topics", "compact", "compress", "facts", "reextract"]
"""What can be owed to a stored turn, in the order the worker runs it."""
ROLES: Final[tuple[Role, ...]] = get_args(Role)
ROLE_OF: Final[Mapping[str, Role]] = {
    **{role: role for role in ROLES},
    "human": "user",  # LangChain
    "ai": "assistant",
    "model": "assistant",  # Gemini
    "developer": "system",  # OpenAI
    "function": "tool",
}
"""What a role is stored as: itself, or the role that frameworks have another name for."""
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)


def stages_but(without: Collection[str]) -> tuple[Stage, ...]:
    """All stages but those named, in order. Raises InvalidInput for a name that no stage has."""
    unknown = [without] if isinstance(without, str) else [name for name in without if name not in STAGES]
    if unknown:
        raise InvalidInput(f"without is {unknown[0]!r:.80}; pass a list of stages, of {', '.join(STAGES)}")
    return tuple(stage for stage in STAGES if stage not in without)


def role_of(value: object) -> Role | None:
    """The role that `value` names, by itself or by an alias of `ROLE_OF`; None if it names none."""
    return ROLE_OF.get(value) if isinstance(value, str) else None


def new_id() -> str:
    """A UUIDv7 as text: unique everywhere, and ids made later sort later."""
    return str(uuid_utils.uuid7())


def stored_at(turn_id: str) -> datetime:
    """The time of admission, in UTC to the millisecond, from the turn's UUIDv7 (RFC 9562, section 5.7)."""
    return datetime.fromtimestamp(uuid_utils.UUID(turn_id).timestamp / 1000, tz=UTC)


DEFAULT_TENANT: Final = "default"
"""Of users that belong to no other tenant, such as all of an application that runs embedded."""
BETWEEN: Final = "\x1f"
"""Between tenant and user in a stored user id. No id that comes in can hold it: control characters are refused."""
_TENANT: Final = lazily(re.compile, r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)


def checked_tenant(value: object) -> str:
    """`value` if it can name a tenant: 1 to 63 of a-z, 0-9, '_' and '-', the first a letter or digit.

    Raises InvalidInput.
    """
    if not isinstance(value, str) or _TENANT.fullmatch(value) is None:
        raise InvalidInput(
            f"tenant is {value!r:.80}; use 1 to 63 of a-z, 0-9, '_' and '-', the first a letter or digit"
        )
    return value


def split_user_id(user_id: str) -> tuple[str, str]:
    """The tenant of a stored user id, and the id that the tenant knows the user by."""
    tenant, between, user = user_id.partition(BETWEEN)
    return (tenant, user) if between else (DEFAULT_TENANT, user_id)


def tenants_range(tenant: str) -> tuple[str, str | None]:
    """From which text on, and below which (None: no end), the tenant's stored user ids sort.

    Those of `default` have no name before them, and so the other tenants' lie among them.
    """
    if checked_tenant(tenant) == DEFAULT_TENANT:
        return "", None
    return f"{tenant}{BETWEEN}", _beyond(tenant)


def next_of_tenant(tenant: str, user_id: str) -> str:
    """The lowest text above a stored user id at which another one of the tenant's users may be.

    Above one of another tenant's that is what comes after all of them.
    """
    found, _ = split_user_id(user_id)
    return f"{user_id}\0" if found == tenant else _beyond(found)


def _beyond(tenant: str) -> str:
    return tenant + chr(ord(BETWEEN) + 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """Whose memory: one thread of a user, or (`thread_id=None`) all threads of one user.

    There is no scope for "everybody": an empty or missing user id is refused, never read as "all".

    `user_id` is the one that is stored. That of a tenant's user begins with the tenant's name and a character that no
    id from outside can hold (`Scope.of` makes it, nothing else can), so whoever asks for a user has said which
    tenant's, in every store and index, and no query can leave the tenant out.
    """

    user_id: str
    thread_id: str | None = None

    def __post_init__(self) -> None:
        tenant, user = split_user_id(self.user_id) if isinstance(self.user_id, str) else ("", self.user_id)
        if user is not self.user_id:
            checked_tenant(tenant)
        checked_id("user_id", user)
        if self.thread_id is not None:
            checked_id("thread_id", self.thread_id)

    @classmethod
    def of(cls, user_id: str, thread_id: str | None = None, *, tenant: str = DEFAULT_TENANT) -> Scope:
        """The scope of a tenant's user, by the id that the tenant knows the user by.

        Raises InvalidInput for what can be no id or no tenant.
        """
        checked_id("user_id", user_id)
        if checked_tenant(tenant) == DEFAULT_TENANT:
            return cls(user_id=user_id, thread_id=thread_id)
        return cls(user_id=f"{tenant}{BETWEEN}{user_id}", thread_id=thread_id)

    @property
    def user(self) -> Scope:
        """All threads of the same user."""
        return Scope(user_id=self.user_id)

    @property
    def tenant(self) -> str:
        """Whose user it is."""
        return split_user_id(self.user_id)[0]

    @property
    def tenants_user_id(self) -> str:
        """The id that the tenant knows the user by."""
        return split_user_id(self.user_id)[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tenant:
    """All users of one tenant, whose work is counted and tried again together; nothing else is asked of so many."""

    name: str

    def __post_init__(self) -> None:
        checked_tenant(self.name)


class OfThread:
    """Base of what belongs to one thread of a user."""

    __slots__ = ()
    user_id: str
    thread_id: str

    @property
    def scope(self) -> Scope:
        return Scope(user_id=self.user_id, thread_id=self.thread_id)


class Counts:
    """Base of dataclasses of counts, which are added field by field."""

    __slots__ = ()

    def __add__(self, other: Self) -> Self:
        mine: Any = self
        added = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(mine)}
        return type(self)(**added)

    def __sub__(self, other: Self) -> Self:
        mine: Any = self
        left = {f.name: getattr(self, f.name) - getattr(other, f.name) for f in fields(mine)}
        return type(self)(**left)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message to a language model."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """A language model's reply with what it cost. `truncated`: cut off at the model's length limit."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    truncated: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage(Counts):
    """Requests that a language model answered, their tokens as its server counts them, and how long they took."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
