"""Users, threads, unknown names and tags on the command line, embedded and on servers.

By processes of their own where that matters; where many commands are tried, all run in this one.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_agent.domain import Scope
from memory_agent.stores.sqlite import SqliteStore
from tests.integration.test_cli import CommandLine, user
from tests.integration.test_facts_cli import Quick
from tests.servers.service import ServiceProcess

if TYPE_CHECKING:
    from pathlib import Path

PIANO = "The piano tuner comes on Monday at ten."
BREAD = "My sourdough bread doesn't rise, what is wrong with the starter?"


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The same without a process for each command."""
    monkeypatch.chdir(tmp_path)
    return Quick(tmp_path)


def fill(cli: CommandLine, **settings: Any) -> None:
    """Ada's two threads and Bo's one, and a user of the same name under another tenant."""
    at = "2026-05-07T19:45:00+02:00"
    told = [user(PIANO, thread="home", timestamp=at), user("Noted?", thread="home"), user(BREAD)]
    cli("ingest", cli.file(*told), "--user", "ada", "--thread", "holidays", "--no-wait", **settings)
    cli("ingest", cli.file(user("Hi", timestamp=at)), "--user", "bo", "--no-wait", **settings)
    cli("ingest", cli.file(user("Hi")), "--user", "ada", "--tenant", "acme", "--no-wait", **settings)


def check_lists(cli: CommandLine, **settings: Any) -> None:
    """What the two commands print, for people and for scripts, page by page."""
    found = cli.json("users", **settings)
    assert [(one["user"], one["threads"], one["turns"]) for one in found["users"]] == [
        ("ada", 2, 3),
        ("bo", 1, 1),
    ]
    assert found["users"][1]["last_activity"] == "2026-05-07T17:45:00+00:00"
    assert found["next"] is None
    threads = cli.json("threads", "-u", "ada", **settings)
    assert [(one["thread"], one["turns"]) for one in threads["threads"]] == [("holidays", 1), ("home", 2)]
    shown = cli("users", "--limit", "1", **settings)
    assert shown.stdout.split()[:6] == ["user", "threads", "turns", "last", "activity", "ada"]
    assert "More users follow; go on: memory-agent users --data-dir" in shown.stderr
    assert "--after ada --limit 1" in shown.stderr
    assert "bo" in cli("users", "--after", "ada", **settings).stdout
    assert "2026-05-07 17:45" in cli("threads", "-u", "bo", **settings).stdout
    assert len(cli.json("users", "--all", **settings)["users"]) == 2
    (acme,) = cli.json("users", "--tenant", "acme", **settings)["users"]
    assert (acme["user"], acme["turns"]) == ("ada", 1)
    assert "Nobody is remembered under tenant 'acm' yet" in cli("users", "--tenant", "acm", **settings).stderr
    refused = cli("threads", "-u", "adda", code=1, **settings)
    assert refused.stderr == "memory-agent: no user 'adda' is remembered; nearest: 'ada'\n"


def test_users_and_threads_are_listed(here: CommandLine) -> None:
    assert "memory" in here("users", code=1).stderr  # nor is there a folder
    fill(here)
    check_lists(here)
    assert "choose one" in here("users", "--all", "--limit", "3", code=2).stderr


def test_other_processes_list_what_one_remembered(cli: CommandLine) -> None:
    cli("ingest", cli.file(user(PIANO)), "--user", "ada", "--thread", "home", "--no-wait")
    assert [one["user"] for one in cli.json("users")["users"]] == ["ada"]
    assert [one["thread"] for one in cli.json("threads", "-u", "ada")["threads"]] == ["home"]
    assert "User 'ada' has no thread 'main'; there is 'home'." in cli("topics", "-u", "ada").stderr


READING: dict[str, list[str]] = {
    "ask": ["ask", "piano"],
    "context": ["ask", "piano", "--context"],
    "facts": ["facts", "show"],
    "fact history": ["facts", "history"],
    "topics": ["topics"],
    "sessions": ["session", "list"],
    "history": ["history"],
    "compressed": ["compressed"],
    "compressions": ["compressions"],
    "entities": ["entities"],
    "status": ["status"],
    "forget": ["forget", "--whole-thread", "--yes"],
}


