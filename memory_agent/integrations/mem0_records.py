"""Records in mem0's shape: a turn as one, ids that say where it is kept, owners, and mem0's filters over it. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
import operator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

from memory_agent.checks import MAX_METADATA_CHARS
from memory_agent.errors import InvalidInput
from memory_agent.integrations.values import compares

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memory_agent.domain import Turn

OWNERS: Final = ("user_id", "agent_id", "run_id")
THREAD: Final = "mem0"
"""Of what belongs to no run; a run's is `mem0:RUN`."""
_PROMOTED: Final = (*OWNERS, "actor_id", "role", "expiration_date")
ROOT: Final = "mem0_id"
VERSIONS: Final = "mem0_versions"
"""Of an updated memory: the id it keeps, and its earlier texts with the times from which they held."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """Whose memory one is. The user is `user_id`, or without one the agent or the run."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Owner:
        """From the ids among `given`. Raises InvalidInput if there are none, or empty ones."""
        ids = {name: _checked(name, given[name]) for name in OWNERS if given.get(name) is not None}
        if not ids:
            raise InvalidInput(
                "At least one of user_id, agent_id, run_id must be given: to search and get_all in filters, such as filters={'user_id': 'u1'}"
            )
        return cls(**ids)

    @property
    def user(self) -> str:
        """The user of the memory behind."""
        if self.user_id is not None:
            return self.user_id
        return f"agent:{self.agent_id}" if self.agent_id is not None else f"run:{self.run_id}"

    @property
    def thread(self) -> str:
        """The thread in which what is added is kept."""
        return THREAD if self.run_id is None else f"{THREAD}:{self.run_id}"

    @property
    def ids(self) -> dict[str, str]:
        given = {name: getattr(self, name) for name in OWNERS}
        return {name: value for name, value in given.items() if value is not None}


def _checked(name: str, value: object) -> str:
    text = str(value).strip()
    if not text or any(char.isspace() for char in text):
        raise InvalidInput(f"Invalid {name}: {value!r:.80}. It must be text without blanks in it")
    return text


def is_ours(thread_id: str) -> bool:
    """True of threads that hold such memories."""
    return thread_id == THREAD or thread_id.startswith(f"{THREAD}:")


# --- ids -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a memory is kept, or was before it was updated."""

    user: str
    thread: str
    seq: int
    turn_id: str

    @classmethod
    def read(cls, memory_id: object) -> Place | None:
        """From a memory's id; None for what is none."""
        try:
            encoded = str(memory_id).encode()
            user, thread, seq, turn_id = json.loads(
                base64.urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4))
            )
        except (ValueError, TypeError):
            return None
        known = isinstance(user, str) and isinstance(thread, str) and isinstance(turn_id, str)
        if not known or type(seq) is not int or seq < 1 or not is_ours(thread):
            return None
        return cls(user=user, thread=thread, seq=seq, turn_id=turn_id)


def id_of(turn: Turn) -> str:
    """The id of the memory that a turn is: the same after an update."""
    root: str | None = turn.metadata.get(ROOT)
    if root is not None:
        return root
    where = json.dumps([turn.scope.tenants_user_id, turn.thread_id, turn.seq, turn.id], ensure_ascii=False)
    return base64.urlsafe_b64encode(where.encode()).decode().rstrip("=")


# --- records -------------------------------------------------------------------------------------------------
def record_of(turn: Turn, **more: Any) -> dict[str, Any]:
    """A memory as mem0 shows it."""
    payload = payload_of(turn)
    held = turn.metadata.get(VERSIONS) or []
    own = {name: value for name, value in turn.metadata.items() if name not in (*_PROMOTED, ROOT, VERSIONS)}
    return {
        "id": id_of(turn),
        "memory": turn.content,
        "hash": hashlib.md5(turn.content.encode(), usedforsecurity=False).hexdigest(),
        "metadata": own or None,
        **more,
        "created_at": held[0]["at"] if held else turn.timestamp.isoformat(),
        "updated_at": turn.timestamp.isoformat(),
        **{name: payload[name] for name in _PROMOTED if name in payload},
    }


