"""`memory-agent topics` and `topic …`: topics shown, and changed with a word on how to undo it."""

from __future__ import annotations

import dataclasses
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from memory_agent.cli.output import clean, note, out, print_json
from memory_agent.cli.reading import agent_of
from memory_agent.cli.running import OK
from memory_agent.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from memory_agent.cli.opening import Agent
    from memory_agent.cli.reading import Where
    from memory_agent.domain import MergeSuggestion
    from memory_agent.topics.stats import TopicStats

_ID_CHARS: Final = 36
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


# --- what the commands share ---------------------------------------------------------------------------------
@asynccontextmanager
async def _opened(where: Where) -> AsyncIterator[Agent]:
    """The memory of the thread; errors name commands where the library's name methods."""
    async with agent_of(where) as agent:
        try:
            yield agent
        except InvalidInput as exc:
            listing, working = where.command("topics", "--all"), "memory-agent worker --until-idle"
            message = str(exc).replace("topics() lists", f"`{listing}` lists")
            kind = (
                NotFound if isinstance(exc, NotFound) else InvalidInput
            )  # after which a misspelt name is said
            raise kind(message.replace("turn_topic() or settle()", f"`{working}`")) from exc


def _say(where: Where, stats: TopicStats, done: str, undo: str = "", *arguments: str) -> int:
    """What was done and the `topic` command that undoes it, or the topic as it now stands as JSON."""
    if where.as_json:
        print_json(_as_json(stats))
    else:
        back = f" Undo: {where.command(f'topic {undo}', *arguments)}" if undo else ""
        out.print(Text(clean(f"{done}{back}")), soft_wrap=True)
    return OK


def _as_json(stats: TopicStats) -> dict[str, Any]:
    """A topic with stable keys."""
    summary = None if stats.summary is None else dataclasses.asdict(stats.summary)
    if summary is not None:
        summary["made_at"] = summary["made_at"].isoformat()
    return {**dataclasses.asdict(stats), "summary": summary}


def _named(stats: TopicStats) -> str:
    return f"topic {stats.topic_title!r}"


