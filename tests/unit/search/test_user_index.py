"""The resident index and its parts against plain loops."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import SearchRow, TurnFeatures
from memory_agent.errors import EmbedderError
from memory_agent.search.fusion import SIGNALS, Signal
from memory_agent.search.postings import CollectionStatistics
from memory_agent.search.request import RowFilter
from memory_agent.search.user_index import ResidentIndex, asked_before
from memory_agent.text.time_spans import TimeSpan
from tests.unit.search.ranking import START, a_vector, asked, make_row, reference, some_rows, some_terms

QUERY, GIST = a_vector(1_001), a_vector(1_002)


def signal_of(index: ResidentIndex, name: Any, **question: Any) -> dict[str, float]:
    got = index.score(asked(**question), where=RowFilter())
    return dict(zip(got.turn_ids, got.values[name].tolist(), strict=True))


def assert_scored_as(index: ResidentIndex, rows: Sequence[SearchRow], terms: list[str]) -> None:
    """Every signal that rows' words and vectors make equals the reference's."""
    got = index.score(asked(terms, query=QUERY, gist=GIST), where=RowFilter())
    expected = reference(rows, terms, QUERY, GIST)
    assert sorted(got.turn_ids) == sorted(expected)
    for at, turn_id in enumerate(got.turn_ids):
        of_turn = expected[turn_id]
        values: dict[Signal, float] = {
            "words": of_turn.words,
            "words_around": of_turn.around,
            "words_session": of_turn.session,
            "meaning": of_turn.meaning,
            "meaning_around": of_turn.meaning_around,
        }
        for name, value in values.items():
            assert got.values[name][at] == pytest.approx(value, abs=2e-3, nan_ok=True), (turn_id, name)
        (similarity,) = index.similarity(QUERY, [turn_id])
        assert similarity == pytest.approx(of_turn.similarity, abs=1e-3, nan_ok=True)
    together = index.similarity(QUERY, [*got.turn_ids, "nowhere"])
    assert together == pytest.approx(
        [*(expected[one].similarity for one in got.turn_ids), math.nan], abs=1e-3, nan_ok=True
    )


@given(some_rows, some_terms, st.lists(st.integers(1, 5), max_size=20), st.integers(0, 20))
def test_signals_equal_the_reference_while_rows_come_in_any_order(
    rows: list[SearchRow], terms: list[str], chunks: list[int], loaded: int
) -> None:
    """Built at once or extended in chunks, between turns said before and after, asked after each or not."""
    index = ResidentIndex(rows[:loaded], embedder="model")
    done = min(loaded, len(rows))
    while done < len(rows):
        chunk = chunks.pop() if chunks else len(rows)
        assert index.extend(rows[done : done + chunk])
        done = min(done + chunk, len(rows))
        if chunk % 2:
            assert_scored_as(index, rows[:done], terms)
    assert_scored_as(index, rows, terms)
    assert index.head == max(row.index_seq for row in rows)


@given(some_rows, some_terms)
def test_candidates_with_the_whole_collections_statistics_score_as_in_the_whole(
    rows: list[SearchRow], terms: list[str]
) -> None:
    """A user too large to keep: an index over some rows gives their words the scores that all rows would give."""
    whole = ResidentIndex(rows, embedder="model")
    statistics = CollectionStatistics(
        rows=len(rows),
        mean_length=sum(row.length for row in rows) / len(rows),
        frequency=Counter(term for row in rows for term in row.terms),
    )
    some = ResidentIndex(rows[::2], embedder="model").score(
        asked(terms), where=RowFilter(), statistics=statistics
    )
    of_all = signal_of(whole, "words", terms=terms)
    for turn_id, words in zip(some.turn_ids, some.values["words"].tolist(), strict=True):
        assert words == pytest.approx(of_all[turn_id], abs=1e-4)


def test_a_long_message_weighs_as_a_few_rare_words_and_a_short_question_as_its_own() -> None:
    """What a long message goes back to holds a few of its words, never half of them."""
    statistics = CollectionStatistics(rows=100, mean_length=5, frequency={"cat": 10})
    rare = statistics.weight(["quail"])
    assert statistics.weight(f"word{n}" for n in range(60)) == pytest.approx(60 * rare)
    assert statistics.weight((f"word{n}" for n in range(60)), most=7) == pytest.approx(7 * rare)
    assert statistics.weight(["cat", "quail"], most=7) == statistics.weight(["cat", "quail"]) < 2 * rare


@given(some_rows, some_terms, st.integers(0, 20))
def test_statistics_of_two_parts_joined_are_those_of_the_whole(
    rows: list[SearchRow], terms: list[str], cut: int
) -> None:
    one, other = (ResidentIndex(part, embedder="model") for part in (rows[:cut], rows[cut:]))
    joined = one.statistics(terms).joined(other.statistics(terms))
    whole = ResidentIndex(rows, embedder="model").statistics(terms)
    assert (joined.rows, dict(joined.frequency)) == (whole.rows, dict(whole.frequency))
    assert joined.mean_length == pytest.approx(whole.mean_length)


@given(some_rows, some_terms)
def test_shared_terms_are_those_that_a_turn_holds(rows: list[SearchRow], terms: list[str]) -> None:
    index = ResidentIndex(rows[1:], embedder="model")
    got = index.shared_terms([row.turn_id for row in rows], terms)
    assert got == {row.turn_id: [term for term in terms if term in row.terms] for row in rows[1:]}


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        (RowFilter(thread_id="a"), {0, 2, 4}),
        (RowFilter(thread_id="nobody"), set()),
        (RowFilter(since=START + timedelta(hours=2)), {2, 3, 4, 5}),
        (RowFilter(until=START + timedelta(hours=2)), {0, 1}),
        (RowFilter(role="assistant"), {3}),
        (RowFilter(thread_id="b", role="assistant", since=START), {3}),
    ],
)
def test_filters_exclude(where: RowFilter, kept: set[int]) -> None:
    rows = [
        make_row(
            i,
            passages=1 + i % 2,
            terms={"egg": 1},
            thread="ab"[i % 2],
            role="assistant" if i == 3 else "user",
        )
        for i in range(6)
    ]
    got = ResidentIndex(rows, embedder="model").score(asked(["egg"]), where=where)
    assert set(got.turn_ids) == {f"turn{i}" for i in kept}
    assert {len(values) for values in got.values.values()} == {len(kept)}


def test_stubs_and_replaced_rows_need_a_fresh_load() -> None:
    """An erased row is not taken in by extending, and is left out when loading; so is a row's older reading."""
    rows = [make_row(i) for i in range(3)]
    stub = replace(
        make_row(1, passages=0), embedder="", language="", index_seq=9, erased=True, timestamp=START
    )
    index = ResidentIndex(rows, embedder="model")
    assert not index.extend([stub])
    assert not index.extend([make_row(7), rows[0]])
    assert not index.extend([make_row(7), make_row(7)])
    assert len(index) == 3
    reloaded = ResidentIndex([*rows, stub], embedder="model")
    assert len(reloaded) == 2
    assert reloaded.head == 9
    newest = ResidentIndex([*rows, make_row(1, terms={"egg": 1}, index_seq=5)], embedder="model")
    assert len(newest) == 3
    assert [turn for turn, score in signal_of(newest, "words", terms=["egg"]).items() if score] == ["turn1"]


