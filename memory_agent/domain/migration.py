"""The move of a memory to another embedding model: its state, its plan, and how the results of both differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

Phase = Literal["moving", "back", "finishing", "finished", "rolled back"]
"""Of a migration: users are moved one by one; all go back; the old vectors are dropped; over, with the new model or the old one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedderModel:
    """An embedding model as settings name it. `settings`: those that differ between models; without any the application hands it in."""

    name: str
    fingerprint: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedderMigration:
    """State of the move of a memory to another embedding model.

    `moved` of `users` are searched by the vectors of `target` alone, the others by those of `source` alone. In phases "back" and
    "finishing" `moved` counts the users that are done with.
    """

    source: EmbedderModel
    target: EmbedderModel
    phase: Phase
    started_at: datetime
    users: int = 0
    moved: int = 0
    looked: bool = False
    """Whether the users were counted since this phase began."""
    left: tuple[str, ...] = ()
    """Fingerprints of the models that earlier moves have left, however the settings of some process may still name one."""

    @property
    def is_over(self) -> bool:
        """True if nothing of it is left to do, and another one may begin."""
        return self.phase in ("finished", "rolled back")

    @property
    def formers(self) -> frozenset[str]:
        """Fingerprints of the models whose vectors are gone, once it is over."""
        former = self.source if self.phase == "finished" else self.target
        return frozenset({former.fingerprint, *self.left})

    @property
    def left_with_it(self) -> frozenset[str]:
        """The models that earlier moves and this one have left, once it is over."""
        return frozenset({*self.left, *([self.source.fingerprint] if self.phase == "finished" else [])})

    @property
    def default(self) -> EmbedderModel:
        """The model of users without a pointer of their own."""
        return self.target if self.phase in ("finishing", "finished") else self.source


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrationPlan:
    """Cost of a move to another embedding model: `seconds` on this machine, `disk_bytes` in the store until it is finished.

    Both are estimated from a sample of the turns, embedded by the new model.
    """

    source: EmbedderModel
    target: EmbedderModel
    users: int
    turns: int
    seconds: float
    disk_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrationReport:
    """Difference of the results of two models, on a sample of turns of moved users.

    `overlap`: the share of the first ten results of a search, with such a turn as the question, that both models agree on.
    `found_by_source` and `found_by_target`: the share of the turns that are among the ten nearest of their user to their own rarest words,
    by the vectors of that model alone.
    """

    questions: int
    overlap: float
    found_by_source: float
    found_by_target: float
