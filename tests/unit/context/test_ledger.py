"""Taking items one by one into a budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.context.budget import usable
from memory_agent.context.ledger import Item, Packing
from memory_agent.context.render import recalled_line
from memory_agent.domain import ContextLine, Tier
from memory_agent.ports import TokenCounter
from tests.unit.search.builders import COUNTERS, ExactTokens, turn

ORDER: tuple[Tier, ...] = ("persona", "facts", "preserved", "short_term")


def packing(budget: int = 1_000) -> Packing:
    return Packing(ORDER, budget=budget, counter=ExactTokens())


def plain(into: Packing, name: str, text: str = "five words of a fact", *, tier: Tier = "facts") -> Item:
    return into.item(tier, name, ContextLine(body=text), place=0, reason="known")


def test_an_item_costs_what_its_line_costs_and_the_break_behind_it() -> None:
    """Counted together, as encodings merge them."""
    into = packing()
    assert plain(into, "a").tokens == 6
    stored = turn(1, "one two three", tokens=70)
    shown = into.item("short_term", "t", recalled_line(stored), place=1, reason="x", turn=stored)
    assert shown.tokens == ExactTokens().count("user: one two three\n")


def test_unbroken_items_end_at_the_first_that_does_not_fit() -> None:
    into = packing(120)
    items = [plain(into, name, text) for name, text in (("a", "x"), ("b", "word " * 200), ("c", "x"))]
    assert into.take_unbroken(items) == items[1:]
    reasons = {entry.item: entry.reason for entry in into.packed().ledger if not entry.kept}
    assert reasons == {
        "b": "no room in the budget",
        "c": "no room for what lies between it and the newest turn",
    }


def test_an_excerpt_gives_way_to_its_whole_turn() -> None:
    """Whichever comes first; of two excerpts of a turn the first stays. What it took is free again."""
    into = packing()
    stored = turn(1, "one two three four five")

    def excerpt(name: str) -> Item:
        return into.item("facts", name, ContextLine(body="two"), place=0, reason="x", excerpt_of=1)

    assert into.take(excerpt("a"))
    assert not into.take(excerpt("b"))
    assert into.take(
        into.item("preserved", stored.id, recalled_line(stored), place=1, reason="x", turn=stored)
    )
    assert not into.take(excerpt("c"))
    assert into.used_by("facts") == 0
    packed = into.packed()
    assert [block.tier for block in packed.blocks] == ["preserved"]
    assert {entry.item: entry.reason for entry in packed.ledger if not entry.kept} == {
        "a": "shown already among the preserved turns",
        "b": "shown already among the facts",
        "c": "shown already among the preserved turns",
    }
    assert sum(entry.tokens for entry in packed.ledger if entry.kept) == packed.tokens


@pytest.mark.parametrize("counter", COUNTERS, ids=["exact", "estimated"])
@given(
    claimed=st.lists(st.tuples(st.sampled_from(ORDER), st.integers(1, 60), st.integers(0, 4)), max_size=12),
    budget=st.integers(0, 500),
)
def test_whatever_items_say_they_cost_what_is_packed_fits(
    counter: TokenCounter, claimed: list[tuple[Tier, int, int]], budget: int
) -> None:
    """Where the stored counts were far too low, the items taken last leave again, and the ledger says so."""
    into = Packing(ORDER, budget=budget, counter=counter)
    for number, (tier, words, tokens) in enumerate(claimed):
        stored = turn(number, "word " * words, tokens=tokens)
        into.take(into.item(tier, f"{number}", recalled_line(stored), place=number, reason="x", turn=stored))
    packed = into.packed()
    assert packed.tokens <= usable(budget, counter)
    assert sum(entry.tokens for entry in packed.ledger if entry.kept) == packed.tokens
    assert sorted(e.item for e in packed.ledger if e.tier != "envelope") == sorted(
        map(str, range(len(claimed)))
    )
    gone = [int(e.item) for e in packed.ledger if not e.kept]
    assert {e.reason for e in packed.ledger if not e.kept} <= {"no room in the budget"}
    assert all(packed.keeps(tier, f"{i}") != (i in gone) for i, (tier, _, _) in enumerate(claimed))


def test_of_a_text_that_no_budget_can_hold_its_beginning_and_end_are_read() -> None:
    """Reading all of a million characters would take seconds, and show no more."""
    body = "It begins here. " + "On and on it goes. " * 50_000 + "It ends here."
    item = packing().item("short_term", "giant", ContextLine(body=body), place=0.0, reason="a test")
    assert len(item.line.body) < 25_000
    assert item.line.body.startswith("It begins here.")
    assert item.line.body.endswith("It ends here.")
    whole = "It fits. " * 2_000
    assert (
        packing().item("short_term", "long", ContextLine(body=whole), place=0.0, reason="a test").line.body
        == whole
    )
