"""Composition root: `Core`, every part of an open service, made in one pass from top to bottom.

`adapters` opens stores and models; `wire` makes the core over them, noun by noun, each part from those above it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from memory_agent.adapters import Adapters, clear_store_caches, make_llm
from memory_agent.context.budget import ROLLING_SUMMARY_TOKENS, SUMMARY_TOKENS
from memory_agent.conversations.sessions import SessionKeeper
from memory_agent.domain import VECTORS, ErasedTier
from memory_agent.facts.edits import FactEditor
from memory_agent.facts.extractors import LLMFactExtractor, PatternFactExtractor
from memory_agent.facts.keeper import FactKeeper, Reextractor
from memory_agent.llm.summaries import (
    ExtractiveSummarizer,
    LLMSummarizer,
    ModelOrExtract,
    SummaryWriter,
)
from memory_agent.ports import known_fingerprint, known_scripts
from memory_agent.search.candidates import CandidateKeeper
from memory_agent.search.entities import EntityCounter
from memory_agent.search.filler import VectorFiller
from memory_agent.search.index_stage import Indexer
from memory_agent.search.late_interaction import LateInteraction
from memory_agent.search.search import Searcher, SearchSettings
from memory_agent.search.user_index import IDLE_SECONDS, ResidentCache
from memory_agent.search.vectors import RowVectors
from memory_agent.text.terms import clear_stems
from memory_agent.topics.index import TopicIndexCache
from memory_agent.topics.packing import Compactor
from memory_agent.topics.projection import MatchSettings, TopicFolder
from memory_agent.topics.stage import TopicKeeper
from memory_agent.topics.stats import DecaySettings, TopicReader
from memory_agent.topics.sweep import Curator, Sweeper, SweepSettings
from memory_agent.work.admit import Backlog
from memory_agent.work.forget import Forgetter
from memory_agent.work.stages import Stages
from memory_agent.work.worker import Worker, WorkerSettings

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Awaitable, Callable

    from memory_agent.config import MemoryConfig
    from memory_agent.context.budget import KeptCounts, TextCaches
    from memory_agent.context.gather import ContextReader
    from memory_agent.conversations.compress import Compressor, ConversationSummarizer
    from memory_agent.digest.fold import AnalysisCache
    from memory_agent.llm.summaries import Summarizer, Summed
    from memory_agent.ports import LLM, Embedder

_LAST_PASS_MARGIN_SECONDS: Final = 10.0

Section = TypeVar("Section")


@dataclass(frozen=True, kw_only=True)
class Core(Adapters):
    """Every part of an open service, by noun; `wire` makes them."""

    residents: ResidentCache
    searcher: Searcher
    filler: VectorFiller | None
    """Where there is a vector index apart from the rows."""

    entity_counter: EntityCounter
    counts: KeptCounts
    """Of the tokens of prompts' lines."""

    texts: TextCaches
    folder: TopicFolder
    topics: TopicKeeper
    compactor: Compactor
    curator: Curator
    topic_reader: TopicReader

    facts: FactKeeper
    fact_editor: FactEditor
    reextractor: Reextractor

    sessions: SessionKeeper
    live: AnalysisCache
    compressor: Compressor
    contexts: ContextReader

    forgetter: Forgetter
    worker: Worker
    backlog: Backlog
    sweeper: Sweeper

    def chat_llm(self, stack: contextlib.AsyncExitStack) -> LLM | None:
        """The model that people talk with, closed with `stack`; None without a server."""
        model = self.cfg.chat_model
        return self.llm if model is None else make_llm(self.cfg, model, stack)

    def housekeep(self) -> None:
        """Empty the caches of texts, so that those leave memory that another process forgot."""
        self.residents.drop_idle()
        self.folder.indexes.drop_idle()
        self.facts.drop_idle()
        self.live.clear()
        self.texts.clear()


