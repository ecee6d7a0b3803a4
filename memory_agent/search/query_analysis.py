"""From the text of a question to what rows are scored by: its words, its vectors, whom and which times it names."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.errors import BackendError, EmbedderError, EmbedderUnavailable
from memory_agent.ports import known_scripts
from memory_agent.search.fusion import Background, best_first, fuse, normalised
from memory_agent.search.request import AnalysedQuery
from memory_agent.text.question import gist_of, read_question
from memory_agent.text.subjects import everyday_sentences
from memory_agent.text.terms import count_terms
from memory_agent.text.times import NamedTimes, TimeSpan, named_times, relative_event
from memory_agent.text.writing import is_read, main_script

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from memory_agent.ports import Embedder
    from memory_agent.search.entities import EntitySpotter
    from memory_agent.search.request import RowFilter
    from memory_agent.search.user_index import ResidentIndex
    from memory_agent.text.question import Question
    from memory_agent.text.times import EventOffset

    Floats = NDArray[np.float32]

_MOST_TERMS: Final = 300
"""Different words of a question that count: of a long text that is pasted the beginning says what is asked."""
_FEW_TERMS: Final = 6
"""A message of so few different words is understood by what was said before it."""
_MOST_OF_SAID: Final = 0.4
_LEAST_OF_SAID: Final = 0.1
_INLINE_CHARS: Final = 4_000
"""So much text is cut into words in a few milliseconds; more, in a thread."""


class Questioner:
    """Understands questions. An embedder or a finder of entities that is down is left out, and named in `degraded`."""

    def __init__(
        self, embedder: Embedder, spotter: EntitySpotter, *, language: str, weights: Mapping[str, float]
    ) -> None:
        self._embedder = embedder
        self._spotter = spotter
        self._language = language
        self._weights = weights
        self._background: Background | None = None

    async def asked(
        self,
        query: str,
        *,
        now: datetime,
        where: RowFilter,
        known: Collection[str],
        called: Mapping[str, str],
        resident: ResidentIndex | None,
        degraded: list[str],
        said: str = "",
    ) -> AnalysedQuery:
        """The question as rows are scored for it. `known` and `called`: see `read_question`; `resident`: the user's rows, if in memory; `said`: what its asker said before it."""
        question = read_question(query, known=known, called=called)
        times = resident.known_times() if resident is not None else None
        if resident is not None and not now.utcoffset():
            now = now.astimezone(resident.last_zone)
        named = NamedTimes() if question.tells else named_times(query, now=now, known=times)
        terms = without_name(await self._terms(query, degraded), question.names, self._language)
        # When something was said is compared by itself.
        terms = without_times(terms, query, named.words, self._language)
        share = _share_of_said(question, len(terms)) if said else 0.0
        vector, gist, before = await self._embed(
            query, gist_of(query, question.names), degraded, (said, share)
        )
        spans = named.spans
        event = None if question.tells else relative_event(query)
        if event is not None and resident is not None:
            spans += await self._told_from(event, where, resident, degraded)
        return AnalysedQuery(
            question=question,
            terms=terms,
            query=vector,
            gist=gist,
            background=await self._background_of(gist),
            script=main_script(query),
            said=before,
            spans=spans,
            time_words=named.words,
            offset=round((now.utcoffset() or timedelta()).total_seconds() / 60),
        )

    async def _terms(self, query: str, degraded: list[str]) -> list[str]:
        """Its first words, and as terms what it names: they find turns that name the same under another alias."""
        try:
            named = await self._spotter.of_question(query)
        except BackendError:
            degraded.append("entities")
            named = self._spotter.by_dictionary(query)
        if len(query) > _INLINE_CHARS:
            words = await asyncio.to_thread(count_terms, query, self._language)
        else:
            words = count_terms(query, self._language)
        return [*islice(words, _MOST_TERMS), *dict.fromkeys(entity.term for entity in named)]

    async def _background_of(self, gist: Floats | None) -> float:
        """Mean similarity of the question to anything in its language; 0 without an embedder."""
        if gist is None:
            return 0.0
        if self._background is None:
            sentences = list(chain.from_iterable(everyday_sentences().values()))
            try:
                self._background = Background(await self._embedder.embed(sentences, purpose="document"))
            except (EmbedderUnavailable, EmbedderError):
                return 0.0
        return self._background.of(gist)

    async def _told_from(
        self,
        event: EventOffset,
        where: RowFilter,
        resident: ResidentIndex,
        degraded: list[str],
    ) -> tuple[TimeSpan, ...]:
        """The time that "two weeks before the wedding" names: told from the turn that is found for "the wedding"."""
        vector, gist, _ = await self._embed(event.event, event.event, degraded)
        terms = list(count_terms(event.event, self._language))
        asked = AnalysedQuery(question=read_question(event.event), terms=terms, query=vector, gist=gist)
        scored = resident.score(asked, where=where)
        scores = fuse(normalised(scored.values), self._weights)
        best = best_first(np.where(scored.values["words"] > 0.0, scores, np.nan).astype(np.float32))
        if not len(best):
            return ()
        said = resident.time_of(scored.turn_ids[best[0]])
        try:
            return (TimeSpan(start=said + event.least, end=said + event.most, precision="day"),)
        except OverflowError:  # 999 decades after it
            return ()

    async def _embed(
        self,
        query: str,
        gist: str,
        degraded: list[str],
        said: tuple[str, float] = ("", 0.0),
    ) -> tuple[Floats | None, Floats | None, Floats | None]:
        """The question's vector, the mean of it and its gist's, and that of what was `said`, if it counts; none in a script it doesn't read.

        `said`: what counts in the mean, and how much. In a conversation that was the question before this one, whose vector embedders keep.
        """
        before, share = said
        texts = [query, gist] if gist != query else [query]
        try:
            vectors = await self._embedder.embed([*texts, before] if share else texts, purpose="query")
        except (EmbedderUnavailable, EmbedderError):
            degraded.append("embedder")
            return None, None, None
        if not is_read(query, known_scripts(self._embedder)):
            return None, None, None
        mean = _at_unit_length(vectors[: len(texts)].sum(axis=0))
        if share:
            mean = _at_unit_length((1.0 - share) * mean + share * vectors[-1])
        return vectors[0], mean, vectors[-1] if share else None


def _at_unit_length(vector: Floats) -> Floats:
    return (vector / max(float(np.linalg.norm(vector)), 1e-6)).astype(np.float32)


def _share_of_said(question: Question, terms: int) -> float:
    """The share that what was said before has in the meaning of a message: the more words it has itself, the less."""
    if not question.tells and not (question.refers and terms <= _FEW_TERMS):
        return 0.0
    share = _MOST_OF_SAID * min(1.0, _FEW_TERMS / max(terms, 1))
    return share if share >= _LEAST_OF_SAID else 0.0


def without_times(terms: Sequence[str], query: str, words: Sequence[str], language: str) -> list[str]:
    """`terms` without those of the `words` that name times in the question, unless it has them elsewhere, too."""
    rest = query
    for each in words:
        rest = rest.replace(each, " ")
    of_times = {term for each in words for term in count_terms(each, language)}
    if of_times:
        of_times -= count_terms(rest, language).keys()
    return [term for term in terms if term not in of_times]


def without_name(terms: Sequence[str], names: Collection[str], language: str) -> list[str]:
    """`terms` without those of the only person named: the signal `person` stands for who spoke.

    In a chat of two people each turn of the one, and each in which the other speaks to them, has the name. Of several people
    what they say of each other counts.
    """
    named = count_terms(next(iter(names)), language) if len(names) == 1 else {}
    return [term for term in terms if term not in named] or list(terms)
