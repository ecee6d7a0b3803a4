"""Gathering: what one question's prompt is made of, read side by side, and no more than it can hold."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memory_agent.context.assemble import WINDOW_SHARE, Material, TopicLine, pack_context
from memory_agent.context.budget import PERSONA_TOKENS, PRESETS
from memory_agent.context.conversation import remind
from memory_agent.context.exchanges import LOOKED_BACK, answer_to, answered, only_a_question, spoken_of
from memory_agent.context.recollections import least_confidence, said_again
from memory_agent.digest.fold import Digest
from memory_agent.domain import shown
from memory_agent.errors import BackendError
from memory_agent.facts.documents import CurrentFacts
from memory_agent.facts.fold import called
from memory_agent.search.request import RowFilter, SearchAnswer, SearchRequest
from memory_agent.text.corrections import asks
from memory_agent.text.question import read_question
from memory_agent.text.subjects import beside_reactions, content_words, only_reacts, points_outside
from memory_agent.text.terms import as_letters
from memory_agent.topics.index import families_of, newest, topic_ids_tagged

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Coroutine, Iterable, Mapping, Sequence
    from datetime import datetime

    from memory_agent.context.budget import TextCaches
    from memory_agent.context.conversation import Reminder
    from memory_agent.context.state import ConversationReader
    from memory_agent.domain import (
        Character,
        Compression,
        Entity,
        EntityCount,
        KeyMoment,
        MemoryContext,
        Preset,
        RecallPrice,
        Recollection,
        Scope,
        TopicHead,
        Turn,
    )
    from memory_agent.facts.documents import FactDocuments
    from memory_agent.ports import DocumentStore, TokenCounter
    from memory_agent.search.entities import EntityCounter, EntitySpotter
    from memory_agent.search.request import Searched
    from memory_agent.search.search import Searcher


LAST_EXCHANGE: Final = 4
"""So many turns hold what the user said last, even where the question was stored before it is asked."""
_MOST_FOUND: Final = 150
"""Recollections that are looked at for a prompt; of those behind hardly any is worth its tokens at any price."""
_SHORT_TURN_TOKENS: Final = 4
_HEAD_TOKENS: Final = 5
"""Of a turn's line, for who says it."""
_LOOKED_AHEAD: Final = 3


def recall_request(
    scope: Scope,
    reach: Scope,
    question: str,
    people: Mapping[str, Any],
    last_turns: Sequence[Turn],
    price: RecallPrice,
    now: datetime,
    until: datetime | None,
) -> SearchRequest:
    """The search of a prompt: what may be worth its tokens at that price."""
    return SearchRequest(
        scope=reach,
        here=scope.thread_id,
        query=question,
        called=called(people),
        top_k=_MOST_FOUND,
        where=RowFilter(thread_id=reach.thread_id, until=until),
        now=now,
        said=_said_before(question, last_turns),
        least_confidence=least_confidence(price),
    )


def _said_before(question: str, last_turns: Sequence[Turn]) -> str:
    """What the user said last in the thread before `question`; "" if nothing."""
    turns = reversed(last_turns[-LAST_EXCHANGE:])
    return next((turn.said for turn in turns if turn.role == "user" and turn.said != question), "")


def are_few(searched: Searched | None, budget: int) -> bool:
    """True if so few turns are searched that a window may hold them all."""
    unindexed, index = searched or ([], None)
    return index is not None and (len(unindexed) + len(index)) * _SHORT_TURN_TOKENS <= budget * WINDOW_SHARE


def are_all(
    window: Sequence[Turn],
    digest: Digest,
    searched: Searched | None,
    budget: int,
) -> bool:
    """True if the window is the whole thread, fits, and holds all turns that are searched: finding them would show nothing more."""
    unindexed, index = searched or ([], None)
    if len(window) != digest.turns or not fits_whole(digest, budget):
        return False
    ids = {turn.id for turn in window}
    return (
        index is not None
        and ids.issuperset(turn.id for turn in unindexed)
        and sum(map(index.has, ids)) == len(index)
    )


def fits_whole(digest: Digest, budget: int) -> bool:
    """True if the whole thread fits in the window's half of the budget."""
    return digest.tokens + _HEAD_TOKENS * digest.turns <= budget * WINDOW_SHARE


