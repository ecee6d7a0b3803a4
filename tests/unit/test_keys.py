"""API keys without a store: tokens made, read and compared, and how long a key may be used."""

import dataclasses
import hashlib
import string
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import ApiKey
from memory_agent.errors import InvalidInput
from memory_agent.keys import (
    DUMMY,
    MAX_LIMIT,
    is_proof,
    matches,
    new_key,
    new_nonce,
    proof_of,
    read_id,
    read_token,
    state_of,
    why_invalid,
)

NOW = datetime(2027, 1, 31, 18, 30, 5, 123_000, tzinfo=UTC)
MOMENT = timedelta(milliseconds=1)
ALPHABET = set(string.ascii_lowercase + "234567")
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30).filter(
    lambda text: any(c.isalnum() for c in text)
)
limits = st.none() | st.integers(1, MAX_LIMIT)


def made(**fields: Any) -> tuple[ApiKey, str, str]:
    key, token = new_key(fields.pop("tenant", "acme"), now=fields.pop("now", NOW), **fields)
    parsed = read_token(token)
    assert parsed is not None
    return key, token, parsed[1]


# --- tokens --------------------------------------------------------------------------------------------------
@given(
    user_id=st.none() | names,
    label=st.just("") | names,
    read_only=st.booleans(),
    requests=limits,
    size=limits,
)
def test_token_of_a_new_key_is_read_and_matches(
    user_id: str | None, label: str, read_only: bool, requests: int | None, size: int | None
) -> None:
    key, token = new_key(
        "acme",
        user_id=user_id,
        label=label,
        read_only=read_only,
        requests_per_minute=requests,
        max_body_bytes=size,
        now=NOW,
    )
    parsed = read_token(token)
    assert parsed is not None
    key_id, secret = parsed
    assert key_id == key.id
    assert matches(key, secret)
    assert not matches(made()[0], secret)
    assert (key.user_id, key.label, key.read_only) == (user_id, label, read_only)
    assert (key.requests_per_minute, key.max_body_bytes) == (requests, size)


@given(data=st.data())
def test_any_changed_character_matches_no_more(data: st.DataObject) -> None:
    key, token, _ = made()
    position = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.sampled_from(sorted(ALPHABET)) | st.characters())
    changed = token[:position] + other + token[position + 1 :]
    parsed = read_token(changed)
    reached = parsed is not None and parsed[0] == key.id and matches(key, parsed[1])
    assert reached == (changed == token)


@given(st.text())
def test_other_text_is_no_token(text: str) -> None:
    """Text that nobody made as a token is refused without an error; a token is neither trimmed nor folded."""
    token = made()[1]
    for other in (text, f"ma_{text}", token.upper(), token.title(), f" {token}", f"{token}\n"):
        assert read_token(other) is None


def test_id_is_read_from_an_id_or_a_token() -> None:
    """Also from a token whose secret was cut short, but from nothing else."""
    key, token, secret = made()
    for text in (key.id, f"ma_{key.id}", token, token[:30]):
        assert read_id(text) == key.id
    for text in ("", "ma_", key.id[:-1], f"{key.id}a", key.id.upper(), secret, f"{key.id} ", f"{key.id}_$"):
        assert read_id(text) is None


# --- secrets -------------------------------------------------------------------------------------------------
def test_nothing_that_is_stored_or_shown_holds_the_secret() -> None:
    """Neither the fields of a key nor its text have the secret; what is stored is its SHA-256."""
    for fields in ({}, {"user_id": "ada", "label": "Web shop", "expires_at": NOW + MOMENT}):
        key, token, secret = made(**fields)
        shown = [repr(key), str(key), f"{key}", *map(str, dataclasses.astuple(key))]
        assert not any(secret in text or token in text for text in shown)
        assert key.secret_hash == hashlib.sha256(secret.encode()).hexdigest()


def test_neither_the_hash_is_a_secret_nor_does_a_damaged_one_match() -> None:
    """Whoever has read the store can't use what stands there."""
    key, _, secret = made()
    assert not matches(key, key.secret_hash)
    for damaged in ("", "é", "\ud800", key.secret_hash[:-1], key.secret_hash.upper() + "0"):
        assert not matches(dataclasses.replace(key, secret_hash=damaged), secret)


