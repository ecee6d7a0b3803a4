"""Hypothesis strategies for every domain value that goes over the wire."""

from __future__ import annotations

import dataclasses
from datetime import UTC
from typing import Any, get_args

from hypothesis import strategies as st

from memory_agent import domain as values
from memory_agent.domain import HistoryPage
from memory_agent.domain.moments import EMOTIONS
from memory_agent.facts.compare import FactDifference
from memory_agent.facts.replay import FactProposal
from memory_agent.topics import sweep_plan
from memory_agent.topics.decay import MemoryType
from memory_agent.topics.stats import TopicStats

Strategy = st.SearchStrategy[Any]

ODD = [
    "",
    "\0",
    "é",
    "e\u0301",
    "👩‍👩‍👧",
    "\u202e",
    "\u2028",
    "𝔘",
    "\ufeff",
    "'\"\\",
    "</memory_context>",
    "\x1f",
]
texts = st.one_of(st.sampled_from(ODD), st.text(max_size=12))
# A tenant is taken out of what an error said, so nothing here may look like one.
error_texts = texts.filter(lambda text: "1f" not in text.lower() and "\x1f" not in text)
ids = st.one_of(
    st.sampled_from(["ada", "a/b%2F", "日本", "🜁", "../..", " x"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp", "Zs"]), min_size=1, max_size=12),
)
seqs = st.integers(0, 2**53)
counts = st.integers(0, 2**40)
floats = st.floats(allow_nan=False, allow_infinity=False)
fractions = st.floats(0, 1)
times = st.datetimes(timezones=st.just(UTC)).map(
    lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000, fold=0)
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), floats, texts)
json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)


def maybe(strategy: Strategy) -> Strategy:
    return st.none() | strategy


def some(strategy: Strategy) -> Strategy:
    return st.lists(strategy, max_size=2).map(tuple)


def one_of(literal: Any) -> Strategy:
    return st.sampled_from(get_args(literal))


def made(kind: type[Any], /, **fields: Strategy) -> Strategy:
    """Values of a dataclass with every one of its fields drawn; fields with a default are left out now and then."""
    declared = {field.name: field for field in dataclasses.fields(kind)}
    assert set(fields) == set(declared), f"{kind.__name__}: {set(fields) ^ set(declared)}"
    optional = {
        name
        for name, field in declared.items()
        if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    }
    return st.fixed_dictionaries(
        {name: strategy for name, strategy in fields.items() if name not in optional},
        optional={name: strategy for name, strategy in fields.items() if name in optional},
    ).map(lambda drawn: kind(**drawn))


spans = st.tuples(seqs, seqs)
entities = st.builds(
    values.Entity,
    kind=st.from_regex(r"[a-z0-9_-]{1,32}", fullmatch=True),
    name=st.sampled_from(["COSRX", "Crème  brûlée", "한국", "e\u0301"]),
)
turns = made(
    values.Turn,
    id=ids,
    user_id=ids,
    thread_id=ids,
    seq=seqs,
    role=one_of(values.Role),
    content=texts,
    speaker=maybe(texts),
    timestamp=times,
    tokens=counts,
    importance=maybe(fractions),
    metadata=objects,
    session_id=maybe(ids),
    entities=some(entities),
    topic_id=maybe(ids),
    compressed=st.booleans(),
    pending=some(one_of(values.Stage)),
    due_at=maybe(times),
    attempts=counts,
    last_error=maybe(error_texts),
    parked=st.booleans(),
)
receipts = made(values.UpdateReceipt, turn_ids=some(ids), seq=seqs)
recollections = made(
    values.Recollection,
    turn=turns,
    score=fractions,
    confidence=fractions,
    why=st.dictionaries(texts, floats, max_size=3),
    explanation=texts,
    similarity=maybe(floats),
)
histories = made(HistoryPage, turns=some(turns), next=maybe(seqs))

