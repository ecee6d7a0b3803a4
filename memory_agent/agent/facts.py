"""The part of MemoryAgent that is about facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory_agent.agent.arguments import ThreadCalls, checked_about, checked_times
from memory_agent.checks import MAX_CONTENT_CHARS, checked_text
from memory_agent.domain import KnownFacts, shown
from memory_agent.facts.edits import EditOptions, checked_path
from memory_agent.facts.fold import document_of, subject_of
from memory_agent.llm.redact import redacted_value

if TYPE_CHECKING:
    from datetime import datetime

    from memory_agent.domain import FactRecord, Reach

Path = str | tuple[str, ...] | list[str]
"""Of a fact: `"preferences.meeting_time"`, or its keys. Keys are normalised to snake_case."""


class FactCalls(ThreadCalls):
    """Calls about the facts known of a user."""

    async def fetch_facts(
        self,
        *,
        scope: Reach | None = None,
        as_of: datetime | None = None,
        recorded_by: datetime | None = None,
        about: str | None = None,
    ) -> KnownFacts:
        """The facts, as one merged document: of all the user's threads, or with `scope="thread"` of this one.

        A dict, with `.pending`: how many messages facts are still to be taken from, right after an update for instance (of
        what is known now; `settle` waits for them).

        `scope` (default: the setting `memory_scope`). Of several threads the newest statement counts at each path, and
        lists unite. Where facts of several speakers are known, it is keyed by their names: `{"Ann": {…}, "Bo": {…}}`,
        "user" for turns without a speaker. `about`: the document of the person with this name alone (case and white space
        don't matter), empty if nothing is known of anybody called that. `as_of`: only from what had been
        said by then (turns by their timestamp). `recorded_by`: only from what had been recorded by then, the document as it
        was read at that time.
        """
        whose = checked_about(about)
        times: dict[str, Any] = checked_times(as_of=as_of, recorded_by=recorded_by)
        reach, core = self._reach(scope), self._core
        people, pending = await core.facts.people(reach, **times), 0
        if not times:
            owed = (await core.store.status(reach, now=core.clock.now())).pending
            pending = owed["facts"] + owed["reextract"]
        document = shown(people) if whose is None else document_of(people, subject_of(whose))
        return KnownFacts.of(document, pending)

    async def extract_facts(self, text: str) -> dict[str, Any]:
        """The facts that would be noted of this text alone, as one document; nothing is stored.

        `text`: what a user says, or a conversation with `User:` and `Assistant:` before its messages. Found by the model of
        the settings and by patterns, as after an update; what is known already plays no part.
        Raises LLMUnavailable while the model cannot be asked.
        """
        said = checked_text("text", text, max_chars=MAX_CONTENT_CHARS)
        return await self._core.facts.foresee(said)

    async def fact_history(
        self,
        path: Path | None = None,
        *,
        scope: Reach | None = None,
        as_of: datetime | None = None,
        recorded_by: datetime | None = None,
        about: str | None = None,
    ) -> list[FactRecord]:
        """Every event at, above or below `path` (None: all), oldest first, with sources and with what replaced it.

        Of the threads that `scope` reaches, as for `fetch_facts`. Each record's `subject` says whose fact it is; `about`:
        only those of the person with this name.

        Items that an extractor stated and that were not believed come last, with the reason in `refused`. `as_of` and
        `recorded_by`: the history as it was then, as for `fetch_facts`.
        """
        where = () if path is None or path == "" else checked_path(path)
        whose, times = checked_about(about), checked_times(as_of=as_of, recorded_by=recorded_by)
        return await self._core.facts.history(self._reach(scope), where, about=whose, **times)

    async def set_fact(
        self, path: Path, value: Any, *, about: str | None = None, idempotency_key: str | None = None
    ) -> FactRecord:
        """Say yourself what holds: `value` (a scalar, a list or an object) stands at `path`, whatever stood there.

        It outranks what was extracted from earlier turns; a later turn of the user may say otherwise. Undone by
        `revert_fact(path, to)`.

        Here as in the calls below: `about` is whose fact it is, None for the one person there is (or, among several, for the
        user of the turns without a speaker; raises InvalidInput if all have names). A repeat in this thread with the same `idempotency_key` changes nothing and
        returns what the first one brought about, as history shows it now. Raises IdempotencyKeyReused if that was another
        edit, TurnForgotten if it was forgotten since.
        """
        said = EditOptions(about=checked_about(about), key=idempotency_key)
        return await self._core.fact_editor.set(self.scope, path, await self._storable(value), said)

    async def add_fact(
        self, path: Path, value: Any, *, about: str | None = None, idempotency_key: str | None = None
    ) -> FactRecord:
        """Say yourself that `value` is one more element of the list at `path`.

        For `about` and the key see `set_fact`.
        """
        said = EditOptions(about=checked_about(about), key=idempotency_key)
        return await self._core.fact_editor.add(self.scope, path, await self._storable(value), said)

    async def retract_fact(
        self,
        path: Path,
        value: Any | None = None,
        *,
        about: str | None = None,
        idempotency_key: str | None = None,
    ) -> FactRecord:
        """Say yourself that what is known at `path` (or that element of its list) holds no more; its history stays.

        Raises InvalidInput if nothing is known there. For `about` and the key see `set_fact`.
        """
        said = EditOptions(about=checked_about(about), key=idempotency_key)
        return await self._core.fact_editor.retract(self.scope, path, value, said)

    async def revert_fact(
        self,
        path: Path,
        to: str | datetime | None = None,
        *,
        about: str | None = None,
        idempotency_key: str | None = None,
    ) -> FactRecord:
        """Make `path` ("": the person's whole document) what it was after the event `to` (an id of `fact_history`) or at that time.

        Without `to`: what it was before its last event. The revert is an event too, and can be reverted. Raises NotFound
        for an event that the thread's history does not hold. For `about` and the key see `set_fact`.
        """
        said = EditOptions(about=checked_about(about), key=idempotency_key)
        return await self._core.fact_editor.revert(self.scope, path, to, said)

    async def reextract_facts(self) -> int:
        """Have the facts of this thread extracted again; from how many turns.

        See `MemoryService.reextract_facts`.
        """
        return (await self._service.reextract_facts(self.scope)).turns

    async def _storable(self, value: Any) -> Any:
        redact = self._core.redact
        if redact is None or not self._service.cfg.redact_before_storing:
            return value
        return await redacted_value(redact, value)
