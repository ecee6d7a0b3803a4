"""`memory-agent` as many processes that were imported once: a server that forks itself for every command, one for all workers of a run.

Tests run commands by the hundred, and most of what a command takes is importing. The server (this file, run by
itself) imports what commands import, loads the default model, remembers and recalls once, and forks for each call; the forked process gets the caller's arguments,
folder, environment and standard streams, and calls the entry point. Beside that it is the process that a user would start.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from filelock import FileLock

_SHIM = """\
#!{python} -SE
import json, os, signal, socket, struct, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
call = json.dumps({{"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}).encode()
socket.send_fds(server, [struct.pack("<I", len(call))], [0, 1, 2])
server.sendall(call)
(pid,) = struct.unpack("<i", server.recv(4))
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: os.kill(pid, number))
told = server.recv(4)
if not told:
    print(f"process {{pid}} was ended by a signal, or before it could tell its exit code", file=sys.stderr)
sys.exit(struct.unpack("<i", told)[0] if told else 70)
"""

_LOADED_LATE = (
    *(
        "chromadb",
        "filelock",
        "onnxruntime",
        "openai",
        "rich.markdown",
        "rs_bpe",
        "Stemmer",
        "tokenizers",
    ),
    "typer.rich_utils",
)
"""What commands import once they need it."""
_ADDRESS = "forks.socket"
ESTIMATES = "TESTS_ESTIMATE_TOKENS"
"""A variable of whoever estimates tokens, as services of a worker do: where answers of both are compared."""


class Forks:
    """The server, and the command that calls it."""

    def __init__(self, folder: Path, *, environment: dict[str, str]) -> None:
        """`folder`: where the command `memory-agent` is put; `environment`: what modules read when they are imported."""
        self.folder = folder
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def command(self) -> str:
        """The path of a program that forwards its arguments, streams and signals (but for kill -9) to a forked process."""
        return str(self.folder / "memory-agent")

    def start(self) -> int:
        """Its process id, once it takes calls."""
        address = self.folder / _ADDRESS
        shim = Path(self.command)
        shim.write_text(_SHIM.format(python=sys.executable, address=str(address)))
        shim.chmod(0o755)
        address.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(address)], cwd=self.folder, env=self._environment
        )
        while not address.exists():
            assert self._process.poll() is None, "the server of commands ended"
            time.sleep(0.05)
        return self._process.pid

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    def fork(
        self, arguments: Sequence[str], streams: Sequence[int], *, cwd: Path, env: Mapping[str, str]
    ) -> Forked:
        """The command with these arguments; `streams`: the descriptors of its stdin, stdout and stderr."""
        call = json.dumps({"argv": [*arguments], "cwd": str(cwd), "env": {**env}}).encode()
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self.folder / _ADDRESS))
        socket.send_fds(server, [struct.pack("<I", len(call))], streams)
        server.sendall(call)
        (pid,) = struct.unpack("<i", server.recv(4, socket.MSG_WAITALL))
        return Forked(server, pid)

    def run(
        self, arguments: Sequence[str], *, stdin: str, cwd: Path, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """What `subprocess.run` would do for the command with these arguments; `stdin` has to fit into a pipe."""
        theirs, ours = os.pipe()
        with (
            tempfile.TemporaryFile("w+", encoding="utf-8") as out,
            tempfile.TemporaryFile("w+", encoding="utf-8") as err,
        ):
            forked = self.fork(arguments, (theirs, out.fileno(), err.fileno()), cwd=cwd, env=env)
            os.close(theirs)
            with open(ours, "w", encoding="utf-8") as written, contextlib.suppress(BrokenPipeError):
                written.write(stdin)
            try:
                code = forked.wait(timeout)
            except subprocess.TimeoutExpired:
                forked.kill()
                raise
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess([*arguments], code, out.read(), err.read())


class Forked:
    """A command that runs, with what tests need of `subprocess.Popen`."""

    def __init__(self, server: socket.socket, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._signal = 0
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code once it is gone, or minus the signal that ended it. Raises subprocess.TimeoutExpired."""
        if self._code is not None:
            return self._code
        self._server.settimeout(timeout)
        try:
            told = self._server.recv(4)
            while self._server.recv(4):  # until its end closes the connection
                pass
        except TimeoutError:
            raise subprocess.TimeoutExpired("memory-agent", timeout or 0) from None
        self._server.close()
        # Its files are closed one after the other: until it is gone, the port it listened on may still be taken.
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(self.pid, 0)
                time.sleep(0.005)
        self._code = struct.unpack("<i", told)[0] if told else -self._signal
        return self._code

    def send_signal(self, number: signal.Signals) -> None:
        """See `Popen.send_signal`."""
        self._signal = number
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it without warning, and wait until it is gone."""
        self.send_signal(signal.SIGKILL)
        self.wait()


@functools.cache
def forks() -> Forks:
    """The server of this run of tests, started by the first process that asks for it; the last that calls `end_forks` ends it."""
    folder = _folder()
    folder.mkdir(exist_ok=True)
    own = os.environ.items()
    # Neither settings nor the width of whoever asks first, which rich reads when it is imported.
    environment = {k: v for k, v in own if not k.upper().startswith(("MEMORY_AGENT_", "COLUMNS"))}
    found = Forks(folder, environment={**environment, "HF_HUB_OFFLINE": "1"})
    with FileLock(f"{folder}.lock"):
        if not _answers(folder / _ADDRESS):
            (folder / "server").write_text(str(found.start()))
        (folder / f"user-{os.getpid()}").touch()
    return found


def _answers(address: Path) -> bool:
    """True if a server listens there: one that has died leaves its address."""
    with socket.socket(socket.AF_UNIX) as asking:
        return asking.connect_ex(str(address)) == 0


def end_forks() -> None:
    """End that server, if this process asked for it and is the last."""
    if not forks.cache_info().currsize:
        return
    folder = _folder()
    with FileLock(f"{folder}.lock"):
        (folder / f"user-{os.getpid()}").unlink()
        if not any(folder.glob("user-*")):
            os.kill(int((folder / "server").read_text()), signal.SIGTERM)
            shutil.rmtree(folder, ignore_errors=True)
            Path(f"{folder}.lock").unlink()


def _folder() -> Path:
    """Of this run: pytest-xdist tells its processes a name, and one without it runs alone."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"alone-{os.getpid()}")
    return Path(tempfile.gettempdir()) / f"memory-agent-forks-{run}"


def serve(address: str) -> None:
    """Answer calls until the process is ended."""
    # The folder of this file, which comes first when a file is run, holds modules of the tests: what is forked sees none.
    one_model = importlib.import_module("one_model")
    sys.path.pop(0)
    for name in _LOADED_LATE:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(importlib.import_module("memory_agent").__path__, "memory_agent."):
        # The frameworks' adapters want what is not installed here, and no command loads them.
        if not module.name.endswith("__main__") and ".integrations." not in module.name:
            importlib.import_module(module.name)
    one_model.load_default()
    one_model.warm_up()
    for thread in threading.enumerate():  # on a busy machine one may still be ending
        if thread is not threading.main_thread():
            thread.join(60)
    assert threading.active_count() == 1, "a thread would not be there in what is forked"
    gc.freeze()  # nor would its pages be shared for long with what a collection touches

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{address}.new")
        listening.listen(16)
        os.rename(f"{address}.new", address)
        while True:
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> None:
    """Be the process of one call. Does not return."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    if not head:  # only whether there is anybody
        os._exit(0)
    (size,) = struct.unpack("<I", head)
    call = json.loads(connection.recv(size, socket.MSG_WAITALL))
    connection.sendall(struct.pack("<i", os.getpid()))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(call["cwd"])
    os.environ.clear()
    os.environ.update(call["env"])
    sys.argv = ["memory-agent", *call["argv"]]
    if ESTIMATES in os.environ:
        tokens = importlib.import_module("memory_agent.models.tokens")
        tokens.best_token_counter = tokens.EstimatedTokens  # type: ignore[attr-defined]
    code = _run()
    # As an interpreter ends: what a thread or a function of `atexit` holds up there holds this up.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for output in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            output.flush()
    with contextlib.suppress(OSError):
        connection.sendall(struct.pack("<i", code))
    os._exit(code)


def _run() -> int:
    """The exit code of the command, or of a program, which Python would be told of by the same arguments: "-", "-c" or "-m"."""
    import runpy
    import traceback

    from memory_agent.cli import main

    try:
        match sys.argv[1:]:
            case ["-"]:
                exec(compile(sys.stdin.read(), "<stdin>", "exec"), {"__name__": "__main__"})
            case ["-c", program, *arguments]:
                sys.argv = ["-c", *arguments]
                exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
            case ["-m", module, *arguments]:
                sys.path.insert(0, os.getcwd())
                sys.argv = [module, *arguments]
                runpy.run_module(module, run_name="__main__", alter_sys=True)
            case _:
                main()
        code = 0
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
        if isinstance(exc.code, str):  # as the interpreter does
            print(exc.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    for output in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            output.flush()
    return code


if __name__ == "__main__":
    serve(sys.argv[1])