def added(turn: Turn) -> dict[str, Any]:
    """The record that `add` gives of a memory."""
    said = {"id": id_of(turn), "memory": turn.content, "event": "ADD"}
    return {**said, "actor_id": turn.speaker, "role": turn.role}


def free(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Metadata without what says whose a memory is: that is told by arguments alone."""
    kept = (*OWNERS, "actor_id", "role", ROOT, VERSIONS)
    return {name: value for name, value in (metadata or {}).items() if name not in kept}


def with_version(metadata: dict[str, Any], turn: Turn) -> dict[str, Any]:
    """Metadata with the turn's text among the earlier versions: of these as many of the newest as it has room for.

    The first always stays, shortened if need be: it says since when there is the memory.
    """
    said = {"text": turn.content, "at": turn.timestamp.isoformat()}
    versions: list[dict[str, Any]] = [*(turn.metadata.get(VERSIONS) or []), said]
    first, others = versions[0], versions[1:]
    held = {**metadata, VERSIONS: [first, *others]}
    while others and len(repr(held)) > MAX_METADATA_CHARS:
        del others[0]
        held[VERSIONS] = [first, *others]
    while first["text"] and len(repr(held)) > MAX_METADATA_CHARS:
        first = {**first, "text": first["text"][: len(first["text"]) // 2]}
        held[VERSIONS] = [first]
    return held


def payload_of(turn: Turn) -> dict[str, Any]:
    """The values that filters look at."""
    speaker = {} if turn.speaker is None else {"actor_id": turn.speaker}
    return {**turn.metadata, "role": turn.role, **speaker}


def history_of(turn: Turn) -> list[dict[str, Any]]:
    """The changes of a memory as mem0 lists them, oldest first."""
    held = [*(turn.metadata.get(VERSIONS) or []), {"text": turn.content, "at": turn.timestamp.isoformat()}]
    return [
        {
            "id": f"{id_of(turn)}.{number}",
            "memory_id": id_of(turn),
            "old_memory": held[number - 1]["text"] if number else None,
            "new_memory": version["text"],
            "event": "UPDATE" if number else "ADD",
            "created_at": held[0]["at"],
            "updated_at": version["at"],
            "is_deleted": False,
            "actor_id": turn.speaker,
            "role": turn.role,
        }
        for number, version in enumerate(held)
    ]


def expiry(value: object) -> str | None:
    """A day as `YYYY-MM-DD`. Raises InvalidInput."""
    if value is None:
        return None
    if isinstance(value, datetime):
        value = value.date()
    try:
        return value.isoformat() if isinstance(value, date) else date.fromisoformat(str(value)).isoformat()
    except ValueError:
        raise InvalidInput(f"expiration_date is {value!r:.80}; pass a date as YYYY-MM-DD") from None


def is_over(turn: Turn, today: date | None = None) -> bool:
    """True if the memory's last day is past."""
    last = turn.metadata.get("expiration_date")
    try:
        return last is not None and date.fromisoformat(str(last)[:10]) < (today or datetime.now(UTC).date())
    except ValueError:  # somebody's own metadata of this name, which is no day
        return False


# --- filters ---------------------------------------------------------------------------------------------------
_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "contains": operator.contains,
    "in": lambda value, other: value in other,
    "nin": lambda value, other: value not in other,
    "icontains": lambda value, other: value is not None and str(other).casefold() in str(value).casefold(),
}
_MISSING: Final = object()


def passes(payload: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """True if all of mem0's conditions hold. Raises InvalidInput for one that there isn't."""
    return all(_holds(payload, name, test) for name, test in wanted.items())


def _holds(payload: Mapping[str, Any], name: str, test: Any) -> bool:
    if name in ("AND", "OR", "NOT"):
        if not isinstance(test, list) or not test:
            raise InvalidInput(f"{name} takes a list of conditions, not {test!r:.80}")
        found = [passes(payload, each) for each in test]
        return all(found) if name == "AND" else any(found) if name == "OR" else not any(found)
    value = payload.get(name, _MISSING)
    if test == "*":
        return value is not _MISSING
    if not isinstance(test, dict):
        return bool(value == test)
    return compares(None if value is _MISSING else value, test, _COMPARED)
