"""An id is one segment of a path, whatever it holds."""

from __future__ import annotations

from urllib.parse import unquote

import httpx
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.wire.paths import quoted_segment

texts = st.one_of(
    st.sampled_from([".", "..", "...", "%", "%2F", "%2e", "/", "//", "?", "#", "\\", " ", "+", ";"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)


@given(st.lists(texts, min_size=1, max_size=4))
def test_ids_come_back_from_the_path_as_httpx_sends_it(ids: list[str]) -> None:
    path = "/".join(["/x", *map(quoted_segment, ids)])
    sent = httpx.URL(f"http://example.org{path}").raw_path.decode("ascii")
    assert sent == path
    assert [unquote(segment) for segment in sent.split("/")[2:]] == ids


@given(texts)
def test_no_segment_can_be_taken_for_a_way_up_or_for_several(text: str) -> None:
    segment = quoted_segment(text)
    assert segment not in ("", ".", "..")
    assert not set(segment) & set("/?#\\ ")
