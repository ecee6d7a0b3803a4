"""The page *Ask*: a question as an agent asks it, the prompt that would be sent, and what was left out and why."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from memory_agent.domain import TAG_OF, Preset, RecallPrice
from memory_agent.errors import InvalidInput
from memory_agent.inspect.page import address, base_of, language_of
from memory_agent.inspect.plots import chart, signals_of
from memory_agent.inspect.texts import reason_in, seen, translated, when
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Set

    from markupsafe import Markup
    from starlette.responses import Response

    from memory_agent.agent.agent import MemoryAgent
    from memory_agent.domain import (
        ContextBlock,
        FactRecord,
        LedgerEntry,
        MemoryContext,
        Recollection,
        Tier,
        Turn,
    )
    from memory_agent.inspect.page import Page

_OPTIONS: Final = ("preset", "price", "max_tokens", "top_k", "window", "now", "reach")
_WINDOW: Final = {"": None, "yes": True, "no": False}
_MOST_TOKENS: Final = 200_000
_SHOWN_CHARS: Final = 100_000
"""Of the prompt; how many more there are is said."""
_BEST: Final = 5
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
        "prices": [(name, name) for name in get_args(RecallPrice)],
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
        best=[entry for entry in _surest_first(context.ledger) if entry.confidence is not None][:_BEST],
        rows=rows_of(page, context),
        compared=compared(context, others[0]) if others else None,
        other=others[0] if others else None,
        trace_signals=signals_of,
        traces=await whereabouts(page.agent, wanted, context, question, settings[0]) if wanted else None,
    )


def _settings(page: Page, which: str) -> dict[str, Any]:
    """The options of one of the two prompts, by the names that `fetch_memory` has for them.

    Raises InvalidInput.
    """
    reach, window = page.asked(f"reach{which}"), page.asked(f"window{which}")
    if reach not in ("", "user", "thread"):
        raise InvalidInput(f"reach is {reach!r:.80}; use 'user' or 'thread'")
    if window not in _WINDOW:
        raise InvalidInput(f"window{which} is {window!r:.80}; use 'yes' or 'no'")
    budget = page.number(f"max_tokens{which}")
    if budget is not None and budget > _MOST_TOKENS:
        raise InvalidInput(
            f"max_tokens{which} is {budget:,}; a page shows prompts of at most {_MOST_TOKENS:,} tokens"
        )
    given = {
        "preset": page.asked(f"preset{which}") or None,
        "price": page.asked(f"price{which}") or None,
        "max_tokens": budget,
        "top_k": page.number(f"top_k{which}"),
        "window": _WINDOW[window],
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
        entries = _surest_first(entries)
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


def _surest_first(entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """By confidence; what has none keeps its order."""
    return sorted(entries, key=lambda entry: entry.confidence or 0.0, reverse=True)


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


# --- what is remembered of something, and what became of it in that prompt -----------------------------------
Verdict = Literal[
    "kept",
    "left_out",
    "other_thread",
    "later",
    "not_indexed",
    "ranked_behind",
    "not_found",
    "refused",
    "replaced",
    "withdrawn",
    "not_considered",
]
_TURNS: Final = 5
_FACTS: Final = 5
_ALIKE: Final = 0.4
"""The cosine from which on a turn without any of the words counts as saying it."""
_RANKED: Final = 1_000
"""So far down a search is looked through for a turn that the prompt did not consider."""
_LANGUAGE: Final = "english"
"""Of the stems by which facts are found; words of other languages are compared as they stand."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """One thing remembered, and what became of it.

    `entries`: what the ledger says; `rank`: its place in the search.
    """

    verdict: Verdict
    turn: Turn | None = None
    fact: FactRecord | None = None
    entries: tuple[LedgerEntry, ...] = ()
    rank: int | None = None
    why: Mapping[str, float] | None = None


async def whereabouts(
    agent: MemoryAgent, wanted: str, context: MemoryContext, question: str, given: Mapping[str, Any]
) -> list[Trace]:
    """Everything remembered of `wanted` in all the user's threads, each piece with what became of it in `context`.

    `given`: the options with which that was fetched. Facts come first. Empty where nothing is remembered.
    """
    facts = [_of_fact(record, context) for record in await _facts(agent, wanted)]
    turns = await _turns(agent, wanted)
    traces = {turn.id: _as_considered(agent, turn, context, given) for turn in turns}
    ranks: dict[str, tuple[int, Recollection]] = {}
    if None in traces.values():
        # The prompt's own search stops where it has enough; the same one goes on here, once for all of them.
        now = given.get("now")
        ranked = await agent.fetch_long_term(question, _RANKED, until=now, now=now, scope=given.get("scope"))
        ranks = {found.turn.id: (rank, found) for rank, found in enumerate(ranked, 1)}
    return facts + [traces[turn.id] or _as_ranked(turn, ranks) for turn in turns]


def _as_considered(
    agent: MemoryAgent, turn: Turn, context: MemoryContext, given: Mapping[str, Any]
) -> Trace | None:
    """What the ledger says of the turn, or why it could not be considered; None if the search has to say."""
    entries = tuple(entry for entry in context.ledger if entry.item == turn.id)
    kept = tuple(entry for entry in entries if entry.kept)
    if entries:
        return Trace(verdict="kept" if kept else "left_out", turn=turn, entries=kept or entries)
    now, reach = given.get("now"), given.get("scope")
    if now is not None and turn.timestamp >= now:
        return Trace(verdict="later", turn=turn)
    if reach == "thread" and turn.thread_id != agent.scope.thread_id:
        return Trace(verdict="other_thread", turn=turn)
    return None


def _as_ranked(turn: Turn, ranks: Mapping[str, tuple[int, Recollection]]) -> Trace:
    if turn.id in ranks:
        rank, found = ranks[turn.id]
        return Trace(verdict="ranked_behind", turn=turn, rank=rank, why=found.why)
    return Trace(verdict="not_indexed" if "index" in turn.pending else "not_found", turn=turn)


async def _turns(agent: MemoryAgent, wanted: str) -> list[Turn]:
    """The best turns that have half of the words of `wanted`; if there is none, what means most alike, if it does."""
    asked = count_terms(wanted, _LANGUAGE).keys()
    found = await agent.fetch_long_term(wanted, 4 * _TURNS, scope="user")
    words = await _words([one.text for one in found])
    named = [one.turn for one, its in zip(found, words, strict=True) if 2 * len(asked & its) >= len(asked)]
    alike = [one.turn for one in found[:1] if (one.similarity or 0.0) >= _ALIKE]
    return named[:_TURNS] or alike


async def _facts(agent: MemoryAgent, wanted: str) -> list[FactRecord]:
    """The records that share most words with `wanted`, the newest first among equals."""
    asked = count_terms(wanted, _LANGUAGE).keys()
    records = await agent.fact_history(scope="user")
    words = await _words(
        [
            f"{' '.join(record.path).replace('_', ' ')} {record.value} {record.sources[0].quote or ''}"
            for record in records
        ]
    )
    scored = [
        (len(asked & its), record)
        for record, its in zip(records, words, strict=True)
        if 2 * len(asked & its) > len(asked)  # more than half of what was asked for
    ]
    scored.sort(key=lambda one: (one[0], one[1].recorded_at), reverse=True)
    return [record for _, record in scored[:_FACTS]]


async def _words(texts: list[str]) -> list[Set[str]]:
    """The stems of each. The texts may be many, or large, and nobody else should wait for them."""
    return await asyncio.to_thread(lambda: [count_terms(text, _LANGUAGE).keys() for text in texts])


def _of_fact(record: FactRecord, context: MemoryContext) -> Trace:
    if record.refused:
        return Trace(verdict="refused", fact=record)
    if not record.stands:
        withdrawn = record.op in ("retract", "remove", "revert")
        return Trace(verdict="withdrawn" if withdrawn else "replaced", fact=record)
    entries = tuple(entry for entry in context.ledger if entry.tier == "facts" and _is_of(entry, record))
    kept = tuple(entry for entry in entries if entry.kept)
    if entries:
        return Trace(verdict="kept" if kept else "left_out", fact=record, entries=kept or entries)
    return Trace(verdict="not_considered", fact=record)


def _is_of(entry: LedgerEntry, record: FactRecord) -> bool:
    """True if the ledger's item shows the record: its path (below a person's name, where there are several) and value."""
    path = ".".join(record.path)
    name = entry.item.partition("[")[0]
    at_path = name in (path, f"{record.subject}.{path}") or name.startswith(
        (f"{path}.", f"{record.subject}.{path}.")
    )
    return at_path and (not isinstance(record.value, str) or _head(record.value) in entry.text)


def _head(value: str) -> str:
    return value[:40].rstrip()
