"""What a user's turns come to: each category of facts, and each kind of statement that went wrong once, in many words."""

import dataclasses
from typing import Any

import pytest

from memory_agent.domain import FactChange
from memory_agent.facts.fold import fold_facts
from memory_agent.facts.keeper import Known
from memory_agent.facts.vetting import Vetted
from memory_agent.text.patterns import extract_facts
from tests.unit.examples import examples
from tests.unit.facts.builders import change, turn
from tests.unit.facts.statements import said_of

ROWS = [
    pytest.param(said, document, id=f"{kind}: {' '.join(said)}")
    for file in ("categories", "kinds")
    for kind, rows in examples(f"text/patterns/{file}.toml").items()
    for said, document in rows
]


def document_of(said: list[str]) -> dict[str, Any]:
    """The facts after turns with these texts, with what of them is believed."""
    changes: list[FactChange] = []
    for seq, text in enumerate(said, start=1):
        one = turn(text, id=f"t{seq:04d}", seq=seq)
        items = [dataclasses.replace(fact, turn_id=one.id, plain=True) for fact in extract_facts(text)]
        events = Vetted(said_of(one, *items), Known(fold_facts(changes))).events
        changes.append(change(seq, *events, turn=one.id))
    return next(iter(fold_facts(changes).people.values()), {})


@pytest.mark.parametrize(("said", "document"), ROWS)
def test_the_document_is_what_was_said(said: list[str], document: dict[str, Any]) -> None:
    assert document_of(said) == document