@given(st.text())
def test_any_other_secret_does_not_match_and_the_dummy_matches_none(text: str) -> None:
    """Also one that no store could encode is compared without an error; the dummy takes as long, and is never valid."""
    key, _, secret = made()
    assert not matches(key, text)
    assert not matches(DUMMY, text)
    assert not matches(DUMMY, secret)
    assert len(DUMMY.secret_hash) == len(key.secret_hash)
    assert why_invalid(DUMMY, NOW)
    assert why_invalid(DUMMY, datetime(1, 1, 1, tzinfo=UTC))


# --- how long ------------------------------------------------------------------------------------------------


EXPIRED, REVOKED = "expired on 2027-01-31 at 19:30 UTC", "was revoked on 2027-01-31 at 18:30 UTC"
HOUR = timedelta(hours=1)


def test_a_key_is_valid_until_it_expires_on_the_millisecond_or_is_revoked() -> None:
    """Once revoked whatever the clock says, which may be behind; and that is said rather than that it expired."""
    day = timedelta(days=1)
    for expires, revoked, times, state, why in (
        (None, None, (timedelta(0), 36_500 * day), "valid", None),
        (HOUR, None, (HOUR - MOMENT,), "valid", None),
        (HOUR, None, (HOUR, day), "expired", EXPIRED),
        (HOUR, NOW, (-HOUR, timedelta(0), day), "revoked", REVOKED),
    ):
        key = dataclasses.replace(made(expires_at=expires and NOW + expires)[0], revoked_at=revoked)
        for later in times:
            assert (why_invalid(key, NOW + later) is None) is (state == "valid")
            assert (state_of(key, NOW + later), why_invalid(key, NOW + later)) == (state, why)


# --- what is refused -----------------------------------------------------------------------------------------


NO_KEYS: list[tuple[dict[str, Any], str]] = [
    ({"tenant": "Acme"}, "tenant is 'Acme'"),
    ({"tenant": "a\x1fb"}, "tenant is"),
    ({"tenant": None}, "tenant is None"),
    ({"user_id": ""}, "user_id is empty"),
    ({"user_id": "a\x1fb"}, "user_id has the control character"),
    ({"user_id": "x" * 513}, "user_id has 513 characters"),
    ({"label": " "}, "label is empty"),
    ({"label": "two\nlines"}, "label has the control character"),
    ({"label": "\ud800"}, "label has a lone surrogate"),
    ({"read_only": "no"}, "read_only is 'no'; pass True or False"),
    ({"expires_at": NOW}, "expires_at 2027-01-31T18:30:05.123000[+]00:00 is past"),
    ({"expires_at": NOW + MOMENT / 2}, "is past"),
    ({"expires_at": datetime(2030, 1, 1)}, "expires_at .* has no time zone"),  # noqa: DTZ001
    ({"expires_at": "2030-01-01"}, "expires_at must be a datetime"),
    ({"now": datetime(2030, 1, 1)}, "now .* has no time zone"),  # noqa: DTZ001
    *(
        ({name: value}, f"{name} is .*; pass a whole number from 1 to 1,000,000,000,000")
        for name in ("requests_per_minute", "max_body_bytes")
        for value in (0, -1, 1.5, "60", True, MAX_LIMIT + 1, float("inf"))
    ),
]


def test_what_can_be_no_key_is_refused_by_name() -> None:
    for fields, message in NO_KEYS:
        with pytest.raises(InvalidInput, match=message):
            made(**fields)


# --- proofs --------------------------------------------------------------------------------------------------
def test_only_who_knows_the_key_can_prove_it_for_each_nonce_anew() -> None:
    key, token, secret = made()
    other, others_token, _ = made()
    nonce, later = new_nonce(), new_nonce()
    proof = proof_of(key, nonce)
    assert is_proof(proof, token, nonce)
    assert not is_proof(proof, token, later)
    assert not is_proof(proof, others_token, nonce)
    assert not is_proof(proof_of(other, nonce), token, nonce)
    assert not is_proof("ü", token, nonce)
    assert not is_proof(proof, "no token", nonce)
    assert secret not in proof
    assert key.secret_hash not in proof
