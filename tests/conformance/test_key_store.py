"""What every KeyStore must do: keep keys as they were put, find them wherever they were made, and revoke them once."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_agent.domain import ApiKey, new_id
from memory_agent.errors import NotOpen, StoreError
from memory_agent.keys import matches, new_key, read_token
from memory_agent.ports import KeyStore
from memory_agent.stores.mongo.meta import MongoKeys
from memory_agent.stores.sqlite.meta import SqliteKeys
from tests.conformance.stores import EVERY_SERVER, Stores
from tests.servers.mongod import Mongod

from .values import NOW

HOUR = timedelta(hours=1)
HOSTILE = (
    *(
        "'; DROP TABLE api_keys; --", '"quoted" \\', "$where", "$revoked_at", "a.b", '{"$ne": null}', "%", "_", "*",
    ),
    *("nul\0inside", "é e\u0301 海 👩‍👩‍👧‍👦 \u202bשלום", "x" * 512, " ", ""),
)  # fmt: skip
FULL: dict[str, Any] = {
    "secret_hash": "f" * 64,
    "user_id": "$user.é 'x' \"y\"",
    "read_only": True,
    "label": "“Web shop” $set.a \0",
    "expires_at": datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    "revoked_at": NOW,
    "requests_per_minute": 1,
    "max_body_bytes": 2**53,
}
"""Every field of a key that may be left out, with what a store might not give back as it was."""


class KeyStores(Stores):
    """Opens stores of keys of one adapter on one database, and closes them with their clients."""

    SQLITE: Any = SqliteKeys
    MONGO: Any = MongoKeys


_SERVERS = {"mongodb": "mongod", "mongodb-motor": "mongod", "mongodb-standalone": "mongod_standalone"}


@pytest.fixture(params=EVERY_SERVER)
async def stores(request: pytest.FixtureRequest, tmp_path: Path, db_name: str) -> AsyncIterator[KeyStores]:
    """One new database for each adapter; its server is started by the first test that needs it."""
    adapter: str = request.param
    server: Mongod | None = request.getfixturevalue(_SERVERS[adapter]) if adapter in _SERVERS else None
    made = KeyStores(adapter, folder=tmp_path, db_name=db_name, uri=server.uri if server else None)
    yield made
    await made.close()


@pytest.fixture
async def store(stores: KeyStores) -> KeyStore:
    """An open, empty store."""
    store: KeyStore = await stores.open()
    return store


def a_key(key_id: str | None = None, *, tenant: str = "acme", hours: int = 0, **fields: Any) -> ApiKey:
    """A key made `hours` after NOW; `fields` are those of ApiKey."""
    values: dict[str, Any] = {"secret_hash": "0a" * 32, "created_at": NOW + hours * HOUR, **fields}
    return ApiKey(id=key_id if key_id is not None else new_id(), tenant=tenant, **values)


async def ids_of(store: KeyStore, tenant: str | None = None) -> list[str]:
    return [key.id for key in await store.list(tenant)]


# --- putting and finding -------------------------------------------------------------------------------------


async def test_gives_every_field_back(stores: KeyStores) -> None:
    """A key is found and listed as it was put, whether its fields are full or left out, also by a store opened anew."""
    store = await stores.open()
    full, empty = a_key("full", **FULL), a_key("plain", hours=1)
    made, token = new_key("acme", label="Web shop", expires_at=NOW + HOUR * 3, now=NOW + HOUR * 2)
    for key in (full, empty, made):
        await store.put(key)
        assert await store.find(key.id) == key
    await store.close()
    assert list(await (await stores.open()).list()) == [full, empty, made]
    # Its token, and no other, matches.
    for given, matching in ((token, True), (new_key("acme", now=NOW)[1], False)):
        parsed = read_token(given)
        assert parsed is not None
        assert matches(made, parsed[1]) == matching


async def test_hostile_values_come_back_unchanged(store: KeyStore) -> None:
    """No text in an id, a tenant, a user or a label is read as anything but text; nor is one that is asked for."""
    keys = [
        a_key(text or "empty", tenant=text, user_id=text, label=text, hours=n)
        for n, text in enumerate(HOSTILE)
    ]
    for n, key in enumerate(keys):
        for text in (*HOSTILE[n:], "empt", "emptyy", "EMPTY", "empty "):
            assert await store.find(text) is None
            assert not await store.revoke(text, NOW)
        await store.put(key)
    assert list(await store.list()) == keys
    for key in keys:
        assert await store.find(key.id) == key
        assert list(await store.list(key.tenant)) == [key]
        assert await store.revoke(key.id, NOW)
        assert await store.find(key.id) == replace(key, revoked_at=NOW)


async def test_id_is_given_once(store: KeyStore) -> None:
    """A second key of an id is refused by name, and the first stays as it is, revoked or not."""
    key = a_key("taken")
    await store.put(key)
    await store.revoke("taken", NOW)
    for again in (key, a_key("taken", tenant="other", label="new")):
        with pytest.raises(StoreError, match="'taken'"):
            await store.put(again)
    assert list(await store.list()) == [replace(key, revoked_at=NOW)]


# --- listing -------------------------------------------------------------------------------------------------


async def test_lists_by_creation_then_id(store: KeyStore) -> None:
    """The order is that of `created_at`, and of the id where that is the same; tenants whose names are alike apart."""
    assert list(await store.list()) == []
    for key_id, tenant, hours in (
        *(("d", "acme", 0), ("b", "acme", 5), ("a", "acme-2", 5)),
        *(("c", "acm", 1), ("e", "acme", -1)),
    ):
        await store.put(a_key(key_id, tenant=tenant, hours=hours))
    assert await ids_of(store) == ["e", "d", "c", "a", "b"]
    assert await ids_of(store, "acme") == ["e", "d", "b"]
    assert await ids_of(store, "acm") == ["c"]
    assert await ids_of(store, "nobody") == []


# --- revoking ------------------------------------------------------------------------------------------------


async def test_revoked_key_keeps_its_first_time(store: KeyStore) -> None:
    """A repeat says that the key is there, and changes nothing, whether its time is earlier or later."""
    key = a_key("abc")
    await store.put(key)
    await store.put(a_key("other"))
    assert await store.revoke("abc", NOW)
    for again in (NOW + HOUR, NOW - HOUR):
        assert await store.revoke("abc", again)
    assert await store.find("abc") == replace(key, revoked_at=NOW)
    other = await store.find("other")
    assert other is not None
    assert other.revoked_at is None


async def test_of_many_who_revoke_at_once_one_counts(stores: KeyStores) -> None:
    """All are told that the key is there, and its time is one of theirs and stays."""
    one, two = await stores.open(), await stores.open()
    await one.put(a_key("abc"))
    times = [NOW + n * HOUR for n in range(10)]
    revoking = [(one, two)[n % 2].revoke("abc", time) for n, time in enumerate(times)]
    assert all(await asyncio.gather(*revoking))
    found = await one.find("abc")
    assert found is not None
    assert found.revoked_at in times
    assert await two.find("abc") == found


# --- several at once -----------------------------------------------------------------------------------------


async def test_stores_open_and_put_at_once(stores: KeyStores) -> None:
    """Several that open a new database at the same moment all succeed, and lose nothing that any of them puts.

    Of two that put one id exactly one is stored; what one puts or revokes, another finds at once.
    """
    opened = [stores.make() for _ in range(5)]
    await asyncio.gather(*(store.open() for store in opened))
    one, two = opened[:2]
    assert await two.find("same") is None
    ours, theirs = a_key("same", label="ours", hours=-2), a_key("same", label="theirs", hours=-2)
    results = await asyncio.gather(one.put(ours), two.put(theirs), return_exceptions=True)
    assert [isinstance(result, StoreError) for result in results].count(True) == 1
    first = ours if results[0] is None else theirs
    assert await one.find("same") == await two.find("same") == first
    await two.revoke("same", NOW)
    keys = [a_key(hours=n) for n in range(30)]
    await asyncio.gather(*(opened[n % 5].put(key) for n, key in enumerate(keys)))
    for store in opened:
        assert list(await store.list()) == [replace(first, revoked_at=NOW), *keys]


# --- opening and closing -------------------------------------------------------------------------------------


async def test_open_and_close_may_be_repeated(stores: KeyStores) -> None:
    """A second call of either does nothing; while it is closed every call raises NotOpen, and names the store."""
    store = stores.make()
    for calls in (0, 2):
        for _ in range(calls):
            await store.open()
        if calls:
            await store.put(a_key("abc"))
        for _ in range(2):
            await store.close()
        for call in (store.put(a_key()), store.find("a"), store.list(), store.revoke("a", NOW)):
            with pytest.raises(NotOpen, match=type(store).__name__):
                await call
    await store.open()
    assert await ids_of(store) == ["abc"]
