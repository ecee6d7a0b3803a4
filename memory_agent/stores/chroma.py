"""`VectorIndex` on ChromaDB: a Chroma server, or embedded in this process.

Users are spread over `shards` collections by a hash of their id: a collection per user would cost memory without
bound, one for all makes every filtered query slow. A collection's name holds the embedder's fingerprint and the
number of shards, so that another model, or another number of shards, never looks in the wrong place.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import subprocess
import sys
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain import Similar
from memory_agent.errors import (
    ConfigError,
    DataDirInUse,
    NotOpen,
    VectorIndexError,
    VectorIndexUnavailable,
)
from memory_agent.stores.codec import chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import httpx
    import numpy as np
    from chromadb.api.async_fastapi import AsyncFastAPI
    from chromadb.api.collection_configuration import CreateCollectionConfiguration
    from chromadb.api.models.AsyncCollection import AsyncCollection
    from numpy.typing import NDArray
    from pydantic import SecretStr

    from memory_agent.domain import PassageVector, Scope

    Fingerprint = str | Callable[[], str]

log = logging.getLogger(__name__)

_UNAVAILABLE_STATUS: Final = frozenset({401, 403, 408, 425, 429})


@contextmanager
def translated() -> Iterator[None]:
    """Every error that Chroma or its transport can raise, as one of ours."""
    try:
        yield
    except _driver_errors() as exc:
        raise translate(exc) from exc


def translate(exc: Exception) -> VectorIndexError | VectorIndexUnavailable:
    """`exc` of Chroma, httpx or the file system as one of ours: can the same call work later?"""
    import httpx

    detail = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
    if isinstance(exc, chroma_errors().ChromaError):
        status = exc.code()
    elif isinstance(exc, httpx.HTTPStatusError):
        status = exc.response.status_code
        detail = f"HTTP {status}: {exc.response.text[:200]}"
    elif isinstance(
        exc, (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, json.JSONDecodeError)
    ):
        # Nothing of these is the fault of what was asked; an answer that is no JSON comes from a proxy.
        return VectorIndexUnavailable(f"Chroma cannot be reached: {detail}")
    else:
        return VectorIndexError(f"Chroma refused the request: {detail}")
    if status >= 500 or status in _UNAVAILABLE_STATUS:
        return VectorIndexUnavailable(f"Chroma cannot serve the request now: {detail}")
    return VectorIndexError(f"Chroma refused the request: {detail}")


def _driver_errors() -> tuple[type[Exception], ...]:
    import httpx

    return (
        chroma_errors().ChromaError,
        httpx.HTTPError,
        httpx.InvalidURL,
        httpx.StreamError,
        OSError,  # TimeoutError and ConnectionError among them
        ValueError,
        TypeError,
        KeyError,
    )


def chroma_errors() -> Any:
    import chromadb.errors

    return chromadb.errors


async def raise_for_foreign_errors(response: httpx.Response) -> None:
    """Raise for an error that isn't in Chroma's own form, which Chroma's client would turn into a bare Exception."""
    if not response.is_error:
        return
    await response.aread()
    try:
        name = json.loads(response.text).get("error")
    except (ValueError, AttributeError):
        name = None
    if not isinstance(name, str) or name not in chroma_errors().error_types:
        response.raise_for_status()


HNSW: Final[CreateCollectionConfiguration] = {
    "hnsw": {
        "space": "cosine",
        # Measured on 56,000 clustered vectors of 384 numbers in one collection, 50,000 of them the user's: of the true
        # nearest 500 (what search takes as candidates) 1,000 finds 89 % and 2,000 96 %, of the nearest 50 both find
        # all. A query takes 130 ms either way, for the filter costs most. (Chroma's default, 100, finds 92 % of the
        # nearest 50 among 12,000.) More neighbours, 32, find 99.5 % but upserts become several times slower.
        "ef_search": 2_000,
        "ef_construction": 200,
        "max_neighbors": 16,
    }
}

