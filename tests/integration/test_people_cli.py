"""Users, threads, unknown names and tags on the command line."""

from __future__ import annotations

from tests.integration.commands import CommandLine, Quick, user

PIANO = "The piano tuner comes on Monday at ten."
BREAD = "My sourdough bread doesn't rise, what is wrong with the starter?"


def fill(cli: CommandLine) -> None:
    """Ada's two threads and Bo's one, and a user of the same name under another tenant."""
    at = "2026-05-07T19:45:00+02:00"
    told = [user(PIANO, thread="home", timestamp=at), user("Noted?", thread="home"), user(BREAD)]
    cli("ingest", cli.file(*told), "--user", "ada", "--thread", "holidays", "--no-wait")
    cli("ingest", cli.file(user("Hi", timestamp=at)), "--user", "bo", "--no-wait")
    cli("ingest", cli.file(user("Hi")), "--user", "ada", "--tenant", "acme", "--no-wait")


def test_users_and_threads_are_listed(quick: Quick) -> None:
    """For people and for scripts, page by page."""
    cli = quick
    assert "memory" in cli("users", code=1).stderr  # nor is there a folder
    fill(cli)
    found = cli.json("users")
    counts = [(one["user"], one["threads"], one["turns"]) for one in found["users"]]
    assert counts == [("ada", 2, 3), ("bo", 1, 1)]
    assert found["users"][1]["last_activity"] == "2026-05-07T17:45:00+00:00"
    assert found["next"] is None
    threads = cli.json("threads", "-u", "ada")
    assert [(one["thread"], one["turns"]) for one in threads["threads"]] == [("holidays", 1), ("home", 2)]
    shown = cli("users", "--limit", "1")
    assert shown.stdout.split()[:6] == ["user", "threads", "turns", "last", "activity", "ada"]
    assert "More users follow; go on: memory-agent users --data-dir" in shown.stderr
    assert "--after ada --limit 1" in shown.stderr
    assert "bo" in cli("users", "--after", "ada").stdout
    assert "2026-05-07 17:45" in cli("threads", "-u", "bo").stdout
    assert len(cli.json("users", "--all")["users"]) == 2
    (acme,) = cli.json("users", "--tenant", "acme")["users"]
    assert (acme["user"], acme["turns"]) == ("ada", 1)
    assert "Nobody is remembered under tenant 'acm' yet" in cli("users", "--tenant", "acm").stderr
    refused = cli("threads", "-u", "adda", code=1)
    assert refused.stderr == "memory-agent: no user 'adda' is remembered; nearest: 'ada'\n"
    assert "choose one" in quick("users", "--all", "--limit", "3", code=2).stderr


READING = (
    "ask piano",
    "facts show",
    "facts history",
    "topics",
    "session list",
    "history",
    "session show --compressed",
    "status",
    "forget --whole-thread --yes",
)


def test_every_reading_command_says_that_a_name_is_unknown(quick: Quick) -> None:
    """With the nearest ones, on stderr, so that what a script reads is as before; of a known one nothing is said."""
    cli = quick
    fill(cli)
    for command in READING:
        told = cli(*command.split(), "-u", "ada", "-t", "hom")
        assert "User 'ada' has no thread 'hom'; nearest: 'home'.\n" in told.stderr, command
    for command in READING[:2]:  # what is said is the same for all of them
        told = cli(*command.split(), "-u", "adda", "-t", "home")
        assert "No user 'adda' is remembered; nearest: 'ada'.\n" in told.stderr, command
        told = cli(*command.split(), "-u", "ada", "-t", "home")
        assert "nearest" not in told.stderr + told.stdout, command
    assert cli.json("ask", "piano") == []
    assert "No user 'me' is remembered; there are 'ada', 'bo'." in cli("ask", "piano").stderr
    for command in ("ask piano", "facts show"):
        assert "has no thread" not in cli(*command.split(), "-u", "ada").stderr
        assert "No user 'adda'" in cli(*command.split(), "-u", "adda").stderr
    assert "has no thread" not in cli("status", "-u", "ada").stderr
    assert "No user 'adda'" in cli("status", "-u", "adda").stderr
    assert "No user 'boo'" in cli("forget", "--whole-user", "--yes", "-u", "boo").stderr
    assert "No user 'boo'" in cli("rebuild", "-u", "boo").stderr
    assert "nearest: 'ada'" in cli("topic", "show", "-u", "adda", code=1).stderr
    assert "No user" not in cli("facts", "set", "name", "Eve", "-u", "eve").stderr
    assert "No user" not in cli("facts", "add", "preferences.likes", "tea", "-u", "eva").stderr
