"""LiteLLM's proxy as a process of its own, in front of a scripted model: the endpoint that many people have."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil

from tests.servers.mongod import free_port
from tests.strangers import program


class LiteLLMProxy:
    """It knows the models `models`, all of them the scripted one behind it, and one key, `key`; without a database."""

    host = "127.0.0.1"

    def __init__(
        self, folder: Path, upstream: str, *, key: str = "sk-master", models: tuple[str, ...]
    ) -> None:
        self.folder = folder
        self.upstream = upstream
        self.key = key
        self.models = models
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        return f"http://{self.host}:{self.port}/v1"

    @property
    def log(self) -> Path:
        return self.folder / "litellm.log"

    def start(self) -> LiteLLMProxy:
        """Start it with what it is to know by now, and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "config.yaml"
        config.write_text(json.dumps(self._config()))  # JSON is YAML
        command = [program("litellm"), "--config", str(config), "--host", self.host, "--port", str(self.port)]
        # The table of prices would be fetched from the network otherwise.
        quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "NO_PROXY": "*"}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--telemetry", "False"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | quiet,
                cwd=self.folder,
            )
        while not self._answers():
            if self._process.poll() is not None:
                self._process = None
                raise RuntimeError(f"litellm did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.2)
        return self

    def stop(self) -> None:
        """Ask it to end, and wait until it did."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)

    def elsewhere(self) -> list[str]:
        """Addresses outside of this machine that it holds a connection to."""
        assert self._process is not None
        found = psutil.Process(self._process.pid).net_connections("inet")
        return [c.raddr.ip for c in found if c.raddr and c.raddr.ip not in ("127.0.0.1", "::1")]

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.host}:{self.port}/health/liveliness", timeout=5) as ok:
                return bool(ok.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _config(self) -> dict[str, object]:
        behind = {
            "model": "openai/scripted",
            "api_base": self.upstream,
            "api_key": "sk-upstream",
            "max_retries": 0,
        }
        return {
            "model_list": [{"model_name": name, "litellm_params": behind} for name in self.models],
            "general_settings": {"master_key": self.key},
            "litellm_settings": {"num_retries": 0},
            # Else a deployment that failed once is left alone for five seconds, whatever is asked.
            "router_settings": {"disable_cooldowns": True},
        }