def test_vectors_of_another_model_are_not_compared() -> None:
    """Rows embedded by another model (of another dimension even) are found by word, without a similarity."""
    rows = [
        make_row(i, passages=1 + i, terms={"egg": 1}, embedder="model" if i % 2 else "other")
        for i in range(4)
    ]
    wide = replace(rows[0], vectors=np.ones((1, 16), dtype=np.float16) / np.float16(4))
    question = asked(["egg"], query=QUERY, gist=QUERY)
    index = ResidentIndex([wide, *rows[1:]], embedder="model")
    got = index.score(question, where=RowFilter())
    assert np.isnan(index.similarity(QUERY, got.turn_ids)).tolist() == [True, False, True, False]
    assert (got.values["words"] > 0).all()
    strangers = ResidentIndex(rows, embedder="third")
    assert strangers.foreign == 4
    assert np.isnan(strangers.similarity(QUERY, got.turn_ids)).all()


def test_vectors_of_another_dimension_under_one_fingerprint_are_refused_and_nothing_is_lost() -> None:
    rows = [make_row(i, terms={"egg": 1}) for i in range(3)]
    index = ResidentIndex(rows, embedder="model")
    wide = replace(make_row(3), vectors=np.ones((1, 16), dtype=np.float16) / np.float16(4))
    with pytest.raises(EmbedderError, match=rf"have 16 numbers.* {len(QUERY)},.*memory-agent rebuild"):
        index.extend([wide])
    assert len(index) == 3
    assert_scored_as(index, rows, ["egg"])


def test_an_empty_index_answers_nothing() -> None:
    """No rows, no candidates, head 0, no times; its answer can still be joined with another's."""
    index = ResidentIndex(embedder="model")
    got = index.score(asked(["egg"], query=QUERY), where=RowFilter())
    assert (len(index), index.head, list(got.turn_ids), index.known_times()) == (0, 0, [], None)
    other = ResidentIndex([make_row(0)], embedder="model").score(asked(["egg"]), where=RowFilter())
    assert set(got.values) == set(other.values) == set(SIGNALS) - {"detail"}
    joined = got.joined(other)
    assert list(joined.turn_ids) == ["turn0"]
    assert {len(values) for values in joined.values.values()} == {1}


