"""Answers become values, or the error that they tell of; what is no answer of a memory service is said to be none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent import errors
from memory_agent.client.connection import Reply, error_in, is_temporary, value_of, value_or_none
from memory_agent.wire.answers import UpdateReceipt
from memory_agent.wire.problems import MEDIA_TYPE, problem_of

ASKED = "POST at http://127.0.0.1:8080"


def reply(
    content: object, status: int = 200, media_type: str = "application/json", retry_after: float | None = None
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


KINDS = {
    errors.ServiceError: (301, 307, 400, 404, 418, 500),
    errors.AccessDenied: (401, 403),
    errors.RequestTooLarge: (413,),
    errors.RateLimited: (429,),
    errors.ServiceUnavailable: (408, 502, 503, 504),
}


def test_page_of_a_proxy_is_told_by_its_status() -> None:
    for kind, status in ((kind, status) for kind, statuses in KINDS.items() for status in statuses):
        for strange in (
            reply(b"<h1>Bad gateway</h1>", status, "text/html"),
            reply(b"{", status, MEDIA_TYPE),
            reply({"type": "https://example.org/teapot"}, status, MEDIA_TYPE),
            reply({"error": "x"}, status),
        ):
            found = error_in(strange)
            assert type(found) is kind, status
            assert "gateway<" not in str(found)
            if b"teapot" not in strange.content:
                assert f"{ASKED} was answered {status}" in str(found)


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
        (errors.InvalidInput("limit is 0"), False),
        (errors.TurnForgotten("gone"), False),
        (errors.AccessDenied("no key", status=401), False),
        (errors.MemoryAgentError("a fault"), False),
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
