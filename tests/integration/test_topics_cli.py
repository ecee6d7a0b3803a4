"""Topics and the sweep on the command line: the embedded default, the real model, processes where that matters."""

from __future__ import annotations

import json
import shlex
import signal
import socket
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent.domain import Scope, Topic
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.topics.sweep import LEASE_NAME
from tests.integration.commands import (
    SECONDS,
    CommandLine,
    Quick,
    copied,
    looking,
    one_line,
    user,
    with_store,
)
from tests.servers.forks import forks

CLEANUP = Path(__file__).parents[2] / "scripts" / "cleanup.py"
LONG_AGO = datetime(2026, 3, 1, 10, tzinfo=UTC)
SUBJECTS = {
    "bread": [
        "How do I feed my sourdough starter before baking bread?",
        "My sourdough bread dough is too sticky, what flour helps?",
        "The sourdough bread crust came out pale from the oven.",
    ],
    "tax": [
        "When is the deadline for the income tax return this year?",
        "Can I deduct my home office on the income tax return?",
    ],
    "tomatoes": [
        "The tomato plants in my garden have yellow leaves.",
        "How often should I water tomato plants in the garden?",
    ],
}
FADING: Any = {"MEMORY_AGENT_MAX_TOPICS": "1"}
"""Each thread may keep one topic; the current one stays, so all others of long ago have to go."""


def conversation() -> list[dict[str, str]]:
    """Three topics of long ago, an hour between two questions."""
    turns = []
    questions = [(subject, text) for subject, texts in SUBJECTS.items() for text in texts]
    for hour, (subject, text) in enumerate(questions):
        at = LONG_AGO + timedelta(hours=hour)
        later = (at + timedelta(minutes=1)).isoformat()
        turns.append(user(text, timestamp=at.isoformat()))
        answer = f"This is what I know about {subject}."
        turns.append({"role": "assistant", "content": answer, "timestamp": later})
    return turns


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """A conversation about three things, in a folder that nobody changes; embedding takes time."""
    cli = CommandLine(tmp_path_factory.mktemp("topics"))
    packing: Any = {"MEMORY_AGENT_MAX_MESSAGES_PER_TOPIC": "5", "MEMORY_AGENT_RECENT_MESSAGE_KEEP": "1"}
    cli("ingest", cli.file(*conversation()), **packing)
    return cli


@pytest.fixture(scope="module")
def remembered(process: CommandLine) -> Quick:
    return looking(process)


@pytest.fixture
def cli(process: CommandLine, tmp_path: Path) -> CommandLine:
    """A copy of it that a test may change."""
    return copied(process, tmp_path)


def report_of(shown: Any) -> dict[str, Any]:
    report = shown["report"]
    return {name: report[name] for name in ("threads", "topics", "archived", "deleted", "forgotten")}


def deeds(shown: Any) -> list[tuple[Any, ...]]:
    return [(a["deed"], a["user_id"], a["thread_id"], a["topic_id"], a["turn_id"]) for a in shown["actions"]]


def stored(cli: CommandLine) -> list[Topic]:
    """The thread's topics, oldest first: bread, tax, tomatoes."""

    async def load(store: SqliteStore) -> list[Topic]:
        topics = await store.list_topics(Scope(user_id="me", thread_id="main"))
        return sorted(topics, key=lambda topic: topic.created_at)

    return with_store(cli, load)


def ids(cli: CommandLine) -> list[str]:
    return [topic.id for topic in stored(cli)]


def standing(cli: CommandLine) -> list[tuple[Any, ...]]:
    """What the commands can change, of every topic."""
    return [(t.id, t.absorbed, t.tags, t.set_importance, t.votes, t.archived) for t in stored(cli)]


# --- looking -------------------------------------------------------------------------------------------------
def test_topics_are_listed_with_how_they_stand(process: CommandLine, remembered: Quick) -> None:
    """For people within eighty columns with the ids whole."""
    topics = process.json("topics")
    assert {topic["opener"] for topic in topics} == {texts[0] for texts in SUBJECTS.values()}
    assert [topic["priority"] for topic in topics] == sorted((t["priority"] for t in topics), reverse=True)
    bread = next(topic for topic in topics if topic["topic_id"] == ids(remembered)[0])
    assert (bread["total_messages"], bread["compressed_messages"]) == (6, 5)
    assert (bread["access_count"], bread["memory_type"], bread["half_life_days"]) == (2, "short-term", 1.0)
    assert [topic["topic_title"] for topic in topics if topic["current"]] == ["tomato plants, garden"]
    assert not any(topic["archived"] for topic in topics)
    shown = process("topics", COLUMNS="80").stdout
    assert max(map(len, shown.splitlines())) <= 80
    words = ("5 compressed", "2 accesses", "short-term", "1 day", "days", "current")
    assert [word for word in (*ids(remembered), *words) if word not in shown] == []


