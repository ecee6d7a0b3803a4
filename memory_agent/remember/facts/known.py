"""What holds already, as vetting asks of it: by path, by the words it was taken from, by the words it is made of.

Built once for a batch of turns and carried on from turn to turn; the indexes are made when they are first asked for.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from memory_agent.recall.terms import count_terms
from memory_agent.remember.facts.compare import leaves
from memory_agent.remember.facts.echo import REPEATED_WORDS, plain_words
from memory_agent.remember.facts.fold import fold_facts
from memory_agent.remember.facts.tree import FactTree, fact_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from memory_agent.domain import FactChange, FactRecord


class Known:
    """The document, and the records of its values and of what they replaced."""

    def __init__(
        self, *, document: Mapping[str, Any] | None = None, records: Iterable[FactRecord] = ()
    ) -> None:
        self.tree: FactTree[int] = FactTree.of(document or {})
        self._records: list[FactRecord] = []
        self._paths = {".".join(path) for path, _, _ in leaves(document or {})}
        self._quotes: dict[tuple[str, ...], list[tuple[FactRecord, str, str]]] | None = None
        self._words: dict[str, list[FactRecord]] | None = None
        self._add(record for record in records if record.refused is None)

    @property
    def records(self) -> Sequence[FactRecord]:
        """Every event that counts, in the order of the fold."""
        return self._records

    @property
    def paths(self) -> set[str]:
        """Dotted paths of everything that is known or was, as memory shows them."""
        return self._paths

    def take_in(self, change: FactChange) -> None:
        """Carry on with the change of a later turn, without folding everything anew; nearly, for the next turn's sake."""
        for event in change.events:
            self.tree.apply(event, 0)
        alone = dataclasses.replace(change, generation="")
        self._add(record for record in fold_facts([alone]).records if record.refused is None)

    def repeated(self, quote: str, turn_id: str) -> list[FactRecord]:
        """The records that were taken from an earlier turn that says `quote` word for word, or more or less than it.

        Only if they share five words or more, one after the other: fewer may mean something else.
        """
        if self._quotes is None:
            self._quotes = {}
            for record in self._records:
                self._note_quotes(record, self._quotes)
        words = plain_words(quote)
        said = f" {' '.join(words)} "
        found: dict[tuple[str, str], FactRecord] = {}
        for run in _runs(words):
            for record, source_turn, earlier in self._quotes.get(run, ()):
                if source_turn < turn_id and (earlier in said or said in earlier):
                    found[record.thread_id, record.id] = record
        return list(found.values())

    def borrowed(self, value: Any, shown: Iterable[str]) -> frozenset[str]:
        """Ids of turns that words of `value` may come from though none of the texts `shown` holds them: of known facts.

        So that forgetting these turns forgets the value as well.
        """
        own = {word for text in shown for word in count_terms(text)}
        foreign = count_terms(fact_words(value)).keys() - own
        if not foreign:
            return frozenset()
        if self._words is None:
            self._words = {}
            for record in self._records:
                _note_words(record, self._words)
        return frozenset(
            source.turn_id
            for word in foreign
            for record in self._words.get(word, ())
            for source in record.sources
            if source.turn_id is not None
        )

    def _add(self, records: Iterable[FactRecord]) -> None:
        for record in records:
            self._records.append(record)
            self._paths.add(".".join(record.path))
            if self._quotes is not None:
                self._note_quotes(record, self._quotes)
            if self._words is not None:
                _note_words(record, self._words)

    @staticmethod
    def _note_quotes(
        record: FactRecord, index: dict[tuple[str, ...], list[tuple[FactRecord, str, str]]]
    ) -> None:
        for source in record.sources:
            if source.turn_id is not None and source.quote is not None:
                words = plain_words(source.quote)
                entry = (record, source.turn_id, f" {' '.join(words)} ")
                for run in set(_runs(words)):
                    index.setdefault(run, []).append(entry)


def _runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(len(words) - REPEATED_WORDS + 1):
        yield tuple(words[start : start + REPEATED_WORDS])


def _note_words(record: FactRecord, index: dict[str, list[FactRecord]]) -> None:
    for word in count_terms(f"{' '.join(record.path)} {fact_words(record.value)}"):
        index.setdefault(word, []).append(record)
