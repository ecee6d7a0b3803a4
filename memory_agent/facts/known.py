"""Lookup over the facts already known in a thread: by path, by source quote, by the words of the value. Used by vetting.

Built once for a batch of turns and carried on from turn to turn; the indexes are made when they are first asked for.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from memory_agent.facts.echo import REPEATED_WORDS, plain_words
from memory_agent.facts.fold import fold_facts
from memory_agent.facts.people import person_key
from memory_agent.facts.tree import FactTree, fact_json, fact_words, leaves
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from memory_agent.domain import FactChange, FactRecord
    from memory_agent.facts.fold import Folded

    _Quotes = dict[tuple[str, ...], list[tuple[FactRecord, str, str]]]
    """Each run of REPEATED_WORDS words -> records, each with the turn and the whole of the quote that has it."""


class Known:
    """The documents, and the records of their values and of what they replaced."""

    def __init__(self, folded: Folded) -> None:
        self._trees: dict[str, FactTree[int]] = {
            person_key(name): FactTree.of(facts) for name, facts in folded.people.items()
        }
        self.values: dict[str, set[str]] = {}
        """Values known now or before, by dotted path, as `fact_json` tells them and memory shows them."""
        self._records: list[FactRecord] = []
        self._taken = 0
        for facts in folded.people.values():
            self._note_values(facts)
        self._quotes: _Quotes | None = None
        self._words: dict[str, list[FactRecord]] | None = None
        self._add(folded.records)

    def tree(self, subject: str) -> FactTree[int]:
        """The document of a person; a copy."""
        return self._trees.get(person_key(subject), FactTree[int]()).copy()

    def take_in(self, change: FactChange) -> None:
        """Carry on with the change of a later turn, without folding everything anew; nearly, for the next turn's sake."""
        for event in change.events:
            self._trees.setdefault(person_key(event.subject), FactTree()).apply(event, 0)
        self._taken += 1  # a number of its own, as it will have once it is stored
        alone = dataclasses.replace(change, generation="", seq=-self._taken)
        self._add(fold_facts([alone]).records)

    def repeated(self, quote: str, turn_id: str, subject: str) -> list[tuple[FactRecord, str]]:
        """The records of a person's facts that were taken from an earlier turn that says `quote` word for word, or more or less than it.

        Each with the words it was taken from, lower-case and one blank apart. Only if they share five words or more, one
        after the other: fewer may mean something else.
        """
        words = plain_words(quote)
        if len(words) < REPEATED_WORDS:
            return []
        if self._quotes is None:
            self._quotes = {}
            self._note_quotes(self._records, self._quotes)
        said, whose = f" {' '.join(words)} ", person_key(subject)
        found: dict[tuple[str, str, str], tuple[FactRecord, str]] = {}
        for run in _runs(words):
            for record, source_turn, earlier in self._quotes.get(run, ()):
                own = source_turn < turn_id and person_key(record.subject) == whose
                if own and (earlier in said or said in earlier):
                    found[record.thread_id, record.id, earlier] = (record, earlier.strip())
        return list(found.values())

    def borrowed(self, value: Any, own: Collection[str]) -> frozenset[str]:
        """Ids of turns that terms of `value` may come from though they are not among the terms `own`: of known facts.

        So that forgetting these turns forgets the value as well. Words in other words (a name cut short) are not seen.
        """
        foreign = {term for term in count_terms(fact_words(value)) if term not in own}
        if not foreign:
            return frozenset()
        if self._words is None:
            self._words = {}
            self._note_words(self._records, self._words)
        return frozenset(
            source.turn_id
            for word in foreign
            for record in self._words.get(word, ())
            for source in record.sources
            if source.turn_id is not None
        )

    def _add(self, records: Iterable[FactRecord]) -> None:
        new = [record for record in records if record.refused is None]
        self._records += new
        for record in new:
            if record.op in ("set", "add"):
                self._note_values(record.value, record.path)
        if self._quotes is not None:
            self._note_quotes(new, self._quotes)
        if self._words is not None:
            self._note_words(new, self._words)

    def _note_values(self, value: Any, path: tuple[str, ...] = ()) -> None:
        for where, leaf, _ in leaves(value, path):
            self.values.setdefault(".".join(where), set()).add(fact_json(leaf))

    @staticmethod
    def _note_quotes(records: Iterable[FactRecord], index: _Quotes) -> None:
        for record in records:
            for source in record.sources:
                if source.turn_id is not None and source.quote is not None:
                    words = plain_words(source.quote)
                    entry = (record, source.turn_id, f" {' '.join(words)} ")
                    for run in set(_runs(words)):
                        index.setdefault(run, []).append(entry)

    @staticmethod
    def _note_words(records: Iterable[FactRecord], index: dict[str, list[FactRecord]]) -> None:
        for record in records:
            for word in count_terms(f"{' '.join(record.path)} {fact_words(record.value)}"):
                index.setdefault(word, []).append(record)


def _runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(REPEATED_WORDS)), strict=False)
