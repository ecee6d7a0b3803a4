"""`memory-agent ask`: the turns that answer a question, or the context that a model would get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memory_agent.cli.context import show_context
from memory_agent.cli.opening import agent_of
from memory_agent.cli.options import MemoryTyper, Reach, ThreadOptions
from memory_agent.cli.output import note, print_json, recollection_as_json
from memory_agent.cli.running import settings
from memory_agent.domain import Preset  # noqa: TC001 - read when the command is declared

if TYPE_CHECKING:
    from memory_agent.cli.context import View

app = MemoryTyper()


@app.command()
async def ask(
    where: ThreadOptions,
    question: Annotated[str, typer.Argument(help="What you want to be reminded of.")],
    scope: Reach = "thread",
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
        int | None, typer.Option("--max-tokens", min=1, help="Its budget.", show_default="max_context_tokens")
    ] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Each turn whole, with what it was found by and its id.")
    ] = False,
) -> None:
    """Find the turns that answer a question, best first: how sure that is, when, who, and the passage that answers.

    Words of the question are in bold. --why says what each turn was found by; --json has every signal.

    **Examples**

        memory-agent ask "When is the dog's appointment?" --user ada

        memory-agent ask "What do I like to eat?" --scope user --why

        memory-agent ask "Where were we?" --ledger --preset code --max-tokens 2000
    """
    in_context = context or messages or ledger
    if messages and ledger:
        raise typer.BadParameter("--messages and --ledger show the context in two ways: choose one")
    if why and in_context:
        raise typer.BadParameter("--why is for the turns found: leave --context, --messages and --ledger out")
    if not in_context and (preset is not None or max_tokens is not None):
        raise typer.BadParameter("--preset and --max-tokens are for --context, --messages and --ledger")
    if in_context and tag is not None:
        raise typer.BadParameter(
            "--tag narrows a search, and a context has more than one: leave one of them out"
        )
    if in_context:
        view: View = "messages" if messages else "ledger" if ledger else "text"
        await show_context(where, question, view=view, preset=preset, max_tokens=max_tokens)
        return
    await _find(where, question, scope, top_k, tag, why=why)


async def _find(
    where: ThreadOptions, question: str, scope: Reach, top_k: int | None, tag: str | None, *, why: bool
) -> None:
    """Print the turns that answer the question."""
    language = settings(where.data_dir).search_language
    async with agent_of(where, reach=scope) as agent:
        found = await agent.fetch_long_term(question, top_k, scope=scope, tag=tag)
    if where.as_json:
        print_json([recollection_as_json(recollection) for recollection in found])
    elif found:
        from memory_agent.cli.answers import print_answers  # terms are told apart by rules that take a moment

        print_answers(question, found, language=language, threads=scope == "user", why=why)
    else:
        thread = f"thread {where.thread_id!r} of " if scope == "thread" else ""
        wider = "; --scope user searches all threads" if scope == "thread" else ""
        tagged = "" if tag is None else f" in topics tagged {tag!r}"
        note(f"Nothing found for {thread}user {where.user_id!r}{tagged}{wider}.")
