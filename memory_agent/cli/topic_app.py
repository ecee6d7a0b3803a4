"""The commands `memory-agent topic …`, with their options and help texts."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

from pathlib import Path
from typing import Annotated

import typer

from memory_agent.cli.options import TENANT, THREAD, USER, AsJson, DataDir, MemoryTyper, Tenant, Thread, User
from memory_agent.cli.reading import Where
from memory_agent.cli.running import run

app = MemoryTyper(
    name="topic",
    no_args_is_help=True,
    help="""Look at one topic, and say what is to become of it.

`memory-agent topics` lists a thread's topics with their ids. Every change says how to undo it.

**Start with**: memory-agent topic show
""",
)

TopicId = Annotated[str, typer.Argument(help="Id of a topic, as `memory-agent topics` shows it.")]


def _where(user: str, thread: str, tenant: str, data_dir: Path | None, as_json: bool) -> Where:
    return Where(user_id=user, thread_id=thread, tenant=tenant, data_dir=data_dir, as_json=as_json)


@app.command()
def show(
    topic_id: Annotated[
        str | None, typer.Argument(help="Id of a topic.", show_default="the current one")
    ] = None,
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    recent: Annotated[
        bool, typer.Option("--recent", help="Only what a model needs to go on with it: summary, last turns.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show how a topic stands, its summary, and its whole history word for word.

    Turns that were compressed are shown as they were said. The summary says whether a language model wrote it or
    whether it is sentences taken from the turns.

    **Examples**

        memory-agent topic show

        memory-agent topic show 01890a5d-ac96-774b-bcce-b302099a8057 --user ada --thread work

        memory-agent topic show --recent --json
    """
    from memory_agent.cli import topics

    where = _where(user, thread, tenant, data_dir, as_json)
    run(topics.show_context(where, topic_id) if recent else topics.show_topic(where, topic_id))


@app.command()
def merge(
    topic_id: TopicId,
    into: Annotated[str, typer.Argument(help="Id of the topic that it becomes a part of.")],
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a topic a part of another one, whose title stays.

    `memory-agent topics --suggest` names pairs that have grown together.

    **Examples**

        memory-agent topic merge 01890a5d-ac96-774b-bcce-b302099a8057 01890a5e-11d2-7c1b-9b1e-2f6a0a1b2c3d
    """
    from memory_agent.cli import topics

    run(topics.merge(_where(user, thread, tenant, data_dir, as_json), topic_id, into))


@app.command()
def split(
    topic_id: TopicId,
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Take a topic out of the one it was merged into, with the turns that were its own.

    `memory-agent topic show` lists what a topic was merged with.

    **Examples**

        memory-agent topic split 01890a5d-ac96-774b-bcce-b302099a8057
    """
    from memory_agent.cli import topics

    run(topics.split(_where(user, thread, tenant, data_dir, as_json), topic_id))


@app.command()
def tag(
    topic_id: TopicId,
    tags: Annotated[list[str] | None, typer.Argument(help="Tags to add.", metavar="TAG")] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", help="A tag to remove (may be repeated).")
    ] = None,
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Add tags to a topic, and remove others.

    **Examples**

        memory-agent topic tag 01890a5d-ac96-774b-bcce-b302099a8057 holiday "to do"

        memory-agent topic tag 01890a5d-ac96-774b-bcce-b302099a8057 --remove holiday
    """
    if not tags and not remove:
        raise typer.BadParameter("give tags to add, or --remove with one to remove")
    from memory_agent.cli import topics

    run(
        topics.tag(
            _where(user, thread, tenant, data_dir, as_json), topic_id, add=tags or [], remove=remove or []
        )
    )


def _importance(value: str) -> float | None:
    if value.lower() == "none":
        return None
    try:
        return float(value)
    except ValueError:
        raise typer.BadParameter(f"{value} is neither a number nor none", param_hint="VALUE") from None


@app.command()
def importance(
    topic_id: TopicId,
    value: Annotated[str, typer.Argument(help="A number from 0 to 1, or none: as its turns say.")],
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Set a topic's importance, which its priority starts from.

    **Examples**

        memory-agent topic importance 01890a5d-ac96-774b-bcce-b302099a8057 0.9

        memory-agent topic importance 01890a5d-ac96-774b-bcce-b302099a8057 none
    """
    number = _importance(value)
    from memory_agent.cli import topics

    run(topics.weigh(_where(user, thread, tenant, data_dir, as_json), topic_id, number))


@app.command()
def feedback(
    turn_or_topic: Annotated[str, typer.Argument(help="Id of a topic, or of a turn of it.", metavar="ID")],
    useful: Annotated[bool, typer.Option("--useful/--not-useful", help="What you think of it.")],
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Say that a topic, or a turn of it, was useful or not: one vote for the topic's importance.

    **Examples**

        memory-agent topic feedback 01890a5d-ac96-774b-bcce-b302099a8057 --useful

        memory-agent topic feedback 01890a5d-ac96-774b-bcce-b302099a8057 --not-useful
    """
    from memory_agent.cli import topics

    run(topics.vote(_where(user, thread, tenant, data_dir, as_json), turn_or_topic, useful=useful))


@app.command()
def archive(
    topic_id: TopicId,
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Lay a topic to rest, as the sweep does with faded ones: out of matching, compressed, still found by search.

    **Examples**

        memory-agent topic archive 01890a5d-ac96-774b-bcce-b302099a8057
    """
    from memory_agent.cli import topics

    run(topics.archive(_where(user, thread, tenant, data_dir, as_json), topic_id))


@app.command()
def restore(
    topic_id: TopicId,
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Bring an archived topic back, as if it had been accessed now.

    **Examples**

        memory-agent topic restore 01890a5d-ac96-774b-bcce-b302099a8057
    """
    from memory_agent.cli import topics

    run(topics.restore(_where(user, thread, tenant, data_dir, as_json), topic_id))
