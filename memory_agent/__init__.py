"""Memory for LLM agents that you host yourself.

async with MemoryService(MemoryConfig()) as service:
    memory = service.agent(user_id="user_123", thread_id="thread_abc")
    context = await memory.fetch_memory("What did I say about my vacation?")
    receipt = await memory.update_memory(user_msg, assistant_msg)
"""

import importlib
import os
from typing import TYPE_CHECKING

from memory_agent.domain import (
    Character,
    CompressedContext,
    Compression,
    CompressionMetadata,
    Entity,
    EntityCount,
    ErasedTier,
    ErasureReceipt,
    ExtractionCost,
    FactRecord,
    FactSource,
    ForgetReceipt,
    HistoryPage,
    KeyMoment,
    KeyTopic,
    LedgerEntry,
    LiveStats,
    MemoryContext,
    MemoryEvent,
    MemoryStatus,
    Outage,
    ParkedTurn,
    Preset,
    RecallPrice,
    Recollection,
    Scope,
    Session,
    SummaryItem,
    ThreadsPage,
    ThreadSummary,
    Tier,
    Turn,
    TurnInput,
    UpdateReceipt,
    Usage,
    UsersPage,
    UserSummary,
    by_kind,
)
from memory_agent.errors import (
    AccessDenied,
    BackendError,
    Busy,
    ConfigError,
    DataDirInUse,
    EmbedderError,
    EmbedderUnavailable,
    EventsLost,
    EventsUnsupported,
    IdempotencyKeyReused,
    InvalidInput,
    LLMError,
    LLMUnavailable,
    MalformedReply,
    MemoryAgentError,
    ModelNotFound,
    ModelRefused,
    NotFound,
    NotOpen,
    RateLimited,
    RedactionFailed,
    RequestTooLarge,
    ServiceError,
    ServiceUnavailable,
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

if TYPE_CHECKING:
    from memory_agent.agent.agent import MemoryAgent
    from memory_agent.client import MemoryClient, ServiceClient
    from memory_agent.config import MemoryConfig
    from memory_agent.digest.importance import IMPORTANCE_WEIGHTS, importance_factors, score_turn
    from memory_agent.imports.files import Unreadable
    from memory_agent.imports.run import ImportReport, ImportTally, import_chats
    from memory_agent.service import MemoryService
    from memory_agent.strategy import (
        ContextStrategy,
        HybridMemoryStrategy,
        PreparedContext,
        StrategyConfig,
    )
    from memory_agent.topics.stats import TopicStats
    from memory_agent.topics.sweep import SweepAction, SweepProgress, SweepReport
else:
    # What has much behind it is loaded when it is asked for: the command line's help needs no service, whoever runs
    # embedded no HTTP client, and a client of a service none of what the service needs.
    _MODULE_OF = {
        name: module
        for module, names in {
            "agent.agent": "MemoryAgent",
            "client": "MemoryClient ServiceClient",
            "config": "MemoryConfig",
            "digest.importance": "IMPORTANCE_WEIGHTS importance_factors score_turn",
            "imports.files": "Unreadable",
            "imports.run": "ImportReport ImportTally import_chats",
            "service": "MemoryService",
            "strategy": "ContextStrategy HybridMemoryStrategy PreparedContext StrategyConfig",
            "topics.stats": "TopicStats",
            "topics.sweep": "SweepAction SweepProgress SweepReport",
        }.items()
        for name in names.split()
    }

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"memory_agent.{_MODULE_OF[name]}"), name)
        globals()[name] = found
        return found


# ONNX Runtime tells Microsoft of each process that loads it. It reads this when it is loaded, which nothing above does;
# processes that we start inherit it.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.2.0"

__all__ = [
    "IMPORTANCE_WEIGHTS",
    "AccessDenied",
    "BackendError",
    "Busy",
    "Character",
    "CompressedContext",
    "Compression",
    "CompressionMetadata",
    "ConfigError",
    "ContextStrategy",
    "DataDirInUse",
    "EmbedderError",
    "EmbedderUnavailable",
    "Entity",
    "EntityCount",
    "ErasedTier",
    "ErasureReceipt",
    "EventsLost",
    "EventsUnsupported",
    "ExtractionCost",
    "FactRecord",
    "FactSource",
    "ForgetReceipt",
    "HistoryPage",
    "HybridMemoryStrategy",
    "IdempotencyKeyReused",
    "ImportReport",
    "ImportTally",
    "InvalidInput",
    "KeyMoment",
    "KeyTopic",
    "LLMError",
    "LLMUnavailable",
    "LedgerEntry",
    "LiveStats",
    "MalformedReply",
    "MemoryAgent",
    "MemoryAgentError",
    "MemoryClient",
    "MemoryConfig",
    "MemoryContext",
    "MemoryEvent",
    "MemoryService",
    "MemoryStatus",
    "ModelNotFound",
    "ModelRefused",
    "NotFound",
    "NotOpen",
    "Outage",
    "ParkedTurn",
    "PreparedContext",
    "Preset",
    "RateLimited",
    "RecallPrice",
    "Recollection",
    "RedactionFailed",
    "RequestTooLarge",
    "Scope",
    "ServiceClient",
    "ServiceError",
    "ServiceUnavailable",
    "Session",
    "SettleTimeout",
    "StoreError",
    "StoreUnavailable",
    "StrategyConfig",
    "SummaryItem",
    "SweepAction",
    "SweepProgress",
    "SweepReport",
    "SweepRunning",
    "ThreadSummary",
    "ThreadsPage",
    "Tier",
    "TopicStats",
    "Turn",
    "TurnForgotten",
    "TurnInput",
    "TurnsParked",
    "Unavailable",
    "Unreadable",
    "UnsupportedModel",
    "UpdateReceipt",
    "Usage",
    "UserSummary",
    "UsersPage",
    "VectorIndexError",
    "VectorIndexUnavailable",
    "by_kind",
    "import_chats",
    "importance_factors",
    "score_turn",
]