def asks_nothing(question: str) -> bool:
    """True for a greeting, thanks or a reaction: nothing that was said can be what it needs.

    Not for a question in words that say nothing by themselves ("What do you know about me?", "Who was it?").
    """
    if len(question) > _MOST_SMALL_TALK or (content_words(question) and not only_reacts(question)):
        return False
    rest, asking = beside_reactions(question), asks(question)
    asked = read_question(rest)
    goes_back = asked.refers or (asking and points_outside(rest))
    says = asked.kinds or asked.about_user or asked.about_assistant or goes_back
    return not says or (asked.tells and not asking)


T = TypeVar("T")

_SHORT_ANSWER_CHARS: Final = 40
_SAYS_LITTLE_CHARS: Final = 120
_MANY_TURNS: Final = 50
_LONG_CHARS: Final = 8_000
_MOST_SMALL_TALK: Final = 500
"""Characters of a message that may need nothing of what was said."""
_READ_AT_ONCE: Final = 32
"""Turns of the thread: what comes before the window is read anyway, for where the thread stands."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextSettings:
    """Settings of contexts; reasons in `config/memory.toml`."""

    short_term_window: int
    context_preset: Preset
    recall_price: RecallPrice
    search_language: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationState:
    """State of a conversation: the newest session's character, the last compression, and the digest of all turns.

    `since`: the turns since the compression; `topics`: those that the latest turns are about.
    """

    character: Character | None = None
    last: Compression | None = None
    digest: Digest = field(default_factory=Digest)
    since: Sequence[Turn] = ()
    topics: Sequence[TopicHead] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wanted:
    """What is wanted of a context: its budget and price, and which costly tiers."""

    budget: int
    price: RecallPrice
    window: bool
    preserved: bool
    tags: Sequence[str]
    """Only turns of topics that carry one of these are recalled; of any without one."""
    sent: bool
    """Whether the caller sends the running conversation along, of which nothing needs to be recalled then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchanges:
    """Of recollected turns, by their ids: the turn that each answers, the one that names what it is about, and what answers a question."""

    answered: dict[str, Turn] = field(default_factory=dict)
    spoken_of: dict[str, Turn] = field(default_factory=dict)
    answers: Mapping[str, Turn | None] = field(default_factory=dict)

    def with_answers(self, recollections: Sequence[Recollection]) -> list[Recollection]:
        """The recollections, in the place of a turn that only asks the one that answers it: no surer than the surer of both."""
        found = {each.turn.id: each for each in recollections}
        order: dict[str, Recollection] = {}
        for each in recollections:
            answer = self.answers.get(each.turn.id)
            if answer is not None and answer.id not in order:
                own = found.get(answer.id)
                surer = each if own is None or own.confidence < each.confidence else own
                stands = own or replace(each, turn=answer, replaced_by=None)
                order[answer.id] = replace(stands, confidence=surer.confidence, score=surer.score)
            order.setdefault(each.turn.id, each)
        return list(order.values())