def in_words(seconds: float) -> str:
    """About how long, in one unit."""
    if seconds < _MINUTE:
        return "< 1 minute"
    for unit, word in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if seconds >= unit:
            count = int(seconds // unit)
            return f"{count:,} {word}{'' if count == 1 else 's'}"
    raise AssertionError(seconds)


# --- looking -------------------------------------------------------------------------------------------------
async def show_topics(where: Where, *, include_archived: bool, tag: str | None = None) -> int:
    """Print the thread's topics, highest priority first; `tag`: only those that carry it."""
    async with _opened(where) as agent:
        topics = await agent.topics(include_archived=include_archived, tag=tag)
        every = topics if tag is None else await agent.topics(include_archived=True)
        owed = (await agent.status()).pending.get("topics", 0)
    if owed:
        note(f"{owed:,} turn(s) have no topic yet; a worker gives them one: memory-agent worker --until-idle")
    if where.as_json:
        print_json([_as_json(topic) for topic in topics])
    elif topics:
        out.print(_table(topics))
    else:
        what = "topics" if include_archived else "active topics"
        what += "" if tag is None else f" tagged {tag!r}"
        tags = ", ".join(sorted({f"{one!r}" for topic in every for one in topic.tags}))
        has = f"; its topics' tags are {tags}" if tags else ""
        note(f"Thread {where.thread_id!r} of user {where.user_id!r} has no {what}{has}.")
    return OK


def _table(topics: Sequence[TopicStats]) -> Table:
    """Three lines a topic, which fit eighty columns with the id whole, so that it can be copied."""
    table = Table(box=None, padding=(0, 2, 1, 0), pad_edge=False)
    table.add_column("topic\nid\nstate, tags", min_width=_ID_CHARS, overflow="fold")
    for name in ("turns\n\n", "memory\nhalf-life\naccesses", "priority\ninactive\n"):
        table.add_column(name)
    for topic in topics:
        head = Text(clean(topic.topic_title), style="bold")
        head.append(f"\n{topic.topic_id}", style="not bold")
        if marks := ", ".join(filter(None, [_state(topic), *topic.tags])):
            head.append(f"\n{clean(marks)}", style="not bold dim")
        table.add_row(
            head,
            f"{topic.active_messages:,} active\n{topic.compressed_messages:,} compressed",
            f"{topic.memory_type}\n{_days(topic.half_life_days)}\n{_accesses(topic.access_count)}",
            f"{topic.priority:.3f}\n{in_words(topic.inactive_seconds)}",
        )
    return table


def _days(days: float) -> str:
    return f"{days:.3g} day{'' if days == 1 else 's'}"


def _accesses(count: int) -> str:
    return f"{count:,} access{'' if count == 1 else 'es'}"


def _state(topic: TopicStats) -> str:
    return "archived" if topic.archived else "current" if topic.current else ""


async def show_suggestions(where: Where) -> int:
    """Print the pairs that have grown together, nearest first, each with the command that merges it."""
    async with _opened(where) as agent:
        suggestions = await agent.suggest_merges()
    if where.as_json:
        print_json([dataclasses.asdict(suggestion) for suggestion in suggestions])
    elif suggestions:
        for suggestion in suggestions:
            _print_suggestion(where, suggestion)
    else:
        note(f"No topics of thread {where.thread_id!r} have grown together.")
    return OK


def _print_suggestion(where: Where, found: MergeSuggestion) -> None:
    head = Text(f"{found.similarity:.2f}", style="bold cyan")
    head.append(clean(f"  {found.topic_title!r} and {found.into_title!r}"), style="default")
    out.print(head, soft_wrap=True)
    merging = where.command("topic merge", found.topic_id, found.into)
    out.print(Text(clean(f"      {merging}"), style="dim"), soft_wrap=True)


async def show_topic(where: Where, topic_id: str | None) -> int:
    """Print how a topic stands, its summary and its whole history."""
    async with _opened(where) as agent:
        stats = await agent.topic_stats(topic_id)
        history = await agent.topic_history(stats.topic_id)
    if where.as_json:
        print_json(_topic_as_json(stats, history))
        return OK
    _print_stats(stats)
    if stats.summary is not None:
        _print_heading(f"Summary of {stats.summary.turns:,} turns, {_made_by(stats.summary.made_by)}")
        out.print(Text(clean(stats.summary.text)), soft_wrap=True)
    _print_heading("History")
    for message in history:
        said = Text(clean(f"{message['timestamp']:%Y-%m-%d %H:%M}  {message['role']}: "), style="dim")
        out.print(said.append(clean(message["content"]), style="not dim"), soft_wrap=True)
    return OK


def _topic_as_json(stats: TopicStats, history: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "topic": _as_json(stats),
        "history": [{**message, "timestamp": message["timestamp"].isoformat()} for message in history],
    }


def _print_heading(text: str) -> None:
    out.print(Text(f"\n{clean(text)}", style="bold"), soft_wrap=True)


def _made_by(maker: str) -> str:
    kind, _, name = maker.partition(":")
    return f"written by {name}" if kind == "llm" else f"in sentences taken from them ({maker})"


def _print_stats(stats: TopicStats) -> None:
    compressed = ""
    if stats.compressed_messages:
        compressed = f", {stats.compressed_messages:,} of them compressed {stats.compression_ratio:.1f} to 1"
    table = Table.grid(padding=(0, 2))
    rows = [
        ("topic", stats.topic_title),
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
    for name, value in rows:
        if value:
            table.add_row(name, Text(clean(value), overflow="fold"))
    out.print(table)


async def show_context(where: Where, topic_id: str | None) -> int:
    """Print the messages with which a model goes on with a topic."""
    async with _opened(where) as agent:
        messages = await agent.topic_context(topic_id)
    if where.as_json:
        print_json(messages)
        return OK
    for message in messages:
        said = Text(f"{message['role']}: ", style="dim")
        out.print(said.append(clean(message["content"]), style="not dim"), soft_wrap=True)
    return OK


# --- changing ------------------------------------------------------------------------------------------------
async def merge(where: Where, topic_id: str, into: str) -> int:
    """Make a topic a part of another one."""
    async with _opened(where) as agent:
        # What is merged is all that the topic is a part of by now, and that is what splitting has to name.
        taken = await agent.topic_stats(topic_id)
        merged = await agent.merge_topics(topic_id, into)
    done = f"Merged {_named(taken)} into {_named(merged)}, now of {merged.total_messages:,} turns."
    return _say(where, merged, done, "split", taken.topic_id)


async def split(where: Where, topic_id: str) -> int:
    """Take a topic out of the one that it was merged into."""
    async with _opened(where) as agent:
        whole = await agent.topic_stats(topic_id)
        part = await agent.split_topic(topic_id)
    done = f"Split {_named(part)} of {part.total_messages:,} turns off {_named(whole)}."
    return _say(where, part, done, "merge", part.topic_id, whole.topic_id)


async def tag(where: Where, topic_id: str, *, add: Sequence[str], remove: Sequence[str]) -> int:
    """Add and remove tags."""
    async with _opened(where) as agent:
        before = (await agent.topic_stats(topic_id)).tags
        stats = await agent.tag_topic(topic_id, add=add, remove=remove)
    came = [one for one in stats.tags if one not in before]
    went = [one for one in before if one not in stats.tags]
    tags = ", ".join(map(repr, stats.tags)) or "none"
    if not came and not went:
        return _say(where, stats, f"Nothing changed: the tags of {_named(stats)} are {tags}.")
    # After `--` nothing is taken for an option, whatever a tag begins with.
    back = [*(f"--remove={one}" for one in came), stats.topic_id, *(["--"] if went else []), *went]
    return _say(where, stats, f"Tags of {_named(stats)}: {tags}.", "tag", *back)


async def weigh(where: Where, topic_id: str, importance: float | None) -> int:
    """Set the importance, or leave it to the turns."""
    async with _opened(where) as agent:
        before = (await agent.topic_stats(topic_id)).set_importance
        stats = await agent.set_topic_importance(topic_id, importance)
    given = "left to its turns" if importance is None else f"set to {importance:g}"
    done = f"Importance of {_named(stats)} is {given}; with feedback {stats.importance_score:.2f}."
    return _say(where, stats, done, "importance", stats.topic_id, "none" if before is None else f"{before:g}")


async def vote(where: Where, turn_or_topic: str, *, useful: bool) -> int:
    """Count one vote for or against a topic."""
    async with _opened(where) as agent:
        stats = await agent.feedback(turn_or_topic, useful)
    done = (
        f"One vote {'for' if useful else 'against'} {_named(stats)}: importance {stats.importance_score:.2f}."
    )
    return _say(where, stats, done, "feedback", stats.topic_id, "--not-useful" if useful else "--useful")


async def archive(where: Where, topic_id: str) -> int:
    """Lay a topic to rest."""
    async with _opened(where) as agent:
        stats = await agent.archive_topic(topic_id)
    done = f"Archived {_named(stats)} with {stats.compressed_messages:,} compressed turns."
    return _say(where, stats, done, "restore", stats.topic_id)


async def restore(where: Where, topic_id: str) -> int:
    """Bring an archived topic back."""
    async with _opened(where) as agent:
        stats = await agent.restore_topic(topic_id)
    return _say(where, stats, f"Restored {_named(stats)}.", "archive", stats.topic_id)
