"""JSON schemas of the tools' arguments and answers, and the same answers as text."""

# No `from __future__ import annotations` here: pydantic reads the annotations when the models are made.

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from memory_agent.checks import MAX_CONTENT_CHARS, checked_text
from memory_agent.domain import REMARK

MAX_SHOWN_CHARS: Final = 8_000
"""Of one turn's text in an answer: a pasted log must not fill the model's window."""
_EXAMPLE_TIME: Final = "2026-05-17T09:30:00+02:00"


# --- kinds of values ---------------------------------------------------------------------------------------------
def _time(value: object) -> datetime:
    if not isinstance(value, str):
        raise ValueError(f"pass text such as {_EXAMPLE_TIME}")
    try:
        time = datetime.fromisoformat(value.strip())
    except ValueError as exc:
        raise ValueError(f"that is no ISO 8601 time; pass one such as {_EXAMPLE_TIME}") from exc
    if time.tzinfo is None:
        raise ValueError(f"it has no time zone; pass one such as {_EXAMPLE_TIME}")
    return time


def _unpacked(value: object) -> object:
    """Some clients pass lists and objects as text that holds JSON."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _text(name: str) -> AfterValidator:
    return AfterValidator(partial(checked_text, name, max_chars=MAX_CONTENT_CHARS))


Time = Annotated[datetime, BeforeValidator(_time), WithJsonSchema({"type": "string", "format": "date-time"})]
Ids = Annotated[
    list[Annotated[str, Field(min_length=1)]],
    BeforeValidator(_unpacked),
    Field(min_length=1, max_length=1_000),
]


# --- arguments ---------------------------------------------------------------------------------------------------
class Arguments(BaseModel):
    """Arguments of every tool. Nothing in here can name a tenant: that is the key's."""

    model_config = ConfigDict(extra="forbid")

    user_id: Annotated[str | None, Field(description="Whose memory.")] = None
    thread_id: Annotated[
        str | None, Field(description="Which conversation; leave it out for the usual one.")
    ] = None


class RememberArguments(Arguments):
    """Of `remember`."""

    text: Annotated[str, _text("text"), Field(description="What was said, word for word.")]
    role: Annotated[Literal["user", "assistant", "system", "tool"], Field(description="Who said `text`.")] = (
        "user"
    )
    reply: Annotated[
        Annotated[str, _text("reply")] | None,
        Field(description="The assistant's answer, to remember a whole exchange."),
    ] = None
    speaker: Annotated[
        str | None, Field(description="The person's name, where several people take part.")
    ] = None
    when: Annotated[
        Time | None, Field(description="When it was said (ISO 8601 with a zone); default: now.")
    ] = None

    @model_validator(mode="after")
    def _reply_is_to_a_user(self) -> Self:
        if self.reply is not None and self.role != "user":
            raise ValueError(
                f"reply goes with role 'user', and role is {self.role!r}; remember the two one by one"
            )
        return self


class RecallArguments(Arguments):
    """Of `recall`."""

    question: Annotated[
        str, _text("question"), Field(description="What you want to be reminded of, in plain words.")
    ]
    top_k: Annotated[int | None, Field(ge=1, le=50, description="How many at most.")] = None
    since: Annotated[Time | None, Field(description="Only what was said from then on (ISO 8601).")] = None
    until: Annotated[Time | None, Field(description="Only what was said before then (ISO 8601).")] = None
    tag: Annotated[
        str | None, Field(min_length=1, description="Only in topics with this tag, as `topics` shows it.")
    ] = None
    all_threads: Annotated[
        bool, Field(description="Search all conversations of the user, not only this one.")
    ] = False


class ContextArguments(Arguments):
    """Of `context`."""

    message: Annotated[str, _text("message"), Field(description="The message that you are about to answer.")]
    max_tokens: Annotated[
        int | None, Field(ge=1, le=100_000, description="How long the text may be, in tokens.")
    ] = None


class FactsArguments(Arguments):
    """Of `facts`."""

    as_of: Annotated[
        Time | None, Field(description="What was known from what had been said by then (ISO 8601).")
    ] = None
    all_threads: Annotated[
        bool, Field(description="Of all conversations of the user, not only this one.")
    ] = False


class CorrectFactArguments(Arguments):
    """Of `correct_fact`."""

    path: Annotated[
        str,
        Field(min_length=1, description="Which fact, as `facts` shows it, such as preferences.meeting_time."),
    ]
    value: Annotated[
        Any,
        BeforeValidator(_unpacked),
        Field(
            description="What holds: text, a number, true or false, a list or an object. With retract: the one "
            "element of a list that holds no more."
        ),
    ] = None
    retract: Annotated[bool, Field(description="Say that the fact holds no more.")] = False

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.value is None and not self.retract:
            raise ValueError("value is missing; pass what holds, or retract: true if the fact holds no more")
        return self


class ForgetArguments(Arguments):
    """Of `forget`."""

    turn_ids: Annotated[Ids, Field(description="The ids of the turns to erase, as `recall` shows them.")]


class TopicsArguments(Arguments):
    """Of `topics`."""

    id: Annotated[str | None, Field(min_length=1, description="A topic's id: its turns as well.")] = None
    tag: Annotated[str | None, Field(min_length=1, description="List only topics with this tag.")] = None
    archived: Annotated[bool, Field(description="List topics that were laid to rest too.")] = False
    limit: Annotated[int, Field(ge=1, le=200, description="With id: how many of its newest turns.")] = 20
    skip: Annotated[int, Field(ge=0, description="With id: how many of its newest turns to leave out.")] = 0


class ThreadsArguments(Arguments):
    """Of `threads`."""

    after: Annotated[
        str | None, Field(min_length=1, description="Go on behind this one: the `next` of the answer before.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=200, description="How many at most.")] = 50


# --- answers -----------------------------------------------------------------------------------------------------
class Answer(BaseModel):
    """Structured answer of a tool, for programs; `as_text` is the same for models and people."""

    model_config = ConfigDict(frozen=True)

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


class Shown(BaseModel):
    """A turn's text as it is shown. `cut`: it is longer than that."""

    model_config = ConfigDict(frozen=True)

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
    """One recollection. `score` (0 to 1) orders the answer's recollections, and only those; `confidence` (0 to 1) is absolute."""

    turn_id: str
    thread_id: str
    role: str
    score: float
    confidence: float
    topic_id: str | None
    why: str


class Recollections(Answer):
    """Search results, best first."""

    recollections: list[Recalled]

    def as_text(self) -> str:
        if not self.recollections:
            return "Nothing was found."
        found = (
            one.line(f"confidence {one.confidence:.2f}", f"thread {one.thread_id}", f"id {one.turn_id}")
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


class TopicShown(BaseModel):
    """A topic. `priority` is in [0, importance]."""

    model_config = ConfigDict(frozen=True)

    id: str
    title: str
    turns: int
    priority: float
    importance: float
    tags: list[str]
    current: bool
    archived: bool

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


class ThreadShown(BaseModel):
    """A thread's number of turns and the time of the last one (null without turns)."""

    model_config = ConfigDict(frozen=True)

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
