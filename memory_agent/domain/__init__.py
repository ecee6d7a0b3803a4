"""The domain's values: frozen, keyword-only, free of any driver.

Times are timezone-aware UTC with millisecond precision (what every store keeps); `seq` counts from 1 within a
thread; similarities are cosines in [-1, 1]; tokens are counted by the configured token counter.
"""

from memory_agent.domain.base import (
    ROLES,
    STAGES,
    Role,
    Scope,
    Stage,
    new_id,
    stored_at,
)
from memory_agent.domain.context import (
    LedgerEntry,
    MemoryContext,
)
from memory_agent.domain.facts import (
    PERSON,
    ChangeKind,
    ExtractionCost,
    FactChange,
    FactEvent,
    FactOp,
    FactRecord,
    FactsDocument,
    FactSource,
    Place,
    RefusedFact,
    StatedFact,
)
from memory_agent.domain.language import (
    Completion,
    Message,
    Usage,
)
from memory_agent.domain.search import (
    PassageVector,
    Recollection,
    SearchRow,
    Similar,
    TermCandidates,
)
from memory_agent.domain.topics import (
    Compressed,
    MergeSuggestion,
    Topic,
    TopicStanding,
    TopicSummary,
    TopicTurns,
)
from memory_agent.domain.turns import (
    Tombstone,
    Turn,
    TurnDraft,
    TurnInput,
    UpdateReceipt,
)
from memory_agent.domain.work import (
    ErasedCounts,
    Erasure,
    ForgetReceipt,
    Lease,
    MemoryStatus,
    OldTurn,
    ParkedTurn,
)

__all__ = [
    "PERSON",
    "ROLES",
    "STAGES",
    "ChangeKind",
    "Completion",
    "Compressed",
    "ErasedCounts",
    "Erasure",
    "ExtractionCost",
    "FactChange",
    "FactEvent",
    "FactOp",
    "FactRecord",
    "FactSource",
    "FactsDocument",
    "ForgetReceipt",
    "Lease",
    "LedgerEntry",
    "MemoryContext",
    "MemoryStatus",
    "MergeSuggestion",
    "Message",
    "OldTurn",
    "ParkedTurn",
    "PassageVector",
    "Place",
    "Recollection",
    "RefusedFact",
    "Role",
    "Scope",
    "SearchRow",
    "Similar",
    "Stage",
    "StatedFact",
    "TermCandidates",
    "Tombstone",
    "Topic",
    "TopicStanding",
    "TopicSummary",
    "TopicTurns",
    "Turn",
    "TurnDraft",
    "TurnInput",
    "UpdateReceipt",
    "Usage",
    "new_id",
    "stored_at",
]
