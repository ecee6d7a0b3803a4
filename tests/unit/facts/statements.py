"""What an extractor says of one turn, and what comes of it."""

from typing import Any

from memory_agent.domain import FactChange, StatedFact, Turn
from memory_agent.facts.fold import fold_facts
from memory_agent.facts.keeper import Known, TurnStatements
from memory_agent.facts.vetting import Vetted
from tests.unit.facts.builders import item, stated, turn

TEXT = "Well, I’m Ann and I  live in Bergen; I like tea."
QUOTE = "i'm ann and i live in bergen"
NOTHING = Known(fold_facts([]))


def known(*changes: FactChange) -> Known:
    return Known(fold_facts(changes))


def holding(document: dict[str, Any]) -> Known:
    return known(stated(1, document))


def said_of(one: Turn, *items: StatedFact, **more: Any) -> TurnStatements:
    return TurnStatements(one, {one.id: one.content}, items=list(items), **more)


def vetted(
    *items: StatedFact, text: str = TEXT, holds: Known = NOTHING, never: tuple[str, ...] = ()
) -> Vetted:
    """What comes of these items of the turn."""
    return Vetted(said_of(turn(text), *items), holds, never)


def made(vetted_items: Vetted) -> list[tuple[str, str, Any]]:
    """Its events, each as op, path and value; nothing may have been refused."""
    assert vetted_items.refused == []
    return [(event.op, ".".join(event.path), event.value) for event in vetted_items.events]


def reason(vetted_items: Vetted) -> str:
    assert vetted_items.events == []
    [refused] = vetted_items.refused
    return refused.reason


def states(path: str, value: Any = None, **more: Any) -> StatedFact:
    """An item with a quote that is in its turn."""
    return item(path, value, more.pop("quote", QUOTE), **{"plain": True} | more)
