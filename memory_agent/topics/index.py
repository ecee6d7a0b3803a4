"""Topics of a thread in memory, as matching and titles ask them; and those of the threads that are at work, kept as fresh as the store.

A search for the topics of a turn costs one product with their embeddings and the topics that share its words. The
store says what changed since it was asked last, whichever process changed it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import re
import sys
import time
from collections import Counter, OrderedDict, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from memory_agent.domain import Topic, TopicDecayState, TopicHead, TopicTurns
from memory_agent.errors import NotFound
from memory_agent.lazily import lazily
from memory_agent.text.subjects import keys_of, likely_phrase, shared_phrase, subject_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping

    from numpy.typing import NDArray

    from memory_agent.domain import Scope, TopicMark
    from memory_agent.ports import TopicStore


TITLE_CHARS: Final = 80
_CLAUSE_END: Final = lazily(re.compile, r"[.!?…,;:]+(?:\s+|$)|[。！？，；：]+")
_TITLE_WORDS: Final = 5
_OPENING: Final = 1.25
"""What opens a topic is what it is mostly about; replies to it bring their own words."""
_SECOND: Final = 0.5
"""A second phrase tells at least half as much as the first."""
_MOST_WORDS: Final = 256
"""Words that a topic keeps: with 64, returns of long subjects are missed; those that few turns had go first."""
_ROOM: Final = 128
"""So many more before the rest is dropped, so that words which come now are not always the first to go."""

Words = dict[str, tuple[int, str]]
"""Word -> the users' turns that had it, and the noun phrase in which it stands in all of them ("" without one)."""


def with_words(words: Mapping[str, tuple[int, str]], told: Mapping[str, str]) -> Words:
    """A topic's words after one more turn, with `told` as in `Subject.words`."""
    joined = dict(words)
    for word, phrase in told.items():
        turns, before = joined.get(word, (0, ""))
        joined[word] = (turns + 1, _better(before, phrase, words) if before and phrase else before or phrase)
    if len(joined) > _MOST_WORDS + _ROOM:
        later = {word: place for place, word in enumerate(joined)}
        kept = set(sorted(joined, key=lambda word: (-joined[word][0], -later[word]))[:_MOST_WORDS])
        joined = {word: joined[word] for word in joined if word in kept}
    return joined


def _better(before: str, phrase: str, words: Mapping[str, tuple[int, str]]) -> str:
    """Of two phrases of one word: the words that they share if these are several, else the one whose words more turns have."""
    if len(shared := shared_phrase(before, phrase).split()) > 1:
        return " ".join(shared)
    return max(before, phrase, key=lambda each: sum(words.get(part, (0, ""))[0] for part in keys_of(each)))


class WordCounts(NamedTuple):
    """The words of some topics: how many topics there are, and how many of them have a word."""

    topics: int
    having: Callable[[str], int]

    @classmethod
    def of(cls, topics: Iterable[Topic]) -> WordCounts:
        """Counted anew."""
        given = list(topics)
        counts = Counter(word for topic in given for word in topic.words)
        return cls(topics=len(given), having=counts.__getitem__)


def title_of(topic: Topic, beside: WordCounts) -> str:
    """The most telling noun phrase of the users' turns, as "marathon training plan", and another where there is room; else
    what the opener is likely about, or its first clause. A title that came with the topic's summary goes before all of these.

    A word tells by its turns times log(1 + topics / topics that have the word), over the topic and those `beside` it,
    which are other ones; a phrase by the words of its own.
    """
    if topic.summary is not None and topic.summary.title:
        return topic.summary.title
    opening = set(subject_of(topic.opener).words)
    told = {
        word: (_OPENING if word in opening else 1.0)
        * turns
        * math.log(1 + (beside.topics + 1) / (1 + beside.having(word)))
        for word, (turns, _) in topic.words.items()
    }
    weights = {
        phrase: _weight([told.get(key, 0.0) for key in keys_of(phrase)])
        for _, phrase in topic.words.values()
        if phrase
    }
    chosen: list[str] = []
    for phrase in sorted(
        weights, key=lambda phrase: -weights[phrase]
    ):  # of equal ones the first that was said
        known = {key for each in chosen for key in keys_of(each)}
        words = sum(len(each.split()) for each in (*chosen, phrase))
        if chosen and (words > _TITLE_WORDS or weights[phrase] < _SECOND * weights[chosen[0]]):
            continue
        if known.isdisjoint(keys_of(phrase)):
            chosen.append(phrase)
        if len(chosen) == 2:
            break
    return (", ".join(chosen) or likely_phrase(topic.opener))[:TITLE_CHARS] or _telling_clause(
        topic.opener, told
    )


