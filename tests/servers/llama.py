"""A real language model: llama.cpp's OpenAI-compatible server as a process of its own, on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.llm.models import PYTHON, LocalModel
from tests.servers.mongod import free_port

_PATIENCE_SECONDS = 180


class LlamaServer:
    """Serves a model; `log` is what it printed. It keeps its port when it is started again."""

    def __init__(self, model: LocalModel, log: Path, *, context: int = 8_192) -> None:
        self.model, self.log, self.context = model, log, context
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Start it, and wait until it answers. Raises RuntimeError with what it printed if it ends instead."""
        assert PYTHON.exists(), f"{PYTHON} is missing: `make llm` builds it"
        options = {"model": self.model.file, "n_ctx": self.context, "n_threads": os.cpu_count() or 2}
        options |= {"model_alias": self.model.name, "host": "127.0.0.1", "port": self.port}
        given = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(PYTHON), "-m", "llama_cpp.server", *given],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + _PATIENCE_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop()
                raise RuntimeError(f"llama_cpp.server did not start:\n{self.log.read_text('utf-8')[-2000:]}")
            time.sleep(0.2)
        return self

    def stop(self) -> None:
        """End it at once; whatever it was asked stays without an answer."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.base_url}/models", timeout=5):
                return True
        except OSError:
            return False
