"""What a rule for a kind of moment looks like; the rules themselves are in the languages' folders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from memory_agent.lazily import lazily
from memory_agent.text.tables import alternatives
from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memory_agent.domain.base import Role
    from memory_agent.domain.moments import MomentKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One pattern for one kind of moment, searched in the lower-case sentence.

    `cues`: words (English) or pieces of words (Korean) of which the sentence must have one; they spare most sentences
    the search. `unless`: what the sentence must not have anywhere. `role`: whose turns only. `plain`: no negation and
    no doubt may stand before what was found, in its clause. `asking`: holds in questions as well.
    """

    kind: MomentKind
    pattern: re.Pattern[str]
    cues: frozenset[str]
    unless: re.Pattern[str] | None = None
    role: Role | None = None
    plain: bool = True
    asking: bool = False

    def is_undone(self, low: str) -> bool:
        """Whether a sentence has what this rule must not have: looked for last, since few sentences get so far."""
        return self.unless is not None and self.unless.search(low) is not None


def rule(
    kind: MomentKind,
    cues: str,
    table: str,
    *,
    unless: str = "",
    role: Role | None = None,
    plain: bool = True,
    asking: bool = False,
    lists: Mapping[str, str] = MappingProxyType({}),
) -> Rule:
    """A rule of two tables (`text.tables`): what is searched, and what undoes it; `lists`: the word lists they name."""
    return Rule(
        kind=kind,
        pattern=lazily(re.compile, alternatives(table, **lists)),
        cues=word_set(cues),
        unless=lazily(re.compile, alternatives(unless, **lists)) if unless else None,
        role=role,
        plain=plain,
        asking=asking,
    )
