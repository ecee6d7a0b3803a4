"""A thread's topics in memory: whatever is put in, replaced and dropped, it answers as one made anew would."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import Topic
from memory_agent.topics.index import TopicIndex, WordCounts, unmerged
from memory_agent.topics.projection import TurnSubject, topic_scores

MODEL = "m"
NAMES, WORDS = "abcdef", ("rye", "oven", "tax", "like")
NOW = datetime(2026, 5, 1, tzinfo=UTC)
AHEAD = np.array([1, 0], np.float32)

names = st.sampled_from(NAMES)
embeddings = st.lists(st.floats(-1, 1, width=16), min_size=2, max_size=2).map(
    lambda x: np.array(x, np.float16)
)
topics = st.builds(
    Topic,
    id=names,
    user_id=st.just("u"),
    thread_id=st.just("t"),
    created_at=st.just(NOW),
    last_access=st.just(NOW),
    through=st.integers(0, 99),
    access_count=st.integers(0, 9),
    embedding=embeddings | st.just(np.empty(0, np.float16)),
    embedder=st.sampled_from([MODEL, "another", ""]),
    words=st.dictionaries(st.sampled_from(WORDS), st.tuples(st.integers(1, 9), st.just("a phrase"))),
    absorbed=st.lists(names, max_size=2, unique=True).map(tuple),
    archived=st.booleans(),
    stale=st.booleans(),
)
changes = st.lists(topics | names, max_size=20)


def told(index: TopicIndex, archived: bool) -> dict[str, object]:
    """What an index answers, in no order but of ids."""
    turn = TurnSubject(vector=AHEAD, words=dict.fromkeys(WORDS, ""))
    scores = {
        topic_id: round(float(score), 6)
        for found, scored in topic_scores(AHEAD, turn, index, archived=archived)
        for topic_id, score in zip(found.ids, scored, strict=True)
    }
    beside = {name: index.beside(name, archived=archived) for name in NAMES}
    return {
        "scores": scores,
        "words": {name: (each.topics, *map(each.having, WORDS)) for name, each in beside.items()},
        "roots": {name: getattr(index.root(name), "id", None) for name in NAMES},
        "standing": [topic.id for rests in (False, True) for topic in index.standing(archived=rests)],
        "newest": getattr(index.newest(), "through", None),
        "flags": (index.stale, index.foreign, index.rest, index.nbytes > 0 or not len(index)),
        "offers": [name for name in NAMES if index.offers(name, archived=archived)],
    }


@given(changes, st.booleans())
def test_an_index_answers_as_one_made_anew(series: list[Topic | str], archived: bool) -> None:
    """And asking it in between changes nothing."""
    index, left = TopicIndex(MODEL), dict[str, Topic]()
    for change in series:
        if isinstance(change, Topic):
            index.put(change)
            left[change.id] = change
        else:
            index.drop(change)
            left.pop(change, None)
        told(index, archived)
    assert told(index, archived) == told(TopicIndex(MODEL, left.values()), archived)


@given(st.lists(topics, unique_by=lambda topic: topic.id), st.booleans())
def test_an_index_knows_merges_and_words_as_all_topics_tell_them(found: list[Topic], archived: bool) -> None:
    """Which topics stand, where a turn's topic id leads, and how many others have a word; merges never go in a circle."""
    found = [
        replace(topic, absorbed=tuple(other for other in topic.absorbed if other < topic.id))
        for topic in sorted(found, key=lambda topic: topic.id)
    ]
    index, standing = TopicIndex(MODEL, found), unmerged(found)
    for name in NAMES:
        root, family = index.root(name), [topic.id for topic in standing if name in topic.turns_of]
        assert ([] if root is None else [root.id]) == family[:1]
        others = [each for each in standing if each.id != name and (archived or not each.archived)]
        beside, counted = index.beside(name, archived=archived), WordCounts.of(others)
        assert beside.topics == counted.topics
        assert [*map(beside.having, WORDS)] == [*map(counted.having, WORDS)]


def test_an_index_keeps_no_more_of_a_topic_than_it_needs() -> None:
    """Neither title nor phrases, which only readers want, and of the opener that there is one."""
    whole = Topic(
        id="a",
        user_id="u",
        thread_id="t",
        created_at=NOW,
        last_access=NOW,
        title="rye bread",
        opener="My rye bread is flat",
        words={"rye": (2, "rye bread")},
    )
    kept = TopicIndex(MODEL, [whole]).get("a")
    assert kept is not None
    slim = replace(whole, title="", opener="M", words={"rye": (2, "")})
    assert [getattr(kept, name) for name in ("title", "opener", "words")] == [
        slim.title,
        slim.opener,
        slim.words,
    ]