class ContextReader:
    """Reads what a context may be made of. A source that is down is left out, and named."""

    def __init__(
        self,
        store: DocumentStore,
        searcher: Searcher,
        spotter: EntitySpotter,
        entities: EntityCounter,
        states: ConversationReader,
        facts: FactDocuments,
        counter: TokenCounter,
        texts: TextCaches,
        settings: ContextSettings,
    ) -> None:
        self._store = store
        self._searcher = searcher
        self._spotter = spotter
        self._entities = entities
        self._states = states
        self._facts = facts
        self._counter = counter
        self._texts = texts
        self._settings = settings

    async def read(
        self,
        scope: Scope,
        question: str,
        *,
        budget: int,
        preset: Preset | None = None,
        price: RecallPrice | None = None,
        window: bool = True,
        top_k: int | None = None,
        now: datetime,
        until: datetime | None = None,
        reach: Scope | None = None,
        tags: Sequence[str] = (),
        missing: Sequence[str] = (),
    ) -> MemoryContext:
        """The context for `question` in `budget` tokens, from what was said before `until` (None: everything).

        `price`: see `RecallPrice`; `window`: with the running conversation; `top_k`: recollections at most; `reach` (None: `scope`): the thread, or all of its user's, whose facts and turns are recalled; `now`: what "last week" in the question is told from; `missing`: parts that are known to be down; the embedder counts where turns wait for it.
        """
        name = preset or self._settings.context_preset
        shares, cost = PRESETS[name], price or self._settings.recall_price
        wanted = _Wanted(
            budget=budget,
            price=cost,
            window=window and shares.window,
            preserved=shares.preserved is not None,
            tags=tags,
            sent=not window,
        )
        pack = functools.partial(
            pack_context,
            shares=shares,
            preset=name,
            price=cost,
            top_k=top_k,
            budget=budget,
            counter=self._counter,
        )
        with self._texts.reading(scope.user_id):
            material = await self._material(scope, reach or scope, question, wanted, now, until, missing)
            # Dozens of turns take so long to be read that nobody else on the event loop should wait for them.
            many = max(len(material.recollections), len(material.window)) > _MANY_TURNS or any(
                len(turn.content) > _LONG_CHARS for turn in material.window
            )
            return await asyncio.to_thread(pack, material) if many else pack(material)

    async def _named(self, question: str, down: list[str]) -> tuple[Entity, ...]:
        """Entities of the question; where the model fails, those of the dictionary alone."""
        named = await _or_degraded(self._spotter.of_question(question), None, "entities", down)
        return self._spotter.by_dictionary(question) if named is None else named

    async def _tagged(self, reach: Scope, tags: Sequence[str], down: list[str]) -> frozenset[str] | None:
        """The ids of topics with one of these tags; None, which excludes nothing, without tags."""
        if not tags:
            return None
        return await _or_degraded(topic_ids_tagged(self._store, reach, tags), frozenset(), "topic", down)

    async def _material(
        self,
        scope: Scope,
        reach: Scope,
        question: str,
        wanted: _Wanted,
        now: datetime,
        until: datetime | None,
        missing: Sequence[str],
    ) -> Material:
        """All that the context may be made of, read side by side."""
        down: list[str] = []
        # First, for they tell who is meant by a name, and what a question of few words goes on with; what is searched needs neither.
        most = self._settings.short_term_window
        newest_turns = self.last_turns(scope, max(most, _READ_AT_ONCE), until)
        facts, last_turns, searched, asked, topic_ids = await asyncio.gather(
            _or_degraded(self._known(reach, until), CurrentFacts(people={}), "facts", down),
            _or_degraded(newest_turns, [], "short_term", down),
            _or_degraded(self._searcher.searched(reach), None, "long_term", down),
            self._named(question, down),
            self._tagged(reach, wanted.tags, down),
        )
        window, people = last_turns[max(len(last_turns) - most, 0) :], facts.people
        request = recall_request(scope, reach, question, people, last_turns, wanted.price, now, until)
        request = replace(request, topic_ids=topic_ids)
        standing = self._standing(
            scope, window if wanted.window else [], last_turns, wanted.budget, until, down
        )
        sent = {turn.id for turn in window} if wanted.sent else set()
        answer, stand, window = await self._recalled(request, searched, standing, wanted, down)
        if sent:
            found = tuple(each for each in answer.recollections if each.turn.id not in sent)
            answer = replace(answer, recollections=found)
        (preserved, passed_over), counts, exchanges = await asyncio.gather(
            _or_degraded(self._preserved(scope, stand, window, wanted), _NOTHING_KEPT, "compression", down),
            _or_degraded(self._entities_asked(reach, asked, searched, until), [], "entities", down),
            _or_degraded(self._exchanges(reach, answer.recollections, until), Exchanges(), "long_term", down),
        )
        recollections, again = said_again(
            exchanges.with_answers(answer.recollections), {turn.id for turn in window}
        )
        return Material(
            **self._standing_items(stand, whole=until is None),
            passed_over=passed_over,
            preserved=preserved,
            facts=shown(people),
            people=tuple(people),
            fact_items=facts.items,
            entities=counts,
            window=window,
            whole=0 < len(window) == stand.digest.turns,
            recollections=recollections,
            said_again=again,
            answered=exchanges.answered,
            spoken_of=exchanges.spoken_of,
            question=question,
            language=self._settings.search_language,
            degraded=sorted({*_lacking(missing, searched, last_turns), *down, *answer.degraded}),
            thread_id=scope.thread_id,
        )

    def _standing_items(self, stand: ConversationState, *, whole: bool) -> dict[str, Any]:
        """What a prompt says of how the conversation stands: persona, state, summary and topic.

        `whole`: see `_active`.
        """
        topic, reminder = self._topic_and_reminder(stand, whole=whole)
        return {
            "persona": reminder.identity,
            "state": reminder.state,
            "reminder_left": reminder.left,
            "summary": () if stand.last is None else stand.last.summary,
            "summarized": stand.last is not None and stand.last.made_by.startswith("llm"),
            "topic": topic,
        }

    def _topic_and_reminder(
        self, stand: ConversationState, *, whole: bool
    ) -> tuple[TopicLine | None, Reminder]:
        """The current topic (see `_active`) and the reminder of a prompt that has a line for it, which needs no second one."""
        topic = _active(stand, whole=whole)
        titles = [title for title in _titles(stand) if topic is None or title != topic.title]
        reminder = remind(stand.character, titles, counter=self._counter, max_tokens=PERSONA_TOKENS)
        return topic, reminder

    # --- sources ---------------------------------------------------------------------------------------------
    async def _found(
        self, request: SearchRequest, searched: Searched | None, down: list[str]
    ) -> SearchAnswer:
        """What the search finds in what is `searched`; nothing where that is not there."""
        if searched is None:
            return _NOTHING_FOUND
        return await _or_degraded(self._searcher.search(request, searched), _NOTHING_FOUND, "long_term", down)

    async def _recalled(
        self,
        request: SearchRequest,
        searched: Searched | None,
        standing: Coroutine[Any, Any, tuple[ConversationState, list[Turn]]],
        wanted: _Wanted,
        down: list[str],
    ) -> tuple[SearchAnswer, ConversationState, list[Turn]]:
        """What the search finds, how the thread stands, and its window.

        Where the question asks nothing, or the window shows within the budget all that could be found, nothing is searched, and the
        question not embedded.
        """
        if asks_nothing(request.query):
            return _NOTHING_FOUND, *(await standing)
        if wanted.window and are_few(searched, wanted.budget):
            stand, window = await standing
            if are_all(window, stand.digest, searched, wanted.budget):
                return _NOTHING_FOUND, stand, window
            return await self._found(request, searched, down), stand, window
        answer, (stand, window) = await asyncio.gather(self._found(request, searched, down), standing)
        return answer, stand, window

    async def _known(self, reach: Scope, until: datetime | None) -> CurrentFacts:
        if until is None:
            return await self._facts.current(reach)
        return CurrentFacts(people=await self._facts.people(reach, as_of=until))

    async def _widened(
        self, scope: Scope, window: list[Turn], stand: ConversationState, budget: int
    ) -> list[Turn]:
        """The turns of the whole thread up to the window's end where they may fit in the budget, else the window."""
        if not window or not fits_whole(stand.digest, budget) or stand.digest.turns <= len(window):
            return window
        end = window[-1].seq
        if len(stand.since) == stand.digest.turns and stand.since[-1].seq >= end:
            return [turn for turn in stand.since if turn.seq <= end]
        return await self._store.list_turns(scope, through=end)

    async def last_turns(self, scope: Scope, limit: int, until: datetime | None = None) -> list[Turn]:
        """The last `limit` turns said before `until` (None: all), oldest first."""
        if not limit:
            return []
        if until is None:
            return await self._store.list_turns(scope, limit=limit, newest=True)
        read = limit
        while True:
            turns = await self._store.list_turns(scope, limit=read, newest=True)
            before = [turn for turn in turns if turn.timestamp < until]
            if len(before) >= limit or len(turns) < read:
                return before[-limit:]
            read *= 4

    async def _entities_asked(
        self, reach: Scope, asked: Collection[Entity], searched: Searched | None, until: datetime | None
    ) -> list[EntityCount]:
        """The entities that the question names, as what is recalled from has named them."""
        counts = await self._entities.count(reach, searched) if asked else []
        return [each for each in counts if each.entity in asked and (until is None or each.first_at < until)]

    async def _exchanges(
        self, scope: Scope, recollections: Sequence[Recollection], until: datetime | None
    ) -> Exchanges:
        """What the recollections answer, are about, or are answered by.

        Nothing that was said from `until` on: its number is lower, but its time is what it was stored with.
        """
        found = [each.turn for each in recollections]
        going_back = [
            turn for turn in found if turn.role == "assistant" or len(turn.said) < _SAYS_LITTLE_CHARS
        ]
        asking = [turn for turn in found if only_a_question(turn)]
        at = {(turn.thread_id, turn.seq): turn for turn in found}

        def behind(turn: Turn) -> list[tuple[str, int]]:
            return [(turn.thread_id, turn.seq - by) for by in range(1, LOOKED_BACK + 1) if turn.seq > by]

        def ahead(turn: Turn) -> list[tuple[str, int]]:
            return [(turn.thread_id, turn.seq + by) for by in range(1, _LOOKED_AHEAD + 1)]

        places = {place for turn in going_back for place in behind(turn)}
        places |= {place for turn in asking for place in ahead(turn)}
        unread = sorted(places - at.keys())
        turns = await self._store.turns_at(scope, unread) if unread else []
        at |= {(turn.thread_id, turn.seq): turn for turn in turns if until is None or turn.timestamp < until}

        def said(places: Iterable[tuple[str, int]]) -> list[Turn]:
            return [at[place] for place in places if place in at]

        exchanges = Exchanges(answers={turn.id: answer_to(turn, said(ahead(turn))) for turn in asking})
        for turn in (*going_back, *filter(None, exchanges.answers.values())):
            short = turn.role == "assistant" or as_letters(turn.said) < _SHORT_ANSWER_CHARS
            if short and (other := answered(turn, said(behind(turn)))) is not None:
                exchanges.answered[turn.id] = other
            elif turn.role != "assistant" and (other := spoken_of(turn, said(behind(turn)))) is not None:
                exchanges.spoken_of[turn.id] = other
        return exchanges

    async def _standing(
        self,
        scope: Scope,
        window: list[Turn],
        last_turns: Sequence[Turn],
        budget: int,
        until: datetime | None,
        down: list[str],
    ) -> tuple[ConversationState, list[Turn]]:
        """How the thread stands, and the window, `_widened` where all of it may fit."""
        before, known = (None, last_turns) if until is None else (last_turns, ())
        through = None if before is None else before[-1].seq if before else 0
        nothing: tuple[Compression | None, Digest, list[Turn]] = (None, Digest(), [])
        character, (last, digest, since) = await asyncio.gather(
            _or_degraded(self._states.character_at(scope, before), None, "compression", down),
            _or_degraded(
                self._states.digest(scope, through=through, newest=known), nothing, "compression", down
            ),
        )
        if digest is nothing[1]:  # what the topics of the latest turns are is not known either
            down.append("topic")
        topic_ids = [topic.topic_id for topic in digest.topics]
        topics = await _or_degraded(families_of(self._store, scope, topic_ids), [], "topic", down)
        stand = ConversationState(character=character, last=last, digest=digest, since=since, topics=topics)
        widened = self._widened(scope, window, stand, budget)
        return stand, await _or_degraded(widened, window, "short_term", down)

    async def _preserved(
        self, scope: Scope, stand: ConversationState, window: Sequence[Turn], wanted: _Wanted
    ) -> tuple[list[tuple[Turn, float]], list[KeyMoment]]:
        """See `ConversationReader.preserved`; of a thread that the window holds whole nothing is left to preserve."""
        if not wanted.preserved or len(window) == stand.digest.turns:
            return _NOTHING_KEPT
        digest = await self._states.with_moments(scope, stand.last, stand.since)
        return await self._states.preserved(scope, stand.last, digest, window)