def wire(on: Adapters) -> Core:
    """The core over its adapters."""
    # A tenth of a second, which only an open service has to pay.
    from memory_agent.context.budget import KeptCounts, TextCaches
    from memory_agent.context.gather import ContextReader, ContextSettings
    from memory_agent.context.state import ConversationReader
    from memory_agent.conversations.compress import Compressor, CompressSettings
    from memory_agent.digest.fold import AnalysisCache

    cfg, clock, store = on.cfg, on.clock, on.store
    residents = _make_residents(on)
    searcher = Searcher(store, on.embedder, on.vectors, residents, on.spotter, _search_settings(on))
    entity_counter = EntityCounter(store, residents, on.spotter)
    folder = _make_folder(on)
    topics = TopicKeeper(store, folder, _section(cfg, MatchSettings))
    compactor = _make_compactor(on, folder)
    facts = _make_fact_keeper(on)
    reextractor = Reextractor(store, facts, clock)
    live = AnalysisCache()
    counts = KeptCounts(on.counter)
    texts = TextCaches(functools.partial(_empty_text_caches, searcher, on.embedder, counts), live.drop)
    limits, prompt = _section(cfg, CompressSettings), _section(cfg, ContextSettings)
    states = ConversationReader(
        store, live, facts, counts, recent_turns=cfg.recent_messages_count, most_tokens=limits.most_tokens
    )
    compressor = Compressor(store, _make_conversation_summarizer(on), states, clock, counts, limits)
    contexts = ContextReader(
        store, searcher, on.spotter, entity_counter, states, facts, counts, texts, prompt
    )
    curator = Curator(store, folder, compactor, clock)
    forgetter = _make_forgetter(on, residents, live, folder, reextractor, texts)
    filler = _make_filler(on)
    stages = Stages(_make_indexer(on, filler), topics, facts, compactor, compressor, reextractor)
    return Core(
        **vars(on),
        residents=residents,
        searcher=searcher,
        filler=filler,
        entity_counter=entity_counter,
        counts=counts,
        texts=texts,
        folder=folder,
        topics=topics,
        compactor=compactor,
        curator=curator,
        topic_reader=_make_topic_reader(on),
        facts=facts,
        fact_editor=FactEditor(store, facts, clock),
        reextractor=reextractor,
        sessions=SessionKeeper(store, clock, idle_seconds=cfg.session_idle_seconds),
        live=live,
        compressor=compressor,
        contexts=contexts,
        forgetter=forgetter,
        backlog=Backlog(store),
        worker=_make_worker(on, stages, forgetter, filler),
        sweeper=Sweeper(store, folder, compactor, curator, forgetter, clock, _sweep_settings(cfg)),
    )


def _sweep_settings(cfg: MemoryConfig) -> SweepSettings:
    return _section(cfg, SweepSettings, decay=_section(cfg, DecaySettings))


def _make_worker(on: Adapters, stages: Stages, forgetter: Forgetter, filler: VectorFiller | None) -> Worker:
    background: dict[str, Callable[[str], Awaitable[bool]]] = {"upgrade": lambda _: on.store.upgrade_some()}
    if filler is not None:
        background[VECTORS] = filler.work_off
    return Worker(on.store, stages, forgetter, background, on.clock, _section(on.cfg, WorkerSettings))


def _make_filler(on: Adapters) -> VectorFiller | None:
    if isinstance(on.vectors, RowVectors):
        return None
    return VectorFiller(
        on.store,
        on.vectors,
        on.clock,
        embedder=functools.partial(known_fingerprint, on.embedder),
        lease=timedelta(seconds=on.cfg.lease_seconds),
        texts=on.cfg.chroma_documents,
    )


def _make_residents(on: Adapters) -> ResidentCache:
    return ResidentCache(
        on.store,
        embedder=functools.partial(known_fingerprint, on.embedder),
        scripts=functools.partial(known_scripts, on.embedder),
        max_turns=on.cfg.most_resident_turns,
        max_bytes=on.cfg.resident_memory_mb * 1_000_000,
    )


def _make_folder(on: Adapters) -> TopicFolder:
    indexes = TopicIndexCache(
        on.store, functools.partial(known_fingerprint, on.embedder), idle_seconds=IDLE_SECONDS
    )
    return TopicFolder(on.store, on.clock, on.embedder, indexes, owe_compact="compact" in on.cfg.stages)


def _make_indexer(on: Adapters, filler: VectorFiller | None) -> Indexer:
    return Indexer(
        on.store,
        CandidateKeeper(on.store, max_turns=on.cfg.most_resident_turns),
        filler,
        on.embedder,
        on.clock,
        on.spotter,
        language=on.cfg.search_language,
    )


def _search_settings(on: Adapters) -> SearchSettings:
    cfg = on.cfg
    return SearchSettings(
        language=cfg.search_language,
        min_similarity=cfg.min_similarity,
        weights=cfg.search_weights,
        late_interaction=LateInteraction(on.store, on.embedder, language=cfg.search_language),
    )


def _make_compactor(on: Adapters, folder: TopicFolder) -> Compactor:
    summaries = ModelOrExtract(_make_summarizer(on.summary_llm, on), _make_summarizer(None, on))
    cfg = on.cfg
    return Compactor(
        on.store, summaries, folder, on.clock, cfg.max_messages_per_topic, cfg.recent_message_keep
    )


