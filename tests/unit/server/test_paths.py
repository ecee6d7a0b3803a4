"""Paths: every text survives as a segment, and what is no UTF-8 is refused."""

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.routing import Match, Route, Router

from memory_agent.server.incoming import BadPath, RawPaths, routed_path, segment_text
from memory_agent.wire.base import quoted_segment

TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"])) | st.text("/%.2Ff5", max_size=8), min_size=1
)


@given(texts=TEXTS)
@example(texts=[".", "..", "%2F", "%", "/", "", "%25", "a/../b", "é\x00\n"])
def test_texts_quoted_and_joined_come_back_as_they_were(texts: list[str]) -> None:
    for quoted in (quoted_segment, lambda text: quote(text, safe="")):
        raw = "/" + "/".join(map(quoted, texts))
        path = routed_path(raw.encode("ascii"))
        assert [segment_text(segment) for segment in path.split("/")[1:]] == texts


@given(raw=st.binary())
def test_any_path_is_decoded_or_refused(raw: bytes) -> None:
    try:
        path = routed_path(raw)
    except BadPath:
        return
    assert path.count("/") == raw.count(b"/")
    path.encode("utf-8")


def test_what_is_malformed_is_refused() -> None:
    for raw in (b"/%ff", b"/%C3", b"/%C3/%A9", b"/%ED%A0%80", b"/%C0%AF", b"/%", b"/%2", b"/%zz", b"/%+f"):
        with pytest.raises(BadPath):
            routed_path(raw)


async def asked(scope: dict[str, Any]) -> tuple[str | None, list[dict[str, Any]]]:
    """The path that the application saw, and what was sent."""
    seen: list[str] = []
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["path"])

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    await RawPaths(app)(scope, receive, send)
    return (seen[0] if seen else None), sent


def test_a_line_break_at_the_end_is_no_other_way_to_an_address() -> None:
    """A router's `$` matches before it, which proxies and the count of streams do not know."""
    router = Router(routes=[Route("/metrics", lambda _: None), Route("/api/{thread}/events", lambda _: None)])
    for raw, found in (
        (b"/metrics", 1),
        (b"/metrics%0A", 0),
        (b"/api/x%0A/events", 1),
        (b"/api/x/events%0a", 0),
    ):
        scope = {"type": "http", "method": "GET", "path": routed_path(raw), "root_path": ""}
        assert sum(route.matches(scope)[0] is Match.FULL for route in router.routes) == found, raw


async def test_without_a_raw_path_the_decoded_one_is_kept() -> None:
    path, _ = await asked({"type": "http", "path": "/metrics\n"})
    assert path == "/metrics%0A"
    path, _ = await asked({"type": "http", "path": "/a/50%"})
    assert path == "/a/50%25"
    assert segment_text("50%25") == "50%"
