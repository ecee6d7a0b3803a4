"""Answers become values, or the error that they tell of; what is no answer of a memory service is said to be none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent import errors
from memory_agent.client.replies import Reply, error_in, is_temporary, value_of, value_or_none
from memory_agent.wire.problems import KINDS, MEDIA_TYPE, problem_of
from memory_agent.wire.turns import UpdateReceipt

if TYPE_CHECKING:
    from collections.abc import Callable

ASKED = "POST at http://127.0.0.1:8080"


def reply(
    content: object,
    status: int = 200,
    media_type: str = "application/json",
    retry_after: float | None = None,
) -> Reply:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Reply(asked=ASKED, status=status, media_type=media_type, content=raw, retry_after=retry_after)


def test_good_answer_becomes_the_value_and_unknown_members_are_passed_over() -> None:
    found = value_of(reply({"turn_ids": ["a"], "seq": 3, "newer": True}), UpdateReceipt)
    assert found == UpdateReceipt(turn_ids=("a",), seq=3)


@pytest.mark.parametrize("nothing", [reply(b"", 204, ""), reply(None), reply(b" null\n")])
def test_no_content_and_null_are_none(nothing: Reply) -> None:
    assert value_or_none(nothing, UpdateReceipt) is None
    with pytest.raises(errors.ServiceError, match="without a UpdateReceipt"):
        value_of(nothing, UpdateReceipt)


@pytest.mark.parametrize(
    ("strange", "said"),
    [
        (reply(b"<html>Hello</html>", 200, "text/html"), "with 'text/html' and not with JSON"),
        (reply(b"", 200, ""), "with 'nothing' and not with JSON"),
        (reply(b"{"), "no UpdateReceipt at its start"),
        (reply({"turn_ids": "secret", "seq": 3}), "no UpdateReceipt at turn_ids"),
        (reply(b"\xff\xfe"), "no UpdateReceipt"),
        (reply([1]), "no UpdateReceipt"),
    ],
)
def test_what_is_no_answer_of_ours_is_a_service_error_that_shows_no_content(
    strange: Reply, said: str
) -> None:
    with pytest.raises(errors.ServiceError, match=said) as caught:
        value_of(strange, UpdateReceipt)
    assert ASKED in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "kind",
    sorted(set(KINDS) - {errors.TurnsParked}, key=str),
    ids=str,
)
def test_every_problem_of_the_service_is_raised_as_its_own_class(kind: type[errors.MemoryAgentError]) -> None:
    known: dict[type[errors.MemoryAgentError], Callable[[], errors.MemoryAgentError]] = {
        errors.RateLimited: lambda: errors.RateLimited("slow down", retry_after=2.5),
        errors.MalformedReply: lambda: errors.MalformedReply("no JSON", reply="…"),
        errors.AccessDenied: lambda: errors.AccessDenied("who?", status=401),
    }
    make = known.get(kind, lambda: kind("it went wrong"))
    error = make()
    problem = problem_of(error)
    found = error_in(reply(problem.to_json().encode(), problem.status, MEDIA_TYPE))
    assert type(found) is kind
    assert str(found) == str(error)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, errors.ServiceError),
        (307, errors.ServiceError),
        (400, errors.ServiceError),
        (401, errors.AccessDenied),
        (403, errors.AccessDenied),
        (404, errors.ServiceError),
        (408, errors.ServiceUnavailable),
        (413, errors.RequestTooLarge),
        (418, errors.ServiceError),
        (429, errors.RateLimited),
        (500, errors.ServiceError),
        (502, errors.ServiceUnavailable),
        (503, errors.ServiceUnavailable),
        (504, errors.ServiceUnavailable),
    ],
)
def test_page_of_a_proxy_is_told_by_its_status(status: int, kind: type[errors.MemoryAgentError]) -> None:
    for strange in (
        reply(b"<h1>Bad gateway</h1>", status, "text/html"),
        reply(b"{", status, MEDIA_TYPE),
        reply({"error": "x"}, status),
    ):
        found = error_in(strange)
        assert type(found) is kind
        assert f"{ASKED} was answered {status}" in str(found)
        assert "gateway<" not in str(found)


def test_redirect_says_that_none_is_followed() -> None:
    assert "redirect, which is not followed" in str(error_in(reply(b"", 302, "text/html")))


def test_header_tells_how_long_to_wait_where_the_body_does_not() -> None:
    found = error_in(reply(b"slow down", 429, "text/plain", retry_after=9.0))
    assert isinstance(found, errors.RateLimited)
    assert found.retry_after == 9.0


@pytest.mark.parametrize(
    ("error", "temporary"),
    [
        (errors.StoreUnavailable("down"), True),
        (errors.NotOpen("closing"), True),
        (errors.RateLimited("slow down", retry_after=1), True),
        (errors.LLMError("refused"), False),
        (errors.StoreError("refused"), False),
        (errors.NotFound("no such"), False),
        (errors.SettleTimeout("owed"), False),
    ],
)
def test_only_what_may_pass_by_itself_is_worth_asking_again(
    error: errors.MemoryAgentError, temporary: bool
) -> None:
    problem = problem_of(error)
    told = reply(problem.to_json().encode(), problem.status, MEDIA_TYPE)
    assert is_temporary(told, error_in(told)) is temporary


@given(
    status=st.integers(300, 599), content=st.binary(max_size=50), media_type=st.sampled_from(["", MEDIA_TYPE])
)
def test_any_refusal_becomes_one_of_our_errors(status: int, content: bytes, media_type: str) -> None:
    assert isinstance(error_in(reply(content, status, media_type)), errors.MemoryAgentError)
