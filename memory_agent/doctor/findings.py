"""Findings: the kinds of differences, in words, and what to do about each. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memory_agent.domain import Scope

KINDS: Final[dict[str, tuple[str, str]]] = {
    "file_damaged": ("fault", "in the SQLite file"),
    "damaged": ("stored record", "that cannot be read, which keeps its thread from being examined"),
    "derived_damaged": ("derived record", "that cannot be read"),
    "unreadable": ("thread", "with something that cannot be read"),
    "text_lost": ("turn", "whose packed text is lost or damaged"),
    "row_missing": ("turn", "without a search row"),
    "row_orphan": ("search row", "of turns that are gone"),
    "row_false": ("search row", "with another place, role or time than the turn's"),
    "vectors_false": ("search row", "with vectors that are none"),
    "terms_missing": ("term", "missing in the large user's term index"),
    "vector_orphan": ("turn", "gone, with vectors in the Chroma server"),
    "vector_missing": (
        "turn",
        "of a large user, without vectors where they are searched in the Chroma server",
    ),
    "topic_missing": ("topic", "missing that turns belong to"),
    "topic_false": ("topic", "made of other turns than there are"),
    "topic_empty": ("topic", "of turns that are all gone"),
    "topicless": ("turn", "without a topic"),
    "session_missing": ("session", "missing that turns belong to"),
    "change_orphan": ("fact change", "of turns that are gone"),
    "facts_false": ("facts document", "not the fold of the thread's changes"),
    "compression_false": ("compression", "of turns that are gone, miscounted or out of order"),
    "parked": ("turn", "parked"),
    "stuck": ("turn", "with work that no worker would ever begin"),
    "lease_ahead": ("lease", "held far into the future: was a clock ahead?"),
    "erasure_lost": ("forget call", "whose last pass nobody owes"),
    "came_back": ("turn", "there again after being forgotten"),
    "keys": ("fault", "in the API keys"),
}
"""Of each kind: what is counted, and what is wrong with it."""
_BACKUP: Final = "restore a backup into another place"
_ERASE: Final = "erase it again: memory-agent erasures --jsonl > receipts.jsonl, memory-agent forget --from receipts.jsonl"
BY_HAND: Final = {
    "file_damaged": f"{_BACKUP}, or save what is readable: memory-agent doctor --save-to FILE; if it is an index alone: sqlite3 FILE REINDEX",
    "damaged": f"{_BACKUP}; or give these records up: memory-agent doctor --repair --forget-unreadable",
    "unreadable": f"{_BACKUP}, or save what is readable: memory-agent doctor --save-to FILE",
    "text_lost": f"{_BACKUP}; or give these turns up: memory-agent doctor --repair --forget-unreadable",
    "parked": "mend the cause, then: memory-agent retry",
    "erasure_lost": _ERASE,
    "came_back": _ERASE,
    "keys": "put keys.sqlite3 back from a backup, or move it away and make new keys: memory-agent keys create",
}
"""What a person does about those kinds that nothing makes anew."""
GIVEN_UP: Final = ("damaged", "text_lost")
"""Kinds of what is lost, which a person may give up."""
HIDING: Final = ("damaged", "derived_damaged")
"""Kinds of what has to be mended first, for it keeps the rest from being looked at."""
NOTES: Final = {
    "index_down": "the Chroma server cannot be asked, so that vectors were not looked at",
    "owed": "owed for more than an hour; is a worker running? memory-agent worker",
    "erasures_owed": "forget calls wait for more than an hour; is a worker running? memory-agent worker",
    "clock": "turns have times of storing ahead of this clock; is it right?",
}
"""What is worth knowing, and nothing wrong."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A difference. `ids`: what it is about, by the kind: turns, topics, sessions, fact changes; `detail`: what is known besides."""

    kind: str
    scope: Scope | None = None
    ids: tuple[str, ...] = ()
    detail: str = ""

    @property
    def wrong(self) -> bool:
        """False of what is only worth knowing."""
        return self.kind in KINDS

    @property
    def repair(self) -> bool:
        """True if it is made anew from the turns; otherwise a person has to do something."""
        return self.wrong and self.kind not in BY_HAND

    @property
    def what(self) -> str:
        """It in words, with how many."""
        more = f" ({self.detail})" if self.detail else ""
        if not self.wrong:
            return f"{NOTES[self.kind]}{more}"
        noun, rest = KINDS[self.kind]
        count = max(len(self.ids), 1)
        return f"{count:,} {noun}{'' if count == 1 else 's'} {rest}{more}"


def findings_by_kind(findings: Iterable[Finding]) -> list[list[Finding]]:
    """The findings of each kind: what is wrong before what is only worth knowing."""
    kinds: dict[str, list[Finding]] = {}
    for finding in findings:
        kinds.setdefault(finding.kind, []).append(finding)
    return sorted(kinds.values(), key=lambda of_kind: not of_kind[0].wrong)


def together(of_kind: Sequence[Finding]) -> Finding:
    """One finding in place of several of a kind, without what each says besides."""
    ids = tuple(each for one in of_kind for each in one.ids)
    return of_kind[0] if len(of_kind) == 1 else replace(of_kind[0], ids=ids, detail="")


def still_there(before: Sequence[Finding], now: Iterable[Finding]) -> list[Finding]:
    """Those of `before` that were found again, as far as they were: what is under way looks like a difference once."""
    again = {finding.kind: finding for finding in now}
    found = []
    for finding in before:
        ids = set(again[finding.kind].ids) if finding.kind in again else set()
        if kept := tuple(each for each in finding.ids if each in ids):
            found.append(replace(again[finding.kind], ids=kept))
    return found
