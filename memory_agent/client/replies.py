"""Decoding of answers: into the value that was asked for, or the error that it tells of."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from memory_agent.errors import MemoryAgentError, RateLimited, ServiceError, ServiceUnavailable
from memory_agent.wire.problems import MEDIA_TYPE, Problem, error_of

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """An answer. `asked` says of which request, for messages: method and service, without the ids of users."""

    asked: str
    status: int
    media_type: str
    """As the answer has it, without parameters, in lower case."""
    content: bytes
    retry_after: float | None = None
    """Seconds, if the answer has such a header."""

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


def value_of(reply: Reply, model: type[Model]) -> Model:
    """The value in a good reply. Raises ServiceError if it is none of that model."""
    found = value_or_none(reply, model)
    if found is None:
        raise ServiceError(f"{reply.asked} was answered {reply.status} without a {model.__name__}")
    return found


def value_or_none(reply: Reply, model: type[Model]) -> Model | None:
    """The same; None for an answer that says that there is none (204, or null)."""
    if reply.status == HTTPStatus.NO_CONTENT:
        return None
    if reply.media_type != "application/json":
        raise ServiceError(
            f"{reply.asked} was answered {reply.status} with {reply.media_type or 'nothing'!r} and not with JSON; "
            "is service_url (base_url) the address of a memory service?"
        )
    try:
        return None if reply.content.strip() == b"null" else model.model_validate_json(reply.content)
    except ValidationError as exc:
        where = (
            ".".join(map(str, exc.errors(include_input=False, include_url=False)[0]["loc"])) or "its start"
        )
        # The cause would show what was answered, and that may be anybody's memory.
        raise ServiceError(
            f"{reply.asked} was answered {reply.status} with JSON that is no {model.__name__} at {where}; client and "
            "service may be of versions that do not fit"
        ) from None


def error_in(reply: Reply) -> MemoryAgentError:
    """The error that a reply tells of which is not good: the service's own, or (a proxy's page) what its status means."""
    problem = _problem(reply)
    if problem is None:
        problem = Problem(
            status=reply.status, detail=f"{reply.asked} was answered {reply.status}, {_meaning(reply.status)}"
        )
    if problem.retry_after is None and reply.retry_after is not None:
        problem = problem.model_copy(update={"retry_after": reply.retry_after})
    error = error_of(problem, reply.status)
    if reply.status == HTTPStatus.REQUEST_TIMEOUT and type(error) is ServiceError:
        return ServiceUnavailable(str(error))
    return error


def is_temporary(reply: Reply, error: MemoryAgentError) -> bool:
    """True if the same request may succeed soon. A 502 of the service itself is a verdict, one of a proxy is not."""
    return reply.status in (429, 503, 504) or isinstance(error, ServiceUnavailable | RateLimited)


def _problem(reply: Reply) -> Problem | None:
    if reply.media_type != MEDIA_TYPE:
        return None
    try:
        return Problem.model_validate_json(reply.content)
    except ValidationError:
        return None


def _meaning(status: int) -> str:
    if 300 <= status < 400:
        return "a redirect, which is not followed: set service_url (base_url) to where the service is"
    return (
        "and not with a problem of a memory service: something between here and there said so, or service_url "
        "(base_url) is not its address"
    )