def test_every_reading_command_says_that_a_name_is_unknown(here: CommandLine) -> None:
    """With the nearest ones, on stderr, so that what a script reads is as before; of a known one nothing is said."""
    cli = here
    fill(cli)
    for name, command in READING.items():
        told = cli(*command, "-u", "adda", "-t", "home")
        assert "No user 'adda' is remembered; nearest: 'ada'.\n" in told.stderr, name
        told = cli(*command, "-u", "ada", "-t", "hom")
        assert "User 'ada' has no thread 'hom'; nearest: 'home'.\n" in told.stderr, name
        if name != "forget":
            told = cli(*command, "-u", "ada", "-t", "home")
            assert "nearest" not in told.stderr + told.stdout, name
    assert cli.json("ask", "piano") == []
    assert "No user 'me' is remembered; there are 'ada', 'bo'." in cli("ask", "piano").stderr
    for command in (["ask", "piano"], ["facts", "show"], ["entities"]):
        assert "has no thread" not in cli(*command, "--scope", "user", "-u", "ada").stderr
        assert "No user 'adda'" in cli(*command, "--scope", "user", "-u", "adda").stderr
    assert "has no thread" not in cli("status", "-u", "ada").stderr
    assert "No user 'adda'" in cli("status", "-u", "adda").stderr
    assert "No user 'boo'" in cli("forget", "--whole-user", "--yes", "-u", "boo").stderr
    assert "No user 'boo'" in cli("rebuild", "-u", "boo").stderr
    assert "nearest: 'ada'" in cli("topic", "show", "-u", "adda", code=1).stderr
    assert "No user" not in cli("facts", "set", "name", "Eve", "-u", "eve").stderr
    assert "No user" not in cli("session", "start", "-u", "eva").stderr


def test_topics_are_found_and_searched_by_tag(here: CommandLine) -> None:
    cli = here
    cli("ingest", cli.file(user(PIANO), user(BREAD)), "--user", "ada")
    by_title = {one["topic_title"]: one["topic_id"] for one in cli.json("topics", "-u", "ada")}
    cli("topic", "tag", by_title[PIANO], "music", "to do", "-u", "ada")
    assert [one["topic_title"] for one in cli.json("topics", "--tag", "music", "-u", "ada")] == [PIANO]
    told = cli("topics", "--tag", "musik", "-u", "ada")
    assert "has no active topics tagged 'musik'; its topics' tags are 'music', 'to do'" in told.stderr
    found = cli.json("ask", "bread and piano", "--tag", "music", "-u", "ada")
    assert [one["turn"]["content"] for one in found] == [PIANO]
    found = cli.json("ask", "bread", "--tag", "music", "--scope", "user", "-u", "ada")
    assert all(one["turn"]["topic"] == by_title[PIANO] for one in found)
    assert "in topics tagged 'musik'" in cli("ask", "piano", "--tag", "musik", "-u", "ada").stderr
    assert "--tag" in cli("ask", "piano", "--tag", "music", "--context", code=2).stderr
    assert "--tag" in cli("topics", "--tag", "music", "--suggest", code=2).stderr


def test_parked_turns_show_their_user(here: CommandLine) -> None:
    """In the table and as JSON, by the name that the tenant knows."""
    here("ingest", here.file(user(PIANO)), "-u", "ada", "--tenant", "acme", "--no-wait")
    asyncio.run(park(here.data / "memory_agent.sqlite3", Scope.of("ada", "main", tenant="acme")))
    (parked,) = json.loads(here("status", "--json", code=3).stdout)["parked"]
    assert (parked["user"], parked["tenant"], parked["thread"]) == ("ada", "acme", "main")
    shown = here("status", "-u", "ada", "--tenant", "acme", code=3)
    assert "ada (tenant" in shown.stdout
    assert "\x1f" not in shown.stdout


async def park(path: Path, scope: Scope) -> None:
    """Park the turns of the scope."""
    store = SqliteStore(path)
    await store.open()
    ids = [turn.id for turn in await store.list_turns(scope)]
    await store.postpone(scope, ids, error="a broken model", due_at=None, counted=True)
    await store.close()


@pytest.mark.timeout(300)
def test_users_and_threads_are_listed_on_servers(
    cli: CommandLine, here: CommandLine, server_settings: dict[str, Any]
) -> None:
    """MongoDB and Chroma as servers: by commands, and by a service that is another process."""
    on_servers: Any = {f"MEMORY_AGENT_{name.upper()}": str(value) for name, value in server_settings.items()}
    fill(here, **on_servers)
    check_lists(here, **on_servers)
    told = cli("ask", "piano", "-u", "ada", "-t", "hom", **on_servers)
    assert "User 'ada' has no thread 'hom'; nearest: 'home'.\n" in told.stderr
    service = ServiceProcess(cli.folder, "--insecure-no-auth", settings=server_settings)
    service.start()
    try:
        with httpx.Client(base_url=service.address, timeout=30) as client:
            users = client.get("/api/users").json()["items"]
            assert [one["user_id"] for one in users] == ["ada", "bo"]
            threads = client.get("/api/users/ada/threads").json()["items"]
            assert [one["thread_id"] for one in threads] == ["holidays", "home"]
            missing = client.get("/api/users/adda/threads")
            assert (missing.status_code, missing.json()["detail"]) == (
                404,
                "no user 'adda' is remembered; nearest: 'ada'",
            )
    finally:
        assert service.stop() == 0
    assert Scope.of("ada", tenant="acme").user_id not in str(users)
