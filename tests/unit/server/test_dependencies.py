"""What a handler is given: by one pass of Pydantic's, or by FastAPI, which is asked where that cannot be."""

import httpx
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse

from memory_agent.server.dependencies import DirectRoute, IdempotencyKey, PathText
from memory_agent.server.incoming import RawPaths
from memory_agent.server.problems import add_problem_handlers
from memory_agent.wire.requests import Update

BODIES = [
    b'{"user_msg": "\\u00e9\\ud83d\\ude00", "assistant_msg": "b", "speaker": null, "importance": 1}',
    b'{"user_msg": "a", "user_msg": "c", "assistant_msg": "b", "timestamp": "2026-03-01T18:30:00+01:00",'
    b' "metadata": {"n": [1, 2.5, true, null, 9007199254740993], "m": {"a": "b"}}}',
    b'{"user_msg": "a", "assistant_msg": "b", "importance": "1"}',
    b'{"user_msg": "a", "assistant_msg": "b", "timestamp": 1772386200}',
    b'{"user_msg": "\\ud800", "assistant_msg": "b"}',
    b'{"user_msg": "a", "assistant_msg": "b", "metadata": {"x": NaN}}',
    b'{"user_msg": "a", "assistant_msg": "b"} ]',
    b'{"user_msg": "a", "assistant_msg": "\xff"}',
    b"",
]


async def test_what_a_handler_is_given_is_the_same_by_either_reader() -> None:
    """A content type with a parameter is FastAPI's to read."""
    router = APIRouter(route_class=DirectRoute)
    read = []

    @router.post("/{user_id}/{thread_id}")
    async def handle(
        request: Request, user_id: PathText, thread_id: PathText, body: Update, key: IdempotencyKey = None
    ) -> JSONResponse:
        read.append(request)
        return JSONResponse(repr((user_id, thread_id, body, key)))

    app = FastAPI()
    app.router.routes.extend(router.routes)
    add_problem_handlers(app)
    transport = httpx.ASGITransport(RawPaths(app))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        for key in (None, b"", b"k", "é".encode(), b"k" * 513):
            for content in BODIES:
                answers = []
                for kind in ("application/json", "application/json; charset=utf-8"):
                    headers = {b"content-type": kind.encode()} | (
                        {} if key is None else {b"idempotency-key": key}
                    )
                    answers.append(await client.post("/a%2Fb%C3%A9/t", content=content, headers=headers))
                assert answers[0].status_code == answers[1].status_code
                assert answers[0].text == answers[1].text, content
    # Two of the bodies are good, and three of the keys. FastAPI's reader leaves what it parsed in the request.
    assert [hasattr(request, "_json") for request in read] == [False, True] * 2 * 3
