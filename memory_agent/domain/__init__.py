"""The domain's values: frozen, keyword-only, free of any driver.

Times are timezone-aware UTC with millisecond precision (what every store keeps); `seq` counts from 1 within a
thread; similarities are cosines in [-1, 1]; tokens are counted by the configured token counter.
"""

from memory_agent.domain.base import (
    BETWEEN as BETWEEN,
    DEFAULT_TENANT as DEFAULT_TENANT,
    ROLE_OF as ROLE_OF,
    ROLES as ROLES,
    STAGES as STAGES,
    GivenRole as GivenRole,
    Role as Role,
    Scope as Scope,
    Stage as Stage,
    Tenant as Tenant,
    checked_tenant as checked_tenant,
    new_id as new_id,
    next_of_tenant as next_of_tenant,
    role_of as role_of,
    split_user_id as split_user_id,
    stored_at as stored_at,
    tenants_range as tenants_range,
)
from memory_agent.domain.compression import (
    SUMMARY_KINDS as SUMMARY_KINDS,
    Compression as Compression,
    CompressionReason as CompressionReason,
    KeyMoment as KeyMoment,
    SummaryItem as SummaryItem,
    SummaryKind as SummaryKind,
    TopicRanges as TopicRanges,
)
from memory_agent.domain.context import (
    REMARK as REMARK,
    TAG_OF as TAG_OF,
    TAGS as TAGS,
    CompressedContext as CompressedContext,
    CompressionMetadata as CompressionMetadata,
    ContextBlock as ContextBlock,
    ContextLine as ContextLine,
    KeyTopic as KeyTopic,
    LedgerEntry as LedgerEntry,
    MemoryContext as MemoryContext,
    Preset as Preset,
    Reach as Reach,
    Tier as Tier,
    prompt_messages as prompt_messages,
    prompt_text as prompt_text,
)
from memory_agent.domain.copies import (
    CopiedTurn as CopiedTurn,
    DamagedRecord as DamagedRecord,
    ForgottenTurn as ForgottenTurn,
    SpentKey as SpentKey,
    ThreadCopy as ThreadCopy,
    ThreadRemains as ThreadRemains,
)
from memory_agent.domain.entities import (
    Entity as Entity,
    EntityCount as EntityCount,
    by_kind as by_kind,
)
from memory_agent.domain.facts import (
    PERSON as PERSON,
    UNNAMED as UNNAMED,
    ChangeKind as ChangeKind,
    ExtractionCost as ExtractionCost,
    FactChange as FactChange,
    FactEvent as FactEvent,
    FactOp as FactOp,
    FactRecord as FactRecord,
    FactsDocument as FactsDocument,
    FactSource as FactSource,
    Place as Place,
    RefusedFact as RefusedFact,
    StatedFact as StatedFact,
)
from memory_agent.domain.keys import (
    ALL_TENANTS as ALL_TENANTS,
    ApiKey as ApiKey,
)
from memory_agent.domain.language import (
    Completion as Completion,
    Message as Message,
    Usage as Usage,
)
from memory_agent.domain.schema import SchemaState as SchemaState
from memory_agent.domain.search import (
    PassageVector as PassageVector,
    Recollection as Recollection,
    SearchRow as SearchRow,
    Similar as Similar,
    TermCandidates as TermCandidates,
    TokenVectors as TokenVectors,
    TurnFeatures as TurnFeatures,
)
from memory_agent.domain.threads import (
    EVENT_KINDS as EVENT_KINDS,
    Character as Character,
    EventKind as EventKind,
    MemoryEvent as MemoryEvent,
    Session as Session,
    ThreadHead as ThreadHead,
    ThreadsPage as ThreadsPage,
    ThreadSummary as ThreadSummary,
    UsersPage as UsersPage,
    UserSummary as UserSummary,
)
from memory_agent.domain.topics import (
    PackedSize as PackedSize,
    Topic as Topic,
    TopicChanges as TopicChanges,
    TopicDecayState as TopicDecayState,
    TopicHead as TopicHead,
    TopicMark as TopicMark,
    TopicSummary as TopicSummary,
    TopicTurns as TopicTurns,
)
from memory_agent.domain.turns import (
    MAX_SEQ as MAX_SEQ,
    VERBATIM as VERBATIM,
    HistoryPage as HistoryPage,
    Tombstone as Tombstone,
    Turn as Turn,
    TurnDraft as TurnDraft,
    TurnInput as TurnInput,
    UpdateReceipt as UpdateReceipt,
    said_otherwise as said_otherwise,
)
from memory_agent.domain.work import (
    OUTAGE_NAMES as OUTAGE_NAMES,
    ErasedCounts as ErasedCounts,
    ErasedTier as ErasedTier,
    Erasure as Erasure,
    ErasureReceipt as ErasureReceipt,
    ForgetReceipt as ForgetReceipt,
    KeyedKind as KeyedKind,
    Lease as Lease,
    LiveStats as LiveStats,
    MemoryStatus as MemoryStatus,
    OldTurn as OldTurn,
    Outage as Outage,
    ParkedTurn as ParkedTurn,
    RebuildStep as RebuildStep,
    WorkerStatus as WorkerStatus,
    outage_name as outage_name,
    outages_of as outages_of,
)
