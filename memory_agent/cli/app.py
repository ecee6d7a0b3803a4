"""The commands with their options and help texts. Nothing heavy is imported before a command runs."""

# No `from __future__ import annotations` here: typer reads the annotations when the commands are declared.

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from memory_agent.cli.compression import app as compression_app
from memory_agent.cli.embedder_app import app as embedder_app
from memory_agent.cli.entities import app as entities_app
from memory_agent.cli.fact_extraction import facts_group
from memory_agent.cli.groups import Grouped
from memory_agent.cli.key_app import app as key_app
from memory_agent.cli.mcp_app import app as mcp_app
from memory_agent.cli.options import (
    PATIENCE_SECONDS,
    TENANT,
    THREAD,
    USER,
    AsJson,
    DataDir,
    MemoryTyper,
    Patience,
    Tenant,
    Thread,
    User,
    Where,
)
from memory_agent.cli.people_app import app as people_app
from memory_agent.cli.retry_app import app as retry_app
from memory_agent.cli.running import run
from memory_agent.cli.server_app import app as server_app
from memory_agent.cli.sessions import app as sessions_app
from memory_agent.cli.settings_app import app as settings_app
from memory_agent.cli.topics import app as topics_app
from memory_agent.cli.upkeep_app import app as upkeep_app
from memory_agent.domain import Preset

