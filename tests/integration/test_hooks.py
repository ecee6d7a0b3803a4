"""Hooks of coding agents, in a made-up home folder: installed, run as the agents run them, and taken out again."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from memory_agent import MemoryService, Turn
from memory_agent.cli import hook_store
from memory_agent.domain import ALL_TENANTS
from memory_agent.hooks import run
from memory_agent.hooks.hosts import HOSTS
from memory_agent.hooks.remember import Session, answered, behind, known, sessions_in
from memory_agent.server.run import sharing
from tests.integration.commands import Quick
from tests.integration.conversations import everything, opened, settings_on
from tests.servers.loopback import Answering, Loopback
from tests.servers.mongod import free_port
from tests.servers.service import served
from tests.unit.hooks.test_transcripts import TALK, claude, codex, written
from tests.unit.hooks.test_transcripts import text as block

ROOT: Final = Path(__file__).parents[2]
PATIENT: Final = (
    f"import sys; sys.path.insert(0, {str(Path(run.__file__).parent)!r}); import run; "
    "run.LIMIT_SECONDS = run._SPAWN_SECONDS = 60; run.main(*sys.argv[1:])"
)
"""The hook's program with more patience, for machines that run tests beside."""
SETTINGS: Final = {
    "absent": None,
    "empty": b"",
    "plain": b'{"model": "opus"}',
    "odd": b'\xef\xbb\xbf// mine\r\n{\t"hooks" :{ "Stop":[ {"hooks":[{"type":"command","command":"say done"}]}, ],\r\n }, /* end */ }\r\n\r\n',
    "others": json.dumps(
        {"version": 1, "hooks": {"stop": [{"command": "x"}], "UserPromptSubmit": []}}, indent=4
    ).encode(),
}


class Home:
    """A home folder with one coding agent, whose settings these commands change."""

    def __init__(self, folder: Path, host: str = "claude-code") -> None:
        self.folder, self.host = folder, host
        self.file = HOSTS[host].settings_file(folder)
        self.ours = folder / ".memory-agent" / "hooks" / host
        self.cli = Quick(folder)
        folder.mkdir(exist_ok=True)

    def hook(self, *words: str, **more: Any) -> str:
        finished = self.cli.run(["hook", *words], HOME=str(self.folder), **more)
        return finished.stdout + finished.stderr

    def install(self, *words: str, data_dir: Path | None = None) -> None:
        where = [] if data_dir is None else ["--data-dir", str(data_dir)]
        self.hook("install", self.host, "--user", "ada", "--yes", *where, *words)

    def tree(self) -> dict[str, bytes | None]:
        """Every file and folder, but what the service keeps."""
        return {
            str(path.relative_to(self.folder)): None if path.is_dir() else path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
        }

    @property
    def log(self) -> str:
        file = self.ours / "log"
        return file.read_text() if file.exists() else ""


def program(what: str, home: Home, *, patient: bool) -> list[str]:
    where = ["-c", PATIENT] if patient else [run.__file__]
    return [sys.executable, "-IS", *where, what, str(home.ours / "settings.json")]


async def hook(what: str, home: Home, said: Any, *, patient: bool = True) -> str:
    """Run a hook as the agent does: what it prints. It never fails, and says nothing else."""
    finished = await asyncio.to_thread(
        subprocess.run,
        program(what, home, patient=patient),
        input=said if isinstance(said, bytes) else json.dumps(said).encode(),
        capture_output=True,
        timeout=120,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(home.folder), "PYTHONPATH": str(ROOT)},
    )
    assert (finished.returncode, finished.stderr) == (0, b"")
    return finished.stdout.decode()


def prompt(text: str, project: Path | str = "/work/p") -> dict[str, Any]:
    where = {"cwd": str(project), "workspace_roots": [str(project)]}
    return {"prompt": text, "session_id": "s1", "hook_event_name": "UserPromptSubmit", **where}


def stop(
    transcript: Path, session: str = "s1", project: str = "/work/p", last: str | None = None
) -> dict[str, Any]:
    return {"session": session, "transcript": str(transcript), "project": project, "last": last}


def add_to(transcript: Path, *entries: dict[str, Any]) -> None:
    with transcript.open("ab") as more:
        more.write(b"".join(json.dumps(entry).encode() + b"\n" for entry in entries))