# --- signals that rows carry ---------------------------------------------------------------------------------
def test_persons_named_or_the_side_that_is_spoken_of() -> None:
    """The turns of each person named; without names, those of the asker or of the assistant."""
    rows = [
        make_row(0, speaker="Ann"),
        make_row(1, speaker="Bo", role="assistant"),
        make_row(2),
        make_row(3, speaker="Ann", role="assistant"),
    ]
    index = ResidentIndex(rows, embedder="model")
    assert list(index.speakers) == ["Ann", "Bo"]

    def person(**question: Any) -> list[float]:
        return list(signal_of(index, "person", **question).values())

    assert person(persons=("Ann",)) == [1, 0, 0, 1]
    assert person(persons=("Ann", "Bo", "Nobody"), about_user=True) == [1, 1, 0, 1]
    assert person(about_user=True) == [1, 0, 1, 0]
    assert person(about_assistant=True) == [0, 1, 0, 1]
    assert person(about_assistant=True, about_user=True) == [0, 0, 0, 0], "nobody's more than the other's"
    assert person() == [0, 0, 0, 0]
    assert person(about_user=True, tells=True) == [0.5, 0, 0.5, 0], "a message goes back to replies as well"
    assert person(with_assistant=True) == pytest.approx([0.3, 0, 0.3, 0])
    assert person(with_assistant=True, persons=("Bo",)) == [0, 1, 0, 0]
    assert person(with_assistant=True, about_assistant=True) == [0, 1, 0, 1]
    assert index.with_assistant
    assert not ResidentIndex(rows[::2], embedder="model").with_assistant


def test_signs_count_where_they_are_asked_for() -> None:
    """A time for "when", a number for "how many", names for "who"; telling of oneself and asking always."""
    shown = TurnFeatures(asks=True, tells_when=True, counts=True, of_self=True, names=3)
    index = ResidentIndex([make_row(0, signs=shown), make_row(1)], embedder="model")
    heard = {
        "when": {"tells_when"},
        "how_long": {"tells_when", "counts"},
        "how_many": {"counts"},
        "who": {"names"},
        "where": {"names"},
        "name": {"names"},
        "why": set(),
    }
    for kind, expected in heard.items():
        got = index.score(asked(kinds={kind}), where=RowFilter()).values
        names = {"asks", "of_self", "tells_when", "counts", "names"}
        assert {name for name in names if got[name][0] == 1} == {"asks", "of_self"} | expected, kind  # type: ignore[index]
        assert not any(got[name][1] for name in names)  # type: ignore[index]
    words = {"short": 8, "long": 32}
    rows = [make_row(at, terms={word: words[word]}, signs=shown) for at, word in enumerate(words)]
    asking = signal_of(ResidentIndex(rows, embedder="model"), "asks")
    assert list(asking.values()) == [1, 0.25], "a long request tells things, too"
    one_name = ResidentIndex([make_row(0, signs=TurnFeatures(names=1))], embedder="model")
    assert signal_of(one_name, "names", kinds={"who"})["turn0"] == pytest.approx(1 / 3)


def test_nothing_speaks_for_what_was_asked_before() -> None:
    """A turn that asks, and means just what is asked now; neither one that tells the same, nor one that asks another thing."""
    same = GIST[None].astype(np.float16)
    asking = TurnFeatures(asks=True)
    told = [(asking, same), (TurnFeatures(), same), (asking, a_vector(3)[None].astype(np.float16))]
    rows = [
        make_row(n, terms={"egg": 1}, signs=signs, vectors=given) for n, (signs, given) in enumerate(told)
    ]
    rows.append(make_row(3, terms={"egg": 1}, signs=asking, passages=0))
    scored = ResidentIndex(rows, embedder="model").score(asked(["egg"], gist=GIST), where=RowFilter())
    before = asked_before(scored)
    assert before.tolist() == [True, False, False, False]
    left = scored.without(before)
    assert not any(values[0] for values in left.values.values())
    assert all((left.values[name][1:] == scored.values[name][1:]).all() for name in ("words", "asks"))
    assert scored.without(np.zeros(4, dtype=np.bool_)) is scored


def test_turns_of_a_time_that_is_named_have_the_full_signal() -> None:
    index = ResidentIndex([make_row(number) for number in (0, 24, 48)], embedder="model")
    span = TimeSpan(start=START + timedelta(hours=23), end=START + timedelta(hours=26), precision="day")
    dates = signal_of(index, "dates", spans=(span,))
    assert dates["turn24"] == 1
    assert dates["turn48"] < 1
    assert list(signal_of(index, "dates").values()) == [0, 0, 0]
    assert index.known_times() == (START, START + timedelta(hours=48))
    assert index.time_of("turn24") == START + timedelta(hours=24)
