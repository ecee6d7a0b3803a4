"""Errors on the wire: problem details (RFC 9457), by one table that service and client share.

The service says what went wrong with `problem_of`, the client raises the same class with the same message by
`error_of`. What a model replied (`MalformedReply.reply`) stays in the service.
"""

import math
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pydantic import ConfigDict
from pydantic_core import ErrorDetails

from memory_agent import errors
from memory_agent.errors import MemoryAgentError
from memory_agent.wire.answers import ParkedTurn
from memory_agent.wire.base import FieldError, Wire, field_errors, public_text, said

MEDIA_TYPE: Final = "application/problem+json"
URN: Final = "urn:memory-agent:problem:"
MAX_DETAIL_CHARS: Final = 2_000
RETRY_AFTER_SECONDS: Final = 5.0
"""What a caller is told to wait where the service does not know any better."""


class Kind(NamedTuple):
    """Problem details of a class of errors: the HTTP status, the end of the problem's `type`, and its title."""

    status: int
    slug: str
    title: str


KINDS: Final[dict[type[MemoryAgentError], Kind]] = {
    errors.MemoryAgentError: Kind(500, "memory-agent-error", "The memory failed"),
    errors.InvalidInput: Kind(422, "invalid-input", "A value cannot be stored or asked for"),
    errors.NotFound: Kind(404, "not-found", "There is no such thing"),
    errors.IdempotencyKeyReused: Kind(
        422, "idempotency-key-reused", "The idempotency key belongs to another call"
    ),
    errors.RequestTooLarge: Kind(413, "request-too-large", "The request is too large"),
    errors.ConfigError: Kind(500, "config-error", "A setting of the service is impossible"),
    errors.DataDirInUse: Kind(500, "data-dir-in-use", "Another process holds the service's stores"),
    errors.NotOpen: Kind(503, "not-open", "The service is not open"),
    errors.TurnForgotten: Kind(410, "turn-forgotten", "The turn was forgotten"),
    errors.SettleTimeout: Kind(409, "settle-timeout", "Work is still owed"),
    errors.SweepRunning: Kind(409, "sweep-running", "Another sweep is at work"),
    errors.TurnsParked: Kind(409, "turns-parked", "The work of some turns keeps failing"),
    errors.EventsLost: Kind(410, "events-lost", "Events are not kept that long"),
    errors.EventsUnsupported: Kind(501, "events-unsupported", "The document store tells no events"),
    errors.AccessDenied: Kind(403, "access-denied", "Access denied"),
    errors.RateLimited: Kind(429, "rate-limited", "Too many requests"),
    errors.Busy: Kind(429, "busy", "The memory has too much work to do"),
    errors.BackendError: Kind(502, "backend-error", "A store, an index or a model failed"),
    errors.Unavailable: Kind(503, "unavailable", "A part of the service is unavailable"),
    errors.StoreUnavailable: Kind(503, "store-unavailable", "The document store is unavailable"),
    errors.VectorIndexUnavailable: Kind(503, "vector-index-unavailable", "The vector index is unavailable"),
    errors.EmbedderUnavailable: Kind(503, "embedder-unavailable", "The embedding model is unavailable"),
    errors.LLMUnavailable: Kind(503, "llm-unavailable", "The language model is unavailable"),
    errors.ServiceUnavailable: Kind(503, "service-unavailable", "The service is unavailable"),
    errors.StoreError: Kind(502, "store-error", "The document store refused"),
    errors.VectorIndexError: Kind(502, "vector-index-error", "The vector index refused"),
    errors.EmbedderError: Kind(502, "embedder-error", "The embedding model refused"),
    errors.ModelNotFound: Kind(503, "model-not-found", "There is no such embedding model"),
    errors.UnsupportedModel: Kind(502, "unsupported-model", "The embedding model cannot be run"),
    errors.RedactionFailed: Kind(502, "redaction-failed", "The redactor failed"),
    errors.ServiceError: Kind(502, "service-error", "The service failed"),
    errors.LLMError: Kind(502, "llm-error", "The language model refused"),
    errors.ModelRefused: Kind(502, "model-refused", "The language model will not answer"),
    errors.MalformedReply: Kind(502, "malformed-reply", "The language model's reply cannot be read"),
}
UNEXPECTED: Final = Kind(500, "internal-error", "Internal error")
"""Of what is no error of this package: a fault in the service, about which callers are told nothing more."""

