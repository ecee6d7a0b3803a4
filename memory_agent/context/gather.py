"""Gathering: what one question's prompt is made of, read side by side, and no more than it can hold."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import regex

from memory_agent.context.assemble import Material, TopicLine, pack_context
from memory_agent.context.budget import PERSONA_TOKENS, PRESETS
from memory_agent.context.conversation import remind
from memory_agent.context.recollections import passage_tokens
from memory_agent.digest.fold import Digest
from memory_agent.errors import BackendError
from memory_agent.facts.documents import CurrentFacts
from memory_agent.facts.fold import called, shown
from memory_agent.lazily import lazily
from memory_agent.search.request import RowFilter, SearchAnswer, SearchRequest
from memory_agent.text.corrections import asks
from memory_agent.text.languages import any_of
from memory_agent.text.subjects import content_words, first_words, names_nothing, only_reacts, points_outside
from memory_agent.text.terms import as_letters
from memory_agent.topics.index import families_of, newest

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
        Tier,
        TopicHead,
        Turn,
    )
    from memory_agent.facts.documents import FactDocuments
    from memory_agent.ports import DocumentStore, TokenCounter
    from memory_agent.search.entities import EntityCounter, EntitySpotter
    from memory_agent.search.request import Searched
    from memory_agent.search.search import Searcher


LOOKED_BACK: Final = 5
"""Turns before it: in a chat one says in several what another answers."""
_CROWD: Final = 3
"""People from which on it is told who is spoken to, and talks run across each other."""
# Who is spoken to, as in channels: "ann: try that", "@ann, …".
_SPOKEN_TO: Final = lazily(regex.compile, r"\s*@?([\p{L}\p{N}][^\s:,]*)[:,](?=\s)")
_POINTS_BACK: Final = any_of("words", "points_back", regex.IGNORECASE)
_ANSWERS_NOTHING: Final = any_of("words", "answers_nothing", regex.IGNORECASE)


def answered(turn: Turn, before: Sequence[Turn]) -> Turn | None:
    """The turn that `turn` answers, of what was said before it, the last first; None if that isn't sure.

    It is among what another said last, whatever reaction of one's own lies between: the turn with a word of the answer, or
    else the last that asks, if `turn` asks nothing itself. A "Yes" or "That's why" answers what another said in one turn. A
    greeting or reaction alone answers nothing, nor does "Hey, have you heard of …?".
    """
    if _ANSWERS_NOTHING.match(turn.content):
        return None
    said = _said_last(turn, _heard(turn, before))
    question = asks(turn.content)
    words = content_words(turn.content) - content_words(" ".join({turn.speaker or "", *_speakers(said)}))

    def fits(position: int) -> tuple[bool, bool, int]:
        other = said[position]
        shares = not words.isdisjoint(content_words(other.content))
        asked = asks(other.content) and any(map(str.isalpha, other.content))
        return shares, asked and not question, -position

    best = max(range(len(said)), key=fits, default=None)
    if best is None or any(fits(best)[:2]):
        return None if best is None else said[best]
    return said[0] if len(said) == 1 and _POINTS_BACK.match(turn.content) else None


def spoken_of(turn: Turn, before: Sequence[Turn]) -> Turn | None:
    """The last turn before one that names nothing, or whose "it" was named elsewhere, that names something: what "it" may be.

    Of the same session.
    """
    if not (names_nothing(turn.content) or points_outside(turn.content)) or only_reacts(turn.content):
        return None
    said = (other for other in _heard(turn, before) if other.session_id == turn.session_id)
    return next((other for other in said if _names_a_thing(other.content)), None)


def _heard(turn: Turn, before: Sequence[Turn]) -> Sequence[Turn]:
    """Of what was said before, what may be part of the talk that `turn` is in.

    Among several people, not what others say to somebody else; where the turn says whom it speaks to, or its speaker is
    spoken to, of others only what they say to its speaker.
    """
    people = {name.casefold() for name in _speakers(each for each in (turn, *before) if each.role == "user")}
    if len(people) < _CROWD:
        return before
    who, to = (turn.speaker or turn.role).casefold(), _spoken_to(turn, people)
    named = to or any(_spoken_to(other, people) == who for other in before)
    heard = {who} if named else {who, ""}
    return [
        other
        for other in before
        if (other.speaker or other.role).casefold() in {who, to} or _spoken_to(other, people) in heard
    ]


def _spoken_to(turn: Turn, people: Collection[str]) -> str:
    """Who of these people is spoken to, "" if nobody by name."""
    found = _SPOKEN_TO.match(turn.content)
    return found[1].casefold() if found is not None and found[1].casefold() in people else ""


def _names_a_thing(text: str) -> bool:
    return len(first_words(text)) > 1 and not names_nothing(text) and not only_reacts(text)


def _said_last(turn: Turn, before: Sequence[Turn]) -> list[Turn]:
    """The turns in a row that another said in the same session, the last first."""
    said: list[Turn] = []
    for other in before:
        own = (other.role, other.speaker) == (turn.role, turn.speaker)
        if other.session_id != turn.session_id or (said and _speakers([other]) != _speakers(said)):
            break
        if own and content_words(other.content):
            break
        if not own:
            said.append(other)
    return said


def _speakers(turns: Iterable[Turn]) -> set[str]:
    return {turn.speaker or turn.role for turn in turns}


LAST_EXCHANGE: Final = 4
"""So many turns hold what the user said last, even where the question was stored before it is asked."""
_FEWEST_FOUND: Final = 20
_MOST_FOUND: Final = 300
_TOKENS_EACH: Final = 10
"""So many recollections are asked for as short ones would fill the budget with."""
_SHORT_TURN_TOKENS: Final = 4
_HEAD_TOKENS: Final = 5
"""Of a turn's line, for who says it."""
_WHOLE_SHARE: Final = 0.9
"""Of the budget, for a thread that fits beside the persona; where it doesn't after all, it is searched."""
_ENOUGH: Final = 1.2
"""Budgets that the turns found would fill: of those behind, one in a hundred is worth a place for being short."""


