"""What loads when: an application that talks to a service needs none of what the service needs."""

from __future__ import annotations

import subprocess
import sys


def loaded_by(statement: str) -> set[str]:
    """The packages that are loaded after `statement` ran in a fresh process."""
    script = f"import sys\n{statement}\nsys.stdout.write(' '.join(sys.modules))"
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return set(finished.stdout.split())


def test_client_loads_neither_the_server_nor_stores_nor_models_and_is_loaded_by_nobody_else() -> None:
    loaded = loaded_by("from memory_agent import MemoryClient, ServiceClient")
    foreign = {
        "fastapi",
        "starlette",
        "uvicorn",
        "pymongo",
        "motor",
        "chromadb",
        "openai",
        "onnxruntime",
        "torch",
    }
    assert not loaded & {*foreign, "memory_agent.server", "memory_agent.stores", "memory_agent.models"}
    assert "httpx" in loaded
    assert not loaded_by("import memory_agent") & {"httpx", "httpx_sse", "memory_agent.client"}