def _weight(told: list[float]) -> float:
    return sum(told) / math.sqrt(max(len(told), 1))


def _telling_clause(opener: str, told: Mapping[str, float]) -> str:
    """The most telling clause of an opener that has words with a content of their own, of equal ones the first; the whole
    opener if none has.
    """
    clauses = [clause.strip(" \"'“”‘’()*#-–—") for clause in _CLAUSE_END.split(opener)]
    subjects = {clause: subject_of(clause) for clause in clauses}
    return max(
        (clause for clause in subjects if subjects[clause].size),
        key=lambda clause: _weight([told.get(word, 0.0) for word in subjects[clause].words]),
        default=opener,
    )


def opener_of(content: str) -> str:
    """The first 80 characters of a message, on one line."""
    return " ".join(content[: 10 * TITLE_CHARS].split())[:TITLE_CHARS] or "…"


AnyTopic = TypeVar("AnyTopic", bound=TopicHead | TopicDecayState)


def unmerged(topics: Iterable[AnyTopic]) -> list[AnyTopic]:
    """Those of a thread's topics that no other one has absorbed, in their order.

    What a topic that was itself absorbed has absorbed does not count: it is in the list of the one that stands, unless
    it was split off since. Should two topics have absorbed each other, the one with the greater id stands.
    """
    given = list(topics)
    absorbers: dict[str, list[str]] = defaultdict(list)
    for topic in sorted(given, key=lambda topic: topic.id):
        for absorbed in topic.absorbed:
            absorbers[absorbed].append(topic.id)
    stands: dict[str, bool] = {}

    def decide(topic_id: str) -> bool:
        if topic_id not in stands:
            stands[topic_id] = False  # while it is looked at
            stands[topic_id] = not any(decide(other) for other in absorbers[topic_id])
        return stands[topic_id]

    for topic_id in sorted(topic.id for topic in given):
        decide(topic_id)
    return [topic for topic in given if stands[topic.id]]


def newest(topics: Iterable[AnyTopic]) -> AnyTopic | None:
    """The thread's current topic: the one that its latest turn is in; None without topics."""
    return max(topics, key=lambda topic: topic.through, default=None)


async def families_of(store: TopicStore, scope: Scope, topic_ids: Collection[str]) -> list[TopicHead]:
    """The topics that turns of the thread with these topic ids belong to: those that absorbed them, or themselves.

    No other topic is looked at, but for those that absorbed one of these in their turn.
    """
    found: dict[str, TopicHead] = {}
    asked: set[str] = set()
    while wanted := {*topic_ids, *found} - asked:
        asked |= wanted
        found |= {topic.id: topic for topic in await store.topic_heads(scope, ids=sorted(wanted))}
    return [
        topic
        for topic in unmerged(found[topic_id] for topic_id in sorted(found))
        if not set(topic_ids).isdisjoint(topic.turns_of)
    ]


async def load_topic(store: TopicStore, scope: Scope, topic_id: str) -> Topic | None:
    """The very topic of that id, whatever absorbed it."""
    return next(iter(await store.list_topics(scope, ids=[topic_id])), None)