@pytest.fixture
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryService]:
    """A memory that serves its folder, as `memory-agent serve` or `mcp` do."""
    settings = {**settings_on("sqlite", request, tmp_path), "enable_fact_extraction": True}
    async with opened(settings) as service, sharing(service):
        while not (tmp_path / "data" / ".service.json").exists():
            await asyncio.sleep(0.01)
        yield service


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


async def turns_in(service: MemoryService, project: str = "/work/p", user: str = "ada") -> list[Turn]:
    return await everything(service.agent(user, project))


# --- install and uninstall -----------------------------------------------------------------------------------
@pytest.mark.parametrize("host", HOSTS)
def test_install_and_uninstall_leave_the_home_folder_as_it_was(host: str, tmp_path: Path) -> None:
    for name, content in SETTINGS.items():
        home = Home(tmp_path / name, host)
        if content is not None:
            home.file.parent.mkdir(parents=True)
            home.file.write_bytes(content)
            home.file.chmod(0o640)
        before = home.tree()
        assert "+" in home.hook("install", host, "--dry-run")
        assert "Write this?" in home.hook("install", host, stdin="n\n")
        assert home.tree() == before, name
        home.install()
        text = home.file.read_text(encoding="utf-8-sig")
        for what in ("recall", "remember"):
            assert f"-IS {run.__file__} {what} {home.ours / 'settings.json'}" in text
        assert home.ours.stat().st_mode & 0o777 == 0o700
        assert "installed already" in home.hook("install", host, "--yes", code=1)
        home.hook("uninstall", host, "--dry-run")
        assert home.ours.exists()
        home.hook("uninstall", host, "--yes")
        assert home.tree() == before, name
        if content is not None:
            assert home.file.stat().st_mode & 0o777 == 0o640
        assert "no hooks of" in home.hook("uninstall", host, "--yes", code=1)


def test_what_was_changed_since_stays_and_our_lines_alone_go(home: Home) -> None:
    home.file.parent.mkdir()
    home.file.write_bytes(SETTINGS["odd"] or b"")
    home.install()
    changed = home.file.read_bytes().replace(b"// mine", b"// mine, and more")
    home.file.write_bytes(changed)
    home.hook("uninstall", "claude-code", "--yes")
    left = home.file.read_bytes()
    assert left.startswith(b"\xef\xbb\xbf// mine, and more\r\n")
    assert b"say done" in left
    assert b"run.py" not in left
    assert not home.ours.exists()


