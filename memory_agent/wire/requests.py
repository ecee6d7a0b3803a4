"""The body of every request. Values have the bounds of `memory_agent.checks`; what else can be wrong the agent says.

Of a list only the first value that is wrong is told (`fail_fast`): telling all would take minutes, and gigabytes, for
millions of them in one body.
"""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, PlainValidator, StrictBool, WithJsonSchema

from memory_agent import domain as values
from memory_agent.checks import MAX_CONTENT_CHARS, MAX_ID_CHARS, MAX_RETENTION_DAYS, MAX_TAG_CHARS
from memory_agent.domain import STAGES, Detail, GivenRole, Preset, Reach, RecallPrice, Stage
from memory_agent.wire.base import GivenObject, GivenValue, Path, PathOrAll, Request, SaidAt, Time

MAX_TURNS: Final = 10_000
"""In one call, of those to store and of those to forget."""

Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
Text = Annotated[str, Field(min_length=1, max_length=MAX_CONTENT_CHARS)]
TextOrNone = Annotated[str, Field(max_length=MAX_CONTENT_CHARS)] | None
Portrait = Annotated[str, Field(max_length=10_000)]
Tag = Annotated[str, Field(min_length=1, max_length=MAX_TAG_CHARS)]
TagList = Annotated[tuple[Tag, ...], Field(max_length=64, fail_fast=True)]
Importance = Annotated[float, Field(strict=True, ge=0, le=1)]
Count = Annotated[int, Field(strict=True, ge=0, le=2**53 - 1)]
Seconds = Annotated[float, Field(strict=True, ge=0)]
Part = Literal["messages", "blocks", Detail]
_PATH: Final = "preferences.meeting_time"


def example(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(examples)})


# --- turns ---------------------------------------------------------------------------------------------------
class GivenEntity(Request):
    """An entity of a turn, besides those that dictionaries find in it."""

    model_config = example({"kind": "brands", "name": "COSRX"})

    kind: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,32}$")]
    """1 to 32 of a-z, 0-9, "_" and "-"."""
    name: Annotated[str, Field(min_length=1, max_length=100)]


class AddTurn(Request):
    """One message to remember."""

    model_config = example(
        {
            "role": "user",
            "content": "I moved to Lisbon in May.",
            "speaker": "Ada",
            "timestamp": "2026-06-02T10:15:30+02:00",
            "metadata": {"channel": "app"},
            "importance": 0.8,
            "entities": [{"kind": "cities", "name": "Lisbon"}],
        }
    )

    role: GivenRole
    """"human" is "user", "ai" and "model" are "assistant", "developer" is "system", "function" is "tool"."""
    content: Text
    speaker: Name | None = None
    """A person's name where several take part."""
    timestamp: SaidAt | None = None
    """When it was said; default: now. Its offset from UTC is kept: days are the speaker's."""
    metadata: GivenObject | None = None
    """Anything that the application wants to find it by."""
    importance: Importance | None = None
    """0 to 1; its topic takes it over."""
    entities: Annotated[tuple[GivenEntity, ...], Field(max_length=100, fail_fast=True)] = ()

    def domain(self) -> values.TurnInput:
        """The message as `MemoryAgent.add_turns` takes it."""
        return values.TurnInput(**{**dict(self), "entities": tuple(map(dict, self.entities))})


