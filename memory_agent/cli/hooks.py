"""`memory-agent hook …`: coding agents that recall before each prompt and remember after each answer."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from memory_agent.cli.opening import read_key
from memory_agent.cli.options import (
    OK,
    UNFINISHED,
    Commands,
    ThreadOptions,
    Yes,
    argument,
    flag,
    service_options,
    settings,
)
from memory_agent.cli.output import clean, many, note, print_table, say
from memory_agent.domain import Scope
from memory_agent.errors import ConfigError, NotFound
from memory_agent.hooks import run
from memory_agent.hooks.hosts import HOSTS, Host, commands_in, commands_of, with_elements, without_commands
from memory_agent.hooks.remember import behind, sessions_in

app = Commands(
    name="hook",
    no_args_is_help=True,
    help="""Let Claude Code, Codex or Cursor remember by hooks: recall before each prompt, remember after each answer.

A thread is the project's folder. Recalling asks a running service (`serve`, or `mcp` over the same folder) and is given up
after 200 ms; the agent then goes on without.

**Start with**: memory-agent hook install claude-code --dry-run
""",
)
WhereOptions: TypeAlias = Annotated[ThreadOptions, "user tenant data_dir"]
_HOST: Final[Any] = argument(f"Which coding agent: {', '.join(HOSTS)}.", metavar="HOST")
_LAST_LINES: Final = 5


def _host(name: str) -> Host:
    if name not in HOSTS:
        raise typer.BadParameter(f"{name} is none of {', '.join(HOSTS)}", param_hint="HOST")
    return HOSTS[name]


def _folder(host: Host) -> Path:
    """What is ours of a host: settings, the log, and what was installed."""
    return Path.home() / ".memory-agent" / "hooks" / host.name


# --- install and uninstall -----------------------------------------------------------------------------------
@app.command(on_memory=True)
def install(
    where: WhereOptions,
    host: str = _HOST,
    dry_run: bool = flag("--dry-run", "Show the change and make none."),
    yes: Yes = False,
) -> int:
    """Add the two hooks to the agent's own settings, for all projects; shown first, undone by `uninstall`.

    The memory is a folder's (--data-dir), asked over whichever process holds it, or a service's (--url, and --key-file).

    Examples:
        memory-agent hook install claude-code --dry-run
        memory-agent hook install codex --user ada --yes
    """
    chosen, folder = _host(host), _folder(_host(host))
    if (folder / "installed.json").exists():
        raise ConfigError(
            f"the hooks are installed already; `memory-agent hook uninstall {host}` takes them out"
        )
    ours = _settled(host, where)
    file = chosen.settings_file(Path.home()).resolve()
    before = file.read_bytes() if file.exists() else None
    with _naming(file):
        text = _decoded(before or b"")
        after = with_elements(text, chosen.elements(folder / "settings.json"), chosen.others).encode()
    _show(file, before, after)
    say(f"The memory is that of {ours['url'] or ours['data_dir']}, the user {where.user}.")
    say(f"What else is written is in {folder}.")
    if dry_run or not (yes or typer.confirm("Write this?", err=True)):
        return OK
    above = (*reversed(folder.parents), folder, *reversed(file.parents))
    installed = {
        "file": str(file),
        "existed": before is not None,
        "commands": sorted(commands_of(folder / "settings.json").values()),
        "made": [str(each) for each in above if not each.exists()],
    }
    folder.mkdir(parents=True)
    folder.chmod(0o700)  # people keep keys in their settings, of which a copy lies here
    (folder / "sessions").mkdir()
    file.parent.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(ours, indent=2), encoding="utf-8")
    (folder / "before").write_bytes(before or b"")
    (folder / "after").write_bytes(after)
    (folder / "installed.json").write_text(json.dumps(installed), encoding="utf-8")
    _write(file, after)
    say(chosen.then)
    return OK


def _settled(host: str, where: ThreadOptions) -> dict[str, Any]:
    """Our settings: whose memory, and where it is. Raises InvalidInput or ConfigError for what cannot be."""
    from memory_agent.client.connection import Address

    Scope.of(where.user, tenant=where.tenant)
    url, key_file = service_options()
    if where.data_dir is None and url is None:
        known = settings(None)
        url = known.service_url
        if url is not None and known.service_api_key is not None and key_file is None:
            raise ConfigError("the hooks read the service's key from a file: give --key-file as well")
    key = None if key_file is None else read_key(key_file)
    if url is not None and "@" in url:
        raise ConfigError("--url holds a user name, which the hooks don't send; use --key-file")
    return {
        "host": host,
        "user": where.user,
        "tenant": where.tenant,
        "url": None if url is None else Address.of(url, key).url,
        "key_file": None if key_file is None else str(key_file.resolve()),
        "data_dir": None if url else str(settings(where.data_dir).data_dir.resolve()),
        "python": sys.executable,
    }


@app.command()
def uninstall(
    host: str = _HOST,
    dry_run: bool = flag("--dry-run", "Show the change and make none."),
    yes: Yes = False,
) -> int:
    """Take the hooks out of the agent's settings, and our folder with them. What was remembered stays.

    Where nobody has changed the settings since, they are byte for byte as before.

    Examples:
        memory-agent hook uninstall claude-code --dry-run
    """
    folder = _folder(_host(host))
    try:
        installed = json.loads((folder / "installed.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound(
            f"no hooks of {host} are installed here (there is no {folder / 'installed.json'})"
        ) from None
    file = Path(installed["file"])
    now = file.read_bytes() if file.exists() else None
    if now is None:
        left = None
    elif now == (folder / "after").read_bytes():
        left = (folder / "before").read_bytes() if installed["existed"] else None
    else:
        with _naming(file):
            left = without_commands(_decoded(now), installed["commands"]).encode()
    _show(file, now, left or b"")
    if dry_run or not (yes or typer.confirm("Write this?", err=True)):
        return OK
    if left is not None:
        _write(file, left)
    elif now is not None:
        file.unlink()
    shutil.rmtree(folder)
    for made in reversed(installed["made"]):
        with contextlib.suppress(OSError):
            Path(made).rmdir()
    return OK


@contextlib.contextmanager
def _naming(file: Path) -> Any:
    try:
        yield
    except ConfigError as exc:
        raise ConfigError(f"{file}: {exc}; nothing was changed") from exc


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ConfigError(f"it is not UTF-8 ({exc.reason} at byte {exc.start})") from None


def _show(file: Path, before: bytes | None, after: bytes) -> None:
    was, will_be = [(content or b"").decode("utf-8", "replace").splitlines() for content in (before, after)]
    for line in difflib.unified_diff(was, will_be, str(file), str(file), lineterm=""):
        typer.echo(clean(line))


def _write(file: Path, content: bytes) -> None:
    """Write the file whole or not at all, with the rights that it has."""
    half = file.with_name(f"{file.name}.{os.getpid()}")
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as whole:
        whole.write(content)
    if file.exists():
        shutil.copymode(file, half)
    half.replace(file)


# --- what agents run, by hand ------------------------------------------------------------------------------------
@app.command("recall", quiet=True)
def recall_(host: str = _HOST) -> None:
    """Do what an agent's prompt does: read its JSON on standard input, print what it is to add to the context.

    Agents run the same without what this command imports; always exit code 0.

    Examples:
        echo '{"prompt": "What do we use for tabs?", "cwd": "."}' | memory-agent hook recall claude-code
    """
    typer.echo(run.answer("recall", str(_folder(_host(host)) / "settings.json")), nl=False)


@app.command("remember", quiet=True)
def remember_(host: str = _HOST) -> None:
    """Do what an agent's stop does: have what is new in the transcript remembered by a process in the background.

    Examples:
        echo '{"session_id": "1", "transcript_path": "t.jsonl", "cwd": "."}' | memory-agent hook remember claude-code
    """
    typer.echo(run.answer("remember", str(_folder(_host(host)) / "settings.json")), nl=False)


# --- status ----------------------------------------------------------------------------------------------------
@app.command()
def status() -> int:
    """Show which agents have hooks, whether recalling works now, what is not remembered yet, and what went wrong last.

    Examples:
        memory-agent hook status
    """
    rows, failed = [], False
    for host in HOSTS.values():
        folder = _folder(host)
        if not (folder / "settings.json").exists():
            continue
        given = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        works, answers = _answers(given)
        there = _is_in(host, folder)
        failed |= not (works and there)
        late = [session for session in sessions_in(folder / "sessions") if behind(session)]
        rows.append(
            (
                host.name,
                given["user"],
                given["url"] or given["data_dir"],
                "in its settings" if there else "not in its settings any more",
                answers,
                many(len(late), "session") + " to remember" if late else "",
            )
        )
    if not rows:
        note("no hooks are installed: memory-agent hook install claude-code --dry-run")
        return OK
    print_table(("agent", "user", "memory", "hooks", "recall", "+"), rows)
    for name, *_ in rows:
        with contextlib.suppress(OSError):
            log = (_folder(HOSTS[name]) / "log").read_text(encoding="utf-8").splitlines()
            for line in log[-_LAST_LINES:]:
                say(f"{name}  {line}")
    return UNFINISHED if failed else OK


def _answers(given: dict[str, Any]) -> tuple[bool, str]:
    began = time.monotonic()
    try:
        run.recall(given, {"prompt": "Does it answer?", "cwd": str(Path.home())})
    except Exception as exc:  # whatever a hook would log
        return False, f"{type(exc).__name__}: {exc}"
    return True, f"answers in {(time.monotonic() - began) * 1000:.0f} ms"


def _is_in(host: Host, folder: Path) -> bool:
    try:
        text = host.settings_file(Path.home()).read_text(encoding="utf-8")
        return set(commands_of(folder / "settings.json").values()) <= commands_in(text)
    except (OSError, ConfigError, ValueError):
        return False
