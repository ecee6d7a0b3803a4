"""The blocking API over real stores and over HTTP: from scripts, from many threads, and interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_agent import DataDirInUse, InvalidInput, MemoryConfig, NotFound, NotOpen
from memory_agent.sync import MemoryAgent, MemoryClient, MemoryService, ServiceClient
from tests.integration.rest import rest_on
from tests.servers.mongod import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent import MemoryEvent
    from memory_agent.models.local.embedder import LocalEmbedder

PAGE = Path(__file__).parents[2] / "docs" / "sync.md"
SECONDS = 120


def from_the_page() -> list[str]:
    """The programs of the page: a script, and an application for Flask."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)


@pytest.fixture
def service(settings: dict[str, Any], shared_embedder: LocalEmbedder) -> Iterator[MemoryService]:
    """A blocking service, embedded and on servers."""
    with MemoryService(MemoryConfig(**settings), embedder=shared_embedder) as opened:
        yield opened


def test_calls_do_what_the_asynchronous_ones_do_and_raise_their_errors(service: MemoryService) -> None:
    memory = service.agent(user_id="ada", thread_id="holidays")
    receipt = memory.update_memory("In June we go to Porto Covo.", "Noted.")
    seen: list[object] = []
    memory.settle(SECONDS, progress=seen.append)
    assert seen
    with pytest.raises(RuntimeError, match="runs an event loop"):  # a callback cannot block what calls it
        memory.settle(SECONDS, progress=lambda status: memory.settle())
    assert "Porto Covo" in str(memory.fetch_memory("Where do we go?"))
    assert memory.fetch_long_term("Where do we go in June?")[0].turn.id == receipt.turn_ids[0]
    assert service.search("ada", "Porto Covo", 1)[0].turn.seq == 1
    assert (memory.scope.user_id, service.cfg.short_term_window, service.usage) == ("ada", 10, None)
    with pytest.raises(InvalidInput, match="role is 'narrator'"):
        memory.add_turn("narrator", "Once upon a time")  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="nowhere"):
        memory.topic_stats("nowhere")
    with pytest.raises(TypeError, match="no_such_argument"):
        memory.status(no_such_argument=1)  # type: ignore[call-arg]
    assert service.forget_user("ada").turns == 2
    assert service.status().turns == 0


def test_many_threads_share_a_service(service: MemoryService) -> None:
    """Their turns are all there, numbered in a row."""

    def say(number: int) -> int:
        memory = service.agent("ada", f"chat {number % 2}")
        return [memory.update_memory(f"Said {number}, {i}.", "Yes.").seq for i in range(5)][-1]

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(say, range(16)))
    for thread in ("chat 0", "chat 1"):
        turns = service.agent("ada", thread).history(limit=1_000).turns
        assert [turn.seq for turn in turns] == list(range(1, 81))
        assert len({turn.content for turn in turns if turn.role == "user"}) == 40


def test_events_are_iterated_until_they_are_closed(embedded_settings: dict[str, Any]) -> None:
    cfg = MemoryConfig(**embedded_settings, run_worker=False)  # which would tell of its own
    with MemoryAgent("ada", "chat", cfg) as memory:
        kinds: list[str] = []
        with contextlib.closing(memory.events()) as events:
            watching = threading.Event()

            def watch() -> None:
                watching.set()
                for event in events:
                    kinds.append(event.kind)
                    if len(kinds) == 2:
                        return

            watcher = threading.Thread(target=watch)
            watcher.start()
            watching.wait(SECONDS)
            say_until(memory, lambda: not watcher.is_alive())
            watcher.join(SECONDS)
        assert kinds == ["turn_stored", "turn_stored"]
        assert list(events) == []


def say_until(memory: MemoryAgent, done: Any) -> None:
    """Go on saying something until `done`: who watches has begun at some time, which it doesn't tell."""
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline
        memory.update_memory("Hello.", "Hello!")
        time.sleep(0.2)


def test_closing_ends_calls_that_wait(embedded_settings: dict[str, Any]) -> None:
    """In another thread, for an event that will never come."""
    first = threading.Event()
    ended: list[BaseException | None] = []
    with MemoryAgent("ada", "chat", MemoryConfig(**embedded_settings)) as memory:

        def watch() -> None:
            try:
                for _ in memory.events():
                    first.set()
            except NotOpen as exc:
                ended.append(exc)

        watcher = threading.Thread(target=watch)
        watcher.start()
        say_until(memory, first.is_set)
    watcher.join(SECONDS)
    assert not watcher.is_alive()
    assert [type(error) for error in ended] == [NotOpen]


def test_what_cannot_be_opened_says_so_and_can_be_opened_later(embedded_settings: dict[str, Any]) -> None:
    cfg = MemoryConfig(**embedded_settings)
    other = MemoryService(cfg)
    with MemoryService(cfg), pytest.raises(DataDirInUse), other:
        pass
    with other:
        assert other.status().turns == 0


async def test_over_http_it_is_the_same(embedded_settings: dict[str, Any]) -> None:
    async with rest_on(embedded_settings) as rest:
        key = await rest.server.key()
        await asyncio.to_thread(_talk_over_http, rest.server.address, key)


