"""Where a rule holds in a Korean sentence, whose negation stands in the ending: each rule's `unless` looks after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

    from memory_agent.text.moments.rules import Rule
    from memory_agent.text.sentences import Sentence


def found_by(rule: Rule, sentence: Sentence) -> re.Match[str] | None:
    """Where a rule holds in a sentence; None where it doesn't, and without one of its cues."""
    if (sentence.asks and not rule.asking) or not any(cue in sentence.low for cue in rule.cues):
        return None
    match = rule.pattern.search(sentence.low)
    return None if match is None or rule.is_undone(sentence.low) else match