def _make_fact_keeper(on: Adapters) -> FactKeeper:
    from memory_agent.text.patterns import EXTRACTOR_VERSION, extract_facts

    model = None
    if on.llm is not None:
        tokens = on.cfg.llm_request_tokens
        model = LLMFactExtractor(on.llm, on.counter, request_tokens=tokens, redact=on.redact)
    patterns = PatternFactExtractor(extract_facts, version=EXTRACTOR_VERSION)
    return FactKeeper(on.store, model, patterns, on.clock, on.cfg.facts_never)


def _make_topic_reader(on: Adapters) -> TopicReader:
    decay, extract = _section(on.cfg, DecaySettings), _make_summarizer(None, on)
    return TopicReader(on.store, on.clock, decay, on.counter, extract)


def _make_forgetter(
    on: Adapters,
    residents: ResidentCache,
    live: AnalysisCache,
    folder: TopicFolder,
    reextractor: Reextractor,
    texts: TextCaches,
) -> Forgetter:
    def drop_caches(user_id: str) -> None:
        live.drop(user_id)
        residents.drop(user_id)
        folder.indexes.drop(user_id)
        reextractor.keeper.drop(user_id)
        texts.clear()

    return Forgetter(
        store=on.store,
        vectors=on.vectors,
        clock=on.clock,
        drop_caches=drop_caches,
        renew_topics=folder.renew_soon,
        renew_facts=reextractor.renew,
        last_pass_after=timedelta(
            seconds=max(on.cfg.lease_seconds, IDLE_SECONDS) + _LAST_PASS_MARGIN_SECONDS
        ),
        lease=timedelta(seconds=on.cfg.lease_seconds),
        alone=on.alone,
        server_tiers=_files_of_chroma(on.cfg),
    )


def _files_of_chroma(cfg: MemoryConfig) -> tuple[ErasedTier, ...]:
    if not cfg.has_chroma:
        return ()
    what = "ids, vectors and texts" if cfg.chroma_documents else "ids and vectors"
    where = "a Chroma server" if cfg.chroma_db_dir is None else f"the Chroma in {cfg.chroma_db_dir}"
    note = (
        f"{where} keeps {what} of what it deleted in its log and its index until its files are made anew: stop it,"
        " empty its folder, start it, and everything is written there from the search rows"
    )
    return (ErasedTier(tier="chroma_files", state="operator", note=note),)


def _empty_text_caches(searcher: Searcher, embedder: Embedder, counts: KeptCounts) -> None:
    from memory_agent.context.items import forget_terms
    from memory_agent.context.passages import forget_passages
    from memory_agent.context.render import forget_names
    from memory_agent.digest.fold import clear_text_caches

    for forget in (clear_text_caches, forget_names, forget_passages, forget_terms):
        forget()
    clear_store_caches()
    counts.clear()
    searcher.clear_cache()
    embedder.clear_cache()
    clear_stems()


def _section(cfg: MemoryConfig, kind: type[Section], **more: Any) -> Section:
    """A part's own settings: those that `cfg` has by the same name, `more`, and for all others their defaults."""
    names = [field.name for field in fields(cast("Any", kind)) if field.name in type(cfg).model_fields]
    return kind(**more, **{name: getattr(cfg, name) for name in names})


def _make_summarizer(llm: LLM | None, on: Adapters) -> Summarizer[str | None, Summed]:
    if llm is not None:
        return LLMSummarizer(_make_writer(llm, on, ROLLING_SUMMARY_TOKENS, titled=True))
    from memory_agent.text.quotes import SUMMARY_VERSION, extractive_summary

    return ExtractiveSummarizer(extractive_summary, version=SUMMARY_VERSION)


def _make_conversation_summarizer(on: Adapters) -> ConversationSummarizer:
    from memory_agent.conversations.compress import (
        ExtractiveConversationSummarizer,
        LLMConversationSummarizer,
    )

    if on.summary_llm is None:
        return ExtractiveConversationSummarizer()
    return LLMConversationSummarizer(_make_writer(on.summary_llm, on, SUMMARY_TOKENS))


def _make_writer(llm: LLM, on: Adapters, max_tokens: int, *, titled: bool = False) -> SummaryWriter:
    return SummaryWriter(
        llm,
        on.counter,
        max_tokens=max_tokens,
        titled=titled,
        redact=on.redact,
        request_tokens=on.cfg.llm_request_tokens,
    )
