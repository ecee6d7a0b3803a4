"""`memory-agent topics` and `topic …`: topics shown, and changed with a word on how to undo it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from memory_agent.cli.opening import agent_of
from memory_agent.cli.options import MemoryTyper, ThreadOptions, argument, flag, option
from memory_agent.cli.output import in_words, line, note, print_json, print_rows, print_table, say, when

if TYPE_CHECKING:
    from rich.text import Text

    from memory_agent.topics.stats import TopicStats

app = MemoryTyper()
group = MemoryTyper(
    name="topic",
    no_args_is_help=True,
    help="""Look at one topic, tag it, merge two and split them again, and bring one back.

`memory-agent topics` lists a thread's topics with their ids.

**Start with**: memory-agent topic show
""",
)
app.add_typer(group)

TOPIC_ID: Final[Any] = argument("Id of a topic, as `memory-agent topics` shows it.")
_ID_CHARS: Final = 36


# --- looking -------------------------------------------------------------------------------------------------
@app.command()
async def topics(
    where: ThreadOptions,
    tag: str | None = option("--tag", "Only those that carry this tag."),
    archived: bool = flag("--all", "Archived ones as well."),
) -> None:
    """List the thread's topics, highest priority first.

    Looking changes nothing: it is no access. Below each title stands the id that the `topic` commands take.

    Examples:
        memory-agent topics --user ada --thread work
        memory-agent topics --all --json | jq -r '.[] | select(.archived) | .topic_id'
    """
    async with agent_of(where) as agent:
        listed = await agent.topics(include_archived=archived, tag=tag)
        every = listed if tag is None else await agent.topics(include_archived=True)
        owed = (await agent.status()).pending.get("topics", 0)
    if owed:
        note(f"{owed:,} turn(s) have no topic yet; a worker gives them one: memory-agent worker --until-idle")
    if where.as_json:
        print_json(listed)
    elif listed:
        # Three lines a topic, which fit eighty columns with the id whole, so that it can be copied.
        names = (
            "+topic\nid\nstate, tags",
            "+turns\n\n",
            "+memory\nhalf-life\naccesses",
            "+priority\ninactive\n",
        )
        print_table(names, map(_row, listed), below=1, first_width=_ID_CHARS, folds=True)
    else:
        what = "topics" if archived else "active topics"
        what += "" if tag is None else f" tagged {tag!r}"
        tags = ", ".join(sorted({f"{one!r}" for topic in every for one in topic.tags}))
        has = f"; its topics' tags are {tags}" if tags else ""
        note(f"{where.whose} has no {what}{has}.")


def _row(topic: TopicStats) -> list[Text | str]:
    marks = ", ".join(filter(None, [_state(topic), *topic.tags]))
    accesses = f"{topic.access_count:,} access{'' if topic.access_count == 1 else 'es'}"
    return [
        line((topic.topic_title, "bold"), f"\n{topic.topic_id}", (f"\n{marks}" if marks else "", "dim")),
        f"{topic.active_messages:,} active\n{topic.compressed_messages:,} compressed",
        f"{topic.memory_type}\n{_days(topic.half_life_days)}\n{accesses}",
        f"{topic.priority:.3f}\n{in_words(topic.inactive_seconds)}",
    ]


def _days(days: float) -> str:
    return f"{days:.3g} day{'' if days == 1 else 's'}"


def _state(topic: TopicStats) -> str:
    return "archived" if topic.archived else "current" if topic.current else ""


@group.command()
async def show(
    where: ThreadOptions,
    topic_id: str | None = argument("Id of a topic.", None, shown="the current one"),
    recent: bool = flag("--recent", "Only what a model needs to go on with it: summary, last turns."),
) -> None:
    """Show how a topic stands, its summary, and its whole history word for word.

    Turns that were compressed are shown as they were said. The summary says whether a language model wrote it or
    whether it is sentences taken from the turns.

    Examples:
        memory-agent topic show
        memory-agent topic show 01890a5d-ac96-774b-bcce-b302099a8057 --user ada --thread work
        memory-agent topic show --recent --json
    """
    async with agent_of(where) as agent:
        stats = None if recent else await agent.topic_stats(topic_id)
        messages: list[Any] = await (
            agent.topic_context(topic_id) if stats is None else agent.topic_history(stats.topic_id)
        )
    if where.as_json:
        print_json(messages if stats is None else {"topic": stats, "history": messages})
        return
    if stats is not None:
        _print_stats(stats)
    for message in messages:
        at = "" if recent else f"{when(message['timestamp'])}  "
        say((f"{at}{message['role']}: ", "dim"), message["content"])


def _print_stats(stats: TopicStats) -> None:
    """Print how a topic stands, its summary, and the heading of its history."""
    compressed = ""
    if stats.compressed_messages:
        compressed = f", {stats.compressed_messages:,} of them compressed {stats.compression_ratio:.1f} to 1"
    print_rows(
        [
            ("topic", stats.topic_title),
            ("opened by", stats.opener),
            ("id", stats.topic_id),
            ("state", _state(stats) or "active"),
            ("turns", f"{stats.total_messages:,}{compressed}"),
            ("accesses", f"{stats.access_count:,}"),
            ("inactive", in_words(stats.inactive_seconds)),
            ("age", in_words(stats.age_seconds)),
            ("memory", f"{stats.memory_type}, half-life {_days(stats.half_life_days)}"),
            ("priority", f"{stats.priority:.3f} of importance {stats.importance_score:.2f}"),
            ("tags", ", ".join(stats.tags)),
            ("merged in", "\n".join(stats.absorbed)),
        ]
    )
    if stats.summary is not None:
        kind, _, name = stats.summary.made_by.partition(":")
        taken = f"in sentences taken from them ({stats.summary.made_by})"
        by = f"written by {name}" if kind == "llm" else taken
        say((f"\nSummary of {stats.summary.turns:,} turns, {by}", "bold"))
        say(stats.summary.text)
    say(("\nHistory", "bold"))


# --- changing ------------------------------------------------------------------------------------------------
def _say(where: ThreadOptions, stats: TopicStats, done: str) -> None:
    """Print the change, or the topic as it now is as JSON."""
    if where.as_json:
        print_json(stats)
    else:
        say(done)


def _named(stats: TopicStats) -> str:
    return f"topic {stats.topic_title!r}"


@group.command()
async def tag(
    where: ThreadOptions,
    topic_id: str = TOPIC_ID,
    tags: list[str] | None = argument("Tags to add.", None, metavar="TAG"),
    remove: list[str] | None = option("--remove", "A tag to remove (may be repeated)."),
) -> None:
    """Add tags to a topic, and remove others.

    Examples:
        memory-agent topic tag 01890a5d-ac96-774b-bcce-b302099a8057 holiday "to do"
        memory-agent topic tag 01890a5d-ac96-774b-bcce-b302099a8057 --remove holiday
    """
    if not tags and not remove:
        raise typer.BadParameter("give tags to add, or --remove with one to remove")
    async with agent_of(where) as agent:
        before = (await agent.topic_stats(topic_id)).tags
        stats = await agent.tag_topic(topic_id, add=tags or [], remove=remove or [])
    came = [one for one in stats.tags if one not in before]
    went = [one for one in before if one not in stats.tags]
    now = ", ".join(map(repr, stats.tags)) or "none"
    if not came and not went:
        _say(where, stats, f"Nothing changed: the tags of {_named(stats)} are {now}.")
        return
    # After `--` nothing is taken for an option, whatever a tag begins with.
    back = [*(f"--remove={one}" for one in came), stats.topic_id, *(["--"] if went else []), *went]
    _say(where, stats, f"Tags of {_named(stats)}: {now}. Undo: {where.command('topic tag', *back)}")


@group.command()
async def merge(
    where: ThreadOptions,
    topic_id: str = TOPIC_ID,
    into: str = argument("Id of the topic that it becomes a part of."),
) -> None:
    """Make a topic a part of another, with all of its turns.

    Examples:
        memory-agent topic merge 01890a5d-ac96-774b-bcce-b302099a8057 0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e10
    """
    async with agent_of(where) as agent:
        merged = (await agent.topic_stats(topic_id)).topic_id
        stats = await agent.merge_topics(topic_id, into)
    _say(where, stats, f"Merged into {_named(stats)}. Undo: {where.command('topic split', merged)}")


@group.command()
async def split(where: ThreadOptions, topic_id: str = TOPIC_ID) -> None:
    """Take a topic out of the one it was merged into; no sweep merges the two again.

    `topic show` names what was merged into a topic, by a sweep or by somebody.

    Examples:
        memory-agent topic split 01890a5d-ac96-774b-bcce-b302099a8057
    """
    async with agent_of(where) as agent:
        was_in = (await agent.topic_stats(topic_id)).topic_id
        stats = await agent.split_topic(topic_id)
    back = where.command("topic merge", stats.topic_id, was_in)
    _say(where, stats, f"Split off {_named(stats)}. Undo: {back}")


@group.command()
async def restore(where: ThreadOptions, topic_id: str = TOPIC_ID) -> None:
    """Bring an archived topic back, as if it had been accessed now.

    Examples:
        memory-agent topic restore 01890a5d-ac96-774b-bcce-b302099a8057
    """
    async with agent_of(where) as agent:
        stats = await agent.restore_topic(topic_id)
    _say(where, stats, f"Restored {_named(stats)}.")