_CLASSES: Final = {kind.slug: error for error, kind in KINDS.items()}


class Remedy(Wire):
    """A call that helps."""

    call: str
    """Its name, as the agent has it."""
    does: str


class Problem(Wire):
    """Problem details of RFC 9457. `type` names the class of errors and never changes; `detail` is for people."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:memory-agent:problem:invalid-input",
                    "title": "A value cannot be stored or asked for",
                    "status": 422,
                    "detail": "importance is 3; it goes from 0 to 1",
                    "instance": "urn:uuid:0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e10",
                    "errors": [{"field": "importance", "message": "importance is 3; it goes from 0 to 1"}],
                }
            ]
        },
    )

    type: str = "about:blank"
    title: str = ""
    status: int = 500
    detail: str = ""
    """What was wrong, with which value, and what to do."""
    instance: str | None = None
    """The request's id, as `urn:uuid:…`; the service's log tells more under it."""
    errors: tuple[FieldError, ...] | None = None
    """For `invalid-input`: the values that were refused, as far as they can be named."""
    remedy: Remedy | None = None
    """What `detail` ends with, for who has another word for the call."""
    parked: tuple[ParkedTurn, ...] | None = None
    """For `turns-parked`."""
    max_bytes: int | None = None
    """For `request-too-large`: what the request's body may have."""
    retry_after: float | None = None
    """Seconds after which the same request may succeed."""

    def to_json(self) -> str:
        """The body of the answer; members that say nothing are left out."""
        return self.model_dump_json(exclude_none=True)


# --- what the service says -----------------------------------------------------------------------------------
def problem_of(error: BaseException, *, instance: str | None = None) -> Problem:
    """The problem details of `error`: its message without the tenant, at most 2,000 characters.

    Of an error that is none of this package's nothing is told, for nobody has looked at what it may say.
    """
    if not isinstance(error, MemoryAgentError):
        detail = "The service failed; its log tells why, under the id of this request."
        return _problem(UNEXPECTED, detail, instance)
    kind = kind_of(error)
    detail = _detail(str(error))
    more: dict[str, Any] = {}
    if kind.status == 422 and (field := _field(detail)):
        more["errors"] = (FieldError(field=field, message=detail),)
    if isinstance(error, errors.InvalidInput) and error.remedy is not None:
        call, does = error.remedy
        more["remedy"] = Remedy(call=call, does=does)
    if isinstance(error, errors.TurnsParked):
        more["parked"] = tuple(map(ParkedTurn.of, error.parked))
    if isinstance(error, errors.RateLimited):
        more["retry_after"] = _seconds(error.retry_after)
    elif kind.status == 503:
        more["retry_after"] = RETRY_AFTER_SECONDS
    return _problem(kind, detail, instance, **more)


def problem_for_network(error: BaseException, *, instance: str | None = None) -> Problem:
    """`problem_of` for callers over a network: of a part that is down or refuses only which one.

    For drivers say its address, and models the path of their files. What a language model's server says is told: it
    holds neither keys nor texts, and `status` tells it too.
    """
    problem = problem_of(error, instance=instance)
    if isinstance(error, errors.LLMError | errors.LLMUnavailable):
        return problem
    if isinstance(error, errors.Unavailable):
        detail = f"{problem.title} for now; the same request may succeed in a while."
    elif isinstance(error, errors.BackendError):
        detail = f"{problem.title}; the service's log tells why, under the id of this request."
    else:
        return problem
    return problem.model_copy(update={"detail": detail})


