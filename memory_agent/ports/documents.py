"""The ports of the stores: turns with what is owed to them, rows, topics, facts, erasures, copies; API keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from memory_agent.domain import (
        ApiKey,
        Compression,
        CopiedTurn,
        DamagedRecord,
        Entity,
        EntityCount,
        ErasedCounts,
        ErasedTier,
        Erasure,
        ErasureReceipt,
        ExtractionCost,
        FactChange,
        FactsDocument,
        KeyedKind,
        Lease,
        MemoryEvent,
        MemoryStatus,
        OldTurn,
        PackedSize,
        SchemaState,
        Scope,
        SearchRow,
        Session,
        Similar,
        Stage,
        Tenant,
        TermCandidates,
        ThreadCopy,
        ThreadHead,
        ThreadRemains,
        ThreadSummary,
        Tombstone,
        Topic,
        TopicChanges,
        TopicDecayState,
        TopicHead,
        TopicMark,
        TopicTurns,
        Turn,
        TurnDraft,
        VectorFill,
    )


class TurnStore(Protocol):
    """Turns: appended under a rising number, read by scope."""

    async def append_turns(self, scope: Scope, drafts: Sequence[TurnDraft]) -> list[Turn | Tombstone]:
        """Store the turns of one call durably, in order, and return them with their `seq`.

        Durable: once this returned, the turns survive the death of this process and of the server's.
        `seq` starts at 1 per thread, is unique, and is greater than that of every append of the thread that
        returned before this one started, whichever process made it. Nothing with a lower `seq` becomes visible
        later: who has seen `seq` n will never see a new turn below n.

        If the drafts carry an idempotency key (all of a call the same) that the thread has seen, nothing is stored and
        the first call's turns are returned as they are now (a Tombstone for each that was forgotten since); a first call
        that a crash cut short is completed from the drafts whose `call_index` is missing of its `call_size`, unless
        what is there of it says otherwise than the drafts (`domain.said_otherwise`). A call that raises Unavailable may have stored all, a first part, or none of its turns.
        Turns with `pending` stages are due at their `due_at`, others at no time. Raises StoreError for a turn id that is
        stored already, whoever's; drafts before it may be stored then. `scope` must name a thread.
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

    async def turns_at(self, scope: Scope, places: Sequence[tuple[str, int]]) -> list[Turn]:
        """The turns of the scope at these places (thread, `seq`), each once and in any order.

        Places without a turn are passed over. By an index: it costs what it finds, however many turns there are.
        """

    async def turns_before(
        self, time: datetime, *, after: OldTurn | None = None, limit: int
    ) -> list[OldTurn]:
        """Everybody's first `limit` turns with a `timestamp` before `time`, by rising timestamp and id.

        `after`: only those that sort after it.
        """


class PeopleStore(Protocol):
    """Users of whom anything is remembered, and their threads."""

    async def user_ids(self, tenant: str, *, after: str = "", limit: int) -> list[str]:
        """The first `limit` of the tenant's users (by their stored ids, rising) that sort above `after`.

        Those that have a thread, as below. By indexes: it costs what it finds, however many users there are.
        """

    async def thread_ids(self, scope: Scope, *, after: str = "", limit: int) -> list[str]:
        """The first `limit` of the user's threads, by rising id, that sort above `after`, whichever thread `scope` names.

        A thread is one that holds turns, or a session, or fact changes; what remains of forgotten turns is none.
        """

    async def count_threads(
        self, user_ids: Sequence[str], *, thread_ids: Sequence[str] | None = None
    ) -> dict[str, list[ThreadSummary]]:
        """The threads of each of these users (stored ids), by rising id; [] for a user that has none.

        `thread_ids`: only these. Counted from indexes: no turn is read.
        """


