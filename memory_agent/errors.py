"""The error tree.

MemoryAgentError
├── InvalidInput            what the caller passed cannot be stored or asked for (also a ValueError)
│   ├── NotFound            there is no such user, thread, turn, topic, session or event
│   ├── IdempotencyKeyReused  the idempotency key belongs to another call; nothing was stored
│   └── RequestTooLarge     a service takes no request of this size
├── ConfigError             a setting is unknown or impossible (also a ValueError)
├── DataDirInUse            another process holds the embedded stores
├── NotOpen                 a method was called before `async with` or after closing
├── TurnForgotten           the idempotency key belongs to a turn, session or edit that was forgotten since
├── SettleTimeout           `settle` ran out of time with stages still owed (also a TimeoutError)
├── SweepRunning            another sweep is at work; the message says whose and since when
├── TurnsParked             `settle` found turns whose stages keep failing
├── EventsLost              events after the given id are not kept any more (or the id is none); read the state anew
├── EventsUnsupported       the document store tells no events: a MongoDB that is no replica set
├── AccessDenied            a service refuses the key, or the key is not for this
├── RateLimited             the key has asked too much of a service for now; `.retry_after` seconds
│   └── Busy                so much work is owed that no turns are taken for now; nothing was stored
└── BackendError            a store, an index or a model failed
    ├── Unavailable         for now: unreachable, timed out, overloaded, refused our credentials; worth a retry
    │   ├── StoreUnavailable
    │   ├── VectorIndexUnavailable
    │   ├── EmbedderUnavailable
    │   │   └── ModelNotFound   no such embedding model here yet; the message says the ways to get it
    │   ├── LLMUnavailable
    │   └── ServiceUnavailable  the memory service cannot be reached, or is not ready (MemoryClient)
    ├── StoreError          the document store refused what it was given
    ├── VectorIndexError    the vector index refused what it was given
    ├── EmbedderError       the embedder refused what it was given
    │   └── UnsupportedModel  the model is of a kind that ONNX Runtime is not asked to run; the message says what
    ├── RedactionFailed     the application's redactor failed; the text went nowhere
    ├── ServiceError        the memory service failed in a way that has no class here (MemoryClient)
    └── LLMError            the language model's server refused the request
        ├── ModelRefused    the model, or a filter before it, answered that it will not; `.reply` keeps its words
        └── MalformedReply  the reply is not what the prompt asked for; `.reply` keeps it

Adapters translate their driver's errors into these, once, with the cause kept (`raise … from`).
`Unavailable` is what the worker waits out; every other error of a turn is counted and, in the end, parks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.domain import ParkedTurn


class MemoryAgentError(Exception):
    """Root of everything that this package raises on purpose."""


class InvalidInput(MemoryAgentError, ValueError):
    """An argument that cannot be stored or asked for; the message names the value and the remedy.

    `remedy`: the call that helps, and what it does, as `("topics", "lists them")`. The message ends with it; who has
    another word for the call says `wrong`, and then that.
    """

    def __init__(self, wrong: str, *, remedy: tuple[str, str] | None = None) -> None:
        self.wrong = wrong
        self.remedy = remedy
        super().__init__(wrong if remedy is None else f"{wrong}; {remedy[0]}() {remedy[1]}")


class NotFound(InvalidInput):
    """There is no such user, thread, turn, topic, session or event; the message names it."""


class IdempotencyKeyReused(InvalidInput):
    """The idempotency key belongs to a call that said something else; nothing was stored."""

    @classmethod
    def of(cls, key: str, what: str) -> IdempotencyKeyReused:
        """`what`: that which is not as the first call had it."""
        return cls(
            f"idempotency_key is {key!r}, which an earlier call of this thread used with another {what}; nothing was"
            " stored. Repeat that call as it was, or use a new key"
        )


class RequestTooLarge(InvalidInput):
    """A service takes no request of this size; the message says what it takes."""


class ConfigError(MemoryAgentError, ValueError):
    """A setting is unknown or impossible; the message names it and what would be valid."""


class DataDirInUse(MemoryAgentError):
    """Another process holds the embedded stores; the message says which and how to run with servers."""


class NotOpen(MemoryAgentError, RuntimeError):
    """A method that needs the stores was called before `async with` or after closing."""


class TurnForgotten(MemoryAgentError):
    """The idempotency key belongs to a turn, a session or an edit that was forgotten since; nothing was stored."""


class SettleTimeout(MemoryAgentError, TimeoutError):
    """`settle` ran out of time with stages still owed."""


class TurnsParked(MemoryAgentError):
    """`settle` found turns whose stages keep failing; `.parked` lists them with their last error."""

    def __init__(self, parked: Sequence[ParkedTurn]) -> None:
        self.parked = tuple(parked)
        first = self.parked[0]
        super().__init__(
            f"{len(self.parked)} turn(s) are parked, the first {first.turn_id} of user"
            f" {first.scope.tenants_user_id!r}, thread {first.thread_id!r}, owing {', '.join(first.pending)}"
            f" after {first.attempts} attempts: {first.last_error:.500}. Mend the cause, then call retry_parked()"
            " (or `memory-agent retry`)."
        )


class SweepRunning(MemoryAgentError):
    """Another sweep is at work; the message says whose, since when, and until when its lease goes."""


class EventsLost(MemoryAgentError):
    """The events after the given one are not kept any more, or it is no event's id. Read the state anew."""


