"""Which topics are alike, and which are surely one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from memory_agent.domain import Topic
from memory_agent.topics.sweep import grown_together, surely_one
from tests.conformance.values import a_topic

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def topic(name: str, *vector: float, words: str = "", **others: Any) -> Topic:
    said = {word: (1, word) for word in words.split()}
    made = NOW + timedelta(hours=ord(name))
    return a_topic(name, created_at=made, embedding=np.array(vector, np.float16), words=said, **others)


def test_topics_are_one_if_meaning_and_words_say_so() -> None:
    """Never by one of the two alone, nor against a split; the later goes into the earlier, each at most once."""
    far = topic("z", 0, 1, words="tax refund form")
    bread, again = topic("a", 1, 0, words="rye bread oven"), topic("b", 1, 0.1, words="rye bread pot")

    def pairs(*topics: Topic) -> list[tuple[str, str]]:
        return [(late.id, early.id) for late, early in surely_one([*topics, far])]

    assert pairs(bread, again) == pairs(again, bread) == [("b", "a")]
    assert pairs(bread, topic("b", 1, 0.1, words="tram castle")) == []
    assert pairs(bread, topic("b", 0.1, 1, words="rye bread oven")) == []
    assert pairs(bread, topic("b", 1, 0.1, words="rye bread pot", parted=("a",))) == []
    assert pairs(bread, topic("c", 1, 0.1, words="rye bread", absorbed=("b",)), again) != []
    split = topic("a", 1, 0, words="rye bread", parted=("b",))
    assert pairs(split, topic("c", 1, 0, words="rye bread", absorbed=("b",))) == []
    assert pairs(bread, again, topic("c", 1, 0, words="rye bread oven")) == [("c", "a")]
    assert surely_one([]) == []


def test_pairs_that_have_grown_together_are_named_nearest_first() -> None:
    """Of one model's vectors only, for another's cosines say nothing."""
    one, near, nearer = topic("a", 1, 0), topic("b", 0.8, 0.6), topic("c", 1, 0.1)
    found = grown_together([one, near, nearer], least=0)
    assert [(x.id, y.id) for x, y in found] == [("a", "c"), ("b", "c"), ("a", "b")]
    other = topic("d", 1, 0, embedder="another")
    assert grown_together([one, other], least=-1) == []


def test_what_all_topics_of_a_thread_have_in_common_makes_no_two_of_them_alike() -> None:
    """Two people who greet each other and ask how it was: their topics have a cosine of .9, and are as many."""
    own = np.eye(9, dtype=np.float32)
    talks = [topic(name, *(3 * own[0] + own[number])) for number, name in enumerate("abcdefgh", start=1)]
    cosine = float(talks[0].embedding @ talks[1].embedding) / float(talks[0].embedding @ talks[0].embedding)
    assert cosine >= 0.9
    assert grown_together(talks) == []
    again = topic("i", *(3 * own[0] + 1.1 * own[1]))
    assert [(x.id, y.id) for x, y in grown_together([*talks, again])] == [("a", "i")]
    assert len(grown_together(talks[:2])) == 1, "without others nothing is known to be common"
