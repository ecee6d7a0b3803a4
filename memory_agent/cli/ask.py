"""`memory-agent ask`: the turns that answer a question, or the context that a model would get, and why."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import regex
import typer
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from memory_agent.cli.opening import agent_of
from memory_agent.cli.options import SCOPE, MemoryTyper, ThreadOptions, argument, flag, option, settings
from memory_agent.cli.output import (
    clean,
    line,
    many,
    note,
    out,
    picked,
    print_json,
    print_whole,
    recollection_as_json,
    say,
)
from memory_agent.context.passages import LEFT_OUT, best_passage
from memory_agent.domain import Preset, Reach, RecallPrice  # noqa: TC001 - read when the command is declared
from memory_agent.text.terms import CJK, count_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from memory_agent.domain import CompressedContext, LedgerEntry, MemoryContext, Recollection


_INDENT: Final = 4
_HARDLY_MEANT: Final = 0.02
"""The confidence below which hardly one turn in fifty answers."""
_PIPED_CHARS: Final = 240
"""Of a passage where nobody looks, who would see a line's end."""
_WORD: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_WITHOUT_SPACES: Final = regex.compile(rf"[{CJK}]")


def print_answers(
    question: str, found: Sequence[Recollection], *, language: str, here: str, why: bool
) -> None:
    """Best first, two lines each: confidence, when, who, and the thread if it isn't `here`; the passage that answers.

    With `why` the whole turn, what it was found by, and its id.
    """
    asked = frozenset(count_terms(question, language))
    width = max(out.width - _INDENT, 40) if out.is_terminal else _PIPED_CHARS
    for place, recollection in enumerate(found, start=1):
        turn = recollection.turn
        say(
            (f"{place:>2}. ", "bold"),
            (f"{recollection.confidence:.2f}", "bold cyan"),
            (f"  {turn.timestamp:%Y-%m-%d %H:%M}  ", "dim"),
            turn.speaker or turn.role,
            ("" if turn.thread_id == here else f"  in {turn.thread_id}", "dim"),
            ("  replaced" if recollection.replaced_by else "", "dim"),
        )
        said = clean(recollection.text)
        if why:
            _print_indented(marked(said, asked, language))
            _print_indented(line((f"{recollection.explanation}  [turn {turn.id}]", "dim")))
        else:
            _print_indented(marked(passage_of(said, asked, language, cells=width), asked, language))


def _print_indented(text: Text) -> None:
    for one in text.split():
        out.print(Text(" " * _INDENT).append_text(one), soft_wrap=True)


