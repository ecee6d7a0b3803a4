"""The port of the document store, which holds the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from memory_agent.domain import (
        Compressed,
        Compression,
        EntityCount,
        ErasedCounts,
        Erasure,
        ExtractionCost,
        FactChange,
        FactsDocument,
        KeyedKind,
        Lease,
        MemoryEvent,
        MemoryStatus,
        OldTurn,
        Scope,
        SearchRow,
        Session,
        Stage,
        TermCandidates,
        ThreadHead,
        Tombstone,
        Topic,
        TopicStanding,
        TopicTurns,
        Turn,
        TurnDraft,
    )


@runtime_checkable
class DocumentStore(Protocol):
    """The truth: turns with what is owed to them, search rows, facts, and the records of forgetting."""

    # --- lifecycle -------------------------------------------------------------------------------------------
    async def open(self) -> None:
        """Connect and create missing collections and indexes. Idempotent, and safe when processes do it at once."""

    async def close(self) -> None:
        """Release what `open` made; a client that was handed in stays open. Idempotent."""

    # --- turns -----------------------------------------------------------------------------------------------
    async def append_turns(self, scope: Scope, drafts: Sequence[TurnDraft]) -> list[Turn | Tombstone]:
        """Store the turns of one call durably, in order, and return them with their `seq`.

        Durable: once this returned, the turns survive the death of this process and of the server's.
        `seq` starts at 1 per thread, is unique, and is greater than that of every append of the thread that
        returned before this one started, whichever process made it. Nothing with a lower `seq` becomes visible
        later: who has seen `seq` n will never see a new turn below n.

        If the drafts carry an idempotency key that the thread has seen, nothing is stored and the first call's
        turns are returned (a Tombstone for each that was forgotten since); a first call that a crash cut short
        is completed. A call that raises Unavailable may have stored all, a first part, or none of its turns.
        Turns with `pending` stages are due at their `due_at`. `scope` must name a thread.
        """

    async def list_turns(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        topic_ids: Sequence[str] | None = None,
        compressed: bool | None = None,
        session_id: str | None = None,
        after_seq: int = 0,
        through: int | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> list[Turn]:
        """Turns of the scope. With a thread: by rising `seq`; of a user: by rising id, threads mixed.

        `ids`: only these (unknown or foreign ones are left out). `topic_ids`: only turns that carry one of these.
        `compressed`: only those that are, or aren't. `session_id`: only that session's. `after_seq`: only above it;
        `through`: only up to and including it. `limit`: the first so many, or
        with `newest` the last so many (still in rising order). Compressed turns come with their text, as every
        turn that a method of this port returns.
        """

    async def turns_before(
        self, time: datetime, *, after: OldTurn | None = None, limit: int
    ) -> list[OldTurn]:
        """Everybody's first `limit` turns with a `timestamp` before `time`, by rising timestamp and id.

        `after`: only those that sort after it.
        """

    # --- sessions --------------------------------------------------------------------------------------------
    async def thread_head(self, scope: Scope) -> ThreadHead:
        """The thread's newest session (its counted fields at their defaults), its last turn, and the last `seq` given.

        That number outlives the turn that had it, until `erase_user_remains` lets the thread begin anew.

        Small indexed reads: every `update_memory` makes them. `scope` must name a thread.
        """

    async def put_sessions(self, sessions: Sequence[Session]) -> bool:
        """Store new sessions of one thread, numbered in a row, durably; False if the thread has one of the numbers, or
        one of their idempotency keys.

        All of them or none. Without transactions, and if another caller is quick enough to take one of the later
        numbers, those before it were there for a moment: they are deleted again, but for one that a turn came to
        belong to meanwhile. Counted fields are ignored.
        """

    async def sessions(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        newest: int | None = None,
        idempotency_key: str | None = None,
    ) -> list[Session]:
        """The scope's sessions by `started_at` and number, with `total_turns`, `last_activity` and
        `compression_count` counted. `ids`: only these. `newest`: only the last so many of that order.
        `idempotency_key`: only the one that was stored with it.
        """

    async def find_session(
        self, session_id: str, *, tenant: str, user_id: str | None = None
    ) -> Session | None:
        """The tenant's session of that id, counted as by `sessions`; None if there is none. By an index.

        `user_id`: only that user's, by the id that the tenant knows the user by. Should several have the id, which only
        callers of this port can bring about, it is the first by user and thread.
        """

    async def delete_session(self, scope: Scope, session_id: str) -> bool:
        """Delete a session that no turn belongs to; else (or if it is unknown) False."""

    # --- compressions ----------------------------------------------------------------------------------------
    async def append_compression(self, compression: Compression) -> bool:
        """Store a compression durably; False (and nothing stored) if it cannot stand.

        That is if its number is not one above the thread's newest (1 without any), its `after_seq` is not that one's
        `through` (0 without any), or one of the turns it covers is gone: what it was made of changed under its maker's
        hands. After a crash in between a compression of forgotten turns may be left, which `sweep_orphans` takes away.
        """

    async def compressions(
        self, scope: Scope, *, through: int | None = None, newest: int | None = None
    ) -> list[Compression]:
        """The thread's compressions by rising number. `through`: only those whose own is not above it; `newest`: only
        the last so many. `scope` must name a thread.
        """

    # --- owed work -------------------------------------------------------------------------------------------
    async def due_threads(self, now: datetime, stage: Stage, *, limit: int) -> list[Scope]:
        """Threads with turns that owe `stage` next, are due and not parked, longest due first; leased or not.

        Next: no stage that runs before it is still owed to the turn.
        """

    async def owed_turns(
        self, scope: Scope, stage: Stage, *, limit: int, parked: bool = True, newest: bool = False
    ) -> list[Turn]:
        """The scope's turns that owe `stage`, not yet due ones included, parked ones unless `parked` is False.

        With a thread by `seq`, of a user by id: the lowest first, or with `newest` the highest first.
        """

    async def strike_off(self, scope: Scope, turn_ids: Sequence[str], stage: Stage) -> None:
        """`stage` is no longer owed to these turns, and their attempts and last error are forgotten.

        Idempotent; unknown (forgotten) turns are passed over. A parked turn that owes nothing more is not
        parked any more.
        """

    async def postpone(
        self, scope: Scope, turn_ids: Sequence[str], *, error: str, due_at: datetime | None, counted: bool
    ) -> None:
        """A stage of these turns failed with `error`: they are due again at `due_at`, or parked if it is None.

        `counted` says whether it counts as one of their attempts. Turns that owe nothing are passed over.
        """

    async def owe(
        self, scope: Scope, stage: Stage, *, now: datetime, turn_ids: Sequence[str] | None = None
    ) -> int:
        """`stage` is owed (again) to all turns of the scope, or to these; those parked come back. How many.

        Due at `now`.
        """

    async def retry_parked(self, scope: Scope | None, *, now: datetime) -> int:
        """Parked turns of the scope (None: of everybody) are due at `now` with no attempts counted. How many."""

    async def status(self, scope: Scope | None, *, now: datetime) -> MemoryStatus:
        """How the scope (None: everybody) stands. `lag_seconds` counts from the owed turn's storing to `now`.

        `outages` are those kept as leases (`OUTAGE_NAMES`, `outages_of`), of stages that the scope's turns owe.
        """

    async def acquire_lease(
        self, name: str, holder: str, *, now: datetime, until: datetime, note: str | None = None
    ) -> bool:
        """Take or renew the lease `name` until `until`; False if another holder's is still live at `now`.

        Of several holders that ask at once, exactly one gets it. Its `since` is `now` when it is taken (also by
        the same holder after it ran out) and stays when it is renewed; its `note` is replaced.
        """

    async def load_lease(self, name: str) -> Lease | None:
        """The lease as last taken, also if it has run out; None if it was given back or never taken."""

    async def release_lease(self, name: str, holder: str) -> None:
        """Give the lease back if `holder` has it; otherwise nothing happens."""

    # --- search rows -----------------------------------------------------------------------------------------
    async def put_search_rows(self, user_id: str, rows: Sequence[SearchRow], *, now: datetime) -> None:
        """Insert or replace rows by turn id; each gets a fresh `index_seq` (the rows' own is ignored).

        `index_seq` is greater than every one the user had before, also when rows were deleted since (it is
        `max(newest + 1, now in ms since 1970)`), and as with `seq`, none becomes visible below one already seen.
        """

    async def search_rows(
        self, user_id: str, *, ids: Sequence[str] | None = None, after: int = 0, limit: int | None = None
    ) -> list[SearchRow]:
        """The user's rows (stubs of erased ones included) by rising `index_seq`.

        `ids`: only these turns'. `after`: only `index_seq` above it. `limit`: the first so many.
        """

    async def index_head(self, user_id: str) -> int:
        """The user's highest `index_seq`; 0 without rows. One small indexed read: every search makes it."""

    async def term_candidates(self, scope: Scope, terms: Sequence[str], *, limit: int) -> TermCandidates:
        """For each term, the newest `limit` rows of the scope that hold it, with the user's statistics."""

    async def neighbour_rows(self, user_id: str, places: Sequence[tuple[str, int]]) -> list[SearchRow]:
        """The user's rows at these places (thread, `seq`), without stubs of erased ones, each once and in any order.

        Places without a row are passed over. By an index: it costs what it finds, however many rows the user has.
        """

    async def entity_counts(self, scope: Scope) -> list[EntityCount]:
        """The entities that the scope's rows name (terms that `Entity.from_term` knows), by first mention.

        That is by `timestamp` and turn id of the first turn that names it, and for equal ones in the order of the
        row's terms. Each turn counts once for an entity.
        """

    # --- topics ----------------------------------------------------------------------------------------------
    async def assign_topics(self, scope: Scope, topics: Mapping[str, str]) -> None:
        """Give these turns (turn id -> topic id) their topic, where they have none yet.

        So the first assignment stands. Unknown and forgotten turns are passed over. `scope` must name a thread.
        """

    async def list_topics(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] | None = None,
        archived: bool | None = None,
        stale: bool | None = None,
    ) -> list[Topic]:
        """The scope's topics by rising id. `ids`: only these. `archived`, `stale`: only those that are, or aren't."""

    async def save_topic(self, topic: Topic, *, expected: str | None) -> bool:
        """Store the topic if its stored revision is `expected` (None: there is no such topic yet); else False.

        It gets a fresh random revision (the topic's own is ignored).
        """

    async def delete_topic(self, scope: Scope, topic_id: str, *, expected: str) -> bool:
        """Delete the topic if its revision is `expected`; else (or if it is gone) False."""

    async def count_topic_turns(self, scope: Scope, topic_ids: Sequence[str]) -> dict[str, TopicTurns]:
        """For each of these topics (zeros where there is neither): turns that carry its id, bytes of its segments.

        Segments of absorbed topics' turns may be kept under either id: add up a topic's and those it absorbed.
        `scope` must name a thread.
        """

    async def compress_turns(self, scope: Scope, topic_id: str, turn_ids: Sequence[str]) -> Compressed:
        """Pack the texts of these turns into one or more segments of the topic, in the order of `seq`.

        Turns that are compressed already, unknown or forgotten are passed over. At every moment, also after a
        crash at any point, each turn can be read with its text byte for byte; a repeat packs what is left.
        `scope` must name a thread.
        """

    async def topics_after(self, key: tuple[str, str, str] | None, *, limit: int) -> list[TopicStanding]:
        """Everybody's first `limit` topics by (user_id, thread_id, id), above `key` (None: from the first)."""

    # --- facts -----------------------------------------------------------------------------------------------
    async def append_fact_change(self, scope: Scope, change: FactChange) -> bool:
        """Append one change to the thread's facts; False (and nothing stored) if its key is there already, or its
        idempotency key.

        Atomic: all of it or nothing. `seq` is assigned as for turns; the change's own `seq` and `thread_id` are ignored.
        """

    async def fact_changes(
        self, scope: Scope, *, after_seq: int = 0, keys: Sequence[str] | None = None
    ) -> list[FactChange]:
        """With a thread: its changes by rising `seq`, above `after_seq`. Of a user: all threads' by `recorded_at`.

        Of equal `recorded_at` by thread and `seq`. `keys`: only the changes with these keys. All kinds and generations.
        """

    async def drop_generation(self, scope: Scope, generation: str) -> int:
        """Delete the thread's changes of this replay, its `replay` and `undo` changes too. How many.

        Their numbers stay taken, and the document is reset as by `erase_turns`. For a replay that was never applied.
        Raises InvalidInput for the empty generation.
        """

    async def add_extraction_cost(self, scope: Scope, cost: ExtractionCost) -> None:
        """Add to what the thread's facts have cost; `status` tells the sum. `scope` must name a thread."""

    async def load_facts(self, scope: Scope) -> FactsDocument:
        """The thread's merged document as last saved; an empty one if there is none."""

    async def save_facts(self, scope: Scope, document: FactsDocument, *, expected: str | None) -> bool:
        """Replace the thread's document if its revision is still `expected` (None: there is none); else False.

        The stored document gets a fresh random revision (the document's own is ignored).
        """

    # --- forgetting ------------------------------------------------------------------------------------------
    async def key_spent(self, scope: Scope, kind: KeyedKind, key: str) -> bool:
        """Whether an edit, or a session, that was stored in the thread with this idempotency key was erased since.

        `scope` must name a thread.
        """

    async def put_erasure(self, erasure: Erasure) -> None:
        """Record a forget call as owed work, durably; replaces a record of the same id."""

    async def due_erasures(self, now: datetime, *, limit: int) -> list[Erasure]:
        """Erasures due at `now`, longest due first."""

    async def end_erasure(self, erasure: Erasure) -> None:
        """The erasure is finished: its record goes. Idempotent."""

    async def erase_turns(self, erasure: Erasure, *, now: datetime, limit: int) -> ErasedCounts:
        """Erase up to `limit` of the erasure's turns with all that this store derived from them.

        A turn with an idempotency key leaves a Tombstone. Its search row becomes a stub with a fresh `index_seq`.
        Every fact change that had one of the turns in view (`FactChange.turns`) goes, and the affected threads'
        documents are reset (empty, `through=0`, new revision). If that was the change of a turn that stays, all of
        that turn's changes go, and it owes `facts` again, due at `now` with no attempts and no last error. An erasure of
        a whole scope also takes the scope's changes without a turn whose `key` sorts before `before_id`, and its
        sessions whose id does and that no turn belongs to any more; the idempotency keys of both are spent from then on.
        The thread's compressions whose `through` is not below the erased turn's `seq` go, and its newest turn (if one is
        left) owes `compress` again, due at `now`.
        Its text goes out of its segment. The topic whose id it carries is reset, and so is the one that absorbed
        that: derived fields emptied (title "", no summary, no embedding, `access_count=0`, `through=0`,
        no `given_importance`), `stale`, new revision; what people set stays. Where there is no such topic, one is
        made in that state (with `created_at` and `last_access` of `now`), so that nothing folded from the turn can
        be saved any more. Zero counts mean that nothing is left to erase. Safe to repeat after a crash at any point.
        """

    async def sweep_orphans(self, scope: Scope, *, stubs_before: datetime, now: datetime) -> ErasedCounts:
        """Erase the user's search rows, packed texts and fact changes of turns that are gone, and reset documents as above.

        Fact changes with a turn in view that is gone go as above, with what their own turns owe then, and so do
        compressions that cover a turn that is gone, or whose predecessor is missing, with all later ones of their
        threads.
        Topics of turns that are gone are reset if a crash kept `erase_turns` from it, and so is a topic that says
        something though no turn belongs to it. Stubs erased before `stubs_before` are deleted. What a worker wrote for a turn that was forgotten
        meanwhile ends here. Works on the whole user, whichever thread `scope` names.
        """

    async def erase_user_remains(self, user_id: str, *, before_id: str) -> None:
        """Delete the user's tombstones and spent keys, and of threads without turns the facts documents, costs, sessions,
        topics and compressions; also expired leases.

        Tombstones of turns, sessions, and spent keys of what had an id that does not sort before `before_id` stay: a
        session that was started since has yet to see its first turn, and the numbers of its thread go on. The last step
        of forgetting a user.
        """

    # --- events ----------------------------------------------------------------------------------------------
    def watch(
        self, scope: Scope | None = None, *, after: str | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[MemoryEvent]]:
        """What happens in the scope (None: to everybody), as it happens, in order and without end.

            async with store.watch(scope) as events:
                async for event in events: ...

        Entering fixes the place: everything that is stored by a call that started after it was entered is told, and
        nothing of what was stored by one that had returned before. With `after`, the id of an event that any watch of
        this database told, in whatever scope: everything since that event, each once. Turns of one thread are told in
        the order of `seq`, and what happens to one turn in the order in which it happened.

        `turn_stored`: a turn was stored. `indexed`: its stage `index` was struck off; again if it was owed again.
        `topic_assigned`: it got its topic. `parked`: it is parked, and was not before. `facts_changed`: a change was
        appended that counts, which an extraction that states nothing, or of a replay, doesn't (the replay's own change
        does). `compressed`: a compression was appended; it may have been taken back at once. Of what was forgotten
        since, later kinds than `turn_stored` are left out, and a store may leave out all. Forgetting itself is told by
        no event.

        Several may watch at once. A call for the next event that is cancelled loses nothing: ask again. Leaving ends
        the watch within a second (if the store does not answer: within the time limit of its calls), with all that it
        held open; whoever still waits for an event then gets none.

        Raises EventsLost for an `after` that is no event's id or so old that what followed is not kept any more, when
        entered or (for an id of another database, maybe) at the next event; from the iterator too, for a reader that
        is slower than what is kept. Raises EventsUnsupported where the store cannot tell events, and StoreUnavailable
        when it is down: watch again, after the last event. NotOpen, also from the iterator once the store is closed.
        After an error the iterator has ended.
        """
