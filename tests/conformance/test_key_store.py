"""What every KeyStore must do: keep keys as they were put, find them wherever they were made, and revoke them once."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_agent.domain import ApiKey, new_id
from memory_agent.errors import NotOpen, StoreError
from memory_agent.keys import matches, new_key, read_token
from memory_agent.ports import KeyStore
from memory_agent.stores.mongo.keys import MongoKeys
from memory_agent.stores.sqlite.keys import SqliteKeys
from tests.conformance.stores import NOW, TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.servers.mongod import Mongod

ADAPTERS = ("sqlite", "mongodb", "mongodb-motor", "mongodb-standalone")
HOUR = timedelta(hours=1)
HOSTILE = (
    "'; DROP TABLE api_keys; --",
    '"quoted" \\',
    "$where",
    "$revoked_at",
    "a.b",
    '{"$ne": null}',
    "%",
    "_",
    "*",
    "nul\0inside",
    "é e\u0301 海 👩‍👩‍👧‍👦 \u202bשלום",
    "x" * 512,
    " ",
    "",
)
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


class KeyStores:
    """Opens stores of one adapter on one database, and closes them with their clients."""

    def __init__(self, adapter: str, *, folder: Path, db_name: str, uri: str | None) -> None:
        self._adapter = adapter
        self._path = folder / "deep" / "keys.sqlite3"
        self._db_name = db_name
        self._uri = uri
        self._stack = AsyncExitStack()

    async def open(self) -> KeyStore:
        store = self.make()
        await store.open()
        return store

    def make(self) -> KeyStore:
        """One that is not open yet; it is closed at the end."""
        store: KeyStore
        if self._uri is None:
            store = SqliteKeys(self._path, timeout_seconds=TIMEOUT_SECONDS)
        else:
            client: Any = self._uri
            if self._adapter == "mongodb-motor":
                from motor.motor_asyncio import AsyncIOMotorClient

                client = AsyncIOMotorClient(self._uri)
                self._stack.callback(client.close)
            store = MongoKeys(client, self._db_name, timeout_seconds=TIMEOUT_SECONDS)
        self._stack.push_async_callback(store.close)
        return store

    async def close(self) -> None:
        await self._stack.aclose()


_SERVERS = {"mongodb": "mongod", "mongodb-motor": "mongod", "mongodb-standalone": "mongod_standalone"}


@pytest.fixture(params=ADAPTERS)
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
    return await stores.open()


def a_key(key_id: str | None = None, *, tenant: str = "acme", hours: int = 0, **fields: Any) -> ApiKey:
    """A key made `hours` after NOW; `fields` are those of ApiKey."""
    values: dict[str, Any] = {"secret_hash": "0a" * 32, "created_at": NOW + hours * HOUR, **fields}
    return ApiKey(id=key_id if key_id is not None else new_id(), tenant=tenant, **values)


async def ids_of(store: KeyStore, tenant: str | None = None) -> list[str]:
    return [key.id for key in await store.list(tenant)]


# --- putting and finding -------------------------------------------------------------------------------------


async def test_gives_every_field_back(store: KeyStore) -> None:
    """A key is found and listed as it was put, whether its fields are full or left out."""
    full, empty = a_key("full", **FULL), a_key("plain", hours=1)
    for key in (full, empty):
        await store.put(key)
        assert await store.find(key.id) == key
    assert list(await store.list()) == [full, empty]


async def test_made_key_is_found_by_its_token(store: KeyStore) -> None:
    """What `new_key` makes comes back such that its token, and no other, matches."""
    key, token = new_key("acme", label="Web shop", expires_at=NOW + HOUR, now=NOW)
    _, other = new_key("acme", now=NOW)
    await store.put(key)
    parsed = read_token(token)
    assert parsed is not None
    found = await store.find(parsed[0])
    assert found == key
    assert matches(found, parsed[1])
    wrong = read_token(other)
    assert wrong is not None
    assert not matches(found, wrong[1])


async def test_unknown_id_is_none(store: KeyStore) -> None:
    """Whatever is asked for, hostile or close to an id, finds no other key."""
    await store.put(a_key("abc"))
    for unknown in (*HOSTILE, "ab", "abcd", "ABC", "abc ", "acme"):
        assert await store.find(unknown) is None
        assert not await store.revoke(unknown, NOW)
    assert (await store.list())[0].revoked_at is None


async def test_hostile_values_come_back_unchanged(store: KeyStore) -> None:
    """No text in an id, a tenant, a user or a label is read as anything but text."""
    keys = [
        a_key(text or "empty", tenant=text, user_id=text, label=text, hours=n)
        for n, text in enumerate(HOSTILE)
    ]
    for key in keys:
        await store.put(key)
    assert list(await store.list()) == keys
    for key in keys:
        assert await store.find(key.id) == key
        assert list(await store.list(key.tenant)) == [key]
        assert await store.revoke(key.id, NOW)
        assert await store.find(key.id) == replace(key, revoked_at=NOW)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_key_comes_back_unchanged(stores_run: Callable[[ApiKey], ApiKey | None], data: Any) -> None:
    """Over all values that a key may have, what is found is what was put."""
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
    counts = st.none() | st.integers(1, 10**12)
    times = st.none() | st.datetimes(timezones=st.just(UTC)).map(
        lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)
    )
    key = a_key(
        tenant=data.draw(text),
        user_id=data.draw(st.none() | text),
        label=data.draw(text),
        read_only=data.draw(st.booleans()),
        expires_at=data.draw(times),
        revoked_at=data.draw(times),
        requests_per_minute=data.draw(counts),
        max_body_bytes=data.draw(counts),
    )
    assert stores_run(key) == key


@pytest.fixture(params=("sqlite", "mongodb"))
def stores_run(
    request: pytest.FixtureRequest, tmp_path: Path, db_name: str
) -> Callable[[ApiKey], ApiKey | None]:
    """Puts a key into a store that is opened for it, and finds it in another one."""
    adapter: str = request.param
    uri = request.getfixturevalue("mongod").uri if adapter == "mongodb" else None

    async def through(key: ApiKey) -> ApiKey | None:
        stores = KeyStores(adapter, folder=tmp_path, db_name=db_name, uri=uri)
        try:
            await (await stores.open()).put(key)
            return await (await stores.open()).find(key.id)
        finally:
            await stores.close()

    return lambda key: asyncio.run(through(key))


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
    """The order is that of `created_at`, and of the id where that is the same, whatever was put first."""
    assert list(await store.list()) == []
    for key_id, hours in (("d", 0), ("b", 5), ("a", 5), ("c", 1)):
        await store.put(a_key(key_id, hours=hours))
    assert await ids_of(store) == ["d", "c", "a", "b"]


async def test_lists_a_tenant_s_alone(store: KeyStore) -> None:
    """Tenants whose names are alike are told apart, and the order is the same as over all."""
    for number, tenant in enumerate(["acme", "acme-2", "acm", "acme", "default"]):
        await store.put(a_key(f"k{number}", tenant=tenant, hours=-number))
    assert await ids_of(store, "acme") == ["k3", "k0"]
    assert await ids_of(store, "acm") == ["k2"]
    assert await ids_of(store, "nobody") == []
    assert await ids_of(store) == ["k4", "k3", "k2", "k1", "k0"]


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


async def test_two_stores_see_each_other_s_keys(stores: KeyStores) -> None:
    """What one puts or revokes, another on the same database finds at once, though it has asked before."""
    one, two = await stores.open(), await stores.open()
    key = a_key("abc")
    assert await two.find("abc") is None
    await one.put(key)
    assert await two.find("abc") == key
    await two.revoke("abc", NOW)
    assert await one.find("abc") == replace(key, revoked_at=NOW)
    await two.put(a_key("xyz", hours=1))
    assert await ids_of(one) == await ids_of(two) == ["abc", "xyz"]


async def test_stores_open_and_put_at_once(stores: KeyStores) -> None:
    """Several that open a new database at the same moment all succeed, and lose nothing that any of them puts."""
    opened = [stores.make() for _ in range(5)]
    await asyncio.gather(*(store.open() for store in opened))
    keys = [a_key(hours=n) for n in range(30)]
    await asyncio.gather(*(opened[n % 5].put(key) for n, key in enumerate(keys)))
    for store in opened:
        assert list(await store.list()) == keys


async def test_of_two_that_put_an_id_at_once_one_is_refused(stores: KeyStores) -> None:
    """Exactly one of them is stored, and the other call says so."""
    one, two = await stores.open(), await stores.open()
    ours, theirs = a_key("same", label="ours"), a_key("same", label="theirs")
    results = await asyncio.gather(one.put(ours), two.put(theirs), return_exceptions=True)
    refused = [result for result in results if isinstance(result, StoreError)]
    assert len(refused) == 1
    assert list(await one.list()) == [ours if results[0] is None else theirs]


# --- opening and closing -------------------------------------------------------------------------------------


async def test_keys_outlive_the_store(stores: KeyStores) -> None:
    """They are there when the database is opened anew."""
    store = await stores.open()
    await store.put(a_key("abc", **FULL))
    await store.close()
    assert await (await stores.open()).find("abc") == a_key("abc", **FULL)


async def test_open_and_close_may_be_repeated(stores: KeyStores) -> None:
    """A second call of either does nothing, and a closed store can be opened again."""
    store = stores.make()
    await store.close()
    await store.open()
    await store.open()
    await store.put(a_key("abc"))
    await store.close()
    await store.close()
    await store.open()
    assert await ids_of(store) == ["abc"]


async def test_closed_store_says_that_it_is_not_open(stores: KeyStores) -> None:
    """Before `open` and after `close` every call raises NotOpen, and names the store."""
    store = stores.make()
    for opens in (False, True):
        if opens:
            await store.open()
            await store.close()
        for call in (store.put(a_key()), store.find("a"), store.list(), store.revoke("a", NOW)):
            with pytest.raises(NotOpen, match=type(store).__name__):
                await call


def test_adapters_have_the_port_s_methods() -> None:
    """Nothing of the port is missing from any."""
    assert issubclass(SqliteKeys, KeyStore)
    assert issubclass(MongoKeys, KeyStore)