app = MemoryTyper(
    name="memory-agent",
    cls=Grouped,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Memory for LLM agents that you host yourself.

Settings come from MEMORY_AGENT_* variables, then from config/memory.toml, then from the defaults: everything
embedded in ./data, no server, no language model.

**Exit codes**: 0 done · 1 failed, with one line on stderr that says why · 2 wrong usage ·
3 done but not whole (turns are parked, a part is down, bad lines were skipped, or a sweep left something over) ·
4 another sweep is running · 130 interrupted.

**Start with**: memory-agent demo
""",
)

app.add_typer(people_app)
app.add_typer(facts_group)
app.add_typer(topics_app)
app.add_typer(sessions_app)
app.add_typer(embedder_app)
app.add_typer(key_app)
app.add_typer(compression_app)
app.add_typer(entities_app)
app.add_typer(server_app)
app.add_typer(mcp_app)
app.add_typer(retry_app)
app.add_typer(settings_app)
app.add_typer(upkeep_app)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"memory-agent {version('memory-agent')}")
        except PackageNotFoundError:
            typer.echo("memory-agent, from a folder of its modules: no version is known of it")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Options of no command."""


class ScopeName(StrEnum):
    """How far a question reaches."""

    THREAD = "thread"
    USER = "user"

    @property
    def word(self) -> Literal["thread", "user"]:
        return "thread" if self is ScopeName.THREAD else "user"


Reach = Annotated[ScopeName, typer.Option("--scope", help="This thread, or all threads of the user.")]


@app.command(on_memory=False)
def demo(
    keep: Annotated[
        Path | None, typer.Option("--keep", help="Keep the memory in this new or empty folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ten weeks of a conversation, remembered, and found again by another process.

    One process remembers a shipped conversation in a fresh folder and ends. A second one opens the folder and
    answers questions from weeks ago. Nothing leaves this machine and no language model is asked. Fails if one
    of the expected turns isn't found.

    **Examples**

        memory-agent demo

        memory-agent demo --keep ./demo_data && memory-agent ask "Where is my Dutch class?" --data-dir ./demo_data -u mara -t diary
    """
    from memory_agent.cli.demo import demo as show

    show(keep=keep, as_json=as_json)


@app.command()
def ingest(
    file: Annotated[str, typer.Argument(help="A file of turns, or - for standard input.")],
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad lines out (exit code 3).")] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Leave when stored; a worker does the rest later.")
    ] = False,
    patience: Patience = PATIENCE_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Remember a file of turns.

    The file holds one JSON object per line, {"role": "user", "content": "…"}, with "speaker", "timestamp"
    (ISO 8601 with a zone), "metadata", "importance", "thread" and "user" if you like; or a JSON array of such
    messages; or lines of {"messages": [...]} as chat models are trained on. Roles are user, assistant, system
    and tool; a person's name goes into "speaker".

    Bad lines are named by number, and then nothing is stored unless you pass --skip-bad. Running the command
    again over the same content stores nothing twice; an interrupted run is completed. A file that has grown is
    another content: ingest the new lines alone.

    **Examples**

        memory-agent ingest chat.jsonl --user ada --thread work

        jq -c '.[]' export.json | memory-agent ingest - --user ada
    """
    from memory_agent.cli.ingest import IngestOptions
    from memory_agent.cli.ingest import ingest as ingest_file

    if file == "-":
        data = sys.stdin.buffer.read()
    elif Path(file).is_file():
        data = Path(file).read_bytes()
    else:
        raise typer.BadParameter(f"{file} is not a file", param_hint="FILE")
    options = IngestOptions(
        name=file,
        user_id=user,
        thread_id=thread,
        tenant=tenant,
        data_dir=data_dir,
        skip_bad=skip_bad,
        wait=not no_wait,
        patience=patience,
        as_json=as_json,
    )
    run(ingest_file(data, options))


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="What you want to be reminded of.")],
    user: User = USER,
    thread: Thread = THREAD,
    tenant: Tenant = TENANT,
    data_dir: DataDir = None,
    scope: Reach = ScopeName.THREAD,
    top_k: Annotated[
        int | None, typer.Option("--top-k", "-k", min=1, help="Turns at most.", show_default="top_k_memories")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only in topics that carry this tag.")] = None,
    context: Annotated[
        bool, typer.Option("--context", help="Print the prompt text that a model would get instead.")
    ] = False,
    messages: Annotated[bool, typer.Option("--messages", help="The same as chat messages, JSON.")] = False,
    ledger: Annotated[
        bool, typer.Option("--ledger", help="Every item considered for it, and why it is in or not.")
    ] = False,
    preset: Annotated[
        Preset | None,
        typer.Option("--preset", help="How its budget is divided.", show_default="context_preset"),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", min=1, help="Its budget.", show_default="max_context_tokens"),
    ] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Each turn whole, with what it was found by and its id.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the turns that answer a question, best first: how sure that is, when, who, and the passage that answers.

    Words of the question are in bold. --why says what each turn was found by; --json has every signal.

    **Examples**

        memory-agent ask "When is the dog's appointment?" --user ada

        memory-agent ask "What do I like to eat?" --scope user --why

        memory-agent ask "Where were we?" --ledger --preset code --max-tokens 2000
    """
    if messages and ledger:
        raise typer.BadParameter("--messages and --ledger show the context in two ways: choose one")
    if why and (context or messages or ledger):
        raise typer.BadParameter("--why is for the turns found: leave --context, --messages and --ledger out")
    if not (context or messages or ledger) and (preset is not None or max_tokens is not None):
        raise typer.BadParameter("--preset and --max-tokens are for --context, --messages and --ledger")
    if (context or messages or ledger) and tag is not None:
        raise typer.BadParameter(
            "--tag narrows a search, and a context has more than one: leave one of them out"
        )
    from memory_agent.cli import reading

    where = Where(user_id=user, thread_id=thread, tenant=tenant, data_dir=data_dir, as_json=as_json)
    if context or messages or ledger:
        from memory_agent.cli.context import show_context

        view: Literal["text", "ledger", "messages"] = (
            "messages" if messages else "ledger" if ledger else "text"
        )
        run(show_context(where, question, view=view, preset=preset, max_tokens=max_tokens))
    run(reading.ask(where, question, top_k=top_k, scope=scope.word, tag=tag, why=why))


@app.command()
def chat(
    user: User = USER, thread: Thread = THREAD, tenant: Tenant = TENANT, data_dir: DataDir = None
) -> None:
    """Talk; every exchange is remembered.

    With openai_api_key or openai_base_url set a model answers (any endpoint that speaks the OpenAI API, Ollama
    included); without one you see the context that it would be sent. /facts shows what is known, /quit leaves.

    **Examples**

        memory-agent chat --user ada

        MEMORY_AGENT_OPENAI_BASE_URL=http://127.0.0.1:11434/v1 MEMORY_AGENT_FACT_EXTRACTION_MODEL=llama3.2 memory-agent chat
    """
    from memory_agent.cli.chat import chat as talk

    run(talk(user_id=user, thread_id=thread, tenant=tenant, data_dir=data_dir))
