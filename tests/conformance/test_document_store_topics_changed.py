"""What every TopicStore must do for those who keep a thread's topics in memory, and for writers of many at once."""

import asyncio
from dataclasses import replace

from memory_agent.domain import TopicChanges
from memory_agent.ports import DocumentStore
from memory_agent.topics.index import TopicIndexCache

from .values import (
    NOW,
    OpenStore,
    a_scope,
    a_topic,
    an_erasure,
    on_every_server,
    saved_topic,
    stored,
    the_topic,
)

SCOPE = a_scope()
T2 = a_scope(thread_id="t2")
EMBEDDER = "ab12cd34ef56"


def ids(changes: TopicChanges) -> list[str]:
    return sorted(topic.id for topic in changes.topics)


@on_every_server
async def test_tells_what_changed_since_a_mark(open_store: OpenStore) -> None:
    """Whichever process saved it, and once; of another thread nothing. All topics once some may be gone."""
    one, other = await open_store(), await open_store()
    first = await one.changed_topics(SCOPE)
    assert (first.topics, first.whole) == ((), True)
    await one.save_topics([a_topic(name, scope=SCOPE) for name in "abc"])
    await other.save_topics([a_topic("z", scope=T2)])
    new = await one.changed_topics(SCOPE, after=first.mark)
    assert (ids(new), new.whole) == (["a", "b", "c"], False)
    nothing = await other.changed_topics(SCOPE, after=new.mark)
    assert (nothing.topics, nothing.mark, nothing.whole) == ((), new.mark, False)
    await saved_topic(other, replace(await the_topic(one, SCOPE, "b"), votes=2))
    changed = await one.changed_topics(SCOPE, after=new.mark)
    assert [(topic.id, topic.votes) for topic in changed.topics] == [("b", 2)]
    gone = await the_topic(one, SCOPE, "c")
    assert await other.delete_topic(SCOPE, "c", expected=gone.revision or "")
    left = await one.changed_topics(SCOPE, after=changed.mark)
    assert (ids(left), left.whole) == (["a", "b"], True)
    assert ids(await one.changed_topics(SCOPE, after=left.mark)) == []


async def test_tells_topics_that_forgetting_reset(store: DocumentStore) -> None:
    """They are empty then, and nobody may go on with what they were."""
    turns = await stored(store, SCOPE, "a", "b")
    await store.assign_topics(SCOPE, {turns[0].id: "a", turns[1].id: "b"})
    await store.save_topics([a_topic(name, scope=SCOPE) for name in "ab"])
    mark = (await store.changed_topics(SCOPE)).mark
    await store.erase_turns(an_erasure(SCOPE, [turns[0].id]), now=NOW, limit=10)
    told = {topic.id: topic for topic in (await store.changed_topics(SCOPE, after=mark)).topics}
    assert (told["a"].stale, told["a"].title) == (True, "")


@on_every_server
async def test_saves_many_topics_each_against_its_revision(open_store: OpenStore) -> None:
    """Those that somebody changed since are left as they are, and the others saved; of concurrent writers all get through."""
    one, other = await open_store(), await open_store()
    assert await one.save_topics([a_topic(name, scope=SCOPE) for name in "abc"]) == {*"abc"}
    read = {topic.id: topic for topic in await one.list_topics(SCOPE)}
    await other.save_topics([replace(read["b"], votes=1)])
    saved = await one.save_topics(
        [*(replace(read[name], votes=9) for name in "abc"), a_topic("d", scope=SCOPE)]
    )
    assert saved == {"a", "c", "d"}
    assert await one.save_topics([a_topic("a", scope=SCOPE), a_topic("e", scope=SCOPE)]) == {"e"}
    votes = {topic.id: topic.votes for topic in await other.list_topics(SCOPE)}
    assert votes == {"a": 9, "b": 1, "c": 9, "d": 0, "e": 0}
    mark = (await one.changed_topics(SCOPE)).mark
    batches = [[a_topic(f"{batch}{n}", scope=SCOPE) for n in range(5)] for batch in range(6)]
    await asyncio.gather(*((one, other)[n % 2].save_topics(batch) for n, batch in enumerate(batches)))
    assert len((await one.changed_topics(SCOPE, after=mark)).topics) == 30


async def test_lists_turns_behind_what_topics_hold(store: DocumentStore) -> None:
    """By `seq`, each topic's above the number given for it; of no other topic, and of no other thread."""
    turns = await stored(store, SCOPE, "1", "2", "3", "4", "5")
    elsewhere = await stored(store, T2, "x")
    topics = dict(zip((turn.id for turn in turns), "abaab", strict=True))
    await store.assign_topics(SCOPE, topics)
    await store.assign_topics(T2, {elsewhere[0].id: "a"})
    found = await store.turns_behind(SCOPE, {"a": 1, "b": 2, "c": 0})
    assert [turn.content for turn in found] == ["3", "4", "5"]
    assert await store.turns_behind(SCOPE, {}) == []
    await store.compress_turns(SCOPE, "a", [turns[2].id])
    assert [turn.content for turn in await store.turns_behind(SCOPE, {"a": 1})] == ["3", "4"]


@on_every_server
async def test_an_index_in_memory_follows_every_process(open_store: OpenStore) -> None:
    """Saves, merges, splits, rest and deletion, here and elsewhere: it holds what the store holds."""
    one, other = await open_store(), await open_store()
    indexes = TopicIndexCache(one, lambda: EMBEDDER, idle_seconds=60)
    turns = await stored(one, SCOPE, "a", "b", "c")
    await one.assign_topics(SCOPE, dict(zip((turn.id for turn in turns), "abc", strict=True)))

    async def change(store: DocumentStore, topic_id: str, **fields: object) -> None:
        topic = await the_topic(store, SCOPE, topic_id)
        assert await store.save_topics([replace(topic, **fields)]) == {topic_id}  # type: ignore[arg-type]

    async def agrees() -> None:
        async with indexes.of(SCOPE) as index:
            kept = {topic.id: index.get(topic.id) for topic in await one.list_topics(SCOPE)}
            assert len(index) == len(kept)
            for topic in await one.list_topics(SCOPE):
                known = kept[topic.id]
                assert known is not None
                assert (known.revision, known.absorbed, known.archived) == (
                    topic.revision,
                    topic.absorbed,
                    topic.archived,
                )

    await agrees()
    for store, elsewhere in ((one, other), (other, one)):
        fresh = {topic.id for topic in await one.list_topics(SCOPE)}
        await store.save_topics([a_topic(name, scope=SCOPE) for name in "abc" if name not in fresh])
        await agrees()
        await change(elsewhere, "b", absorbed=("a",))
        await agrees()
        await change(store, "c", archived=True)
        await change(elsewhere, "b", absorbed=(), parted=("a",))
        await agrees()
        await store.delete_topic(SCOPE, "c", expected=(await the_topic(store, SCOPE, "c")).revision or "")
        await agrees()
        await elsewhere.save_topics([a_topic("c", scope=SCOPE)])
        await agrees()
    await other.erase_turns(an_erasure(SCOPE, [turns[0].id]), now=NOW, limit=10)
    await agrees()
