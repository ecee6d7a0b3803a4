"""The topics stage: each turn of a thread joins a topic or opens one, in the order of the thread.

A turn carries its topic's id, and that is the truth; the rest of a topic is folded from its turns. First the turns
get their ids (a first assignment stands), then each topic takes in those of its turns that it does not hold yet,
under a revision. So a stage that is cut short or runs twice changes nothing.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.domain import Topic
from memory_agent.errors import StoreUnavailable
from memory_agent.recall.families import family_of, newest, standing
from memory_agent.remember.matching import (
    joined_embedding,
    match_topic,
    turn_terms,
    turn_vector,
    without_direction,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import Scope, Turn
    from memory_agent.ports import Clock, DocumentStore, Embedder
    from memory_agent.remember.matching import MatchSettings

    Vectors = Mapping[str, NDArray[np.float32]]
    """Turn id -> one unit vector, shape (dimension,)."""

log = logging.getLogger(__name__)

TITLE_CHARS: Final = 80
DEFAULT_IMPORTANCE: Final = 0.5
_FOLD_TURNS: Final = 500
_TRIES: Final = 50


def folded(
    topic: Topic, turns: Sequence[Turn], vectors: Vectors, *, embedder: str, least_terms: int
) -> Topic:
    """`topic` with further turns of its own, by rising `seq`; none of them is in it yet.

    The first user's turn titles it, each later one is an access. Turns with at least `least_terms` words of their own
    move its embedding, which is of `embedder`'s vectors. A topic that gets a new turn is not archived any more, unless it is being made anew.
    """
    for turn in turns:
        opening = topic.through == 0
        changes: dict[str, object] = {
            "through": turn.seq,
            "archived": topic.archived and topic.stale,
            "given_importance": max(topic.given_importance, _given(turn)) if not opening else _given(turn),
        }
        if opening:
            changes |= {"created_at": turn.timestamp, "last_access": turn.timestamp}
        if turn.role == "user":
            changes |= _accessed(topic, turn, opening=opening)
        known = topic.embedded if topic.embedder == embedder else 0
        if (vector := _joining(turn, vectors, known, least_terms)) is not None:
            changes |= {
                "embedding": joined_embedding(topic.embedding, known, vector),
                "embedded": known + 1,
                "embedder": embedder,
            }
        topic = dataclasses.replace(topic, **changes)  # type: ignore[arg-type]
    return topic


def _joining(turn: Turn, vectors: Vectors, known: int, least_terms: int) -> NDArray[np.float32] | None:
    """The turn's vector if it is to become part of an embedding with `known` vectors in it.

    "Yes, the second one" would draw a topic away from its subject. But a topic has to have some embedding, or nothing
    could ever come back to it.
    """
    return None if known and turn_terms(turn.content) < least_terms else vectors.get(turn.id)


def _given(turn: Turn) -> float:
    return DEFAULT_IMPORTANCE if turn.importance is None else turn.importance


def _accessed(topic: Topic, turn: Turn, *, opening: bool) -> dict[str, object]:
    if not topic.title:
        latest = turn.timestamp if opening else max(topic.last_access, turn.timestamp)
        return {"title": title_of(turn.content), "last_access": latest}
    return {
        "access_count": topic.access_count + 1,
        "last_access": max(topic.last_access, turn.timestamp),
    }


def title_of(content: str) -> str:
    """The first 80 characters of a message, on one line."""
    return " ".join(content[: 10 * TITLE_CHARS].split())[:TITLE_CHARS] or "…"


def _opened_by(turn: Turn, topic_id: str) -> Topic:
    return Topic(
        id=topic_id,
        user_id=turn.user_id,
        thread_id=turn.thread_id,
        created_at=turn.timestamp,
        last_access=turn.timestamp,
    )


def emptied(topic: Topic) -> Topic:
    """`topic` without what is derived from its turns: what it starts from when it is made anew."""
    return dataclasses.replace(
        topic,
        title="",
        access_count=0,
        given_importance=DEFAULT_IMPORTANCE,
        embedding=np.empty(0, dtype=np.float16),
        embedded=0,
        embedder="",
        summary=None,
        through=0,
        stale=True,
    )


class TopicKeeper:
    """Runs the topics stage, and makes topics anew whose turns have changed."""

    def __init__(
        self,
        store: DocumentStore,
        clock: Clock,
        *,
        embedder: Embedder,
        settings: MatchSettings,
    ) -> None:
        """`embedder`: whose vectors the search rows hold; it is asked for speakers' names only."""
        self._store = store
        self._clock = clock
        self._embedder = embedder
        self._fingerprint = embedder.fingerprint
        self._settings = settings

    async def assign(self, turns: Sequence[Turn]) -> None:
        """Give turns of one thread, by rising `seq`, their topics. Assistants' turns follow what they answer."""
        scope = turns[0].scope
        await self.renew_stale(scope)
        topics = standing(await self._store.list_topics(scope, archived=False))
        vectors = await self._vectors(scope.user_id, turns)
        topics = await self._of_this_embedder(topics)
        chosen = self._choose(turns, topics, vectors)
        if chosen:
            await self._store.assign_topics(scope, chosen)
        # Another worker may have been first with some: what the store says stands.
        stored = await self._store.list_turns(scope, ids=[turn.id for turn in turns])
        fresh = {turn.id for turn in turns if turn.topic_id is None}
        joined: dict[str, list[Turn]] = defaultdict(list)
        for turn in stored:
            if turn.topic_id is not None:
                family = family_of(topics, turn.topic_id)
                joined[turn.topic_id if family is None else family.id].append(turn)
        for topic_id, members in joined.items():
            await self._take_in(topic_id, members, fresh)

    def _choose(self, turns: Sequence[Turn], topics: Sequence[Topic], vectors: Vectors) -> dict[str, str]:
        """Turn id -> topic id for those that have none yet; a new topic has the id of the turn that opens it."""
        embeddings: dict[str, tuple[NDArray[np.float16], int]] = {
            topic.id: (topic.embedding, topic.embedded) for topic in topics
        }
        latest = newest(topics)
        current = None if latest is None else latest.id
        chosen: dict[str, str] = {}
        for turn in turns:
            topic_id: str | None
            if turn.topic_id is not None:
                family = family_of(topics, turn.topic_id)
                topic_id = turn.topic_id if family is None else family.id
            elif turn.role != "user":
                topic_id = current  # before the first question there is nothing to follow
            else:
                terms = turn_terms(turn.content)
                candidates = {known: embedding for known, (embedding, _) in embeddings.items()}
                matched = match_topic(vectors.get(turn.id), terms, candidates, current, self._settings)
                topic_id = turn.id if matched is None else matched
            if topic_id is None:
                continue
            if turn.topic_id is None:
                chosen[turn.id] = topic_id
                embedding, count = embeddings.get(topic_id, (np.empty(0, dtype=np.float16), 0))
                least_terms = self._settings.short_turn_terms
                if (vector := _joining(turn, vectors, count, least_terms)) is not None:
                    embedding, count = joined_embedding(embedding, count, vector), count + 1
                embeddings[topic_id] = (embedding, count)
            current = topic_id
        return chosen

    async def _of_this_embedder(self, topics: Sequence[Topic]) -> list[Topic]:
        """The topics, those of another model's vectors made anew."""
        current = []
        for topic in topics:
            if topic.embedded and topic.embedder != self._fingerprint:
                renewed = await self._renew(topic)
                current += [renewed] if renewed is not None else []
            else:
                current.append(topic)
        return current

    async def _take_in(self, topic_id: str, members: Sequence[Turn], fresh: Collection[str]) -> None:
        """Bring the topic up to its turns, of which `members` are some; `fresh` turns have just got its id."""
        first = members[0]
        for _ in range(_TRIES):
            found = await self._store.list_topics(first.scope, ids=[topic_id])
            topic = found[0] if found else _opened_by(first, topic_id)
            if topic.stale or any(turn.id in fresh and turn.seq <= topic.through for turn in members):
                # A turn that comes late (it was parked) does not fit behind the last one.
                await self._renew(topic)
                return
            if await self._fold(topic):
                return
        raise _overtaken(topic_id)

    async def _fold(self, topic: Topic) -> bool:
        """Save `topic` with the turns it does not hold yet; False if another was first."""
        while True:
            turns = await self._store.list_turns(
                topic.scope, topic_ids=topic.turns_of, after_seq=topic.through, limit=_FOLD_TURNS
            )
            if not turns and not topic.stale:
                return True
            vectors = await self._vectors(topic.user_id, turns)
            done = len(turns) < _FOLD_TURNS
            updated = folded(
                topic,
                turns,
                vectors,
                embedder=self._fingerprint,
                least_terms=self._settings.short_turn_terms,
            )
            updated = dataclasses.replace(updated, stale=topic.stale and not done)
            if not await self._store.save_topic(updated, expected=topic.revision):
                return False
            if done:
                return True
            found = await self._store.list_topics(topic.scope, ids=[topic.id])
            if not found or found[0].through != updated.through:
                return False
            topic = found[0]

    async def renew_stale(self, scope: Scope) -> int:
        """Make anew the topics of the scope whose turns have changed, and delete those without any; how many."""
        topics = await self._store.list_topics(scope, stale=True)
        for topic in topics:
            await self._renew(topic)
        return len(topics)

    async def _renew(self, topic: Topic) -> Topic | None:
        """The topic folded anew from all of its turns; None if there are none left, and it is deleted."""
        scope = topic.scope
        for _ in range(_TRIES):
            turns = await self._store.list_turns(scope, topic_ids=topic.turns_of, limit=1, newest=True)
            if not turns:
                gone = topic.revision is None or await self._store.delete_topic(
                    scope, topic.id, expected=topic.revision
                )
                if gone:
                    return None
            elif await self._fold(emptied(topic)):
                found = await self._store.list_topics(scope, ids=[topic.id])
                if found and topic.summary is None:
                    await self._owe_summary(found[0])
                return found[0] if found else None
            again = await self._store.list_topics(scope, ids=[topic.id])
            if not again:
                return None
            topic = again[0]
        raise _overtaken(topic.id)

    async def _owe_summary(self, topic: Topic) -> None:
        """Have the compact stage summarise anew what is compressed of the topic."""
        packed = await self._store.list_turns(
            topic.scope, topic_ids=topic.turns_of, compressed=True, limit=1, newest=True
        )
        if packed:
            await self._store.owe(topic.scope, "compact", now=self._clock.now(), turn_ids=[packed[0].id])

    async def _vectors(self, user_id: str, turns: Sequence[Turn]) -> dict[str, NDArray[np.float32]]:
        """By turn id; without what the speaker's name adds to them."""
        if not turns:
            return {}
        rows = await self._store.search_rows(user_id, ids=[turn.id for turn in turns])
        names = await self._names(turns)
        speakers = {turn.id: turn.speaker for turn in turns}
        vectors = {}
        for row in rows:
            if row.embedder != self._fingerprint or (vector := turn_vector(row.vectors)) is None:
                continue
            name = names.get(speakers[row.turn_id] or "")
            vectors[row.turn_id] = vector if name is None else without_direction(vector, name)
        return vectors

    async def _names(self, turns: Sequence[Turn]) -> dict[str, NDArray[np.float32]]:
        """By speaker: the vector of what `searchable_text` puts before a text. The embedder remembers them."""
        speakers = sorted({turn.speaker for turn in turns if turn.speaker})
        if not speakers:
            return {}
        embedded = await self._embedder.embed([f"{name}:" for name in speakers], purpose="document")
        return dict(zip(speakers, embedded, strict=True))


def _overtaken(topic_id: str) -> StoreUnavailable:
    return StoreUnavailable(f"other writers changed the topic {topic_id} {_TRIES} times in a row; try again")