class SessionStore(Protocol):
    """Sessions of a thread, and the compressions of its conversation."""

    async def thread_head(self, scope: Scope) -> ThreadHead:
        """The thread's newest session (its counted fields at their defaults), its last turn, and the last `seq` given.

        That number outlives the turn that had it, until `erase_remains` lets the thread begin anew.

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

    async def append_compression(self, compression: Compression) -> bool:
        """Store a compression durably; False (and nothing stored) if it cannot stand.

        That is if its number is not one above the thread's newest (1 without any), its `after_seq` is not that one's
        `through` (0 without any), or one of the turns it covers is gone: what it was made of changed under its maker's
        hands. After a crash in between a compression of forgotten turns may be left, which `sweep_orphans` takes away.
        Moments that it shares with the one before may be stored with it alone: `compressions` gives each all of its own.
        """

    async def compressions(
        self, scope: Scope, *, through: int | None = None, newest: int | None = None
    ) -> list[Compression]:
        """The thread's compressions by rising number. `through`: only those whose own is not above it; `newest`: only
        the last so many. `scope` must name a thread.
        """


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

    async def bring_back(self, *, now: datetime, beyond: datetime) -> int:
        """Turns and erasures due beyond that time are due at `now`; leases beyond it have run out. How many.

        Where `beyond` is later than anything that is put off, a clock that was ahead has set them. Outages stay.
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


ALL_ROWS: Final = 2**63 - 1
"""`RowStore.candidates_through` where every row of the user is among the candidates."""


class RowStore(Protocol):
    """Search rows: what a search needs of each turn."""

    async def put_search_rows(self, user_id: str, rows: Sequence[SearchRow], *, now: datetime) -> None:
        """Insert or replace rows by turn id; each gets a fresh `index_seq` (the rows' own is ignored).

        `index_seq` is greater than every one the user had before, also when rows were deleted since (it is
        `max(newest + 1, now in ms since 1970)`), and as with `seq`, none becomes visible below one already seen.
        Raises StoreError if a row is of another user, or its turn's row is another user's; rows before it may be stored.
        """

    async def search_rows(
        self, user_id: str, *, ids: Sequence[str] | None = None, after: int = 0, limit: int | None = None
    ) -> list[SearchRow]:
        """The user's rows (stubs of erased ones included) by rising `index_seq`, without their `tokens`.

        `ids`: only these turns'. `after`: only `index_seq` above it. `limit`: the first so many.
        """

    async def token_codes(self, user_id: str, ids: Sequence[str], *, embedder: str) -> dict[str, bytes]:
        """`SearchRow.tokens` of the user's rows of these turns, by turn id; rows without any, or by another embedder, passed over."""

    async def index_head(self, user_id: str) -> int:
        """The user's highest `index_seq`; 0 without rows. One small indexed read: every search makes it."""

    async def count_rows(self, user_id: str, *, limit: int) -> int:
        """The number of the user's rows, stubs included, but at most `limit`; no more than that are looked at."""

    async def rows_by_others(self, embedder: str) -> int:
        """The number of rows, of anybody, whose vectors another embedder made. By an index: it costs what it counts."""

    async def index_terms(self, user_id: str, turn_ids: Sequence[str]) -> None:
        """Take the rows of these turns into the user's term index, begun by the first call. Rows that are in it stay so.

        Rows that were put (again) are not in it until this is called for them; those that are erased leave it.
        """

    async def candidates_through(self, user_id: str) -> int | None:
        """Up to which `index_seq` the user's rows are among the candidates; ALL_ROWS: all. None: the user has no term index."""

    async def set_candidates_through(self, user_id: str, index_seq: int) -> None:
        """Note that they are up to there at least; it never sinks. It goes with the user's last row."""

    async def want_vectors(self, user_ids: Sequence[str] | None, *, anew: bool = False) -> None:
        """Note that a vector index may lack rows of these users, durably.

        `anew`: any of their rows. None: of all who have rows and were never noted. For whoever has put rows. What erases rows of a user that was ever noted notes it as well.
        """

    async def vector_fills(
        self,
        user_ids: Sequence[str] | None = None,
        *,
        pending: bool = False,
        after: str = "",
        limit: int,
    ) -> list[VectorFill]:
        """The first `limit` notes of these users (None: everybody's) by rising user id, above `after`.

        `pending`: only those that are.
        """

    async def note_filled(self, before: VectorFill, *, place: str, through: int, pending: bool) -> None:
        """Move on the user's note, if it still is at the place and the row that `before` tells of.

        It stays pending where its `marks` have risen since.
        """

    async def vectors_missing(self, scope: Scope | Tenant | None) -> int:
        """The number of the scope's rows (None: everybody's) beyond the `through` of pending notes, stubs included."""

    async def term_candidates(self, scope: Scope, terms: Sequence[str], *, limit: int) -> TermCandidates:
        """For each term, the newest `limit` rows of the scope (by turn id) that hold it, with the user's statistics.

        Of rows in the term index (`index_terms`). Each candidate once, in any order. Stubs of erased rows count for nothing.
        """

    async def nearest_turns(
        self, scope: Scope, vector: NDArray[np.float32], *, embedder: str, limit: int
    ) -> list[Similar]:
        """The scope's at most `limit` nearest turns by cosine, nearest first, each once (nearest passage), among rows by `embedder`.

        Exact to half a step of the rows' vectors: all of the scope's are looked at, page by page, and none is kept. `vector`:
        float32, shape (dimension,), unit length. Raises ValueError if it has another dimension than the rows'.
        """

    async def name_entities(self, user_id: str, entities: Mapping[str, Sequence[Entity]]) -> None:
        """Say what these turns of the user name (turn id -> all entities).

        Which of them the caller gave stays known. Unknown and forgotten turns are passed over.
        """

    async def entity_counts(self, scope: Scope) -> list[EntityCount]:
        """The entities that the scope's rows in the term index name (terms that `Entity.from_term` knows), by first mention.

        That is by `timestamp` and turn id of the first turn that names it, and for equal ones in the order of the
        row's terms. Each turn counts once for an entity.
        """


