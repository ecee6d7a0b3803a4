"""Whose a fact is: each person has a document of their own, and nothing that one says touches another's. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory_agent.domain import UNNAMED
from memory_agent.errors import InvalidInput
from memory_agent.facts.merge import fact_text
from memory_agent.facts.tree import fact_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def subject_of(speaker: str | None) -> str:
    """The subject of what a speaker states: the name on one line; empty if there is none.

    >>> subject_of(" Ann  Lee"), subject_of(None)
    ('Ann Lee', '')
    """
    return " ".join(fact_text(speaker or "").split())


def person_key(subject: str) -> str:
    """A text that is equal for all spellings of a name: case and white space don't matter."""
    return fact_json(subject or UNNAMED)


def shown(people: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The documents of `people` as one: that of the one person there is, or each by name where there are several.

    Of several, those of whom nothing is known (any more) are left out.

    >>> shown({"Ann": {"job": "nurse"}}), shown({"Ann": {"job": "nurse"}, "Bo": {}})
    ({'job': 'nurse'}, {'Ann': {'job': 'nurse'}})
    """
    if len(people) > 1:
        return {name: dict(facts) for name, facts in people.items() if facts}
    return next((dict(facts) for facts in people.values()), {})


def called(people: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The speaker ("": the user without a name) whom each name stands for that people gave themselves ("name").

    Not the name that they go by; and one that several gave themselves stands for none of them.

    >>> called({"emi_42": {"name": "Kate"}, "Bo": {"name": "Bo"}, "user": {"name": "Ann"}})
    {'Kate': 'emi_42', 'Ann': ''}
    """
    given = [
        (name, subject)
        for subject, facts in people.items()
        if isinstance(name := facts.get("name"), str) and person_key(name) != person_key(subject)
    ]
    names = [person_key(name) for name, _ in given]
    return {
        name: "" if subject == UNNAMED else subject
        for name, subject in given
        if names.count(person_key(name)) == 1
    }


def document_of(people: Mapping[str, Mapping[str, Any]], about: str) -> dict[str, Any]:
    """The document of the person called `about` ("": the user without a name); empty if nothing is known of such a person."""
    found = (facts for name, facts in people.items() if person_key(name) == person_key(about))
    return next(map(dict, found), {})


def addressed(people: Collection[str], about: str | None) -> str:
    """The subject of an edit: `about`, else the one person there is, else the user without a name.

    Empty while nobody is known by name. Raises InvalidInput where several are known, all of them by name.
    """
    if about is not None:
        return subject_of(about) or UNNAMED
    if len(people) > 1 and UNNAMED not in people:
        listed = ", ".join(map(repr, people))
        raise InvalidInput(f"about is None, and facts are of several people; pass one of {listed:.400}")
    if set(people) <= {UNNAMED}:
        return ""
    return UNNAMED if UNNAMED in people else next(iter(people))
