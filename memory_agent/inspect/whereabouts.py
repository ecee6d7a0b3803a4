"""Why something is in a prompt or not: what is remembered of it, and what became of each piece in that prompt."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from memory_agent.agent.agent import MemoryAgent
    from memory_agent.domain import FactRecord, LedgerEntry, MemoryContext, Recollection, Turn

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
    """One thing remembered, and what became of it. `entries`: what the ledger says; `rank`: its place in the search."""

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
