"""A conversation as it stands, now or as of any turn: its last compression, the digest of its turns, its compressed context.

Everything is read as of the turn that is asked for: compressions, turns, the character played, facts.
"""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memory_agent.context.budget import PERSONA_TOKENS, PRESERVED_TOKENS
from memory_agent.context.conversation import (
    SECTIONS_TOKENS,
    Conversation,
    budget_for,
    choose_preserved,
    is_short,
    least_for,
    pack_compressed,
    pack_whole,
    remind,
)
from memory_agent.digest.fold import MAX_KEPT_TURNS, Digest, fold
from memory_agent.domain import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.context.conversation import Reminder
    from memory_agent.digest.fold import AnalysisCache
    from memory_agent.domain import (
        Character,
        CompressedContext,
        Compression,
        KeyMoment,
        Scope,
        SummaryItem,
        Turn,
    )
    from memory_agent.facts.documents import FactDocuments
    from memory_agent.ports import DocumentStore, TokenCounter

_MOST_STORED: Final = 50_000
"""Tokens of moments: a compression is one value of the store."""
_MANY_TURNS: Final = 500
"""Folded beside the event loop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Extract:
    """The items of a summary, and what made it."""

    items: Sequence[SummaryItem] = ()
    made_by: str | None = None


NONE: Final = Extract()


class ConversationReader:
    """Reads how a conversation stands."""

    def __init__(
        self,
        store: DocumentStore,
        live: AnalysisCache,
        facts: FactDocuments,
        counter: TokenCounter,
        *,
        recent_turns: int,
        most_tokens: int,
    ) -> None:
        """`recent_turns`: shown whole in a compressed context; `most_tokens`: that it may take."""
        self._store = store
        self._live = live
        self._facts = facts
        self._counter = counter
        self._recent_turns = recent_turns
        self._most_tokens = most_tokens

    async def last(self, scope: Scope, through: int | None = None) -> Compression | None:
        """The last compression that goes no further than turn `through`."""
        found = await self._store.compressions(scope, through=through, newest=1)
        return found[0] if found else None

    async def digest(
        self, scope: Scope, *, through: int | None = None, newest: Sequence[Turn] = ()
    ) -> tuple[Compression | None, Digest, list[Turn]]:
        """The last compression, the digest of all turns, now or as of turn `through`, and the turns since the compression.

        `newest`: the last turns without a gap, where they were read already.

        For prompts: where compression is off or keeps failing, no more than the last few hundred turns are looked at. Which of them
        are moments is left to `with_moments`: a conversation that is shown whole needs none.
        """
        last = await self.last(scope, through)
        since = await self._since(scope, last, through, most=MAX_KEPT_TURNS, newest=newest)
        return last, fold(Digest.of(last), ((turn, None) for turn in since)), since

    async def with_moments(self, scope: Scope, last: Compression | None, since: Sequence[Turn]) -> Digest:
        """The digest that `digest` gave with `last` and `since`, with its moments."""
        return (await self.digest_since(scope, last, through=None, since=since))[0]

    async def digest_since(
        self,
        scope: Scope,
        last: Compression | None,
        *,
        through: int | None,
        since: Sequence[Turn] | None = None,
    ) -> tuple[Digest, list[Turn]]:
        """The digest of all turns up to `through`, and those of them since the compression `last`.

        `since`: these, and perhaps later ones, where they were read already.
        """
        if since is None:
            since = await self._since(scope, last, through)
        turns = [turn for turn in since if through is None or turn.seq <= through]
        analysed = await self._live.analysed(scope, turns)
        folded = functools.partial(
            fold, Digest.of(last), analysed, most_tokens=min(self._most_tokens, _MOST_STORED)
        )
        digest = await asyncio.to_thread(folded) if len(analysed) > _MANY_TURNS else folded()
        return digest, [turn for turn, _ in analysed]

    async def _since(
        self,
        scope: Scope,
        last: Compression | None,
        through: int | None,
        most: int | None = None,
        newest: Sequence[Turn] = (),
    ) -> list[Turn]:
        """The turns since `last` up to `through`, of them at `most` so many, the newest. `newest`: see `digest`."""
        after = 0 if last is None else last.through
        known = [turn for turn in newest if turn.seq > after]
        if known and (len(known) < len(newest) or known[0].seq == after + 1):
            return known
        if known:
            through = known[0].seq - 1
        limit = None if most is None else most - len(known)
        before = await self._store.list_turns(
            scope, after_seq=after, through=through, limit=limit, newest=most is not None
        )
        return before + known

    async def whole(
        self,
        scope: Scope,
        last: Compression | None,
        digest: Digest,
        *,
        through: int | None,
        as_of: int | None,
    ) -> CompressedContext | None:
        """The whole conversation up to turn `through`, if it is short enough to stand for itself. `as_of`: see `context`."""
        if not is_short(digest, recent_turns=self._recent_turns):
            return None
        turns = await self._store.list_turns(scope, through=through, limit=digest.turns, newest=True)
        conversation = Conversation(
            reminder=await self._reminder(scope, None if as_of is None else turns),
            digest=digest,
            recent=turns,
            summary=() if last is None else last.summary,
            made_by=None if last is None else last.made_by,
            last=last,
        )
        return pack_whole(conversation, budget=self._most_tokens, counter=self._counter)

    async def _reminder(self, scope: Scope, turns: Sequence[Turn] | None) -> Reminder:
        character = await self.character_at(scope, turns)
        # The topics have a place of their own.
        return remind(character, (), counter=self._counter, max_tokens=PERSONA_TOKENS)

    async def context(
        self,
        scope: Scope,
        last: Compression | None,
        digest: Digest,
        *,
        through: int | None,
        as_of: int | None,
        extract: Extract = NONE,
        sections: bool = False,
    ) -> CompressedContext:
        """The compressed context up to turn `through`. `as_of`: whose character and facts are meant, None for today's.

        `extract`: the summary where there is no compression yet. `sections`: with room for all of them, also of a short
        conversation.
        """
        recent = await self._store.list_turns(scope, through=through, limit=self._recent_turns, newest=True)
        room = budget_for(digest, most_tokens=self._most_tokens)
        in_sections = sections and room < SECTIONS_TOKENS
        preserved, passed_over = await self.preserved(scope, last, digest, () if in_sections else recent)
        topics = [topic.topic_id for topic in digest.topics]
        titles = {t.id: t.title for t in await self._store.list_topics(scope, ids=topics)} if topics else {}
        if last is not None:
            extract = Extract(items=last.summary, made_by=last.made_by)
        people = await self._facts.people(scope, through=as_of)
        reminder = await self._reminder(scope, None if as_of is None else recent)
        budget = reminder.tokens(self._counter) + max(
            room,
            least_for(recent, most_tokens=self._most_tokens, counter=self._counter),
            min(SECTIONS_TOKENS, self._most_tokens) if in_sections else 0,
        )
        moments = [moment.turn_id for moment in digest.moments]
        turns = await self._store.list_turns(scope, ids=moments) if moments else []
        conversation = Conversation(
            reminder=reminder,
            digest=digest,
            summary=extract.items,
            made_by=extract.made_by,
            preserved=preserved,
            passed_over=passed_over,
            recent=recent,
            titles={topic_id: title for topic_id, title in titles.items() if title},
            facts=shown(people),
            people=tuple(people),
            last=last,
            turns={turn.id: turn for turn in turns},
            in_sections=in_sections,
        )
        return await asyncio.to_thread(pack_compressed, conversation, budget=budget, counter=self._counter)

    async def preserved(
        self, scope: Scope, last: Compression | None, digest: Digest, recent: Sequence[Turn]
    ) -> tuple[list[tuple[Turn, float]], list[KeyMoment]]:
        """Turns to keep word for word with their importance, and moments that there is no room for among them.

        `recent`: those that are shown anyway.
        """
        chosen, passed_over = choose_preserved(
            digest,
            kept=() if last is None else last.preserved,
            recent={turn.id for turn in recent},
            max_tokens=PRESERVED_TOKENS,
        )
        ids = [moment.turn_id for moment in chosen]
        turns = await self._store.list_turns(scope, ids=ids) if ids else []
        by_id = {turn.id: turn for turn in turns}
        return [(by_id[m.turn_id], m.score) for m in chosen if m.turn_id in by_id], passed_over

    async def character_at(self, scope: Scope, turns: Sequence[Turn] | None) -> Character | None:
        """The character that the assistant played in the last of these turns; None: in the newest session."""
        if turns is None:
            session = (await self._store.thread_head(scope)).session
            return None if session is None else session.character
        ids = [turn.session_id for turn in turns[-1:] if turn.session_id is not None]
        found = await self._store.sessions(scope, ids=ids) if ids else []
        return found[0].character if found else None
