"""Corrections among search results."""

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.search.search import corrected

# A later turn has a higher number.
replaced = st.dictionaries(st.integers(0, 9), st.integers(0, 9), max_size=6).map(
    lambda pairs: {str(old): str(new) for old, new in pairs.items() if old < new}
)


@given(st.permutations([str(number) for number in range(7)]), replaced)
def test_what_replaces_a_result_stands_before_it_and_the_order_of_others_stays(
    ranking: list[str], replaced: dict[str, str]
) -> None:
    """Nothing is lost or doubled; turns that were not found come in, but only for one that was."""
    order = corrected(ranking, replaced)
    assert len(order) == len(set(order))
    assert set(ranking) <= set(order) <= {*ranking, *replaced.values()}
    place = {turn_id: number for number, turn_id in enumerate(order)}
    assert all(place[replaced[turn_id]] < place[turn_id] for turn_id in order if turn_id in replaced)
    left = [turn_id for turn_id in ranking if turn_id not in replaced.values()]
    assert [turn_id for turn_id in order if turn_id in left] == left


def test_where_is_asked_what_was_before_the_earlier_stands_before_what_replaced_it() -> None:
    """The last one of several comes behind all, and the one right before it first."""
    replaced = {"1": "2", "2": "3"}
    assert corrected(["3", "x", "1", "2"], replaced) == ["3", "x", "2", "1"]
    assert corrected(["3", "x", "1"], replaced, formerly=True) == ["2", "1", "3", "x"]
