"""Nothing phones home: what we run asks for no name, reaches no address, and leaves nothing outside its own folders."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from memory_agent.models.local.atomic_build import Making
from memory_agent.models.local.choose import ModelChoiceRequest, choose, prepare
from tests import leftovers
from tests.fence import Fence, Note
from tests.servers.chroma import ChromaProcess
from tests.servers.service import ServiceProcess

SECONDS = 240
LINGER_SECONDS = 12.0
"""ONNX Runtime asks for its address some 9 seconds after it was loaded."""

SYSTEM = ("/dev/", "/var/lib/libuuid/")
"""Devices; and libuuid's clock, which the standard library's `uuid1` (onnx calls it) sets where there is such a folder."""

PROGRAM = f"""
import asyncio, time
from memory_agent import MemoryConfig, MemoryService

async def main():
    async with MemoryService(MemoryConfig()) as service:
        memory = service.agent(user_id="ada", thread_id="holidays")
        await memory.update_memory("In June we go to Porto Covo.", "Noted.")
        await memory.settle(200)
        print(await memory.fetch_memory("Where do we go on holiday?"))
        await asyncio.sleep({LINGER_SECONDS})

asyncio.run(main())
"""

ALSO_LOADED = """
import time
import memory_agent, chromadb, fastapi, huggingface_hub, mcp, onnxruntime, openai, rs_bpe, tokenizers
time.sleep({seconds})
"""


class Home:
    """An empty home in an empty folder, and what was tried from there."""

    def __init__(self, folder: Path, fence: Fence, **settings: object) -> None:
        """`settings`: of what is started there, beside the folders of an embedded service."""
        self.folder = folder
        self.fence = fence
        self.file = folder.with_name(f"{folder.name}.notes")
        self.settings = {"data_dir": folder / "data", **settings}
        for name in ("home", "tmp", "work", "data"):
            (folder / name).mkdir(parents=True)

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the environment around the tests, but for what tells whose processes these are."""
        return {
            **leftovers.marks(),
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "HF_HUB_OFFLINE": "1",  # the packaged model is not asked for at the hub
            "PYTHONDONTWRITEBYTECODE": "1",
            **{f"MEMORY_AGENT_{name.upper()}": str(value) for name, value in self.settings.items()},
            **self.fence.environment(notes=self.file, writes=True),
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Python with these arguments, in the empty folder."""
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder / "work",
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> str:
        """What it printed, once it has ended well."""
        process = self.start(*arguments)
        said, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, said
        return said

    def tried(self) -> list[Note]:
        """Names and addresses outside this machine, and writes where nobody asked for them.

        What is put into the folder for temporary files may be there while it is needed; see `left`.
        """
        named = ("data_dir", "model_cache_dir")
        own = (
            *(str(self.settings[name]) for name in named if name in self.settings),
            str(self.folder / "tmp"),
        )
        return [note for note in self.fence.notes(self.file) if not note.which.startswith((*own, *SYSTEM))]

    def left(self) -> list[str]:
        """Files that stayed in the home, in the folder for temporary files and in the one that was the current one."""
        return [str(file) for name in ("home", "tmp", "work") for file in (self.folder / name).rglob("*")]


@pytest.fixture
def models(tmp_path: Path) -> dict[str, Path]:
    """Settings: a cache with the ONNX file of the packaged model, and the int8 file still to be made."""
    wanted = ModelChoiceRequest(model="all-MiniLM-L6-v2", backend="onnx")
    prepare(choose(wanted), wanted, Making(progress=print))
    shutil.copytree(wanted.cache, tmp_path / "models", ignore=shutil.ignore_patterns("int8*", "*.lock"))
    return {"model_cache_dir": tmp_path / "models"}


@pytest.fixture
def home(tmp_path: Path, fence: Fence) -> Home:
    """For what needs no model."""
    return Home(tmp_path / "one", fence)


@pytest.mark.nightly  # by day the fence around every process tells what any of them tried
async def test_a_program_a_service_and_a_chroma_server_are_quiet(
    tmp_path: Path, fence: Fence, models: dict[str, Path]
) -> None:
    """Each from its first start with an empty home to where telemetry that waits would have been sent.

    The program makes the int8 file first, in a process of its own.
    """
    homes = {
        name: Home(tmp_path / name, fence, **models, embedding_precision=precision)
        for name, precision in (
            ("program", "int8"),
            ("service", "fp32"),
            ("libraries", "fp32"),
            ("chroma", "fp32"),
        )
    }
    program = homes["program"].start("-c", PROGRAM)
    libraries = homes["libraries"].start("-c", ALSO_LOADED.format(seconds=LINGER_SECONDS))
    chroma = ChromaProcess(homes["chroma"].folder / "data" / "server")
    service = quiet_service(homes["service"])
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch_environment(patch, homes["chroma"].environment)
            await asyncio.to_thread(chroma.start)
        await asyncio.to_thread(service.start)
        await talk_to(service.address)
        heard = asyncio.get_running_loop().time() + LINGER_SECONDS
        said, _ = await asyncio.to_thread(program.communicate, timeout=SECONDS)
        assert "Porto Covo" in said, said
        said, _ = await asyncio.to_thread(libraries.communicate, timeout=SECONDS)
        assert libraries.returncode == 0, said
        await asyncio.sleep(heard - asyncio.get_running_loop().time())
    finally:
        service.stop()
        chroma.stop()
        for process in (program, libraries):
            process.kill()
            process.communicate()
    assert {name: home.tried() for name, home in homes.items() if home.tried()} == {}
    assert {name: home.left() for name, home in homes.items() if home.left()} == {}


def patch_environment(patch: pytest.MonkeyPatch, environment: Mapping[str, str]) -> None:
    for name, value in environment.items():
        patch.setenv(name, value)


def quiet_service(home: Home) -> ServiceProcess:
    service = ServiceProcess(home.folder / "data" / "logs", "--insecure-no-auth", settings={})
    service.environment = {**home.environment, "MEMORY_AGENT_SERVER_PORT": "0"}
    service.forked = False  # what is imported is to be heard as well
    return service


async def talk_to(address: str) -> None:
    """What a first hour with the service asks for: its page, MCP, a turn, a question."""
    async with httpx.AsyncClient(base_url=address, timeout=SECONDS) as client:
        thread = "/api/threads/ada/holidays"
        said = {"user_msg": "In June we go to Porto Covo.", "assistant_msg": "Noted."}
        for answer in (
            await client.get("/docs"),
            await client.get("/openapi.json"),
            await client.post(f"{thread}/update", json=said),
            await client.post(f"{thread}/settle", json={"timeout": 200}),
            await client.post(f"{thread}/fetch", json={"user_message": "Where do we go?"}),
        ):
            assert answer.is_success, answer.text
        assert (
            await client.post("/mcp", json={})
        ).status_code == 400  # it answers; what MCP takes is shown elsewhere


@pytest.mark.nightly
def test_the_command_line_is_quiet(tmp_path: Path, fence: Fence, models: dict[str, Path]) -> None:
    home = Home(tmp_path / "one", fence, **models)
    turn = '{"role": "user", "content": "In June we go to Porto Covo."}\n'
    (home.folder / "data" / "turns.jsonl").write_text(turn)
    command = ("-m", "memory_agent.cli")
    home.run(*command, "ingest", str(home.folder / "data" / "turns.jsonl"), "--user", "ada")
    assert "Porto Covo" in home.run(*command, "ask", "Where do we go?", "--user", "ada")
    assert home.tried() == []
    assert home.left() == []


def test_what_the_user_set_stands(home: Home) -> None:
    """Whoever wants ONNX Runtime's telemetry says so; processes that are started inherit our setting."""
    code = "import os, memory_agent; from memory_agent.models.local.atomic_build import child_environment; print(child_environment()['ORT_DISABLE_TELEMETRY'])"
    assert home.run("-c", code).strip() == "1"
    chosen = f"import os; os.environ['ORT_DISABLE_TELEMETRY'] = '0'; {code}"
    assert home.run("-c", chosen).strip() == "0"


TRIED = {
    "socket.getaddrinfo('example.org', 443)": ("look-up", "example.org"),
    "socket.gethostbyname('example.com')": ("look-up", "example.com"),
    "libc.getaddrinfo(b'example.net', None, None, ctypes.byref(room))": ("look-up", "example.net"),
    "libc.gethostbyname(b'one.example.org')": ("look-up", "one.example.org"),
    "socket.create_connection(('192.0.2.1', 443), 1)": ("connection", "192.0.2.1:443"),
    "udp.sendto(b'?', ('192.0.2.1', 53))": ("connection", "192.0.2.1:53"),
    "udp.sendto(b'?', ('127.0.0.53', 53))": ("connection", "127.0.0.53:53"),
    "udp.sendmsg([b'?'], [], 0, ('192.0.2.2', 53))": ("connection", "192.0.2.2:53"),
    "open(home + '/note', 'w')": ("write", "HOME/note"),
    "os.mkdir(home + '/folder')": ("write", "HOME/folder"),
    "libc.fopen((home + '/letter').encode(), b'a')": ("write", "HOME/letter"),
    "os.open('leaf', os.O_CREAT | os.O_WRONLY, dir_fd=os.open(home, os.O_RDONLY))": ("write", "HOME/leaf"),
}
"""What one tries, and what the fence notes of it."""


def test_the_fence_would_notice(home: Home) -> None:
    """Each attempt once, in their order."""
    tries = "".join(f"with contextlib.suppress(OSError):\n    {line}\n" for line in TRIED)
    code = """
import contextlib, ctypes, os, socket
libc, room = ctypes.CDLL(None), ctypes.c_void_p()
udp, home = socket.socket(type=socket.SOCK_DGRAM), os.environ["HOME"]
"""
    home.run("-c", code + tries)
    noted = [(note.what, note.which.replace(str(home.folder / "home"), "HOME")) for note in home.tried()]
    assert noted == list(TRIED.values())


def test_the_fence_lets_loopback_and_names_of_this_machine_through(home: Home) -> None:
    code = """
import socket
listening = socket.create_server(("127.0.0.1", 0))
for host in ("127.0.0.1", "localhost"):
    socket.create_connection((host, listening.getsockname()[1]), 5).close()
socket.getaddrinfo(socket.gethostname(), None)
"""
    home.run("-c", code)
    assert home.tried() == []
