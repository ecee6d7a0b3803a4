"""Forgetting: one path for single turns, a thread, and a user.

A forget call is recorded first, as owed work, so that it is finished whatever dies in between. It then runs
twice. The first pass, within the call, erases from the document store, the vector index and this process's
caches. The last pass comes when no lease that was live at the time of the call can be live any more and no other
process can hold the turns in memory; where this process alone has the store, as soon as no stage is at them any more. It
removes what a worker may have written for a turn that was forgotten under its hands, and the stubs that told other
processes to drop the turns. After some last passes the store's own files are written anew, once for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from memory_agent.checks import checked_turn_ids
from memory_agent.domain import (
    STAGES,
    ErasedCounts,
    ErasedTier,
    Erasure,
    ForgetReceipt,
    Scope,
    checked_tenant,
    new_id,
)
from memory_agent.domain.work import HASHING, Hasher, new_secret
from memory_agent.errors import BackendError, InvalidInput, NotFound, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Sequence
    from pathlib import Path

    from memory_agent.domain import ErasureReceipt, Lease
    from memory_agent.ports import Clock, DocumentStore, MetaStore, VectorIndex


_EVER: Final = timedelta(days=36_500)


async def hasher_of(store: MetaStore) -> Hasher:
    """By the store's secret, which is made by whoever asks first."""
    await store.put_meta(HASHING, new_secret(), only_new=True)
    return Hasher.of(await store.get_meta(HASHING) or {})


async def end_lost(store: DocumentStore, now: datetime, ids: Container[str]) -> None:
    """Let receipts that are owed, but whose erasure is not recorded, wait for the files alone: what they are of is gone."""
    under_way = {erasure.id for erasure in await store.due_erasures(now + _EVER, limit=1_000_000)}
    for receipt in await store.receipts(state="owed"):
        if receipt.id in ids and receipt.id not in under_way:
            await store.put_receipt(replace(receipt, state="swept"))


def an_hour_ago() -> str:
    """Below the ids of all receipts that are written from now on, by whatever clock they are made."""
    earlier = f"{int(new_id().replace('-', '')[:12], 16) - 3_600_000:012x}"
    return f"{earlier[:8]}-{earlier[8:]}"


def _copying(user_id: str) -> str:
    return f"copies: {user_id}"


@contextlib.asynccontextmanager
async def copying(store: DocumentStore, user_id: str, clock: Clock) -> AsyncIterator[None]:
    """Hold while copies of a user's turns are written.

    Whoever reads the receipts within sees those of all forget calls that won't wait for its end.
    """
    name, holder = _copying(user_id), new_id()
    while True:
        now = clock.now()
        if await store.acquire_leases([name], holder, now=now, until=now + _COPYING_AT_MOST):
            break
        await asyncio.sleep(_COPYING_POLL_SECONDS)
    try:
        yield
    finally:
        await store.release_leases([name], holder)


async def _copied(store: DocumentStore, user_id: str, clock: Clock) -> None:
    """Wait until copies of the user that are being written are: they may be of what a new receipt is of."""
    first = await store.load_lease(_copying(user_id))
    now = first
    while first and now and now.holder == first.holder and now.until > clock.now():
        await asyncio.sleep(_COPYING_POLL_SECONDS)
        now = await store.load_lease(_copying(user_id))


def _is_in_hand(erasure: Erasure, leases: Iterable[Lease]) -> bool:
    """True if a holder of one of the leases may have read the user's turns before the first pass."""
    return any(
        lease.since <= erasure.due_at and _of_user(lease.name) in (None, erasure.scope.user_id)
        for lease in leases
        if not lease.name.startswith("erasure")
    )


def _of_user(lease: str) -> str | None:
    """The user whose thread a lease is on; None if it is on something else."""
    try:
        user_id, _ = json.loads(lease.partition(":")[2])
    except (TypeError, ValueError):
        return None
    return str(user_id)


log = logging.getLogger(__name__)

_BATCH: Final = 500
_COPYING_AT_MOST: Final = timedelta(seconds=30)
_COPYING_POLL_SECONDS: Final = 0.02
_OWED_LOOKED_AT: Final = 10_000
_DUE_ERASURES: Final = 500
_LEASES: Final = 10_000
_AT_ONCE: Final = 20
"""Erasures, or users whose last passes are due, before the worker looks whether it is to stop."""
_RETRY: Final = timedelta(seconds=5)
_FAILED_RETRY_SECONDS: Final = 60.0
_IDS_NAMED: Final = 5
_THREADS: Final = 1_000_000
_FILES_AFTER: Final = timedelta(minutes=2)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_BACKUPS: Final = (
    "backups of before still hold it: let them expire, and after a restore erase again by"
    " `memory-agent forget --from` with the receipts of `memory-agent erasures --jsonl`"
)


