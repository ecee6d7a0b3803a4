"""REST: whatever is wrong with a request is told by a problem document, and every operation has a test."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.rest import Rest, document, operations, problem_in, rest_on

JSON = {"Content-Type": "application/json"}
EXCHANGE = {"user_msg": "My puppy is called Rufus.", "assistant_msg": "Cute!"}


@pytest.fixture
async def rest(tmp_path: Path) -> AsyncIterator[Rest]:
    async with rest_on({"data_dir": tmp_path}) as client:
        yield client


def test_every_operation_is_shown_by_a_test() -> None:
    """A new endpoint without a test that is answered by it is found here."""
    shown: set[str] = set()
    for module in (*Path(__file__).parent.glob("test_rest*.py"), Path("test_both_ways.py")):
        members = vars(importlib.import_module(f"tests.integration.{module.stem}")).values()
        shown |= {
            name
            for test in members
            if inspect.isfunction(test) and test.__name__.startswith("test_")
            for name in getattr(test, "shows", ())
        }
    assert shown == set(operations(document()))


WHAT_IS_NOT_THERE_IS_TOLD: Final[list[Any]] = [
    ("GET", "/api/nothing", 404, "no-such-address"),
    ("GET", "/api/threads/ann", 404, "no-such-address"),
    ("GET", "/api/threads/ann/chat/", 404, "no-such-address"),
    ("GET", "/api/threads/ann/chat/turns/", 404, "no-such-address"),
    ("GET", "/api/threads//chat/turns", 404, "no-such-address"),
    ("GET", "/nothing", 404, "no-such-address"),
    ("PATCH", "/api/threads/ann/chat/facts", 405, "method-not-allowed"),
    ("GET", "/api/threads/ann/chat/update", 405, "method-not-allowed"),
    ("PROPFIND", "/api/threads/ann/chat/turns", 405, "method-not-allowed"),
    ("DELETE", "/healthz", 405, "method-not-allowed"),
    ("GET", "/api/threads/%ff/chat/turns", 400, "bad-path"),
    ("GET", "/api/threads/%zz/chat/turns", 400, "bad-path"),
    ("GET", "/api/threads/%00/chat/turns", 422, "invalid-input"),
    ("GET", f"/api/threads/{'x' * 513}/chat/turns", 422, "invalid-input"),
]


async def test_what_is_not_there_or_unknown_is_told(rest: Rest) -> None:
    """A problem, and of a method that is not there, those that are."""
    for method, path, status, slug in WHAT_IS_NOT_THERE_IS_TOLD:
        target = path.encode()
        answer = await rest.client.send(
            rest.client.build_request(method, rest.server.address, extensions={"target": target})
        )
        assert (answer.status_code, problem_in(answer)["type"].rpartition(":")[2]) == (status, slug)
        allowed = {
            verb
            for verb, template, _ in operations(document()).values()
            if template.replace("{user_id}", "ann").replace("{thread_id}", "chat") == path
        }
        if status == 405:
            assert set(answer.headers["Allow"].split(", ")) == allowed
    # What is unknown is 404, a problem of its own type, by whatever is asked of it; and no topic appears.
    for method, path, body in UNKNOWN:
        problem = await rest.refused(method, path, body, status=404)
        assert problem["type"].endswith(":not-found"), path
    assert (await rest.get("topics", archived=True))["items"] == []


A_BODY_THAT_CANNOT_BE_READ_IS_REFUSED: Final[list[Any]] = [
    (b"", JSON, 422),
    (b"{", JSON, 422),
    (b"[1]", JSON, 422),
    (b"null", JSON, 422),
    (b'"text"', JSON, 422),
    (b'{"user_msg": "a", "assistant_msg": "b"}', {"Content-Type": "text/plain"}, 422),
    (b'{"user_msg": "a", "assistant_msg": "\\ud800"}', JSON, 422),
    (b'{"user_msg": "a", "assistant_msg": "b", "metadata": {"x": NaN}}', JSON, 422),
    (b'{"user_msg": "a", "assistant_msg": "b", "metadata": {"x": 1e999}}', JSON, 422),
    (b'{"user_msg": "a", "assistant_msg": "b", "metadata": {"x": 9223372036854775808}}', JSON, 422),
    (b'{"user_msg": "a", "assistant_msg": "b", "metadata": ' + b'{"x":' * 20 + b"1" + b"}" * 21, JSON, 422),
    (b'{"user_msg": "\xff", "assistant_msg": "b"}', JSON, 400),
    (b"[" * 100_000, JSON, 400),
]


async def test_what_cannot_be_read_or_is_impossible_is_refused_by_name_and_not_stored(rest: Rest) -> None:
    """422 or, where it is no JSON at all, 400; nothing is stored."""
    for content, headers, status in A_BODY_THAT_CANNOT_BE_READ_IS_REFUSED:
        await rest.refused("POST", "update", content=content, headers=headers, status=status)
        assert (await rest.get("turns"))["items"] == []
    # An impossible value is named as the request has it, with what to do about it; a cursor of another list is none.
    for method, path, body, field in AN_IMPOSSIBLE_VALUE_IS_NAMED:
        problem = await rest.refused(method, path, body, status=422)
        assert problem["errors"][0]["field"] == field, (path, body)
        assert problem["errors"][0]["message"] in problem["detail"] or field in problem["detail"]
    assert (await rest.get("facts"))["facts"] == {}
    assert (await rest.get("turns"))["items"] == (await rest.get("sessions"))["items"] == []


# One of each kind: what the agent itself refuses is in test_both_ways.py.
AN_IMPOSSIBLE_VALUE_IS_NAMED: Final[list[Any]] = [
    ("POST", "update", {"user_msg": " ", "assistant_msg": None}, "user_msg"),
    ("POST", "update", {"user_msg": "a"}, "assistant_msg"),
    ("POST", "update", {**EXCHANGE, "importance": "1"}, "importance"),
    ("POST", "update", {**EXCHANGE, "metadata": {"a": {"$b": 1}}}, "metadata"),
    ("POST", "update", {**EXCHANGE, "misspelt": 1}, "misspelt"),
    ("POST", "turns", {"role": "owner", "content": "a"}, "role"),
    (
        "POST",
        "turns",
        {"role": "user", "content": "a", "entities": [{"kind": "A", "name": "b"}]},
        "entities[0].kind",
    ),
    (
        "POST",
        "turns/bulk",
        {"turns": [{"role": "user", "content": "a"}, {"role": "user"}]},
        "turns[1].content",
    ),
    ("POST", "fetch", {"user_message": "a", "max_tokens": 1.5}, "max_tokens"),
    ("POST", "/api/memory/search", {"user_id": "a\tb", "query": "a"}, "user_id"),
    ("POST", "sessions", {"participants": "Ada"}, "participants"),
    ("POST", "sessions", {"character": {}}, "character.name"),
    ("POST", "/api/sessions/start", {"character_id": 3}, "user_id"),
    ("POST", "/api/sessions/start", {"character_id": True, "user_id": "ann"}, "character_id"),
    ("GET", "context?through=0", None, "through"),
    ("GET", "sessions?limit=1001", None, "limit"),
    ("GET", "sessions?cursor=nonsense", None, "cursor"),
    ("GET", "turns?cursor=WzEsWyJhIiwyLDFdXQ", None, "cursor"),
    ("POST", "compress?if_needed=perhaps", None, "if_needed"),
    ("GET", "facts?as_of=2026-03-01", None, "as_of"),
    ("PUT", "facts", {"path": "a..b", "value": 1}, "path"),
    ("PUT", "facts", {"path": "a", "value": None}, "value"),
    ("POST", "facts/retract", {"path": "unknown"}, "path"),
    ("POST", "facts/revert", {"path": "unknown"}, "path"),
]


UNKNOWN: Final[list[Any]] = [
    ("GET", "topics/current", None),
    ("GET", "topics/unknown", None),
    ("GET", "topics/%2F/context", None),
    ("GET", "topics/unknown/history", None),
    ("POST", "topics/unknown/merge", {"into": "other"}),
    ("POST", "topics/unknown/split", None),
    ("POST", "topics/unknown/tags", {"add": ["a"]}),
    ("POST", "topics/unknown/importance", {"importance": 0.5}),
    ("POST", "topics/unknown/restore", None),
    ("POST", "topics/unknown/archive", None),
    ("POST", "feedback", {"turn_or_topic": "unknown", "useful": True}),
    ("GET", "turns/unknown/topic", None),
    *(
        ("POST" if rest_of == "/compress" else "GET", f"/api/sessions/{session}{rest_of}", None)
        for rest_of in ("", "/context", "/history", "/summary", "/compress")
        for session in ("unknown", "%2E%2E", "a%2Fb")
    ),
]


async def test_a_body_that_is_too_large_is_refused(rest: Rest) -> None:
    """413 before it is read, as a problem."""
    problem = await rest.refused("POST", "update", content=b" " * 8_000_001, headers=JSON, status=413)
    assert (problem["type"].rpartition(":")[2], problem["max_bytes"]) == ("request-too-large", 8_000_000)
    turns = {"turns": [{"role": "user", "content": "a"}] * 10_001}
    problem = await rest.refused("POST", "turns/bulk", turns, status=422)
    assert problem["errors"][0]["field"] == "turns"
