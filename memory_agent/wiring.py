"""Composition root: the adapters that the settings name, and the core wired over them.

The only module that knows both the core and the adapters (through `adapters`, which imports them when they are
opened, so that importing this package loads no driver and no model).
"""

from __future__ import annotations

import asyncio
import functools
import logging
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from memory_agent.adapters import (
    load_finder,
    load_redactor,
    make_counter,
    make_embedder,
    make_llm,
    make_reranker,
    open_store,
    open_vectors,
)
from memory_agent.context.budget import SUMMARY_TOKENS
from memory_agent.conversations.sessions import SessionKeeper, SessionRules
from memory_agent.data_dir import DataDirLock
from memory_agent.errors import InvalidInput, ModelNotFound
from memory_agent.facts.edits import FactEditor
from memory_agent.facts.extractors import LLMFactExtractor, PatternFactExtractor
from memory_agent.facts.keeper import FactKeeper, FactSettings
from memory_agent.facts.replay import Replayer
from memory_agent.llm.summaries import ExtractiveSummarizer, LLMSummarizer
from memory_agent.ports import known_fingerprint
from memory_agent.search.fusion import DEFAULT_WEIGHTS, DETAILED_WEIGHTS, RERANKED_WEIGHTS
from memory_agent.search.index_stage import Indexer
from memory_agent.search.rerank import LateInteraction, Reranking, SecondLook, SecondStage
from memory_agent.search.search import Searcher, SearchSettings
from memory_agent.search.user_index_cache import ResidentCache
from memory_agent.text.terms import clear_stems
from memory_agent.topics.curate import Curator
from memory_agent.topics.matching import MatchSettings
from memory_agent.topics.packing import Compactor, CompactSettings
from memory_agent.topics.projection import TopicFolder
from memory_agent.topics.stage import TopicKeeper
from memory_agent.topics.stats import TopicReader
from memory_agent.topics.sweep import Sweeper
from memory_agent.topics.sweep_plan import SweepSettings
from memory_agent.work.forget import Forgetter
from memory_agent.work.worker import Worker, WorkerSettings

if TYPE_CHECKING:
    import contextlib

    from memory_agent.config import MemoryConfig
    from memory_agent.context.gather import ContextReader
    from memory_agent.conversations.compress import Compressor
    from memory_agent.conversations.summary import ConversationSummarizer
    from memory_agent.digest.cache import LiveThreads
    from memory_agent.facts.extractors import FactExtractor
    from memory_agent.llm.summaries import Summarizer
    from memory_agent.ports import (
        LLM,
        Clock,
        DocumentStore,
        Embedder,
        Redactor,
        Reranker,
        TokenCounter,
        VectorIndex,
    )
    from memory_agent.search.entity_linking import EntitySpotter
    from memory_agent.text.dictionary import EntityDictionary

log = logging.getLogger(__name__)

_LAST_PASS_MARGIN_SECONDS = 10.0
_ENTITIES_FILE = Path("config/entities.yaml")


Section = TypeVar("Section")


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """Parts that the application hands in, and closes itself."""

    mongo_client: Any | None = None
    store: DocumentStore | None = None
    vectors: VectorIndex | None = None
    embedder: Embedder | None = None
    llm: LLM | None = None
    redact: Redactor | None = None


