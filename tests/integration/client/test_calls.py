"""What a client sends beside the calls that tests/integration/test_both_ways.py compares: keys, odd ids, pages, slices of waits."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

from memory_agent import MemoryClient, MemoryStatus, ServiceClient, errors
from memory_agent.domain import ParkedTurn
from memory_agent.wire import answers
from memory_agent.wire.pages import decode_cursor, encode_cursor
from memory_agent.wire.problems import problem_of
from tests.integration.client.http_script import KEY, HttpScript, answer, cut, problem
from tests.integration.client.samples import (
    RECEIPT,
    RECORD,
    SESSION,
    STATUS,
    TOPIC,
    TURN,
    P,
    answer_with,
    of,
    page,
    some,
)

WRITES_WITH_KEY: dict[str, tuple[Any, Any]] = {
    "update_memory": (lambda m, **k: m.update_memory("Hi", "Hello", **k), RECEIPT),
    "add_turn": (lambda m, **k: m.add_turn("user", "Hi", **k), TURN),
    "add_turns": (lambda m, **k: m.add_turns([{"role": "user", "content": "Hi"}], **k), [TURN]),
    "set_fact": (lambda m, **k: m.set_fact("name", "Ada", **k), RECORD),
    "add_fact": (lambda m, **k: m.add_fact("interests", "sea", **k), RECORD),
    "retract_fact": (lambda m, **k: m.retract_fact("name", **k), RECORD),
    "revert_fact": (lambda m, **k: m.revert_fact("name", **k), RECORD),
    "start_session": (lambda m, **k: m.start_session(**k), SESSION),
}


@pytest.mark.parametrize("name", WRITES_WITH_KEY)
async def test_write_keeps_its_idempotency_key_over_retries(
    script: HttpScript, memory: MemoryClient, name: str
) -> None:
    """The caller's as it is, and one of the client's own for a call without: a write never counts twice."""
    write, result = WRITES_WITH_KEY[name]
    good = answer(answer_with(result))
    script.then(cut(), problem(503, "store-unavailable", "down"), good)
    assert await write(memory) == result
    keys = {asked.header("idempotency-key") for asked in script.asked}
    assert len(script.asked) == 3
    assert len(keys) == 1
    assert keys != {None}
    script.then(good, good)
    await write(memory)
    await write(memory, idempotency_key="Bestellung 7 für 日本")
    assert script.asked[3].header("idempotency-key") not in keys
    assert script.asked[4].header("idempotency-key") == "Bestellung 7 für 日本"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.set_fact("a\ud800", 1), "the request cannot be written as JSON"),
        (lambda m: anext(m.events(after=5)), "after is 5"),
    ],
)
async def test_what_no_request_can_hold_is_not_sent(
    script: HttpScript, memory: MemoryClient, call: Any, words: str
) -> None:
    with pytest.raises(errors.InvalidInput, match=words):
        await call(memory)
    assert script.asked == []


# --- ids in paths --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "odd", ["..", "a/../b", "%252e%252e", "a?b#c", "ü 日本 👩‍👩‍👧", "a+b&c=d", "x" * 512]
)
async def test_ids_arrive_as_they_are_whatever_they_hold(script: HttpScript, odd: str) -> None:
    """On the wire each is one segment that decodes to the id; nothing on the way takes '..' or '%2F' for a path."""
    script.then(answer(of(answers.TopicStats, TOPIC)), answer(of(answers.Session, SESSION)))
    async with ServiceClient(f"{script.url}/behind/a/proxy", api_key=KEY) as service:
        await service.agent(odd, odd).topic_stats(odd)
        await service.find_session(odd, user_id=odd)
    first, second = script.asked
    segments = first.target.split("/")
    assert segments[:6] == ["", "behind", "a", "proxy", "api", "threads"]
    assert [unquote(segment) for segment in segments[6:]] == [odd, odd, "topics", odd]
    assert not {".", ".."} & set(segments)
    assert [unquote(segment) for segment in second.path.split("/")[4:]] == ["api", "sessions", odd]
    assert parse_qs(second.query, strict_parsing=True) == {"user_id": [odd]}


# --- lists and waits -----------------------------------------------------------------------------------------
async def test_list_is_read_page_by_page(script: HttpScript, memory: MemoryClient) -> None:
    script.then(
        answer(page(answers.Session, SESSION, cursor="abc")),
        answer(page(answers.Session, cursor="def")),
        answer(page(answers.Session, SESSION)),
    )
    assert await memory.sessions() == [SESSION, SESSION]
    expected = ["limit=1000", "limit=1000&cursor=abc", "limit=1000&cursor=def"]
    assert [asked.query for asked in script.asked] == expected


async def test_list_without_end_is_an_error(script: HttpScript, memory: MemoryClient) -> None:
    endless = answer(page(answers.Session, cursor="abc"))
    script.then(endless, endless)
    with pytest.raises(errors.ServiceError, match="the same page again"):
        await memory.sessions()


async def test_long_history_is_filled_from_several_pages(script: HttpScript, memory: MemoryClient) -> None:
    script.then(
        answer(page(answers.Turn, *[TURN] * 1_000, cursor=encode_cursor(1_500))),
        answer(page(answers.Turn, *[TURN] * 1_000, cursor=encode_cursor(2_500))),
        answer(page(answers.Turn, *[TURN] * 400, cursor=encode_cursor(2_900))),
    )
    found = await memory.history(limit=2_400)
    assert len(found.turns) == 2_400
    assert found.next == 2_900
    asked = [parse_qs(one.query) for one in script.asked]
    assert [one["limit"] for one in asked] == [["1000"], ["1000"], ["400"]]
    assert [decode_cursor(one["cursor"][0]) if "cursor" in one else 0 for one in asked] == [0, 1_500, 2_500]


async def test_more_last_turns_than_a_page_holds_are_the_end_of_the_history(
    script: HttpScript, memory: MemoryClient
) -> None:
    numbered = [answers.Turn.of(TURN).model_copy(update={"seq": seq}).domain() for seq in range(1, 1_301)]
    script.then(
        answer(page(answers.Turn, *numbered[:1_000], cursor=encode_cursor(1_000))),
        answer(page(answers.Turn, *numbered[1_000:])),
    )
    assert await memory.fetch_short_term(1_200) == numbered[100:]


async def test_settle_asks_again_until_it_is_done_and_reports_progress(
    script: HttpScript, memory: MemoryClient
) -> None:
    status = answer(of(answers.MemoryStatus, STATUS))
    owed = problem(409, "settle-timeout", "after 1 s still owed")
    script.then(status, owed, status, owed, status, answer(b"", 204), status)
    seen: list[MemoryStatus] = []
    await memory.settle(60, without=["facts"], progress=seen.append)
    assert seen == [STATUS] * 4
    waits = [asked.json() for asked in script.asked if asked.path == f"{P}/settle"]
    assert waits == [{"timeout": 1.0, "without": ["facts"]}] * 3


async def test_parked_turns_are_raised_as_they_are(script: HttpScript, memory: MemoryClient) -> None:
    parked = errors.TurnsParked([some(ParkedTurn)])
    script.then(answer(problem_of(parked).to_json(), 409, media_type="application/problem+json"))
    with pytest.raises(errors.TurnsParked) as caught:
        await memory.settle()
    assert caught.value.parked == parked.parked


# --- the service client --------------------------------------------------------------------------------------


async def test_ready_asks_once_and_without_the_key(script: HttpScript, service: ServiceClient) -> None:
    script.then(
        answer({"status": "ready"}),
        answer({"status": "down"}, 503),
        cut(),
        answer("<html>", media_type="text/html"),
    )
    assert [await service.ready() for _ in range(3)] == [True, False, False]
    with pytest.raises(errors.ServiceError, match="text/html"):
        await service.ready()
    assert [asked.target for asked in script.asked] == ["/readyz"] * 4
    assert all(asked.header("authorization") is None for asked in script.asked)