class TopicStore(Protocol):
    """Topics, the turns that carry them, and the packing of their texts."""

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

    async def topic_heads(self, scope: Scope, *, ids: Sequence[str] | None = None) -> list[TopicHead]:
        """The scope's topics by rising id, without what matching reads.

        `ids`: only these and those that absorbed one of them. By an index: it costs what it finds, however many topics
        there are that absorbed none.
        """

    async def changed_topics(self, scope: Scope, *, after: TopicMark | None = None) -> TopicChanges:
        """The thread's topics that were saved or reset since `after`; all of them without one, or if some may be gone.

        Whoever read up to a mark never misses a change by asking from there, whichever process makes it. Costs what
        changed, however many topics there are.
        """

    async def turns_behind(self, scope: Scope, after: Mapping[str, int]) -> list[Turn]:
        """The thread's turns that carry one of these topic ids, with a `seq` above the one given for it, by rising `seq`."""

    async def save_topics(self, topics: Sequence[Topic]) -> set[str]:
        """Store each of these topics of one thread whose stored revision is its own (None: not stored yet); their ids.

        Each gets a fresh random revision. Not one write: after a crash some are stored.
        """

    async def delete_topic(self, scope: Scope, topic_id: str, *, expected: str) -> bool:
        """Delete the topic if its revision is `expected`; else (or if it is gone) False."""

    async def count_topic_turns(self, scope: Scope, topic_ids: Sequence[str]) -> dict[str, TopicTurns]:
        """For each of these topics (zeros where there is neither): turns that carry its id, bytes of its segments.

        Segments of absorbed topics' turns may be kept under either id: add up a topic's and those it absorbed.
        `scope` must name a thread.
        """

    async def compress_turns(self, scope: Scope, topic_id: str, turn_ids: Sequence[str]) -> PackedSize:
        """Pack the texts of these turns into one or more segments of the topic, in the order of `seq`.

        Turns that are compressed already, unknown or forgotten are passed over. At every moment, also after a
        crash at any point, each turn can be read with its text byte for byte; a repeat packs what is left.
        `scope` must name a thread.
        """

    async def topics_after(self, key: tuple[str, str, str] | None, *, limit: int) -> list[TopicDecayState]:
        """Everybody's first `limit` topics by (user_id, thread_id, id), above `key` (None: from the first)."""


class FactStore(Protocol):
    """Facts: an append-only log of changes per thread, and its fold as one document.

    `scope` must name a thread in every call but `fact_changes` and `fact_heads`.
    """

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

    async def fact_heads(self, scope: Scope) -> dict[str, tuple[int, int, int]]:
        """Of each thread with changes: how many, the highest `seq`, how often words were taken out.

        Numbers are given again only after `erase_remains` of a thread of which nothing is left, minutes after its changes went. So
        where all are what they were within these, the changes are the same.
        """

    async def drop_generation(self, scope: Scope, generation: str) -> int:
        """Delete the thread's changes of this generation, of every kind. How many.

        Their numbers stay taken, and the document is reset as by `erase_turns`: empty, `through=0`, under a new revision,
        also where there was none, so that no fold from before can be saved. If there is nothing to delete it may be
        left as it is. For a generation that never counted.
        Raises InvalidInput for the empty generation.
        """

    async def add_extraction_cost(self, scope: Scope, cost: ExtractionCost) -> None:
        """Add to what the thread's facts have cost; `WorkStore.status` tells the sum."""

    async def load_facts(self, scope: Scope) -> FactsDocument:
        """The thread's merged document as last saved; an empty one without a revision if there is none."""

    async def save_facts(self, scope: Scope, document: FactsDocument, *, expected: str | None) -> bool:
        """Replace the thread's document if its revision is still `expected` (None: there is none); else False.

        The stored document gets a fresh random revision (the document's own is ignored).
        """