def test_one_topic_is_shown_with_its_summary_and_every_word(remembered: Quick) -> None:
    """Without an id the current one; --recent is what a model gets."""
    bread = ids(remembered)[0]
    shown = remembered.json("topic", "show", bread)
    assert shown["topic"]["topic_id"] == bread
    wanted = (None, False)
    assert (shown["topic"]["summary"], shown["topic"]["has_summary"]) == wanted
    expected = [turn for turn in conversation() if "bread" in turn["content"]]
    assert shown["history"] == expected
    text = remembered.say(f"topic show {bread}")
    assert "in sentences taken from them" not in text
    for words in ("5 of them compressed", *(t["content"] for t in expected)):
        assert words in text
    assert remembered.json("topic", "show")["topic"]["opener"] == SUBJECTS["tomatoes"][0]
    messages = remembered.json("topic", "show", bread, "--recent")
    assert messages[0]["role"] == "system"
    # So nothing stands for its first turns.
    assert messages[0]["content"] == "The conversation is about: sourdough bread"
    assert [message["content"] for message in messages if message["role"] == "user"] == SUBJECTS["bread"]
    text = remembered.say(f"topic show {bread} --recent")
    assert all(message["content"] in text for message in messages)


def test_thread_without_topics_says_so(remembered: Quick, quick: Quick) -> None:
    """And of turns that have none yet, who gives them one."""
    assert remembered.json("topics", "-t", "elsewhere") == []
    assert "'elsewhere' of user 'me' has no active topics" in remembered("topics", "-t", "elsewhere").stderr
    assert "has no topic yet" in remembered("topic", "show", "-t", "elsewhere", code=1).stderr
    quick("ingest", "--no-wait", quick.file(*conversation()[:2]))
    told = quick("topics").stderr
    assert "2 turn(s) have no topic yet" in told
    assert "memory-agent worker --until-idle" in told


def test_unknown_id_is_named_with_what_to_do(remembered: Quick) -> None:
    listing = shlex.join(["memory-agent", "topics", "--data-dir", str(remembered.data), "--all"])
    for call in ("tag nope holiday", "show nope", "restore nope", "merge nope nope", "split nope"):
        refused = remembered("topic", *call.split(), code=1)
        assert refused.stdout == ""
        one_line(refused.stderr, "'nope'", f"`{listing}` lists them")


# --- changing ------------------------------------------------------------------------------------------------
def test_tags_are_told_in_a_line_and_taken_back_as_it_says(cli: CommandLine) -> None:
    """The command that is printed brings back what was, and prints the one that makes the change again."""
    bread = ids(cli)[0]
    before = standing(cli)
    made = cli.run(["topic", "tag", "--data-dir", str(cli.data), bread, "holiday", "--", "-x"]).stdout
    assert "'holiday', '-x'" in made
    assert made.count("\n") == 1
    changed = standing(cli)
    assert changed != before
    asked = ["ask", "What about the sourdough bread and the income tax?", "-t", "another", "--context"]
    tagged = cli(*asked, "--tag", "holiday").stdout
    assert (SUBJECTS["bread"][0] in tagged, SUBJECTS["tax"][0] in tagged) == (True, False)
    unmade = cli.follow(made)
    assert standing(cli) == before
    cli.follow(unmade)
    assert standing(cli) == changed


def test_a_merge_is_told_in_a_line_and_split_again_as_it_says(cli: CommandLine) -> None:
    """The split prints the merge that makes it again; the split topic has its turns and title back."""
    bread, tax = ids(cli)[0], ids(cli)[1]
    listed = cli.json("topics")
    made = cli.run(["topic", "merge", "--data-dir", str(cli.data), tax, bread]).stdout
    assert made.count("\n") == 1
    merged = cli.json("topics")
    assert {one["topic_id"] for one in merged} == {one["topic_id"] for one in listed} - {tax}
    assert cli.json("topic", "show", tax)["topic"]["topic_id"] == bread
    unmade = cli.follow(made)
    titles = {one["topic_id"]: (one["topic_title"], one["total_messages"]) for one in listed}
    assert {
        one["topic_id"]: (one["topic_title"], one["total_messages"]) for one in cli.json("topics")
    } == titles
    cli.follow(unmade)
    assert {one["topic_id"] for one in cli.json("topics")} == {one["topic_id"] for one in merged}