_NAMES_READ: Final = 500
_COLLECTION_NAME: Final = re.compile(
    r"(?P<prefix>.+)_(?P<fingerprint>[a-z0-9]+)_(?P<shard>\d+)of(?P<shards>\d+)"
)

SHARDS: Final = 64
"""Collections that users are spread over. Measured at 5,000 users with 100,000 vectors: one for each user needs 10.5 GB, one for
all takes 167 ms a query, 64 take 3 ms and 0.67 GB."""
MAX_BATCH: Final = 1_000
"""Records per request at most: a query never waits long behind a bulk upsert (0.3 s embedded)."""

_NAME_CHARS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


class ChromaIndex(ABC):
    """Vector index in Chroma, embedded or on a server: collections, records and queries."""

    def __init__(self, *, prefix: str, fingerprint: Fingerprint, shards: int = SHARDS) -> None:
        """`fingerprint`: of the embedder, or a function that gives it once it is known ("" until then)."""
        fixed = fingerprint if isinstance(fingerprint, str) else ""
        if not prefix or not prefix[0].isalnum() or not set(prefix + fixed) <= _NAME_CHARS:
            raise ValueError(f"collection names are of [A-Za-z0-9_-], not {prefix!r} and {fixed!r}")
        if shards < 1:
            raise ValueError(f"shards must be at least 1, not {shards}")
        self._prefix = prefix
        self._fingerprint = fingerprint
        self._shards = shards
        self._collections: dict[str, Any] = {}
        self._losses = 0

    # --- what differs ----------------------------------------------------------------------------------------
    @abstractmethod
    async def _call(self, function: Callable[..., Any], **arguments: Any) -> Any:
        """Call a method of one of Chroma's objects."""

    @abstractmethod
    async def _get_or_create(self, name: str) -> Any:
        """The collection `name`, made if missing."""

    @abstractmethod
    async def _list_collections(self, *, limit: int, offset: int) -> Sequence[Any]:
        """A page of all collections there are."""

    # --- the port --------------------------------------------------------------------------------------------
    @property
    def losses(self) -> int:
        return self._losses

    async def place(self, user_id: str) -> str:
        """The id that Chroma gave the user's collection when it was made."""
        with translated():
            return str((await self._collection(self._known_name(user_id))).id)

    async def upsert(self, user_id: str, passages: Sequence[PassageVector]) -> None:
        records = {_record_id(p.turn_id, p.passage): p for p in passages}  # Chroma refuses doubles
        for ids in chunks(list(records), MAX_BATCH):
            batch = [records[record_id] for record_id in ids]
            texts = [p.text for p in batch]
            await self._on_shard(
                user_id,
                "upsert",
                ids=list(ids),
                embeddings=[p.vector for p in batch],
                metadatas=[_metadata(user_id, passage) for passage in batch],
                documents=None if None in texts else texts,
            )

    async def query(self, scope: Scope, vector: NDArray[np.float32], *, limit: int) -> list[Similar]:
        nearest: dict[str, float] = {}
        asked = 2 * limit
        while limit > 0:
            answer = await self._on_shard(
                scope.user_id,
                "query",
                query_embeddings=[vector],
                n_results=asked,
                where=_where(scope.user_id, scope.thread_id),
                include=["distances"],
            )
            found = list(zip(answer["ids"][0], answer["distances"][0], strict=True))
            for record_id, distance in found:
                turn_id = _turn_id(record_id)
                nearest[turn_id] = min(distance, nearest.get(turn_id, distance))
            # Long turns fill the answer with their passages: ask for more until there are turns enough.
            if len(nearest) >= limit or len(found) < asked:
                break
            asked *= 4
        ranked = sorted(nearest.items(), key=lambda item: (item[1], item[0]))[:limit]
        return [
            Similar(turn_id=turn_id, similarity=min(1.0, max(-1.0, 1.0 - distance)))
            for turn_id, distance in ranked
        ]

    async def delete(self, user_id: str, turn_ids: Sequence[str]) -> int:
        deleted = 0
        for name in await self._collections_of(user_id):
            for chunk in chunks(list(dict.fromkeys(turn_ids)), MAX_BATCH):
                where = {"$and": [{"user_id": user_id}, {"turn_id": {"$in": chunk}}]}
                deleted += (await self._on(name, "delete", where=where))["deleted"]
        return deleted

    async def clear(self, user_id: str) -> None:
        await self._on_shard(user_id, "delete", where=_where(user_id, None))

    async def turn_ids(self, user_id: str, *, searched: bool = False) -> set[str]:
        found: set[str] = set()
        current = self.collection_name(user_id)
        names = [current] if searched and current else await self._collections_of(user_id)
        for name in names:
            records = (await self._on(name, "get", where=_where(user_id, None), include=[]))["ids"]
            found |= {_turn_id(record_id) for record_id in records}
        return found

    # --- collections ------------------------------------------------------------------------------------
    def collection_name(self, user_id: str) -> str:
        """Name of the user's collection, e.g. `memory_ab12cd34ef_17of64`; "" while there is no embedding model."""
        known = self._fingerprint if isinstance(self._fingerprint, str) else self._fingerprint()
        return f"{self._prefix}_{known}_{_shard(user_id, self._shards)}of{self._shards}" if known else ""

    async def _collections_of(self, user_id: str) -> list[str]:
        """Collections that may hold the user's vectors: also those of former models and of another number of shards.

        What is erased must be erased there too.
        """
        mine = [name for name in await self._collection_names() if self._may_hold(name, user_id)]
        current = self.collection_name(user_id)
        return mine if current in mine or not current else [*mine, current]

    async def _collection_names(self) -> list[str]:
        names: list[str] = []
        with translated():
            while page := await self._list_collections(limit=_NAMES_READ, offset=len(names)):
                names += [collection.name for collection in page]
        return names

    def _may_hold(self, name: str, user_id: str) -> bool:
        match = _COLLECTION_NAME.fullmatch(name)
        if match is None or match["prefix"] != self._prefix:
            return False
        return int(match["shard"]) == _shard(user_id, int(match["shards"]))

    def _known_name(self, user_id: str) -> str:
        name = self.collection_name(user_id)
        if not name:
            raise VectorIndexUnavailable("no embedding model was found yet, so no collection is known")
        return name

    async def _on_shard(self, user_id: str, method: str, **arguments: Any) -> Any:
        return await self._on(self._known_name(user_id), method, **arguments)

    async def _on(self, name: str, method: str, **arguments: Any) -> Any:
        with translated():
            try:
                return await self._call(getattr(await self._collection(name), method), **arguments)
            except chroma_errors().NotFoundError:
                # The collection went behind our back (a server restarted on another volume), and so may others have.
                self._collections.clear()
                self._losses += 1
                return await self._call(getattr(await self._collection(name), method), **arguments)

    async def _collection(self, name: str) -> Any:
        if name not in self._collections:
            self._collections[name] = await self._get_or_create(name)
        return self._collections[name]