summary_items = made(
    values.SummaryItem,
    kind=one_of(values.SummaryKind),
    text=texts,
    first_seq=seqs,
    last_seq=seqs,
    participants=some(texts),
    importance=floats,
)
moments = made(
    values.KeyMoment,
    turn_id=ids,
    seq=seqs,
    kinds=some(one_of(values.MomentKind)),
    score=floats,
    tokens=counts,
    code=st.booleans(),
    text=texts,
)
noted = made(values.Noted, seq=seqs, text=texts)
emotion_spans = made(
    values.EmotionSpan, emotion=st.sampled_from(EMOTIONS), first_seq=seqs, last_seq=seqs, peak=fractions
)
key_topics = made(values.KeyTopic, title=texts, ranges=some(spans))
topic_ranges = made(values.TopicRanges, topic_id=ids, ranges=some(spans))
lines = made(
    values.ContextLine, body=texts, head=texts, role=maybe(one_of(values.Role)), speaker=maybe(texts)
)
# No block is of the tier "envelope", which has no tag.
tiers = st.sampled_from(sorted(values.TAG_OF))
blocks = made(values.ContextBlock, tier=tiers, lines=some(lines))
ledger = made(
    values.LedgerEntry,
    tier=one_of(values.Tier),
    item=texts,
    tokens=st.integers(-100, 2**40),
    kept=st.booleans(),
    reason=texts,
    score=maybe(floats),
    confidence=maybe(fractions),
    text=texts,
)
rendered = {"blocks": some(blocks), "ledger": some(ledger), "tokens": counts, "budget": counts}
contexts = made(
    values.MemoryContext,
    **rendered,
    persona=texts,
    summary=some(summary_items),
    preserved=some(turns),
    facts=objects,
    entities=st.dictionaries(texts, st.lists(texts, max_size=3), max_size=3),
    topic=maybe(texts),
    short_term=some(turns),
    state=texts,
    long_term=some(recollections),
    degraded=some(texts),
    preset=texts,
)
compression_metadata = made(
    values.CompressionMetadata,
    original_turns=counts,
    compressed_at=seqs,
    number=counts,
    tokens_before=counts,
    tokens_after=counts,
    preserved_ids=some(ids),
    made_by=maybe(texts),
    summary_through=seqs,
)
compressed_contexts = made(
    values.CompressedContext,
    **rendered,
    reminder=texts,
    summary=some(summary_items),
    topics=some(key_topics),
    moments=some(moments),
    course=some(emotion_spans),
    facts=objects,
    decisions=some(noted),
    preserved=some(turns),
    recent=some(turns),
    metadata=compression_metadata,
)
compressions = made(
    values.Compression,
    id=ids,
    user_id=ids,
    thread_id=ids,
    session_id=maybe(ids),
    number=counts,
    at=times,
    reason=one_of(values.CompressionReason),
    after_seq=seqs,
    through=seqs,
    turns=counts,
    tokens_before=counts,
    tokens_after=counts,
    made_by=texts,
    summary=some(summary_items),
    moments=some(moments),
    course=some(emotion_spans),
    decisions=some(noted),
    traits=some(noted),
    relationship=some(noted),
    topics=some(topic_ranges),
    preserved=some(ids),
    covers=some(ids),
)

characters = made(values.Character, name=texts, personality=texts, profile=texts, traits=some(texts))
sessions = made(
    values.Session,
    id=ids,
    user_id=ids,
    thread_id=ids,
    number=counts,
    started_at=times,
    after_seq=seqs,
    participants=some(texts),
    character=maybe(characters),
    metadata=objects,
    explicit=st.booleans(),
    idempotency_key=maybe(ids),
    last_activity=maybe(times),
    total_turns=counts,
    compression_count=counts,
)

topic_summaries = made(
    values.TopicSummary, text=texts, made_by=texts, through=seqs, turns=counts, made_at=times
)
topic_stats = made(
    TopicStats,
    topic_id=ids,
    topic_title=texts,
    active_messages=counts,
    compressed_messages=counts,
    total_messages=counts,
    has_summary=st.booleans(),
    summary_made_by=maybe(texts),
    importance_score=fractions,
    access_count=counts,
    memory_type=one_of(MemoryType),
    half_life_days=floats,
    age_seconds=floats,
    inactive_seconds=floats,
    priority=fractions,
    compression_ratio=floats,
    tags=some(texts),
    archived=st.booleans(),
    current=st.booleans(),
    set_importance=maybe(fractions),
    absorbed=some(ids),
    summary=maybe(topic_summaries),
)
suggestions = made(
    values.MergeSuggestion, topic_id=ids, into=ids, topic_title=texts, into_title=texts, similarity=floats
)
topic_turns = st.fixed_dictionaries({"role": one_of(values.Role), "content": texts, "timestamp": times})

