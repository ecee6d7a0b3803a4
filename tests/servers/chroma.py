"""A real Chroma server as a process of its own, for tests and benchmarks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.mongod import free_port


class ChromaProcess:
    """`chroma run` on a fixed folder and port: it can be stopped, killed and started again in place."""

    host = "127.0.0.1"

    def __init__(self, path: Path, *, port: int | None = None) -> None:
        self.path = path
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.path.with_name(self.path.name + ".log")

    @property
    def pid(self) -> int:
        """The process id; raises RuntimeError if it is not running."""
        if self._process is None:
            raise RuntimeError("this Chroma server is not running; call start()")
        return self._process.pid

    def start(self) -> ChromaProcess:
        """Start it and wait until it answers, as long as it runs: a test has a limit of its own."""
        self.path.mkdir(parents=True, exist_ok=True)
        # What the program `chroma` does, but for a second of imports.
        program = "import sys, chromadb_rust_bindings as chroma; chroma.cli(['chroma', *sys.argv[1:]])"
        command = [sys.executable, "-c", program, "run", "--path", str(self.path)]
        command += ["--host", self.host, "--port", str(self.port)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env=os.environ | {"ANONYMIZED_TELEMETRY": "False"},
                cwd=self.path,
            )
        while not self._answers():
            if self._process.poll() is not None:
                self._process = None
                raise RuntimeError(f"chroma did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.05)
        return self

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Chroma's own client, closed with its connections, which it leaves open otherwise."""
        import chromadb

        client: Any = chromadb.HttpClient(self.host, self.port)
        sessions = [each._server._session for each in (client, client._admin_client)]
        try:
            yield client
        finally:
            client.close()
            for session in sessions:
                session.close()

    def stop(self) -> None:
        """Ask it to end, and wait until it did."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without warning."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://{self.host}:{self.port}/api/v2/heartbeat", timeout=2
            ) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False
