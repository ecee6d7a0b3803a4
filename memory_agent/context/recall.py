"""Recall for a prompt: the search that finds its recollections, and if there is anything to find that it doesn't show anyway. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memory_agent.context.recollections import passage_tokens
from memory_agent.facts.people import called
from memory_agent.search.request import RowFilter, SearchRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from memory_agent.digest.fold import Digest
    from memory_agent.domain import Scope, Turn
    from memory_agent.search.request import SearchAnswer, Searched

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
