"""The tools' answers: structured for programs, and the same as text for models and people."""

# No `from __future__ import annotations` here: pydantic reads the annotations when the models are made.

import json
from collections.abc import Iterable
from datetime import UTC
from typing import Annotated, Any, Final, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from memory_agent.domain import REMARK
from memory_agent.topics.stats import TopicStats

MAX_SHOWN_CHARS: Final = 8_000
"""Of one turn's text in an answer: a pasted log must not fill the model's window."""


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True)


class Answer(_Told):
    """Structured answer of a tool, for programs; `as_text` is the same for models and people."""

    def as_text(self) -> str:
        """The answer in words."""
        raise NotImplementedError


class Remembered(Answer):
    """Proof that it is stored."""

    turn_ids: list[str]
    thread_id: str

    def as_text(self) -> str:
        what = "1 turn" if len(self.turn_ids) == 1 else f"{len(self.turn_ids)} turns"
        return f"Remembered {what} in thread {self.thread_id!r}: {', '.join(self.turn_ids)}"


class Shown(_Told):
    """A turn's text as it is shown. `cut`: it is longer than that."""

    when: AwareDatetime
    who: Annotated[str, Field(description="The speaker's name, or the role.")]
    text: str
    cut: Annotated[bool, Field(description="The text is longer than shown.")] = False

    @classmethod
    def of(cls, text: str, **about: Any) -> Self:
        """As much of a turn's text as is shown, with what else there is to it."""
        return cls(text=text[:MAX_SHOWN_CHARS], cut=len(text) > MAX_SHOWN_CHARS, **about)

    def line(self, *more: str) -> str:
        """One turn as text: when, who, what else there is to say, and the words.

        Further lines of it are indented, so that none can pass for a turn of its own.
        """
        head = " · ".join((f"{self.when.astimezone(UTC):%Y-%m-%d %H:%M} UTC", self.who, *more))
        words = "\n  ".join(self.text.splitlines())
        return f"[{head}] {words}{' … (cut)' if self.cut else ''}"


class Recalled(Shown):
    """One recollection. `score` (0 to 1) orders the answer's recollections, and only those; `confidence` (0 to 1) is absolute.

    `replaced_by`: id of a later turn that says what holds instead of something in this one; null if none is known.
    """

    turn_id: str
    thread_id: str
    role: str
    score: float
    confidence: float
    topic_id: str | None
    why: str
    replaced_by: str | None


class Recollections(Answer):
    """Search results, best first."""

    recollections: list[Recalled]

    def as_text(self) -> str:
        if not self.recollections:
            return "Nothing was found."
        found = (
            one.line(
                f"confidence {one.confidence:.2f}",
                f"thread {one.thread_id}",
                f"id {one.turn_id}",
                *([f"replaced by {one.replaced_by}"] if one.replaced_by else []),
            )
            for one in self.recollections
        )
        return "\n".join((REMARK, *found))


class Context(Answer):
    """Memory for answering, as text for a prompt. `degraded` names parts that were down."""

    text: str
    tokens: int
    budget: int
    degraded: list[str]

    def as_text(self) -> str:
        down = f"(without: {', '.join(self.degraded)})" if self.degraded else ""
        return "\n".join(part for part in (self.text, down) if part) or "Nothing is remembered yet."


class Facts(Answer):
    """The known facts: one document, objects within objects."""

    facts: dict[str, Any]

    def as_text(self) -> str:
        return "\n".join(_fact_lines(self.facts)) or "No facts are known yet."


class CorrectedFact(Answer):
    """The change of a fact. `before`: its former value, null if there was none."""

    path: str
    op: str
    value: Any
    before: Any

    def as_text(self) -> str:
        before = "" if self.before is None else f" (before: {_as_json(self.before)})"
        if self.op == "set":
            return f"{self.path} is now {_as_json(self.value)}{before}"
        return f"{self.path} holds no more{before}"


class Forgotten(Answer):
    """Receipt of an erasure. `owed` names parts that were down; it is erased there as soon as they are back."""

    asked: int
    thread_id: str
    turns: int
    search_rows: int
    fact_changes: int
    packed_texts: int
    topics: int
    vectors: int
    compressions: int
    sessions: int
    owed: list[str]

    def as_text(self) -> str:
        lines = [
            f"Erased for good: {self.turns} turn(s), {self.fact_changes} fact change(s), {self.vectors} vector(s)."
        ]
        if unknown := max(self.asked - self.turns, 0):
            lines.append(f"{unknown} of the {self.asked} ids are no turns of thread {self.thread_id!r}.")
        if self.owed:
            lines.append(f"Down just now, erased there as soon as it is back: {', '.join(self.owed)}")
        return "\n".join(lines)


class TopicShown(_Told):
    """A topic. `opener`: how the message that opened it begins; `priority` is in [0, importance]."""

    id: str
    title: str
    opener: str
    turns: int
    priority: float
    importance: float
    tags: list[str]
    current: bool
    archived: bool

    @classmethod
    def of(cls, stats: TopicStats) -> Self:
        """A topic as its statistics have it."""
        return cls(
            id=stats.topic_id,
            title=stats.topic_title,
            opener=stats.opener,
            turns=stats.total_messages,
            priority=stats.priority,
            importance=stats.importance_score,
            tags=list(stats.tags),
            current=stats.current,
            archived=stats.archived,
        )

    def line(self) -> str:
        """One topic as text."""
        marks = [mark for mark, holds in (("current", self.current), ("archived", self.archived)) if holds]
        more = ", ".join((f"{self.turns} turn(s)", f"priority {self.priority:.2f}", *marks, *self.tags))
        return f"{self.title} ({more}) id {self.id}"


class Topics(Answer):
    """The topics; `turns`: of the one asked for, oldest first, else null."""

    topics: list[TopicShown]
    turns: list[Shown] | None = None

    def as_text(self) -> str:
        lines = [topic.line() for topic in self.topics] or ["There are no topics yet."]
        if self.turns is not None:
            lines += [REMARK, *(turn.line() for turn in self.turns)]
        return "\n".join(lines)


class ThreadShown(_Told):
    """A thread's number of turns and the time of the last one (null without turns)."""

    id: str
    turns: int
    last_activity: AwareDatetime | None

    def line(self) -> str:
        """One thread as text."""
        at = self.last_activity
        last = "" if at is None else f", the last on {at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        return f"{self.id!r}: {self.turns} turn(s){last}"


class Threads(Answer):
    """The user's conversations, by id. `next`: what to pass as `after` for those that follow, null at the end."""

    threads: list[ThreadShown]
    next: str | None

    def as_text(self) -> str:
        lines = [thread.line() for thread in self.threads] or ["Nothing is remembered yet."]
        if self.next is not None:
            lines.append(f"There are more: pass after: {self.next!r}.")
        return "\n".join(lines)


def _fact_lines(node: dict[str, Any], above: tuple[str, ...] = ()) -> Iterable[str]:
    for key, value in node.items():
        path = (*above, key)
        if isinstance(value, dict) and value:
            yield from _fact_lines(value, path)
        else:
            yield f"{'.'.join(path)}: {_as_json(value)}"


def _as_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