class Parts:
    """What an open service consists of."""

    _cfg: MemoryConfig
    store: DocumentStore
    vectors: VectorIndex
    embedder: Embedder
    llm: LLM | None
    summary_llm: LLM | None
    redact: Redactor | None
    reranker: Reranker | None
    counter: TokenCounter
    residents: ResidentCache
    searcher: Searcher
    folder: TopicFolder
    topics: TopicKeeper
    topic_reader: TopicReader
    curator: Curator
    facts: FactKeeper
    fact_editor: FactEditor
    replayer: Replayer
    compactor: Compactor
    spotter: EntitySpotter
    sessions: SessionKeeper
    live: LiveThreads
    compressor: Compressor
    contexts: ContextReader
    forgetter: Forgetter
    sweeper: Sweeper
    worker: Worker

    @classmethod
    async def open(
        cls, cfg: MemoryConfig, clock: Clock, given: Given, stack: contextlib.AsyncExitStack
    ) -> Parts:
        """Open the adapters that the settings name, closing each when `stack` closes, and wire the core.

        What is `given` is used as it is, and not closed.
        """
        parts = cls()
        parts.embedder = given.embedder or make_embedder(cfg, stack)
        parts._cfg = cfg
        parts.redact = given.redact or load_redactor(cfg)
        parts.llm = given.llm or make_llm(cfg, cfg.fact_extraction_model, stack)
        parts.summary_llm = parts.llm
        if given.llm is None and cfg.summary_model != cfg.fact_extraction_model:
            parts.summary_llm = make_llm(cfg, cfg.summary_model, stack)
        parts.reranker = make_reranker(cfg, parts.redact, stack)
        parts.counter = make_counter()
        parts.spotter = await asyncio.to_thread(_make_spotter, cfg)
        for folder in _embedded_folders(cfg, given):
            lock = DataDirLock(folder)
            lock.acquire()
            stack.callback(lock.release)
        parts.store = given.store or await open_store(cfg, given.mongo_client, stack)
        await _look_for_model(parts.embedder, cfg)
        fingerprint = functools.partial(known_fingerprint, parts.embedder)
        parts.vectors = given.vectors or await open_vectors(cfg, fingerprint, stack)
        parts._wire(cfg, clock)
        return parts

    def _wire(self, cfg: MemoryConfig, clock: Clock) -> None:
        self.residents = ResidentCache(
            self.store,
            embedder=functools.partial(known_fingerprint, self.embedder),
            max_turns=cfg.resident_max_turns,
            max_bytes=cfg.resident_memory_mb * 1_000_000,
            idle_seconds=cfg.resident_idle_seconds,
        )
        self.searcher = Searcher(
            self.store,
            self.vectors,
            self.embedder,
            self.residents,
            self.spotter,
            self._search_settings(cfg),
        )
        self._wire_topics(cfg, clock)
        self._wire_facts(cfg, clock)
        self._wire_conversations(cfg, clock)
        self.forgetter = Forgetter(
            self.store,
            self.vectors,
            clock,
            drop_caches=self._drop_caches,
            renew_topics=self.folder.renew_soon,
            renew_facts=self.facts.save_all,
            last_pass_after_seconds=max(cfg.lease_seconds, cfg.resident_idle_seconds)
            + _LAST_PASS_MARGIN_SECONDS,
            lease_seconds=cfg.lease_seconds,
        )
        indexer = Indexer(
            self.store, self.vectors, self.embedder, clock, self.spotter, language=cfg.search_language
        )
        self.worker = Worker(
            self.store,
            indexer,
            self.topics,
            self.facts,
            self.compactor,
            self.compressor,
            self.forgetter,
            clock,
            _section(cfg, WorkerSettings),
        )
        self.sweeper = Sweeper(
            self.store,
            self.folder,
            self.compactor,
            self.forgetter,
            clock,
            _section(cfg, SweepSettings),
        )

    def _search_settings(self, cfg: MemoryConfig) -> SearchSettings:
        return SearchSettings(
            language=cfg.search_language,
            min_similarity=cfg.min_similarity,
            weights={**DEFAULT_WEIGHTS, **cfg.search_weights},
            second_look=self._second_look(cfg),
        )

    def _second_look(self, cfg: MemoryConfig) -> SecondLook | None:
        """What the settings say of a second stage of search."""
        if cfg.second_stage == "off":
            return None
        if self.reranker is not None:
            stage: SecondStage = Reranking(self.reranker)
            weights = RERANKED_WEIGHTS
        else:
            stage = LateInteraction(self.embedder, language=cfg.search_language)
            weights = DETAILED_WEIGHTS
        return SecondLook(
            stage=stage,
            weights={**weights, **cfg.search_weights},
            seconds=cfg.second_stage_seconds,
        )

    def _wire_topics(self, cfg: MemoryConfig, clock: Clock) -> None:
        self.folder = TopicFolder(
            self.store,
            clock,
            self.embedder,
            least_terms=cfg.short_turn_terms,
            owe_compact="compact" in cfg.stages,
        )
        self.topics = TopicKeeper(self.store, self.folder, _section(cfg, MatchSettings))
        self.compactor = Compactor(
            self.store,
            _make_summarizer(self.summary_llm, cfg, self._redact_for_llm),
            _make_summarizer(None, cfg, None),
            self.folder,
            clock,
            _section(cfg, CompactSettings),
        )
        self.curator = Curator(self.store, self.folder, self.compactor, clock)
        self.topic_reader = TopicReader(
            self.store,
            clock,
            base_half_life=cfg.base_half_life,
            least=cfg.recent_message_keep,
            most=cfg.max_messages_per_topic,
        )

    def _wire_facts(self, cfg: MemoryConfig, clock: Clock) -> None:
        self.facts = FactKeeper(
            self.store,
            _make_extractor(self.llm, cfg, self._redact_for_llm),
            _make_extractor(None, cfg, None),
            clock,
            _section(cfg, FactSettings),
        )
        self.fact_editor = FactEditor(self.store, self.facts, clock)
        self.replayer = Replayer(
            self.store, self.facts, self.fact_editor, clock, batch_turns=cfg.facts_batch_turns
        )

    def _wire_conversations(self, cfg: MemoryConfig, clock: Clock) -> None:
        # The rules' patterns take a tenth of a second to compile, which importing the package must not cost.
        from memory_agent.context.gather import ContextReader, ContextSettings
        from memory_agent.conversations.compress import Compressor, CompressSettings
        from memory_agent.digest.cache import LiveThreads
        from memory_agent.text.code.detect import CodeRules

        self.sessions = SessionKeeper(self.store, clock, _section(cfg, SessionRules))
        code = CodeRules(patterns=cfg.code_patterns, priorities=cfg.code_language_priorities)
        self.live = LiveThreads(code, max_threads=cfg.max_live_threads)
        self.compressor = Compressor(
            self.store,
            _make_conversation_summarizer(self.summary_llm, cfg, self._redact_for_llm),
            self.live,
            lambda scope, through: self.facts.read(scope, through=through),
            clock,
            self.counter,
            _section(cfg, CompressSettings),
            code,
        )
        self.contexts = ContextReader(
            self.store,
            self.searcher,
            self.residents,
            self.spotter,
            self.compressor,
            lambda scope, as_of: self.facts.read(scope, as_of=as_of),
            self.counter,
            _section(cfg, ContextSettings, max_recollections=_recollections_in_a_prompt(cfg)),
        )

    def extractor_of(self, model: str, stack: contextlib.AsyncExitStack) -> FactExtractor:
        """An extractor by another chat model of the configured server, closed with `stack`.

        Raises InvalidInput without a server.
        """
        llm = make_llm(self._cfg, model, stack)
        if llm is None:
            raise InvalidInput(
                f"model is {model!r:.80}, and no server is configured to ask; set openai_api_key or openai_base_url"
            )
        return _make_extractor(llm, self._cfg, self._redact_for_llm)

    def chat_llm(self, stack: contextlib.AsyncExitStack) -> LLM | None:
        """The model that people talk with, closed with `stack`; None without a server."""
        model = self._cfg.chat_model
        return self.llm if model is None else make_llm(self._cfg, model, stack)

    @property
    def _redact_for_llm(self) -> Redactor | None:
        return self.redact if self._cfg.redact_before_llm else None

    def _drop_caches(self, user_id: str) -> None:
        self.live.drop(user_id)
        self.residents.drop(user_id)
        self.searcher.clear_cache()
        self.embedder.clear_cache()
        clear_stems()

    def housekeep(self) -> None:
        """What is kept of texts in memory leaves it in time, also of turns that another process forgot."""
        self.residents.drop_idle()
        self.live.clear()
        self.searcher.clear_cache()
        self.embedder.clear_cache()
        clear_stems()