class ErasureStore(Protocol):
    """Erasures: the records of forget calls, and the erasing of what they name."""

    async def key_spent(self, scope: Scope, kind: KeyedKind, key: str) -> bool:
        """True if an edit, or a session, that was stored in the thread with this idempotency key was erased since.

        `scope` must name a thread.
        """

    async def put_erasure(self, erasure: Erasure) -> None:
        """Record a forget call as owed work, durably; replaces a record of the same id."""

    async def due_erasures(self, now: datetime, *, limit: int) -> list[Erasure]:
        """Erasures due at `now`, longest due first."""

    async def end_erasure(self, erasure: Erasure) -> None:
        """The erasure is finished: its record goes. Idempotent."""

    async def put_receipt(self, receipt: ErasureReceipt) -> None:
        """Keep the receipt of a forget call, durably; replaces one of the same id. It holds hashes alone, and is nobody's."""

    async def receipts(
        self, *, state: str | None = None, after: str = "", limit: int | None = None
    ) -> list[ErasureReceipt]:
        """The receipts of all forget calls, by rising id. `state`: those in that state; `after`, `limit`: at most so many above that id."""

    async def rewrite_files(self) -> bool:
        """Write the store's files anew without a byte of what was deleted; False where they are a server's, out of reach.

        It takes seconds for each GB, in which writes wait. Raises StoreUnavailable where there is no room for it.
        """

    async def file_tiers(self) -> tuple[ErasedTier, ...]:
        """The state of an erasure in files at its first pass, and what of them only an operator can reach."""

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
        threads, and all of threads whose last one miscounts the turns up to it.
        Topics of turns that are gone are reset if a crash kept `erase_turns` from it, and so is a topic that says
        something though no turn belongs to it. Stubs erased before `stubs_before` are deleted. Tombstones, spent keys and the highest
        number of each thread with forgotten turns are kept under hashes from then on (`domain.work`): a repeat of such a call
        gets a Tombstone whose `turn_id` is one. Not while processes of before schema 10 may be at work, which would not find them. What a worker wrote for a turn that was forgotten
        meanwhile ends here. Works on the whole user, whichever thread `scope` names.
        """

    async def erase_remains(self, scope: Scope, *, before_id: str) -> None:
        """Delete of the scope's threads without turns and fact changes the facts documents, costs, sessions, topics and
        compressions; of a user also tombstones and spent keys; and expired leases.

        Tombstones of turns, sessions, and spent keys of what had an id that does not sort before `before_id` stay: a
        session that was started since has yet to see its first turn, and the numbers of its thread go on. The last step
        of forgetting a thread or a user.
        """


class EventStore(Protocol):
    """Events: what happens in a scope, told to those who watch it."""

    def watch(
        self, scope: Scope | None = None, *, after: str | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[MemoryEvent]]:
        """The events of the scope (None: everybody's), as they happen, in order and without end.

            async with store.watch(scope) as events:
                async for event in events: ...

        Entering fixes the place: everything that is stored by a call that started after it was entered is told, and
        nothing of what was stored by one that had returned before. With `after`, the id of an event that any watch of
        this database told, in whatever scope: everything since that event, each once. Turns of one thread are told in
        the order of `seq`, and what happens to one turn in the order in which it happened.

        `turn_stored`: a turn was stored. `indexed`: its stage `index` was struck off; again if it was owed again.
        `topic_assigned`: it got its topic. `parked`: it is parked, and was not before. `facts_changed`: a change was
        appended that counts, which an extraction that states nothing, or of a generation, doesn't (the change by which
        the generation counts does). `compressed`: a compression was appended; it may have been taken back at once. Of what was forgotten
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


RESTORING: Final = "restoring"
"""Of a memory that is being restored: which backup. Empty once all of it is there."""