class ChromaServer(ChromaIndex):
    """A Chroma server over HTTP, for any number of processes."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        ssl: bool = False,
        auth_token: SecretStr | None = None,
        timeout_seconds: float = 10.0,
        prefix: str,
        fingerprint: Fingerprint,
        shards: int = SHARDS,
    ) -> None:
        super().__init__(prefix=prefix, fingerprint=fingerprint, shards=shards)
        self._host, self._port, self._ssl = host, port, ssl
        self._auth_token = auth_token
        self._timeout_seconds = timeout_seconds
        self._api: AsyncFastAPI | None = None
        self._wanted = False
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Let calls connect."""
        self._wanted = True

    async def _connected(self) -> AsyncFastAPI:
        if not self._wanted:
            raise _not_open()
        async with self._opening:
            if self._api is None:
                with translated():
                    self._api = await self._connect()
            return self._api

    async def ping(self) -> None:
        api = await self._connected()
        with translated():
            await api.heartbeat()

    async def close(self) -> None:
        """Release the connection pool."""
        self._wanted = False
        api, self._api = self._api, None
        self._collections.clear()
        if api is not None:
            await api.__aexit__(None, None, None)

    async def _connect(self) -> AsyncFastAPI:
        """A client like `chromadb.AsyncHttpClient`'s, with a connection pool of our own.

        Chroma keeps one pool per event loop for all of its clients: whoever comes first decides headers and
        credentials of everybody, without any timeout and by default without checking certificates.
        """
        import httpx
        from chromadb.api.async_fastapi import AsyncFastAPI
        from chromadb.config import Settings, System

        headers = {}
        if self._auth_token is not None:
            token = self._auth_token.get_secret_value()
            # The first is what proxies in front of Chroma check, the second what Chroma Cloud does.
            headers = {"Authorization": f"Bearer {token}", "X-Chroma-Token": token}
        settings = Settings(
            anonymized_telemetry=False,
            chroma_api_impl="chromadb.api.async_fastapi.AsyncFastAPI",
            chroma_server_host=self._host,
            chroma_server_http_port=self._port,
            chroma_server_ssl_enabled=self._ssl,
            chroma_server_ssl_verify=True,
            chroma_server_headers=headers,
        )
        api: AsyncFastAPI = await asyncio.to_thread(System(settings).instance, AsyncFastAPI)
        api._clients = {}
        http = api._get_client()
        http.timeout = httpx.Timeout(self._timeout_seconds)
        http.event_hooks = {"response": [raise_for_foreign_errors]}
        return api

    async def _call(self, function: Callable[..., Any], **arguments: Any) -> Any:
        return await function(**arguments)

    async def _list_collections(self, *, limit: int, offset: int) -> Sequence[Any]:
        api = await self._connected()
        return await api.list_collections(limit=limit, offset=offset)

    async def _get_or_create(self, name: str) -> AsyncCollection:
        from chromadb.api.models.AsyncCollection import AsyncCollection

        api = await self._connected()
        model = await api.get_or_create_collection(name, configuration=HNSW)
        return AsyncCollection(client=api, model=model, embedding_function=None)