def _talk_over_http(address: str, key: str) -> None:
    with ServiceClient(address, api_key=key) as service:
        assert service.ready()
        memory = service.agent("ada", "chat")
        memory.update_memory("In June we go to Porto Covo.", "Noted.")
        memory.settle(SECONDS)
        assert "Porto Covo" in str(memory.fetch_memory("Where do we go?"))
        with pytest.raises(NotFound):
            memory.topic_stats("nowhere")
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda i: memory.add_user_message(f"Message {i}."), range(40)))
    with MemoryClient("ada", "chat", base_url=address, api_key=key) as alone:
        assert alone.status().turns == 42
        events: list[MemoryEvent] = []
        with contextlib.closing(alone.events()) as stream:
            watcher = threading.Thread(target=lambda: events.append(next(stream)))
            watcher.start()
            while watcher.is_alive():
                alone.update_memory("Hello.", "Hello!")
                time.sleep(0.2)
        assert (events[0].user_id, events[0].thread_id) == ("ada", "chat")
    with pytest.raises(NotOpen):
        alone.status()


# --- as programs
def program(folder: Path, code: str, *arguments: str) -> subprocess.Popen[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_AGENT_")}
    (folder / "program.py").write_text(code)
    return subprocess.Popen(
        [sys.executable, "-W", "error::ResourceWarning", "program.py", *arguments],
        cwd=folder,
        env={**own, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_page_s_script_finds_what_it_remembered(tmp_path: Path) -> None:
    said, _ = (started := program(tmp_path, from_the_page()[0])).communicate(timeout=SECONDS)
    assert started.returncode == 0, said
    assert re.search(r"^0\.\d\d  In June we go to Porto Covo\.$", said, flags=re.MULTILINE)


def test_the_page_s_application_serves_requests_side_by_side_and_stops(tmp_path: Path) -> None:
    """With Flask's own server, a thread for each request; Ctrl-C closes the service."""
    port = free_port()
    started = program(tmp_path, from_the_page()[1].replace("port=5000", f"port={port}"))
    url = f"http://127.0.0.1:{port}/chat/ada/holidays"
    try:
        deadline = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(httpx.ConnectError):
                httpx.post(
                    url, json={"text": "In June we go to Porto Covo."}, timeout=SECONDS
                ).raise_for_status()
                break
            assert started.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        with ThreadPoolExecutor(8) as threads:
            answers = list(
                threads.map(lambda i: httpx.post(url, json={"text": f"And {i}?"}, timeout=SECONDS), range(16))
            )
        assert {answer.status_code for answer in answers} == {200}
        assert all(int(answer.json()["answer"].split()[-2]) > 100 for answer in answers)
    finally:
        started.send_signal(signal.SIGINT)
        said, _ = started.communicate(timeout=SECONDS)
    assert "Traceback" not in said
    with MemoryAgent("ada", "holidays", MemoryConfig(data_dir=tmp_path / "data", run_worker=False)) as memory:
        assert memory.status().turns == 34


INTERRUPTED = """
from memory_agent import MemoryConfig
from memory_agent.sync import MemoryService

with MemoryService(MemoryConfig(data_dir="memory")) as service:
    memory = service.agent("ada", "chat")
    memory.update_memory("Hello.", "Hello!")
    print("runs", flush=True)
    try:
        service.run_worker()
    except KeyboardInterrupt:
        print("interrupted, with", memory.status().turns, "turns")
print("closed")
"""


def test_an_interrupted_call_ends_and_the_service_closes(tmp_path: Path) -> None:
    started = program(tmp_path, INTERRUPTED)
    assert started.stdout is not None
    assert started.stdout.readline() == "runs\n"
    time.sleep(0.5)
    started.send_signal(signal.SIGINT)
    said, _ = started.communicate(timeout=SECONDS)
    assert (started.returncode, said) == (0, "interrupted, with 2 turns\nclosed\n")


FORKED = """
import os
from memory_agent import MemoryConfig, NotOpen
from memory_agent.sync import MemoryService

with MemoryService(MemoryConfig(data_dir="memory", run_worker=False)) as service:
    if os.fork() == 0:
        try:
            service.status()
        except NotOpen as exc:
            print(exc, flush=True)
        service.__exit__(None, None, None)
        os._exit(0)
    os.wait()
    print(service.status().turns, "turns")
"""


def test_a_fork_is_told_to_open_its_own(tmp_path: Path) -> None:
    """Instead of waiting for a thread that stayed behind; the process that opened it goes on."""
    said, _ = program(tmp_path, FORKED).communicate(timeout=SECONDS)
    assert "open it after forking" in said
    assert said.endswith("0 turns\n")


LEFT_OPEN = """
from memory_agent import MemoryConfig
from memory_agent.sync import MemoryService

service = MemoryService(MemoryConfig(data_dir="memory")).__enter__()
print(service.agent("ada", "chat").update_memory("Hello.", "Hello!").seq)
"""


def test_a_program_that_does_not_close_is_closed_at_its_end(tmp_path: Path) -> None:
    """While its worker is busy, whose threads end with the program."""
    started = program(tmp_path, LEFT_OPEN)
    said, _ = started.communicate(timeout=SECONDS)
    assert (started.returncode, said) == (0, "2\n")
    with MemoryAgent("ada", "chat", MemoryConfig(data_dir=tmp_path / "memory", run_worker=False)) as memory:
        assert memory.status().turns == 2
