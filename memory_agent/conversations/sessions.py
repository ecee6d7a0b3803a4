"""Sessions: the sitting a turn belongs to, and when a new one begins.

A session closes when it is too old, too long or was idle too long, by its turns' timestamps; the turn after that opens
another, with the same people and the same character. Nothing is written to close one.

Turns come in any order of time: an import into a live thread goes years back, a clock that was wrong years ahead. So
time is measured between turns, from the one before and from the session's first, and in either direction. A session that
was started takes its first turn from whatever time, since that is what it was started for.

Sessions are stored before the turns of their call. If that dies in between they stay, without turns.

A session that no turn belongs to can go (its thread is cleared, its call was a repeat) while another call, which saw it
open, stores a turn in it. Such a turn is read like any other, and its session is put back: by that call if it opened the
session or found it without turns, else (or if its process died) by the thread's next turn or `start_session`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from memory_agent.checks import MAX_ID_CHARS, checked_id, checked_metadata, checked_text
from memory_agent.concurrency import Tries, overtaken
from memory_agent.domain import Character, Session, Turn, new_id
from memory_agent.errors import IdempotencyKeyReused, InvalidInput, TurnForgotten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import Scope, ThreadHead, Tombstone, TurnDraft
    from memory_agent.ports import Clock, DocumentStore

MAX_PARTICIPANTS: Final = 100
MAX_CHARACTER_CHARS: Final = 10_000
MAX_TRAITS: Final = 50
_LONGEST: Final = timedelta(hours=24)
_MOST_TURNS: Final = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionProgress:
    """Progress of a session: the `turns` it was given, and its first and last turn's timestamps.

    `first_at` and `last_at` are None of a session that takes its first turn from whatever time.
    """

    turns: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None

    def after(self, at: datetime) -> SessionProgress:
        """With one more turn, said at `at`."""
        first_at = at if self.first_at is None else self.first_at
        return SessionProgress(turns=self.turns + 1, first_at=first_at, last_at=at)


def is_over(progress: SessionProgress, *, at: datetime, idle_seconds: float) -> bool:
    """True if a turn said at `at` finds the session closed: earlier times count as much as later ones.

    It closes after `idle_seconds` without a turn, at the latest after a day or `_MOST_TURNS`.
    """
    if progress.turns >= _MOST_TURNS:
        return True
    if progress.first_at is None or progress.last_at is None:
        return False
    idle = timedelta(seconds=idle_seconds)
    return abs(at - progress.first_at) >= _LONGEST or abs(at - progress.last_at) >= idle


def _standing(session: Session, head: ThreadHead, first_at: datetime | None) -> SessionProgress:
    """Progress of the head's session; `first_at`: the timestamp of its first turn, if it was started and has one.

    Turns that were forgotten count: their numbers stay given.
    """
    turns = max(head.last_given - session.after_seq, 0)
    begun = head.last_session_id == session.id
    if session.explicit and (first_at is None or not begun):
        return SessionProgress(turns=turns)
    # One that opened by itself did so at its first turn's time.
    first_at = first_at if session.explicit else session.started_at
    return SessionProgress(turns=turns, first_at=first_at, last_at=head.last_at if begun else first_at)


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """Sessions that a call opens, and for each of its turns the id of the one it belongs to."""

    opened: tuple[Session, ...]
    session_ids: tuple[str, ...]


def assign(
    scope: Scope,
    times: Sequence[datetime],
    head: ThreadHead,
    idle_seconds: float,
    *,
    first_at: datetime | None = None,
) -> Assignment:
    """The sessions of turns said at these times, in this order, after what `head` knows.

    `first_at`: the timestamp of the first turn of the head's session, if that was started by somebody and has one.
    """
    opened: list[Session] = []
    ids: list[str] = []
    session = head.session
    now = SessionProgress() if session is None else _standing(session, head, first_at)
    for position, at in enumerate(times):
        if session is None or is_over(now, at=at, idle_seconds=idle_seconds):
            session = _next(scope, session, started_at=at, after_seq=head.last_given + position)
            opened.append(session)
            now = SessionProgress()
        ids.append(session.id)
        now = now.after(at)
    return Assignment(opened=tuple(opened), session_ids=tuple(ids))


def _next(scope: Scope, before: Session | None, *, started_at: datetime, after_seq: int) -> Session:
    """A session that nobody asked for: the same people go on, in the same roles."""
    return Session(
        id=new_id(),
        user_id=scope.user_id,
        thread_id=scope.thread_id or "",
        number=1 if before is None else before.number + 1,
        started_at=started_at,
        after_seq=after_seq,
        participants=() if before is None else before.participants,
        character=None if before is None else before.character,
        metadata={} if before is None else before.metadata,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Drafts with their sessions, and the sessions `opened` for them.

    `joined`: one without turns yet that another call opened, and takes back if it turns out to be a repeat.
    """

    drafts: Sequence[TurnDraft]
    opened: Sequence[Session]
    joined: Session | None


