"""The commands `memory-agent session …`, with their options and help texts."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any, NoReturn

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
from memory_agent.domain import Character

app = MemoryTyper(
    name="session",
    no_args_is_help=True,
    help="""Begin a sitting of a thread, and look at those it had.

None has to be begun by hand: a session opens with the first turn, and with the first after one closed
(max_session_hours, max_turns_per_session, session_idle_seconds), with the same people and the same character.

**Start with**: memory-agent session list
""",
)

_CHARACTER_KEYS = ("name", "personality", "profile", "traits")


@app.command()
def start(
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    character_file: Annotated[
        Path | None,
        typer.Option(
            "--character-file",
            help="The assistant's role: a .json or .toml file with name, personality, profile and traits.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Or its name here …")] = None,
    personality: Annotated[str | None, typer.Option("--personality", help="… how it is …")] = None,
    profile: Annotated[str | None, typer.Option("--profile", help="… who it is …")] = None,
    trait: Annotated[
        list[str] | None, typer.Option("--trait", help="… and a trait of it (may be repeated).")
    ] = None,
    participant: Annotated[
        list[str] | None, typer.Option("--participant", help="Who takes part (may be repeated).")
    ] = None,
    metadata: Annotated[
        str | None, typer.Option("--metadata", help="Whatever else is to be kept, as a JSON object.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Begin a new session now; the turns that follow belong to it.

    The session before is closed. What is said of the character comes first in every context.

    **Examples**

        memory-agent session start --user ada --thread salon --name Yuna --trait warm --trait curious

        memory-agent session start --character-file yuna.toml --participant Ada --metadata '{"channel": "web"}'
    """
    typed = (name, personality, profile, trait)
    if character_file is not None and any(value is not None for value in typed):
        raise typer.BadParameter("--character-file says all of the character: leave the other options out")
    if name is None and any(value is not None for value in typed):
        raise typer.BadParameter("a character needs a name: give --name as well")
    character = None
    if character_file is not None:
        character = read_character(character_file)
    elif name is not None:
        character = Character(
            name=name, personality=personality or "", profile=profile or "", traits=tuple(trait or ())
        )
    kept = None if metadata is None else _object(metadata)
    from memory_agent.cli import sessions

    where = Where(user_id=user, thread_id=thread, tenant=tenant, data_dir=data_dir, as_json=as_json)
    run(sessions.start(where, character=character, participants=participant or [], metadata=kept))


@app.command("list")
def list_(
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the thread's sessions, oldest first.

    Below each number stands the id that `session show` and `history --session` take.

    **Examples**

        memory-agent session list --user ada --thread salon

        memory-agent session list --json | jq -r '.[] | select(.current) | .id'
    """
    from memory_agent.cli import sessions

    run(
        sessions.show_all(
            Where(user_id=user, thread_id=thread, tenant=tenant, data_dir=data_dir, as_json=as_json)
        )
    )


@app.command()
def show(
    session_id: Annotated[
        str | None, typer.Argument(help="Id of a session.", show_default="the current one")
    ] = None,
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show a session: since when, how many turns, who took part, and the character.

    The current one is that which a turn said now would belong to.

    **Examples**

        memory-agent session show --user ada --thread salon

        memory-agent session show 01890a5d-ac96-774b-bcce-b302099a8057 --json
    """
    from memory_agent.cli import sessions

    where = Where(user_id=user, thread_id=thread, tenant=tenant, data_dir=data_dir, as_json=as_json)
    run(sessions.show(where, session_id))


# --- what is typed or read -----------------------------------------------------------------------------------
def read_character(file: Path) -> Character:
    """The character of a .json or .toml file; its texts are checked when it is stored. Raises BadParameter."""

    def refused(why: str) -> NoReturn:
        raise typer.BadParameter(f"{file} {why}", param_hint="--character-file")

    kind = file.suffix.lower()
    if kind not in (".json", ".toml"):
        refused("is neither a .json nor a .toml file")
    values: Any = None
    try:
        text = file.read_text("utf-8-sig")
        values = json.loads(text) if kind == ".json" else tomllib.loads(text)
    except OSError as exc:
        refused(f"cannot be read: {exc.strerror}")
    except (ValueError, RecursionError) as exc:
        refused(f"is not {kind[1:].upper()}: {exc}")
    if not isinstance(values, dict):
        refused(f"holds a {type(values).__name__}; it must hold an object of {', '.join(_CHARACTER_KEYS)}")
    for key in values:
        if key not in _CHARACTER_KEYS:
            refused(f"has the key {key!r:.80}; known are {', '.join(_CHARACTER_KEYS)}")
    if "name" not in values:
        refused("has no name, which a character needs")
    return Character(**values)


def _object(text: str) -> dict[str, Any]:
    """A JSON object, as --metadata takes it. Raises BadParameter."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{text:.80} is no JSON object", param_hint="--metadata")
    return value
