"""`memory-agent ask`: the turns that answer, two lines each, with the passage that does and its words in bold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import regex
import typer
from rich.cells import cell_len
from rich.text import Text

from memory_agent.cli.context import show_context
from memory_agent.cli.opening import agent_of
from memory_agent.cli.options import MemoryTyper, Reach, Where
from memory_agent.cli.output import clean, note, out, print_json, recollection_as_json
from memory_agent.cli.running import settings
from memory_agent.domain import Preset  # noqa: TC001 - read when the command is declared
from memory_agent.text.terms import CJK, count_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from memory_agent.cli.context import View
    from memory_agent.domain import Recollection

_INDENT: Final = 4
_PIPED_CHARS: Final = 240
"""Of a passage where nobody looks, who would see a line's end."""
_SENTENCE: Final = re.compile(r"\S.*?(?:[.!?…]+[\"'”’)*]*(?=\s)|[。！？]+|$)")
_WORD: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_WITHOUT_SPACES: Final = regex.compile(rf"[{CJK}]")


app = MemoryTyper()


@app.command()
async def ask(
    where: Where,
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
    if context or messages or ledger:
        view: View = "messages" if messages else "ledger" if ledger else "text"
        await show_context(where, question, view=view, preset=preset, max_tokens=max_tokens)
        return
    language = settings(where.data_dir).search_language
    async with agent_of(where, reach=scope) as agent:
        found = await agent.fetch_long_term(question, top_k, scope=scope, tag=tag)
    if where.as_json:
        print_json([recollection_as_json(recollection) for recollection in found])
    elif found:
        print_answers(question, found, language=language, threads=scope == "user", why=why)
    else:
        thread = f"thread {where.thread_id!r} of " if scope == "thread" else ""
        wider = "; --scope user searches all threads" if scope == "thread" else ""
        tagged = "" if tag is None else f" in topics tagged {tag!r}"
        note(f"Nothing found for {thread}user {where.user_id!r}{tagged}{wider}.")


class Passage(NamedTuple):
    """One line out of a turn. `answer`: the bounds of the sentence that shares most with the question."""

    text: str
    answer: tuple[int, int]


def print_answers(
    question: str, found: Sequence[Recollection], *, language: str, threads: bool, why: bool
) -> None:
    """Best first, two lines each: confidence, when and who (and with `threads` where); the passage that answers.

    With `why` the whole turn, what it was found by, and its id.
    """
    asked = frozenset(count_terms(question, language))
    width = max(out.width - _INDENT, 40) if out.is_terminal else _PIPED_CHARS
    for place, recollection in enumerate(found, start=1):
        turn = recollection.turn
        head = Text().append(f"{place:>2}. ", style="bold")
        head.append(f"{recollection.confidence:.2f}", style="bold cyan")
        head.append(f"  {turn.timestamp:%Y-%m-%d %H:%M}  ", style="dim").append(
            clean(turn.speaker or turn.role)
        )
        if threads:
            head.append(f"  in {clean(turn.thread_id)}", style="dim")
        out.print(head, soft_wrap=True)
        said = clean(turn.content)
        if why:
            _print_indented(marked(Passage(said, (0, len(said))), asked, language))
            _print_indented(Text(f"{clean(recollection.explanation)}  [turn {turn.id}]", style="dim"))
        else:
            _print_indented(marked(passage_of(said, asked, language, cells=width), asked, language))


def _print_indented(text: Text) -> None:
    for line in text.split():
        out.print(Text(" " * _INDENT).append_text(line), soft_wrap=True)


def passage_of(text: str, asked: Collection[str], language: str, *, cells: int) -> Passage:
    """The part of `text` around the sentence with most of the terms `asked` for, in one line of so many cells.

    Cut between words, with an ellipsis where something is left out. A question is no answer if there is another one.
    """
    line = " ".join(text.split())
    wide = cell_len(line)
    room = cells if wide <= cells else max(cells * len(line) // wide, 3)
    best = max(
        (match.span() for match in _SENTENCE.finditer(line)),
        key=lambda span: _shared(line[slice(*span)], asked, language),
        default=(0, len(line)),
    )
    if wide <= cells:
        return Passage(line, best)
    room -= 2  # for the ellipses
    start, end = best
    if end - start > room:  # around the first word that was asked for
        at = next((start + word[0] for word in _shared_words(line[start:end], asked, language)), start)
        start = max(start, min(at - room // 4, end - room))
        end = start + room
    else:
        end = min(len(line), start + room)
        start = max(0, end - room)
    start, end = _between_words(line, start, end)
    shown = f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
    moved = bool(start) - start
    return Passage(shown, (max(best[0] + moved, 0), min(best[1] + moved, len(shown))))


def _between_words(line: str, start: int, end: int) -> tuple[int, int]:
    """The bounds moved inwards to where words begin and end, but for words that would take half of what is between."""
    if end < len(line) and line[end] != " ":
        space = line.rfind(" ", (start + end) // 2, end)
        end = end if space < 0 else space
    if start and line[start - 1] != " ":
        space = line.find(" ", start, (start + end) // 2)
        start = start if space < 0 else space + 1
    return start, end


def _shared(sentence: str, asked: Collection[str], language: str) -> float:
    shared = len(set(count_terms(sentence, language)).intersection(asked))
    return shared - 0.5 * sentence.rstrip("\"'”’)*").endswith(("?", "？"))


def marked(passage: Passage, asked: Collection[str], language: str) -> Text:
    """The passage with the words that the question has as well in bold, and dim what stands around the answer."""
    text = Text(passage.text)
    start, end = passage.answer
    text.stylize("dim", 0, start)
    text.stylize("dim", end)
    for begin, stop in _shared_words(passage.text, asked, language):
        # Not of what stands around it: bold and dim are one weight on many terminals.
        if start <= begin < end:
            text.stylize("bold", begin, stop)
    return text


def _shared_words(text: str, asked: Collection[str], language: str) -> Iterator[tuple[int, int]]:
    for match in _WORD.finditer(text):
        if _WITHOUT_SPACES.search(match.group()):
            # Terms of such scripts are pairs of characters.
            for at in range(match.start(), match.end() - 1):
                if not count_terms(text[at : at + 2], language).keys().isdisjoint(asked):
                    yield at, at + 2
        elif not count_terms(match.group(), language).keys().isdisjoint(asked):
            yield match.span()