class AddTurns(Request):
    """Many messages to remember, in order: all of them or, if one is refused, none."""

    model_config = example(
        {
            "turns": [
                {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": "Hi, how can I help?"},
            ]
        }
    )

    turns: Annotated[tuple[AddTurn, ...], Field(max_length=MAX_TURNS, fail_fast=True)]

    def domain(self) -> list[values.TurnInput]:
        """The messages as `MemoryAgent.add_turns` takes them."""
        return [turn.domain() for turn in self.turns]


class Update(Request):
    """An exchange to remember: what the user said and what the assistant answered."""

    model_config = example(
        {
            "user_msg": "Which flights go to Lisbon on Friday?",
            "assistant_msg": "There are three: 08:10, 12:45 and 19:30.",
            "metadata": {"channel": "app"},
        }
    )

    user_msg: TextOrNone
    assistant_msg: TextOrNone
    """A message without text (null or "": an image, a call of a tool) leaves the other one's turn alone."""
    speaker: Name | None = None
    """The user's name where several take part."""
    timestamp: SaidAt | None = None
    """When it was said; default: now. Its offset from UTC is kept: days are the speaker's."""
    metadata: GivenObject | None = None
    importance: Importance | None = None
    """0 to 1."""


class Fetch(Request):
    """The message to be answered."""

    model_config = example({"user_message": "What did I say about my vacation?", "max_tokens": 2000})

    user_message: Text
    max_tokens: Count | None = None
    """The most that the context may take; default: the service's setting."""
    now: Time | None = None
    """Only what was said before is searched; default: everything."""
    preset: Preset | None = None
    """How the budget is divided; default: the service's setting."""
    price: RecallPrice | None = None
    """Whether only what the message surely needs is recalled (`thrifty`) or what it may need (`thorough`); default: the service's setting."""
    window: StrictBool = True
    """False: without the running conversation, for who sends that to the model anyway."""
    top_k: Count | None = None
    """At most so many recollections; default: the service's setting `top_k_memories` where it was set, else no bound."""
    include: Annotated[tuple[Part, ...], Field(max_length=8, fail_fast=True)] = ()
    """What is sent besides the text: it as chat messages; as blocks, tier by tier; the ledger; the values, such as facts and turns."""
    scope: Reach | None = None
    """Whether the facts and turns of all the user's threads are recalled or this one's; default: the service's setting."""
    tags: TagList = ()
    """Only turns of topics that carry one of these are recalled; default: of any topic."""


class Search(Request):
    """A question to everything that was said."""

    model_config = example(
        {"user_id": "user_123", "thread_id": "thread_abc", "query": "vacation in Portugal", "top_k": 5},
        {"user_id": "user_123", "query": "vacation", "since": "2026-01-01T00:00:00Z", "role": "user"},
    )

    user_id: Id
    thread_id: Id | None = None
    """The thread that it is asked in; default: none."""
    scope: Reach | None = None
    """Whether all of the user's threads are searched or this one; default: the service's setting."""
    query: Text
    top_k: Count | None = None
    """At most so many turns; default: the service's setting."""
    since: Time | None = None
    """Included."""
    until: Time | None = None
    """Not included."""
    role: GivenRole | None = None
    topic_id: Id | None = None
    """Only turns of this topic of the thread."""
    tag: Tag | None = None
    """Only turns of topics that carry this tag."""
    session_id: Id | None = None
    """Only turns of this session."""
    metadata: GivenObject | None = None
    """Only turns whose metadata holds these values."""
    now: Time | None = None
    """What "last week" in the query is told from; default: the service's clock."""


class Forget(Request):
    """Turns to erase from every tier, index and cache."""

    model_config = example({"turn_ids": ["0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e10"]})

    turn_ids: Annotated[tuple[Id, ...], Field(min_length=1, max_length=MAX_TURNS, fail_fast=True)]
    missing_ok: StrictBool = True
    """Whether ids that the thread does not have are passed over; else they are refused, and nothing is erased."""


class Settle(Request):
    """The time to wait for the thread's pending work."""

    model_config = example({"timeout": 30, "without": ["facts"]})

    timeout: Seconds | None = None
    """In seconds; default: as long as the service lets a request wait."""
    without: Annotated[tuple[Stage, ...], Field(max_length=len(STAGES), fail_fast=True)] = ()
    """Stages that are not waited for; `facts` waits for all that needs no language model."""


class Sweep(Request):
    """A sweep of faded topics and old turns, or its dry run. What is null is as the settings say."""

    model_config = example({"dry_run": True, "retention_days": 90})

    dry_run: StrictBool = False
    retention_days: Annotated[float, Field(strict=True, gt=0, le=MAX_RETENTION_DAYS)] | None = None
    """Age from which turns are forgotten."""
    forget_facts: StrictBool | None = None
    """With what is known from them; else that stays, without their words."""


# --- sessions ------------------------------------------------------------------------------------------------
class GivenCharacter(Request):
    """The role that the assistant plays. Plain text; all but `name` may be empty."""

    model_config = example({"name": "Mira", "personality": "patient, dry humour", "traits": ["curious"]})

    name: Name
    personality: Portrait = ""
    profile: Portrait = ""
    traits: Annotated[tuple[Name, ...], Field(max_length=50, fail_fast=True)] = ()

    def domain(self) -> values.Character:
        """The character as `MemoryAgent.start_session` takes it."""
        return values.Character(**dict(self))


def _character_id(value: object) -> object:
    if isinstance(value, int | str) and not isinstance(value, bool) and 1 <= len(str(value)) <= MAX_ID_CHARS:
        return value
    raise ValueError(f"pass a whole number, or text of at most {MAX_ID_CHARS} characters")


_INT_OR_TEXT: Final = {
    "anyOf": [{"type": "integer"}, {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARS}]
}
CharacterId = Annotated[int | str, PlainValidator(_character_id), WithJsonSchema(_INT_OR_TEXT)]


class NewSession(Request):
    """A new sitting of the thread; the turns that follow belong to it."""

    model_config = example({"participants": ["Ada"], "character": {"name": "Mira"}})

    character: GivenCharacter | None = None
    participants: Annotated[tuple[Name, ...], Field(max_length=100, fail_fast=True)] = ()
    """Names of those who take part."""
    metadata: GivenObject | None = None
    character_id: CharacterId | None = None
    """The application's own id of the character, kept in the session's metadata."""


class StartSession(NewSession):
    """A new sitting of a thread, or of one that is made for it; the turns that follow belong to it."""

    model_config = example(
        {
            "user_id": "user_123",
            "thread_id": "thread_abc",
            "participants": ["Ada"],
            "metadata": {"plan": "pro"},
        },
        {"character_id": 3, "user_id": "user_123"},
    )

    user_id: Id
    thread_id: Id | None = None
    """Default: a new one."""


# --- facts ---------------------------------------------------------------------------------------------------
class SetFact(Request):
    """The value of a path from now on, whatever it was before."""

    model_config = example({"path": _PATH, "value": "09:30"})

    path: Path
    value: GivenValue
    """Text, a number, true or false, a list or an object."""
    about: Name | None = None
    """Whose fact it is; default: the one person's there is."""


class AddFact(Request):
    """One more element of the list at a path."""

    model_config = example({"path": "interests", "value": "sailing"})

    path: Path
    value: GivenValue
    about: Name | None = None
    """Whose fact it is; default: the one person's there is."""


class ExtractFacts(Request):
    """What a user says, or a conversation with `User:` and `Assistant:` before its messages."""

    model_config = example({"text": "User: I'm John, a developer"})

    text: Annotated[str, Field(min_length=1, max_length=MAX_CONTENT_CHARS)]


class RetractFact(Request):
    """The fact that holds no more; its history stays."""

    model_config = example({"path": _PATH}, {"path": "interests", "value": "sailing"})

    path: Path
    value: GivenValue | None = None
    """Only this element of the list at the path; default: all that is known there."""
    about: Name | None = None
    """Whose fact it is; default: the one person's there is."""


class RevertFact(Request):
    """A path that becomes what it was."""

    model_config = example(
        {"path": _PATH}, {"path": _PATH, "to": "12.0"}, {"path": "", "to": "2026-03-01T18:30:00+01:00"}
    )

    path: PathOrAll
    """"" is the whole document of the person."""
    to: Annotated[str, Field(min_length=1, max_length=2 * MAX_ID_CHARS)] | None = None
    """After the change with this id of the history, or at this time (ISO 8601 with a zone); default: before its last change."""
    about: Name | None = None
    """Whose fact it is; default: the one person's there is."""

    def moment(self) -> str | datetime | None:
        """`to` as `MemoryAgent.revert_fact` takes it: a time if it reads as one with a zone, else an id."""
        try:
            time = datetime.fromisoformat(self.to or "")
        except ValueError:
            return self.to
        return self.to if time.tzinfo is None else time


# --- topics --------------------------------------------------------------------------------------------------
class Merge(Request):
    """The topic that another one becomes a part of."""

    model_config = example({"into": "0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e10"})

    into: Id
    """Its id stays."""


class Tags(Request):
    """Tags to add to a topic and to take away."""

    model_config = example({"add": ["travel"], "remove": ["misc"]})

    add: TagList = ()
    remove: TagList = ()


class SetImportance(Request):
    """A topic's importance."""

    model_config = example({"importance": 0.9}, {"importance": None})

    importance: Importance | None
    """0 to 1; null: as its turns say."""


class Feedback(Request):
    """A vote on the usefulness of a topic, or of a turn of it, which the opposite vote undoes."""

    model_config = example({"turn_or_topic": "0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e10", "useful": True})

    turn_or_topic: Id
    useful: StrictBool


# --- erasures that are made again ----------------------------------------------------------------------------
MAX_RECEIPTS: Final = 100
_RECEIPT: Final = {
    "id": "0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e10",
    "at": "2026-11-24T09:00:00Z",
    "key": "5f0c8a1d2e3b4a59",
    "tenant": "default",
    "user": "9d3c",
    "before_id": "0198f3a2-7c11-7d35-9b1e-5a0c2f6f4e11",
}


class GivenReceipt(Request):
    """Receipt of an erasure, as `GET /api/erasures` gave it."""

    model_config = example(_RECEIPT)

    id: Id
    at: Time
    key: Name
    tenant: Name
    user: Name
    thread: Name | None = None
    turns: Annotated[tuple[Name, ...], Field(max_length=MAX_TURNS, fail_fast=True)] = ()
    before_id: Id
    state: Literal["owed", "swept", "erased", "operator"] = "owed"
    keeps_facts: StrictBool = False

    def domain(self) -> values.ErasureReceipt:
        """The receipt."""
        return values.ErasureReceipt(**dict(self))


class ReplayErasures(Request):
    """Receipts of what is to be erased again, after a backup of before brought it back."""

    model_config = example({"receipts": [_RECEIPT]})

    receipts: Annotated[tuple[GivenReceipt, ...], Field(max_length=MAX_RECEIPTS, fail_fast=True)]
