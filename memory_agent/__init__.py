"""Memory for LLM agents that you host yourself.

async with MemoryService(MemoryConfig()) as service:
    memory = service.agent(user_id="user_123", thread_id="thread_abc")
    context = await memory.fetch_memory("What did I say about my vacation?")
    receipt = await memory.update_memory(user_msg, assistant_msg)
"""

from memory_agent.agent import MemoryAgent
from memory_agent.config import MemoryConfig
from memory_agent.domain import (
    ExtractionCost,
    FactRecord,
    FactSource,
    ForgetReceipt,
    LedgerEntry,
    MemoryContext,
    MemoryStatus,
    MergeSuggestion,
    ParkedTurn,
    Recollection,
    Scope,
    Turn,
    TurnInput,
    UpdateReceipt,
    Usage,
)
from memory_agent.errors import (
    BackendError,
    ConfigError,
    DataDirInUse,
    EmbedderError,
    EmbedderUnavailable,
    InvalidInput,
    LLMError,
    LLMUnavailable,
    MalformedReply,
    MemoryAgentError,
    ModelNotFound,
    NotOpen,
    RedactionFailed,
    SettleTimeout,
    StoreError,
    StoreUnavailable,
    SweepRunning,
    TurnForgotten,
    TurnsParked,
    Unavailable,
    UnsupportedModel,
    VectorIndexError,
    VectorIndexUnavailable,
)
from memory_agent.lifecycle.replay import FactProposal
from memory_agent.lifecycle.sweep_plan import SweepAction, SweepProgress, SweepReport
from memory_agent.recall.topics import TopicStats
from memory_agent.remember.facts.compare import FactDifference
from memory_agent.service import MemoryService

__version__ = "0.1.0"

__all__ = [
    "BackendError",
    "ConfigError",
    "DataDirInUse",
    "EmbedderError",
    "EmbedderUnavailable",
    "ExtractionCost",
    "FactDifference",
    "FactProposal",
    "FactRecord",
    "FactSource",
    "ForgetReceipt",
    "InvalidInput",
    "LLMError",
    "LLMUnavailable",
    "LedgerEntry",
    "MalformedReply",
    "MemoryAgent",
    "MemoryAgentError",
    "MemoryConfig",
    "MemoryContext",
    "MemoryService",
    "MemoryStatus",
    "MergeSuggestion",
    "ModelNotFound",
    "NotOpen",
    "ParkedTurn",
    "Recollection",
    "RedactionFailed",
    "Scope",
    "SettleTimeout",
    "StoreError",
    "StoreUnavailable",
    "SweepAction",
    "SweepProgress",
    "SweepReport",
    "SweepRunning",
    "TopicStats",
    "Turn",
    "TurnForgotten",
    "TurnInput",
    "TurnsParked",
    "Unavailable",
    "UnsupportedModel",
    "UpdateReceipt",
    "Usage",
    "VectorIndexError",
    "VectorIndexUnavailable",
]