def _section(cfg: MemoryConfig, kind: type[Section], **more: Any) -> Section:
    """A part's own settings, which are called as they are in `cfg`; `more`: those that are not in it."""
    names = [field.name for field in fields(cast("Any", kind)) if field.name not in more]
    return kind(**more, **{name: getattr(cfg, name) for name in names})


def _embedded_folders(cfg: MemoryConfig, given: Given) -> list[Path]:
    """The folders that only one process may use at a time."""
    sqlite = given.store is None and given.mongo_client is None and cfg.mongo_uri is None
    chroma = given.vectors is None and cfg.chroma_host is None
    folders = [cfg.data_dir] if sqlite or chroma else []
    if chroma and not cfg.chroma_db_dir.resolve().is_relative_to(cfg.data_dir.resolve()):
        folders.append(cfg.chroma_db_dir)
    return folders


def _recollections_in_a_prompt(cfg: MemoryConfig) -> int:
    """At most: `top_k_memories` where somebody set it; its default is for a search, which lists fewer than a prompt holds."""
    from memory_agent.context.assemble import MOST_RECOLLECTIONS

    return cfg.top_k_memories if "top_k_memories" in cfg.model_fields_set else MOST_RECOLLECTIONS


def _make_spotter(cfg: MemoryConfig) -> EntitySpotter:
    from memory_agent.search.entity_linking import EntitySpotter

    return EntitySpotter(_load_dictionary(cfg), load_finder(cfg))


