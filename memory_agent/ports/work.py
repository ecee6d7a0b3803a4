"""The port of owed work: stages owed to turns, and leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from memory_agent.domain import Lease, MemoryStatus, Scope, Stage, Tenant, Turn


class WorkStore(Protocol):
    """Owed work: which turns owe which stages, and who holds which lease."""

    async def due_threads(self, now: datetime, stage: Stage, *, limit: int) -> list[Scope]:
        """Threads with turns that owe `stage` next, are due and not parked, user by user; leased or not.

        In turns: each user's longest due thread, then each one's next. Among these the longest due first, those due alike by
        user and thread. Next: no stage that runs before it is still owed to the turn. A store that reads but a part of
        a long backlog reads the longest due 100,000 turns at least.
        """

    async def owed_turns(
        self, scope: Scope, stage: Stage | None, *, limit: int, parked: bool = True, newest: bool = False
    ) -> list[Turn]:
        """The scope's turns that owe `stage` (None: any), not yet due ones included, parked ones unless `parked` is False.

        With a thread by `seq`, of a user by id: the lowest first, or with `newest` the highest first.
        """

    async def owes_more_than(self, turns: int) -> bool:
        """True if more than so many turns, whoever's, owe a stage and are not parked. It costs at most counting so many in an index."""

    async def strike_off(self, scope: Scope, turn_ids: Sequence[str], *stages: Stage) -> None:
        """These stages are no longer owed to these turns, and their attempts and last error are forgotten.

        Idempotent: turns that owe none of them, and unknown (forgotten) ones, are passed over. Those that owe other stages
        stay due, or parked, as they are; those that owe nothing more are neither.
        """

    async def postpone(
        self, scope: Scope, turn_ids: Sequence[str], *, error: str, due_at: datetime | None, counted: bool
    ) -> None:
        """A stage of these turns failed with `error`: they are due again at `due_at`, or parked if it is None.

        Parked ones come back by a `due_at`. `counted` says whether it counts as one of their attempts. Turns that owe
        nothing are passed over.
        """

    async def owe(
        self, scope: Scope, stage: Stage, *, now: datetime, turn_ids: Sequence[str] | None = None
    ) -> int:
        """`stage` is owed (again) to all turns of the scope, or to these; those parked come back. How many.

        All of them, also those that owed it before, are due at `now` with no attempts and no last error.
        """

    async def retry_parked(self, scope: Scope | Tenant | None, *, now: datetime) -> int:
        """Parked turns of the scope (None: of everybody) are due at `now` with no attempts counted. How many.

        Their last error stays until they succeed or fail anew.
        """

    async def status(self, scope: Scope | Tenant | None, *, now: datetime) -> MemoryStatus:
        """Counts of the scope (None: everybody). `lag_seconds` counts to `now` from the owed turn's storing (`stored_at`).

        `outages` are those kept as leases (`OUTAGE_NAMES`, `outages_of`), run out or not, of stages that the scope's turns
        owe. A thread's status costs no more the longer it grows, as long as its conversation is compressed.
        """

    async def acquire_leases(
        self, names: Sequence[str], holder: str, *, now: datetime, until: datetime, note: str | None = None
    ) -> set[str]:
        """Take or renew leases until `until`; those of `names` that `holder` has now. Another's runs beyond `now` are not taken.

        Of several holders that ask for one at once, exactly one gets it. Its `since` is `now` when it is taken (also by
        the same holder after it ran out) and stays when it is renewed; its `note` is replaced.
        """

    async def load_lease(self, name: str) -> Lease | None:
        """The lease as last taken, also if it has run out; None if it was given back or never taken."""

    async def held_leases(self, now: datetime, *, limit: int) -> list[Lease]:
        """The first `limit` leases by name that run beyond `now`, whoever has them; those that outages are kept as are none."""

    async def release_leases(self, names: Sequence[str], holder: str) -> None:
        """Give back those of the leases that `holder` has."""