# --- the sweep -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("deed", ["archive", "delete", "forget"])
def test_dry_run_lists_what_the_run_then_does(cli: CommandLine, deed: str) -> None:
    retention = {"MEMORY_AGENT_RETENTION_DAYS": "30", "MEMORY_AGENT_MAX_TOPICS": "20"}
    settings = {"archive": {}, "delete": {"MEMORY_AGENT_DECAY_POLICY": "delete"}, "forget": retention}[deed]
    more: Any = {**FADING, **settings}
    before = standing(cli)
    planned = cli.json("sweep", "--dry-run", **more)
    assert planned["report"]["dry_run"] is True
    listed = cli("sweep", "--dry-run", **more)
    assert standing(cli) == before
    done = cli.json("sweep", "--list", **more)
    assert deeds(done) == deeds(planned)
    assert report_of(done) == report_of(planned)
    assert {action["deed"] for action in done["actions"]} == {deed}
    assert len(done["actions"]) == (14 if deed == "forget" else 2)
    lines = [line for line in listed.stdout.splitlines() if line.startswith(deed)]
    for action, line in zip(planned["actions"], lines, strict=True):
        assert "user 'me'  thread 'main'" in line
        assert (action["turn_id"] or action["topic_id"]) in line
    assert "nothing was changed" in listed.stderr
    assert cli.json("sweep", "--list", **more)["actions"] == []
    turns, topics = {"archive": (14, 3), "delete": (4, 1), "forget": (0, 0)}[deed]
    assert cli.json("status")["turns"] == turns
    assert len(stored(cli)) == topics


def test_sweep_that_leaves_something_over_leaves_with_3_and_says_what(cli: CommandLine) -> None:
    """With Chroma down what was forgotten is still owed there: told even if it is to be quiet."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        there: Any = {"CHROMA_HOST": "127.0.0.1", "CHROMA_PORT": str(nobody.getsockname()[1])}
        down = {f"MEMORY_AGENT_{name}": value for name, value in {**there, "RETENTION_DAYS": "30"}.items()}
        told = cli("sweep", "--quiet", code=3, **down)
    assert "the sweep is not whole: vector_index could not be reached" in told.stderr
    assert "turns forgotten" in told.stdout


def test_the_lease_of_a_sweep_that_was_killed_holds_up_no_other(cli: CommandLine) -> None:
    """Whoever has the folder knows that nobody else sweeps it; a dry run needs no lease anyway."""
    now = datetime.now(UTC)

    async def take(store: SqliteStore) -> None:
        until = now + timedelta(minutes=5)
        assert await store.acquire_leases([LEASE_NAME], "somebody else", now=now, until=until)

    with_store(cli, take)
    assert len(cli.json("sweep", "--dry-run", **FADING)["actions"]) == 2
    assert cli("sweep", "--quiet", **FADING).stderr == ""
    assert len(cli.json("topics")) == 1


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.nightly), signal.SIGTERM])
def test_interrupted_sweep_is_gone_on_with_by_the_next(tmp_path: Path, number: signal.Signals) -> None:
    """It leaves at once with 130 and says so; what the two did together is everything, once."""
    cli = CommandLine(tmp_path)
    threads = [f"thread {n:03}" for n in range(100)]

    async def fill(store: SqliteStore) -> None:
        for thread in threads:
            for topic in range(4):
                assert await store.save_topics([faded(thread, topic)])

    with_store(cli, fill)
    with subprocess.Popen(
        cli.command("sweep", "--list"),
        cwd=cli.folder,
        env={**cli.environment, **FADING},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as sweep:
        assert sweep.stdout is not None
        assert sweep.stderr is not None
        done = [sweep.stdout.readline() for _ in range(10)]
        sweep.send_signal(number)
        done += sweep.stdout.readlines()
        said = sweep.stderr.read()
        assert sweep.wait(timeout=SECONDS) == 130
    assert said == "memory-agent: interrupted; the next sweep goes on from there\n"
    rest = cli.json("sweep", "--list", **FADING)
    assert rest["report"]["resumed"] is True
    assert 0 < rest["report"]["threads"] < 100
    assert 297 <= len(done) + len(rest["actions"]) <= 300, "at most the last thread was not told of"
    again = cli("sweep", **FADING)
    assert "topics archived    0" in again.stdout


def faded(thread: str, number: int) -> Topic:
    """A topic without turns that was last looked at long ago."""
    at = LONG_AGO + timedelta(hours=number)
    return Topic(
        id=f"{thread} topic {number}",
        user_id="me",
        thread_id=thread,
        title="Something",
        created_at=at,
        last_access=at,
        through=number + 1,
    )


# --- scripts/cleanup.py --------------------------------------------------------------------------------------
def cleanup(cli: CommandLine, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = ["-c", CLEANUP.read_text("utf-8"), *arguments]
    environment = {**cli.environment, **FADING, "MEMORY_AGENT_DATA_DIR": str(cli.data)}
    return forks().run(script, stdin="", cwd=folder, env=environment, timeout=SECONDS)


def test_cleanup_is_a_sweep_from_anywhere(cli: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It explains itself, and refuses what it does not know."""
    elsewhere = tmp_path_factory.mktemp("home")
    planned = cleanup(cli, elsewhere, "--dry-run", "--json")
    assert planned.returncode == 0, planned.stderr
    assert len(json.loads(planned.stdout)["actions"]) == 2
    quiet = cleanup(cli, elsewhere, "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    assert len(cli.json("topics")) == 1
    assert list(elsewhere.iterdir()) == []
    told = cleanup(cli, elsewhere, "--help")
    assert (told.returncode, "Exit codes" in told.stdout) == (0, True)
    assert cleanup(cli, elsewhere, "--dryrun").returncode == 2
