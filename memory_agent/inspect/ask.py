"""The page *Ask*: a question as an agent asks it, the prompt that would be sent, and what was left out and why."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, get_args

from memory_agent.domain import TAG_OF, Preset
from memory_agent.errors import InvalidInput
from memory_agent.inspect.page import address, base_of, language_of
from memory_agent.inspect.signals import chart, signals_of
from memory_agent.inspect.texts import reason_in, seen, translated, when
from memory_agent.inspect.whereabouts import whereabouts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from markupsafe import Markup
    from starlette.responses import Response

    from memory_agent.domain import ContextBlock, LedgerEntry, MemoryContext, Tier
    from memory_agent.inspect.page import Page

_OPTIONS: Final = ("preset", "max_tokens", "now", "reach")
_MOST_TOKENS: Final = 200_000
_SHOWN_CHARS: Final = 100_000
"""Of the prompt; how many more there are is said."""
_SAID: Final = ("turn %(seq)s", "Signals", "Tokens", "Score", "Confidence", "Why")
"""Texts of each row, which other tables of the templates have as well."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TierShare:
    """A tier of a prompt: its tokens, where its part of the bar begins and ends (in thousandths of the budget), its items."""

    tier: Tier
    tokens: int
    start: float
    width: float
    kept: tuple[LedgerEntry, ...]
    left: tuple[LedgerEntry, ...]
    block: ContextBlock | None


async def ask(page: Page) -> Response:
    """A prompt, looked into. Changes nothing."""
    question, wanted = page.asked("q"), page.asked("missing")
    known: dict[str, Any] = {
        "question": question,
        "missing": wanted,
        "presets": [(name, name) for name in get_args(Preset)],
    }
    if not question:
        return await page.show("ask.html", **known, context=None, other=None)
    settings = [_settings(page, "")]
    if any(page.asked(f"{name}2") for name in (*_OPTIONS, "open")):
        settings.append(({} if page.asked("open2") == "set" else settings[0]) | _settings(page, "2"))
    contexts = await asyncio.gather(*(page.agent.fetch_memory(question, **given) for given in settings))
    context, others = contexts[0], contexts[1:]
    return await page.show(
        "ask.html",
        **known,
        context=context,
        settings=settings,
        shown=_SHOWN_CHARS,
        tiers=tiers_of(context),
        rows=rows_of(page, context),
        compared=compared(context, others[0]) if others else None,
        other=others[0] if others else None,
        trace_signals=signals_of,
        traces=await whereabouts(page.agent, wanted, context, question, settings[0]) if wanted else None,
    )


