"""Every error becomes a problem that tells no secrets, and the same error again on the other side."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memory_agent import errors
from memory_agent.domain import ParkedTurn, Scope
from memory_agent.errors import MemoryAgentError
from memory_agent.wire.problems import (
    KINDS,
    UNEXPECTED,
    URN,
    Problem,
    error_of,
    problem_of,
    problem_of_request,
)
from memory_agent.wire.requests import AddTurns, Search

PARKED = ParkedTurn(
    turn_id="t1",
    user_id="ann",
    thread_id="trip",
    pending=("index", "facts"),
    attempts=5,
    last_error="no such model: 'é'",
)


def every_class(root: type[MemoryAgentError] = MemoryAgentError) -> list[type[MemoryAgentError]]:
    below = [found for kind in root.__subclasses__() for found in every_class(kind)]
    ours = root.__module__ == "memory_agent.errors"
    return list(dict.fromkeys([root, *below] if ours else below))


def example(kind: type[MemoryAgentError], message: str = "limit is 'é'; pass less") -> MemoryAgentError:
    if kind is errors.TurnsParked:
        return errors.TurnsParked([PARKED])
    if kind is errors.MalformedReply:
        return errors.MalformedReply(message, reply="what the model said of Ada")
    if issubclass(kind, errors.RateLimited):
        return kind(message, retry_after=12.5)
    return kind(message)


def read(problem: Problem) -> Problem:
    return Problem.model_validate_json(problem.to_json())


def test_no_class_of_errors_is_missing_from_the_table() -> None:
    assert set(KINDS) == set(every_class())
    assert len(every_class()) > 30


def test_a_type_is_its_class_in_small_letters_and_is_no_other_s() -> None:
    for kind, told in KINDS.items():
        assert (
            told.slug == re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", kind.__name__).lower()
        )
    slugs = [told.slug for told in (*KINDS.values(), UNEXPECTED)]
    assert len(slugs) == len(set(slugs))
    titles = [told.title for told in (*KINDS.values(), UNEXPECTED)]
    assert len(titles) == len(set(titles))


def test_a_caller_gets_the_same_error_with_the_same_message() -> None:
    for kind in every_class():
        error = example(kind)
        problem = problem_of(error)
        assert problem.type == URN + KINDS[kind].slug
        back = error_of(read(problem), problem.status)
        assert type(back) is kind
        assert str(back) == str(error) == problem.detail


def test_whatever_is_unavailable_may_be_tried_again_and_whatever_else_fails_behind_is_a_bad_gateway() -> None:
    for kind, told in KINDS.items():
        if issubclass(kind, errors.Unavailable):
            assert told.status == 503
            assert problem_of(example(kind)).retry_after == 5.0
        elif issubclass(kind, errors.BackendError):
            assert told.status == 502
            assert problem_of(example(kind)).retry_after is None


def test_what_an_error_carries_comes_along_but_for_what_a_model_said() -> None:
    def sent(error: MemoryAgentError) -> Any:
        return error_of(read(problem_of(error)), problem_of(error).status)

    assert sent(errors.TurnsParked([PARKED, PARKED])).parked == (PARKED, PARKED)
    assert sent(errors.RateLimited("slow down", retry_after=2.5)).retry_after == 2.5
    assert sent(errors.AccessDenied("who?", status=401)).status == 401
    assert "Ada" not in problem_of(example(errors.MalformedReply)).to_json()
    assert sent(example(errors.MalformedReply)).reply == ""


def test_a_remedy_comes_along_apart_from_what_was_wrong() -> None:
    """Who has another word for the call that helps, as the command line, says that one."""
    told = errors.NotFound("thread 'a' has no such topic", remedy=("topics", "lists them"))
    again = error_of(read(problem_of(told)), 404)
    assert isinstance(again, errors.NotFound)
    assert str(again) == str(told) == "thread 'a' has no such topic; topics() lists them"
    assert (again.wrong, again.remedy) == (told.wrong, told.remedy)
    assert error_of(read(problem_of(errors.InvalidInput("top_k is 0"))), 422).args == ("top_k is 0",)


def test_of_a_fault_in_the_service_nothing_is_told() -> None:
    problem = problem_of(ValueError("secret"), instance="urn:uuid:1")
    assert "secret" not in problem.to_json()
    assert (problem.type, problem.status) == (URN + "internal-error", 500)
    back = error_of(read(problem), 500)
    assert type(back) is errors.ServiceError
    assert "urn:uuid:1" in str(back)


# --- fields --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("user_id is empty (''); pass at least one visible character", "user_id"),
        ("metadata.a[0] is nan; numbers must be finite", "metadata.a[0]"),
        (
            "turns[3].content has 1,000,001 characters; at most 1,000,000 are stored. Split it.",
            "turns[3].content",
        ),
        ("turns[3] has the keys 'x'; role and content are needed", "turns[3]"),
        ("turns[3] is a int; pass a TurnInput or a dict with role and content", "turns[3]"),
        ("turns[3].timestamp 2026-03-01T18:30:00 has no time zone", "turns[3].timestamp"),
        ("character.name is empty ('')", "character.name"),
        ("path is 'a', and nothing is known there; known paths: none", "path"),
        ("the kind of an entity is 'X'; it must be", None),
        ("turn 0198f3a2-7c11 has no topic yet", None),
        ("10,001 turns in one call; pass at most 10,000 at a time", None),
        ("", None),
    ],
)
def test_a_refused_value_is_named_where_the_message_begins_with_its_name(
    message: str, field: str | None
) -> None:
    named = problem_of(errors.InvalidInput(message)).errors
    assert (None if named is None else named[0].field) == field
    assert named is None or named[0].message == message


def test_a_request_that_does_not_fit_its_model_names_every_field_and_of_a_list_the_first() -> None:
    with pytest.raises(ValidationError) as caught:
        AddTurns.model_validate(
            {"turns": [{"role": "user", "content": ""}, {"role": "boss", "content": "x"}], "x": 1}
        )
    found = [{**error, "loc": ("body", *error["loc"])} for error in caught.value.errors()]
    problem = problem_of_request(found, instance="urn:uuid:1")  # type: ignore[arg-type]
    assert problem.errors is not None
    assert [error.field for error in problem.errors] == ["turns[0].content", "x"]
    assert (problem.status, problem.type) == (422, URN + "invalid-input")
    assert "turns[0].content: String should have at least 1 character" in problem.detail
    assert isinstance(error_of(read(problem), 422), errors.InvalidInput)


def test_a_value_that_was_refused_is_not_repeated() -> None:
    with pytest.raises(ValidationError) as caught:
        Search.model_validate({"user_id": "ada", "query": 12345678, "top_k": "87654321"})
    problem = problem_of_request(caught.value.errors())
    assert "12345678" not in problem.to_json()
    assert "87654321" not in problem.to_json()


# --- what may be told ----------------------------------------------------------------------------------------
STORED = Scope.of("ada", "trip", tenant="acme-1").user_id


@pytest.mark.parametrize(
    "written",
    [
        STORED, repr(STORED), json.dumps(STORED), repr(repr(STORED)), json.dumps(json.dumps(STORED)),
        f"Scope(user_id={STORED!r})", "GET /users/acme-1%1Fada", "GET /users/acme-1%251fada",
    ],
)  # fmt: skip
def test_a_message_names_the_user_as_the_tenant_does(written: str) -> None:
    told = problem_of(errors.StoreError(f"no: {written}")).detail
    assert "acme" not in told
    assert "1f" not in told.lower()
    assert told.rstrip("'\")\\").endswith("ada")


@given(message=st.text(st.characters(codec=None), max_size=200))
def test_any_message_can_be_told(message: str) -> None:
    for kind in (errors.InvalidInput, errors.StoreUnavailable, errors.SettleTimeout):
        problem = problem_of(kind(message))
        assert read(problem) == problem
        problem.to_json().encode("utf-8")


# --- what others answer --------------------------------------------------------------------------------------
def test_a_problem_of_a_newer_service_is_a_service_error_with_its_message() -> None:
    back = error_of(Problem(type=URN + "moon-phase", detail="the moon is full"), 409)
    assert type(back) is errors.ServiceError
    assert str(back) == "the moon is full"


def test_a_problem_about_parked_turns_that_lists_none_is_a_service_error() -> None:
    assert type(error_of(Problem(type=URN + "turns-parked", detail="some are"), 409)) is errors.ServiceError
