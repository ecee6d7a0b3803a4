"""One user's search rows in memory, searched exactly.

Also used, without staying, over the candidates of a user too large to keep: the same scoring, with the
statistics of the whole collection passed in.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import sys
import time
from array import array
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.domain import Entity, TurnFeatures
from memory_agent.ports import ALL_ROWS, known_scripts, pieces_per_word
from memory_agent.products import product
from memory_agent.search.entities import EntityTally
from memory_agent.search.fusion import best_first
from memory_agent.search.postings import Layout, Postings
from memory_agent.search.vectors import Vectors, repeats
from memory_agent.text.times import span_match
from memory_agent.text.writing import MULTILINGUAL, is_read, latin_language, main_script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import EntityCount, Role, Scope, SearchRow
    from memory_agent.ports import Embedder, RowStore, TurnStore
    from memory_agent.search.fusion import Signal
    from memory_agent.search.postings import CollectionStatistics, WordScores
    from memory_agent.search.request import AnalysedQuery, RowFilter
    from memory_agent.text.question import Question

    Floats = NDArray[np.float32]
    Alike = dict[str, dict[str, float]]


_NEWEST_TURNS: Final = 50
_SHARE: Final = 0.2
_IN_PIECES: Final = 1.35
"""all-MiniLM-L6-v2 makes 1.02 to 1.05 pieces of a word of English chat (1.19 at most in fifty turns), and 1.5 (Vietnamese) to 2.9 (Turkish) of other
languages'."""


async def unread(store: TurnStore, scope: Scope, embedder: Embedder) -> tuple[tuple[str, ...], str]:
    """The scripts, sorted, and the language of a user's newest turns that the embedder does not know.

    Scripts of which a fifth or more of the turns are; the language, as `latin_language` names it, of those in Latin letters.
    A language is known by the pieces that the model's vocabulary makes of its words. "": known, or not told: English, a model of more
    scripts than one, too little text.
    """
    read = known_scripts(embedder)
    if read is None:
        return (), ""
    turns = await store.list_turns(scope, limit=_NEWEST_TURNS, newest=True)
    texts = [turn.said for turn in turns if turn.role == "user"]
    others = Counter(main_script(text) for text in texts if not is_read(text, read))
    scripts = tuple(sorted(script for script, count in others.items() if count >= _SHARE * len(texts)))
    if read != {"LATIN"}:
        return scripts, ""
    language = await asyncio.to_thread(latin_language, texts)
    if language in ("", "en"):  # code and misspelt English are in pieces, too
        return scripts, ""
    pieces = await pieces_per_word(embedder, [text for text in texts if main_script(text) == "LATIN"])
    return scripts, language if pieces is not None and pieces > _IN_PIECES else ""


class RowScripts:
    """Scripts of rows, told from their words. `read`: those that the embedder reads, None for all."""

    def __init__(self, read: frozenset[str] | None) -> None:
        self.unread = 0
        """How many rows the embedder does not read."""
        self._read = read
        self._is_unread = array("B")
        self._script = array("B")
        self._number: dict[str, int] = {}

    def add(self, terms: Iterable[str]) -> None:
        """The next row."""
        words = " ".join(term for term in terms if term[:1] != "@")
        unread = not is_read(words, self._read)
        self._is_unread.append(unread)
        self.unread += unread
        self._script.append(self._number.setdefault(main_script(words), len(self._number)))

    def is_unread(self, position: int) -> bool:
        """True if the embedder does not read the row."""
        return bool(self._is_unread[position])

    def silenced(self, *cosines: Floats) -> tuple[Floats, ...]:
        """Cosines of all rows, unknown (NaN) where the embedder does not read the row."""
        if not self.unread:
            return cosines
        unread = np.array(self._is_unread, dtype=np.bool_)
        return tuple(np.where(unread, np.float32(np.nan), given) for given in cosines)

    def of_words(self, words: WordScores, script: str, terms: Iterable[str]) -> dict[Signal, Floats]:
        """The signals of words, unknown where a row in another script than `script` has none of the question's `terms`.

        An entity has a name in each: if the question names one, a row without it lacks it in any script.
        """
        values: dict[Signal, Floats] = {
            "words": words.turn,
            "words_around": words.around,
            "words_session": words.session,
        }
        named = any(term.startswith("@") for term in terms) and bool(words.turn.any())
        if not script or named or self._number.keys() <= {script, ""}:
            return values
        own = [number for name, number in self._number.items() if name in (script, "")]
        foreign = ~np.isin(np.array(self._script), own) & (words.turn == 0.0)
        return {name: np.where(foreign, np.float32(np.nan), given) for name, given in values.items()}