def passage_of(text: str, asked: Collection[str], language: str, *, cells: int) -> str:
    """Neighbouring sentences of `text` with most of the terms `asked` for, as a prompt would have them, in one line of so many cells.

    If not even one fits, what stands around the first of those terms, where most of them come together.
    """

    def fits(passage: str) -> bool:
        return cell_len(" ".join(passage.split())) <= cells

    if found := best_passage(text, asked, language, fits):
        return " ".join(found.split())
    whole = " ".join(text.split())
    words = [start for start, _ in _shared_words(whole, asked, language)]
    densest = max(range(len(words)), key=lambda n: bisect_left(words, words[n] + cells // 2) - n, default=-1)
    at = words[densest] if words else 0
    start = max(at - cells // 4, 0)
    start = max(start, whole.find(" ", start, at) + 1)  # between words, where there are blanks
    cut = Text(f"{LEFT_OUT} {whole[start:]}" if start else whole)
    cut.truncate(cells, overflow="ellipsis")
    return cut.plain


def marked(passage: str, asked: Collection[str], language: str) -> Text:
    """The passage with the words that the question has as well in bold."""
    text = Text(passage)
    for start, end in _shared_words(passage, asked, language):
        text.stylize("bold", start, end)
    return text


def _shared_words(text: str, asked: Collection[str], language: str) -> Iterator[tuple[int, int]]:
    for match in _WORD.finditer(text):
        spans = [match.span()]
        if _WITHOUT_SPACES.search(match.group()):  # terms of such scripts are pairs of characters
            spans = [(at, at + 2) for at in range(match.start(), match.end() - 1)]
        yield from (s for s in spans if not count_terms(text[slice(*s)], language).keys().isdisjoint(asked))


app = MemoryTyper()

_LEAST_WIDTH: Final = 20
"""Of what stands last, however narrow the terminal is."""
_LEFT_OUT_SHOWN: Final = 5
_ENTRY: Final = "tier item tokens score confidence kept reason text"
_GAP: Final = 2
"""Blanks between two columns."""


@app.command()
async def ask(
    where: ThreadOptions,
    question: str = argument("What you want to be reminded of."),
    scope: Reach = SCOPE,
    top_k: int | None = option(
        "--top-k -k", "Turns, or recollections, at most.", min=1, shown="top_k_memories"
    ),
    tag: str | None = option("--tag", "Only from topics that carry this tag."),
    session: str | None = option("--session", "Only in this session, as `session list` names it."),
    context: bool = flag("--context", "Print the prompt text that a model would get instead."),
    ledger: bool = flag("--ledger", "Every item considered for it, and why it is in or not."),
    preset: Preset | None = option("--preset", "How its budget is divided.", shown="context_preset"),
    price: RecallPrice | None = option(
        "--price", "How needed what it recalls must be.", shown="recall_price"
    ),
    max_tokens: int | None = option("--max-tokens", "Its budget.", min=1, shown="max_context_tokens"),
    no_window: bool = flag("--no-window", "Without the last turns of the conversation in it."),
    why: bool = flag("--why", "Each turn whole, with what it was found by and its id."),
    every: bool = flag("--all", "Also what is hardly meant."),
) -> None:
    """Find the turns that answer a question, best first: how sure that is, when, who, and the passage that answers.

    Words of the question are in bold. --why says what each turn was found by; --json has every signal.

    Examples:
        memory-agent ask "When is the dog's appointment?" --user ada
        memory-agent ask "What do I like to eat?" --scope thread --why
        memory-agent ask "Where were we?" --ledger --preset code --max-tokens 2000
    """
    in_context = context or ledger
    if why and in_context:
        raise typer.BadParameter("--why is for the turns found: leave --context and --ledger out")
    if not in_context and (preset or price or max_tokens or no_window):
        raise typer.BadParameter(
            "--preset, --price, --max-tokens and --no-window are for --context and --ledger"
        )
    if in_context and session:
        raise typer.BadParameter("--session narrows a search, and a context has more than one: leave it out")
    if not in_context:
        await _find(where, question, scope, top_k, {"tag": tag, "session_id": session}, why=why, every=every)
        return
    async with agent_of(where, reach=scope) as agent:
        found = await agent.fetch_memory(
            question,
            max_tokens=max_tokens,
            preset=preset,
            price=price,
            window=not no_window,
            top_k=top_k,
            scope=scope,
            tags=[] if tag is None else [tag],
            include=["ledger"] if ledger or where.as_json else [],
        )
    _show_context(where, found, ledger=ledger)


async def _find(
    where: ThreadOptions,
    question: str,
    scope: Reach,
    top_k: int | None,
    within: dict[str, Any],
    *,
    why: bool,
    every: bool,
) -> None:
    """Print the turns that answer the question, the surest first, and how many are still to be indexed."""
    language = settings(where.data_dir).search_language
    async with agent_of(where, reach=scope) as agent:
        found = await agent.fetch_long_term(question, top_k, scope=scope, **within)
        waiting = 0 if where.as_json else (await agent.status()).pending.get("index", 0)
    if where.as_json:
        print_json([recollection_as_json(recollection) for recollection in found])
        return
    sure = sorted(found, key=lambda one: -one.confidence)
    shown = sure if every else [one for one in sure if one.confidence >= _HARDLY_MEANT]
    if shown:
        print_answers(question, shown, language=language, here=where.thread, why=why)
    if left_out := len(found) - len(shown):
        note(f"{many(left_out, 'turn')} below {_HARDLY_MEANT}, which are hardly meant: --all shows them.")
    if waiting:
        note(
            f"{many(waiting, 'turn')} of this thread are still to be indexed, and found by their words alone."
        )
    if not found:
        thread = f"thread {where.thread!r} of " if scope == "thread" else ""
        wider = "; --scope user searches all threads" if scope == "thread" else ""
        tagged = "" if within["tag"] is None else f" in topics tagged {within['tag']!r}"
        tagged += "" if within["session_id"] is None else f" in session {within['session_id']}"
        note(f"Nothing found for {thread}user {where.user!r}{tagged}{wider}.")


# --- contexts ------------------------------------------------------------------------------------------------
def _show_context(where: ThreadOptions, context: MemoryContext, *, ledger: bool) -> None:
    """Print a context's text or ledger; as JSON both."""
    if ledger:
        show_ledger(context.ledger, as_json=where.as_json)
    elif where.as_json:
        print_json({**context_as_json(context), **picked(context, "preset degraded")})
        return
    else:
        say(str(context))
    note(f"{context.tokens:,} of {context.budget:,} tokens, preset {context.preset}")
    if context.degraded:
        note(f"missing: {', '.join(context.degraded)}")


def show_ledger(ledger: Iterable[LedgerEntry], *, as_json: bool) -> None:
    """Every item that was considered, those kept first: what it says, what it takes, and why it is in or not."""
    entries = sorted(ledger, key=lambda entry: not entry.kept)
    if as_json:
        print_json([picked(entry, _ENTRY) for entry in entries])
        return
    if not entries:
        note("The ledger is empty: there was nothing to consider.")
        return
    entries, hidden = shortened(entries) if out.is_terminal else (entries, {})
    print_whole(_table(entries))
    for (tier, reason), count in hidden.items():
        note(f"… {count:,} more of {tier}: {reason}")
    if hidden:
        note("All of them: --ledger --json, or into a file.")


def _table(entries: list[LedgerEntry]) -> Table:
    numbers = [
        (
            entry.tier,
            "yes" if entry.kept else "no",
            f"{entry.tokens:,}",
            "" if entry.score is None else f"{entry.score:.2f}",
            "" if entry.confidence is None else f"{entry.confidence:.2f}",
        )
        for entry in entries
    ]
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
    taken = 0
    for name, cells in zip(
        ("tier", "in", "tokens", "score", "sure"), zip(*numbers, strict=True), strict=True
    ):
        table.add_column(name, justify="left" if name in ("tier", "in") else "right", no_wrap=True)
        taken += max(map(len, (name, *cells))) + _GAP
    # Where nobody looks a line is an item; a terminal is too narrow for that.
    room = max(out.width - taken, _LEAST_WIDTH) if out.is_terminal else None
    for name in ("reason", "what it says") if room is None else ("reason, and what it says",):
        table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=room)
    for entry, row in zip(entries, numbers, strict=True):
        said = [entry.reason, " ".join((entry.text or entry.item).split())]
        shown = map(line, said if room is None else ["\n".join(said)])
        table.add_row(*row, *shown, style=None if entry.kept else "dim")
    return table


def shortened(
    entries: Iterable[LedgerEntry], most: int = _LEFT_OUT_SHOWN
) -> tuple[list[LedgerEntry], dict[tuple[str, str], int]]:
    """The entries without those left out beyond `most` of one tier for one reason; how many these are, by both.

    A long memory leaves hundreds out, and the kept ones would have scrolled away.
    """
    left_out: Counter[tuple[str, str]] = Counter()
    shown = []
    for entry in entries:
        if not entry.kept:
            left_out[entry.tier, entry.reason] += 1
        if entry.kept or left_out[entry.tier, entry.reason] <= most:
            shown.append(entry)
    return shown, {of: count - most for of, count in left_out.items() if count > most}


def context_as_json(context: MemoryContext | CompressedContext) -> dict[str, Any]:
    """The fields of every context as JSON, with stable keys."""
    ledger = [picked(entry, _ENTRY) for entry in context.ledger]
    return {"text": str(context), **picked(context, "tokens budget"), "ledger": ledger}
