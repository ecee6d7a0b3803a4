"""Topic projection: a topic folded from its turns in order, first and anew.

A topic says up to which `seq` it holds its turns, and is saved under a revision, so that folding twice changes nothing.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_agent.domain import Topic
from memory_agent.errors import BackendError, EmbedderUnavailable, StoreError, StoreUnavailable
from memory_agent.optimistic import Tries, overtaken
from memory_agent.ports import known_fingerprint
from memory_agent.topics.matching import joined_embedding, turn_terms, turn_vector, without_direction
from memory_agent.topics.merged import load_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from memory_agent.domain import Scope, Stage, Turn
    from memory_agent.ports import Clock, DocumentStore, Embedder

    Vectors = Mapping[str, NDArray[np.float32]]
    """Turn id -> one unit vector, shape (dimension,)."""

log = logging.getLogger(__name__)

TITLE_CHARS: Final = 80
_FOLD_TURNS: Final = 500


def folded(
    topic: Topic, turns: Sequence[Turn], vectors: Vectors, *, embedder: str, least_terms: int
) -> Topic:
    """`topic` with further turns of its own, by rising `seq`; none of them is in it yet.

    The first user's turn titles it, each later one is an access. Turns with at least `least_terms` words of their own
    move its embedding, which is of `embedder`'s vectors. A topic that gets a new turn is not archived any more, unless it is being made anew.
    """
    for turn in turns:
        opening = topic.through == 0
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
        known = topic.embedded if topic.embedder == embedder else 0
        if (vector := joining(turn, vectors, known, least_terms)) is not None:
            changes |= {
                "embedding": joined_embedding(topic.embedding, known, vector),
                "embedded": known + 1,
                "embedder": embedder,
            }
        topic = dataclasses.replace(topic, **changes)  # type: ignore[arg-type]
    return topic


def joining(turn: Turn, vectors: Vectors, known: int, least_terms: int) -> NDArray[np.float32] | None:
    """The turn's vector if it is to become part of an embedding with `known` vectors in it.

    "Yes, the second one" would draw a topic away from its subject. But a topic has to have some embedding, or nothing
    could ever come back to it.
    """
    return None if known and turn_terms(turn.content) < least_terms else vectors.get(turn.id)


def _accessed(topic: Topic, turn: Turn, *, opening: bool) -> dict[str, object]:
    if not topic.title:
        latest = turn.timestamp if opening else max(topic.last_access, turn.timestamp)
        return {"title": title_of(turn.content), "last_access": latest}
    return {"access_count": topic.access_count + 1, "last_access": max(topic.last_access, turn.timestamp)}


def title_of(content: str) -> str:
    """The first 80 characters of a message, on one line."""
    return " ".join(content[: 10 * TITLE_CHARS].split())[:TITLE_CHARS] or "…"


def emptied(topic: Topic) -> Topic:
    """`topic` without what is derived from its turns: what it starts from when it is made anew."""
    return dataclasses.replace(
        topic,
        title="",
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
    """Whose vectors the search rows hold; it is asked for speakers' names only."""
    least_terms: int
    """See `folded`."""
    owe_compact: bool
    """Topics that were made anew are to be compacted, if they need it."""

    @property
    def fingerprint(self) -> str:
        """Whose vectors count. Raises EmbedderUnavailable while that is not known: nothing is looked for here."""
        known = known_fingerprint(self.embedder)
        if not known:
            raise EmbedderUnavailable("no embedding model was found yet, so nobody knows whose vectors count")
        return known

    async def take_in(self, topic_id: str, members: Sequence[Turn], fresh: Collection[str]) -> None:
        """Bring the topic up to its turns, of which `members` are some; `fresh` turns have just got its id."""
        async for _ in Tries():
            topic = await load_topic(self.store, members[0].scope, topic_id)
            topic = topic or _opened_by(members[0], topic_id)
            if topic.stale or any(turn.id in fresh and turn.seq <= topic.through for turn in members):
                # A turn that comes late (it was parked) does not fit behind the last one.
                await self.renew(topic)
                return
            if await self._fold(topic):
                return
        raise overtaken(f"the topic {topic_id}")

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
        return folded(
            topic,
            turns,
            await self.vectors(topic.user_id, turns),
            embedder=self.fingerprint,
            least_terms=self.least_terms,
        )

    async def are_current(self, topics: Sequence[Topic]) -> list[Topic]:
        """Those of another model's topics whose turns have this model's vectors by now."""
        newest = {turn.id: topic for topic in topics for turn in await self._newest_turn(topic)}
        if not newest:
            return []
        rows = await self.store.search_rows(topics[0].user_id, ids=list(newest))
        return [newest[row.turn_id] for row in rows if row.embedder == self.fingerprint]

    async def vectors(self, user_id: str, turns: Sequence[Turn]) -> dict[str, NDArray[np.float32]]:
        """By turn id; without what the speaker's name adds to them."""
        if not turns:
            return {}
        rows = await self.store.search_rows(user_id, ids=[turn.id for turn in turns])
        names = await self._names(turns)
        speakers = {turn.id: turn.speaker for turn in turns}
        vectors = {}
        for row in rows:
            if row.embedder != self.fingerprint or (vector := turn_vector(row.vectors)) is None:
                continue
            name = names.get(speakers[row.turn_id] or "")
            vectors[row.turn_id] = vector if name is None else without_direction(vector, name)
        return vectors

    async def _fold(self, topic: Topic) -> bool:
        """Save `topic` with the turns it does not hold yet; False if another was first."""
        while True:
            turns = await self.store.list_turns(
                topic.scope, topic_ids=topic.turns_of, after_seq=topic.through, limit=_FOLD_TURNS
            )
            if not turns and not topic.stale:
                return True
            done = len(turns) < _FOLD_TURNS
            updated = dataclasses.replace(await self._with(topic, turns), stale=topic.stale and not done)
            if not await self.store.save_topic(updated, expected=topic.revision):
                return False
            if topic.revision is None:
                await self._undo_if_forgotten(updated, turns)
            if done:
                return True
            found = await load_topic(self.store, topic.scope, topic.id)
            if found is None or found.through != updated.through:
                return False
            topic = found

    async def _undo_if_forgotten(self, topic: Topic, turns: Sequence[Turn]) -> None:
        """Forgetting bars a topic from being saved by its revision; one that is only made now has none to bar."""
        alive = await self.store.list_turns(topic.scope, ids=[turn.id for turn in turns])
        if len(alive) < len(turns) and (saved := await load_topic(self.store, topic.scope, topic.id)):
            await self.renew(saved)

    async def _owe(self, topic: Topic, stage: Stage) -> None:
        for turn in await self._newest_turn(topic):
            await self.store.owe(topic.scope, stage, now=self.clock.now(), turn_ids=[turn.id])

    async def _newest_turn(self, topic: Topic) -> list[Turn]:
        return await self.store.list_turns(topic.scope, topic_ids=topic.turns_of, limit=1, newest=True)

    async def _names(self, turns: Sequence[Turn]) -> dict[str, NDArray[np.float32]]:
        """By speaker: the vector of what `Turn.searchable_text` puts before a text. The embedder remembers them."""
        speakers = sorted({turn.speaker for turn in turns if turn.speaker})
        if not speakers:
            return {}
        embedded = await self.embedder.embed([f"{name}:" for name in speakers], purpose="document")
        return dict(zip(speakers, embedded, strict=True))


def _opened_by(turn: Turn, topic_id: str) -> Topic:
    return Topic(
        id=topic_id,
        user_id=turn.user_id,
        thread_id=turn.thread_id,
        created_at=turn.timestamp,
        last_access=turn.timestamp,
    )