class TurnOrder:
    """Thread, session and `seq` of each row; positions are given from 0 upwards.

    `whole`: all rows of each thread are here, so that the nearest one is what was said before; else only the one
    numbered next to it is.
    """

    def __init__(self, *, whole: bool = True) -> None:
        self._most_apart = sys.maxsize if whole else 1
        self._threads: dict[str, int] = {}
        self._sessions: dict[tuple[str, str | None], int] = {}
        self._thread = array("i")
        self._session = array("i")
        self._seq = array("q")
        self._before = array("i")
        self._after = array("i")
        self._last: dict[int, int] = {}
        self._in_order = True
        self._layout: Layout | None = None

    def __len__(self) -> int:
        return len(self._seq)

    def add(self, thread_id: str, session_id: str | None, seq: int) -> int:
        """The next row; the position of the row before it in its session, -1 if it has none (so far)."""
        position, self._layout = len(self._seq), None
        thread = self._threads.setdefault(thread_id, len(self._threads))
        session = self._sessions.setdefault((thread_id, session_id), len(self._sessions))
        last = self._last.get(thread, -1)
        before = -1
        if last >= 0 and seq < self._seq[last]:
            self._in_order = False
        else:
            self._last[thread] = position
            if last >= 0 and self._session[last] == session and seq - self._seq[last] <= self._most_apart:
                before = last
                self._after[last] = position
        self._thread.append(thread)
        self._session.append(session)
        self._seq.append(seq)
        self._before.append(before)
        self._after.append(-1)
        return before

    @property
    def sessions(self) -> int:
        """Number of sessions that the rows are of."""
        return len(self._sessions)

    @property
    def in_order(self) -> bool:
        """False after a row that belongs between others, until the next `layout`."""
        return self._in_order

    def layout(self) -> Layout:
        """The current position of every row: the same object until there is another row."""
        if not self._in_order:
            self._link()
        if self._layout is None:
            self._layout = Layout(
                before=np.array(self._before, dtype=np.intp),
                after=np.array(self._after, dtype=np.intp),
                session=np.array(self._session, dtype=np.intp),
                sessions=len(self._sessions),
            )
        return self._layout

    def in_thread(self, thread_id: str) -> NDArray[np.bool_] | None:
        """Boolean mask of the thread's rows, shape (n,); None if all are."""
        if len(self._threads) == 1 and thread_id in self._threads:
            return None
        mask: NDArray[np.bool_] = np.array(self._thread, dtype=np.int32) == self._threads.get(thread_id, -1)
        return mask

    def before(
        self,
        positions: NDArray[np.intp],
        times: NDArray[np.float64],
        others: NDArray[np.intp] | slice = slice(None),
    ) -> NDArray[np.bool_]:
        """Boolean mask, shape (len(positions), len(others)), of the `others` (default: all rows) said before those at `positions`.

        Of other threads by their `times`, shape (n,).
        """
        thread, seq = np.array(self._thread), np.array(self._seq)
        mask: NDArray[np.bool_] = np.where(
            thread[others] == thread[positions, None],
            seq[others] < seq[positions, None],
            times[others] < times[positions, None],
        )
        return mask

    def _link(self) -> None:
        """Links of all rows, by thread and `seq`."""
        thread, session = np.array(self._thread), np.array(self._session)
        seq = np.array(self._seq)
        order = np.lexsort((seq, thread))
        before, after = np.full(len(order), -1, np.int32), np.full(len(order), -1, np.int32)
        together = np.flatnonzero(
            (session[order[1:]] == session[order[:-1]])
            & (seq[order[1:]] - seq[order[:-1]] <= self._most_apart)
        )
        before[order[together + 1]] = order[together]
        after[order[together]] = order[together + 1]
        self._before, self._after = array("i", before.tolist()), array("i", after.tolist())
        last = np.flatnonzero(np.append(thread[order[1:]] != thread[order[:-1]], True))
        self._last = {int(thread[order[i]]): int(order[i]) for i in last}
        self._in_order = True