async def find_topic(store: TopicStore, scope: Scope, topic_id: str | None) -> TopicHead:
    """The topic of that id (or that absorbed it); None: the thread's current one.

    Raises NotFound if the thread has no such topic, or none at all.
    """
    if topic_id is not None:
        try:
            families = await families_of(store, scope, {topic_id})
        except UnicodeEncodeError:  # half a surrogate pair, which no store was ever given
            families = []
        if not families:
            raise no_such_topic(scope, topic_id)
        return families[0]
    topics = await store.topic_heads(scope)
    current = newest(unmerged(topic for topic in topics if not topic.archived))
    if current is None:
        none_yet = "no topic yet; they form once a turn is settled"
        what = "only archived topics; name one" if topics else none_yet
        raise NotFound(f"thread {scope.thread_id!r} has {what}")
    return current


async def topic_ids_tagged(store: TopicStore, scope: Scope, tags: Collection[str]) -> frozenset[str]:
    """The topic ids of turns of topics with one of these tags, those of topics merged into them included."""
    threads: dict[str, list[TopicHead]] = defaultdict(list)
    for topic in await store.topic_heads(scope):
        threads[topic.thread_id].append(topic)
    return frozenset(
        topic_id
        for topics in threads.values()
        for topic in unmerged(topics)
        if not set(tags).isdisjoint(topic.tags)
        for topic_id in topic.turns_of
    )


def no_such_topic(scope: Scope, topic_id: object) -> NotFound:
    """The error for an id that no topic of the thread has."""
    return NotFound(
        f"topic_id is {topic_id!r:.80}, and thread {scope.thread_id!r} has no such topic",
        remedy=("topics", "lists them"),
    )


async def count_turns(store: TopicStore, topic: TopicHead) -> TopicTurns:
    """The topic's turns, with those of the topics that it absorbed."""
    counts = await store.count_topic_turns(topic.scope, topic.turns_of)
    return sum(counts.values(), TopicTurns())


MAX_BYTES: Final = 64 * 2**20
"""Taken by the indexes of all threads: some 5,000 topics of a busy user are 20 MB."""
_WORD_BYTES: Final = 250
"""Of a word of a topic: its places in the topic and among the topics that have it."""
_TOPIC_BYTES: Final = 1_500
LEAST_NORM: Final = 1e-6
"""What is shorter has no direction to speak of; float16 keeps nothing smaller than 6e-8 either."""
_FIRST_ROWS: Final = 16
_PUT_AT_ONCE: Final = 64
"""Topics of a long thread that are taken in before others on the event loop have their turn: some 2 ms."""


class Directed:
    """Topics with an embedding, in any order: `ids`, the place of each, and in the same places of `matrix` the embeddings."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.places: dict[str, int] = {}
        self.matrix: NDArray[np.float32] = np.empty((0, 0), np.float32)

    @property
    def embeddings(self) -> NDArray[np.float32]:
        """Shape (topics, dimension)."""
        return self.matrix[: len(self.ids)]

    def add(self, topic_id: str, embedding: NDArray[np.float16]) -> None:
        """One more topic; one whose embedding has another shape than the first one's is left out."""
        if not self.ids:
            self.matrix = np.empty((_FIRST_ROWS, *embedding.shape), np.float32)
        if self.matrix.shape[1:] != embedding.shape:
            return
        place = len(self.ids)
        if place == len(self.matrix):
            self.matrix = np.concatenate([self.matrix, np.empty_like(self.matrix)])
        self.matrix[place] = embedding
        self.ids.append(topic_id)
        self.places[topic_id] = place

    def remove(self, topic_id: str) -> None:
        """Leave a topic out; the last one takes its place."""
        if (place := self.places.pop(topic_id, None)) is None:
            return
        last = self.ids.pop()
        if last != topic_id:
            self.ids[place], self.places[last] = last, place
            self.matrix[place] = self.matrix[len(self.ids)]


