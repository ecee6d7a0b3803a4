"""Fixtures that every kind of test may use: real MongoDB servers, and a fence around the network."""

from __future__ import annotations

import contextlib
import gc
import importlib
import ipaddress
import signal
import socket
import ssl
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import certifi
import pytest

from tests import profiles
from tests.conformance.stores import ADAPTERS, EVERY_SERVER, SILENT, USUAL, Stores
from tests.fence import Fence
from tests.servers.forks import end_forks
from tests.servers.mongod import Mongod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from memory_agent.ports import DocumentStore
    from tests.conformance.values import OpenStore

pytest_plugins = ("tests.fixtures", "tests.hangs", "tests.leftovers", "tests.over_http", "tests.peaks")
profiles.load()
_PARTS: Final = ("conformance", "documents", "faults", "integration", "unit")
"""Of the run of all tests; others have an environment and a run of their own."""


def pytest_configure() -> None:
    """Let Ctrl-C end what tests start, also where the run is in a shell's background, which ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect with a garbage collector that looks at what is new alone: of thousands of tests hardly anything is garbage.

    Looking at all takes a third of the time, looking at nothing 50 MB. Afterwards the collector leaves the tests alone.
    """
    usual = gc.get_threshold()
    gc.set_threshold(10_000, 1_000, 1_000)
    try:
        _import_a_share(session.config)
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*usual)


def _import_a_share(config: pytest.Config) -> None:
    """Import this worker's share of the modules before all: in a fresh clone each one's asserts are rewritten by one worker, not by all."""
    worker, folder = getattr(config, "workerinput", None), Path(__file__).parent
    if worker is None or [Path(one).resolve() for one in config.args] != [folder]:
        return
    files = sorted(chain.from_iterable((folder / part).rglob("test_*.py") for part in _PARTS))
    for file in files[int(worker["workerid"][2:]) :: worker["workercount"]]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # told when it is collected
            importlib.import_module(".".join(file.with_suffix("").relative_to(folder.parent).parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, which has a limit of its own: at the end one worker would be left alone with it."""
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


@pytest.fixture(scope="session")
def fence(tmp_path_factory: pytest.TempPathFactory) -> Fence:
    """A fence for processes that tests start, compiled once."""
    return Fence(tmp_path_factory.mktemp("fence"))


@pytest.fixture(scope="session", autouse=True)
def loopback_only(fence: Fence) -> Iterator[None]:
    """No test reaches a network outside this machine; one that tries fails, and says where it wanted to go.

    Processes that tests start stand behind a fence below Python, which stops their native libraries too; what they tried
    is told at the end. In the tests' own process it is Python's sockets that are fenced.
    """
    connect = socket.socket.connect

    def fenced(self: socket.socket, address: object) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and isinstance(address, tuple):
            host = str(address[0])
            if host != "localhost" and not ipaddress.ip_address(host).is_loopback:
                raise AssertionError(f"a test tried to reach {address!r}; only loopback is allowed")
        connect(self, address)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", fenced)
        # Nobody whom a test reaches has a certificate: each HTTP client would read those of 140 authorities, for 25 ms.
        authorities = Path(certifi.where()).read_text("utf-8")
        one = fence.library.with_name("authority.pem")
        one.write_text(authorities.partition(ssl.PEM_FOOTER)[0] + ssl.PEM_FOOTER, "utf-8")
        patch.setattr(certifi, "where", lambda: str(one))
        patch.setenv("SSL_CERT_FILE", str(one))
        for name, value in fence.environment().items():
            patch.setenv(name, value)
        yield
    assert not fence.notes(), f"processes that tests started tried to reach {fence.notes()}"


@pytest.fixture(scope="session", autouse=True)
def _forks_end(fence: Fence) -> Iterator[None]:
    """After whatever was forked, and before the fence is looked at."""
    yield
    end_forks()


@pytest.fixture(scope="session")
def mongod() -> Iterator[Mongod]:
    """A running one-node replica set."""
    with Mongod(quick=True) as server:
        yield server


@pytest.fixture(scope="session")
def mongod_standalone() -> Iterator[Mongod]:
    """A running mongod without a replica set: no retryable writes, no transactions, no oplog."""
    with Mongod(replica_set=False, quick=True) as server:
        yield server


@pytest.fixture
def db_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database on each server that runs, the same for all tests of this process; emptied afterwards."""
    yield "test"
    for server in _running(request):
        server.empty("test")


@pytest.fixture
def fresh_db_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of this test's own, for tests of indexes and of what is read by them; dropped afterwards."""
    name = f"test_{uuid4().hex}"
    yield name
    for server in _running(request):
        server.drop(name)


def _running(request: pytest.FixtureRequest) -> list[Mongod]:
    """The servers that the test asked for."""
    asked_for = [name for name in ("mongod", "mongod_standalone") if name in request.fixturenames]
    return [request.getfixturevalue(name) for name in asked_for]


_SERVERS = {"mongodb": "mongod", "mongodb-motor": "mongod", "mongodb-standalone": "mongod_standalone"}


_STORES_OF = {
    "on_every_server": EVERY_SERVER,
    "telling": [name for name in USUAL if name not in SILENT],
    "telling_by_any_driver": [name for name in ADAPTERS if name not in SILENT],
}


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is marked so runs on all servers, or on those that tell events; not where somebody else's fixtures give the store."""
    for marker, stores in _STORES_OF.items():
        if "stores" in metafunc.fixturenames and metafunc.definition.get_closest_marker(marker):
            metafunc.definition.add_marker(pytest.mark.parametrize("stores", stores, indirect=True))


@pytest.fixture(params=USUAL)
def stores(request: pytest.FixtureRequest, tmp_path: Path, db_name: str) -> Stores:
    """An empty database of each usual adapter; its server is started by the first test that needs it."""
    adapter: str = request.param
    server: Mongod | None = request.getfixturevalue(_SERVERS[adapter]) if adapter in _SERVERS else None
    return Stores(adapter, folder=tmp_path, db_name=db_name, uri=server.uri if server else None)


@pytest.fixture
async def open_store(stores: Stores) -> AsyncIterator[OpenStore]:
    """Opens document stores on the test's database; all are closed at the end."""
    yield stores.open
    await stores.close()


@pytest.fixture
async def store(open_store: OpenStore) -> DocumentStore:
    """An open, empty document store."""
    return await open_store()