class EventsUnsupported(MemoryAgentError):
    """The document store tells no events: MongoDB does so as a replica set only."""


class AccessDenied(MemoryAgentError):
    """A service refuses the key (`.status` 401), or the key is not for this (403)."""

    def __init__(self, message: str, *, status: int = 403) -> None:
        self.status = status
        super().__init__(message)


class RateLimited(MemoryAgentError):
    """The key has asked too much of a service for now."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        self.retry_after = retry_after
        """In seconds."""
        super().__init__(message)


class Busy(RateLimited):
    """More turns owe work than may; nothing was stored. The same call may work later."""


class BackendError(MemoryAgentError):
    """A store, an index or a model failed."""


class Unavailable(BackendError):
    """For now: unreachable, timed out, overloaded or refusing our credentials. The same call may work later."""

    part = "backend"
    """The word for this part in `MemoryContext.degraded` and in `status()`."""

    retry_after: float | None = None
    """In how many seconds the part wants to be asked again, if it said so."""


class StoreUnavailable(Unavailable):
    """The document store cannot be reached."""

    part = "store"


class VectorIndexUnavailable(Unavailable):
    """The vector index cannot be reached."""

    part = "vector_index"


class EmbedderUnavailable(Unavailable):
    """The embedding model cannot be reached."""

    part = "embedder"


class ModelNotFound(EmbedderUnavailable):
    """No such embedding model here; the message says the ways to get it. Embedding is owed until there is one."""


class LLMUnavailable(Unavailable):
    """The language model cannot be reached."""

    part = "llm"


class ServiceUnavailable(Unavailable):
    """The memory service cannot be reached, or is not ready."""

    part = "service"


class StoreError(BackendError):
    """The document store refused what it was given."""


class VectorIndexError(BackendError):
    """The vector index refused what it was given."""


class EmbedderError(BackendError):
    """The embedder refused what it was given."""


class UnsupportedModel(EmbedderError):
    """The embedding model is of a kind that cannot be run without torch; the message says what is not understood."""


class RedactionFailed(BackendError):
    """The application's redactor failed; what it was to clean was neither stored nor sent."""


class ServiceError(BackendError):
    """The memory service failed in a way that has no class of its own here."""


class LLMError(BackendError):
    """The language model's server refused the request, and takes others."""


class ModelRefused(LLMError):
    """The model, or a filter before it, answered that it will not do what it was asked; a retry hardly helps."""

    def __init__(self, message: str, *, reply: str = "") -> None:
        self.reply = reply
        super().__init__(message)


class MalformedReply(LLMError):
    """The model's reply is not what the prompt asked for."""

    def __init__(self, message: str, *, reply: str) -> None:
        self.reply = reply
        super().__init__(message)
