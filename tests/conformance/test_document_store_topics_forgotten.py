"""What every DocumentStore must do to forget turns of topics, and that no topic crosses a scope."""

from dataclasses import replace
from datetime import timedelta

from memory_agent.domain import ErasedCounts, new_id
from memory_agent.ports import DocumentStore

from .assertions import EMPTY_TOPIC, assert_reset_topic, assert_same_topic
from .values import (
    FULL_TOPIC,
    NOW,
    a_scope,
    a_topic,
    an_erasure,
    on_every_server,
    saved_topic,
    stored,
    stored_compressed,
    the_topic,
)

DAY = timedelta(days=1)
SCOPE = a_scope()
T2 = a_scope(thread_id="t2")
EVE = a_scope("eve")


async def test_forgetting_resets_the_topic(store: DocumentStore) -> None:
    """The forgotten turn's topic loses what was derived and keeps what people set; other topics are untouched."""
    turns = await stored(store, SCOPE, "a", "b", "c")
    mine = await saved_topic(
        store, a_topic(turns[0].id, **{**FULL_TOPIC, "stale": False, "absorbed": ("m",)})
    )
    other = await saved_topic(store, a_topic(turns[2].id))
    foreign = await saved_topic(store, a_topic(turns[0].id, scope=EVE))
    await store.assign_topics(SCOPE, {turns[0].id: mine.id, turns[1].id: mine.id, turns[2].id: other.id})
    [without] = await stored(store, SCOPE, "of none")
    erasure = an_erasure(SCOPE, [without.id, turns[1].id])
    for topics in (1, 0):  # a turn without a topic resets none and makes none
        counts = await store.erase_turns(erasure, now=NOW + DAY, limit=1)
        assert counts == ErasedCounts(turns=1, topics=topics)
    read = await the_topic(store, SCOPE, mine.id)
    assert_reset_topic(read, mine)
    # Who read it before cannot save what was folded from it, whatever batch erased the turn.
    assert not await store.save_topics([replace(mine, title="forgotten")])
    assert await store.save_topics([replace(read, votes=1)])
    assert_same_topic(await the_topic(store, SCOPE, other.id), other, revision=True)
    assert_same_topic(await the_topic(store, EVE, foreign.id), foreign, revision=True)
    assert len(await store.list_topics(SCOPE)) == 2


async def test_forgetting_resets_the_topic_that_absorbed_another(store: DocumentStore) -> None:
    """A turn carries the id that it was assigned to; the topic which has that one now is reset as well."""
    turns = await stored(store, SCOPE, "a", "b")
    await store.assign_topics(SCOPE, {turns[0].id: "absorbed", turns[1].id: "both"})
    absorbing = await saved_topic(store, a_topic("absorbing", absorbed=("x", "absorbed", "y")))
    both = [
        await saved_topic(store, a_topic("both")),
        await saved_topic(store, a_topic("takes both", absorbed=("both",))),
    ]
    other = await saved_topic(store, a_topic("other", absorbed=("absorbed~", "bothx")))
    elsewhere = await saved_topic(store, a_topic("elsewhere", scope=T2, absorbed=("absorbed", "both")))
    foreign = await saved_topic(store, a_topic("foreign", scope=EVE, absorbed=("absorbed", "both")))

    counts = await store.erase_turns(an_erasure(SCOPE), now=NOW, limit=10)

    assert counts == ErasedCounts(turns=2, topics=3)
    for before in (absorbing, *both):
        assert_reset_topic(await the_topic(store, SCOPE, before.id), before)
    for untouched in (other, elsewhere, foreign):
        assert_same_topic(await the_topic(store, untouched.scope, untouched.id), untouched, revision=True)
    # What was absorbed is not made anew beside the topic that has its turns.
    ids = {topic.id for topic in await store.list_topics(SCOPE)}
    assert ids == {"absorbing", "both", "takes both", "other"}


async def test_forgetting_makes_a_topic_that_was_not_stored(store: DocumentStore) -> None:
    """Where a turn's topic isn't stored yet, an empty one takes its place, so that no late first save succeeds."""
    turns = await stored(store, SCOPE, "a", "b")
    await store.assign_topics(SCOPE, {turn.id: "new" for turn in turns})
    counts = await store.erase_turns(an_erasure(SCOPE, [turns[0].id]), now=NOW + DAY, limit=10)
    assert counts == ErasedCounts(turns=1, topics=1)
    [made] = await store.list_topics(SCOPE)
    expected = a_topic("new", **EMPTY_TOPIC, created_at=NOW + DAY, last_access=NOW + DAY)
    assert_same_topic(made, expected)
    assert not await store.save_topics([a_topic("new")])
    assert await store.save_topics([replace(made, stale=False, title="from b")])


@on_every_server
async def test_sweeps_topics_without_turns(store: DocumentStore) -> None:
    """A topic that a late worker saved for turns that are gone is reset once; topics with turns stay."""
    kept, merged = await stored(store, SCOPE, "kept", "merged")
    [foreign] = await stored(store, EVE, "foreign")
    await store.assign_topics(SCOPE, {kept.id: "kept", merged.id: "merged"})
    live = [
        await saved_topic(store, a_topic("kept")),
        await saved_topic(store, a_topic("absorbing", absorbed=("x", "merged"))),
        await saved_topic(store, a_topic("hers", scope=EVE)),
    ]
    await store.assign_topics(EVE, {foreign.id: "hers"})
    late = [
        await saved_topic(store, a_topic("late", scope=T2, tags=("mine",))),
        await saved_topic(store, a_topic("stale", scope=T2, stale=True)),
    ]

    counts = await store.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW)

    assert counts == ErasedCounts(topics=2)
    for before in late:
        assert_reset_topic(await the_topic(store, T2, before.id), before)
    for topic in live:
        assert_same_topic(await the_topic(store, topic.scope, topic.id), topic, revision=True)
    assert await store.sweep_orphans(SCOPE, stubs_before=NOW, now=NOW) == ErasedCounts()


async def test_erases_what_remains_of_a_users_topics(store: DocumentStore) -> None:
    """Topics of threads without turns go; those of threads with turns, and other users', stay."""
    [gone] = await stored_compressed(store, SCOPE, "gone", topic_id="gone")
    [kept] = await stored_compressed(store, T2, "kept", topic_id="kept")
    await saved_topic(store, a_topic("gone"))
    await saved_topic(store, a_topic("kept", scope=T2))
    await saved_topic(store, a_topic("tagged", scope=a_scope(thread_id="t3"), tags=("x",)))
    await saved_topic(store, a_topic("hers", scope=EVE))
    await store.erase_turns(an_erasure(SCOPE, [gone.id]), now=NOW, limit=10)
    for _ in range(2):
        await store.erase_remains(SCOPE.user, before_id=new_id())
    assert [topic.id for topic in await store.list_topics(SCOPE.user)] == ["kept"]
    assert [topic.id for topic in await store.list_topics(EVE)] == ["hers"]
    assert await store.list_turns(SCOPE.user) == [kept]
    assert [topic.id for topic in await store.topics_after(None, limit=10)] == ["kept", "hers"]
