"""The error tree.

MemoryAgentError
├── InvalidInput            what the caller passed cannot be stored or asked for (also a ValueError)
├── ConfigError             a setting is unknown or impossible (also a ValueError)
├── DataDirInUse            another process holds the embedded stores
├── NotOpen                 a method was called before `async with` or after closing
├── TurnForgotten           the idempotency key belongs to a turn that was forgotten since
├── SettleTimeout           `settle` ran out of time with stages still owed (also a TimeoutError)
├── SweepRunning            another sweep is at work; the message says whose and since when
├── TurnsParked             `settle` found turns whose stages keep failing
└── BackendError            a store, an index or a model failed
    ├── Unavailable         for now: unreachable, timed out, overloaded, refused our credentials; worth a retry
    │   ├── StoreUnavailable
    │   ├── VectorIndexUnavailable
    │   ├── EmbedderUnavailable
    │   ├── RerankerUnavailable
    │   └── LLMUnavailable
    ├── StoreError          the document store refused what it was given
    ├── VectorIndexError    the vector index refused what it was given
    ├── EmbedderError       the embedder refused what it was given
    │   ├── ModelNotFound   no such embedding model here; the message says the ways to get it
    │   └── UnsupportedModel  the model is of a kind that ONNX Runtime is not asked to run; the message says what
    ├── RerankerError       the reranker refused what it was given, or its model cannot be had; the message says why
    ├── RedactionFailed     the application's redactor failed; the text went nowhere
    └── LLMError            the language model refused the request
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
    """What the caller passed cannot be stored or asked for; the message names the value and the remedy."""


class ConfigError(MemoryAgentError, ValueError):
    """A setting is unknown or impossible; the message names it and what would be valid."""


class DataDirInUse(MemoryAgentError):
    """Another process holds the embedded stores; the message says which and how to run with servers."""


class NotOpen(MemoryAgentError, RuntimeError):
    """A method that needs the stores was called before `async with` or after closing."""


class TurnForgotten(MemoryAgentError):
    """The idempotency key belongs to a turn that was forgotten since; nothing was stored."""


class SettleTimeout(MemoryAgentError, TimeoutError):
    """`settle` ran out of time with stages still owed."""


class TurnsParked(MemoryAgentError):
    """`settle` found turns whose stages keep failing; `.parked` lists them with their last error."""

    def __init__(self, parked: Sequence[ParkedTurn]) -> None:
        self.parked = tuple(parked)
        first = self.parked[0]
        super().__init__(
            f"{len(self.parked)} turn(s) are parked, the first {first.turn_id} owing {', '.join(first.pending)}"
            f" after {first.attempts} attempts: {first.last_error:.500}. Mend the cause, then call retry_parked()"
            " (or `memory-agent worker --retry-parked`)."
        )


class SweepRunning(MemoryAgentError):
    """Another sweep is at work; the message says whose, since when, and until when its lease goes."""


class BackendError(MemoryAgentError):
    """A store, an index or a model failed."""


class Unavailable(BackendError):
    """For now: unreachable, timed out, overloaded or refusing our credentials. The same call may work later."""

    part = "backend"
    """The word for this part in `MemoryContext.degraded` and in `status()`."""


class StoreUnavailable(Unavailable):
    """The document store cannot be reached."""

    part = "store"


class VectorIndexUnavailable(Unavailable):
    """The vector index cannot be reached."""

    part = "vector_index"


class EmbedderUnavailable(Unavailable):
    """The embedding model cannot be reached."""

    part = "embedder"


class RerankerUnavailable(Unavailable):
    """The reranker's model cannot be reached."""

    part = "reranker"


class LLMUnavailable(Unavailable):
    """The language model cannot be reached."""

    part = "llm"


class StoreError(BackendError):
    """The document store refused what it was given."""


class VectorIndexError(BackendError):
    """The vector index refused what it was given."""


class EmbedderError(BackendError):
    """The embedder refused what it was given."""


class ModelNotFound(EmbedderError):
    """No such embedding model here; the message says the ways to get it."""


class UnsupportedModel(EmbedderError):
    """The embedding model is of a kind that cannot be run without torch; the message says what is not understood."""


class RerankerError(BackendError):
    """The reranker refused what it was given, or its model cannot be had here; the message says the ways to get one."""


class RedactionFailed(BackendError):
    """The application's redactor failed; what it was to clean was neither stored nor sent."""


class LLMError(BackendError):
    """The language model refused the request."""


class MalformedReply(LLMError):
    """The model's reply is not what the prompt asked for."""

    def __init__(self, message: str, *, reply: str) -> None:
        self.reply = reply
        super().__init__(message)
