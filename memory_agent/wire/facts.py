"""Facts: what is known, its history, and what extraction would change."""

from dataclasses import replace
from typing import Any

from pydantic import model_validator

from memory_agent import domain as values
from memory_agent.domain import DEFAULT_TENANT
from memory_agent.facts import replay
from memory_agent.wire.base import Answer, JsonObject, Many, PublicText

FactRecord = Answer[values.FactRecord]


class Facts(Answer[dict[str, Any]]):
    """The facts, as one document."""

    facts: JsonObject

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Facts":
        """The answer with this document."""
        return cls.model_validate({"facts": document})

    def domain(self) -> dict[str, Any]:
        """The document."""
        return dict(self.facts)


class UnreadTurn(Answer[tuple[str, str]]):
    """A turn about which the model's answer could not be read."""

    turn_id: str
    problem: PublicText

    @model_validator(mode="before")
    @classmethod
    def _from_pair(cls, value: object) -> object:
        return {"turn_id": value[0], "problem": value[1]} if isinstance(value, tuple) else value

    def domain(self) -> tuple[str, str]:
        """The turn's id and what was wrong."""
        return self.turn_id, self.problem


class FactProposal(Answer[replay.FactProposal]):
    """A thread's facts as they would become. Posted back as it is, it is applied."""

    failed: Many[UnreadTurn]

    def domain(self, *, tenant: str = DEFAULT_TENANT) -> replay.FactProposal:
        """The proposal for the user of that tenant. Raises InvalidInput for impossible ids."""
        made = super().domain()
        return replace(made, scope=values.Scope.of(made.scope.user_id, made.scope.thread_id, tenant=tenant))


class ReplayId(Answer[str]):
    """The replay that was applied or undone."""

    replay_id: str

    def domain(self) -> str:
        """The id."""
        return self.replay_id