class TopicIndex:
    """All topics of a thread, merged and archived ones too, without what only readers need of them.

    `embedder`: whose vectors count. Topics that another one absorbed are known, and neither matched nor counted.
    """

    def __init__(self, embedder: str, topics: Iterable[Topic] = ()) -> None:
        self.embedder = embedder
        self._topics: dict[str, Topic] = {}
        self._absorbers: dict[str, set[str]] = defaultdict(set)
        self._hidden: set[str] = set()
        self._listed: set[str] = set()
        self._merges_changed = False
        self._having: dict[str, dict[str, int]] = defaultdict(dict)
        self._counts: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
        self._sizes = {False: 0, True: 0}
        self._directed = {False: Directed(), True: Directed()}
        self.users_turns: dict[str, int] = {}
        """By topic id: its `access_count` and the turn that opened it."""
        self._stale: set[str] = set()
        self._foreign: set[str] = set()
        self._words = 0
        for topic in topics:
            self.put(topic)

    def __len__(self) -> int:
        return len(self._topics)

    @property
    def nbytes(self) -> int:
        """Memory taken, in bytes, estimated."""
        vectors = sum(each.matrix.nbytes for each in self._directed.values())
        return vectors + len(self._topics) * _TOPIC_BYTES + self._words * _WORD_BYTES

    # --- what it holds ---------------------------------------------------------------------------------------
    def put(self, topic: Topic) -> None:
        """Take in a topic as it is stored, in the place of the one of its id."""
        self.hold(_slim(topic))

    def hold(self, topic: Topic) -> None:
        """The same for one that has little more than what matching reads, as those that `get` gives."""
        before = self._topics.get(topic.id)
        goes_on = before is not None and topic.id in self._listed and before.archived is topic.archived
        if not goes_on:
            self._unlist(topic.id)
        self._topics[topic.id] = topic
        self.users_turns[topic.id] = topic.access_count + 1
        (self._stale.add if topic.stale else self._stale.discard)(topic.id)
        (self._foreign.discard if topic.embedder == self.embedder else self._foreign.add)(topic.id)
        self._words += len(topic.words) - (0 if before is None else len(before.words))
        self._relate(topic.id, () if before is None else before.absorbed, topic.absorbed)
        if before is not None and goes_on:
            self._list_again(before, topic)
        elif not self._merges_changed and topic.id not in self._hidden:
            self._list(topic.id)

    def drop(self, topic_id: str) -> None:
        """Forget a topic."""
        self._unlist(topic_id)
        if (before := self._topics.pop(topic_id, None)) is not None:
            self._words -= len(before.words)
            del self.users_turns[topic_id]
            self._stale.discard(topic_id)
            self._foreign.discard(topic_id)
            self._relate(topic_id, before.absorbed, ())

    def get(self, topic_id: str) -> Topic | None:
        """The very topic of that id, whatever absorbed it; without its title, phrases and summary's text."""
        return self._topics.get(topic_id)

    def root(self, topic_id: str) -> Topic | None:
        """The topic that a turn with this id belongs to: the one that absorbed it, or itself; None if there is none."""
        self._settle_merges()
        if topic_id in self._listed:
            return self._topics[topic_id]
        standing = sorted(each for each in self._absorbers.get(topic_id, ()) if each in self._listed)
        return self._topics[standing[0]] if standing else None

    def standing(self, *, archived: bool) -> list[Topic]:
        """The topics that stand for themselves and are, or aren't, archived; looks at all of them."""
        self._settle_merges()
        found = (self._topics[topic_id] for topic_id in sorted(self._listed))
        return [topic for topic in found if topic.archived is archived]

    def newest(self) -> Topic | None:
        """The active topic that the thread's latest turn is in; looks at all of them."""
        return newest(self.standing(archived=False))

    @property
    def stale(self) -> bool:
        """True if some topics, merged ones too, have to be made anew."""
        return bool(self._stale)

    @property
    def foreign(self) -> list[str]:
        """The ids of active topics that stand and have no embedding of this model."""
        self._settle_merges()
        found = sorted(self._foreign & self._listed)
        return [topic_id for topic_id in found if not self._topics[topic_id].archived]

    @property
    def rest(self) -> bool:
        """True if some of the topics that stand are archived."""
        self._settle_merges()
        return self._sizes[True] > 0

    def beside(self, topic_id: str, *, archived: bool) -> WordCounts:
        """Counts of the other topics that have a word: of the active ones, and with `archived` of those as well."""
        self._settle_merges()
        kinds = (False, True) if archived else (False,)
        own = self._topics.get(topic_id) if topic_id in self._listed else None
        if own is not None and own.archived not in kinds:
            own = None
        words: Mapping[str, object] = {} if own is None else own.words
        active, resting = self._counts[False], self._counts[True] if archived else Counter[str]()
        return WordCounts(
            topics=sum(self._sizes[kind] for kind in kinds) - (own is not None),
            having=lambda word: active.get(word, 0) + resting.get(word, 0) - (word in words),
        )

    # --- matching --------------------------------------------------------------------------------------------
    def offers(self, topic_id: str, *, archived: bool) -> bool:
        """True if turns may join the topic: it stands, and is active unless `archived`."""
        self._settle_merges()
        return topic_id in self._listed and (archived or not self._topics[topic_id].archived)

    def is_archived(self, topic_id: str) -> bool:
        """True for a topic that rests."""
        return self._topics[topic_id].archived

    def directed(self, shape: tuple[int, ...], *, archived: bool) -> list[Directed]:
        """The topics with an embedding of this shape: the active ones, and with `archived` those that are behind them."""
        self._settle_merges()
        kinds = (False, True) if archived else (False,)
        found = [self._directed[kind] for kind in kinds]
        return [each for each in found if each.ids and each.matrix.shape[1:] == shape]

    def having(self, word: str) -> Mapping[str, int]:
        """The topics that stand and have the word: how many of each one's turns, by id."""
        return self._having.get(word, {})

    # --- keeping it ------------------------------------------------------------------------------------------
    def _relate(self, topic_id: str, before: tuple[str, ...], now: tuple[str, ...]) -> None:
        if before != now:
            for absorbed in before:
                self._absorbers[absorbed].discard(topic_id)
            for absorbed in now:
                self._absorbers[absorbed].add(topic_id)
            self._merges_changed = True
        elif self._absorbers.get(topic_id):
            self._merges_changed = True

    def _settle_merges(self) -> None:
        """Which topics stand, found out anew after merges and splits, which people make."""
        if not self._merges_changed:
            return
        self._merges_changed = False
        standing = {topic.id for topic in unmerged(self._topics.values())}
        self._hidden = set(self._topics) - standing
        for topic_id in self._listed - standing:
            self._unlist(topic_id)
        for topic_id in standing - self._listed:
            self._list(topic_id)

    def _list(self, topic_id: str) -> None:
        topic = self._topics[topic_id]
        self._listed.add(topic_id)
        self._sizes[topic.archived] += 1
        self._counts[topic.archived].update(topic.words.keys())
        for word, (turns, _) in topic.words.items():
            self._having[word][topic_id] = turns
        if topic.embedder == self.embedder and has_direction(topic):
            self._directed[topic.archived].add(topic_id, topic.embedding)

    def _list_again(self, before: Topic, topic: Topic) -> None:
        """Of a topic that got some turns most is as it was."""
        counts = self._counts[topic.archived]
        for word, told in topic.words.items():
            known = before.words.get(word)
            if known is None:
                counts[word] += 1
            if known != told:
                self._having[word][topic.id] = told[0]
        for word in before.words.keys() - topic.words.keys():
            self._leave(word, before)
        if topic.embedding is not before.embedding:
            self._directed[topic.archived].remove(topic.id)
            if topic.embedder == self.embedder and has_direction(topic):
                self._directed[topic.archived].add(topic.id, topic.embedding)

    def _leave(self, word: str, topic: Topic) -> None:
        """The topic, listed until now, has the word no more."""
        having, counts = self._having[word], self._counts[topic.archived]
        del having[topic.id]
        counts[word] -= 1
        if not counts[word]:
            del counts[word]
        if not having:
            del self._having[word]

    def _unlist(self, topic_id: str) -> None:
        if topic_id not in self._listed:
            return
        topic = self._topics[topic_id]
        self._listed.discard(topic_id)
        self._sizes[topic.archived] -= 1
        for word in topic.words:
            self._leave(word, topic)
        self._directed[topic.archived].remove(topic_id)


