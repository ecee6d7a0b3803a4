"""Findings: the kinds of differences, in words, and how each is mended. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memory_agent.domain import Scope

# fmt: off
Repair: TypeAlias = Literal[
    "files", "index", "embed", "sweep", "facts", "topics", "place", "sessions", "retry", "owe", "release", "vectors", "erase",
    "replay", "forget", "aside", "anew",
]
# fmt: on

KINDS: Final[dict[str, tuple[str, str, Repair | None]]] = {
    "file_damaged": ("fault", "in the SQLite file", "files"),
    "damaged": ("stored record", "that cannot be read, which keeps its thread from being examined", "aside"),
    "row_damaged": ("search row", "that cannot be read", "anew"),
    "unreadable": ("thread", "with something that cannot be read", None),
    "text_lost": ("turn", "whose packed text is lost or damaged", "forget"),
    "row_missing": ("turn", "without a search row", "index"),
    "row_orphan": ("search row", "of turns that are gone", "sweep"),
    "row_false": ("search row", "with another place, role or time than the turn's", "embed"),
    "vectors_false": ("search row", "with vectors that are none", "embed"),
    "terms_missing": ("term", "missing in the large user's term index", "index"),
    "vector_orphan": ("turn", "gone, with vectors in the Chroma server", "vectors"),
    "vector_missing": (
        "turn",
        "of a large user, without vectors where they are searched in the Chroma server",
        "index",
    ),
    "topic_missing": ("topic", "missing that turns belong to", "topics"),
    "topic_false": ("topic", "made of other turns than there are", "topics"),
    "topic_empty": ("topic", "of turns that are all gone", "sweep"),
    "topicless": ("turn", "without a topic", "place"),
    "session_missing": ("session", "missing that turns belong to", "sessions"),
    "change_orphan": ("fact change", "of turns that are gone", "sweep"),
    "facts_false": ("facts document", "not the fold of the thread's changes", "facts"),
    "compression_false": ("compression", "of turns that are gone, miscounted or out of order", "sweep"),
    "parked": ("turn", "parked", "retry"),
    "stuck": ("turn", "with work that no worker would ever begin", "owe"),
    "lease_ahead": ("lease", "held far into the future: was a clock ahead?", "release"),
    "erasure_lost": ("forget call", "whose last pass nobody owes", "erase"),
    "came_back": ("turn", "there again after being forgotten", "replay"),
    "keys": ("fault", "in the API keys", None),
}
"""Of each kind: what is counted, what is wrong with it, and how it is mended (None: by a person)."""
HIDING: Final = ("damaged", "row_damaged")
"""Kinds of what has to be mended first, for it keeps the rest from being looked at."""
NOTES: Final = {
    "index_down": "the Chroma server cannot be asked, so that vectors were not looked at",
    "owed": "owed for more than an hour; is a worker running? memory-agent worker",
    "erasures_owed": "forget calls wait for more than an hour; is a worker running? memory-agent worker",
    "put_aside": "records that could not be read were put aside; once you have of them what you need, remove the file",
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
    def repair(self) -> Repair | None:
        """Way of mending it; None: by a person."""
        return KINDS[self.kind][2] if self.wrong else None

    @property
    def what(self) -> str:
        """It in words, with how many."""
        more = f" ({self.detail})" if self.detail else ""
        if not self.wrong:
            return f"{NOTES[self.kind]}{more}"
        noun, rest, _ = KINDS[self.kind]
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