@dataclass(kw_only=True)
class Forgetter:
    """Erases what is to be forgotten from every tier, index and cache."""

    store: DocumentStore
    vectors: VectorIndex
    clock: Clock
    drop_caches: Callable[[str], None]
    """Makes this process forget what it holds of the user in memory."""
    renew_topics: Callable[[Scope], Awaitable[int]]
    """Makes topics of the scope that were reset anew from what is left of them."""
    renew_facts: Callable[[Scope], Awaitable[None]]
    """The same for facts documents."""
    last_pass_after: timedelta
    """Longer than any lease, and than an index stays in memory unused."""
    lease: timedelta
    alone: bool = False
    """No other process has the store: the last pass comes as soon as no stage is at the user's turns that was before."""
    server_tiers: tuple[ErasedTier, ...] = ()
    """Files of servers that this process does not know how to empty."""
    _hasher: Hasher | None = None
    _files_due_at: datetime | None = None
    """When files are to be written anew; None before it was looked whether any are."""
    _files_took: timedelta = timedelta(0)

    async def forget(
        self,
        scope: Scope,
        turn_ids: Sequence[str] | None,
        *,
        missing_ok: bool = True,
        before_id: str | None = None,
        keeps_facts: bool = False,
    ) -> ForgetReceipt:
        """Forget these turns of the scope, or (None) all that it holds at this moment.

        `keeps_facts`: what is known from these turns stays, without their words. Returns when nothing of it can be read any more; `receipt.owed` names what could not be reached yet.
        Raises InvalidInput for an empty or oversized list and, unless `missing_ok`, NotFound if the scope has no turn
        of one of the ids; nothing is erased then.
        """
        checked = None if turn_ids is None else checked_turn_ids(turn_ids)
        if checked is not None and not missing_ok:
            await self._check_known(scope, checked)
        if before_id is None and turn_ids is None:
            before_id = new_id()
            # Ids are made by their writers, whose clocks may be ahead of ours. Their time alone, for a receipt keeps this.
            ids = [turn.id for turn in await self.store.list_turns(scope, limit=1, newest=True)]
            ids += [session.id for session in await self.store.sessions(scope)]
            ids += [change.key for change in await self.store.fact_changes(scope) if change.turn_id is None]
            before_id = max([before_id, *(f"{made[:13]}~" for made in ids)])
        # A worker takes over only if this call has died; the two would share the counts otherwise.
        now = self.clock.now()
        erasure = Erasure(
            id=new_id(),
            scope=scope,
            turn_ids=checked,
            before_id=before_id or new_id(),
            due_at=now + self.lease,
            keeps_facts=keeps_facts,
        )
        await self.store.put_erasure(erasure)
        await self.store.put_receipt((await self.hasher()).receipt(erasure, at=now))
        await _copied(self.store, scope.user_id, self.clock)
        return await self._first_pass(erasure, resumed=False)

    @property
    def _last_pass_after(self) -> timedelta:
        # A moment, so that no stub and no lease of before is as old as the pass.
        return timedelta(milliseconds=1) if self.alone else self.last_pass_after

    @property
    def _files_after(self) -> timedelta:
        return min(20 * self._files_took, _FILES_AFTER) if self.alone else _FILES_AFTER

    async def _check_known(self, scope: Scope, turn_ids: Sequence[str]) -> None:
        known = {turn.id for turn in await self.store.list_turns(scope, ids=turn_ids)}
        unknown = [turn_id for turn_id in turn_ids if turn_id not in known]
        if unknown:
            more = f" and {len(unknown) - _IDS_NAMED:,} more" if len(unknown) > _IDS_NAMED else ""
            raise NotFound(
                f"the thread has no turn {', '.join(map(repr, unknown[:_IDS_NAMED]))}{more}, or it is forgotten already;"
                " nothing was erased"
            )

    async def work_off(self, holder: str) -> bool:
        """Erasures that are due, else the files that they left bytes in; whether there was anything to do."""
        return await self.resume_due(holder) or await self.rewrite_files(holder)

    async def resume_due(self, holder: str) -> bool:
        """Go on with erasures that are due: those that a crash or an outage cut short, and last passes.

        A user's last passes are one: it looks through everything of the user, however many calls it is for.
        """
        due = await self.store.due_erasures(self.clock.now(), limit=_DUE_ERASURES)
        if self.alone and any(erasure.swept for erasure in due):
            leases = await self.store.held_leases(self.clock.now(), limit=_LEASES)
            due = [erasure for erasure in due if not (erasure.swept and _is_in_hand(erasure, leases))]
        together: dict[tuple[bool, str], dict[str, Erasure]] = {}
        for erasure in due:
            whose = (erasure.swept, erasure.scope.user_id if erasure.swept else erasure.id)
            together.setdefault(whose, {})[f"erasure:{erasure.id}"] = erasure
        worked = False
        for named in list(together.values())[:_AT_ONCE]:
            now = self.clock.now()
            taken = await self.store.acquire_leases(list(named), holder, now=now, until=now + self.lease)
            ours = [erasure for name, erasure in named.items() if name in taken]
            if not ours:
                continue
            try:
                if ours[0].swept:
                    await self._last_pass(ours)
                else:
                    await self._first_pass(ours[0], resumed=True)
            except StoreUnavailable:
                raise
            except BackendError as exc:
                # One that fails must not hold up the others.
                log.warning("an erasure failed and is tried again in %.0f s: %s", _FAILED_RETRY_SECONDS, exc)
                later = self.clock.now() + timedelta(seconds=_FAILED_RETRY_SECONDS)
                for erasure in ours:
                    await self.store.put_erasure(replace(erasure, due_at=later))
            finally:
                await self.store.release_leases(sorted(taken), holder)
            worked = True
        return worked

    async def _first_pass(self, erasure: Erasure, *, resumed: bool) -> ForgetReceipt:
        counts = await self._erase_from_store(erasure)
        if resumed:
            counts += await self._sweep(erasure)  # what a crash between two steps left behind
        vectors = await self._erase_vectors([erasure])
        self.drop_caches(erasure.scope.user_id)
        await self._drop_replies(erasure.scope)
        renewed = await self.renew_topics(erasure.scope.user)
        await self.renew_facts(erasure.scope)
        due_at = self.clock.now() + (_RETRY if vectors is None else self._last_pass_after)
        await self.store.put_erasure(replace(erasure, due_at=due_at, swept=vectors is not None))
        return ForgetReceipt(
            id=erasure.id,
            turns=counts.turns,
            search_rows=counts.search_rows,
            fact_changes=counts.fact_changes,
            packed_texts=counts.packed_texts,
            topics=renewed,
            vectors=vectors or 0,
            compressions=counts.compressions,
            sessions=counts.sessions,
            owed=("vector_index",) if vectors is None else (),
            tiers=await self._tiers(vectors, due_at),
        )

    async def _tiers(self, vectors: int | None, last_pass_at: datetime) -> tuple[ErasedTier, ...]:
        away = "the vector index is down; the worker erases there as soon as it is back"
        return (
            ErasedTier(tier="documents", state="erased"),
            ErasedTier(tier="search_rows", state="erased"),
            ErasedTier(tier="vector_index", state="owed", note=away)
            if vectors is None
            else ErasedTier(tier="vector_index", state="erased"),
            ErasedTier(
                tier="last_pass",
                state="owed",
                note="a worker looks once more within seconds"
                if self.alone
                else f"a worker looks once more from {last_pass_at:%H:%M} UTC on",
            ),
            *await self.store.file_tiers(),
            *self.server_tiers,
            ErasedTier(tier="backups", state="operator", note=_BACKUPS),
        )

    async def _last_pass(self, erasures: Sequence[Erasure]) -> None:
        """The last pass of a user's erasures. Only what was derived: a turn acknowledged since the first pass is nobody's to forget.

        If something was found, its stubs have to be seen by other processes in turn, so there is one more pass.
        """
        now = self.clock.now()
        user = erasures[0].scope.user
        swept = await self._sweep(erasures[0])
        scopes = {erasure.scope for erasure in erasures}
        for scope in [user] if user in scopes else sorted(scopes, key=lambda scope: scope.thread_id or ""):
            await self._drop_replies(scope)
        await self.renew_topics(user)
        await self.renew_facts(user)  # the sweep has reset all of them
        for thread in {erasure.scope for erasure in erasures if erasure.turn_ids is not None} - {user}:
            await self._compress_again(thread, now)
        vectors = await self._erase_vectors(erasures)
        if vectors is None or swept != ErasedCounts():
            due_at = now + (_RETRY if vectors is None else self._last_pass_after)
            for erasure in erasures:
                await self.store.put_erasure(replace(erasure, due_at=due_at))
            return
        before: dict[Scope, str] = {}
        for each in erasures:
            if each.turn_ids is None:
                before[each.scope] = max(before.get(each.scope, ""), each.before_id)
        for scope, before_id in before.items():
            await self.store.erase_remains(scope, before_id=before_id)
        self.drop_caches(user.user_id)
        receipts = {receipt.id: receipt for receipt in await self.store.receipts(state="owed")}
        hasher = await self.hasher()
        for erasure in erasures:
            # A call that died on its way may have left none.
            receipt = receipts.get(erasure.id) or hasher.receipt(erasure, at=now)
            await self.store.put_receipt(replace(receipt, state="swept"))
            await self.store.end_erasure(erasure)
        if self._files_due_at is None or self._files_due_at == _NEVER:
            self._files_due_at = now + self._files_after

    async def rewrite_files(self, holder: str) -> bool:
        """Write the store's files anew if last passes are through since the last time; whether there was anything to do.

        Some time after the first of them, so that many forget calls cost it once: where nobody else has the store, twenty times as long
        as it took the last time.
        """
        now = self.clock.now()
        if self._files_due_at is not None and now < self._files_due_at:
            return False
        name = "erasure: files"
        waiting = await self.store.receipts(state="swept")
        if not waiting or not await self.store.acquire_leases(
            [name], holder, now=now, until=now + self.lease
        ):
            self._files_due_at = _NEVER if not waiting else now + _FILES_AFTER
            return False
        began = time.monotonic()
        try:
            own = await self.store.rewrite_files()
            self._files_took = timedelta(seconds=time.monotonic() - began)
            for receipt in waiting:
                await self.store.put_receipt(replace(receipt, state="erased" if own else "operator"))
            self._files_due_at = _NEVER
        except BackendError as exc:
            self._files_due_at = now + _FILES_AFTER
            log.warning("bytes of forgotten turns are still in the store's files, trying again: %s", exc)
            return False
        finally:
            await self.store.release_leases([name], holder)
        return True

    async def replay(self, receipts: Iterable[ErasureReceipt]) -> int:
        """Erase again what these receipts were of, where it has come back; how many forget calls that took.

        Raises InvalidInput for a receipt by another store's secret: nobody could tell whom it means.
        """
        hasher, receipts = await self.hasher(), list(receipts)
        wanted: dict[str, list[ErasureReceipt]] = defaultdict(list)
        for receipt in receipts:
            if receipt.key != hasher.key:
                raise InvalidInput(
                    f"the receipt {receipt.id!r:.80} is of another memory (secret {receipt.key!r:.40}, this one's is"
                    f" {hasher.key!r}); nothing was erased. Take the receipts that this memory's backup belongs to"
                )
            wanted[receipt.user].append(receipt)
        calls = 0
        for tenant in sorted({receipt.tenant for of_user in wanted.values() for receipt in of_user}):
            after = ""
            while page := await self.store.user_ids(checked_tenant(tenant), after=after, limit=_BATCH):
                for user_id in page:
                    for receipt in wanted.get(hasher.user(user_id), ()):
                        calls += await self._replay(hasher, receipt, Scope(user_id=user_id))
                after = page[-1]
        await end_lost(self.store, self.clock.now(), {receipt.id for receipt in receipts})
        return calls

    async def _replay(self, hasher: Hasher, receipt: ErasureReceipt, user: Scope) -> int:
        """Erase again for one receipt of the user; how many forget calls that took."""
        if receipt.thread is None and not receipt.turns:
            await self.forget(user, None, before_id=receipt.before_id)
            return 1
        calls = 0
        for thread_id in await self.store.thread_ids(user, limit=_THREADS):
            thread = replace(user, thread_id=thread_id)
            if receipt.thread not in (None, hasher.thread(user.user_id, thread_id)):
                continue
            if not receipt.turns:
                await self.forget(thread, None, before_id=receipt.before_id)
                calls += 1
                continue
            gone, after = set(receipt.turns), 0
            while turns := await self.store.list_turns(thread, after_seq=after, limit=_BATCH):
                found = [turn.id for turn in turns if hasher.turn(turn.id) in gone]
                if found:
                    await self.forget(thread, found, keeps_facts=receipt.keeps_facts)
                    calls += 1
                after = turns[-1].seq
        return calls

    async def hasher(self) -> Hasher:
        """Hashes of ids as receipts have them."""
        if self._hasher is None:
            self._hasher = await hasher_of(self.store)
        return self._hasher

    async def _compress_again(self, thread: Scope, now: datetime) -> None:
        """Have it looked at again whether a compression is due in the thread of forgotten turns.

        A worker that looked while the dropped compressions were there may have marked the stage done since they went.
        """
        for turn in await self.store.list_turns(thread, limit=1, newest=True):
            await self.store.owe(turn.scope, "compress", now=now, turn_ids=[turn.id])

    async def _erase_from_store(self, erasure: Erasure) -> ErasedCounts:
        """Erase batch by batch until nothing is left."""
        total = ErasedCounts()
        while (
            counts := await self.store.erase_turns(erasure, now=self.clock.now(), limit=_BATCH)
        ) != ErasedCounts():
            total += counts
        return total

    async def _drop_replies(self, scope: Scope) -> None:
        """Turns that failed at a stage start anew, without the last error: it may tell of what is gone.

        For it may quote a model's reply, or what a server was sent; and every stage sends it other turns along with the
        one that has the error: those before it, those of its topic, those of its batch.
        """
        for stage in STAGES:
            limit = _OWED_LOOKED_AT
            while True:
                pending = await self.store.owed_turns(scope, stage, limit=limit)
                failed = [turn for turn in pending if turn.last_error is not None]
                for thread in {turn.scope for turn in failed}:
                    ids = [turn.id for turn in failed if turn.scope == thread]
                    await self.store.owe(thread, stage, now=self.clock.now(), turn_ids=ids)
                if len(pending) < limit:
                    break
                limit *= 10

    async def _sweep(self, erasure: Erasure) -> ErasedCounts:
        now, scope = self.clock.now(), erasure.scope
        return await self.store.sweep_orphans(scope, stubs_before=now - self._last_pass_after, now=now)

    async def _erase_vectors(self, erasures: Sequence[Erasure]) -> int | None:
        """Delete the vectors of the user's turns that are gone; a turn that the scopes spared keeps its own.

        None if the index is away.
        """
        user, deleted = erasures[0].scope.user, 0
        asked = {turn_id for erasure in erasures for turn_id in erasure.turn_ids or ()}
        try:
            if any(erasure.turn_ids is None for erasure in erasures):
                asked |= set(await self.vectors.turn_ids(user.user_id))
            left = sorted(asked)
            while left:
                ids, left = left[:_BATCH], left[_BATCH:]
                alive = {turn.id for turn in await self.store.list_turns(user, ids=ids)}
                if gone := [turn_id for turn_id in ids if turn_id not in alive]:
                    deleted += await self.vectors.delete(user.user_id, gone)
        except (StoreUnavailable, StoreError):
            raise
        except BackendError as exc:
            log.warning("forgotten turns are still in the vector index, trying again: %s", exc)
            return None
        return deleted