def has_direction(topic: Topic) -> bool:
    """True for a topic with an embedding that is not zero."""
    if not topic.embedding.size:
        return False
    embedding = topic.embedding.astype(np.float32)
    norm = math.sqrt(float(embedding @ embedding))
    return math.isfinite(norm) and norm >= LEAST_NORM


def _slim(topic: Topic) -> Topic:
    summary = topic.summary and dataclasses.replace(topic.summary, text="")
    words = {sys.intern(word): (turns, "") for word, (turns, _) in topic.words.items()}
    return dataclasses.replace(topic, title="", opener=topic.opener[:1], words=words, summary=summary)


@dataclasses.dataclass(slots=True)
class _Entry:
    lock: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
    index: TopicIndex | None = None
    mark: TopicMark | None = None
    nbytes: int = 0
    used: float = dataclasses.field(default_factory=time.monotonic)


class TopicIndexCache:
    """The indexes of the threads that are at work, within a memory budget, the least recently used out first.

    One that was not asked for in `idle_seconds` goes, so that what was erased meanwhile leaves memory too.
    """

    def __init__(
        self,
        store: TopicStore,
        embedder: Callable[[], str],
        *,
        idle_seconds: float,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """`embedder`: gives the fingerprint of the model whose vectors count."""
        self._store, self._embedder = store, embedder
        self._idle_seconds, self._max_bytes = idle_seconds, max_bytes
        self._entries: OrderedDict[Scope, _Entry] = OrderedDict()
        self.nbytes = 0
        """Memory taken by all indexes, in bytes, estimated."""

    @contextlib.asynccontextmanager
    async def of(self, scope: Scope) -> AsyncIterator[TopicIndex]:
        """The thread's index, as fresh as the store is now, and nobody else's while the block lasts."""
        self.drop_idle()
        entry = self._entries.setdefault(scope, _Entry())
        self._entries.move_to_end(scope)
        async with entry.lock:
            try:
                yield await self._freshened(scope, entry)
            finally:
                entry.used = time.monotonic()
                self._measure(scope, entry)
        self._shrink(keep=scope)

    async def _freshened(self, scope: Scope, entry: _Entry) -> TopicIndex:
        embedder, index = self._embedder(), entry.index
        if index is None or index.embedder != embedder:
            index, entry.mark = TopicIndex(embedder), None
        changes = await self._store.changed_topics(scope, after=entry.mark)
        if changes.whole:
            index = TopicIndex(embedder)
        for count, topic in enumerate(changes.topics, start=1):
            index.put(topic)
            if count % _PUT_AT_ONCE == 0:
                await asyncio.sleep(0)  # what was put before a cancellation is put again
        entry.index, entry.mark = index, changes.mark
        return index

    def _measure(self, scope: Scope, entry: _Entry) -> None:
        if self._entries.get(scope) is entry and entry.index is not None:
            self.nbytes += entry.index.nbytes - entry.nbytes
            entry.nbytes = entry.index.nbytes

    def __contains__(self, scope: Scope) -> bool:
        return scope in self._entries

    def drop(self, user_id: str) -> None:
        """Forget the indexes of a user's threads: something was forgotten."""
        for scope in [scope for scope in self._entries if scope.user_id == user_id]:
            self._forget(scope)

    def _forget(self, scope: Scope) -> None:
        self.nbytes -= self._entries.pop(scope).nbytes

    def drop_idle(self) -> None:
        """Forget the indexes that nobody asked for in `idle_seconds`."""
        oldest = time.monotonic() - self._idle_seconds
        self._forget_first(lambda entry: entry.used < oldest)

    def _shrink(self, *, keep: Scope) -> None:
        self._forget_first(
            lambda entry: self.nbytes > self._max_bytes and entry is not self._entries.get(keep)
        )

    def _forget_first(self, goes: Callable[[_Entry], bool]) -> None:
        """Forget those used least recently for as long as `goes`; one in use stays, and those behind it for now."""
        while self._entries:
            scope, entry = next(iter(self._entries.items()))
            if entry.lock.locked() or not goes(entry):
                return
            self._forget(scope)
