"""The commands on a whole conversation: its history, its compression, its entities. With options and help texts."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

from typing import Annotated, Literal

import typer

from memory_agent.cli.options import (
    TENANT,
    THREAD,
    USER,
    AsJson,
    DataDir,
    MemoryTyper,
    Tenant,
    Thread,
    User,
    Where,
)
from memory_agent.cli.running import run

app = MemoryTyper()

_LARGEST_SEQ = 2**53
"""Far beyond any thread, and what every store can compare with."""
_PAGE = 100
_MAX_PAGE = 10_000


@app.command()
def history(
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    session: Annotated[
        str | None, typer.Option("--session", help="Only of the session of this id.", metavar="ID")
    ] = None,
    after: Annotated[
        int, typer.Option("--after", min=0, max=_LARGEST_SEQ, help="Only turns after this number.")
    ] = 0,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, max=_MAX_PAGE, help="Turns at most.", show_default=str(_PAGE)),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="To the end, however many.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what was said, word for word, oldest first, compressed turns as well.

    A page at a time: where more follows, the command that goes on is named. The number in front of a turn is the one
    that --after and `compressed --as-of` take.

    **Examples**

        memory-agent history --user ada --thread work

        memory-agent history --after 100 --limit 20

        memory-agent history --all --json | jq -r '.turns[].content'
    """
    if everything and limit is not None:
        raise typer.BadParameter("--all prints every turn and --limit so many: choose one")
    from memory_agent.cli import sessions

    where = Where(user_id=user, thread_id=thread, tenant=tenant, data_dir=data_dir, as_json=as_json)
    run(sessions.history(where, session, after=after, limit=None if everything else limit or _PAGE))


@app.command()
def compress(
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    if_needed: Annotated[
        bool, typer.Option("--if-needed", help="Only if the conversation has grown enough for it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Sum the conversation up to now, and show what stands for it and what that saves.

    The worker does so by itself now and then (compress_every_turns, compression_trigger_share). The history is
    untouched. With a language model this asks it.

    **Examples**

        memory-agent compress --user ada --thread work

        memory-agent compress --if-needed --json | jq .compression.tokens_after
    """
    from memory_agent.cli import compression

    where = Where(user_id=user, thread_id=thread, tenant=tenant, data_dir=data_dir, as_json=as_json)
    run(compression.compress(where, if_needed=if_needed))


@app.command()
def compressed(
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_of: Annotated[
        int | None,
        typer.Option(
            "--as-of", min=1, max=_LARGEST_SEQ, help="As it stood at the turn of this number.", metavar="TURN"
        ),
    ] = None,
    ledger: Annotated[
        bool,
        typer.Option("--ledger", help="Instead: every item that was considered, and why it is in or not."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what stands for the whole conversation, now or as of a turn. Changes nothing.

    **Examples**

        memory-agent compressed --user ada --thread work

        memory-agent compressed --as-of 120

        memory-agent compressed --json | jq .metadata.tokens_saved
    """
    from memory_agent.cli import compression

    where = Where(user_id=user, thread_id=thread, tenant=tenant, data_dir=data_dir, as_json=as_json)
    run(compression.show_compressed(where, as_of=as_of, ledger=ledger))


@app.command()
def compressions(
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List when the thread was compressed, oldest first: why, how many turns, tokens before and after, and by whom.

    **Examples**

        memory-agent compressions --user ada --thread work

        memory-agent compressions --json | jq '.[-1].summary[].text'
    """
    from memory_agent.cli import compression

    where = Where(user_id=user, thread_id=thread, tenant=tenant, data_dir=data_dir, as_json=as_json)
    run(compression.show_compressions(where))


@app.command()
def entities(
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Only of this kind (may be repeated).")
    ] = None,
    scope: Annotated[
        Literal["thread", "user"], typer.Option("--scope", help="This thread, or all threads of the user.")
    ] = "thread",
    as_json: AsJson = False,
) -> None:
    """List what the turns name, in the order of the first mention: kind, name, in how many turns, from when to when.

    Names come from the dictionary in entities_file, from ner_model, and from those who stored the turns.

    **Examples**

        memory-agent entities --user ada --scope user

        memory-agent entities --kind brands --json | jq -r '.[].name'
    """
    from memory_agent.cli import entities as showing

    where = Where(user_id=user, thread_id=thread, tenant=tenant, data_dir=data_dir, as_json=as_json)
    run(showing.show_entities(where, kinds=kind or [], scope=scope))