def recall_request(
    scope: Scope,
    reach: Scope,
    question: str,
    people: Mapping[str, Any],
    last_turns: Sequence[Turn],
    budget: int,
    now: datetime,
    until: datetime | None,
) -> SearchRequest:
    """The search of a prompt in `budget` tokens."""
    return SearchRequest(
        scope=reach,
        here=scope.thread_id,
        query=question,
        called=called(people),
        top_k=min(_FEWEST_FOUND + budget // _TOKENS_EACH, _MOST_FOUND),
        where=RowFilter(thread_id=reach.thread_id, until=until),
        now=now,
        said=_said_before(question, last_turns),
        enough_tokens=int(_ENOUGH * budget),
        tokens_each=passage_tokens(budget),
    )


def _said_before(question: str, last_turns: Sequence[Turn]) -> str:
    """What the user said last in the thread before `question`; "" if nothing."""
    turns = reversed(last_turns[-LAST_EXCHANGE:])
    return next((turn.content for turn in turns if turn.role == "user" and turn.content != question), "")


def are_few(window: Sequence[Turn], searched: Searched | None, budget: int) -> bool:
    """True if so few turns are searched that a window of this thread may hold them all."""
    unindexed, index = searched or ([], None)
    if not window or index is None or len(index) > window[-1].seq:  # nothing, or other threads too
        return False
    return (len(unindexed) + len(index)) * _SHORT_TURN_TOKENS <= budget


def are_all(
    window: Sequence[Turn],
    digest: Digest,
    searched: Searched | None,
    budget: int,
) -> bool:
    """True if the window is the whole thread, fits, and holds all turns that are searched: finding them would show nothing more."""
    unindexed, index = searched or ([], None)
    tokens = digest.tokens + _HEAD_TOKENS * digest.turns
    if len(window) != digest.turns or tokens > budget * _WHOLE_SHARE:
        return False
    ids = {turn.id for turn in window}
    return (
        index is not None
        and ids.issuperset(turn.id for turn in unindexed)
        and sum(map(index.has, ids)) == len(index)
    )


def fills(answer: SearchAnswer, budget: int) -> bool:
    """True if what was found leaves hardly any room for what has no share of the budget."""
    most = passage_tokens(budget)
    return sum(min(found.turn.tokens, most) for found in answer.recollections) > budget


T = TypeVar("T")

_EXPLAINED: Final = 30
"""So many of the best recollections are shown with what they answer, if they say little by themselves."""
_SHORT_ANSWER_CHARS: Final = 40
_SAYS_LITTLE_CHARS: Final = 120
_MANY_TURNS: Final = 50
_READ_AT_ONCE: Final = 32
"""Turns of the thread: what comes before the window is read anyway, for where the thread stands."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextSettings:
    """Settings of contexts; reasons in `config/memory.toml`."""

    short_term_window: int
    context_preset: Preset
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
        missing: Sequence[str] = (),
    ) -> MemoryContext:
        """The context for `question` in `budget` tokens, from what was said before `until` (None: everything).

        `price`: see `RecallPrice`; `window`: with the running conversation; `top_k`: recollections at most; `reach` (None: `scope`): the thread, or all of its user's, whose facts and turns are recalled; `now`: what "last week" in the question is told from; `missing`: parts that are known to be down; the embedder counts where turns wait for it.
        """
        name = preset or self._settings.context_preset
        shares = PRESETS[name]
        needless: dict[Tier, bool] = {
            "long_term": shares.short_term is not None,
            "preserved": not shares.preserved,
        }
        gather = functools.partial(
            self._material, scope, reach or scope, question, budget, now, until, missing
        )
        pack = functools.partial(
            pack_context, shares=shares, preset=name, budget=budget, counter=self._counter
        )

        async def packed(material: Material) -> tuple[MemoryContext, frozenset[Tier]]:
            # Dozens of turns take so long to be read that nobody else on the event loop should wait for them.
            many = max(len(material.recollections), len(material.window)) > _MANY_TURNS
            return await asyncio.to_thread(pack, material) if many else pack(material)

        with self._texts.reading(scope.user_id):
            unread = frozenset(tier for tier in needless if needless[tier])
            context, missed = await packed(await gather(unread))
            return (await packed(await gather(frozenset())))[0] if missed else context

    async def _named(self, question: str, down: list[str]) -> tuple[Entity, ...]:
        """Entities of the question; where the model fails, those of the dictionary alone."""
        named = await _or_degraded(self._spotter.of_question(question), None, "entities", down)
        return self._spotter.by_dictionary(question) if named is None else named

    async def _material(
        self,
        scope: Scope,
        reach: Scope,
        question: str,
        budget: int,
        now: datetime,
        until: datetime | None,
        missing: Sequence[str],
        needless: frozenset[Tier],
    ) -> Material:
        """All that the context may be made of, read side by side, but for what is `needless` where there is much else to show."""
        down: list[str] = []
        # First, for they tell who is meant by a name, and what a question of few words goes on with; what is searched needs neither.
        most = self._settings.short_term_window
        newest_turns = self.last_turns(scope, max(most, _READ_AT_ONCE), until)
        facts, last_turns, searched = await asyncio.gather(
            _or_degraded(self._known(reach, until), CurrentFacts(people={}), "facts", down),
            _or_degraded(newest_turns, [], "short_term", down),
            _or_degraded(self._searcher.searched(reach), None, "long_term", down),
        )
        window, people = last_turns[max(len(last_turns) - most, 0) :], facts.people
        request = recall_request(scope, reach, question, people, last_turns, budget, now, until)
        standing = self._standing(scope, window, last_turns, budget, until, down)
        answer, stand, window, unread = await self._recalled(
            request, window, searched, standing, budget, needless, down
        )
        (preserved, passed_over), counts, (answers, things) = await asyncio.gather(
            _or_degraded(self._preserved(scope, stand, window, unread), _NOTHING_KEPT, "compression", down),
            _or_degraded(self._entities_beside(scope, answer, searched, budget, until), [], "entities", down),
            _or_degraded(self._explained(reach, answer.recollections, until), ({}, {}), "long_term", down),
        )
        topic, reminder = self._topic_and_reminder(stand, whole=until is None)
        return Material(
            persona=reminder.identity,
            state=reminder.state,
            reminder_left=reminder.left,
            passed_over=passed_over,
            summary=() if stand.last is None else stand.last.summary,
            summarized=stand.last is not None and stand.last.made_by.startswith("llm"),
            preserved=preserved,
            facts=shown(people),
            people=tuple(people),
            fact_items=facts.items,
            entities=counts,
            asked=await self._named(question, down) if counts else (),
            topic=topic,
            window=window,
            whole=0 < len(window) == stand.digest.turns,
            unread=unread,
            recollections=answer.recollections,
            answered=answers,
            spoken_of=things,
            question=question,
            language=self._settings.search_language,
            degraded=sorted({*_lacking(missing, searched, last_turns), *down, *answer.degraded}),
            thread_id=scope.thread_id,
        )

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
        window: Sequence[Turn],
        searched: Searched | None,
        standing: Coroutine[Any, Any, tuple[ConversationState, list[Turn]]],
        budget: int,
        needless: frozenset[Tier],
        down: list[str],
    ) -> tuple[SearchAnswer, ConversationState, list[Turn], frozenset[Tier]]:
        """What the search finds, how the thread stands, its window, and which tiers are `needless` beside these.

        Where the window shows within `budget` all that could be found, nothing is searched, and the question not embedded.
        """
        if "long_term" in needless and are_few(window, searched, budget):
            stand, widened = await standing
            if are_all(widened, stand.digest, searched, budget):
                return _NOTHING_FOUND, stand, widened, needless
            answer = await self._found(request, searched, down)
        else:
            answer, (stand, widened) = await asyncio.gather(self._found(request, searched, down), standing)
        return answer, stand, widened, needless - {"long_term"} if fills(answer, budget) else frozenset()

    async def _known(self, reach: Scope, until: datetime | None) -> CurrentFacts:
        if until is None:
            return await self._facts.current(reach)
        return CurrentFacts(people=await self._facts.people(reach, as_of=until))

    async def _widened(
        self, scope: Scope, window: list[Turn], stand: ConversationState, budget: int
    ) -> list[Turn]:
        """The turns of the whole thread up to the window's end where they may fit in the budget, else the window."""
        if not window or stand.digest.tokens > budget or stand.digest.turns <= len(window):
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

    async def _entities_beside(
        self,
        scope: Scope,
        answer: SearchAnswer,
        searched: Searched | None,
        budget: int,
        until: datetime | None,
    ) -> list[EntityCount]:
        """The entities that the thread names; none where what was found leaves no room for them."""
        counts = [] if fills(answer, budget) else await self._entities.count(scope, searched)
        return [count for count in counts if until is None or count.first_at < until]

    async def _explained(
        self, scope: Scope, recollections: Sequence[Recollection], until: datetime | None
    ) -> tuple[dict[str, Turn], dict[str, Turn]]:
        """Of the best recollections that say little by themselves, by their ids, the turn that each answers, and the turn
        that names what it is about.

        Nothing that was said from `until` on: its number is lower, but its time is what it was stored with.
        """
        short = [
            found.turn
            for found in recollections[:_EXPLAINED]
            if found.turn.seq > 1 and len(found.turn.content) < _SAYS_LITTLE_CHARS
        ]
        if not short:
            return {}, {}
        behind = {turn.id: range(turn.seq - 1, max(turn.seq - 1 - LOOKED_BACK, 0), -1) for turn in short}
        places = {(turn.thread_id, seq) for turn in short for seq in behind[turn.id]}
        at = {(found.turn.thread_id, found.turn.seq): found.turn for found in recollections}
        unread = sorted(places - at.keys())
        turns = await self._store.turns_at(scope, unread) if unread else []
        at |= {(turn.thread_id, turn.seq): turn for turn in turns if until is None or turn.timestamp < until}
        answers: dict[str, Turn] = {}
        things: dict[str, Turn] = {}
        for turn in short:
            before = [at[place] for seq in behind[turn.id] if (place := (turn.thread_id, seq)) in at]
            short_answer = as_letters(turn.content) < _SHORT_ANSWER_CHARS
            if short_answer and (other := answered(turn, before)) is not None:
                answers[turn.id] = other
            elif (other := spoken_of(turn, before)) is not None:
                things[turn.id] = other
        return answers, things

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
        self, scope: Scope, stand: ConversationState, window: Sequence[Turn], unread: frozenset[Tier]
    ) -> tuple[list[tuple[Turn, float]], list[KeyMoment]]:
        """See `ConversationReader.preserved`; of a thread that the window holds whole nothing is left to preserve."""
        if "preserved" in unread or len(window) == stand.digest.turns:
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
