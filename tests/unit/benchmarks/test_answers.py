"""Replies are scored as LoCoMo scores them, samples are even, and rows are what their names say."""

import argparse
from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.answers import f1, holds, row_of, spread
from tests.unit.benchmarks.sets import corpus, gold


@pytest.mark.parametrize(
    ("reply", "right", "kind", "score"),
    [
        ("7 May 2023", "7 May 2023", "2", 1.0),
        ("May 7, 2023.", "The 7 May 2023", "2", 1.0),  # neither order, signs nor articles count
        ("She camps", "camping", "4", 2 / 3),  # stems
        ("Paris", "London", "4", 0.0),
        ("", "London", "4", 0.0),
        ("pottery, swimming", "swimming, pottery, camping", "1", 2 / 3),  # the mean of three parts
        ("pottery, swimming", "swimming, pottery, camping", "4", 0.8),
        ("Likely no", "Likely no; she likes the city", "3", 1.0),
        ("Likely no", "Likely no; she likes the city", "4", 4 / 7),
    ],
)
def test_f1_is_locomo_s(reply: str, right: str, kind: str, score: float) -> None:
    assert f1(reply, right, kind) == pytest.approx(score)


def test_a_reply_holds_an_answer_whose_words_are_all_in_it() -> None:
    assert holds("She went on May 7, 2023, a Sunday.", "7 May 2023")
    assert not holds("In May 2023.", "7 May 2023")
    assert holds("Likely no.", "Likely no; she likes the city", "3")


def test_a_sample_has_of_each_corpus_and_type_its_share_and_a_larger_one_holds_it() -> None:
    small, large = corpus(questions=20, name="c1"), corpus(questions=40, name="c2")
    others = tuple(one.model_copy(update={"id": one.id.replace("q", "r")}) for one in large.questions)
    corpora = [(one, gold({}, one)) for one in (small, replace(large, questions=others))]
    some, more = spread(corpora, 6), spread(corpora, 30)
    assert len(some) == 6
    assert some < more
    assert Counter(name[0] for name in more) == {"q": 10, "r": 20}
    kinds = Counter(int(name[1:]) % 2 for name in more)
    assert kinds[0] == kinds[1] == 15
    assert len(spread(corpora, None)) == 60


def test_a_row_has_a_label_and_options_and_can_be_a_function_of_your_own() -> None:
    label, row = row_of("thrifty=fetch?price=thrifty&max_tokens=500&window=false")
    assert label == "thrifty"
    assert row.keywords == {"price": "thrifty", "max_tokens": 500, "window": False}  # type: ignore[attr-defined]
    assert row_of("best?k=3")[0] == "best?k=3"
    assert row_of("benchmarks.answers:last?k=2")[1].keywords == {"k": 2}  # type: ignore[attr-defined]
    with pytest.raises(argparse.ArgumentTypeError, match="'worst' is no row; there are evidence, last"):
        row_of("worst?k=3")