def _settings(page: Page, which: str) -> dict[str, Any]:
    """The options of one of the two prompts, by the names that `fetch_memory` has for them. Raises InvalidInput."""
    preset, reach = page.asked(f"preset{which}"), page.asked(f"reach{which}")
    if reach not in ("", "user", "thread"):
        raise InvalidInput(f"reach is {reach!r:.80}; use 'user' or 'thread'")
    budget = page.number(f"max_tokens{which}")
    if budget is not None and budget > _MOST_TOKENS:
        raise InvalidInput(
            f"max_tokens{which} is {budget:,}; a page shows prompts of at most {_MOST_TOKENS:,} tokens"
        )
    given = {
        "preset": preset or None,
        "max_tokens": budget,
        "now": page.time(f"now{which}"),
        "scope": reach or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def tiers_of(context: MemoryContext) -> list[TierShare]:
    """The tiers of a prompt in the order in which they are read, those of which all was left out last."""
    blocks = {block.tier: block for block in context.blocks}
    order: list[Tier] = [*blocks, "envelope", *TAG_OF]
    start, found = 0.0, list[TierShare]()
    for tier in dict.fromkeys(order):
        entries = [entry for entry in context.ledger if entry.tier == tier]
        if not entries:
            continue
        kept = tuple(entry for entry in entries if entry.kept)
        tokens = sum(entry.tokens for entry in kept)
        width = 1000 * max(tokens, 0) / max(context.budget, 1)
        found.append(
            TierShare(
                tier=tier,
                tokens=tokens,
                start=start,
                width=width,
                kept=kept,
                left=tuple(entry for entry in entries if not entry.kept),
                block=blocks.get(tier),
            )
        )
        start += width
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Two prompts for one question: the tokens of each tier, and the items that only one of them has."""

    tokens: list[tuple[Tier, int, int]]
    only_first: list[LedgerEntry]
    only_second: list[LedgerEntry]


def compared(first: MemoryContext, second: MemoryContext) -> Comparison:
    """The differences between two prompts."""

    def sums(context: MemoryContext) -> dict[Tier, int]:
        found: dict[Tier, int] = {}
        for entry in context.ledger:
            if entry.kept:
                found[entry.tier] = found.get(entry.tier, 0) + entry.tokens
        return found

    def only(context: MemoryContext, other: MemoryContext) -> list[LedgerEntry]:
        # The same turn is the same thing to a reader, whichever tier shows it.
        shown = {entry.item for entry in other.ledger if entry.kept}
        return [
            entry
            for entry in context.ledger
            if entry.kept and entry.item not in shown and entry.tier != "envelope"
        ]

    ours, theirs = sums(first), sums(second)
    tiers = [tier for tier in (*TAG_OF, "envelope") if tier in ours or tier in theirs]
    return Comparison(
        tokens=[(tier, ours.get(tier, 0), theirs.get(tier, 0)) for tier in tiers],
        only_first=only(first, second),
        only_second=only(second, first),
    )


def rows_of(page: Page, context: MemoryContext) -> Callable[[Iterable[LedgerEntry]], Markup]:
    """The function that makes rows of a table of items as HTML: of some three hundred, a template would take most of the page's time."""
    from markupsafe import Markup, escape

    language = language_of(page.request)
    recalled = {found.turn.id: found for found in context.long_term}
    turns = {turn.id: turn for turn in (*context.short_term, *context.preserved)}
    turns |= {name: found.turn for name, found in recalled.items()}
    say = {text: escape(translated(language, text)) for text in _SAID}

    @cache
    def thread(thread_id: str) -> str:
        of = ("of", page.principal.tenant, "users", page.path("user"), thread_id, "turns")
        return escape(base_of(page.request) + address(*of))

    @cache
    def why(reason: str) -> str:
        return seen(reason_in(language, reason))

    def row(entry: LedgerEntry) -> str:
        what, signals = "", ""
        if (turn := turns.get(entry.item)) is not None:
            link = f"{thread(turn.thread_id)}/{turn.seq}"
            what = (
                f'<a href="{link}">{say["turn %(seq)s"] % {"seq": turn.seq}}</a> {when(turn.timestamp)}<br>'
            )
        elif entry.tier == "facts":
            what = f"<code>{seen(entry.item)}</code><br>"
        if entry.kept and entry.tier == "long_term" and (found := recalled.get(entry.item)) is not None:
            shown = chart(language, signals_of(found.why), found.explanation)
            signals = f"<details><summary>{say['Signals']}</summary>{shown}</details>"
        scored = entry.score is not None
        score = f"{entry.score:.2f}" if scored else ""
        confidence = "" if entry.confidence is None else f"{100 * entry.confidence:.0f} %"
        return (
            f'<tr><td class="text">\n{what}<span dir="auto">{seen(entry.text)}</span>\n{signals}</td>\n'
            f'<td class="n" data-label="{say["Tokens"]}">{entry.tokens:,}</td>\n'
            f'<td class="n" data-label="{say["Score"]}">{score}</td>\n'
            f'<td class="n" data-label="{say["Confidence"]}">{confidence}</td>\n'
            f'<td data-label="{say["Why"]}">{why(entry.reason)}</td>\n</tr>'
        )

    return lambda entries: Markup("".join(map(row, entries)))  # noqa: S704 - whatever is not ours is escaped
