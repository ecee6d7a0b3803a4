"""A file made once, by another process, for all processes: it is there whole or not at all."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from memory_agent.errors import EmbedderError, EmbedderUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def child_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs `module`. The current folder is not imported from: anybody's files may be there."""
    return [sys.executable, "-P", "-m", module, *arguments]


def child_environment() -> dict[str, str]:
    """This process's environment, with what can be imported here importable there."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.2
_LONGEST_WAIT_SECONDS: Final = 600.0


class MakingStopped(EmbedderUnavailable):
    """A file was not made because somebody ended it; nothing is wrong with the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """Control of making a file: `progress` is told of each stage; `stop` ends it; `again` makes it though it is there."""

    progress: Callable[[str], None]
    stop: threading.Event = field(default_factory=threading.Event)
    again: bool = False


@contextlib.contextmanager
def whole_folder(target: Path, making: Making) -> Iterator[Path | None]:
    """A file to write instead of `target`, which takes its place when the block ends well; None if it is there.

    A folder is moved rather than a file: weights of more than 2 GB lie beside the graph, in a file of their own.
    """
    place = target.parent
    lock = _lock(place, making)
    try:
        if target.is_file() and not making.again:
            yield None
            return
        # Whoever left these was killed: the lock is ours.
        for left in place.parent.glob(f"{place.name}.draft-*"):
            shutil.rmtree(left, ignore_errors=True)
        draft = place.with_name(f"{place.name}.draft-{uuid4().hex}")
        try:
            draft.mkdir()
            yield draft / target.name
            # To the disk before the folder gets its name: a name must not outlive what it stands for in a power cut.
            for file in draft.iterdir():
                with file.open("rb+") as stream:
                    os.fsync(stream.fileno())
            shutil.rmtree(place, ignore_errors=True)  # an incomplete folder, or the one to make again
            draft.replace(place)
        except OSError as exc:
            raise _unwritable(place, exc) from exc
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    finally:
        lock.release()


def _lock(place: Path, making: Making) -> Any:
    from filelock import FileLock, Timeout

    lock = FileLock(place.with_name(f"{place.name}.lock"))
    deadline = time.monotonic() + _LONGEST_WAIT_SECONDS
    seconds = 0.0
    while True:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=seconds)
            return lock
        except Timeout:
            if not seconds:
                making.progress("waiting for another process that makes the same file")
            seconds = _POLL_SECONDS
        except OSError as exc:
            raise _unwritable(place, exc) from exc
        if time.monotonic() > deadline:
            held = f"another process has held {lock.lock_file} for {_LONGEST_WAIT_SECONDS:.0f} s"
            raise MakingStopped(f"{held}; end it")
        if making.stop.is_set():
            raise MakingStopped("the embedder was closed while another process made its ONNX file")


def _unwritable(place: Path, exc: OSError) -> EmbedderUnavailable:
    # Worth another try: a full disk, or rights that somebody mends.
    return EmbedderUnavailable(
        f"the ONNX file cannot be kept in {place}: {exc}; set model_cache_dir to a folder that can be written and"
        " has room for it, or embedding_backend=torch"
    )


# --- the process that does it --------------------------------------------------------------------------------
def run_child(module: str, source: Path, draft: Path, making: Making) -> None:
    """Run `module` to make `draft` of `source`. Raises EmbedderError with its last words if it fails, MakingStopped if it was ended."""
    command = child_command(module, str(source), str(draft))
    with (
        tempfile.TemporaryFile() as said,
        # stdin is closed: whatever asks for an answer there must not wait for one. A session of its own: ctrl-C is
        # for this process, which then ends that one.
        subprocess.Popen(  # noqa: S603  (this interpreter, a module of ours and two paths)
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env=child_environment(),
            start_new_session=True,
        ) as process,
    ):
        try:
            making.progress("making the weights int8")
            while process.poll() is None and not making.stop.wait(_POLL_SECONDS):
                pass
        finally:  # it is done, to be stopped, or ctrl-C was pressed
            process.terminate()
        process.wait()
        said.seek(0)
        words = said.read().decode(errors="replace").strip()
    if process.returncode < 0 or making.stop.is_set():
        ended = f"was ended by signal {-process.returncode}"
        raise MakingStopped(f"making {draft} {ended} before it was done")
    if process.returncode:
        log.debug("the words of %s:\n%s", " ".join(command), words)
        why = words.splitlines()[-1] if words else f"exit code {process.returncode}"
        raise EmbedderError(f"the int8 file of {source} cannot be made: {why}")