_BYTES_PER_ROW: Final = 520
"""Ids, lists and dictionary entries, as measured with tracemalloc, and its neighbours."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_OF_DAY: Final = 86_400.0
_YEAR_OF_SECONDS: Final = 366 * _SECONDS_OF_DAY
_MOST_NAMES: Final = 3.0
_UNSAID_SIDE: Final = 0.3
_SIDE_OF_MESSAGE: Final = 0.5
"""What a message goes on with was told by the user, but often worked out by the assistant."""
_SHORT_TERMS: Final = 8.0
"""A turn of so many terms that asks is a question and little else."""
_CORRECTS: Final = TurnFeatures(corrects=True).packed


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Scored:
    """Raw signals of the rows that pass the filter, shape (n,) each; unknown is NaN."""

    turn_ids: Sequence[str]
    values: dict[Signal, Floats]

    def without(self, mask: NDArray[np.bool_]) -> Scored:
        """The same, with nothing that speaks for the turns of the mask."""
        if not mask.any():
            return self
        nothing = np.float32(0.0)
        values = {signal: np.where(mask, nothing, given) for signal, given in self.values.items()}
        return Scored(turn_ids=self.turn_ids, values=values)

    def joined(self, other: Scored) -> Scored:
        """Both as one, `other` behind."""
        return Scored(
            turn_ids=[*self.turn_ids, *other.turn_ids],
            values={
                signal: np.concatenate([given, other.values[signal]]) for signal, given in self.values.items()
            },
        )


class ResidentIndex:
    """Vectors, postings, neighbours and what filters ask for, of the rows given so far.

    Rows whose vectors another embedder than `embedder` (a fingerprint) made are found by their words alone, and so are
    those in none of `scripts`, which it reads. `whole`: the rows are all that there are, see `TurnOrder`.
    """

    def __init__(
        self,
        rows: Iterable[SearchRow] = (),
        *,
        embedder: str,
        scripts: frozenset[str] | None = None,
        whole: bool = True,
    ) -> None:
        self.embedder = embedder
        self.whole = whole
        self.foreign = 0
        """How many rows hold vectors of another embedder."""
        self._turn_ids: list[str] = []
        self._position: dict[str, int] = {}
        self._roles: dict[Role, int] = {}
        self._role = array("b")
        self._speakers: dict[str, int] = {}
        self._speaker = array("i")
        self._time = array("d")
        self._offset = array("f")
        """Minutes by which the speaker's clock was ahead of UTC; NaN where nothing told it."""
        self._told_row = array("i")
        self._told_from = array("d")
        self._told_to = array("d")
        """Rows that tell of times, once for each, and the times in `civil_seconds`."""
        self._first_at, self._last_at = math.inf, -math.inf
        self._rivals: dict[tuple[int, int], dict[str, float]] = {}
        self._signs = array("B")
        self._scripts = RowScripts(scripts)
        self._places = TurnOrder(whole=whole)
        self._postings = Postings()
        self._tallies: dict[str, EntityTally] = {}
        # A row read again while loading replaces its first reading.
        latest = {row.turn_id: row for row in rows}
        self.head = max((row.index_seq for row in latest.values()), default=0)
        live = [row for row in latest.values() if not row.erased]
        made = (row.vectors_by(embedder) for row in live)
        self._vectors = Vectors(sum(len(vectors) for vectors in made if vectors is not None))
        for row in live:
            self._append(row)

    def __len__(self) -> int:
        return len(self._turn_ids)

    @property
    def nbytes(self) -> int:
        """About how much memory this index takes, in bytes."""
        return self._vectors.nbytes + self._postings.nbytes + _BYTES_PER_ROW * len(self)

    @property
    def speakers(self) -> Iterable[str]:
        """The names of all who spoke."""
        return self._speakers.keys()

    @property
    def unread(self) -> int:
        """The number of rows in a script that the embedder does not read."""
        return self._scripts.unread

    def known_times(self) -> tuple[datetime, datetime] | None:
        """The first time at which something was said, and the last, or one within a year after it that was told of."""
        if not self._turn_ids:
            return None
        told = (time for time in self._told_to if time <= self._last_at + _YEAR_OF_SECONDS)
        return _moment(self._first_at), _moment(max(self._last_at, *told, -math.inf))

    @property
    def last_zone(self) -> timezone:
        """The zone of who spoke last, as far as anything told it; else UTC."""
        known = np.flatnonzero(~np.isnan(np.array(self._offset, dtype=np.float32)))
        return (
            timezone(timedelta(minutes=self._offset[known[np.array(self._time)[known].argmax()]]))
            if len(known)
            else UTC
        )

    def extend(self, rows: Sequence[SearchRow]) -> bool:
        """Take in rows, `head` then being the highest `index_seq`; False, with nothing changed, if they replace or erase rows here.

        What was erased must leave memory altogether, so such rows need a fresh load.
        """
        ids = {row.turn_id for row in rows}
        if len(ids) < len(rows) or not self._position.keys().isdisjoint(ids):
            return False
        for row in rows:
            if not row.erased:
                self._append(row)
            self.head = max(self.head, row.index_seq)
        return True

    def score(
        self, asked: AnalysedQuery, *, where: RowFilter, statistics: CollectionStatistics | None = None
    ) -> Scored:
        """The signals of every row that passes `where`. `statistics`: of the whole collection, if rows are missing here."""
        layout = self._places.layout()
        words = self._postings.scores(asked.terms, layout, statistics or self.statistics(asked.terms))
        meaning, around = self._scripts.silenced(*self._vectors.cosines(asked.gist, layout.before))
        values: dict[Signal, Floats] = {
            "meaning": meaning,
            "meaning_around": around,
            **self._scripts.of_words(words, asked.script, asked.terms),
            "person": self._by_who_spoke(asked),
            "dates": self._by_date(asked),
            **self._by_signs(asked.question),
            "here": self._of_thread(asked.here),
        }
        mask = self._mask(where)
        if mask is None:
            # A copy: rows may come while what was scored is still in use.
            return Scored(turn_ids=list(self._turn_ids), values=values)
        kept = np.flatnonzero(mask)
        return Scored(
            turn_ids=[self._turn_ids[i] for i in kept],
            values={signal: given[kept] for signal, given in values.items()},
        )

    def statistics(self, terms: Iterable[str]) -> CollectionStatistics:
        """The statistics of the rows that are here."""
        return self._postings.statistics(terms)

    def vectors_of(self, turn_ids: Sequence[str], *, if_read: bool = False) -> Floats:
        """The turns' vectors, unit length, shape (len(turn_ids), dimension); zeros where there is none.

        `if_read`: zeros also for turns in a script that the embedder does not read.
        """
        return self._vectors.of(self._positions(turn_ids, if_read=if_read))

    def similarity(self, query: Floats | None, turn_ids: Sequence[str]) -> Floats:
        """The cosine of a question with the nearest passage of each turn; NaN without a vector of what is read."""
        return self._vectors.nearest(query, self._positions(turn_ids, if_read=True))

    def _positions(self, turn_ids: Sequence[str], *, if_read: bool = False) -> list[int]:
        """The turns' rows; -1 without one, and `if_read` for what the embedder does not read."""
        positions = [self._position.get(turn_id, -1) for turn_id in turn_ids]
        if if_read and self._scripts.unread:
            positions = [-1 if at >= 0 and self._scripts.is_unread(at) else at for at in positions]
        return positions

    def shared_terms(self, turn_ids: Sequence[str], terms: Iterable[str]) -> dict[str, list[str]]:
        """The terms among `terms` that each of the turns that are here holds."""
        here = [turn_id for turn_id in turn_ids if turn_id in self._position]
        positions = np.array([self._position[turn_id] for turn_id in here], dtype=np.intp)
        return dict(zip(here, self._postings.held_by(positions, terms), strict=True))

    def time_of(self, turn_id: str) -> datetime:
        """When the turn, which has a row here, was said by its speaker's clock."""
        position = self._position[turn_id]
        offset = self._offset[position]
        minutes = timedelta(minutes=0 if math.isnan(offset) else offset)
        return _moment(self._time[position]).astimezone(timezone(minutes))

    def entity_counts(self, thread_id: str | None) -> list[EntityCount]:
        """The entities that the turns of the thread (None: all) name, by first mention."""
        if thread_id is not None:
            tally = self._tallies.get(thread_id)
            return [] if tally is None else tally.counts()
        everything = EntityTally()
        for tally in self._tallies.values():
            everything.merge(tally.counts())
        return everything.counts()

    @property
    def sessions(self) -> int:
        """Number of sessions that the rows are of."""
        return self._places.sessions

    @property
    def with_assistant(self) -> bool:
        """True if an assistant said some of it."""
        return "assistant" in self._roles

    def has(self, turn_id: str) -> bool:
        """True if the turn has a row here."""
        return turn_id in self._position

    def beside(self, turn_ids: Sequence[str]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The places in `turn_ids` of the turns before and after each in its session, shape (n,); -1 where it is not among them."""
        layout = self._places.layout()
        positions = self._positions(turn_ids)
        # One more at each end, for turns and neighbours that are not here.
        place = np.full(len(self) + 1, -1, dtype=np.intp)
        place[positions] = range(len(positions))
        place[-1] = -1
        before, after = (place[np.append(links, -1)[positions]] for links in (layout.before, layout.after))
        return before, after

    def repeats_among(self, turn_ids: Sequence[str]) -> NDArray[np.bool_]:
        """Mask of the turns that nearly repeat one before them in `turn_ids`, shape (n,)."""
        return repeats(self.vectors_of(turn_ids, if_read=True))

    def corrections_of(self, turn_ids: Sequence[str], where: RowFilter) -> Alike:
        """The rows of people with a cue that they replace something, each with those of the turns that it may replace.

        That is what its speaker said before. With cosines, NaN where a vector is missing.
        """
        people, times = self._has_role("user"), np.array(self._time)
        can = (np.array(self._signs, dtype=np.uint8) & _CORRECTS > 0) & people
        passes = self._mask(where)
        rows = np.flatnonzero(can if passes is None else can & passes)
        ids = [turn_id for turn_id in turn_ids if self.has(turn_id) and people[self._position[turn_id]]]
        if not len(rows) or not ids:
            return {}
        olds = np.array([self._position[turn_id] for turn_id in ids], dtype=np.intp)
        speaker = np.array(self._speaker)
        may = (speaker[olds] == speaker[rows, None]) & self._places.before(rows, times, olds)
        rows, may = rows[may.any(axis=1)], may[may.any(axis=1)]
        cosines = product(self._vectors.of(rows.tolist()), self._vectors.of(olds.tolist()))
        return {
            self._turn_ids[row]: {ids[i]: float(alike[i]) or np.nan for i in np.flatnonzero(its)}
            for row, its, alike in zip(rows.tolist(), may, cosines, strict=True)
        }

    def rivals_of(self, turn_ids: Iterable[str], *, most: int) -> Alike:
        """Of each row of a person the `most` like it among all that its speaker said before."""
        return {turn_id: self._rivals_of(self._position[turn_id], most) for turn_id in turn_ids}

    def _rivals_of(self, row: int, most: int) -> dict[str, float]:
        # They stay the same whatever is said later, and finding them takes a look at all rows.
        found = self._rivals.get((row, most))
        if found is None:
            similarity = self._vectors.nearest(self._vectors.of([row])[0], np.arange(len(self)))
            earlier = self._places.before(np.array([row]), np.array(self._time))[0] & self._has_role("user")
            earlier &= np.array(self._speaker) == self._speaker[row]
            best = best_first(np.where(earlier, similarity, np.nan).astype(np.float32))[:most]
            found = {self._turn_ids[other]: float(similarity[other]) for other in best}
            self._rivals[row, most] = found
        return found

    # --- signals ---------------------------------------------------------------------------------------------
    def _by_date(self, asked: AnalysedQuery) -> Floats:
        """How well the time at which each row was said, or of which it tells, fits those that the question names."""
        if not asked.spans:
            return np.zeros(len(self), dtype=np.float32)
        offset = np.array(self._offset, dtype=np.float64)
        said = np.array(self._time) + 60.0 * np.where(np.isnan(offset), asked.offset, offset)
        match = span_match(said, said, asked.spans)
        rows = np.array(self._told_row, dtype=np.intp)
        told = span_match(np.array(self._told_from), np.array(self._told_to), asked.spans)
        np.maximum.at(match, rows, told)
        return match

    def _by_who_spoke(self, asked: AnalysedQuery) -> Floats:
        """1 for turns of the person that the question names, or of the side of the chat that it speaks of.

        Where it speaks of both sides none counts more; where of none, and an assistant takes part, the user's turns count
        somewhat: what is remembered of such a chat is mostly what the user told.
        """
        question = asked.question
        if question.persons:
            is_named = np.zeros(
                len(self._speakers) + 1, dtype=np.float32
            )  # the last for turns without a speaker
            is_named[[self._speakers[name] for name in question.persons if name in self._speakers]] = 1.0
            of_person: Floats = is_named[np.array(self._speaker)]
            return of_person
        if question.about_user != question.about_assistant:
            of_side = self._has_role("user" if question.about_user else "assistant").astype(np.float32)
            return np.float32(_SIDE_OF_MESSAGE) * of_side if question.tells else of_side
        counts = _UNSAID_SIDE if asked.with_assistant and not question.about_user else 0.0
        return np.float32(counts) * self._has_role("user").astype(np.float32)

    def _by_signs(self, question: Question) -> dict[Signal, Floats]:
        """What the question asks for, a time, a number or a name; and telling of oneself rather than asking."""
        signs = np.array(self._signs, dtype=np.uint8)
        kinds, terms = question.kinds, self._postings.lengths
        nothing = np.zeros(len(self), dtype=np.float32)
        return {
            # What is told in passing stands in a long request, and the question in it says little about the rest.
            "asks": _bit(signs, 0) * np.minimum(_SHORT_TERMS / np.maximum(terms, 1.0), 1.0),
            "tells_when": _bit(signs, 1) if kinds & {"when", "how_long"} else nothing,
            "counts": _bit(signs, 2) if kinds & {"how_many", "how_long"} else nothing,
            "of_self": _bit(signs, 3),
            "names": (signs >> 4 & 3).astype(np.float32) / np.float32(_MOST_NAMES)
            if kinds & {"who", "where", "name"}
            else nothing,
        }

    def _of_thread(self, thread_id: str | None) -> Floats:
        if thread_id is None:
            return np.zeros(len(self), dtype=np.float32)
        mask = self._places.in_thread(thread_id)
        return np.ones(len(self), np.float32) if mask is None else mask.astype(np.float32)

    def _has_role(self, role: str | None) -> NDArray[np.bool_]:
        has: NDArray[np.bool_] = np.array(self._role) == self._roles.get(role, -1)  # type: ignore[call-overload]
        return has

    def _mask(self, where: RowFilter) -> NDArray[np.bool_] | None:
        masks: list[NDArray[np.bool_]] = []
        if where.thread_id is not None:
            of_thread = self._places.in_thread(where.thread_id)
            if of_thread is not None:
                masks.append(of_thread)
        times = np.array(self._time) if where.since or where.until else None
        if where.since and times is not None:
            masks.append(times >= _epoch_seconds(where.since))
        if where.until and times is not None:
            masks.append(times < _epoch_seconds(where.until))
        if where.role is not None:
            masks.append(self._has_role(where.role))
        return np.logical_and.reduce(masks) if masks else None

    # --- growing ---------------------------------------------------------------------------------------------
    def _take_time(self, seconds: float) -> None:
        self._time.append(seconds)
        self._first_at, self._last_at = min(self._first_at, seconds), max(self._last_at, seconds)

    def _append(self, row: SearchRow) -> None:
        vectors = row.vectors_by(self.embedder)
        self._vectors.check(vectors)  # first, so that a refused row leaves nothing behind
        self._position[row.turn_id] = len(self._turn_ids)
        self._turn_ids.append(row.turn_id)
        self._role.append(self._roles.setdefault(row.role, len(self._roles)))
        self._speaker.append(
            -1 if row.speaker is None else self._speakers.setdefault(row.speaker, len(self._speakers))
        )
        self._take_time(_epoch_seconds(row.timestamp))
        self._offset.append(math.nan if row.utc_offset_minutes is None else row.utc_offset_minutes)
        self._signs.append(row.signs.packed)
        for first, last in zip(row.told_days[::2], row.told_days[1::2], strict=True):
            self._told_row.append(self._position[row.turn_id])
            self._told_from.append(_SECONDS_OF_DAY * (first - _EPOCH.toordinal()))
            self._told_to.append(_SECONDS_OF_DAY * (last + 1 - _EPOCH.toordinal()))
        self._scripts.add(row.terms)
        self._postings.add(row.terms, row.length)
        before = self._places.add(row.thread_id, row.session_id, row.seq)
        if self._time[-1] < self._last_at or not self._places.in_order:
            self._rivals.clear()  # it may have been said before one of these
        self.foreign += vectors is None
        self._vectors.add(vectors, before=before)
        named = [entity for term in row.terms if term[:1] == "@" and (entity := Entity.from_term(term))]
        if named:
            tally = self._tallies.setdefault(row.thread_id, EntityTally())
            tally.add(row.turn_id, row.timestamp, named)


SAME_QUESTION: Final = 0.9
"""Cosine from which a turn that asks is taken to ask the same."""


def asked_before(scored: Scored) -> NDArray[np.bool_]:
    """Mask of the turns that only ask what is asked now: that is no answer, however alike it is. Shape (n,)."""
    asks = scored.values["asks"] >= 1.0  # short ones: a longer turn may tell something besides
    return asks & (np.nan_to_num(scored.values["meaning"]) >= SAME_QUESTION)


def _bit(signs: NDArray[np.uint8], number: int) -> Floats:
    set_or_not: Floats = ((signs >> number) & 1).astype(np.float32)
    return set_or_not


def _moment(seconds: float) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)


def _epoch_seconds(moment: datetime) -> float:
    return (moment - _EPOCH).total_seconds()


log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 600.0
"""After its last search a resident user leaves memory."""
_PAGE: Final = 250
"""Rows read at a time: taking them in holds the event loop for about 5 ms."""


@dataclass(slots=True)
class _Entry:
    """A user's place in the cache; `index` is None while unloaded or where the user is too large."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    index: ResidentIndex | None = None
    too_large: bool = False
    checked: float = 0.0
    nbytes: int = 0


class ResidentCache:
    """The indexes of the users who are active here, within a memory budget.

    An index is fresh when its head is the store's; one that was not asked for in `idle_seconds` is dropped, so
    that whatever was erased meanwhile leaves memory too, and the stubs that announce erasures need not be kept
    for longer than that.
    """

    def __init__(
        self,
        store: RowStore,
        *,
        embedder: Callable[[], str],
        scripts: Callable[[], frozenset[str] | None] = lambda: None,
        max_turns: int,
        max_bytes: int,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`embedder`: gives the fingerprint of the model that questions are embedded with; "" while there is none.

        `scripts`: gives the scripts that it reads, see `Embedder.scripts`.
        """
        self._store = store
        self._embedder = embedder
        self._scripts = scripts
        self._max_turns = max_turns
        self._max_bytes = max_bytes
        self._idle_seconds = idle_seconds
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        """By `checked`, the oldest first."""
        self.nbytes = 0
        """Memory taken by all indexes, in bytes."""

    async def get(self, user_id: str) -> ResidentIndex | None:
        """The user's index, as fresh as the store was when this was called; None if the user is too large."""
        self.drop_idle()
        entry = self._entries.setdefault(user_id, _Entry(checked=time.monotonic()))
        async with entry.lock:
            try:
                if not entry.too_large:
                    await self._freshen(user_id, entry)
                entry.checked = time.monotonic()
                if self._entries.get(user_id) is entry:
                    self._entries.move_to_end(user_id)
            finally:
                self._measure(user_id, entry)
        self._shrink(keep=user_id)
        return entry.index

    @property
    def embedder(self) -> str:
        """Whose vectors count by now."""
        return self._embedder()

    def index_of(self, rows: Iterable[SearchRow], *, whole: bool = True) -> ResidentIndex:
        """A new index of the rows; it is not kept."""
        return ResidentIndex(rows, embedder=self.embedder, scripts=self._scripts(), whole=whole)

    def drop(self, user_id: str) -> None:
        """Forget the user's index; the next search loads it anew."""
        if (entry := self._entries.pop(user_id, None)) is not None:
            self.nbytes -= entry.nbytes

    def drop_idle(self) -> None:
        """Forget the indexes that nobody asked for in `idle_seconds`."""
        oldest = time.monotonic() - self._idle_seconds
        old = itertools.takewhile(lambda item: item[1].checked < oldest, self._entries.items())
        for user in [user for user, entry in old if not entry.lock.locked()]:
            self.drop(user)

    def _measure(self, user_id: str, entry: _Entry) -> None:
        if self._entries.get(user_id) is entry:
            before, entry.nbytes = entry.nbytes, 0 if entry.index is None else entry.index.nbytes
            self.nbytes += entry.nbytes - before

    def __contains__(self, user_id: str) -> bool:
        return user_id in self._entries

    async def _freshen(self, user_id: str, entry: _Entry) -> None:
        head = await self._store.index_head(user_id)
        index = entry.index
        if index is not None and not index.embedder and self.embedder:
            index = entry.index = None  # its model was found since
        if index is not None and head == index.head:
            return
        if index is not None and head > index.head and await self._fill(index, user_id):
            return
        await self._load(user_id, entry)

    async def _load(self, user_id: str, entry: _Entry) -> None:
        entry.index, entry.too_large = None, False
        index = self.index_of(())
        if not await self._fill(index, user_id):
            if not await self._is_left_out(user_id, len(index)):
                index = await self._load_at_once(user_id)
            if await self._is_left_out(user_id, len(index)):
                entry.too_large = True
                return
        entry.index = index
        if index.foreign and index.embedder:
            log.warning(
                "%d of a user's %d turns were embedded by another model and are found by words alone; "
                "rebuild_index (or `memory-agent rebuild --all`) embeds them anew",
                index.foreign,
                len(index),
            )
        if index.unread:
            log.warning(
                "%d of a user's %d turns are in a script that the embedding model does not know and are found by words "
                "alone; %s",
                index.unread,
                len(index),
                MULTILINGUAL,
            )

    async def _fill(self, index: ResidentIndex, user_id: str) -> bool:
        """Extend `index` to the store's head, page by page, so that few rows are in memory beside it.

        False if it grows too large or rows in it were replaced or erased meanwhile.
        """
        while True:
            page = await self._store.search_rows(user_id, after=index.head, limit=_PAGE)
            if not index.extend(page) or await self._is_left_out(user_id, len(index)):
                return False
            if len(page) < _PAGE:
                return True

    async def _load_at_once(self, user_id: str) -> ResidentIndex:
        """The index while rows are being replaced (a rebuild): of several readings of a row the last counts."""
        rows: dict[str, SearchRow] = {}
        after = 0
        while True:
            page = await self._store.search_rows(user_id, after=after, limit=_PAGE)
            rows |= {row.turn_id: row for row in page}
            turns = sum(not row.erased for row in rows.values())
            if len(page) < _PAGE or await self._is_left_out(user_id, turns):
                return await asyncio.to_thread(self.index_of, list(rows.values()))
            after = page[-1].index_seq

    async def _is_left_out(self, user_id: str, turns: int) -> bool:
        """True for more turns than are kept in memory, once candidates can be drawn from all of the user's rows."""
        return turns > self._max_turns and await self._store.candidates_through(user_id) == ALL_ROWS

    def _shrink(self, *, keep: str) -> None:
        if self.nbytes <= self._max_bytes:
            return
        for user, entry in list(self._entries.items()):
            if self.nbytes <= self._max_bytes:
                return
            if user != keep and entry.index is not None and not entry.lock.locked():
                self.drop(user)