class MetaStore(Protocol):
    """Metadata of the store as a whole: its id, its marks, its schema. Holds nothing that a user said."""

    async def get_meta(self, name: str) -> dict[str, Any] | None:
        """The value put under the name; None if there is none."""

    async def put_meta(self, name: str, value: dict[str, Any], *, only_new: bool = False) -> bool:
        """Put a JSON object under the name, durably, in place of what was there.

        With `only_new` nothing changes where something is; True if it was put. Of several at once one wins.
        """

    async def check_files(self) -> list[str]:
        """Faults of the store's own files, a line each, as far as it can tell; of a server's files nothing is told."""

    async def schema(self) -> SchemaState:
        """State of the store's schema, which is this version's once the store is open."""

    async def upgrade_some(self) -> bool:
        """Do a piece of what upgrading left for later; True if there was anything. Several processes may call it at once."""


class CopyStore(Protocol):
    """Copies of threads: what other ports don't tell of them, and a way to store it under the same ids and numbers.

    `scope` must name a thread.
    """

    async def stored_users(self, *, after: str = "", limit: int) -> list[str]:
        """The first `limit` stored ids above `after` of users, of all tenants, of whom anything is kept: remains as well."""

    async def stored_threads(self, user_id: str) -> list[str]:
        """The user's threads, by rising id, of which anything is kept: remains of forgotten turns as well."""

    async def copied_turns(
        self, scope: Scope, *, after_seq: int = 0, limit: int, texts: bool = True
    ) -> list[CopiedTurn]:
        """The thread's first `limit` turns above `after_seq`, by rising `seq`.

        `texts=False`: with empty ones, those too whose packed text is lost or damaged; `CopiedTurn.readable` tells them.
        """

    async def thread_remains(self, scope: Scope) -> ThreadRemains:
        """Numbers that the thread must not give again, and what is left of what was forgotten in it, by key."""

    async def put_copies(self, scope: Scope, copies: ThreadCopy) -> Sequence[str]:
        """Store what of it is not there yet, durably; the ids of turns that are new. Repeating it changes nothing.

        Turns are stored plain, whatever `compressed` says, and what they are said to owe is owed. The thread's facts are folded anew.
        Compressions go that a new turn comes in among, and all of the thread where its last one then miscounts the turns that are there.
        Raises StoreError if something else has the id, the number or the key of a turn or a change; what came before it in
        `copies` may be stored.
        """

    async def damaged_records(self, scope: Scope) -> list[DamagedRecord]:
        """The thread's records that other calls would raise StoreError about, looked for one by one."""

    async def drop_damaged(self, scope: Scope, records: Sequence[DamagedRecord]) -> None:
        """Delete those of these records that are derived of turns, or stand beside them; numbers of fact changes stay taken.

        Turns are left: they are erased like others.
        """


@runtime_checkable
class DocumentStore(
    TurnStore,
    PeopleStore,
    SessionStore,
    WorkStore,
    RowStore,
    TopicStore,
    FactStore,
    ErasureStore,
    EventStore,
    MetaStore,
    CopyStore,
    Protocol,
):
    """The truth: turns with what is owed to them, search rows, facts, and the records of forgetting."""

    async def open(self) -> None:
        """Connect and create missing collections and indexes. Idempotent, and safe when processes do it at once."""

    async def close(self) -> None:
        """Release what `open` made; a client that was handed in stays open. Idempotent."""


class KeyStore(Protocol):
    """The API keys of a service, without their secrets. Several processes may use one at the same time.

    What one process put or revoked, every other finds from then on. Raises StoreUnavailable where the same call may
    work later, StoreError where it will not, NotOpen before `open` and after `close`.
    """

    async def open(self) -> None:
        """Connect and create what is missing. Idempotent, and safe when processes do it at once."""

    async def close(self) -> None:
        """Release what `open` made; a client that was handed in stays open. Idempotent."""

    async def put(self, key: ApiKey) -> None:
        """Store a new key durably: once this returned, it survives the death of this process and of the server's.

        Raises StoreError if there is a key of this id, which then stays as it is. A call that raises StoreUnavailable
        may have stored the key.
        """

    async def find(self, key_id: str) -> ApiKey | None:
        """The key of this id, expired and revoked ones too; None if there is none."""

    async def list(self, tenant: str | None = None) -> Sequence[ApiKey]:
        """Every key, or those of a tenant, in the order of `created_at`, then of the id."""

    async def revoke(self, key_id: str, at: datetime) -> bool:
        """Revoke the key as of `at`, durably; False if there is none of this id.

        One that is revoked already keeps the time when that was, so a repeat changes nothing.
        """
