"""The load's bookkeeping: what a service must not do is noticed, what it may do is not complained of."""

import dataclasses
from typing import Any

import pytest

from benchmarks.service_load import Exchange, discrepancies, texts


def exchange(number: int, *, client: int = 0, began: float | None = None, took: float = 0.5) -> Exchange:
    """An acknowledged exchange; without more said they follow one another in time and in seq."""
    start = float(number) if began is None else began
    return Exchange(
        client=client,
        number=number,
        tenant="acme",
        user="ada",
        thread="chat",
        began=start,
        acked=start + took,
        turn_ids=(f"{client}-{number} user", f"{client}-{number} assistant"),
        seq=2 * number + 2,
    )


def stored(one: Exchange) -> list[dict[str, Any]]:
    """The exchange's turns as a service lists them."""
    ids = (f"{one.client}-{one.number} user", f"{one.client}-{one.number} assistant")
    return [
        {"id": id_, "seq": 2 * one.number + 1 + at, "role": role, "content": content}
        for at, (id_, role, content) in enumerate(
            zip(ids, ("user", "assistant"), texts(one.client, one.number), strict=True)
        )
    ]


SENT = [exchange(number) for number in range(5)]
FOUND = [turn for one in SENT for turn in stored(one)]


def first(sent: list[Exchange], found: list[dict[str, Any]]) -> str:
    """The first discrepancy; empty if there is none."""
    return next(discrepancies(sent, found), "")


def changed(position: int, **values: Any) -> list[dict[str, Any]]:
    """What was found, but for one turn."""
    return [{**turn, **values} if at == position else turn for at, turn in enumerate(FOUND)]


def again(exchange: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same turns once more, later and under other ids."""
    return [{**turn, "id": f"again {turn['id']}", "seq": turn["seq"] + 100} for turn in exchange]


SWAPPED = [*FOUND[:2], {**FOUND[3], "seq": 3}, {**FOUND[2], "seq": 4}, *FOUND[4:]]
STRAY = {"id": "stray", "seq": 99, "role": "user", "content": "Who said that?"}
UNKNOWN = dataclasses.replace(SENT[4], acked=None, turn_ids=(), seq=0)
"""An exchange without a receipt."""


@pytest.mark.parametrize(
    ("found", "said"),
    [
        *((FOUND[:at] + FOUND[at + 1 :], "is lost") for at in (0, 3, 9)),
        (FOUND + again(stored(SENT[2])), "never acknowledged"),
        ([*FOUND, FOUND[-1]], "doubled"),
        (changed(4, seq=2), "do not rise"),
        (changed(4, seq=FOUND[3]["seq"]), "do not rise"),
        (SWAPPED, "was acknowledged and is"),
        (changed(2, id="another"), "is lost"),
        (changed(4, content=FOUND[4]["content"] + " "), "was acknowledged and is"),
        ([*FOUND, STRAY], "never acknowledged"),
    ],
)
def test_what_is_lost_doubled_changed_or_out_of_order_is_noticed(
    found: list[dict[str, Any]], said: str
) -> None:
    assert any(said in one for one in discrepancies(SENT, found))


def test_exchange_behind_one_that_was_sent_after_its_receipt_is_noticed() -> None:
    late = [exchange(0, began=10.0), exchange(1, client=1, began=0.0)]
    assert "stands behind it" in first(late, [turn for one in late for turn in stored(one)])


def test_exchange_without_a_receipt_may_be_there_wholly_in_part_or_not_at_all_but_not_twice() -> None:
    for found in (FOUND, FOUND[:9], FOUND[:8]):
        assert list(discrepancies([*SENT[:4], UNKNOWN], found)) == []
    assert "never acknowledged" in first([*SENT[:4], UNKNOWN], FOUND + again(FOUND[8:]))
