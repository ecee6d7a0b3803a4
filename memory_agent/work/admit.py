"""Admission: a caller's messages become drafts that every store can keep, or an error that says why not.

Everything is checked before anything is written, so a bad turn among good ones leaves nothing behind.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from memory_agent.checks import (
    MAX_CONTENT_CHARS,
    MAX_ID_CHARS,
    checked_id,
    checked_metadata,
    checked_text,
    has_visible,
    is_number,
    offset_at,
    time_and_offset,
)
from memory_agent.domain import ROLES, STAGES, Entity, Role, Stage, TurnDraft, TurnInput, new_id, role_of
from memory_agent.domain.search import given_entities
from memory_agent.errors import Busy, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime, tzinfo

    from memory_agent.ports import TokenCounter, WorkStore


MAX_IMPORTANCE: Final = 1.0
MAX_TURNS_PER_CALL: Final = 10_000
_INPUT_FIELDS: Final = tuple(field.name for field in dataclasses.fields(TurnInput))


def admit(
    turns: Sequence[TurnInput | Mapping[str, Any]],
    *,
    now: datetime,
    counter: TokenCounter,
    idempotency_key: str | None,
    stages: Collection[Stage],
    zone: tzinfo | None = None,
    numbered: bool = True,
) -> list[TurnDraft]:
    """Drafts of one call's turns, in order, each with those of `stages` that it will owe.

    A role may be one that `role_of` knows. Facts are owed to users' turns only. A turn without a timestamp gets `now`. `zone`: of those
    who write UTC, or times without a zone, which are refused without it. Raises InvalidInput naming the value, and of several
    `numbered` turns which one it is.
    """
    if not isinstance(turns, Sequence) or isinstance(turns, str | bytes):
        raise InvalidInput(f"turns is {turns!r:.80}; pass a list of turns")
    if len(turns) > MAX_TURNS_PER_CALL:
        raise InvalidInput(f"{len(turns):,} turns in one call; pass at most {MAX_TURNS_PER_CALL:,} at a time")
    if idempotency_key is not None:
        checked_id("idempotency_key", idempotency_key)
    drafts = []
    for position, given in enumerate(turns):
        where = f"turns[{position}]." if numbered and len(turns) > 1 else ""
        turn = given if isinstance(given, TurnInput) else _from_mapping(given, where)
        content = checked_text(f"{where}content", turn.content, max_chars=MAX_CONTENT_CHARS)
        role = _checked_role(f"{where}role", turn.role)
        pending = tuple(stage for stage in STAGES if stage in stages and (stage != "facts" or role == "user"))
        speaker, said_at = turn.speaker, turn.timestamp
        at, offset = (
            (now, offset_at(now, zone))
            if said_at is None
            else time_and_offset(f"{where}timestamp", said_at, zone)
        )
        drafts.append(
            TurnDraft(
                id=new_id(),
                role=role,
                content=content,
                speaker=None
                if speaker is None
                else checked_text(f"{where}speaker", speaker, max_chars=MAX_ID_CHARS),
                timestamp=at,
                tokens=counter.count(content),
                importance=_checked_importance(f"{where}importance", turn.importance),
                metadata=checked_metadata(turn.metadata),
                pending=pending,
                due_at=now,
                idempotency_key=idempotency_key,
                call_index=position,
                call_size=len(turns),
                entities=_checked_entities(where, turn.entities),
                utc_offset_minutes=offset,
            )
        )
    return drafts


def exchange(
    user_msg: str | None, assistant_msg: str | None, *, speaker: str | None = None, **of_both: Any
) -> list[TurnInput]:
    """The turns of one exchange, of which either message may have no text (an image, a call of a tool).

    Raises InvalidInput if neither has any.
    """
    said = {"user_msg": user_msg, "assistant_msg": assistant_msg}
    for name, text in said.items():
        checked_text(name, text or "", max_chars=MAX_CONTENT_CHARS, allow_empty=True)
    user, assistant = (
        [TurnInput(role=role, content=text, speaker=who, **of_both)] if text and has_visible(text) else []
        for role, text, who in (("user", user_msg, speaker), ("assistant", assistant_msg, None))
    )
    if not user and not assistant:
        raise InvalidInput(
            f"user_msg is {user_msg!r:.40} and assistant_msg is {assistant_msg!r:.40}; one of them must have"
            " text to be remembered"
        )
    return [*user, *assistant]


def _from_mapping(given: object, where: str) -> TurnInput:
    if not isinstance(given, Mapping):
        raise InvalidInput(
            f"{where.rstrip('.') or 'a turn'} is a {type(given).__name__}; pass a TurnInput or a dict with role and content"
        )
    unknown = [key for key in given if key not in _INPUT_FIELDS]
    if unknown or "role" not in given or "content" not in given:
        raise InvalidInput(
            f"{where.rstrip('.') or 'the turn'} has the keys {', '.join(map(repr, given))}; role and content are needed, "
            f"allowed are {', '.join(_INPUT_FIELDS)}; put anything else into metadata"
        )
    return TurnInput(**given)


def _checked_entities(where: str, value: object) -> tuple[Entity, ...]:
    try:
        return given_entities(value)
    except InvalidInput as exc:
        raise InvalidInput(f"{where}{exc}") from exc


def _checked_role(name: str, value: object) -> Role:
    if (role := role_of(value)) is not None:
        return role
    use = f"use one of {', '.join(ROLES)} (and speaker for a person's name)"
    raise InvalidInput(f"{name} is {value!r:.80}; {use}")


def _checked_importance(name: str, value: object) -> float | None:
    if value is None:
        return None
    if not is_number(value) or not math.isfinite(value):
        raise InvalidInput(f"{name} is {value!r:.80}; pass a number from 0 to {MAX_IMPORTANCE:g}, or None")
    if not 0 <= value <= MAX_IMPORTANCE:
        raise InvalidInput(f"{name} is {value}; it goes from 0 to {MAX_IMPORTANCE:g}")
    return float(value)


_MOST_TURNS: Final = 1_000_000
"""A turn a second comes to it in eleven days, so an outage meets it only where nobody looks for that long."""
_LOOK_SECONDS: Final = 10.0
"""Between two looks at the store: a bound that is passed for so long does no harm."""


class Backlog:
    """The backlog of everybody's turns, as far as it decides whether more are taken."""

    def __init__(self, store: WorkStore) -> None:
        self._store = store
        self._is_full, self._look_at = False, float("-inf")

    def forget(self) -> None:
        """Look at the store again at the next call."""
        self._look_at = float("-inf")

    async def check_room(self) -> None:
        """Raises Busy while more turns owe work than may."""
        if (now := time.monotonic()) >= self._look_at:
            self._look_at = now + _LOOK_SECONDS
            self._is_full = await self._store.owes_more_than(_MOST_TURNS)
        if self._is_full:
            raise Busy(
                f"more than {_MOST_TURNS:,} turns owe work, so no more are taken for now; nothing"
                " was stored. Workers that run and keep up bring it down: `memory-agent status` says what it waits for",
                retry_after=_LOOK_SECONDS,
            )