def problem_of_request(found: Sequence[ErrorDetails], *, instance: str | None = None) -> Problem:
    """The problem details of a request that does not fit its model: `found` is what FastAPI's error lists."""
    fields = field_errors(found)
    return _problem(KINDS[errors.InvalidInput], _detail(said(fields)), instance, errors=fields)


def kind_of(error: MemoryAgentError) -> Kind:
    """The error's kind; for an application's own class that of the nearest base."""
    kind = next(KINDS[known] for known in type(error).__mro__ if known in KINDS)
    return kind._replace(status=error.status) if isinstance(error, errors.AccessDenied) else kind


def _problem(kind: Kind, detail: str, instance: str | None, **more: Any) -> Problem:
    return Problem(
        type=URN + kind.slug, title=kind.title, status=kind.status, detail=detail, instance=instance, **more
    )


def _detail(message: str) -> str:
    text = public_text(message)
    return text if len(text) <= MAX_DETAIL_CHARS else f"{text[: MAX_DETAIL_CHARS - 1]}…"


def _seconds(value: float) -> float:
    return max(value, 0.0) if math.isfinite(value) else RETRY_AFTER_SECONDS


# Messages about a value begin with its name: "limit is 0; …", "turns[3].timestamp 2026-03-01T18:30:00 has …".
_NAMED: Final = re.compile(
    r"(?P<name>[a-z_]\w*(?:\[\d*\]|\.\w+)*)"
    r"(?=:|\s+(?:is|are|has|have|must|goes|holds|needs|cannot)\b|\s+\d{4}-\d\d-\d\d)",
    re.ASCII,
)
_NO_NAMES: Final = frozenset(
    {"it", "this", "that", "there", "what", "none", "nothing", "nobody", "one", "which"}
)


def _field(message: str) -> str | None:
    """The name of the value that the message is about; None if it does not begin with one."""
    found = _NAMED.match(message)
    return None if found is None or found["name"] in _NO_NAMES else found["name"]


# --- what the client raises ----------------------------------------------------------------------------------
def error_of(problem: Problem, status: int) -> MemoryAgentError:
    """The error that the answer tells of, to be raised: of the same class, with the same message.

    A problem of none of these types, as something between client and service may give it, is an error by its `status`.
    """
    said_what = problem.detail or problem.title or f"the service answered {status}"
    kind = _CLASSES.get(problem.type.removeprefix(URN)) if problem.type.startswith(URN) else None
    if kind is None:
        where = f" ({problem.instance})" if problem.instance else ""
        return _by_status(status, said_what + where, problem.retry_after)
    if kind is errors.TurnsParked:
        if not problem.parked:
            return errors.ServiceError(said_what)
        return errors.TurnsParked([parked.domain() for parked in problem.parked])
    if kind is errors.MalformedReply:
        return errors.MalformedReply(said_what, reply="")
    if kind is errors.AccessDenied:
        return errors.AccessDenied(said_what, status=status)
    if issubclass(kind, errors.RateLimited):
        return _rate_limited(said_what, problem.retry_after, kind)
    if issubclass(kind, errors.InvalidInput) and problem.remedy is not None:
        call, does = problem.remedy.call, problem.remedy.does
        return kind(said_what.removesuffix(f"; {call}() {does}"), remedy=(call, does))
    return kind(said_what)


def _by_status(status: int, message: str, retry_after: float | None) -> MemoryAgentError:
    if status in (401, 403):
        return errors.AccessDenied(message, status=status)
    if status == 429:
        return _rate_limited(message, retry_after)
    kinds = {413: errors.RequestTooLarge} | dict.fromkeys((502, 503, 504), errors.ServiceUnavailable)
    return kinds.get(status, errors.ServiceError)(message)


def _rate_limited(
    message: str, retry_after: float | None, kind: type[errors.RateLimited] = errors.RateLimited
) -> errors.RateLimited:
    return kind(message, retry_after=RETRY_AFTER_SECONDS if retry_after is None else retry_after)