sources = made(
    values.FactSource,
    turn_id=maybe(ids),
    thread_id=ids,
    quote=maybe(texts),
    extractor=texts,
    said_at=times,
)
paths = some(texts)
records = made(
    values.FactRecord,
    id=ids,
    thread_id=ids,
    op=one_of(values.FactOp),
    path=paths,
    value=json_values,
    old=json_values,
    sources=some(sources),
    confidence=fractions,
    valid_from=maybe(texts),
    said_at=times,
    recorded_at=times,
    last_seen=times,
    stands=st.booleans(),
    superseded_by=maybe(ids),
    refused=maybe(texts),
)
fact_events = made(
    values.FactEvent,
    op=one_of(values.FactOp),
    path=paths,
    value=json_values,
    quote=maybe(texts),
    confidence=fractions,
    valid_from=maybe(texts),
    to=maybe(st.tuples(texts, seqs, seqs)),
)
refused = made(
    values.RefusedFact, path=texts, said=texts, quote=maybe(texts), reason=texts, op=one_of(values.FactOp)
)
changes = made(
    values.FactChange,
    key=texts,
    kind=one_of(values.ChangeKind),
    at=texts,
    turn_id=maybe(ids),
    turns=some(ids),
    said_at=times,
    recorded_at=times,
    extractor=texts,
    events=some(fact_events),
    refused=some(refused),
    generation=texts,
    thread_id=texts,
    seq=seqs,
    idempotency_key=maybe(ids),
)
differences = made(
    FactDifference,
    kind=st.sampled_from(["added", "removed", "changed"]),
    path=paths,
    before=json_values,
    after=json_values,
    sources_before=some(sources),
    sources_after=some(sources),
)
costs = made(
    values.ExtractionCost, turns=counts, requests=counts, prompt_tokens=counts, completion_tokens=counts
)
scopes = made(values.Scope, user_id=ids, thread_id=maybe(ids))
proposals = made(
    FactProposal,
    id=ids,
    scope=scopes,
    extractor=texts,
    before=objects,
    after=objects,
    differences=some(differences),
    refused=some(records),
    failed=some(st.tuples(ids, error_texts)),
    turns=counts,
    cost=costs,
    changes=some(changes),
    preview=st.booleans(),
)

parked = made(
    values.ParkedTurn,
    turn_id=ids,
    user_id=ids,
    thread_id=ids,
    pending=some(one_of(values.Stage)),
    attempts=counts,
    last_error=error_texts,
)
outages = made(values.Outage, stage=one_of(values.Stage), part=texts, since=times, error=error_texts)
statuses = made(
    values.MemoryStatus,
    turns=counts,
    pending=st.dictionaries(one_of(values.Stage), counts, max_size=3),
    owed_count=counts,
    parked_count=counts,
    parked=some(parked),
    lag_seconds=floats,
    erasures=counts,
    extraction=costs,
    outages=some(outages),
)
forget_receipts = made(
    values.ForgetReceipt,
    turns=counts,
    search_rows=counts,
    fact_changes=counts,
    packed_texts=counts,
    topics=counts,
    vectors=counts,
    compressions=counts,
    sessions=counts,
    owed=some(texts),
)
entity_counts = made(
    values.EntityCount,
    entity=entities,
    count=counts,
    first_turn_id=ids,
    last_turn_id=ids,
    first_at=times,
    last_at=times,
)
events = made(
    values.MemoryEvent,
    id=ids,
    kind=one_of(values.EventKind),
    user_id=ids,
    thread_id=ids,
    at=times,
    turn_id=maybe(ids),
    seq=maybe(seqs),
    topic_id=maybe(ids),
    change_id=maybe(ids),
)
users = made(values.UserSummary, user_id=ids, threads=counts, turns=counts, last_activity=maybe(times))
threads = made(values.ThreadSummary, thread_id=ids, turns=counts, last_activity=maybe(times))
users_pages = made(values.UsersPage, users=some(users), next=maybe(ids))
threads_pages = made(values.ThreadsPage, threads=some(threads), next=maybe(ids))
usages = made(values.Usage, requests=counts, prompt_tokens=counts, completion_tokens=counts)
live_stats = made(
    values.LiveStats,
    live_threads=counts,
    max_live_threads=counts,
    turns=counts,
    hits=counts,
    misses=counts,
    evictions=counts,
)

worker_statuses = made(
    values.WorkerStatus,
    runs=st.booleans(),
    paused=st.booleans(),
    at_work=st.dictionaries(one_of(values.Stage), counts),
    down=some(texts),
    extractor=texts,
    usage=maybe(usages),
)
sweep_actions = made(
    sweep_plan.SweepAction,
    deed=one_of(sweep_plan.Deed),
    user_id=ids,
    thread_id=ids,
    topic_id=maybe(ids),
    priority=maybe(fractions),
    turn_id=maybe(ids),
)
sweep_progress = made(sweep_plan.SweepProgress, threads=counts, topics=counts, actions=counts)
compressed = made(values.Compressed, turns=counts, raw_bytes=counts, packed_bytes=counts)
sweep_reports = made(
    sweep_plan.SweepReport,
    dry_run=st.booleans(),
    resumed=st.booleans(),
    started_at=times,
    seconds=floats,
    threads=counts,
    topics=counts,
    archived=counts,
    deleted=counts,
    forgotten=counts,
    packed=compressed,
    failed=counts,
    skipped=counts,
    owed=some(texts),
)