_READ_AT_ONCE: Final = 16_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Remains:
    """A file that still holds a text, so many `times`. `file`: relative to the folder."""

    file: str
    text: str
    times: int


def remains_in(folder: Path, texts: Iterable[str]) -> list[Remains]:
    """Look for the texts as UTF-8 in all files under the folder, and for ids also in the 16 bytes that they are stored in."""
    wanted = [(text, form) for text in texts if text for form in _forms(text)]
    found: list[Remains] = []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()) if wanted else ():
        times = _times(file, [form for _, form in wanted])
        found += [
            Remains(file=str(file.relative_to(folder)), text=text, times=count)
            for (text, _), count in zip(wanted, times, strict=True)
            if count
        ]
    return found


def _forms(text: str) -> list[bytes]:
    try:
        return [text.encode(), uuid.UUID(text).bytes]
    except ValueError:
        return [text.encode()]


def _times(file: Path, wanted: Sequence[bytes]) -> list[int]:
    """How often each is in the file, read in pieces that overlap by less than a whole one."""
    times = [0] * len(wanted)
    overlap = max(map(len, wanted)) - 1
    kept = b""
    with file.open("rb") as read:
        while piece := read.read(_READ_AT_ONCE):
            both = kept + piece
            for place, one in enumerate(wanted):
                times[place] += both.count(one) - kept.count(one)
            kept = both[-overlap:] if overlap else b""
    return times