_LOOKED_THROUGH: Final = """
import sys
import chromadb
from chromadb.config import Settings
print("imported", flush=True)
client = chromadb.PersistentClient(sys.argv[1], settings=Settings(anonymized_telemetry=False))
for collection in client.list_collections():
    for vector in collection.get(limit=1, include=["embeddings"])["embeddings"]:
        collection.query(query_embeddings=[vector], n_results=1)
"""
"""A program that reads what is in a folder of Chroma's, which a damaged one fails or ends."""


class EmbeddedChroma(ChromaIndex):
    """Chroma in this process, kept in a folder that one process has at a time; for others it is away."""

    def __init__(
        self,
        path: Path,
        *,
        acquire: Callable[[], None],
        release: Callable[[], None],
        prefix: str,
        fingerprint: Fingerprint,
        shards: int = SHARDS,
    ) -> None:
        """`acquire` takes the folder for this process, or raises DataDirInUse; `release` gives it back."""
        super().__init__(prefix=prefix, fingerprint=fingerprint, shards=shards)
        self._path = path
        self._acquire, self._release = acquire, release
        self._client: Any = None
        self._executor: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        """Let calls open the folder."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chroma")

    async def ping(self) -> None:
        await self._connected()

    async def close(self) -> None:
        """Finish the call in hand and release the folder."""
        executor, self._executor = self._executor, None
        self._collections.clear()
        if executor is not None:
            loop = asyncio.get_running_loop()
            with translated():
                await loop.run_in_executor(executor, self._disconnect)
            executor.shutdown()

    async def _connected(self) -> Any:
        if self._client is None:
            try:
                with translated():
                    await self._call(self._connect)
            except (VectorIndexError, VectorIndexUnavailable) as exc:
                # Whatever is wrong with the folder is for an operator to mend.
                raise VectorIndexUnavailable(f"no Chroma can be opened in {self._path}: {exc}") from exc
        return self._client

    def _connect(self) -> None:
        if self._client is not None:  # by a call that was before us in this one thread
            return
        try:
            self._acquire()
        except (ConfigError, DataDirInUse) as exc:
            raise VectorIndexUnavailable(str(exc)) from exc
        try:
            self._client = self._opened()
        except BaseException:
            self._release()
            raise

    def _opened(self) -> Any:
        if (self._path / "chroma.sqlite3").exists() and (damage := self._damage()):
            self._put_aside(damage)
        import chromadb
        from chromadb.config import Settings

        try:
            return chromadb.PersistentClient(self._path, settings=Settings(anonymized_telemetry=False))
        except AttributeError as exc:  # asked again, it trips over stopping what it could not start
            raise VectorIndexError(f"Chroma cannot read what is there: {exc.__context__}") from exc

    def _damage(self) -> str:
        """What keeps the folder from being read, "" for nothing. Another process tries it: it may crash."""
        command = [sys.executable, "-c", _LOOKED_THROUGH, str(self._path)]
        tried = subprocess.run(  # noqa: S603 - our own program
            command, capture_output=True, text=True, errors="replace", check=False
        )
        told = (tried.stderr.strip().splitlines() or [f"it ended with {tried.returncode}"])[-1]
        if tried.returncode == 0:
            return ""
        if "imported" not in tried.stdout:
            raise VectorIndexError(f"chromadb cannot be loaded: {told}")
        files = [self._path, *self._path.rglob("*")]
        if not all(os.access(file, os.R_OK | os.W_OK) for file in files):
            raise VectorIndexUnavailable(f"files in it may not be read or written: {told}")
        return told[:300]

    def _put_aside(self, damage: str) -> None:
        aside = self._path / f"damaged-{datetime.now(UTC):%Y-%m-%dT%H%M%S}"
        aside.mkdir()
        for file in self._path.iterdir():
            if file != aside and not file.name.startswith((".lock", "damaged-")):
                file.rename(aside / file.name)
        log.warning(
            "the Chroma in %s cannot be read (%s): its files are kept in %s, and it is made anew from the search rows",
            self._path,
            damage,
            aside.name,
        )

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
            self._release()

    async def _call(self, function: Callable[..., Any], **arguments: Any) -> Any:
        if self._executor is None:
            raise _not_open()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, partial(function, **arguments))

    async def _list_collections(self, *, limit: int, offset: int) -> Sequence[Any]:
        client = await self._connected()
        found: Sequence[Any] = await self._call(client.list_collections, limit=limit, offset=offset)
        return found

    async def _get_or_create(self, name: str) -> Any:
        client = await self._connected()
        return await self._call(
            client.get_or_create_collection, name=name, configuration=HNSW, embedding_function=None
        )


# --- records -------------------------------------------------------------------------------------------------
def _shard(user_id: str, shards: int) -> int:
    digest = hashlib.blake2b(user_id.encode(), digest_size=8, person=b"vector-shard").digest()
    return int.from_bytes(digest, "big") % shards


def _record_id(turn_id: str, passage: int) -> str:
    """The turn's own id; that of a further passage of a long turn has its number behind it."""
    return f"{turn_id}#{passage}" if passage or "#" in turn_id else turn_id


def _turn_id(record_id: str) -> str:
    return record_id.rpartition("#")[0] or record_id


def _metadata(user_id: str, passage: PassageVector) -> dict[str, Any]:
    at = passage.timestamp.astimezone(UTC)
    return {
        "user_id": user_id,
        "thread_id": passage.thread_id,
        "turn_id": passage.turn_id,
        "role": passage.role,
        "timestamp": at.isoformat(),
        # Chroma compares numbers alone by more and less.
        "epoch": at.timestamp(),
    }


def _where(user_id: str, thread_id: str | None) -> dict[str, Any]:
    if thread_id is None:
        return {"user_id": user_id}
    return {"$and": [{"user_id": user_id}, {"thread_id": thread_id}]}


def _not_open() -> NotOpen:
    return NotOpen("the vector index is not open; call open() first")