def _joined(head: ThreadHead, assignment: Assignment) -> Session | None:
    session = head.session
    if session is None or session.explicit or session.id == head.last_session_id:
        return None
    return session if session.id in assignment.session_ids else None


class SessionKeeper:
    """Opens sessions and says which one turns belong to."""

    def __init__(self, store: DocumentStore, clock: Clock, *, idle_seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._idle_seconds = idle_seconds

    async def start(
        self,
        scope: Scope,
        *,
        character: Character | None,
        participants: Sequence[str],
        metadata: Mapping[str, Any] | None,
        idempotency_key: str | None = None,
    ) -> Session:
        """Open a session now, whatever stands; the turns that follow belong to it. Raises InvalidInput.

        A repeat with the same idempotency key opens none and gives the first one as it stands now. Raises IdempotencyKeyReused if
        that was asked for otherwise, TurnForgotten if it was forgotten since.
        """
        checked = Session(
            id=new_id(),
            user_id=scope.user_id,
            thread_id=scope.thread_id or "",
            number=1,
            started_at=self._clock.now(),
            after_seq=0,
            participants=checked_participants(participants),
            character=None if character is None else checked_character(character),
            metadata=checked_metadata(metadata),
            explicit=True,
            idempotency_key=None
            if idempotency_key is None
            else checked_id("idempotency_key", idempotency_key),
        )
        async for _ in Tries():
            if idempotency_key is not None and (first := await self._started(scope, idempotency_key)):
                for name in ("participants", "character", "metadata"):
                    if getattr(first, name) != getattr(checked, name):
                        raise IdempotencyKeyReused.of(idempotency_key, name)
                return first
            head = await self._head(scope)
            number = 1 if head.session is None else head.session.number + 1
            session = dataclasses.replace(checked, number=number, after_seq=head.last_given)
            if await self._store.put_sessions([session]):
                return dataclasses.replace(session, last_activity=session.started_at)
        raise overtaken("the sessions of this thread")

    async def _started(self, scope: Scope, key: str) -> Session | None:
        for session in await self._store.sessions(scope, idempotency_key=key):
            return session
        if await self._store.key_spent(scope, "session", key):
            raise TurnForgotten(
                f"the session of idempotency key {key!r} was forgotten since; use a new key to start another"
            )
        return None

    async def place(self, scope: Scope, drafts: Sequence[TurnDraft]) -> Placement:
        """The drafts with their sessions, and those that were opened for them. `confirm` it once they are stored."""
        times = [draft.timestamp for draft in drafts]
        async for _ in Tries():
            head = await self._head(scope)
            assignment = await self._assign(scope, times, head)
            if await self._open(scope, head, assignment.opened):
                placed = [
                    dataclasses.replace(draft, session_id=session_id)
                    for draft, session_id in zip(drafts, assignment.session_ids, strict=True)
                ]
                return Placement(drafts=placed, opened=assignment.opened, joined=_joined(head, assignment))
        raise overtaken("the sessions of this thread")

    async def _head(self, scope: Scope) -> ThreadHead:
        """The thread's head; sessions that went while their turns came in are put back first."""
        head = await self._store.thread_head(scope)
        newest, last_id = head.session, head.last_session_id
        if last_id is None or (newest is not None and newest.id == last_id):
            return head
        if await self._store.sessions(scope, ids=[last_id]):
            return head
        after_seq = 0 if newest is None else newest.after_seq
        await self._put_back(scope, await self._store.list_turns(scope, after_seq=after_seq))
        return await self._store.thread_head(scope)

    async def _assign(self, scope: Scope, times: Sequence[datetime], head: ThreadHead) -> Assignment:
        session = head.session
        first_at = None
        if session is not None and session.explicit and head.last_session_id == session.id:
            for first in await self._store.list_turns(scope, session_id=session.id, limit=1):
                first_at = first.timestamp
        return assign(scope, times, head, self._idle_seconds, first_at=first_at)

    async def _open(self, scope: Scope, head: ThreadHead, sessions: Sequence[Session]) -> bool:
        """Store them; if another process was first, none of them."""
        if not sessions or await self._store.put_sessions(sessions):
            return True
        if len(sessions) > 1:
            # Some may have been there for a moment, and another call may have joined one. As in `discard`.
            await self._put_back(scope, await self._store.list_turns(scope, after_seq=head.last_given))
        return False

    async def confirm(self, scope: Scope, placement: Placement, stored: Sequence[Turn | Tombstone]) -> None:
        """Take back the sessions that no turn came to belong to (the call was a repeat), and keep those of the others."""
        turns = [turn for turn in stored if isinstance(turn, Turn)]
        used = {turn.session_id for turn in turns}
        await self.discard(scope, [session for session in placement.opened if session.id not in used])
        if placement.opened or placement.joined:
            await self._put_back(scope, turns)

    async def discard(self, scope: Scope, sessions: Sequence[Session]) -> None:
        """Take back sessions that were opened for turns that did not come."""
        for session in reversed(sessions):
            # Another call may have joined it meanwhile. It looks for its session after storing its turns, as this looks
            # for turns after deleting the session: so one of the two sees the other.
            if await self._store.delete_session(scope, session.id):
                turns = await self._store.list_turns(scope, session_id=session.id, limit=1)
                await self._put_back(scope, turns)

    async def _put_back(self, scope: Scope, turns: Sequence[Turn]) -> None:
        """Store those sessions of these turns (by rising `seq`) that are gone again, under the next numbers.

        As ones that open by themselves now: who took part may have been forgotten with the rest.
        """
        first: dict[str, Turn] = {}
        for turn in turns:
            if turn.session_id is not None:
                first.setdefault(turn.session_id, turn)
        known = (
            {session.id for session in await self._store.sessions(scope, ids=[*first])} if first else set()
        )
        for session_id, turn in first.items():
            if session_id not in known:
                await self._open_again(scope, session_id, turn)

    async def _open_again(self, scope: Scope, session_id: str, first: Turn) -> None:
        async for _ in Tries():
            # Read before the look for the session: so of two that put it back, one has the number that is taken.
            newest = (await self._store.thread_head(scope)).session
            if await self._store.sessions(scope, ids=[session_id]):
                return
            anew = _next(scope, newest, started_at=first.timestamp, after_seq=first.seq - 1)
            if await self._store.put_sessions([dataclasses.replace(anew, id=session_id)]):
                return

    async def current(self, scope: Scope) -> Session | None:
        """The session that a turn said now would belong to; None if it would open one."""
        head = await self._store.thread_head(scope)
        opened = (await self._assign(scope, [self._clock.now()], head)).opened
        if opened or head.session is None:
            return None
        found = await self._store.sessions(scope, ids=[head.session.id])
        return found[0] if found else None


def checked_character(character: Character) -> Character:
    """`character` with every field checked. Raises InvalidInput naming the field and the remedy."""
    if not isinstance(character, Character):
        raise InvalidInput(
            f"character is a {type(character).__name__}; pass a Character(name, personality, profile, traits)"
        )
    if isinstance(character.traits, str) or not isinstance(character.traits, list | tuple):
        raise InvalidInput(f"character.traits is {character.traits!r:.80}; pass a list of texts")
    if len(character.traits) > MAX_TRAITS:
        raise InvalidInput(f"character.traits has {len(character.traits)} entries; pass at most {MAX_TRAITS}")
    return Character(
        name=checked_text("character.name", character.name, max_chars=MAX_ID_CHARS),
        personality=_checked_optional("character.personality", character.personality),
        profile=_checked_optional("character.profile", character.profile),
        traits=tuple(
            checked_text("character.traits[]", trait, max_chars=MAX_ID_CHARS) for trait in character.traits
        ),
    )


def _checked_optional(name: str, text: str) -> str:
    return "" if text == "" else checked_text(name, text, max_chars=MAX_CHARACTER_CHARS)


def checked_participants(participants: Sequence[str]) -> tuple[str, ...]:
    """The names, each once. Raises InvalidInput."""
    if isinstance(participants, str) or not isinstance(participants, list | tuple):
        raise InvalidInput(f"participants is {participants!r:.80}; pass a list of names")
    if len(participants) > MAX_PARTICIPANTS:
        raise InvalidInput(f"{len(participants)} participants; pass at most {MAX_PARTICIPANTS}")
    names = (checked_text("participants[]", name, max_chars=MAX_ID_CHARS) for name in participants)
    return tuple(dict.fromkeys(names))