def test_settings_behind_a_link_stay_behind_it(home: Home, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    home.file.parent.mkdir()
    home.file.symlink_to(real)
    home.install()
    assert home.file.is_symlink()
    assert "run.py" in real.read_text()
    home.hook("uninstall", "claude-code", "--yes")
    assert (home.file.is_symlink(), real.read_text()) == (True, "{}")


def test_what_cannot_be_understood_is_refused_and_left_alone(home: Home) -> None:
    home.file.parent.mkdir()
    for content, wrong in (
        (b'{"hooks": ', "line 1 cannot be read as JSON"),
        (b'{"hooks": []}', "hooks is [], and should be an object"),
        (b"\xff{}", "it is not UTF-8"),
    ):
        home.file.write_bytes(content)
        told = home.hook("install", "claude-code", "--yes", code=1)
        assert wrong in told
        assert str(home.file) in told
        assert home.tree() == {".claude": None, ".claude/settings.json": content}
    assert "none of claude-code" in home.hook("install", "emacs", code=2)
    assert "--key-file" in home.hook("install", "codex", "--url", "http://x", "--key-file", "none", code=1)


# --- remembered and recalled -----------------------------------------------------------------------------------
@pytest.mark.parametrize("host", HOSTS)
async def test_what_was_said_to_an_agent_is_recalled_in_its_next_session(
    host: str, service: MemoryService, tmp_path: Path
) -> None:
    """Through processes of its own, from the lines in the agent's settings to what it adds to the context."""
    home = Home(tmp_path / "home", host)
    home.install(data_dir=tmp_path / "data")
    transcript = tmp_path / "t.jsonl"
    transcript.write_bytes(written(host))
    said = {"session_id": "s1", "conversation_id": "s1", "transcript_path": str(transcript), **prompt("")}
    assert await hook("remember", home, {**said, "last_assistant_message": TALK[-1][1]}) == ""
    async with asyncio.timeout(100):
        while len(await turns_in(service)) < len(TALK):
            await asyncio.sleep(0.05)
    turns = await turns_in(service)
    assert [(turn.role, turn.content) for turn in turns] == TALK
    assert {(turn.metadata["host"], turn.metadata["session"]) for turn in turns} == {(host, "s1")}
    await service.settle(timeout=100)
    printed = json.loads(await hook("recall", home, {**prompt("Tabs or spaces?"), "session_id": "s2"}))
    context = (
        printed["additional_context"]
        if host == "cursor"
        else printed["hookSpecificOutput"]["additionalContext"]
    )
    assert "Tabs." in context
    assert "recalled" not in context
    assert (home.log, printed.get("continue", True)) == ("", True)
    assert "answers in" in await asyncio.to_thread(home.hook, "status")


async def test_a_transcript_is_remembered_once_and_what_is_new_is_added(
    service: MemoryService, home: Home, tmp_path: Path
) -> None:
    home.install(data_dir=tmp_path / "data")
    settings, transcript = home.ours / "settings.json", tmp_path / "t.jsonl"
    transcript.write_bytes(written("claude-code"))
    for _ in range(2):
        await hook_store.store(settings, stop(transcript))
    await asyncio.gather(*(hook_store.store(settings, stop(transcript)) for _ in range(2)))
    for file in (home.ours / "sessions").glob("*.json"):
        file.unlink()  # nobody knows how far it was read
    await hook_store.store(settings, stop(transcript))
    assert len(await turns_in(service)) == len(TALK)
    add_to(transcript, claude("user", "One more thing", "u9"))
    await hook_store.store(settings, stop(transcript))
    assert [turn.content for turn in await turns_in(service)][len(TALK) :] == ["One more thing"]
    assert home.log == ""


async def test_a_session_that_is_still_answering_is_remembered_up_to_its_last_answer(
    service: MemoryService, home: Home, tmp_path: Path
) -> None:
    """By the stop of another one; what it said on the way to its answer never is."""
    home.install(data_dir=tmp_path / "data")
    settings, open_one, other = home.ours / "settings.json", tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    open_one.write_bytes(written("claude-code"))
    other.write_bytes(written("claude-code"))
    await hook_store.store(settings, stop(open_one))
    on_the_way = (claude("user", "And here?", "u8"), claude("assistant", [block("Let me look.")], "a8"))
    add_to(open_one, *on_the_way)
    await hook_store.store(settings, stop(other, "s2", "/work/q"))
    assert len(await turns_in(service)) == len(TALK)
    assert "to remember" not in await asyncio.to_thread(home.hook, "status")
    add_to(open_one, claude("assistant", [block("Spaces.")], "a9"))
    await hook_store.store(settings, stop(open_one, last="Spaces."))
    assert [turn.content for turn in await turns_in(service)][len(TALK) :] == ["And here?", "Spaces."]


@pytest.mark.parametrize("copied", ["with its ids", "with new ids"])
async def test_a_session_that_goes_on_from_a_copy_of_another_one_adds_what_is_new(
    copied: str, service: MemoryService, home: Home, tmp_path: Path
) -> None:
    home.install(data_dir=tmp_path / "data")
    settings, first, fork = home.ours / "settings.json", tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    first.write_bytes(written("claude-code"))
    await hook_store.store(settings, stop(first))
    for line in first.read_text().splitlines():
        entry = {**json.loads(line), "sessionId": "s2"}
        if copied == "with new ids" and "uuid" in entry:
            source = {"sessionId": "s1", "messageUuid": entry["uuid"]}
            entry |= {"uuid": f"new {entry['uuid']}", "forkedFrom": source}
        add_to(fork, entry)
    add_to(fork, claude("user", "One more thing", "u9"))
    await hook_store.store(settings, stop(fork, "s2"))
    assert [turn.content for turn in await turns_in(service)][len(TALK) :] == ["One more thing"]
    assert home.log == ""


async def test_a_forked_session_of_codex_which_numbers_its_copies_anew_adds_what_is_new(
    service: MemoryService, tmp_path: Path
) -> None:
    home = Home(tmp_path / "home", "codex")
    home.install(data_dir=tmp_path / "data")
    settings, first, fork = home.ours / "settings.json", tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    first.write_bytes(written("codex"))
    await hook_store.store(settings, stop(first))
    add_to(fork, codex("session_meta", id="s2", forked_from_id="s1"))
    copy = [json.loads(line) for line in first.read_text().splitlines()]
    add_to(fork, *({**entry, "timestamp": "2026-03-01T10:00:00Z"} for entry in copy))
    add_to(fork, codex("event_msg", type="user_message", message="One more thing"))
    await hook_store.store(settings, stop(fork, "s2"))
    assert [turn.content for turn in await turns_in(service)][len(TALK) :] == ["One more thing"]
    unanswered = [
        codex("event_msg", type="user_message", message="My cat is called Mo"),
        codex("response_item", role="assistant", content=[block("Let me think.")]),
    ]
    add_to(first, *unanswered)
    for number, (said, answer, new) in enumerate(
        (
            ([line for line in copy if "You're welcome." not in str(line)], "Always.", ["Thanks!"]),
            ([*copy, *unanswered], "Purr.", ["My cat is called Mo"]),
        ),
        3,
    ):
        before, another = len(await turns_in(service)), tmp_path / f"{number}.jsonl"
        add_to(another, codex("session_meta", id=f"s{number}", forked_from_id="s1"), *said)
        add_to(another, codex("response_item", role="assistant", content=[block(answer)]))
        await hook_store.store(settings, stop(another, f"s{number}"))
        assert [turn.content for turn in await turns_in(service)][before:] == [*new, answer]


@pytest.mark.parametrize("host", HOSTS)
async def test_a_transcript_that_has_become_shorter_is_read_again_from_its_start(
    host: str, service: MemoryService, tmp_path: Path
) -> None:
    home = Home(tmp_path / "home", host)
    home.install(data_dir=tmp_path / "data")
    settings, transcript = home.ours / "settings.json", tmp_path / "t.jsonl"
    transcript.write_bytes(written(host))
    await hook_store.store(settings, stop(transcript))
    changed = written(host).replace(b"Tabs or spaces?", b"Oats?").replace(b'"u1"', b'"u7"')
    transcript.write_bytes(changed[: changed.index(b"Let me look.")].rpartition(b"\n")[0] + b"\n")
    await hook_store.store(settings, stop(transcript))
    assert [turn.content for turn in await turns_in(service)][len(TALK) :] == ["Oats?"]


async def test_what_was_recalled_is_not_remembered(
    service: MemoryService, home: Home, tmp_path: Path
) -> None:
    """Wherever the agent writes it down, and though the agent repeats what it was told in words of its own."""
    home.install(data_dir=tmp_path / "data")
    await service.agent("ada", "/work/p").update_memory("My name is Ada. I like tea.", "Noted.")
    await service.settle(timeout=100)
    context = json.loads(await hook("recall", home, prompt("What do I like?")))["hookSpecificOutput"]
    recalled = context["additionalContext"]
    assert "tea" in recalled
    transcript = tmp_path / "t.jsonl"
    lines = [
        claude("user", f"{recalled}\nWhat do I like?", "u1"),
        {"type": "attachment", "attachment": {"type": "hook_additional_context", "content": [recalled]}},
        claude("user", f"<system-reminder>\n{recalled}\n</system-reminder>", "u2", isMeta=True),
        claude("assistant", [{"type": "text", "text": "Your preference is a hot drink."}], "a1"),
    ]
    transcript.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    await hook_store.store(home.ours / "settings.json", stop(transcript))
    turns = await turns_in(service)
    assert [turn.content for turn in turns[2:]] == ["What do I like?", "Your preference is a hot drink."]


async def test_nothing_of_another_user_is_recalled_and_other_projects_of_the_same_one_are(
    service: MemoryService, home: Home, tmp_path: Path
) -> None:
    home.install(data_dir=tmp_path / "data")
    await service.agent("bob", "/work/p").update_memory("The secret word is rhubarb.", "Noted.")
    await service.agent("ada", "/work/q").update_memory("The code word is walnut.", "Noted.")
    await service.settle(timeout=100)
    printed = await hook("recall", home, prompt("What is the secret code word?"))
    assert "walnut" in printed
    assert "rhubarb" not in printed


async def test_commands_of_the_agent_and_empty_prompts_recall_nothing(
    service: MemoryService, home: Home, tmp_path: Path
) -> None:
    home.install(data_dir=tmp_path / "data")
    await service.agent("ada", "/work/p").update_memory("clear skies over /home/ada", "Noted.")
    for text in ("/clear", "/clear skies", "", "  "):
        assert await hook("recall", home, prompt(text)) == ""
    assert "skies" in await hook("recall", home, prompt("/home/ada has what skies?"))
    assert home.log == ""


async def test_a_service_with_a_key_is_asked_for_its_tenants_user(
    service: MemoryService, home: Home, tmp_path: Path
) -> None:
    async with served(service) as server:
        key = tmp_path / "key.txt"
        key.write_text(f"{await server.key(ALL_TENANTS)}\n")
        home.install("--url", f"{server.address}/", "--key-file", str(key), "--tenant", "acme")
        transcript = tmp_path / "t.jsonl"
        transcript.write_bytes(written("claude-code"))
        await hook_store.store(home.ours / "settings.json", stop(transcript, project="/work/ä b%"))
        assert len(await everything(service.agent("ada", "/work/ä b%", tenant="acme"))) == len(TALK)
        await service.settle(timeout=100)
        assert "Tabs." in await hook("recall", home, prompt("Tabs or spaces?", "/work/ä b%")), home.log
        key.write_text("ma_wrong")
        assert await hook("recall", home, prompt("Tabs or spaces?")) == ""
        assert "401" in home.log
        assert "ma_wrong" not in home.log


# --- where something is wrong --------------------------------------------------------------------------------------
class _Strange(Answering["Strange"]):
    def answer(self, body: bytes) -> None:
        self.script.seen.append(f"{self.path} {self.headers} {body!r}")
        payload = self.script.payload
        self.send_response(200)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


class Strange(Loopback):
    """Somebody else at the address of the memory; what was asked is in `seen`."""

    handler = _Strange

    def __init__(self, payload: bytes) -> None:
        super().__init__()
        self.payload, self.seen = payload, list[str]()


async def test_a_dead_service_holds_no_prompt_up_and_is_logged(home: Home) -> None:
    """With the patience that agents get: refused, never answered, answered with something else, or not there at all."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        addresses = {
            "refused": f"http://127.0.0.1:{free_port()}",
            "no answer within 0.25 s": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "gaierror": "http://nowhere.invalid",
        }
        for wrong, address in addresses.items():
            home.install("--url", address)
            assert await hook("recall", home, prompt("Hello?"), patient=False) == ""
            assert wrong in home.log or "no answer within" in home.log
            home.hook("uninstall", "claude-code", "--yes")
    for payload in (b"", b"<html>", b"[]", b'{"text": 3}', b"{}"):
        strange = Strange(payload).start()
        home.install("--url", strange.url)
        assert await hook("recall", home, prompt("Hello?")) == ""
        strange.stop()
        assert len(strange.seen) == 1
        home.hook("uninstall", "claude-code", "--yes")


def test_a_hook_waits_no_longer_for_an_agent_that_never_ends_its_message(home: Home) -> None:
    home.install()
    process = subprocess.Popen(program("recall", home, patient=False), stdin=subprocess.PIPE)
    process.wait(timeout=100)
    assert process.returncode == 0
    assert process.stdin is not None
    process.stdin.close()
    assert "no answer within" in home.log


async def test_whatever_an_agent_says_a_hook_ends_well(home: Home, tmp_path: Path) -> None:
    for said in (b"", b"{", b"[]", b'"x"', b'{"prompt": 3}', b'{"prompt": "x"}', b"\xff"):
        assert (
            await hook("recall", home, said) == ""
        )  # nothing is installed, and there is no folder for a log
    home.install(data_dir=tmp_path / "none")
    for said in (b"", b"{", b"[]", b'{"prompt": 3}', b'{"prompt": "x"}'):
        assert await hook("recall", home, said) == ""
    assert f"no process serves the memory in {tmp_path / 'none'}" in home.log
    await hook_store.store(home.ours / "settings.json", {"session": "s", "transcript": None, "project": "/p"})
    assert "the agent did not tell its transcript" in home.log
    assert len(home.log.splitlines()) >= 5


async def test_neither_key_nor_prompt_goes_to_somebody_else_at_the_address_in_the_folder(
    service: MemoryService, home: Home, tmp_path: Path
) -> None:
    home.install(data_dir=tmp_path / "data")
    note = tmp_path / "data" / ".service.json"
    left = json.loads(note.read_text())
    for payload in (b'{"proof": "' + b"0" * 64 + b'"}', b"{}"):
        strange = Strange(payload).start()
        note.write_text(json.dumps({**left, "url": strange.url}))
        assert await hook("recall", home, prompt("The secret word is rhubarb")) == ""
        strange.stop()
        (seen,) = strange.seen
        assert "/holder?nonce=" in seen
        assert left["api_key"] not in seen
        assert "rhubarb" not in seen
    assert "does not hold it" in home.log
    note.write_text(json.dumps(left))


async def test_what_an_outage_kept_back_is_remembered_after_a_later_answer(
    service: MemoryService, home: Home, tmp_path: Path
) -> None:
    """Of a session that had its last word while the memory was away."""
    home.install("--url", f"http://127.0.0.1:{free_port()}")
    settings, first, second = home.ours / "settings.json", tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    first.write_bytes(written("claude-code"))
    second.write_bytes(json.dumps(claude("user", "And now?", "u7")).encode() + b"\n")
    given = json.loads(settings.read_text())
    await hook_store.store(settings, stop(first))
    assert "cannot be reached" in home.log
    assert "1 session to remember" in await asyncio.to_thread(home.hook, "status", code=3)
    settings.write_text(json.dumps({**given, "url": None, "data_dir": str(tmp_path / "data")}))
    await hook_store.store(settings, stop(second, "s2", "/work/q"))
    assert [turn.content for turn in await turns_in(service, "/work/q")] == ["And now?"]
    assert len(await turns_in(service)) == len(TALK)
    first.unlink()
    assert "to remember" not in await asyncio.to_thread(home.hook, "status")


async def ended(home: Home, session: dict[str, Any]) -> None:
    """A session has answered, and something keeps back what is to be remembered of it."""
    folder = home.ours / "sessions"
    await answered(known(Session.of(session), folder), folder, last=None, host=home.host)


async def test_what_cannot_be_stored_holds_up_neither_its_session_nor_others(
    service: MemoryService, home: Home, tmp_path: Path
) -> None:
    home.install(data_dir=tmp_path / "data")
    for name, project in (("1", "/work/p"), ("2", "/work/q")):
        said = ("x" * 1_000_001, "\ud800", "\u200b", "Tabs, please")
        lines = [json.dumps(claude("user", text, f"u{n}")) + "\n" for n, text in enumerate(said)]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
        await ended(home, stop(tmp_path / f"{name}.jsonl", name, project))
    await hook_store.store(home.ours / "settings.json", stop(tmp_path / "1.jsonl", "1"))
    for project in ("/work/p", "/work/q"):
        assert [turn.content for turn in await turns_in(service, project)] == ["Tabs, please"]
    assert home.log.count("left out turn u0") == 2
    assert not any(behind(one) for one in sessions_in(home.ours / "sessions"))


async def test_an_answer_that_is_written_down_after_the_hook_ran_is_waited_for(
    service: MemoryService, home: Home, tmp_path: Path
) -> None:
    home.install(data_dir=tmp_path / "data")
    transcript = tmp_path / "t.jsonl"
    data = written("claude-code")
    cut = data.rindex(b"\n", 0, data.index(b"You're welcome.")) + 1
    transcript.write_bytes(data[:cut])
    threading.Timer(0.5, lambda: transcript.write_bytes(data)).start()
    await hook_store.store(home.ours / "settings.json", stop(transcript, last=TALK[-1][1]))
    assert [turn.content for turn in await turns_in(service)] == [content for _, content in TALK]


async def test_without_a_process_that_serves_it_the_folder_itself_is_written_to(
    home: Home, tmp_path: Path
) -> None:
    """By the process that the hook left behind; what is recalled waits until one does."""
    home.install(data_dir=tmp_path / "own")
    transcript = tmp_path / "t.jsonl"
    transcript.write_bytes(written("claude-code"))
    await hook_store.store(home.ours / "settings.json", stop(transcript))
    assert home.log == ""
    async with opened({"data_dir": tmp_path / "own", "enable_topics": False}) as service:
        assert len(await turns_in(service)) == len(TALK)