def _lacking(missing: Sequence[str], searched: Searched | None, last_turns: Sequence[Turn]) -> set[str]:
    """Which of the parts that are down the context lacks, and whether facts: of a thread they are read in order."""
    lacks = {part for part in missing if part != "embedder" or searched is None or searched[0]}
    return lacks | {"facts" for turn in last_turns if "facts" in turn.pending}


_NOTHING_FOUND: Final = SearchAnswer(recollections=(), degraded=())
_NOTHING_KEPT: Final[tuple[list[tuple[Turn, float]], list[KeyMoment]]] = ([], [])


def _titles(stand: ConversationState) -> list[str]:
    """Titles of the topics that turns were about, the newest first, each once."""
    title_of = {topic_id: topic.title for topic in stand.topics for topic_id in topic.turns_of}
    found = (title_of.get(topic.topic_id, "") for topic in reversed(stand.digest.topics))
    return [title for title in dict.fromkeys(found) if title]


def _active(stand: ConversationState, *, whole: bool) -> TopicLine | None:
    """The topic that the latest turns are about. `whole`: with its summary, which goes up to now."""
    current = newest(topic for topic in stand.topics if not topic.archived)
    if not whole:
        last = stand.digest.topics[-1].topic_id if stand.digest.topics else ""
        current = next((topic for topic in stand.topics if last in topic.turns_of), None)
    if current is None or not current.title:
        return None
    summary = current.summary.text if whole and current.summary is not None else None
    return TopicLine(id=current.id, title=current.title, summary=summary)


async def _or_degraded(work: Awaitable[T], otherwise: T, source: str, degraded: list[str]) -> T:
    """The work's result; if its part failed, `otherwise`, with `source` added to `degraded`."""
    try:
        return await work
    except BackendError:
        degraded.append(source)
        return otherwise
