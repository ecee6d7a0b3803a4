"""What a model or a word cannot tell of a row in another script is unknown, and what stands in for it."""

import numpy as np
import pytest

from memory_agent.search.fusion import normalised
from memory_agent.search.request import RowFilter
from memory_agent.search.user_index import ResidentIndex
from tests.unit.search.ranking import a_vector, asked, make_row

QUERY = a_vector(1_001)
ROWS = [
    make_row(0, terms={"egg": 1, "boil": 1}),
    make_row(24, terms={"달걀": 1, "삶": 1}),
    make_row(48, terms={"달걀": 1, "egg": 2, "@food:달걀": 1}),
]
LATIN = frozenset({"LATIN"})


def test_rows_in_a_script_that_the_embedder_does_not_read_have_no_cosine() -> None:
    """Their words stand in, and rows in scripts that it reads keep theirs."""
    index = ResidentIndex(ROWS, embedder="model", scripts=LATIN)
    everything = ResidentIndex(ROWS, embedder="model")
    question = asked(["egg"], query=QUERY, gist=QUERY)
    silent, heard = (each.score(question, where=RowFilter()) for each in (index, everything))
    assert (index.unread, everything.unread) == (1, 0)
    for signal in ("meaning", "meaning_around"):
        assert np.isnan(silent.values[signal]).tolist() == [False, True, False], signal
        assert not np.isnan(heard.values[signal]).any()
        assert silent.values[signal][0] == heard.values[signal][0]
    similarity = index.similarity(QUERY, [row.turn_id for row in ROWS])
    assert np.isnan(similarity).tolist() == [False, True, False]


def test_rows_that_it_does_not_read_repeat_nothing() -> None:
    """A model that gives all it does not know one vector would have them all repeat each other."""
    same = a_vector(7)[None].astype(np.float16)
    rows = [make_row(n, terms={word: 1}, vectors=same) for n, word in ((0, "달걀"), (24, "우유"))]
    rows.append(make_row(48, terms={"차": 1}))
    ids = [row.turn_id for row in rows]
    for scripts, expected in ((LATIN, [False] * 3), (None, [False, True, False])):
        index = ResidentIndex(rows, embedder="model", scripts=scripts)
        assert index.repeats_among(ids).tolist() == expected


def test_words_are_unknown_of_rows_in_another_script_that_share_none() -> None:
    """A question in Korean says nothing by its words of a turn in English, unless the turn holds one of them."""
    index = ResidentIndex(ROWS, embedder="model")
    got = index.score(asked(["달걀"], script="HANGUL", query=QUERY, gist=QUERY), where=RowFilter())
    for signal in ("words", "words_around", "words_session"):
        assert np.isnan(got.values[signal]).tolist() == [True, False, False], signal
    at_home = index.score(asked(["egg"], script="LATIN"), where=RowFilter())
    assert np.isnan(at_home.values["words"]).tolist() == [False, True, False]
    english = ResidentIndex(ROWS[:1], embedder="model")
    assert not np.isnan(
        english.score(asked(["milk"], script="LATIN"), where=RowFilter()).values["words"]
    ).any()


def test_meaning_stands_in_for_words_that_are_unknown_and_the_other_way_round() -> None:
    """The best in meaning counts whole, the middling next to nothing: words tell of few turns."""
    nan = np.nan
    meaning = np.array([0.9, 0.5, 0.1, nan], dtype=np.float32)
    words = np.array([nan, nan, 4.0, 2.0], dtype=np.float32)
    scaled = normalised({"meaning": meaning, "words": words})
    assert scaled["words"].tolist() == pytest.approx([1.0, 0.0625, 1.0, 0.0])
    assert scaled["meaning"].tolist() == pytest.approx([1.0, 0.5, 0.0, 0.0])
