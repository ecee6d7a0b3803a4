"""Topics looked after: by the sweep, which merges, archives and forgets, and by people.

It goes over all users page by page, so that memory does not grow with them, first the topics, then the ages. What
it does is found anew from the store each time, so a sweep that was cut short is simply run again; where it had come
to stands in its lease, and the next one goes on from there. A lease keeps two sweeps from running at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import logging
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from memory_agent.checks import checked_id
from memory_agent.concurrency import Tries, overtaken
from memory_agent.domain import PackedSize, Scope, Topic, TopicDecayState
from memory_agent.errors import BackendError, InvalidInput, NotFound, StoreUnavailable, SweepRunning
from memory_agent.products import product
from memory_agent.topics.index import (
    LEAST_NORM,
    AnyTopic,
    find_topic,
    load_topic,
    newest,
    no_such_topic,
    unmerged,
)
from memory_agent.topics.projection import emptied

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from memory_agent.domain import OldTurn
    from memory_agent.ports import Clock, DocumentStore
    from memory_agent.topics.packing import Compactor
    from memory_agent.topics.projection import TopicFolder
    from memory_agent.topics.stats import DecaySettings
    from memory_agent.work.forget import Forgetter


MAX_TAGS: Final = 64


def _one_already(topic_id: str, into: str) -> InvalidInput:
    return InvalidInput(f"topics {topic_id!r:.80} and {into!r:.80} are one already; name two topics")


_archived = functools.partial(replace, archived=True)


class Curator:
    """Changes topics as people ask; each change is one write under the topic's revision."""

    def __init__(self, store: DocumentStore, folder: TopicFolder, compactor: Compactor, clock: Clock) -> None:
        self._store, self._folder = store, folder
        self._compactor, self._clock = compactor, clock

    async def merge(self, scope: Scope, topic_id: str, into: str) -> Topic:
        """The turns of `topic_id` are `into`'s from now on; `split` undoes it. Raises InvalidInput for one and the same.

        The turns keep the id they have: that `into` has absorbed the other one is a single write, so that there is no
        half of a merge.
        """
        absorbed = await self._find(scope, topic_id)
        if absorbed.id == (await self._find(scope, into)).id:
            raise _one_already(topic_id, into)
        # First, so that they stay out of the way when the merged topic is archived and not among what is looked at.
        for hidden in await self._store.list_topics(scope, ids=absorbed.turns_of):
            await self._change(scope, hidden.id, _archived, itself=True)
        while True:
            taken, tags, apart = absorbed.turns_of, absorbed.tags, absorbed.parted

            def absorb(
                topic: Topic,
                taken: tuple[str, ...] = taken,
                more: tuple[str, ...] = tags,
                apart: tuple[str, ...] = apart,
            ) -> Topic:
                if topic.id in taken:
                    raise _one_already(topic_id, into)
                both = tuple(dict.fromkeys((*topic.absorbed, *taken)))
                tags = tuple(dict.fromkeys((*topic.tags, *more)))[:MAX_TAGS]
                parted = tuple(i for i in dict.fromkeys((*topic.parted, *apart)) if i not in both)
                return replace(emptied(topic), absorbed=both, tags=tags, parted=parted, archived=False)

            merged = await self._change(scope, into, absorb)
            again = await load_topic(self._store, scope, absorbed.id)
            if again is None or set(again.turns_of) <= set(merged.turns_of):
                break
            absorbed = again  # it has absorbed another one meanwhile
        await self._folder.renew_soon(scope)
        return await self._find(scope, merged.id)

    async def split(self, scope: Scope, topic_id: str) -> Topic:
        """`topic_id`, which was merged into another topic, stands for itself again, with the turns that carry its id.

        No sweep merges the two again.
        """
        checked_id("topic_id", topic_id)
        topics = await self._store.list_topics(scope)
        own = next((topic for topic in topics if topic.id == topic_id), None)
        absorbers = [topic for topic in topics if topic_id in topic.absorbed]
        if own is None or not absorbers:
            refused = InvalidInput if own else NotFound
            raise refused(
                f"topic_id is {topic_id!r:.80}, which was not merged into another topic; give the id that was merged"
            )
        # The part first: while another topic stands for it, that shows nowhere. The topic that stands last.
        await self._change(
            scope, topic_id, lambda found: replace(emptied(found), archived=False), itself=True
        )
        taken = {*own.turns_of}
        standing_ids = {topic.id for topic in unmerged(topics)}

        def part(topic: Topic) -> Topic:
            absorbed = tuple(i for i in topic.absorbed if i not in taken)
            parted = tuple(dict.fromkeys((*topic.parted, topic_id)))
            return replace(emptied(topic), absorbed=absorbed, parted=parted)

        for absorber in sorted(absorbers, key=lambda topic: topic.id in standing_ids):
            await self._change(scope, absorber.id, part, itself=True)
        await self._folder.renew_soon(scope)
        return await self._find(scope, topic_id)

    async def tag(
        self, scope: Scope, topic_id: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> Topic:
        """Add and remove tags, compared as they are; at most 64 of at most 64 characters."""
        added, removed = [tag.strip() for tag in add], {tag.strip() for tag in remove}

        def tagged(topic: Topic) -> Topic:
            tags = tuple(dict.fromkeys(tag for tag in (*topic.tags, *added) if tag not in removed))
            if len(tags) > MAX_TAGS:
                raise InvalidInput(
                    f"topic {topic_id} would have {len(tags)} tags; at most {MAX_TAGS} are kept"
                )
            return replace(topic, tags=tags)

        return await self._change(scope, topic_id, tagged)

    async def weigh(self, scope: Scope, topic_id: str, importance: float | None) -> Topic:
        """Set the importance, 0 to 1; None: as its turns say."""
        weighed = functools.partial(replace, set_importance=importance)
        return await self._change(scope, topic_id, weighed)

    async def vote(self, scope: Scope, turn_or_topic: str, *, useful: bool) -> Topic:
        """Count one vote for the topic, or for the topic of the turn. The opposite vote undoes it."""
        topic_id = checked_id("turn_or_topic", turn_or_topic)
        for turn in await self._store.list_turns(scope, ids=[turn_or_topic]):
            if turn.topic_id is None:
                if "topics" in turn.pending:
                    raise InvalidInput(f"turn {turn.id} has no topic yet", remedy=("settle", "waits for it"))
                raise InvalidInput(f"turn {turn.id} has no topic; name one that has")
            topic_id = turn.topic_id
        step = 1 if useful else -1
        return await self._change(scope, topic_id, lambda topic: replace(topic, votes=topic.votes + step))

    async def restore(self, scope: Scope, topic_id: str) -> Topic:
        """An archived topic takes part in matching again, as accessed now. Its packed turns are read as before."""
        now = self._clock.now()

        def restored(topic: Topic) -> Topic:
            return replace(topic, archived=False, last_access=max(topic.last_access, now))

        return await self._change(scope, topic_id, restored)

    async def archive(self, scope: Scope, topic_id: str) -> Topic:
        """Take a topic out of matching and pack it, as the sweep does; `restore` undoes it."""
        topic = await self._find(scope, topic_id)
        await self._compactor.pack_all(topic)
        for hidden in await self._store.list_topics(scope, ids=topic.absorbed):
            await self._change(scope, hidden.id, _archived, itself=True)
        return await self._change(scope, topic.id, _archived)

    async def _find(self, scope: Scope, topic_id: str) -> Topic:
        head = await find_topic(self._store, scope, checked_id("topic_id", topic_id))
        found = await load_topic(self._store, scope, head.id)
        if found is None:
            raise no_such_topic(scope, topic_id)
        return found

    async def _change(
        self, scope: Scope, topic_id: str, change: Callable[[Topic], Topic], *, itself: bool = False
    ) -> Topic:
        """Apply `change` to the topic (or with `itself` to the very one, whatever absorbed it), as it then is stored."""
        async for _ in Tries():
            topic = await (
                load_topic(self._store, scope, topic_id) if itself else self._find(scope, topic_id)
            )
            if topic is None:
                raise NotFound(f"topic_id is {topic_id!r:.80}, which was forgotten meanwhile")
            if await self._store.save_topics([change(topic)]):
                return await load_topic(self._store, scope, topic.id) or topic
        raise overtaken(f"the topic {topic_id}")


_SURE_MEANING: Final = 0.7
"""The cosine of their meaning from which topics may be one, less what the thread's other topics have in common."""
_SURE_WORDS: Final = 0.2
"""The cosine of their words from which they are merged: a model that hardly knows a language finds all of it alike."""


def grown_together(topics: Sequence[Topic], *, least: float = _SURE_MEANING) -> list[tuple[Topic, Topic]]:
    """Pairs of a thread's topics that are alike in meaning, nearest first.

    Of each pair the sum of all other topics, divided by the number of all, is taken away before their cosine is taken: two
    people talk alike whatever they talk about, and so do all that somebody asks an assistant.
    """
    by_model: dict[str, list[Topic]] = defaultdict(list)
    for topic in topics:
        if topic.embedded and topic.embedding.any():
            by_model[topic.embedder].append(topic)
    pairs = []
    for alike in by_model.values():
        cosines = _cosines_apart(np.stack([topic.embedding.astype(np.float32) for topic in alike]))
        near = np.argwhere(np.triu(cosines >= least, k=1))
        pairs += [(alike[i], alike[j], float(cosines[i, j])) for i, j in near]
    return [(one, other) for one, other, _ in sorted(pairs, key=lambda pair: -pair[2])]


def _cosines_apart(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The cosine of each two rows a and b, both less m = (sum of all rows - a - b) / number of rows."""
    count = len(rows)
    products = product(rows, rows)
    own = np.diag(products)
    with_all = products.sum(axis=1)
    # Written out, for there is one m for each pair: a·m, m·m, and from these (a - m)·(b - m) and |a - m|².
    by_mean = (with_all[:, None] - own[:, None] - products) / count
    pair = own[:, None] + own[None, :] + 2 * products
    means = (with_all.sum() - 2 * (with_all[:, None] + with_all[None, :]) + pair) / count**2
    lengths = np.sqrt(np.maximum(own[:, None] - 2 * by_mean + means, LEAST_NORM))
    cosines: NDArray[np.float32] = (products - by_mean - by_mean.T + means) / (lengths * lengths.T)
    return cosines


def surely_one(topics: Sequence[Topic]) -> list[tuple[Topic, Topic]]:
    """Pairs of topics that are one by meaning and by words, the later with the earlier one; each topic at most once.

    Never two that somebody has split.
    """
    having = Counter(word for topic in topics for word in topic.words)
    idf = {word: math.log((len(topics) + 1) / count) for word, count in having.items()}
    taken: set[str] = set()
    pairs = []
    for one, other in grown_together(topics):
        early, late = sorted((one, other), key=lambda topic: (topic.created_at, topic.id))
        split = {*one.parted, *other.parted}.intersection((*one.turns_of, *other.turns_of))
        if split or not taken.isdisjoint((one.id, other.id)) or _words_alike(one, other, idf) < _SURE_WORDS:
            continue
        taken |= {one.id, other.id}
        pairs.append((late, early))
    return pairs


def _words_alike(one: Topic, other: Topic, idf: Mapping[str, float]) -> float:
    """The cosine of the topics' words, each weighing as often as it is said times idf."""
    weights = [
        {word: turns * idf[word] for word, (turns, _) in topic.words.items()} for topic in (one, other)
    ]
    product = sum(weight * weights[1].get(word, 0.0) for word, weight in weights[0].items())
    norms = math.prod(math.hypot(*each.values()) for each in weights)
    return product / norms if norms else 0.0


FADE_BELOW: Final = 0.05
"""The priority below which a topic may go; at the usual importance of 0.5, after three half-lives and a third without access."""
Policy = Literal["archive", "delete"]
Deed = Literal["merge", "archive", "delete", "forget"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepSettings:
    """Settings of a sweep; units and reasons in `config/memory.toml`."""

    max_topics: int
    decay_policy: Policy
    retention_days: float | None
    forget_facts: bool
    lease_seconds: float
    decay: DecaySettings


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepAction:
    """One thing that a sweep does (or, as a dry run, would do). No text of anybody is in it.

    "merge" makes a topic a part of the topic `into`; "archive" and "delete" concern a topic, with its priority; "forget" a
    turn past the retention age.
    """

    deed: Deed
    user_id: str
    thread_id: str
    topic_id: str | None = None
    into: str | None = None
    priority: float | None = None
    turn_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepReport:
    """Report of a sweep: what it did, or as a dry run would have done.

    `threads` and `topics` were looked at, `merged`/`archived`/`deleted` topics and `forgotten` turns acted on. `packed` says
    what archiving compressed. What `failed` is tried again by the next sweep; `owed` names parts that were down,
    where the worker erases later. `skipped` threads have topics that are to be made anew and could not be, so that nothing
    can be said of them; the next sweep looks again. `resumed`: it went on from where one that was cut short had come to.
    """

    dry_run: bool
    resumed: bool
    started_at: datetime
    seconds: float
    threads: int
    topics: int
    merged: int
    archived: int
    deleted: int
    forgotten: int
    packed: PackedSize
    failed: int
    skipped: int
    owed: tuple[str, ...]
    forget_facts: bool = False
    """True if facts go with the turns that they were stated in; else they stay."""

    @property
    def whole(self) -> bool:
        """True if everything was done that there was to do."""
        return not (self.failed or self.skipped or self.owed)


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepProgress:
    """Progress of a sweep."""

    threads: int
    topics: int
    actions: int


def plan_thread(
    topics: Iterable[AnyTopic], *, now: datetime, settings: SweepSettings
) -> list[tuple[AnyTopic, float]]:
    """The topics of one thread that have to go at `now`, with their priorities, lowest first.

    Of a thread with more than `max_topics` all those with a priority below `FADE_BELOW`, but never the current one.
    Archived topics and those that were merged into others don't count. None while one of them is stale: what it
    says is not what its turns say.
    """
    topics = list(topics)
    if any(topic.stale for topic in topics):
        return []
    active = [topic for topic in unmerged(topics) if not topic.archived]
    if len(active) <= settings.max_topics:
        return []
    current = newest(active)
    rated = ((topic, settings.decay.priority(topic, now)) for topic in active)
    faded = [pair for pair in rated if pair[0] is not current and pair[1] < FADE_BELOW]
    return sorted(faded, key=lambda pair: (pair[1], pair[0].id))


log = logging.getLogger(__name__)

LEASE_NAME: Final = "sweep"
_PAGE: Final = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class Sweeper:
    """Runs sweeps over everybody's topics and turns."""

    store: DocumentStore
    folder: TopicFolder
    compactor: Compactor
    curator: Curator
    forgetter: Forgetter
    clock: Clock
    settings: SweepSettings

    async def sweep(
        self,
        *,
        holder: str,
        dry_run: bool = False,
        retention_days: float | None = None,
        forget_facts: bool | None = None,
        progress: Callable[[SweepProgress], None] | None = None,
        each: Callable[[SweepAction], None] | None = None,
    ) -> SweepReport:
        """Sweep everybody once, or with `dry_run` only say what that would do.

        `retention_days`, `forget_facts`: instead of the settings. `holder`: who is sweeping, in words for whoever finds the lease taken, and unlike every other's. `progress`
        is called after each page, `each` with every action once it is done. A dry run takes no lease and changes
        nothing. Raises SweepRunning while another sweep holds the lease.
        """
        given = {"retention_days": retention_days, "forget_facts": forget_facts}
        chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        asked = dataclasses.replace(self, settings=dataclasses.replace(self.settings, **chosen))
        run = _Run(asked, holder, dry_run=dry_run, progress=progress, each=each)
        async with run.foreseen() if dry_run else run.leased():
            await run.sweep_topics()
            await run.sweep_ages()
        return run.report()

    async def foresee(self, scope: Scope) -> list[SweepAction]:
        """Say what the next sweep would do to the topics of one thread. Changes nothing."""
        async with self.folder.indexes.of(scope) as index:
            topics, stale = index.standing(archived=False), index.stale
        actions = list[SweepAction]()
        run = _Run(self, "", dry_run=True, progress=None, each=actions.append)
        await run.sweep_thread(await self.store.list_topics(scope) if stale else topics)
        return actions


class _Run:
    """One sweep on its way."""

    def __init__(
        self,
        sweeper: Sweeper,
        holder: str,
        *,
        dry_run: bool,
        progress: Callable[[SweepProgress], None] | None,
        each: Callable[[SweepAction], None] | None,
    ) -> None:
        self._sweeper = sweeper
        self._store, self._settings = sweeper.store, sweeper.settings
        self._holder, self._dry_run = holder, dry_run
        self._progress, self._each = progress, each
        self._now = sweeper.clock.now()
        self._resumed = False
        self._lost = self._ended = False
        self._cancelled_before = _cancellations()
        # Where it has come to: the last topic looked at, then (all topics done) the last old turn.
        self._after_topic: tuple[str, str, str] | None = None
        self._topics_done = False
        self._counts: dict[str, int] = defaultdict(int)
        self._packed = PackedSize()
        self._owed: set[str] = set()

    def report(self) -> SweepReport:
        counts = self._counts
        done = {"merged": "merge", "archived": "archive", "deleted": "delete", "forgotten": "forget"}
        return SweepReport(
            dry_run=self._dry_run,
            resumed=self._resumed,
            started_at=self._now,
            seconds=(self._sweeper.clock.now() - self._now).total_seconds(),
            packed=self._packed,
            forget_facts=self._settings.forget_facts,
            owed=tuple(sorted(self._owed)),
            **{name: counts[name] for name in ("threads", "topics", "failed", "skipped")},
            **{name: counts[deed] for name, deed in done.items()},
        )

    # --- the lease -------------------------------------------------------------------------------------------
    @contextlib.asynccontextmanager
    async def leased(self) -> AsyncIterator[None]:
        """Hold the lease, and leave in it how far this came if it does not come to its end."""
        note = await self._note_left()
        if not await self._take(self._settings.lease_seconds, note):
            raise await self._taken()
        self._resume(note)
        renewing = asyncio.create_task(self._renew())
        through = False
        try:
            yield
            through = True
        finally:
            # No renewal may be under way any more: it would take the lease again after it was given back.
            self._ended = True
            renewing.cancel()
            await asyncio.wait({renewing})
            with contextlib.suppress(BackendError):  # it runs out by itself
                if through:
                    await self._store.release_leases([LEASE_NAME], self._holder)
                else:  # free at once for the next sweep, which finds the note
                    await self._take(0, self._note())

    @contextlib.asynccontextmanager
    async def foreseen(self) -> AsyncIterator[None]:
        """Begin where a real sweep would go on, without the lease."""
        self._resume(await self._note_left())
        yield

    async def _note_left(self) -> str | None:
        before = await self._store.load_lease(LEASE_NAME)
        return None if before is None else before.note

    async def _renew(self) -> None:
        while not self._ended:
            await asyncio.sleep(self._settings.lease_seconds / 3)
            try:
                kept = await self._take(self._settings.lease_seconds, self._note())
            except BackendError as exc:
                log.warning("the sweep's lease could not be renewed: %s", exc)
                continue
            self._lost = not kept

    async def _take(self, seconds: float, note: str | None) -> bool:
        now = self._sweeper.clock.now()
        until = now + timedelta(seconds=seconds)
        taken = await self._store.acquire_leases([LEASE_NAME], self._holder, now=now, until=until, note=note)
        return bool(taken)

    async def _taken(self) -> SweepRunning:
        lease = await self._store.load_lease(LEASE_NAME)
        if lease is None:
            return SweepRunning("another sweep was running a moment ago; start this one again")
        since, until = (time.isoformat(timespec="seconds") for time in (lease.since, lease.until))
        return SweepRunning(
            f"another sweep is running: {lease.holder}, since {since}. If it was killed, its lease ends at {until}, and"
            " the next sweep goes on from where it was."
        )

    def _note(self) -> str:
        return json.dumps({"after_topic": self._after_topic, "topics_done": self._topics_done})

    def _resume(self, note: str | None) -> None:
        if note is None:
            return
        left = json.loads(note)
        self._after_topic = tuple(left["after_topic"]) if left["after_topic"] else None
        self._topics_done = left["topics_done"]
        self._resumed = self._topics_done or self._after_topic is not None

    # --- topics ----------------------------------------------------------------------------------------------
    async def sweep_topics(self) -> None:
        """Merge what is one, archive or delete what has faded, thread by thread."""
        if self._topics_done:
            return
        async for topics in self._threads():
            await self._check_going_on()
            await self.sweep_thread(topics)
            last = topics[-1]
            self._after_topic = (last.user_id, last.thread_id, last.id)
        self._topics_done = True

    async def sweep_thread(self, topics: Sequence[TopicDecayState | Topic]) -> None:
        """The same in one thread, of which these are the topics."""
        self._counts["threads"] += 1
        self._counts["topics"] += len(topics)
        thread = await self._made_anew(topics)
        if await self._merge_alike(thread):
            thread = ()  # what is left to fade is another thing now, and the next sweep's
        policy = self._settings.decay_policy
        faded = {
            topic.id: SweepAction(
                deed=policy,
                user_id=topic.user_id,
                thread_id=topic.thread_id,
                topic_id=topic.id,
                priority=priority,
            )
            for topic, priority in plan_thread(thread, now=self._now, settings=self._settings)
        }
        if faded:
            let_go = self._archive if policy == "archive" else self._delete
            through = {topic.id: topic.through for topic in thread}
            await self._act(
                list(faded.values()),
                functools.partial(let_go, topics[0].scope, {i: through[i] for i in faded}),
            )

    async def _threads(self) -> AsyncIterator[list[TopicDecayState]]:
        """Everybody's topics, a thread at a time."""
        key, thread = self._after_topic, list[TopicDecayState]()
        while True:
            page = await self._store.topics_after(key, limit=_PAGE)
            for topic in page:
                if thread and thread[0].scope != topic.scope:
                    yield thread
                    thread = []
                thread.append(topic)
            self._tell()
            if len(page) < _PAGE:
                break
            key = (page[-1].user_id, page[-1].thread_id, page[-1].id)
        if thread:
            yield thread

    async def _made_anew(
        self, topics: Sequence[TopicDecayState | Topic]
    ) -> Sequence[TopicDecayState | Topic]:
        """The thread's topics, stale ones made anew first (as a dry run: in memory only); none if that fails."""
        if not any(topic.stale for topic in topics):
            return topics
        scope, folder = topics[0].scope, self._sweeper.folder
        try:
            if not self._dry_run:
                await folder.renew_stale(scope)
            found = await self._store.list_topics(scope)
            made = [await folder.anew(topic) if topic.stale else topic for topic in found]
        except StoreUnavailable:
            raise
        except BackendError as exc:
            log.warning("a thread was skipped, its topics can't be made anew: %s", type(exc).__name__)
            self._counts["skipped"] += 1
            return ()
        return [topic for topic in made if topic is not None]

    async def _merge_alike(self, topics: Sequence[TopicDecayState | Topic]) -> bool:
        """Merge the thread's topics that are surely one; whether there were any."""
        if sum(not topic.archived for topic in topics) < 2:
            return False
        whole = [topic for topic in topics if isinstance(topic, Topic)]  # all or none: some were made anew
        found = unmerged(whole or await self._store.list_topics(topics[0].scope))
        active = [topic for topic in found if not topic.archived]
        pairs = await asyncio.to_thread(surely_one, active)
        for topic, into in pairs:
            action = SweepAction(
                deed="merge",
                user_id=topic.user_id,
                thread_id=topic.thread_id,
                topic_id=topic.id,
                into=into.id,
            )
            await self._act([action], functools.partial(self._merge, topic, into))
        return bool(pairs)

    async def _merge(self, topic: Topic, into: Topic) -> set[str]:
        try:
            await self._sweeper.curator.merge(topic.scope, topic.id, into.id)
        except InvalidInput:  # merged or forgotten meanwhile
            return set()
        return {topic.id}

    async def _archive(self, scope: Scope, through: Mapping[str, int]) -> set[str]:
        """Pack these topics and take them out of matching, but for those that came back meanwhile; who went.

        All flags are saved at the end, in one call: once the first is, the thread may have no topic too many.
        """
        gone, left = set[str](), through
        async for _ in Tries():
            topics = await self._still_faded(scope, left)
            for topic in topics:
                self._packed += await self._sweeper.compactor.pack_all(topic)
            # Those that they absorbed first: without these in sight, they would stand for themselves.
            hidden = [topic_id for topic in topics for topic_id in topic.absorbed]
            for absorbed in await self._store.list_topics(scope, ids=hidden, archived=False):
                await self._store.save_topics([_archived(absorbed)])
            saved = await self._store.save_topics(list(map(_archived, topics)))
            gone |= saved
            left = {topic.id: topic.through for topic in topics if topic.id not in saved}
            if not left:
                break
        return gone

    async def _delete(self, scope: Scope, through: Mapping[str, int]) -> set[str]:
        # Nothing of it can be brought back, so the whole thread is looked at again.
        topics = [topic for topic in await self._planned(scope) if topic.id in through]
        topic_ids = [topic_id for topic in topics for topic_id in topic.turns_of]
        turns = await self._store.list_turns(scope, topic_ids=topic_ids) if topic_ids else []
        for start in range(0, len(turns), _PAGE):
            await self._forget(scope, [turn.id for turn in turns[start : start + _PAGE]])
        return {topic.id for topic in topics}

    async def _planned(self, scope: Scope) -> list[Topic]:
        """The thread's topics that have to go now, of which none is stale: what was forgotten meanwhile is made up for."""
        topics = await self._made_anew(await self._store.list_topics(scope))
        planned = plan_thread(topics, now=self._now, settings=self._settings)
        return [topic for topic, _ in planned if isinstance(topic, Topic)]

    async def _still_faded(self, scope: Scope, through: Mapping[str, int]) -> list[Topic]:
        """Of these topics those that would still have to go, as they are now."""
        return [
            topic
            for topic in await self._store.list_topics(scope, ids=list(through))
            if not (topic.archived or topic.stale)
            and topic.through == through[topic.id]
            and self._settings.decay.priority(topic, self._now) < FADE_BELOW
        ]

    # --- ages ------------------------------------------------------------------------------------------------
    async def sweep_ages(self) -> None:
        """Forget turns past the retention age, by the path of every forget call."""
        if self._settings.retention_days is None:
            return
        time = self._now - timedelta(days=self._settings.retention_days)
        after: OldTurn | None = None
        while page := await self._store.turns_before(time, after=after, limit=_PAGE):
            by_thread: dict[Scope, list[OldTurn]] = defaultdict(list)
            for turn in page:
                by_thread[Scope(user_id=turn.user_id, thread_id=turn.thread_id)].append(turn)
            for scope, turns in by_thread.items():
                if old := await self._not_deleted_before(scope, turns):
                    action = functools.partial(
                        SweepAction, user_id=scope.user_id, thread_id=str(scope.thread_id)
                    )
                    actions = [action(deed="forget", topic_id=turn.topic_id, turn_id=turn.id) for turn in old]
                    ids = [turn.id for turn in old]
                    await self._act(actions, functools.partial(self._forget, scope, ids))
            after = page[-1]
            self._tell()

    async def _forget(self, scope: Scope, ids: Sequence[str]) -> set[str]:
        keeps = not self._settings.forget_facts
        receipt = await self._sweeper.forgetter.forget(scope, ids, keeps_facts=keeps)
        self._owed.update(receipt.owed)
        return set(ids)

    async def _not_deleted_before(self, scope: Scope, turns: Sequence[OldTurn]) -> Sequence[OldTurn]:
        """A dry run's turns without those that would be gone with their topic by now."""
        if not self._dry_run or self._settings.decay_policy != "delete":
            return turns
        gone = {topic_id for topic in await self._planned(scope) for topic_id in topic.turns_of}
        return [turn for turn in turns if turn.topic_id not in gone]

    # --- both ------------------------------------------------------------------------------------------------
    async def _act(self, actions: Sequence[SweepAction], do: Callable[[], Awaitable[set[str]]]) -> None:
        """Do it (unless this is a dry run), count it and tell of it; a failure is counted and left for next time.

        `do` gives the ids of the topics or turns of which it was done.
        """
        await self._check_going_on()
        if not self._dry_run:
            try:
                done = await do()
            except StoreUnavailable:
                raise
            except BackendError as exc:
                self._counts["failed"] += len(actions)
                log.warning("%s failed, the next sweep tries again: %s", actions[0].deed, type(exc).__name__)
                return
            actions = [action for action in actions if (action.turn_id or action.topic_id) in done]
        for action in actions:
            self._counts[action.deed] += 1
            if self._each is not None:
                self._each(action)

    async def _check_going_on(self) -> None:
        """Raise if this sweep was cancelled or lost its lease."""
        if _cancellations() > self._cancelled_before:
            await asyncio.sleep(0)  # where one that is still on its way arrives
            # On Python 3.11 asyncio.wait_for, by which PyMongo sends, may have swallowed it.
            raise asyncio.CancelledError
        if self._lost:
            raise await self._taken()

    def _tell(self) -> None:
        if self._progress is not None:
            counts = self._counts
            actions = sum(counts[deed] for deed in ("merge", "archive", "delete", "forget"))
            self._progress(SweepProgress(threads=counts["threads"], topics=counts["topics"], actions=actions))


def _cancellations() -> int:
    """The number of times the running task was asked to end."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