def _load_dictionary(cfg: MemoryConfig) -> EntityDictionary:
    """The dictionary of entities: the one that the settings name, else the working directory's, else the shipped one.

    Raises ConfigError if it is wrong.
    """
    from memory_agent.models.entities import SHIPPED_ENTITIES, load_entities

    own = cfg.entities_file or (_ENTITIES_FILE if _ENTITIES_FILE.is_file() else None)
    return load_entities(own.expanduser() if own else SHIPPED_ENTITIES)


async def _look_for_model(embedder: Embedder, cfg: MemoryConfig) -> None:
    """Read the model's files once: collections and search rows are marked with whose vectors they hold.

    Without any, what is remembered meanwhile is embedded as soon as there is one. A folder that does not exist will not
    turn up, so that is raised.
    """
    try:
        await asyncio.to_thread(lambda: embedder.fingerprint)
    except ModelNotFound as exc:
        if cfg.local_embedding_model.startswith(("/", ".", "~")):
            raise
        log.warning("starting without an embedding model, which is looked for again: %s", exc)


def _make_summarizer(llm: LLM | None, cfg: MemoryConfig, redact: Redactor | None) -> Summarizer:
    if llm is not None:
        return LLMSummarizer(llm, max_tokens=cfg.summary_max_tokens, redact=redact)
    from memory_agent.text.extractive_summary import SUMMARY_VERSION, extractive_summary

    return ExtractiveSummarizer(extractive_summary, version=SUMMARY_VERSION)


def _make_extractor(llm: LLM | None, cfg: MemoryConfig, redact: Redactor | None) -> FactExtractor:
    if llm is not None:
        return LLMFactExtractor(llm, max_tokens=cfg.facts_max_tokens, redact=redact)
    from memory_agent.text.patterns import EXTRACTOR_VERSION, extract_facts

    return PatternFactExtractor(extract_facts, version=EXTRACTOR_VERSION)


def _make_conversation_summarizer(
    llm: LLM | None, cfg: MemoryConfig, redact: Redactor | None
) -> ConversationSummarizer:
    from memory_agent.conversations.summary import (
        ExtractiveConversationSummarizer,
        LLMConversationSummarizer,
    )

    if llm is not None:
        return LLMConversationSummarizer(
            llm,
            max_tokens=SUMMARY_TOKENS,
            moments=cfg.importance_by == "llm",
            redact=redact,
        )
    return ExtractiveConversationSummarizer()
