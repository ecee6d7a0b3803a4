"""Status of a memory: pending work, erasures, events, entities and costs."""

from memory_agent import domain as values
from memory_agent.wire.base import Answer, Wire

WorkerStatus = Answer[values.WorkerStatus]
ParkedTurn = Answer[values.ParkedTurn]
MemoryStatus = Answer[values.MemoryStatus]
ForgetReceipt = Answer[values.ForgetReceipt]
EntityCount = Answer[values.EntityCount]
MemoryEvent = Answer[values.MemoryEvent]


class TurnCount(Answer[int]):
    """The number of turns concerned."""

    turns: int

    def domain(self) -> int:
        """The count."""
        return self.turns


class Proof(Wire):
    """That who answers knows a key."""

    proof: str
