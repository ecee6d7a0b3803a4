"""How a run of tests ends: with what hangs named, with nothing left running, and within what its profile allows."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import profiles

ROOT = Path(__file__).parents[2]
PLUGINS = ("pytest_asyncio.plugin", "pytest_timeout", "xdist", "tests.hangs", "tests.leftovers")
HANGS = """
import asyncio
import pytest

@pytest.mark.timeout(1)
async def test_that_swallows_its_cancellation():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

@pytest.mark.parametrize("number", range(8))
def test_of_others(number):
    pass
"""
STARTS = """
import pathlib, subprocess, sys, time
import pytest

@pytest.mark.parametrize("number", range(2))
def test_with_a_server(number, tmp_path):
    from tests.servers.mongod import Mongod
    with Mongod(replica_set=False) as server:
        deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True)
        (pathlib.Path(__file__).parent / f"started {number}").write_text(f"{server.pid} {child.pid}")
        time.sleep(600)
"""


def inner(folder: Path, code: str, *options: str) -> subprocess.Popen[str]:
    """A run of its own, of one file of tests, with the plugins that end ours."""
    (folder / "test_inner.py").write_text(code)
    plugins = [word for name in PLUGINS for word in ("-p", name)]
    own = ["-o", "asyncio_mode=auto", "-o", "timeout=300", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, *own, *plugins, *options]
    return subprocess.Popen(
        [*command, str(folder / "test_inner.py")],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.nightly
def test_a_test_that_hangs_ends_with_its_stack_and_takes_no_other_along(tmp_path: Path) -> None:
    """Though it swallows the cancellation that its timeout brings about."""
    with inner(tmp_path, HANGS, "-n", "1") as run:
        told, _ = run.communicate(timeout=120)
    assert run.returncode == 1, told
    assert "8 passed" in told
    assert "crashed while running" in told
    assert "test_that_swallows_its_cancellation" in told
    assert "Timeout (" in told, "faulthandler's own headline"
    assert "most recent call first" in told


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[list[int]]:
    """The processes of a run that was killed with -9: pytest's own, and what its tests had started. Nobody reads what is said of it."""
    with inner(tmp_path, STARTS, "-n", "2") as run:
        while len(started := [*tmp_path.glob("started *")]) < 2 or not all(f.stat().st_size for f in started):
            assert run.poll() is None, run.communicate()[0]
            time.sleep(0.05)
        own = [child.pid for child in psutil.Process(run.pid).children(recursive=True)]
        theirs = [int(pid) for file in started for pid in file.read_text().split()]
        assert set(theirs) <= set(own)
        commands = [psutil.Process(pid).cmdline() for pid in theirs]
        data = [Path(words[words.index("--dbpath") + 1]) for words in commands if "--dbpath" in words]
        assert [folder.is_dir() for folder in data] == [True, True]
        assert run.stdout is not None
        run.stdout.close()  # whoever reads its output is gone first, as under `timeout 60 make test | tail`
        run.send_signal(signal.SIGKILL)
        yield own
        until = time.monotonic() + 60
        while any(folder.exists() for folder in data):
            assert time.monotonic() < until, data
            time.sleep(0.05)


@pytest.mark.nightly
def test_no_process_outlives_a_run_that_was_killed(killed: list[int]) -> None:
    """Neither a server, nor what no signal but one can end, nor the run's own processes."""
    assert len(killed) >= 2 * 3
    until = time.monotonic() + 60
    while left := [pid for pid in killed if psutil.pid_exists(pid) and not is_a_zombie(pid)]:
        assert time.monotonic() < until, [psutil.Process(pid).cmdline() for pid in left]
        time.sleep(0.05)


def is_a_zombie(pid: int) -> bool:
    """It has ended, and nobody has asked for its exit code."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# --- profiles ------------------------------------------------------------------------------------------------
def test_every_write_is_killed_at_within_some_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """One each day at least, however few there are; and all at once in the nightly profile, or where a kill is cheap."""
    monkeypatch.delenv(profiles.VARIABLE, raising=False)

    def killed(days: int, each: int, **which: int) -> list[int]:
        """Those of so many days, each day so many."""
        found = (itertools.islice(profiles.kills(dear=True, day=day, **which), each) for day in range(days))
        return sorted(itertools.chain.from_iterable(found))

    assert {*killed(48, 2, least=32)} == {*range(1, 65)}
    assert killed(16, 1, least=16, first=2, step=2) == [*range(2, 33, 2)]
    assert killed(5, 2, least=5) == [*range(1, 11)]
    assert (profiles.least(5, dear=True), profiles.least(5, dear=False)) == (1, 5)
    assert [*itertools.islice(profiles.kills(dear=False, least=3), 3)] == [1, 2, 3]
    monkeypatch.setenv(profiles.VARIABLE, "nightly")
    assert killed(1, 3, least=3) == [1, 2, 3]


def test_an_unknown_profile_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(profiles.VARIABLE, "weekly")
    with pytest.raises(ValueError, match=r"TEST_PROFILE is 'weekly'; the profiles are default and nightly"):
        profiles.chosen()
