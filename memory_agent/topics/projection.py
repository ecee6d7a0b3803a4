"""Projection: which topic a turn joins, and a topic folded from its turns in order, first and anew.

A topic says up to which `seq` it holds its turns, and is saved under a revision, so that folding twice changes nothing.

A turn is held against each topic by meaning and by words:

    u·e - chance + sum of idf(w) share(w) / (share(w) + 0.1) over its words / (sum of idf(w) + 2)

with u the turn's unit vector; e the topic's embedding, a mean of unit vectors, so that u·e is the mean cosine with the
topic's recent turns and a topic of everything is near to nothing; chance the cosine that the model gives any two texts
of the turn's language; share(w) the part of the topic's turns that have the word; idf(w) = log((topics + 1) / topics with w).
A vector alone cannot part what a model hardly knows (Korean for an English model), words alone miss paraphrases.

It joins the best topic that reaches a threshold. The topic of the turn before has a bonus, since people mostly go on with
what they are talking about; an archived one has to be surer by as much. A turn with next to no content of its own ("yes, the
second one") never opens a topic: its subject is in the turns around it.

Figures behind every constant: `docs/topics.md`, measured by `python -m benchmarks.topics`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from memory_agent.concurrency import Tries, overtaken
from memory_agent.domain import Topic
from memory_agent.errors import BackendError, EmbedderUnavailable, StoreError, StoreUnavailable
from memory_agent.ports import known_fingerprint
from memory_agent.products import product
from memory_agent.text.subjects import Subject, everyday_kinds, languages_of, points_outside, subject_of
from memory_agent.topics.index import LEAST_NORM, load_topic, opener_of, title_of, with_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import Scope, Stage, Turn
    from memory_agent.ports import Clock, DocumentStore, Embedder
    from memory_agent.topics.index import Directed, TopicIndex, TopicIndexCache

    Subjects: TypeAlias = "Mapping[str, TurnSubject]"
    """By turn id."""


RECENT_VECTORS: Final = 5
"""A vector that joins a topic weighs at least one part in so many of its embedding."""

_HALF_SHARE: Final = 0.1
"""A word that one in ten of a topic's turns has counts half as much as one that all have."""
_PRIOR_WORDS: Final = 2.0
"""In units of idf: one word that two short turns share is no proof."""
_FEW_WORDS: Final = 5
"""So many or fewer a turn has that says "it" of what was said before, and no noun of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchSettings:
    """Thresholds for joining a topic.

    `similarity_threshold`: the score from which a turn joins a topic; `continuation_bonus`: what the score with the topic of the turn
    before has more, and that with an archived one less; `short_turn_terms`: a turn with fewer words of its own
    (`Subject.size`) opens no topic while there is one to stay in.
    """

    similarity_threshold: float = 0.35
    continuation_bonus: float = 0.15
    short_turn_terms: int = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnSubject:
    """Subject and vector of a turn, by which it is matched.

    `vector`: of unit length, shape (dimension,), or None for a turn without one; `chance`: the cosine that two texts of its
    language have that have nothing to do with each other; `words`: as in `Subject`; `size`: the same. `embedder`: the
    fingerprint of the model that the vector is of, which may have changed since.
    """

    vector: NDArray[np.float32] | None = None
    embedder: str = ""
    chance: float = 0.0
    words: Mapping[str, str] = field(default_factory=dict)
    size: int = 0


def match_topic(
    turn: TurnSubject,
    among: TopicIndex,
    current: str | None,
    settings: MatchSettings,
    *,
    archived: bool = True,
) -> str | None:
    """The id of the topic that a turn joins; None: it opens one.

    `among`: the thread's topics, those that rest only with `archived`. `current`: the topic of the turn before; one that is not
    among them (none yet) counts as none: even a short turn then joins the best topic above the threshold or opens one,
    because every turn has a topic. A turn without a direction (no vector, zeros, another model's) stays in the current topic. Of equal
    topics the current one wins, then the lesser id, in whatever order they came.
    """
    staying = current if current is not None and among.offers(current, archived=archived) else None
    unit = None if turn.vector is None or turn.embedder != among.embedder else _unit(turn.vector)
    if unit is None:
        return staying
    best: list[tuple[float, bool, str]] = []
    for topics, scores in topic_scores(unit, turn, among, archived=archived):
        if among.is_archived(topics.ids[0]):
            scores -= settings.continuation_bonus
        if staying in topics.places:
            scores[topics.places[staying]] += settings.continuation_bonus
        best += [
            (-float(scores[place]), topics.ids[place] != staying, topics.ids[place])
            for place in np.flatnonzero(scores == scores.max())
        ]
    if best and -min(best)[0] >= settings.similarity_threshold:
        return min(best)[2]
    return staying if turn.size < settings.short_turn_terms else None


def topic_scores(
    unit: NDArray[np.float32], turn: TurnSubject, among: TopicIndex, *, archived: bool
) -> list[tuple[Directed, NDArray[np.float64]]]:
    """Topics that have an embedding, with the score of the turn, of unit vector `unit`, with each of them.

    Active ones, and with `archived` behind them those that rest.
    """
    looked = among.directed(unit.shape, archived=archived)
    overlaps = word_scores(turn.words, among, looked)
    return [
        (topics, (product(topics.embeddings, unit) - turn.chance).astype(np.float64) + overlap)
        for topics, overlap in zip(looked, overlaps, strict=True)
    ]


def word_scores(
    words: Iterable[str], among: TopicIndex, looked: Sequence[Directed]
) -> list[NDArray[np.float64]]:
    """Shares of the words that each of the topics has that are looked at, in [0, 1): the second part of the formula above."""
    sums, all_of_it = [[0.0] * len(topics.ids) for topics in looked], _PRIOR_WORDS
    count = sum(len(topics.ids) for topics in looked)
    all_places, users_turns = [topics.places for topics in looked], among.users_turns
    for word in words:
        told = among.having(word)
        having = [
            [
                (place, turns / users_turns[topic_id])
                for topic_id, turns in told.items()
                if (place := places.get(topic_id)) is not None
            ]
            for places in all_places
        ]
        idf = math.log((count + 1) / max(sum(map(len, having)), 1))
        all_of_it += idf
        for found, shares in zip(sums, having, strict=True):
            for place, share in shares:
                found[place] += idf * share / (share + _HALF_SHARE)
    return [np.array(found) / all_of_it for found in sums]


def joined_embedding(
    embedding: NDArray[np.floating[Any]] | None, count: int, vector: NDArray[np.floating[Any]]
) -> NDArray[np.float16]:
    """A topic's embedding after `vector` joined the `count` vectors in it, shape (dimension,), of length at most 1.

    e + w (v - e) with v the unit vector and w = max(1 / (count + 1), 1 / RECENT_VECTORS): the plain mean of the first
    few vectors, then an exponentially weighted one. A vector without a direction changes nothing. `embedding` is not
    looked at while `count` is 0.
    """
    before = None if embedding is None or count <= 0 else embedding.astype(np.float32)
    unit = _unit(vector)
    if unit is None:
        unit = np.zeros(vector.shape, np.float32) if before is None else before
    if before is None:
        return unit.astype(np.float16)
    weight = max(1.0 / (count + 1), 1.0 / RECENT_VECTORS)
    joined: NDArray[np.float16] = (before + weight * (unit - before)).astype(np.float16)
    return joined


def turn_vector(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float32] | None:
    """One unit vector for a turn: the mean of its passages, `vectors` of shape (passages, dimension).

    None for a turn without passages, or whose passages cancel out.
    """
    return None if len(vectors) == 0 else _unit(vectors.astype(np.float32).mean(axis=0))


def without_direction(
    vector: NDArray[np.floating[Any]], direction: NDArray[np.floating[Any]]
) -> NDArray[np.float32]:
    """`vector` less its part along `direction`, not scaled again; both of shape (dimension,).

    A turn of a named speaker is embedded as "speaker: text", and the name outweighs the subject: all that one person
    says looks alike. Taking out the direction of the vector of "speaker:" undoes that.
    """
    given: NDArray[np.float32] = vector.astype(np.float32)
    unit = _unit(direction)
    return given if unit is None else given - float(given @ unit) * unit


def chance_cosine(vector: NDArray[np.floating[Any]], everyday: Iterable[NDArray[np.floating[Any]]]) -> float:
    """The mean cosine of a unit `vector`, shape (dimension,), with unrelated sentences of the nearest kind; 0 without any.

    `everyday`: for each kind the unit vectors of its sentences, shape (sentences, dimension).
    """
    return max((float((vectors @ vector).mean()) for vectors in everyday), default=0.0)


def subject_beside(text: str) -> Subject:
    """The subject of a user's turn; of no size if it names nothing itself, as "And how long does it take?"."""
    said = subject_of(text)
    leans = said.size <= _FEW_WORDS and not any(said.words.values()) and points_outside(text)
    return Subject(said.words, 0) if leans else said


def _unit(vector: NDArray[np.floating[Any]]) -> NDArray[np.float32] | None:
    """`vector` at length 1; None if it has no direction."""
    given = vector.astype(np.float32)
    norm = float(np.linalg.norm(given))
    if not np.isfinite(norm) or norm < LEAST_NORM:
        return None
    unit: NDArray[np.float32] = given / norm
    return unit


log = logging.getLogger(__name__)

_FOLD_TURNS: Final = 500
_READ_INLINE: Final = 8
"""Users' turns whose words are looked through on the event loop, at up to half a millisecond each."""


def folded(topic: Topic, turns: Sequence[Turn], subjects: Subjects) -> Topic:
    """`topic` with further turns of its own, by rising `seq`; none of them is in it yet. Its title stays.

    The first user's turn is its opener, each later one an access. Turns that are not short move its embedding, which
    one of another model's vectors replaces; users' turns add their words. A topic that gets a new turn is not archived any more, unless
    it is being made anew.
    """
    for turn in turns:
        opening = topic.through == 0
        subject = subjects.get(turn.id) or TurnSubject()
        given = [one for one in (topic.given_importance, turn.importance) if one is not None]
        changes: dict[str, object] = {
            "through": turn.seq,
            "archived": topic.archived and topic.stale,
            "given_importance": max(given, default=None),
        }
        if opening:
            changes |= {"created_at": turn.timestamp, "last_access": turn.timestamp}
        if turn.role == "user":
            changes |= _accessed(topic, turn, opening=opening)
            changes["words"] = with_words(topic.words, subject.words)
        alike = subject.vector is not None and topic.embedding.shape == subject.vector.shape
        known = topic.embedded if alike and topic.embedder == subject.embedder else 0
        # "Yes, the second one" would draw a topic away from its subject. But a topic has to have some embedding.
        if subject.vector is not None and (not known or subject.size >= MatchSettings().short_turn_terms):
            changes |= {
                "embedding": joined_embedding(topic.embedding, known, subject.vector),
                "embedded": known + 1,
                "embedder": subject.embedder,
            }
        topic = dataclasses.replace(topic, **changes)  # type: ignore[arg-type]
    return topic


def _accessed(topic: Topic, turn: Turn, *, opening: bool) -> dict[str, object]:
    if not topic.opener:
        latest = turn.timestamp if opening else max(topic.last_access, turn.timestamp)
        return {"opener": opener_of(turn.said), "last_access": latest}
    return {"access_count": topic.access_count + 1, "last_access": max(topic.last_access, turn.timestamp)}


def emptied(topic: Topic) -> Topic:
    """`topic` without what is derived from its turns: what it starts from when it is made anew."""
    return dataclasses.replace(
        topic,
        title="",
        opener="",
        words={},
        access_count=0,
        given_importance=None,
        embedding=np.empty(0, dtype=np.float16),
        embedded=0,
        embedder="",
        summary=None,
        through=0,
        stale=True,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class TopicFolder:
    """Keeps stored topics in step with their turns."""

    store: DocumentStore
    clock: Clock
    embedder: Embedder
    """The search rows' own; it is asked for speakers' names and everyday sentences only."""
    indexes: TopicIndexCache
    owe_compact: bool
    """Topics that were made anew are to be compacted, if they need it."""

    @property
    def fingerprint(self) -> str:
        """Whose vectors count. Raises EmbedderUnavailable while that is not known: nothing is looked for here."""
        known = known_fingerprint(self.embedder)
        if not known:
            raise EmbedderUnavailable("no embedding model was found yet, so nobody knows whose vectors count")
        return known

    async def take_in(
        self,
        scope: Scope,
        joined: Mapping[str, Sequence[Turn]],
        fresh: Collection[str],
        index: TopicIndex,
        *,
        subjects: Subjects | None = None,
        archived: bool = True,
    ) -> set[str]:
        """Bring topics of a thread up to their turns, of which `joined` has some by topic; `fresh` ones have just got their id.

        `index`: the thread's topics, of which titles set these apart, those that rest only with `archived`. `subjects`: of
        turns where they are known. The ids of the turns that were seen to be theirs, and not yet held.
        """
        left, found = dict(joined), set[str]()
        async for _ in Tries():
            stored = {topic.id: topic for topic in await self.store.list_topics(scope, ids=list(left))}
            topics = [stored.get(topic_id) or opened_by(left[topic_id][0], topic_id) for topic_id in left]
            for topic in topics:
                members = left[topic.id]
                if topic.stale or any(turn.id in fresh and turn.seq <= topic.through for turn in members):
                    # A turn that comes late (it was parked) does not fit behind the last one.
                    await self.renew(topic)
                    del left[topic.id]
            behind = [topic for topic in topics if topic.id in left]
            saved, seen = await self._taken_in(scope, behind, index, subjects or {}, archived=archived)
            found |= seen
            left = {topic_id: members for topic_id, members in left.items() if topic_id not in saved}
            if not left:
                return found
        raise overtaken("topics of this thread")

    async def _taken_in(
        self,
        scope: Scope,
        topics: Sequence[Topic],
        index: TopicIndex,
        known: Subjects,
        *,
        archived: bool,
    ) -> tuple[set[str], set[str]]:
        """Save each with the turns it does not hold yet; the ids of those that hold them all then, and of those turns."""
        after = {topic_id: topic.through for topic in topics for topic_id in topic.turns_of}
        turns = await self.store.turns_behind(scope, after) if topics else []
        owners = {topic_id: topic for topic in topics for topic_id in topic.turns_of}
        behind: dict[str, list[Turn]] = defaultdict(list)
        for turn in turns:
            behind[owners[str(turn.topic_id)].id].append(turn)
        subjects = {**known, **await self.subjects(scope.user_id, [t for t in turns if t.id not in known])}
        made = list[Topic]()

        def fold() -> None:
            for topic in topics:
                if topic.id in behind:
                    joined = folded(topic, behind[topic.id], subjects)
                    title = title_of(joined, index.beside(topic.id, archived=archived))
                    made.append(dataclasses.replace(joined, title=title))

        await asyncio.to_thread(fold) if len(turns) > _READ_INLINE else fold()
        saved = await self.store.save_topics(made) if made else set()
        opened = {
            topic.id: behind[topic.id] for topic in made if topic.revision is None and topic.id in saved
        }
        await self._undo_if_forgotten(scope, opened)
        held = saved | {topic.id for topic in topics if topic.id not in behind}
        return held, {turn.id for turn in turns}

    async def renew_stale(self, scope: Scope) -> None:
        """Make anew the topics of the scope whose turns have changed, and delete those without any."""
        for topic in await self.store.list_topics(scope, stale=True):
            await self.renew(topic)

    async def renew_soon(self, scope: Scope) -> int:
        """`renew_stale`, for callers who cannot wait for a part that is down: what fails is owed to the worker."""
        topics = await self.store.list_topics(scope, stale=True)
        for topic in topics:
            try:
                await self.renew(topic)
            except (StoreUnavailable, StoreError):
                raise
            except BackendError as exc:
                log.warning("a topic is made anew later: %s", type(exc).__name__)
                await self._owe(topic, "topics")
        return len(topics)

    async def renew(self, topic: Topic, *, keep_summary: bool = False) -> Topic | None:
        """The topic folded anew from all of its turns; None if there are none left, and it is deleted.

        One that somebody has begun to make anew is gone on with. `keep_summary`: the turns are what they were.
        """
        scope, was_stale = topic.scope, topic.stale
        async for _ in Tries():
            if not await self._newest_turn(topic):
                if topic.revision is None or await self.store.delete_topic(
                    scope, topic.id, expected=topic.revision
                ):
                    return None
            else:
                begun = topic.stale and topic.through > 0
                empty = dataclasses.replace(emptied(topic), summary=topic.summary if keep_summary else None)
                if await self._fold(topic if begun else empty):
                    if self.owe_compact and topic.summary is None:
                        await self._owe(topic, "compact")
                    return await load_topic(self.store, scope, topic.id)
            again = await load_topic(self.store, scope, topic.id)
            if again is None or (was_stale and not again.stale):
                return again
            topic = again
        raise overtaken(f"the topic {topic.id}")

    async def anew(self, topic: Topic) -> Topic | None:
        """The topic as `renew` would make it; nothing is stored."""
        made = emptied(topic)
        while turns := await self.store.list_turns(
            topic.scope, topic_ids=topic.turns_of, after_seq=made.through, limit=_FOLD_TURNS
        ):
            made = await self._with(made, turns)
        return dataclasses.replace(made, stale=False) if made.through else None

    async def _with(self, topic: Topic, turns: Sequence[Turn]) -> Topic:
        subjects = await self.subjects(topic.user_id, turns)
        with_them = folded(topic, turns, subjects)
        async with self.indexes.of(topic.scope) as index:
            beside = index.beside(topic.id, archived=True)
            return dataclasses.replace(with_them, title=title_of(with_them, beside))

    async def are_current(self, topics: Sequence[Topic]) -> list[Topic]:
        """Those of another model's topics whose turns have this model's vectors by now."""
        newest = {turn.id: topic for topic in topics for turn in await self._newest_turn(topic)}
        if not newest:
            return []
        rows = await self.store.search_rows(topics[0].user_id, ids=list(newest))
        return [newest[row.turn_id] for row in rows if row.vectors_by(self.fingerprint) is not None]

    async def subjects(self, user_id: str, turns: Sequence[Turn]) -> dict[str, TurnSubject]:
        """By turn id, also for turns without a vector; vectors without what the speaker's name adds to them."""
        if not turns:
            return {}
        rows = {row.turn_id: row for row in await self.store.search_rows(user_id, ids=[t.id for t in turns])}
        fingerprint = self.fingerprint
        names = await _names(self.embedder, turns)
        told = await self._told([turn for turn in turns if turn.role == "user"])
        everyday: dict[tuple[str, ...], list[NDArray[np.float32]]] = {}
        subjects = {}
        for turn in turns:
            row = rows.get(turn.id)
            made = None if row is None else row.vectors_by(fingerprint)
            vector = None if made is None else turn_vector(made)
            # Of a reply the vector alone counts: it joins the topic that it follows.
            said, chance = Subject(size=0 if row is None else row.length), 0.0
            if turn.role == "user":
                said, languages = told[turn.id]
                if languages not in everyday:
                    everyday[languages] = await _everyday(self.embedder, languages)
                if vector is not None:
                    chance = chance_cosine(vector, everyday[languages])
            if vector is not None and turn.speaker in names:
                vector = without_direction(vector, names[turn.speaker])
            subjects[turn.id] = TurnSubject(
                vector=vector, embedder=fingerprint, chance=chance, words=said.words, size=said.size
            )
        return subjects

    async def _told(self, turns: Sequence[Turn]) -> dict[str, tuple[Subject, tuple[str, ...]]]:
        """By turn id: what it is about, and the languages that it may be in. Many are read beside the event loop."""

        def read() -> dict[str, tuple[Subject, tuple[str, ...]]]:
            return {turn.id: (subject_beside(turn.said), languages_of(turn.said)) for turn in turns}

        return await asyncio.to_thread(read) if len(turns) > _READ_INLINE else read()

    async def _fold(self, topic: Topic) -> bool:
        """Save `topic` with the turns it does not hold yet; False if another was first."""
        while True:
            turns = await self.store.list_turns(
                topic.scope, topic_ids=topic.turns_of, after_seq=topic.through, limit=_FOLD_TURNS
            )
            if not turns and not topic.stale:
                return True
            done = len(turns) < _FOLD_TURNS
            made = await self._with(topic, turns)
            updated = dataclasses.replace(made, stale=topic.stale and not done)
            if not await self.store.save_topics([updated]):
                return False
            if topic.revision is None:
                await self._undo_if_forgotten(topic.scope, {topic.id: turns})
            if done:
                return True
            found = await load_topic(self.store, topic.scope, topic.id)
            if found is None or found.through != updated.through:
                return False
            topic = found

    async def _undo_if_forgotten(self, scope: Scope, opened: Mapping[str, Sequence[Turn]]) -> None:
        """Forgetting bars a topic from being saved by its revision; those only made now, by id, have none to bar."""
        ids = [turn.id for turns in opened.values() for turn in turns]
        alive = {turn.id for turn in await self.store.list_turns(scope, ids=ids)} if ids else set()
        for topic_id, turns in opened.items():
            gone = not alive.issuperset(turn.id for turn in turns)
            if gone and (saved := await load_topic(self.store, scope, topic_id)):
                await self.renew(saved)

    async def _owe(self, topic: Topic, stage: Stage) -> None:
        for turn in await self._newest_turn(topic):
            await self.store.owe(topic.scope, stage, now=self.clock.now(), turn_ids=[turn.id])

    async def _newest_turn(self, topic: Topic) -> list[Turn]:
        return await self.store.list_turns(topic.scope, topic_ids=topic.turns_of, limit=1, newest=True)


async def _everyday(embedder: Embedder, languages: tuple[str, ...]) -> list[NDArray[np.float32]]:
    """Vectors of unrelated sentences in these languages, kind by kind. The embedder remembers them."""
    kinds = everyday_kinds(languages)
    return [np.asarray(await embedder.embed(kind, purpose="document")) for kind in kinds]


async def _names(embedder: Embedder, turns: Sequence[Turn]) -> dict[str, NDArray[np.float32]]:
    """By speaker: the vector of what `Turn.searchable_text` puts before a text. The embedder remembers them."""
    speakers = sorted({turn.speaker for turn in turns if turn.speaker})
    if not speakers:
        return {}
    embedded = await embedder.embed([f"{name}:" for name in speakers], purpose="document")
    return dict(zip(speakers, embedded, strict=True))


def opened_by(turn: Turn, topic_id: str) -> Topic:
    return Topic(
        id=topic_id,
        user_id=turn.user_id,
        thread_id=turn.thread_id,
        created_at=turn.timestamp,
        last_access=turn.timestamp,
    )
